# Names the files of tests/api.
dist_check_SCRIPTS += tests/api/man_examples.sh
dist_check_SCRIPTS += tests/api/headers.sh
EXTRA_DIST += tests/api/examples.sh tests/api/installed.sh

installcheck-local:
	CC='$(CC)' SANITIZER_FLAGS='$(SANITIZER_FLAGS)' top_srcdir='$(top_srcdir)' \
		$(SHELL) $(top_srcdir)/tests/api/installed.sh '$(DESTDIR)$(libdir)' '$(DESTDIR)$(bindir)'

dist_check_SCRIPTS += tests/api/man_options.sh
dist_check_SCRIPTS += tests/api/rondo_plan.sh
dist_check_SCRIPTS += tests/api/plan_examples.sh
dist_check_SCRIPTS += tests/api/readme_runs.sh
dist_check_SCRIPTS += tests/api/man_programs.sh
dist_check_SCRIPTS += tests/api/rondo_ring.sh
dist_check_SCRIPTS += tests/api/rondo_latency.sh
dist_check_SCRIPTS += tests/api/rondo_bw.sh
dist_check_SCRIPTS += tests/api/rondo_overlap.sh
dist_check_SCRIPTS += tests/api/rondo_kernel.sh
dist_check_SCRIPTS += tests/api/rondo_attention.sh
dist_check_SCRIPTS += tests/api/rondo_two_level.sh
EXTRA_DIST += tests/api/perf.sh

if HAVE_CMOCKA
api_shard = tests/api/shard.c tests/api/shard.h tests/e2e/oracle.c tests/e2e/oracle.h \
	tests/ranks.c tests/ranks.h

check_PROGRAMS += tests/api/test_refuse
tests_api_test_refuse_SOURCES = tests/api/test_refuse.c $(api_shard)
tests_api_test_refuse_CFLAGS = $(test_cflags)
tests_api_test_refuse_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_agree_masks
tests_api_test_agree_masks_SOURCES = tests/api/test_agree_masks.c $(api_shard)
tests_api_test_agree_masks_CFLAGS = $(test_cflags)
tests_api_test_agree_masks_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_start
tests_api_test_start_SOURCES = tests/api/test_start.c $(api_shard)
tests_api_test_start_CFLAGS = $(test_cflags)
tests_api_test_start_LDFLAGS = -Wl,--wrap=ri_engine_start,--wrap=ri_engine_cancel,--wrap=ri_plan_give
tests_api_test_start_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_collectives
tests_api_test_collectives_SOURCES = tests/api/test_collectives.c $(api_shard)
tests_api_test_collectives_CFLAGS = $(test_cflags)
tests_api_test_collectives_LDFLAGS = -Wl,--wrap=calloc
tests_api_test_collectives_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_give_up
tests_api_test_give_up_SOURCES = tests/api/test_give_up.c $(api_shard)
tests_api_test_give_up_CFLAGS = $(test_cflags)
tests_api_test_give_up_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_trouble
tests_api_test_trouble_SOURCES = tests/api/test_trouble.c $(api_shard)
tests_api_test_trouble_CFLAGS = $(test_cflags)
tests_api_test_trouble_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_repeat
tests_api_test_repeat_SOURCES = tests/api/test_repeat.c $(api_shard)
tests_api_test_repeat_CFLAGS = $(test_cflags)
tests_api_test_repeat_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_attention
tests_api_test_attention_SOURCES = tests/api/test_attention.c $(api_shard)
tests_api_test_attention_CFLAGS = $(test_cflags)
tests_api_test_attention_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_plan
tests_api_test_plan_SOURCES = tests/api/test_plan.c $(api_shard)
tests_api_test_plan_CFLAGS = $(test_cflags)
tests_api_test_plan_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_work_order
tests_api_test_work_order_SOURCES = tests/api/test_work_order.c $(api_shard)
tests_api_test_work_order_CFLAGS = $(test_cflags)
tests_api_test_work_order_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_inflight
tests_api_test_inflight_SOURCES = tests/api/test_inflight.c tests/api/allocations.c tests/api/allocations.h \
	$(api_shard)
tests_api_test_inflight_CFLAGS = $(test_cflags)
tests_api_test_inflight_LDFLAGS = -Wl,--wrap=aligned_alloc
tests_api_test_inflight_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_mem_alloc
tests_api_test_mem_alloc_SOURCES = tests/api/test_mem_alloc.c $(api_shard)
tests_api_test_mem_alloc_CFLAGS = $(test_cflags)
tests_api_test_mem_alloc_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_memory
tests_api_test_memory_SOURCES = tests/api/test_memory.c tests/api/allocations.c tests/api/allocations.h \
	$(api_shard)
tests_api_test_memory_CFLAGS = $(test_cflags)
tests_api_test_memory_LDFLAGS = -Wl,--wrap=aligned_alloc
tests_api_test_memory_LDADD = $(test_ldadd)

# Counts what programs take of the heap.
api_heap = tests/api/heap.c tests/api/heap.h
heap_wraps = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free -Wl,--wrap=aligned_alloc,--wrap=posix_memalign

