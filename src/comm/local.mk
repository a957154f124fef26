librondo_core_la_SOURCES += \
	src/comm/agree.c \
	src/comm/bootstrap.c \
	src/comm/bootstrap.h \
	src/comm/bytes.h \
	src/comm/card.c \
	src/comm/card.h \
	src/comm/comm.c \
	src/comm/comm.h \
	src/comm/env.c \
	src/comm/env.h \
	src/comm/family.c \
	src/comm/family.h \
	src/comm/form.c \
	src/comm/leave.c \
	src/comm/mover.c \
	src/comm/mover.h \
	src/comm/open.c \
	src/comm/open.h \
	src/comm/progress.c \
	src/comm/settings.c \
	src/comm/settings.h \
	src/comm/split.c \
	src/comm/tcp.c \
	src/comm/tcp.h \
	src/comm/unique_id.c \
	src/comm/unique_id.h
