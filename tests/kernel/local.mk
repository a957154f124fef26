if HAVE_CMOCKA
check_PROGRAMS += tests/kernel/test_merge
tests_kernel_test_merge_SOURCES = tests/kernel/test_merge.c
tests_kernel_test_merge_CFLAGS = $(test_cflags)
tests_kernel_test_merge_LDADD = $(test_ldadd)

check_PROGRAMS += tests/kernel/test_kernels
tests_kernel_test_kernels_SOURCES = tests/kernel/test_kernels.c tests/kernel/check.c \
	tests/kernel/check.h tests/kernel/oracle.c tests/kernel/oracle.h tests/kernel/properties.c \
	tests/kernel/shapes.c tests/kernel/wide.c
# wide.c passes vectors wider than the target's registers, between inlined functions alone.
tests_kernel_test_kernels_CFLAGS = $(test_cflags) -Wno-psabi
tests_kernel_test_kernels_LDADD = $(test_ldadd)
endif
