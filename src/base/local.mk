librondo_core_la_SOURCES += src/base/status.c src/base/status.h src/base/log.h src/base/config.h src/base/clock.h
