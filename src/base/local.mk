librondo_core_la_SOURCES += \
	src/base/analyzer.h \
	src/base/clock.h \
	src/base/config.c \
	src/base/config.h \
	src/base/letters.c \
	src/base/letters.h \
	src/base/limits.h \
	src/base/log.c \
	src/base/log.h \
	src/base/hash.h \
	src/base/minmax.h \
	src/base/status.c \
	src/base/status.h \
	src/base/trace.c \
	src/base/trace.h \
	src/base/workers.c \
	src/base/workers.h
