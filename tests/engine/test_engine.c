/* SPDX-License-Identifier: Apache-2.0 */
/* All ranks of a schedule in one thread on `self`, in an order drawn from a seed.  A block is one
 * number; a rank's contribution to a sum is a power of ten of its own, so that a sum shows at once
 * who is in it, and how often. */
#include "tests/engine/drive.h"

#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/status.h"

enum { MAX_RANKS = 8, MAX_STEPS = 256, MAX_SLOTS = 64, MAX_PARTS = 8 };

struct rank {
    struct ri_transport *transport;
    struct ri_schedule *schedule;
    struct ri_engine *engine;
    struct ri_program program;
    struct ri_xfer xfers[MAX_STEPS];
    uint32_t first_xfer[MAX_STEPS + 1], pieces[MAX_STEPS];
    int64_t slots[MAX_SLOTS][MAX_PARTS];
    uint32_t order[4 * MAX_STEPS];
    int calls, fail_at;
};

static struct bench bench;
static int counting;
static long allocations;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    allocations += counting;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    allocations += counting;
    return __real_calloc(count, bytes);
}

static int64_t *place(struct rank *r, const struct ri_operand *o)
{
    const struct ri_slot *slot = &r->schedule->slots[o->slot];

    return &r->slots[o->slot][o->first_part % slot->parts];
}

/* COMPUTE adds the other side's block to each accumulated operand. */
static int run(void *owner, uint32_t index, uint32_t piece)
{
    struct rank *r = owner;
    const struct ri_step *step = &r->schedule->steps[index];

    r->order[r->calls++] = index;
    if (r->fail_at == r->calls)
        return ri_error(RONDO_ERR_KERNEL, "kernel fails as it was told");
    if (piece > 0)
        return 0;
    if (step->op != RI_COMPUTE) {
        int64_t value = *place(r, &step->from[0]);

        *place(r, &step->to[0]) = value + (step->stores & 1 ? 0 : *place(r, &step->to[0])) *
                                              (step->op == RI_MERGE);
        return 0;
    }
    for (int side = 0; side < 2; side++) {
        if (step->to[side].slot < 0)
            continue;
        if (step->stores >> side & 1)
            *place(r, &step->to[side]) = 0;
        *place(r, &step->to[side]) += *place(r, &step->from[!side]);
    }
    return 0;
}

static void bind(struct rank *r)
{
    const struct ri_schedule *s = r->schedule;
    uint32_t counts[2][MAX_RANKS] = { { 0 } };

    assert_true(s->step_count <= MAX_STEPS && s->slot_count <= MAX_SLOTS);
    for (uint32_t i = 0; i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];
        int send = step->op == RI_SEND;

        r->first_xfer[i] = i; /* steps that move nothing have a message that is never posted */
        r->pieces[i] = send || step->op == RI_RECV ? 0 : 2;
        if (r->pieces[i] == 0)
            r->xfers[i] = (struct ri_xfer){
                .tag = counts[send][step->peer]++, .peer = step->peer, .send = (uint8_t)send,
                .lane = step->lane, .rows = 1, .row_bytes = 8, .row_stride = 8,
                .base = (char *)place(r, send ? &step->from[0] : &step->to[0]),
            };
    }
    r->first_xfer[s->step_count] = s->step_count;
    r->program = (struct ri_program){ .schedule = s, .transport = r->transport, .xfers = r->xfers,
                                      .first_xfer = r->first_xfer, .pieces = r->pieces, .run = run,
                                      .owner = r };
}

static void open_all(struct rank *ranks, int count, ri_builder *build, int root, uint64_t seed)
{
    static struct ri_config config;

    config.self_seed = (int64_t)seed;
    bench_open(&bench, "self", count, &config);
    for (int i = 0; i < count; i++) {
        struct ri_build how = { .rank = i, .ranks = count, .root = root };

        memset(&ranks[i], 0, sizeof(ranks[i]));
        ranks[i].transport = bench.rank[i];
        assert_int_equal(build(&ranks[i].schedule, &how), 0);
        assert_int_equal(ri_engine_create(ranks[i].schedule, &ranks[i].engine), 0);
        bind(&ranks[i]);
    }
}

static void close_all(struct rank *ranks, int count)
{
    for (int i = 0; i < count; i++) {
        ri_engine_destroy(ranks[i].engine);
        ri_schedule_destroy(ranks[i].schedule);
    }
    bench_close(&bench);
}

