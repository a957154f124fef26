librondo_core_la_SOURCES += src/schedule/schedule.h
librondo_core_la_SOURCES += src/schedule/internal.h
librondo_core_la_SOURCES += src/schedule/schedule.c
librondo_core_la_SOURCES += src/schedule/rules.c
librondo_core_la_SOURCES += src/schedule/derive.c
librondo_core_la_SOURCES += src/schedule/ring.c src/schedule/ring.h
librondo_core_la_SOURCES += src/schedule/reduce.c
librondo_core_la_SOURCES += src/schedule/text.c
