librondo_core_la_SOURCES += src/layout/layout.h src/layout/layout.c src/layout/check.c src/layout/deal.c \
	src/layout/lookup.c src/layout/maps.c src/layout/tiles.c src/layout/mask.h src/layout/mask.c \
	src/layout/areas.c src/layout/ranges.c src/layout/sight.h src/layout/sight.c src/layout/balance.h \
	src/layout/balance.c src/layout/pairs.c
