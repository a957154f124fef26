librondo_core_la_SOURCES += src/engine/engine.c src/engine/engine.h src/engine/private.h
librondo_core_la_SOURCES += src/engine/transfers.c src/engine/bind.c src/engine/trace.c src/engine/work.c
