# Names the files of tests/e2e.
dist_check_SCRIPTS += tests/e2e/rondo_run.sh
check_PROGRAMS += tests/e2e/attention
tests_e2e_attention_SOURCES = tests/e2e/attention.c tests/e2e/oracle.c tests/e2e/oracle.h \
	tests/ranks.c tests/ranks.h
tests_e2e_attention_LDADD = librondo_core.la
