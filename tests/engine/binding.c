/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that are read in place: all ranks on `self`, slots of views without memory.  A block is some
 * equal numbers; a rank's block holds a power of ten of its own, so that a sum shows who is in it. */
#include "tests/engine/drive.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/status.h"

enum { MAX_RANKS = 6, MAX_STEPS = 128, MAX_SLOTS = 32, NUMBERS = 50 };

struct rank {
    struct ri_transport *transport;
    struct ri_schedule *schedule;
    struct ri_engine *engine;
    struct ri_program program;
    struct ri_xfer xfers[MAX_STEPS];
    uint32_t first_xfer[MAX_STEPS + 1], pieces[MAX_STEPS];
    int64_t memory[MAX_SLOTS][NUMBERS];
    int64_t *where[MAX_SLOTS]; /* NULL: nothing is there */
    struct ri_reference reference[MAX_SLOTS];
    int calls, fail_at, stop_at, fail_arrived, copies;
};

static struct rank ranks[MAX_RANKS];
static struct bench bench;
static int64_t stop_deadline_ns; /* for the call stop_at, inside which rank 0 gives up: 0, it does not wait */

/* ---- a program ---- */

static const struct ri_step *step_of(const struct rank *r, uint32_t index)
{
    return &r->schedule->steps[index];
}

/* Adds a block to another, which is empty when `stores`. */
static void add(int64_t *to, const int64_t *from, int stores)
{
    for (int i = 0; i < NUMBERS; i++)
        to[i] = from[i] + (stores ? 0 : to[i]);
}

/* The first piece does all; the second reads again what is bound, which must still be there. */
static int run(void *owner, uint32_t index, uint32_t piece)
{
    struct rank *r = owner;
    const struct ri_step *step = step_of(r, index);

    r->calls++;
    if (r->stop_at == r->calls)
        assert_int_equal(ri_engine_stop(ranks[0].engine, stop_deadline_ns), stop_deadline_ns == 0);
    if (r->fail_at == r->calls)
        return ri_error(RONDO_ERR_KERNEL, "kernel fails as it was told");
    for (int side = 0; side < 2; side++)
        for (int i = 0; step->from[side].slot >= 0 && i < NUMBERS; i++)
            assert_int_equal(r->where[step->from[side].slot][i], r->where[step->from[side].slot][0]);
    if (piece > 0)
        return 0;
    if (step->op != RI_COMPUTE) {
        add(r->where[step->to[0].slot], r->where[step->from[0].slot], step->op == RI_COPY || step->stores & 1);
        return 0;
    }
    for (int side = 0; side < 2; side++)
        if (step->to[side].slot >= 0)
            add(r->where[step->to[side].slot], r->where[step->from[!side].slot], step->stores >> side & 1);
    return 0;
}

static int prepare(void *owner, uint32_t index)
{
    struct rank *r = owner;
    const struct ri_step *step = step_of(r, index);
    int32_t slot = ri_step_moved(step)->slot;
    struct ri_xfer *xfer = &r->xfers[index];

    if (r->copies)
        xfer->bind = 0;
    if (step->op == RI_SEND)
        xfer->reference = r->reference[slot];
    else if (!xfer->bind)
        r->where[slot] = r->memory[slot];
    xfer->base = (char *)r->where[slot];
    return 0;
}

static int arrived(void *owner, uint32_t index, uint32_t first, uint32_t end)
{
    struct rank *r = owner;
    int32_t slot = ri_step_moved(step_of(r, index))->slot;
    const struct ri_xfer *xfer = &r->xfers[index];

    if (r->fail_arrived || first != index || end != index + 1)
        return ri_error(RONDO_ERR_MISMATCH, "not what was meant");
    if (xfer->state == RI_XFER_DONE && xfer->bind) {
        r->where[slot] = (int64_t *)(void *)xfer->base;
        r->reference[slot] = xfer->reference;
    }
    return 0;
}

