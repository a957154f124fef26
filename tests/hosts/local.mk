# Names the files of tests/hosts: real processes in network namespaces, over links of a given rate.
# Needs root, so not part of check.
EXTRA_DIST += tests/hosts/hosts.sh tests/hosts/check.sh $(hosts_tests)
hosts_tests = tests/hosts/leaves_nothing.sh

check-hosts: all
	$(AM_TESTS_ENVIRONMENT) cd '$(srcdir)' && bash tests/hosts/check.sh $(hosts_tests)
.PHONY: check-hosts
