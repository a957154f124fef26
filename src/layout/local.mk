librondo_core_la_SOURCES += src/layout/layout.h src/layout/layout.c src/layout/maps.c src/layout/tiles.c
