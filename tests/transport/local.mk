# What all transports must do, and what is each one's own.
if HAVE_CMOCKA
check_PROGRAMS += tests/transport/conformance
tests_transport_conformance_SOURCES = tests/transport/conformance.c tests/transport/bench.c tests/transport/bench.h
tests_transport_conformance_CFLAGS = $(test_cflags)
tests_transport_conformance_LDADD = $(test_ldadd)

check_PROGRAMS += tests/transport/self
tests_transport_self_SOURCES = tests/transport/self.c tests/transport/bench.c tests/transport/bench.h
tests_transport_self_CFLAGS = $(test_cflags)
tests_transport_self_LDADD = $(test_ldadd)
endif
