librondo_core_la_SOURCES += src/comm/comm.h