/* Runs all ranks to their end, or to the first failure; returns that. */
static int drive(struct rank *ranks, int count, uint64_t seed)
{
    struct ri_engine *engines[MAX_RANKS];
    int err;

    for (int i = 0; i < count; i++) {
        engines[i] = ranks[i].engine;
        ranks[i].calls = 0;
        assert_int_equal(ri_engine_start(engines[i], &ranks[i].program), 0);
    }
    counting = 1;
    err = drive_engines(engines, count, seed, NULL);
    counting = 0;
    return err;
}

static struct rank ranks[MAX_RANKS];

/* ---- tests ---- */

static void ring_forward_sees_every_block_once(void **state)
{
    for (int count = 1; count <= MAX_RANKS; count++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            open_all(ranks, count, ri_build_ring_forward, 0, seed);
            for (int i = 0; i < count; i++)
                ranks[i].slots[1][0] = power(i);
            assert_int_equal(drive(ranks, count, seed), 0);
            for (int i = 0; i < count; i++)
                assert_int_equal(ranks[i].slots[2][0], everyone(count));
            close_all(ranks, count);
        }
    (void)state;
}

static void kv_grad_brings_every_contribution_home(void **state)
{
    for (int count = 1; count <= MAX_RANKS; count++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            open_all(ranks, count, ri_build_ring_kv_grad, 0, seed);
            for (int i = 0; i < count; i++)
                ranks[i].slots[0][0] = ranks[i].slots[1][0] = power(i);
            assert_int_equal(drive(ranks, count, seed), 0);
            for (int i = 0; i < count; i++) {
                assert_int_equal(ranks[i].slots[2][0], everyone(count)); /* dQ: all keys */
                assert_int_equal(ranks[i].slots[3][0], everyone(count)); /* dK: all queries */
            }
            close_all(ranks, count);
        }
    (void)state;
}

static void all_reduce_sums_every_part(void **state)
{
    for (int count = 1; count <= MAX_RANKS; count++) {
        open_all(ranks, count, ri_build_all_reduce, 0, 0);
        for (int i = 0; i < count; i++)
            for (int p = 0; p < count; p++)
                ranks[i].slots[0][p] = power(i);
        assert_int_equal(drive(ranks, count, 7), 0);
        for (int i = 0; i < count; i++)
            for (int p = 0; p < count; p++)
                assert_int_equal(ranks[i].slots[1][p], everyone(count));
        close_all(ranks, count);
    }
    (void)state;
}

static void broadcast_reaches_all_from_any_root(void **state)
{
    for (int count = 1; count <= MAX_RANKS; count++)
        for (int root = 0; root < count; root++) {
            open_all(ranks, count, ri_build_broadcast, root, 0);
            ranks[root].slots[0][0] = 4711;
            assert_int_equal(drive(ranks, count, (uint64_t)root), 0);
            for (int i = 0; i < count; i++)
                assert_int_equal(ranks[i].slots[0][0], 4711);
            close_all(ranks, count);
        }
    (void)state;
}

static void a_run_allocates_nothing_and_counts_bytes(void **state)
{
    const struct ri_engine_stats *stats;

    open_all(ranks, 4, ri_build_ring_kv_grad, 0, 0);
    for (int round = 1; round <= 3; round++) {
        allocations = 0;
        assert_int_equal(drive(ranks, 4, 1), 0);
        if (round > 1) /* `self` makes its message records at first use */
            assert_int_equal(allocations, 0);
        for (int i = 0; i < 4; i++) { /* 3 hops of K and 3 of dK, 8 bytes each */
            stats = ri_engine_stats(ranks[i].engine);
            assert_int_equal(stats->sent_bytes[RI_LANE_LOCAL], round * 6 * 8);
            assert_int_equal(stats->received_bytes[RI_LANE_LOCAL], round * 6 * 8);
            assert_int_equal(stats->sent_bytes[RI_LANE_HOST], 0);
            assert_true(stats->exposed_seconds <= stats->move_seconds);
        }
    }
    close_all(ranks, 4);
    (void)state;
}

static int unsettled; /* times that the transport still says no */

static int settled_late(struct ri_transport *transport)
{
    (void)transport;
    return --unsettled < 0;
}

