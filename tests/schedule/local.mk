# Names the files of tests/schedule.
check_PROGRAMS += tests/schedule/prices
tests_schedule_prices_SOURCES = tests/schedule/prices.c tests/schedule/prices.h
tests_schedule_prices_SOURCES += tests/schedule/price_rows.c tests/schedule/machine.h
tests_schedule_prices_LDADD = librondo_core.la -lm

# All published prices beside ours.
check-prices: tests/schedule/prices
	tests/schedule/prices$(EXEEXT) --table
.PHONY: check-prices

if HAVE_CMOCKA
check_PROGRAMS += tests/schedule/test_bind
tests_schedule_test_bind_SOURCES = tests/schedule/test_bind.c tests/schedule/texts.c
tests_schedule_test_bind_SOURCES += tests/schedule/play.c tests/schedule/play_content.c \
	tests/schedule/play.h tests/schedule/play_game.h
tests_schedule_test_bind_SOURCES += tests/schedule/ranks.c tests/schedule/ranks.h
tests_schedule_test_bind_CFLAGS = $(test_cflags)
tests_schedule_test_bind_LDADD = $(test_ldadd)
check_PROGRAMS += tests/schedule/test_builders
tests_schedule_test_builders_SOURCES = tests/schedule/test_builders.c tests/schedule/ranks.c tests/schedule/ranks.h
tests_schedule_test_builders_SOURCES += tests/schedule/counts.h
tests_schedule_test_builders_CFLAGS = $(test_cflags)
tests_schedule_test_builders_LDADD = $(test_ldadd)
check_PROGRAMS += tests/schedule/test_builders_direct
tests_schedule_test_builders_direct_SOURCES = tests/schedule/test_builders_direct.c tests/schedule/counts.h
tests_schedule_test_builders_direct_SOURCES += tests/schedule/ranks.c tests/schedule/ranks.h
tests_schedule_test_builders_direct_CFLAGS = $(test_cflags)
tests_schedule_test_builders_direct_LDADD = $(test_ldadd)
check_PROGRAMS += tests/schedule/test_builders_ring
tests_schedule_test_builders_ring_SOURCES = tests/schedule/test_builders_ring.c tests/schedule/counts.h
tests_schedule_test_builders_ring_SOURCES += tests/schedule/ranks.c tests/schedule/ranks.h
tests_schedule_test_builders_ring_CFLAGS = $(test_cflags)
tests_schedule_test_builders_ring_LDADD = $(test_ldadd)
check_PROGRAMS += tests/schedule/test_builders_two_level
tests_schedule_test_builders_two_level_SOURCES = tests/schedule/test_builders_two_level.c tests/schedule/counts.h
tests_schedule_test_builders_two_level_SOURCES += tests/schedule/machines.c tests/schedule/machines.h
tests_schedule_test_builders_two_level_SOURCES += tests/schedule/ranks.c tests/schedule/ranks.h
tests_schedule_test_builders_two_level_CFLAGS = $(test_cflags)
tests_schedule_test_builders_two_level_LDADD = $(test_ldadd)
check_PROGRAMS += tests/schedule/test_builders_two_level_order
tests_schedule_test_builders_two_level_order_SOURCES = tests/schedule/test_builders_two_level_order.c
tests_schedule_test_builders_two_level_order_SOURCES += tests/schedule/machines.c tests/schedule/machines.h
tests_schedule_test_builders_two_level_order_SOURCES += tests/schedule/ranks.c tests/schedule/ranks.h
tests_schedule_test_builders_two_level_order_CFLAGS = $(test_cflags)
tests_schedule_test_builders_two_level_order_LDADD = $(test_ldadd)
check_PROGRAMS += tests/schedule/test_faults
tests_schedule_test_faults_SOURCES = tests/schedule/test_faults.c tests/schedule/faults.h
tests_schedule_test_faults_SOURCES += tests/schedule/faults.c tests/schedule/faults_bundles.c \
	tests/schedule/edits.c tests/schedule/edits.h