static void make_program(struct rank *r)
{
    const struct ri_schedule *s = r->schedule;
    uint32_t counts[2][MAX_RANKS] = { { 0 } };

    assert_true(s->step_count <= MAX_STEPS && s->slot_count <= MAX_SLOTS);
    for (uint32_t i = 0; i < s->slot_count; i++)
        r->where[i] = s->slots[i].kind == RI_VIEW ? NULL : r->memory[i];
    for (uint32_t i = 0; i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];
        int send = step->op == RI_SEND;

        r->first_xfer[i] = i; /* steps that move nothing have a message that is never posted */
        r->pieces[i] = ri_step_moves(step) ? 0 : 2;
        if (ri_step_moves(step))
            r->xfers[i] = (struct ri_xfer){
                .tag = counts[send][step->peer]++, .peer = step->peer, .send = (uint8_t)send,
                .lane = step->lane, .rows = 1, .row_bytes = sizeof(r->memory[0]),
                .row_stride = sizeof(r->memory[0]),
                .kind = s->slots[ri_step_moved(step)->slot].bundle,
            };
    }
    r->first_xfer[s->step_count] = s->step_count;
    r->program = (struct ri_program){ .schedule = s, .transport = r->transport, .xfers = r->xfers,
                                      .first_xfer = r->first_xfer, .pieces = r->pieces, .run = run,
                                      .prepare = prepare, .arrived = arrived, .owner = r };
}

/* Whatever is read-only, stays on its host and comes into a view is bound. */
static void set_bind_bits(int count)
{
    for (int r = 0; r < count; r++)
        for (uint32_t i = 0; i < ranks[r].schedule->step_count; i++) {
            struct ri_step *step = &ranks[r].schedule->steps[i];
            uint8_t bundle = ri_step_moves(step) ? ranks[r].schedule->slots[ri_step_moved(step)->slot].bundle
                                                 : RI_O;

            step->bind = !ri_bundle_accumulates(bundle) && step->lane == RI_LANE_LOCAL && step->turn != 9;
        }
}

static void open_all(int count, ri_builder *build, uint64_t seed)
{
    static struct ri_config config;

    config.self_seed = (int64_t)seed;
    bench_open(&bench, "self", count, &config);
    for (int i = 0; i < count; i++) {
        memset(&ranks[i], 0, sizeof(ranks[i]));
        ranks[i].transport = bench.rank[i];
        assert_int_equal(build(&ranks[i].schedule, &(struct ri_build){ .rank = i, .ranks = count }), 0);
    }
    set_bind_bits(count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(ri_engine_create(ranks[i].schedule, &ranks[i].engine), 0);
        make_program(&ranks[i]);
    }
}

static void close_all(int count)
{
    for (int i = 0; i < count; i++) {
        ri_engine_destroy(ranks[i].engine);
        ri_schedule_destroy(ranks[i].schedule);
    }
    bench_close(&bench);
}

static void fill(int count, int slot)
{
    for (int i = 0; i < count; i++)
        for (int n = 0; n < NUMBERS; n++)
            ranks[i].memory[slot][n] = power(i);
}

static int nobody_reads(const struct rank *r)
{
    for (uint32_t i = 0; i < r->schedule->step_count; i++)
        if (r->xfers[i].send && r->xfers[i].state == RI_XFER_DONE &&
            ri_transport_self.readers(r->transport, (struct ri_xfer *)&r->xfers[i]) > 0)
            return 0;
    return 1;
}

static void start(struct rank *r)
{
    r->calls = 0;
    memset(r->reference, 0, sizeof(r->reference));
    assert_int_equal(ri_engine_start(r->engine, &r->program), 0);
}

static void nobody_reads_at_the_end(int rank)
{
    assert_true(nobody_reads(&ranks[rank]));
}

/* Runs all ranks to their end, or to the first failure; returns that. */
static int drive(int count, uint64_t seed)
{
    struct ri_engine *engines[MAX_RANKS];

    for (int i = 0; i < count; i++) {
        engines[i] = ranks[i].engine;
        start(&ranks[i]);
    }
    return drive_engines(engines, count, seed, nobody_reads_at_the_end);
}

/* ---- rings ---- */

static void check_ring(int count, uint64_t rounds, int forward)
{
    for (int i = 0; i < count; i++) {
        const struct ri_engine_stats *stats = ri_engine_stats(ranks[i].engine);
        uint64_t hops = rounds * (uint64_t)(count - 1) * sizeof(ranks[0].memory[0]);

        assert_int_equal(stats->sent_kind[RI_LANE_LOCAL][RI_K], 0);
        assert_int_equal(stats->bound_bytes, hops);
        assert_int_equal(stats->sent_kind[RI_LANE_LOCAL][RI_DK], forward ? 0 : hops);
        assert_int_equal(stats->sent_bytes[RI_LANE_LOCAL], forward ? 0 : hops);
        assert_int_equal(stats->received_bytes[RI_LANE_LOCAL], forward ? 0 : hops);
        for (int n = 0; n < NUMBERS; n++)
            assert_int_equal(ranks[i].memory[2][n], everyone(count));
        if (!forward)
            assert_int_equal(ranks[i].memory[3][0], everyone(count));
    }
}

