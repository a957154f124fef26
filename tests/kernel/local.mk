if HAVE_CMOCKA
check_PROGRAMS += tests/kernel/test_merge
tests_kernel_test_merge_SOURCES = tests/kernel/test_merge.c
tests_kernel_test_merge_CFLAGS = $(test_cflags)
tests_kernel_test_merge_LDADD = $(test_ldadd)

check_PROGRAMS += tests/kernel/test_kernels
tests_kernel_test_kernels_SOURCES = tests/kernel/test_kernels.c tests/kernel/suite.h
tests_kernel_test_kernels_CFLAGS = $(test_cflags)
tests_kernel_test_kernels_LDADD = $(test_ldadd)

check_PROGRAMS += tests/kernel/test_variants
tests_kernel_test_variants_SOURCES = tests/kernel/test_variants.c tests/kernel/suite.h tests/kernel/wide.c
# wide.c passes vectors wider than the target's registers, between inlined functions alone.
tests_kernel_test_variants_CFLAGS = $(test_cflags) -Wno-psabi
tests_kernel_test_variants_LDADD = $(test_ldadd)

check_PROGRAMS += tests/kernel/test_flags
tests_kernel_test_flags_SOURCES = tests/kernel/test_flags.c tests/kernel/suite.h tests/kernel/plain.c \
	tests/kernel/plain.h
tests_kernel_test_flags_CFLAGS = $(test_cflags)
tests_kernel_test_flags_LDADD = $(test_ldadd)

check_PROGRAMS += tests/kernel/test_check_finds
tests_kernel_test_check_finds_SOURCES = tests/kernel/test_check_finds.c tests/kernel/plain.c tests/kernel/plain.h
tests_kernel_test_check_finds_CFLAGS = $(test_cflags)
tests_kernel_test_check_finds_LDADD = $(test_ldadd)

check_PROGRAMS += tests/kernel/test_quotients
tests_kernel_test_quotients_SOURCES = tests/kernel/test_quotients.c tests/kernel/plain.c tests/kernel/plain.h
tests_kernel_test_quotients_CFLAGS = $(test_cflags)
tests_kernel_test_quotients_LDADD = $(test_ldadd)
endif

# The suite on aarch64, with a cross compiler and qemu; its head says how to name others.
EXTRA_DIST += tests/kernel/neon.sh tests/kernel/suite_main.c
check-neon: all
	top_srcdir='$(abs_top_srcdir)' top_builddir='$(abs_top_builddir)' sh '$(srcdir)/tests/kernel/neon.sh'
.PHONY: check-neon
