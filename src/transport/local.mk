librondo_core_la_SOURCES += src/transport/transport.c src/transport/transport.h
librondo_core_la_SOURCES += src/transport/xfer.c src/transport/xfer.h
librondo_core_la_SOURCES += src/transport/self.c src/transport/self_world.c src/transport/self_world.h
librondo_core_la_SOURCES += src/transport/self_message.c
librondo_core_la_SOURCES += src/transport/self_model.c src/transport/self_model.h
librondo_core_la_SOURCES += src/transport/shm.c src/transport/shm_bind.c src/transport/shm_cancel.c \
	src/transport/shm_connect.c src/transport/shm_memory.c src/transport/shm_message.c \
	src/transport/shm_op.c src/transport/shm_pass.c src/transport/shm_post.c src/transport/shm_private.h src/transport/shm_stream.c \
	src/transport/shm_wake.c src/transport/shm_work.c
if HAVE_UCX
librondo_core_la_SOURCES += src/transport/route.c
librondo_core_la_SOURCES += src/transport/ucx.c src/transport/ucx_connect.c src/transport/ucx_context.c \
	src/transport/ucx_memory.c src/transport/ucx_message.c src/transport/ucx_op.c \
	src/transport/ucx_private.h src/transport/ucx_way.c
endif
