# Names the files of tests/soak: a second of each in check, all of it in check-soak, which takes minutes.
check_PROGRAMS += tests/soak/soak
tests_soak_soak_SOURCES = tests/soak/soak.c tests/soak/soak.h tests/soak/bodies.c tests/soak/sample.c \
	tests/soak/sample.h tests/api/shard.c tests/api/shard.h tests/e2e/oracle.c tests/e2e/oracle.h \
	tests/ranks.c tests/ranks.h
tests_soak_soak_LDADD = librondo_core.la

check-soak: all
	$(MAKE) $(AM_MAKEFLAGS) tests/soak/soak$(EXEEXT)
	tests/soak/soak$(EXEEXT) --full
.PHONY: check-soak