tests_schedule_test_faults_SOURCES += tests/schedule/ranks.c tests/schedule/ranks.h tests/schedule/texts.c
tests_schedule_test_faults_CFLAGS = $(test_cflags)
tests_schedule_test_faults_LDADD = $(test_ldadd)
check_PROGRAMS += tests/schedule/test_golden
tests_schedule_test_golden_SOURCES = tests/schedule/test_golden.c tests/schedule/cases.c tests/schedule/cases.h
tests_schedule_test_golden_SOURCES += tests/schedule/ranks.c tests/schedule/ranks.h
tests_schedule_test_golden_CFLAGS = $(test_cflags)
tests_schedule_test_golden_LDADD = $(test_ldadd)
check_PROGRAMS += tests/schedule/test_manual
tests_schedule_test_manual_SOURCES = tests/schedule/test_manual.c tests/schedule/cases.c tests/schedule/cases.h
tests_schedule_test_manual_SOURCES += tests/schedule/ranks.c tests/schedule/ranks.h
tests_schedule_test_manual_SOURCES += tests/page.c tests/page.h
tests_schedule_test_manual_CFLAGS = $(test_cflags)
tests_schedule_test_manual_LDADD = $(test_ldadd)
check_PROGRAMS += tests/schedule/test_mutations
tests_schedule_test_mutations_SOURCES = tests/schedule/test_mutations.c tests/schedule/texts.c
tests_schedule_test_mutations_SOURCES += tests/schedule/mutate.c tests/schedule/mutate.h
tests_schedule_test_mutations_SOURCES += tests/schedule/play.c tests/schedule/play_content.c \
	tests/schedule/play.h tests/schedule/play_game.h
tests_schedule_test_mutations_SOURCES += tests/schedule/ranks.c tests/schedule/ranks.h
tests_schedule_test_mutations_CFLAGS = $(test_cflags)
tests_schedule_test_mutations_LDADD = $(test_ldadd)
check_PROGRAMS += tests/schedule/test_candidates
tests_schedule_test_candidates_SOURCES = tests/schedule/test_candidates.c tests/schedule/machine.h
tests_schedule_test_candidates_CFLAGS = $(test_cflags)
tests_schedule_test_candidates_LDADD = $(test_ldadd) -lm
check_PROGRAMS += tests/schedule/test_order
tests_schedule_test_order_SOURCES = tests/schedule/test_order.c tests/schedule/machine.h
tests_schedule_test_order_SOURCES += tests/schedule/ranks.c tests/schedule/ranks.h
tests_schedule_test_order_CFLAGS = $(test_cflags)
tests_schedule_test_order_LDADD = $(test_ldadd)
check_PROGRAMS += tests/schedule/test_timeline
tests_schedule_test_timeline_SOURCES = tests/schedule/test_timeline.c tests/schedule/machine.h
tests_schedule_test_timeline_SOURCES += tests/schedule/ranks.c tests/schedule/ranks.h
tests_schedule_test_timeline_CFLAGS = $(test_cflags)
tests_schedule_test_timeline_LDADD = $(test_ldadd) -lm
check_PROGRAMS += tests/schedule/test_simulate
tests_schedule_test_simulate_SOURCES = tests/schedule/test_simulate.c tests/schedule/machine.h
tests_schedule_test_simulate_SOURCES += tests/schedule/texts.c
tests_schedule_test_simulate_SOURCES += tests/schedule/ranks.c tests/schedule/ranks.h
tests_schedule_test_simulate_CFLAGS = $(test_cflags)
tests_schedule_test_simulate_LDADD = $(test_ldadd) -lm
check_PROGRAMS += tests/schedule/test_text
tests_schedule_test_text_SOURCES = tests/schedule/test_text.c tests/schedule/texts.c
tests_schedule_test_text_SOURCES += tests/schedule/ranks.c tests/schedule/ranks.h
tests_schedule_test_text_CFLAGS = $(test_cflags)
tests_schedule_test_text_LDADD = $(test_ldadd)
endif

# All machines of up to 64 ranks take minutes, so check takes the small ones only.
noinst_PROGRAMS += tests/schedule/shapes
tests_schedule_shapes_SOURCES = tests/schedule/shapes.c
tests_schedule_shapes_LDADD = librondo_core.la
dist_check_SCRIPTS += tests/schedule/shapes.sh

check-shapes: all
	tests/schedule/shapes --ranks 64
.PHONY: check-shapes

