# Names the files of tests/e2e.
dist_check_SCRIPTS += tests/e2e/rondo_run.sh tests/e2e/bytes.sh
check_PROGRAMS += tests/e2e/attention
tests_e2e_attention_SOURCES = tests/e2e/attention.c tests/e2e/attention.h tests/e2e/choice.h \
	tests/e2e/attention_rank.c tests/e2e/attention_bytes.c \
	tests/e2e/attention_joined.c tests/e2e/oracle.c tests/e2e/oracle.h \
	tests/ranks.c tests/ranks.h
tests_e2e_attention_LDADD = librondo_core.la

check_PROGRAMS += tests/e2e/chunks
tests_e2e_chunks_SOURCES = tests/e2e/chunks.c tests/e2e/attention.h tests/e2e/attention_rank.c \
	tests/e2e/oracle.c tests/e2e/oracle.h tests/ranks.c tests/ranks.h
tests_e2e_chunks_LDADD = librondo_core.la

# Training on P ranks against one: minutes, so not part of check.
noinst_PROGRAMS += tests/e2e/parity_compare
tests_e2e_parity_compare_SOURCES = tests/e2e/parity_compare.c
EXTRA_DIST += tests/e2e/parity.sh

check-parity: all
	top_builddir='$(abs_top_builddir)' bash '$(srcdir)/tests/e2e/parity.sh'
.PHONY: check-parity

dist_check_SCRIPTS += tests/e2e/comm.sh
noinst_PROGRAMS += tests/e2e/comm_probe
tests_e2e_comm_probe_SOURCES = tests/e2e/comm_probe.c
tests_e2e_comm_probe_LDADD = librondo_core.la

masks_sources = tests/e2e/half.h tests/e2e/masks.h tests/e2e/masks_oracle.c tests/e2e/masks_run.h \
	tests/e2e/masks_team.c tests/e2e/masks_rank.c tests/e2e/masks_judge.c tests/e2e/masks_judge.h \
	tests/e2e/oracle.c tests/e2e/oracle.h tests/ranks.c tests/ranks.h tests/threads.h

check_PROGRAMS += tests/e2e/masks
tests_e2e_masks_SOURCES = tests/e2e/masks.c tests/e2e/choice.h tests/e2e/masks_cases.c \
	tests/e2e/masks_cases.h tests/e2e/masks_types.c tests/e2e/masks_types.h $(masks_sources)
tests_e2e_masks_LDADD = librondo_core.la

if HAVE_CMOCKA
check_PROGRAMS += tests/e2e/cases
tests_e2e_cases_SOURCES = tests/e2e/cases.c tests/e2e/attend.h tests/short.h $(masks_sources)
tests_e2e_cases_CFLAGS = $(test_cflags)
tests_e2e_cases_LDADD = $(test_ldadd)

check_PROGRAMS += tests/e2e/windows
tests_e2e_windows_SOURCES = tests/e2e/windows.c tests/e2e/attend.h $(masks_sources)
tests_e2e_windows_CFLAGS = $(test_cflags)
tests_e2e_windows_LDADD = $(test_ldadd)

check_PROGRAMS += tests/e2e/packed
tests_e2e_packed_SOURCES = tests/e2e/packed.c tests/e2e/attend.h $(masks_sources)
tests_e2e_packed_CFLAGS = $(test_cflags)
tests_e2e_packed_LDADD = $(test_ldadd)

check_PROGRAMS += tests/e2e/properties
tests_e2e_properties_SOURCES = tests/e2e/properties.c tests/e2e/attend.h tests/e2e/masks_cases.c \
	tests/e2e/masks_cases.h tests/short.h $(masks_sources)
tests_e2e_properties_CFLAGS = $(test_cflags)
tests_e2e_properties_LDADD = $(test_ldadd)

check_PROGRAMS += tests/e2e/rebind
tests_e2e_rebind_SOURCES = tests/e2e/rebind.c tests/e2e/attend.h tests/short.h $(masks_sources)
tests_e2e_rebind_CFLAGS = $(test_cflags)
tests_e2e_rebind_LDADD = $(test_ldadd)
endif
