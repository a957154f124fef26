rondoincludedir = $(includedir)/rondo
rondoinclude_HEADERS = \
	include/rondo/attention.h \
	include/rondo/collectives.h \
	include/rondo/comm.h \
	include/rondo/kernel.h \
	include/rondo/layout.h \
	include/rondo/mask.h \
	include/rondo/request.h \
	include/rondo/rondo.h \
	include/rondo/status.h \
	include/rondo/topo.h \
	include/rondo/types.h
