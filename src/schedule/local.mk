librondo_core_la_SOURCES += src/schedule/schedule.h
