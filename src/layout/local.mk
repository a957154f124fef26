librondo_core_la_SOURCES += src/layout/layout.h
