# Names the files of tests/unit.
if HAVE_CMOCKA
check_PROGRAMS += tests/unit/test_config
tests_unit_test_config_SOURCES = tests/unit/test_config.c tests/helper.h
tests_unit_test_config_CFLAGS = $(test_cflags)
tests_unit_test_config_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_cause
tests_unit_test_cause_SOURCES = tests/unit/test_cause.c
tests_unit_test_cause_CFLAGS = $(test_cflags)
tests_unit_test_cause_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_convert
tests_unit_test_convert_SOURCES = tests/unit/test_convert.c tests/helper.h
tests_unit_test_convert_CFLAGS = $(test_cflags)
tests_unit_test_convert_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_dropout
tests_unit_test_dropout_SOURCES = tests/unit/test_dropout.c tests/helper.h
tests_unit_test_dropout_CFLAGS = $(test_cflags)
tests_unit_test_dropout_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_environment
tests_unit_test_environment_SOURCES = tests/unit/test_environment.c tests/helper.h
tests_unit_test_environment_CFLAGS = $(test_cflags)
tests_unit_test_environment_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_log
tests_unit_test_log_SOURCES = tests/unit/test_log.c tests/helper.h
tests_unit_test_log_CFLAGS = $(test_cflags)
tests_unit_test_log_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_status
tests_unit_test_status_SOURCES = tests/unit/test_status.c
tests_unit_test_status_CFLAGS = $(test_cflags)
tests_unit_test_status_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_layout
tests_unit_test_layout_SOURCES = tests/unit/test_layout.c tests/unit/deal.h tests/unit/dealt.h
tests_unit_test_layout_CFLAGS = $(test_cflags)
tests_unit_test_layout_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_layout_refuses
tests_unit_test_layout_refuses_SOURCES = tests/unit/test_layout_refuses.c
tests_unit_test_layout_refuses_CFLAGS = $(test_cflags)
tests_unit_test_layout_refuses_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_tiles
tests_unit_test_tiles_SOURCES = tests/unit/test_tiles.c tests/unit/deal.h tests/unit/dealt.h
tests_unit_test_tiles_CFLAGS = $(test_cflags)
tests_unit_test_tiles_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_mask_refuses
tests_unit_test_mask_refuses_SOURCES = tests/unit/test_mask_refuses.c
tests_unit_test_mask_refuses_CFLAGS = $(test_cflags)
tests_unit_test_mask_refuses_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_masks_manual
tests_unit_test_masks_manual_SOURCES = tests/unit/test_masks_manual.c tests/unit/masks_draw.c
tests_unit_test_masks_manual_SOURCES += tests/unit/masks_shown.c tests/unit/masks_shown.h tests/page.c tests/page.h
tests_unit_test_masks_manual_CFLAGS = $(test_cflags)
tests_unit_test_masks_manual_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_sight
tests_unit_test_sight_SOURCES = tests/unit/test_sight.c tests/unit/scene.h tests/unit/deal.h
tests_unit_test_sight_CFLAGS = $(test_cflags)
tests_unit_test_sight_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_sight_fit
tests_unit_test_sight_fit_SOURCES = tests/unit/test_sight_fit.c tests/unit/scene.h tests/unit/deal.h
tests_unit_test_sight_fit_CFLAGS = $(test_cflags)
tests_unit_test_sight_fit_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_deal_chunks
tests_unit_test_deal_chunks_SOURCES = tests/unit/test_deal_chunks.c tests/unit/scene.h tests/unit/deal.h
tests_unit_test_deal_chunks_CFLAGS = $(test_cflags)
tests_unit_test_deal_chunks_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_layout_vectors
tests_unit_test_layout_vectors_SOURCES = tests/unit/test_layout_vectors.c
tests_unit_test_layout_vectors_CFLAGS = $(test_cflags)
tests_unit_test_layout_vectors_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_balance
tests_unit_test_balance_SOURCES = tests/unit/test_balance.c tests/unit/dealt.h
tests_unit_test_balance_CFLAGS = $(test_cflags)
tests_unit_test_balance_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_choose
tests_unit_test_choose_SOURCES = tests/unit/test_choose.c
tests_unit_test_choose_CFLAGS = $(test_cflags)
tests_unit_test_choose_LDADD = $(test_ldadd) -lm

check_PROGRAMS += tests/unit/test_host
tests_unit_test_host_SOURCES = tests/unit/test_host.c
tests_unit_test_host_CFLAGS = $(test_cflags)
tests_unit_test_host_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_pattern
tests_unit_test_pattern_SOURCES = tests/unit/test_pattern.c perf/pattern.c perf/pattern.h
tests_unit_test_pattern_CFLAGS = $(test_cflags)
tests_unit_test_pattern_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_rates
tests_unit_test_rates_SOURCES = tests/unit/test_rates.c perf/measure.c perf/measure.h
tests_unit_test_rates_CFLAGS = $(test_cflags)
tests_unit_test_rates_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_ring_block
tests_unit_test_ring_block_SOURCES = tests/unit/test_ring_block.c perf/ring_block.c perf/ring_block.h
tests_unit_test_ring_block_CFLAGS = $(test_cflags)
tests_unit_test_ring_block_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_comm
tests_unit_test_comm_SOURCES = tests/unit/test_comm.c tests/group.h tests/helper.h tests/threads.h
tests_unit_test_comm_CFLAGS = $(test_cflags)
tests_unit_test_comm_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_agree
tests_unit_test_agree_SOURCES = tests/unit/test_agree.c tests/group.h tests/helper.h tests/threads.h
tests_unit_test_agree_CFLAGS = $(test_cflags)
tests_unit_test_agree_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_workers
tests_unit_test_workers_SOURCES = tests/unit/test_workers.c
tests_unit_test_workers_CFLAGS = $(test_cflags)
tests_unit_test_workers_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_words
tests_unit_test_words_SOURCES = tests/unit/test_words.c tests/group.h tests/helper.h tests/threads.h
tests_unit_test_words_CFLAGS = $(test_cflags)
tests_unit_test_words_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_family
tests_unit_test_family_SOURCES = tests/unit/test_family.c tests/group.h tests/helper.h tests/threads.h
tests_unit_test_family_CFLAGS = $(test_cflags)
tests_unit_test_family_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_split
tests_unit_test_split_SOURCES = tests/unit/test_split.c tests/group.h tests/helper.h tests/threads.h
tests_unit_test_split_CFLAGS = $(test_cflags)
tests_unit_test_split_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_bootstrap
tests_unit_test_bootstrap_SOURCES = tests/unit/test_bootstrap.c tests/unit/star.h tests/helper.h tests/threads.h
tests_unit_test_bootstrap_CFLAGS = $(test_cflags)
tests_unit_test_bootstrap_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_strangers
tests_unit_test_strangers_SOURCES = tests/unit/test_strangers.c tests/unit/star.h tests/helper.h tests/threads.h
tests_unit_test_strangers_CFLAGS = $(test_cflags)
tests_unit_test_strangers_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_unique_id
tests_unit_test_unique_id_SOURCES = tests/unit/test_unique_id.c tests/helper.h tests/threads.h
tests_unit_test_unique_id_CFLAGS = $(test_cflags)
tests_unit_test_unique_id_LDADD = $(test_ldadd)

check_PROGRAMS += tests/unit/test_env
tests_unit_test_env_SOURCES = tests/unit/test_env.c tests/helper.h tests/threads.h
tests_unit_test_env_CFLAGS = $(test_cflags)
tests_unit_test_env_LDADD = $(test_ldadd)
endif
