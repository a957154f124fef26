librondo_core_la_SOURCES += kernels/table.h kernels/table.c kernels/merge.c kernels/dropout.h kernels/dropout.c
librondo_core_la_SOURCES += kernels/convert.h kernels/convert.c
librondo_core_la_SOURCES += kernels/cpu/tile.h kernels/cpu/tasks.h kernels/cpu/tasks.c kernels/cpu/reference.c
librondo_core_la_SOURCES += kernels/cpu/flash.h kernels/cpu/flash.c kernels/cpu/flash_forward.c
librondo_core_la_SOURCES += kernels/cpu/flash_backward.c kernels/cpu/flash_ops.h kernels/cpu/flash_math.h
librondo_core_la_SOURCES += kernels/cpu/flash_avx512.c kernels/cpu/flash_avx2.c kernels/cpu/flash_neon.c \
	kernels/cpu/flash_plain.c
librondo_core_la_SOURCES += kernels/check/check.h kernels/check/check.c kernels/check/box.h kernels/check/box.c
librondo_core_la_SOURCES += kernels/check/number.h kernels/check/number.c kernels/check/problem.h
librondo_core_la_SOURCES += kernels/check/problem.c kernels/check/oracle.c kernels/check/run.c
librondo_core_la_SOURCES += kernels/check/compare.c kernels/check/tiles.c kernels/check/shapes.c kernels/check/sums.c
librondo_core_la_SOURCES += kernels/check/numbers.c kernels/check/properties.c kernels/check/options.c
