# Names the files of tests/engine.
if HAVE_CMOCKA
engine_alone = tests/engine/drive.h tests/transport/bench.c tests/transport/bench.h

check_PROGRAMS += tests/engine/test_engine
tests_engine_test_engine_SOURCES = tests/engine/test_engine.c $(engine_alone)
tests_engine_test_engine_CFLAGS = $(test_cflags)
tests_engine_test_engine_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc
tests_engine_test_engine_LDADD = $(test_ldadd)

check_PROGRAMS += tests/engine/binding
tests_engine_binding_SOURCES = tests/engine/binding.c $(engine_alone)
tests_engine_binding_CFLAGS = $(test_cflags)
tests_engine_binding_LDADD = $(test_ldadd)

check_PROGRAMS += tests/engine/chunks
tests_engine_chunks_SOURCES = tests/engine/chunks.c $(engine_alone)
tests_engine_chunks_CFLAGS = $(test_cflags)
tests_engine_chunks_LDADD = $(test_ldadd)

check_PROGRAMS += tests/engine/trace
tests_engine_trace_SOURCES = tests/engine/trace.c tests/ranks.c tests/ranks.h
tests_engine_trace_CFLAGS = $(test_cflags)
tests_engine_trace_LDADD = $(test_ldadd)
endif
check_PROGRAMS += tests/engine/overlap
tests_engine_overlap_SOURCES = tests/engine/overlap.c tests/ranks.c tests/ranks.h
tests_engine_overlap_LDADD = librondo_core.la

check_PROGRAMS += tests/engine/modelled
tests_engine_modelled_SOURCES = tests/engine/modelled.c tests/engine/modelled.h
tests_engine_modelled_SOURCES += tests/engine/modelled_run.c
tests_engine_modelled_SOURCES += tests/schedule/price_rows.c tests/schedule/prices.h \
	tests/schedule/machine.h
tests_engine_modelled_LDADD = librondo_core.la -lm

check_PROGRAMS += tests/engine/ratios
tests_engine_ratios_SOURCES = tests/engine/ratios.c tests/ranks.c tests/ranks.h
tests_engine_ratios_LDADD = librondo_core.la

# The engine beside the simulator, and chunks beside whole blocks, on a quiet machine: minutes.
check-modelled: tests/engine/modelled tests/engine/ratios
	tests/engine/modelled$(EXEEXT) --table
	tests/engine/ratios$(EXEEXT) --table
.PHONY: check-modelled
