librondo_core_la_SOURCES += kernels/table.h
