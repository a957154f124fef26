librondo_core_la_SOURCES += src/transport/transport.h
