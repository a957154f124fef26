# Names the files of topo.
librondo_core_la_SOURCES += topo/cost.c
librondo_core_la_SOURCES += topo/cpumask.h topo/cpumask.c
librondo_core_la_SOURCES += topo/cpus.c
librondo_core_la_SOURCES += topo/cpus.h
librondo_core_la_SOURCES += topo/cycle.c
librondo_core_la_SOURCES += topo/decimal.h topo/decimal.c
librondo_core_la_SOURCES += topo/explain.c
librondo_core_la_SOURCES += topo/find.h
librondo_core_la_SOURCES += topo/fold.c
librondo_core_la_SOURCES += topo/gid.c
librondo_core_la_SOURCES += topo/gid.h
librondo_core_la_SOURCES += topo/gpu.c
librondo_core_la_SOURCES += topo/groups.c
librondo_core_la_SOURCES += topo/hwloc.c
if HAVE_HWLOC
librondo_core_la_SOURCES += topo/hwloc_build.h
librondo_core_la_SOURCES += topo/hwloc_gpus.c
librondo_core_la_SOURCES += topo/hwloc_nics.c
librondo_core_la_SOURCES += topo/hwloc_places.c
librondo_core_la_SOURCES += topo/hwloc_xml.c
librondo_core_la_SOURCES += topo/hwloc_xml.h
endif
librondo_core_la_SOURCES += topo/input.c
librondo_core_la_SOURCES += topo/kfd.c
librondo_core_la_SOURCES += topo/kfd.h
librondo_core_la_SOURCES += topo/limits.c
librondo_core_la_SOURCES += topo/live.c
librondo_core_la_SOURCES += topo/nccl.h topo/nccl.c
librondo_core_la_SOURCES += topo/nccl_links.h topo/nccl_links.c
librondo_core_la_SOURCES += topo/nccl_tree.c
librondo_core_la_SOURCES += topo/nccl_write.c
librondo_core_la_SOURCES += topo/netdev.c
librondo_core_la_SOURCES += topo/nic.c
librondo_core_la_SOURCES += topo/nic.h
librondo_core_la_SOURCES += topo/nic_rails.c
librondo_core_la_SOURCES += topo/nics.c
librondo_core_la_SOURCES += topo/nvml.c
librondo_core_la_SOURCES += topo/nvml.h
librondo_core_la_SOURCES += topo/nvml_apply.c
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
librondo_core_la_SOURCES += topo/sys.c
librondo_core_la_SOURCES += topo/text.c
librondo_core_la_SOURCES += topo/topo.h
librondo_core_la_SOURCES += topo/reach.c
librondo_core_la_SOURCES += topo/tree.c
librondo_core_la_SOURCES += topo/unpack.c
librondo_core_la_SOURCES += topo/verbs.c
librondo_core_la_SOURCES += topo/verbs.h

# Machines from public data sheets, to plan for.
machinesdir = $(pkgdatadir)/machines
dist_machines_DATA = \
	topo/machines/a800x8-4hca.txt \
	topo/machines/cpu-2s.txt \
	topo/machines/dgx-a100.txt \
	topo/machines/dgx-h100.txt \
	topo/machines/gh200.txt \
	topo/machines/l20x8-pcie.txt
