librondo_core_la_SOURCES += src/engine/engine.h
