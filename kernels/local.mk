librondo_core_la_SOURCES += kernels/table.h kernels/table.c kernels/merge.c
librondo_core_la_SOURCES += kernels/cpu/tile.h kernels/cpu/reference.c
