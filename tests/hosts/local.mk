# Names the files of tests/hosts: real processes in network namespaces, over links of a given rate.
# Needs root, so not part of check.
EXTRA_DIST += tests/hosts/hosts.sh tests/hosts/check.sh tests/hosts/jobs.sh tests/hosts/schedules.sh \
	tests/hosts/topo.sh $(hosts_tests)
hosts_tests = tests/hosts/leaves_nothing.sh tests/hosts/comm.sh tests/hosts/attention.sh tests/hosts/train.sh \
	tests/hosts/perf.sh tests/hosts/measure.sh tests/hosts/joined.sh
hosts_programs = tests/e2e/attention$(EXEEXT) tests/e2e/comm_probe$(EXEEXT) tests/hosts/collectives$(EXEEXT)

noinst_PROGRAMS += tests/hosts/collectives
tests_hosts_collectives_SOURCES = tests/hosts/collectives.c
tests_hosts_collectives_LDADD = librondo.la

# The communication of schedules alone, beside what the links allow.
noinst_PROGRAMS += tests/hosts/exchange
tests_hosts_exchange_SOURCES = tests/hosts/exchange.c perf/measure.c perf/measure.h
tests_hosts_exchange_LDADD = librondo.la

# Holds connections of a rank to its NIC; -rpath makes it one that is loaded.
noinst_LTLIBRARIES += tests/hosts/libhold.la
tests_hosts_libhold_la_SOURCES = tests/hosts/hold.c
tests_hosts_libhold_la_LDFLAGS = -module -shared -avoid-version -rpath /nowhere

check-hosts: all $(hosts_programs)
	$(AM_TESTS_ENVIRONMENT) cd '$(srcdir)' && bash tests/hosts/check.sh $(hosts_tests)

perf-hosts: all
	$(AM_TESTS_ENVIRONMENT) bash '$(srcdir)/tests/hosts/schedules.sh'

perf-topo: all
	$(AM_TESTS_ENVIRONMENT) bash '$(srcdir)/tests/hosts/topo.sh'
.PHONY: check-hosts perf-hosts perf-topo
