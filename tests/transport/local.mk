# What all transports must do, and what is each one's own.
if HAVE_CMOCKA
transport_bench = tests/transport/bench.c tests/transport/bench.h

check_PROGRAMS += tests/transport/conformance
tests_transport_conformance_SOURCES = tests/transport/conformance.c $(transport_bench)
tests_transport_conformance_CFLAGS = $(test_cflags)
tests_transport_conformance_LDADD = $(test_ldadd)

check_PROGRAMS += tests/transport/self
tests_transport_self_SOURCES = tests/transport/self.c $(transport_bench)
tests_transport_self_CFLAGS = $(test_cflags)
tests_transport_self_LDADD = $(test_ldadd)

check_PROGRAMS += tests/transport/binding
tests_transport_binding_SOURCES = tests/transport/binding.c $(transport_bench)
tests_transport_binding_CFLAGS = $(test_cflags)
tests_transport_binding_LDADD = $(test_ldadd)

check_PROGRAMS += tests/transport/shm
tests_transport_shm_SOURCES = tests/transport/shm.c $(transport_bench)
tests_transport_shm_CFLAGS = $(test_cflags)
tests_transport_shm_LDADD = $(test_ldadd)

check_PROGRAMS += tests/transport/shm_limits
tests_transport_shm_limits_SOURCES = tests/transport/shm_limits.c tests/transport/alone.h $(transport_bench)
tests_transport_shm_limits_CFLAGS = $(test_cflags)
tests_transport_shm_limits_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc
tests_transport_shm_limits_LDADD = $(test_ldadd)

check_PROGRAMS += tests/transport/shm_ends
tests_transport_shm_ends_SOURCES = tests/transport/shm_ends.c tests/transport/alone.h $(transport_bench)
tests_transport_shm_ends_CFLAGS = $(test_cflags)
tests_transport_shm_ends_LDADD = $(test_ldadd)

check_PROGRAMS += tests/transport/shm_races
tests_transport_shm_races_SOURCES = tests/transport/shm_races.c tests/transport/alone.h $(transport_bench)
tests_transport_shm_races_CFLAGS = $(test_cflags)
tests_transport_shm_races_LDADD = $(test_ldadd)

check_PROGRAMS += tests/transport/shm_inside
tests_transport_shm_inside_SOURCES = tests/transport/shm_inside.c $(transport_bench)
tests_transport_shm_inside_CFLAGS = $(test_cflags)
tests_transport_shm_inside_LDADD = $(test_ldadd)

check_PROGRAMS += tests/transport/threads
tests_transport_threads_SOURCES = tests/transport/threads.c $(transport_bench)
tests_transport_threads_CFLAGS = $(test_cflags)
tests_transport_threads_LDADD = $(test_ldadd)

check_PROGRAMS += tests/transport/processes
tests_transport_processes_SOURCES = tests/transport/processes.c $(transport_bench)
tests_transport_processes_CFLAGS = $(test_cflags)
tests_transport_processes_LDADD = $(test_ldadd)

if HAVE_UCX
check_PROGRAMS += tests/transport/route
tests_transport_route_SOURCES = tests/transport/route.c $(transport_bench)
tests_transport_route_CFLAGS = $(test_cflags)
tests_transport_route_LDADD = $(test_ldadd)

check_PROGRAMS += tests/transport/ucx
tests_transport_ucx_SOURCES = tests/transport/ucx.c $(transport_bench)
tests_transport_ucx_CFLAGS = $(test_cflags)
tests_transport_ucx_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=ucp_mem_map,--wrap=ucp_mem_unmap
tests_transport_ucx_LDADD = $(test_ldadd)

check_PROGRAMS += tests/transport/ucx_ends
tests_transport_ucx_ends_SOURCES = tests/transport/ucx_ends.c $(transport_bench)
tests_transport_ucx_ends_CFLAGS = $(test_cflags)
tests_transport_ucx_ends_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=ucp_tag_send_nbx
tests_transport_ucx_ends_LDADD = $(test_ldadd)

check_PROGRAMS += tests/transport/ucx_settled
tests_transport_ucx_settled_SOURCES = tests/transport/ucx_settled.c $(transport_bench)
tests_transport_ucx_settled_CFLAGS = $(test_cflags)
tests_transport_ucx_settled_LDADD = $(test_ldadd)
endif
endif
