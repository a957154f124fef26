librondo_core_la_SOURCES += kernels/table.h kernels/table.c kernels/merge.c kernels/dropout.h kernels/dropout.c
librondo_core_la_SOURCES += kernels/convert.h kernels/convert.c
librondo_core_la_SOURCES += kernels/cpu/tile.h kernels/cpu/reference.c
librondo_core_la_SOURCES += kernels/cpu/flash.h kernels/cpu/flash.c kernels/cpu/flash_forward.c
librondo_core_la_SOURCES += kernels/cpu/flash_backward.c kernels/cpu/flash_ops.h
librondo_core_la_SOURCES += kernels/cpu/flash_avx512.c kernels/cpu/flash_avx2.c kernels/cpu/flash_plain.c
