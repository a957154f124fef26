librondo_core_la_SOURCES += src/api/request.h src/api/request.c src/api/collectives.c src/api/plan.h src/api/attention.c src/api/bind.c src/api/saved.c src/api/topo.c
librondo_core_la_SOURCES += src/api/memory.c
librondo_core_la_SOURCES += src/api/exact.h src/api/exact.c src/api/verify.h src/api/verify.c
librondo_core_la_SOURCES += src/api/wish.h src/api/wish.c
