# Names the files of topo.
librondo_core_la_SOURCES += topo/cost.c
librondo_core_la_SOURCES += topo/find.h
librondo_core_la_SOURCES += topo/nics.c
librondo_core_la_SOURCES += topo/place.c
librondo_core_la_SOURCES += topo/records.c
librondo_core_la_SOURCES += topo/records.h
librondo_core_la_SOURCES += topo/source.c
librondo_core_la_SOURCES += topo/source.h
librondo_core_la_SOURCES += topo/topo.h
librondo_core_la_SOURCES += topo/tree.c
librondo_core_la_SOURCES += topo/decimal.h topo/decimal.c
librondo_core_la_SOURCES += topo/pack.h topo/pack.c
librondo_core_la_SOURCES += topo/text.c
librondo_core_la_SOURCES += topo/unpack.c
