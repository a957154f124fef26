# Names the files of topo.
librondo_core_la_SOURCES += topo/topo.h
librondo_core_la_SOURCES += topo/source.h
librondo_core_la_SOURCES += topo/tree.c
