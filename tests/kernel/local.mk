if HAVE_CMOCKA
check_PROGRAMS += tests/kernel/test_merge
tests_kernel_test_merge_SOURCES = tests/kernel/test_merge.c
tests_kernel_test_merge_CFLAGS = $(test_cflags)
tests_kernel_test_merge_LDADD = $(test_ldadd)
endif