static void rings_move_no_read_only_byte(void **state)
{
    (void)state;
    for (int forward = 0; forward < 2; forward++)
        for (int count = 1; count <= MAX_RANKS; count++)
            for (uint64_t seed = 0; seed < 4; seed++) {
                open_all(count, forward ? ri_build_ring_forward : ri_build_ring_kv_grad, seed);
                fill(count, 0);
                fill(count, 1);
                for (uint64_t round = 1; round <= 2; round++) {
                    assert_int_equal(drive(count, seed + round), 0);
                    check_ring(count, round, forward);
                }
                close_all(count);
            }
}

/* What the schedule binds may be copied after all: the views have memory then. */
static void a_program_may_copy_after_all(void **state)
{
    (void)state;
    open_all(3, ri_build_ring_forward, 1);
    fill(3, 1);
    for (int i = 0; i < 3; i++)
        ranks[i].copies = 1;
    assert_int_equal(drive(3, 8), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ranks[i].memory[2][0], everyone(3));
        assert_int_equal(ri_engine_stats(ranks[i].engine)->sent_kind[RI_LANE_LOCAL][RI_K],
                         2 * sizeof(ranks[0].memory[0]));
        assert_int_equal(ri_engine_stats(ranks[i].engine)->bound_bytes, 0);
    }
    close_all(3);
}

/* ---- the holder ---- */

/* Rank 0 gives out a buffer of its own and then rewrites it, by a copy or by what comes from rank 1 in
 * turn 9, which is not bound. */
static int receives;

static int build_rewriting(struct ri_schedule **schedule, const struct ri_build *build)
{
    int rank = build->rank;
    int32_t q, k, o, buffer;
    int err = ri_schedule_begin(schedule, "rewriting", rank, build->ranks, build->host);
    struct ri_schedule *s = *schedule;

    if (err)
        return err;
    q = ri_schedule_slot(s, RI_Q, RI_IN, 1);
    k = ri_schedule_slot(s, RI_K, RI_IN, 1);
    o = ri_schedule_slot(s, RI_O, RI_OUT, 1);
    buffer = ri_schedule_slot(s, RI_K, rank ? RI_VIEW : RI_OWN, 1);
    if (rank == 0) {
        ri_schedule_copy(s, ri_operand(s, k, 0), ri_operand(s, buffer, 0));
        ri_schedule_send(s, ri_operand(s, buffer, 0), 1, 0);
        if (receives)
            ri_schedule_recv(s, ri_operand(s, buffer, 1), 1, 9);
        else
            ri_schedule_copy(s, ri_operand(s, k, 0), ri_operand(s, buffer, 0));
    } else {
        ri_schedule_recv(s, ri_operand(s, buffer, 0), 0, 0);
        if (receives)
            ri_schedule_send(s, ri_operand(s, k, 1), 0, 9);
    }
    ri_schedule_compute(s, ri_operand(s, q, rank), ri_operand(s, rank ? buffer : k, 0),
                        ri_operand(s, o, rank), ri_none);
    return ri_schedule_end(schedule);
}

/* As far as rank r gets alone. */
static int push(int r)
{
    int state = 0, idle;

    for (int i = 0; i < 50 && state == 0; i++)
        state = ri_engine_progress(ranks[r].engine, NULL, &idle);
    assert_true(state >= 0);
    return state;
}

static void a_holder_waits_to_rewrite(void **state)
{
    int idle;

    (void)state;
    for (receives = 0; receives < 2; receives++) {
        uint32_t rewriter = 2;

        open_all(2, build_rewriting, 0);
        fill(2, 1);
        start(&ranks[0]);
        start(&ranks[1]);
        push(0);
        while (ranks[1].calls < 1) { /* one of two pieces that read */
            ri_engine_progress(ranks[0].engine, NULL, &idle);
            ri_engine_progress(ranks[1].engine, NULL, &idle);
        }
        ranks[0].memory[1][0] = 5; /* what the copy would bring now */
        assert_int_equal(push(0), 0);
        assert_int_equal(ranks[0].memory[3][0], power(0));
        assert_int_equal(ranks[0].xfers[rewriter].state, RI_XFER_IDLE);
        assert_int_equal(ranks[0].calls, 4); /* the first copy and the compute, two pieces each */
        ranks[0].memory[1][0] = power(0);
        push(1);
        assert_int_equal(ranks[1].calls, 2);
        assert_int_equal(push(0), 1);
        assert_int_equal(push(1), 1);
        assert_int_equal(ranks[1].memory[2][0], power(0));
        assert_int_equal(ranks[0].memory[3][0], receives ? power(1) : power(0));
        close_all(2);
    }
}