/* Its last words to others may wait for progress when all that it asked for has been done. */
static void a_run_lasts_until_its_transport_has_settled(void **state)
{
    struct ri_transport_ops ops;
    char text[160];
    int idle, peer;

    (void)state;
    open_all(ranks, 1, ri_build_ring_forward, 0, 0);
    ops = *ranks[0].transport->ops;
    ops.settled = settled_late;
    ranks[0].transport->ops = &ops;
    unsettled = 2;
    assert_int_equal(ri_engine_start(ranks[0].engine, &ranks[0].program), 0);
    while (unsettled == 2)
        assert_int_equal(ri_engine_progress(ranks[0].engine, NULL, &idle), 0);
    ri_engine_where(ranks[0].engine, text, sizeof(text), &peer);
    assert_int_equal(peer, -1);
    assert_non_null(strstr(text, "done, but the last of its messages have not left"));
    assert_int_equal(ri_engine_progress(ranks[0].engine, NULL, &idle), 0);
    assert_true(idle);
    assert_int_equal(ri_engine_progress(ranks[0].engine, NULL, &idle), 1);
    ranks[0].transport->ops = &ri_transport_self;
    close_all(ranks, 1);
}

static void a_failing_kernel_ends_the_run_and_posts_nothing(void **state)
{
    open_all(ranks, 3, ri_build_ring_forward, 0, 0);
    ranks[1].fail_at = 3;
    assert_int_equal(drive(ranks, 3, 5), RONDO_ERR_KERNEL);
    for (uint32_t i = 0; i < ranks[1].schedule->step_count; i++)
        assert_int_not_equal(ranks[1].xfers[i].state, RI_XFER_POSTED);
    close_all(ranks, 3);
    (void)state;
}

static void a_second_start_is_refused(void **state)
{
    open_all(ranks, 2, ri_build_ring_forward, 0, 0);
    assert_int_equal(ri_engine_start(ranks[0].engine, &ranks[0].program), 0);
    assert_int_equal(ri_engine_start(ranks[0].engine, &ranks[0].program), RONDO_ERR_BUSY);
    ri_engine_cancel(ranks[0].engine);
    assert_int_equal(ri_engine_start(ranks[0].engine, &ranks[0].program), 0);
    close_all(ranks, 2);
    (void)state;
}