check_PROGRAMS += tests/api/test_tables
tests_api_test_tables_SOURCES = tests/api/test_tables.c $(api_heap) $(api_shard)
tests_api_test_tables_CFLAGS = $(test_cflags)
tests_api_test_tables_LDFLAGS = $(AM_LDFLAGS) $(heap_wraps)
tests_api_test_tables_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_orders
tests_api_test_orders_SOURCES = tests/api/test_orders.c $(api_shard)
tests_api_test_orders_CFLAGS = $(test_cflags)
tests_api_test_orders_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_topo
tests_api_test_topo_SOURCES = tests/api/test_topo.c tests/ranks.c tests/ranks.h tests/here.h
tests_api_test_topo_CFLAGS = $(test_cflags)
tests_api_test_topo_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_topo_query
tests_api_test_topo_query_SOURCES = tests/api/test_topo_query.c
tests_api_test_topo_query_CFLAGS = $(test_cflags)
tests_api_test_topo_query_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_small_shm
tests_api_test_small_shm_SOURCES = tests/api/test_small_shm.c $(api_shard)
tests_api_test_small_shm_CFLAGS = $(test_cflags)
tests_api_test_small_shm_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=memfd_create
tests_api_test_small_shm_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_saved
tests_api_test_saved_SOURCES = tests/api/test_saved.c $(api_shard)
tests_api_test_saved_CFLAGS = $(test_cflags)
tests_api_test_saved_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_parts
tests_api_test_parts_SOURCES = tests/api/test_parts.c $(api_shard)
tests_api_test_parts_CFLAGS = $(test_cflags)
tests_api_test_parts_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_threads
tests_api_test_threads_SOURCES = tests/api/test_threads.c tests/threads.h $(api_shard)
tests_api_test_threads_CFLAGS = $(test_cflags)
tests_api_test_threads_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_leave
tests_api_test_leave_SOURCES = tests/api/test_leave.c $(api_shard)
tests_api_test_leave_CFLAGS = $(test_cflags)
tests_api_test_leave_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_progress
tests_api_test_progress_SOURCES = tests/api/test_progress.c $(api_shard)
tests_api_test_progress_CFLAGS = $(test_cflags)
tests_api_test_progress_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pthread_create
tests_api_test_progress_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_poll
tests_api_test_poll_SOURCES = tests/api/test_poll.c $(api_shard)
tests_api_test_poll_CFLAGS = $(test_cflags)
tests_api_test_poll_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_stopped
tests_api_test_stopped_SOURCES = tests/api/test_stopped.c $(api_shard)
tests_api_test_stopped_CFLAGS = $(test_cflags)
tests_api_test_stopped_LDADD = $(test_ldadd)

# The names after wrap= count what a bind and its starts take.
check_PROGRAMS += tests/api/test_bind
tests_api_test_bind_SOURCES = tests/api/test_bind.c $(api_heap) $(api_shard)
tests_api_test_bind_CFLAGS = $(test_cflags)
tests_api_test_bind_LDFLAGS = $(AM_LDFLAGS) $(heap_wraps) \
	-Wl,--wrap=ri_bootstrap_allgather,--wrap=ri_pieces_list
tests_api_test_bind_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_bind_balanced
tests_api_test_bind_balanced_SOURCES = tests/api/test_bind_balanced.c $(api_shard)
tests_api_test_bind_balanced_CFLAGS = $(test_cflags)
tests_api_test_bind_balanced_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=ri_sight_tiles
tests_api_test_bind_balanced_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_bind_documents
tests_api_test_bind_documents_SOURCES = tests/api/test_bind_documents.c $(api_shard)
tests_api_test_bind_documents_CFLAGS = $(test_cflags)
tests_api_test_bind_documents_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_reserve
tests_api_test_reserve_SOURCES = tests/api/test_reserve.c $(api_heap) $(api_shard)
tests_api_test_reserve_CFLAGS = $(test_cflags)
tests_api_test_reserve_LDFLAGS = $(AM_LDFLAGS) $(heap_wraps)
tests_api_test_reserve_LDADD = $(test_ldadd)

api_features = tests/api/features.c tests/api/features.h
api_scores = tests/api/scores.c tests/api/scores.h $(api_features)

check_PROGRAMS += tests/api/test_dropout
tests_api_test_dropout_SOURCES = tests/api/test_dropout.c $(api_scores) $(api_shard)
tests_api_test_dropout_CFLAGS = $(test_cflags)
tests_api_test_dropout_LDADD = $(test_ldadd)

api_typed = tests/api/typed.c tests/api/typed.h $(api_features)

check_PROGRAMS += tests/api/test_types
tests_api_test_types_SOURCES = tests/api/test_types.c $(api_typed) $(api_shard)
tests_api_test_types_CFLAGS = $(test_cflags)
tests_api_test_types_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_wire
tests_api_test_wire_SOURCES = tests/api/test_wire.c $(api_typed) $(api_shard)
tests_api_test_wire_CFLAGS = $(test_cflags)
tests_api_test_wire_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_kernel_threads
tests_api_test_kernel_threads_SOURCES = tests/api/test_kernel_threads.c $(api_features) $(api_shard)
tests_api_test_kernel_threads_CFLAGS = $(test_cflags)
tests_api_test_kernel_threads_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_sinks
tests_api_test_sinks_SOURCES = tests/api/test_sinks.c $(api_scores) $(api_shard)
tests_api_test_sinks_CFLAGS = $(test_cflags)
tests_api_test_sinks_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_token_parts
tests_api_test_token_parts_SOURCES = tests/api/test_token_parts.c $(api_shard)
tests_api_test_token_parts_CFLAGS = $(test_cflags)
tests_api_test_token_parts_LDADD = $(test_ldadd)

check_PROGRAMS += tests/api/test_verify
tests_api_test_verify_SOURCES = tests/api/test_verify.c $(api_shard)
tests_api_test_verify_CFLAGS = $(test_cflags)
tests_api_test_verify_LDFLAGS = -Wl,--wrap=ri_comm_exchange -Wl,--wrap=ri_exact_create
tests_api_test_verify_LDADD = $(test_ldadd)
endif