# A new case is two files, and its name here.
EXTRA_DIST += \
	tests/schedule/all_reduce_1_0.case tests/schedule/all_reduce_1_0.out \
	tests/schedule/all_reduce_2_1.case tests/schedule/all_reduce_2_1.out \
	tests/schedule/all_reduce_2x3_2.case tests/schedule/all_reduce_2x3_2.out \
	tests/schedule/all_reduce_4_2.case tests/schedule/all_reduce_4_2.out \
	tests/schedule/barrier_1_0.case tests/schedule/barrier_1_0.out \
	tests/schedule/barrier_2x4_6.case tests/schedule/barrier_2x4_6.out \
	tests/schedule/barrier_5_1.case tests/schedule/barrier_5_1.out \
	tests/schedule/broadcast_1_0.case tests/schedule/broadcast_1_0.out \
	tests/schedule/broadcast_2x3_0.case tests/schedule/broadcast_2x3_0.out \
	tests/schedule/broadcast_6_1.case tests/schedule/broadcast_6_1.out \
	tests/schedule/broadcast_6_2.case tests/schedule/broadcast_6_2.out \
	tests/schedule/broadcast_6_5.case tests/schedule/broadcast_6_5.out \
	tests/schedule/direct_forward_1_0.case tests/schedule/direct_forward_1_0.out \
	tests/schedule/direct_forward_4_1.case tests/schedule/direct_forward_4_1.out \
	tests/schedule/direct_kv_grad_4_1.case tests/schedule/direct_kv_grad_4_1.out \
	tests/schedule/direct_q_grad_2x2_2.case tests/schedule/direct_q_grad_2x2_2.out \
	tests/schedule/ring_forward_1_0.case tests/schedule/ring_forward_1_0.out \
	tests/schedule/ring_forward_2_1.case tests/schedule/ring_forward_2_1.out \
	tests/schedule/ring_forward_2x2_1.case tests/schedule/ring_forward_2x2_1.out \
	tests/schedule/ring_forward_2x2_2.case tests/schedule/ring_forward_2x2_2.out \
	tests/schedule/ring_forward_2x3_landing4_3.case tests/schedule/ring_forward_2x3_landing4_3.out \
	tests/schedule/ring_forward_4_1.case tests/schedule/ring_forward_4_1.out \
	tests/schedule/ring_kv_grad_1_0.case tests/schedule/ring_kv_grad_1_0.out \
	tests/schedule/ring_kv_grad_2_0.case tests/schedule/ring_kv_grad_2_0.out \
	tests/schedule/ring_kv_grad_2x2_1.case tests/schedule/ring_kv_grad_2x2_1.out \
	tests/schedule/ring_kv_grad_3_2.case tests/schedule/ring_kv_grad_3_2.out \
	tests/schedule/ring_kv_grad_5_3.case tests/schedule/ring_kv_grad_5_3.out \
	tests/schedule/ring_q_grad_1_0.case tests/schedule/ring_q_grad_1_0.out \
	tests/schedule/ring_q_grad_2_0.case tests/schedule/ring_q_grad_2_0.out \
	tests/schedule/ring_q_grad_2x2_1.case tests/schedule/ring_q_grad_2x2_1.out \
	tests/schedule/ring_q_grad_4_1.case tests/schedule/ring_q_grad_4_1.out \
	tests/schedule/two_level_forward_1x3_1.case tests/schedule/two_level_forward_1x3_1.out \
	tests/schedule/two_level_forward_2x2_1.case tests/schedule/two_level_forward_2x2_1.out \
	tests/schedule/two_level_forward_2x4_5.case tests/schedule/two_level_forward_2x4_5.out \
	tests/schedule/two_level_forward_2x4_chunked_5.case tests/schedule/two_level_forward_2x4_chunked_5.out \
	tests/schedule/two_level_forward_3-2_3.case tests/schedule/two_level_forward_3-2_3.out \
	tests/schedule/two_level_forward_3-2_pieces2_3.case tests/schedule/two_level_forward_3-2_pieces2_3.out \
	tests/schedule/two_level_forward_3x1_2.case tests/schedule/two_level_forward_3x1_2.out \
	tests/schedule/two_level_forward_3x3_4.case tests/schedule/two_level_forward_3x3_4.out \
	tests/schedule/two_level_forward_3x3_landing3_4.case tests/schedule/two_level_forward_3x3_landing3_4.out \
	tests/schedule/two_level_kv_grad_2x2_1.case tests/schedule/two_level_kv_grad_2x2_1.out \
	tests/schedule/two_level_kv_grad_3-2_4.case tests/schedule/two_level_kv_grad_3-2_4.out \
	tests/schedule/two_level_kv_grad_3-2_pieces2_4.case tests/schedule/two_level_kv_grad_3-2_pieces2_4.out \
	tests/schedule/two_level_kv_grad_3x1_2.case tests/schedule/two_level_kv_grad_3x1_2.out \
	tests/schedule/two_level_kv_grad_4-2-1_6.case tests/schedule/two_level_kv_grad_4-2-1_6.out \
	tests/schedule/two_level_q_grad_2x2_1.case tests/schedule/two_level_q_grad_2x2_1.out \
	tests/schedule/two_level_q_grad_2x3_4.case tests/schedule/two_level_q_grad_2x3_4.out \
	tests/schedule/two_level_q_grad_2x3_chunked_4.case tests/schedule/two_level_q_grad_2x3_chunked_4.out \
	tests/schedule/two_level_q_grad_3-2_0.case tests/schedule/two_level_q_grad_3-2_0.out
EXTRA_DIST += \
	tests/schedule/mesh2x2_fwd_1.txt \
	tests/schedule/two_level_Q_1.txt \
	tests/schedule/two_level_fwd_5.txt