static void where_names_the_step_that_waits_and_its_peer(void **state)
{
    char text[160];
    int peer, idle;

    open_all(ranks, 2, ri_build_ring_forward, 0, 0);
    assert_int_equal(ri_engine_start(ranks[0].engine, &ranks[0].program), 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(ri_engine_progress(ranks[0].engine, NULL, &idle), 0);
    assert_true(idle);
    ri_engine_where(ranks[0].engine, text, sizeof(text), &peer);
    assert_int_equal(peer, 1);
    assert_non_null(strstr(text, "rank 1"));
    close_all(ranks, 2);
    (void)state;
}

/* Two computes on a block that has to come, one on a block that is there, and a merge of what comes:
 * the ready compute passes the waiting one, and nothing passes the waiting merge. */
static int build_overtaking(struct ri_schedule **schedule, const struct ri_build *build)
{
    int32_t q, k, o, dk, far, sum;
    int rank = build->rank, merge_first = build->root;
    int err = ri_schedule_begin(schedule, "overtaking", rank, build->ranks, build->host);

    if (err)
        return err;
    q = ri_schedule_slot(*schedule, RI_Q, RI_IN, 1);
    k = ri_schedule_slot(*schedule, RI_K, RI_IN, 1);
    o = ri_schedule_slot(*schedule, RI_DQ, RI_OUT, 1);
    dk = ri_schedule_slot(*schedule, RI_DK, RI_OUT, 1);
    far = ri_schedule_slot(*schedule, RI_K, RI_VIEW, 1);
    sum = ri_schedule_slot(*schedule, RI_DK, RI_OWN, 1);
    if (merge_first) {
        int32_t mine = ri_schedule_slot(*schedule, RI_DK, RI_OWN, 1);

        ri_schedule_compute(*schedule, ri_operand(*schedule, q, rank), ri_operand(*schedule, k, rank),
                            ri_none, ri_operand(*schedule, mine, rank));
        ri_schedule_send(*schedule, ri_operand(*schedule, mine, rank), 1 - rank, 0);
        ri_schedule_recv(*schedule, ri_operand(*schedule, sum, 1 - rank), 1 - rank, 0);
        ri_schedule_merge(*schedule, RI_MERGE_SUM, ri_operand(*schedule, sum, 1 - rank),
                          ri_operand(*schedule, dk, 1 - rank));
    } else {
        ri_schedule_send(*schedule, ri_operand(*schedule, k, rank), 1 - rank, 0);
        ri_schedule_recv(*schedule, ri_operand(*schedule, far, 1 - rank), 1 - rank, 0);
        ri_schedule_compute(*schedule, ri_operand(*schedule, q, rank),
                            ri_operand(*schedule, far, 1 - rank), ri_none,
                            ri_operand(*schedule, dk, 1 - rank));
    }
    ri_schedule_compute(*schedule, ri_operand(*schedule, q, rank), ri_operand(*schedule, k, rank),
                        ri_operand(*schedule, o, rank), ri_none);
    return ri_schedule_end(schedule);
}

static void a_waiting_compute_is_passed_a_waiting_merge_is_not(void **state)
{
    for (int merge_first = 0; merge_first < 2; merge_first++) {
        int idle;

        open_all(ranks, 2, build_overtaking, merge_first, 0);
        assert_int_equal(ri_engine_start(ranks[0].engine, &ranks[0].program), 0);
        for (int i = 0; i < 20; i++)
            ri_engine_progress(ranks[0].engine, NULL, &idle);
        /* Alone, rank 0 gets as far as its rules allow: two pieces a step. */
        assert_int_equal(ranks[0].calls, 2);
        assert_int_equal(ranks[0].order[0], merge_first ? 0 : 3);
        close_all(ranks, 2);
    }
    (void)state;
}

/* Two sends after a receive that has to come: the first passes on what comes, the second what is
 * there. */
static int build_two_sends(struct ri_schedule **schedule, const struct ri_build *build)
{
    int32_t q, k, far;
    int rank = build->rank, peer = 1 - rank;
    int other_bundle = build->root == 1, later = build->root == 2;
    int err = ri_schedule_begin(schedule, "two sends", rank, build->ranks, build->host);

    if (err)
        return err;
    q = ri_schedule_slot(*schedule, RI_Q, RI_IN, 1);
    k = ri_schedule_slot(*schedule, RI_K, RI_IN, 1);
    far = ri_schedule_slot(*schedule, RI_K, RI_VIEW, 1);
    ri_schedule_recv(*schedule, ri_operand(*schedule, far, peer), peer, 0);
    if (build->root == 3) {
        ri_schedule_send(*schedule, ri_operand(*schedule, k, rank), peer, 2);
        return ri_schedule_end(schedule);
    }
    ri_schedule_send(*schedule, ri_operand(*schedule, far, peer), peer, 1);
    ri_schedule_send(*schedule, ri_operand(*schedule, other_bundle ? q : k, rank), peer, 1 + later);
    return ri_schedule_end(schedule);
}

static void sends_of_one_turn_and_bundle_do_not_wait_for_each_other(void **state)
{
    for (int variant = 0; variant < 3; variant++) { /* the same, another bundle, another turn */
        int idle;

        open_all(ranks, 2, build_two_sends, variant, 0);
        assert_int_equal(ri_engine_start(ranks[0].engine, &ranks[0].program), 0);
        for (int i = 0; i < 5; i++)
            assert_int_equal(ri_engine_progress(ranks[0].engine, NULL, &idle), 0);
        assert_int_equal(ranks[0].xfers[1].state, RI_XFER_IDLE);
        assert_int_equal(ranks[0].xfers[2].state, variant == 0 ? RI_XFER_POSTED : RI_XFER_IDLE);
        close_all(ranks, 2);
    }
    (void)state;
}

static void a_send_does_not_wait_for_receives_of_turns_before(void **state)
{
    open_all(ranks, 2, build_two_sends, 3, 0);
    assert_int_equal(ri_engine_start(ranks[0].engine, &ranks[0].program), 0);
    assert_int_equal(ranks[0].xfers[0].state, RI_XFER_POSTED);
    assert_int_equal(ranks[0].xfers[1].state, RI_XFER_POSTED);
    close_all(ranks, 2);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_forward_sees_every_block_once),
        cmocka_unit_test(kv_grad_brings_every_contribution_home),
        cmocka_unit_test(all_reduce_sums_every_part),
        cmocka_unit_test(broadcast_reaches_all_from_any_root),
        cmocka_unit_test(a_run_allocates_nothing_and_counts_bytes),
        cmocka_unit_test(a_run_lasts_until_its_transport_has_settled),
        cmocka_unit_test(a_failing_kernel_ends_the_run_and_posts_nothing),
        cmocka_unit_test(a_second_start_is_refused),
        cmocka_unit_test(where_names_the_step_that_waits_and_its_peer),
        cmocka_unit_test(a_waiting_compute_is_passed_a_waiting_merge_is_not),
        cmocka_unit_test(a_send_does_not_wait_for_receives_of_turns_before),
        cmocka_unit_test(sends_of_one_turn_and_bundle_do_not_wait_for_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
