librondo_core_la_SOURCES += src/engine/engine.c src/engine/engine.h