/* Rank 1 computes with the block of rank 0, which gives up inside call stop_at. */
static void read_on(int stop_at)
{
    int idle;

    open_all(2, ri_build_ring_forward, 0);
    fill(2, 1);
    start(&ranks[0]);
    start(&ranks[1]);
    ranks[1].pieces[ranks[1].schedule->step_count - 1] = 1000;
    ranks[1].stop_at = stop_at;
    while (ranks[1].calls < 10) {
        ri_engine_progress(ranks[0].engine, NULL, &idle);
        ri_engine_progress(ranks[1].engine, NULL, &idle);
    }
    assert_false(nobody_reads(&ranks[0]));
}

static void a_holder_is_not_done_while_others_read(void **state)
{
    char text[160];
    int peer;

    (void)state;
    read_on(0);
    assert_int_equal(push(0), 0);
    ri_engine_where(ranks[0].engine, text, sizeof(text), &peer);
    assert_non_null(strstr(text, "others still read 1"));
    assert_int_equal(peer, -1);
    while (push(1) == 0)
        ;
    assert_int_equal(push(0), 1);
    close_all(2);
}

/* ---- failures ---- */

static void *cancel(void *argument)
{
    struct rank *r = argument;

    ri_engine_cancel(r->engine);
    return NULL;
}

/* One rank fails somewhere; then all cancel at once, as they do when they hear of it. */
static void nobody_reads_after_a_failure(void **state)
{
    (void)state;
    for (int fail_at = 1; fail_at < 8; fail_at++) {
        pthread_t threads[4];

        open_all(4, ri_build_ring_forward, 0);
        fill(4, 1);
        ranks[2].fail_at = fail_at;
        assert_int_equal(drive(4, (uint64_t)fail_at), RONDO_ERR_KERNEL);
        for (uint32_t i = 0; i < ranks[2].schedule->step_count; i++)
            assert_int_not_equal(ranks[2].xfers[i].state, RI_XFER_POSTED);
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, cancel, &ranks[i]), 0);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < 4; i++)
            assert_true(nobody_reads(&ranks[i]));
        close_all(4);
    }
}

/* Between two pieces at once; inside one, which then fails, after its end, or its own deadline. */
static void a_holder_takes_back_what_is_read(void **state)
{
    int idle;

    (void)state;
    for (int inside = 0; inside < 3; inside++) {
        read_on(inside ? 11 : 0);
        stop_deadline_ns = inside == 1 ? INT64_MAX : 0;
        if (inside)
            assert_int_equal(ri_engine_progress(ranks[1].engine, NULL, &idle), RONDO_ERR_PEER);
        assert_int_equal(ri_engine_stop(ranks[0].engine, INT64_MAX), 1);
        assert_true(nobody_reads(&ranks[0]));
        assert_int_equal(inside ? RONDO_ERR_PEER : ri_engine_progress(ranks[1].engine, NULL, &idle), RONDO_ERR_PEER);
        assert_non_null(strstr(rondo_last_error(), "rank 0 has given up its run"));
        assert_int_equal(ranks[1].calls, inside ? 11 : 10);
        ri_engine_cancel(ranks[1].engine);
        close_all(2);
    }
}

static void arrived_may_refuse(void **state)
{
    (void)state;
    open_all(2, ri_build_ring_forward, 0);
    ranks[0].fail_arrived = ranks[1].fail_arrived = 1;
    assert_int_equal(drive(2, 3), RONDO_ERR_MISMATCH);
    assert_non_null(strstr(rondo_last_error(), "not what was meant"));
    cancel(&ranks[0]);
    cancel(&ranks[1]);
    close_all(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_move_no_read_only_byte),
        cmocka_unit_test(a_program_may_copy_after_all),
        cmocka_unit_test(a_holder_waits_to_rewrite),
        cmocka_unit_test(a_holder_is_not_done_while_others_read),
        cmocka_unit_test(nobody_reads_after_a_failure),
        cmocka_unit_test(a_holder_takes_back_what_is_read),
        cmocka_unit_test(arrived_may_refuse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
