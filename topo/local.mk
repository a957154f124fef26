# Names the files of topo.
librondo_core_la_SOURCES += topo/cost.c
librondo_core_la_SOURCES += topo/cycle.c
librondo_core_la_SOURCES += topo/decimal.h topo/decimal.c
librondo_core_la_SOURCES += topo/find.h
librondo_core_la_SOURCES += topo/fold.c
librondo_core_la_SOURCES += topo/gid.c
librondo_core_la_SOURCES += topo/gid.h
librondo_core_la_SOURCES += topo/groups.c
librondo_core_la_SOURCES += topo/hwloc.c
if HAVE_HWLOC
librondo_core_la_SOURCES += topo/hwloc_build.h
librondo_core_la_SOURCES += topo/hwloc_gpus.c
librondo_core_la_SOURCES += topo/hwloc_nics.c
librondo_core_la_SOURCES += topo/hwloc_places.c
endif
librondo_core_la_SOURCES += topo/netdev.c
librondo_core_la_SOURCES += topo/nic.c
librondo_core_la_SOURCES += topo/nic.h
librondo_core_la_SOURCES += topo/nic_rails.c
librondo_core_la_SOURCES += topo/nics.c
librondo_core_la_SOURCES += topo/order.c
librondo_core_la_SOURCES += topo/pack.h topo/pack.c
librondo_core_la_SOURCES += topo/pci.c
librondo_core_la_SOURCES += topo/pci.h
librondo_core_la_SOURCES += topo/place.c
librondo_core_la_SOURCES += topo/puzzle.h
librondo_core_la_SOURCES += topo/rdma.c
librondo_core_la_SOURCES += topo/records.c
librondo_core_la_SOURCES += topo/records.h
librondo_core_la_SOURCES += topo/source.c
librondo_core_la_SOURCES += topo/source.h
librondo_core_la_SOURCES += topo/text.c
librondo_core_la_SOURCES += topo/topo.h
librondo_core_la_SOURCES += topo/tree.c
librondo_core_la_SOURCES += topo/unpack.c
librondo_core_la_SOURCES += topo/verbs.c
librondo_core_la_SOURCES += topo/verbs.h
