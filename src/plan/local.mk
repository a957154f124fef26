librondo_core_la_SOURCES += src/plan/plan.h src/plan/plan.c src/plan/pass.c src/plan/parts.c src/plan/pieces.c src/plan/bind.c src/plan/run.c src/plan/in_place.c src/plan/work.c src/plan/tensors.c \
	src/plan/caller.c src/plan/wire.h src/plan/wire.c
librondo_core_la_SOURCES += src/plan/choose.h src/plan/choose.c src/plan/describe.c \
	src/plan/cost.h src/plan/cost.c
librondo_core_la_SOURCES += src/plan/chunks.h src/plan/chunks.c src/plan/needs.c src/plan/pool.h src/plan/pool.c src/plan/memory.c
librondo_core_la_SOURCES += src/plan/collective.h src/plan/collective.c
