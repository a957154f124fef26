# Names the files of tests/soak: a second of each in check, all of it in check-soak and check-memory, which
# take minutes.
soak_common = tests/soak/sample.c tests/soak/sample.h tests/api/shard.c tests/api/shard.h tests/e2e/oracle.c \
	tests/e2e/oracle.h tests/ranks.c tests/ranks.h

check_PROGRAMS += tests/soak/soak
tests_soak_soak_SOURCES = tests/soak/soak.c tests/soak/soak.h tests/soak/bodies.c $(soak_common)
tests_soak_soak_LDADD = librondo_core.la

check_PROGRAMS += tests/soak/memory
tests_soak_memory_SOURCES = tests/soak/memory.c $(soak_common)
tests_soak_memory_LDADD = librondo_core.la

check-soak: all
	$(MAKE) $(AM_MAKEFLAGS) tests/soak/soak$(EXEEXT)
	tests/soak/soak$(EXEEXT) --full

check-memory: all
	$(MAKE) $(AM_MAKEFLAGS) tests/soak/memory$(EXEEXT)
	tests/soak/memory$(EXEEXT) --full
.PHONY: check-soak check-memory
