# Names the files of tests/schedule.
if HAVE_CMOCKA
check_PROGRAMS += tests/schedule/test_builders
tests_schedule_test_builders_SOURCES = tests/schedule/test_builders.c tests/schedule/ranks.c tests/schedule/ranks.h
tests_schedule_test_builders_CFLAGS = $(test_cflags)
tests_schedule_test_builders_LDADD = $(test_ldadd)
endif
