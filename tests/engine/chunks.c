/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers in chunks, and work that starts on those that have come: all ranks of a ring in one thread on
 * `self`, in orders drawn from seeds.  Sums of a token depend on the order of what is added, so that equal
 * results show equal orders. */
#include "tests/engine/drive.h"

#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/status.h"

enum { MAX_RANKS = 5, MAX_STEPS = 64, MAX_SLOTS = 16, TOKENS = 12, MAX_DEPS = 256, MAX_UNITS = 2 * TOKENS };
enum { QUERY, KEY };

struct rank {
    struct ri_transport *transport;
    struct ri_schedule *schedule;
    struct ri_engine *engine;
    struct ri_program program;
    struct ri_xfer xfers[MAX_STEPS * TOKENS];
    uint32_t first_xfer[MAX_STEPS + 1], first_chunk[MAX_STEPS + 1], chunk_end[MAX_STEPS * TOKENS];
    uint32_t pieces[MAX_STEPS], needs[MAX_DEPS][MAX_UNITS];
    const uint32_t *need[MAX_DEPS];
    uint64_t slots[MAX_SLOTS][TOKENS];
    uint32_t order[MAX_STEPS * MAX_UNITS];
    int side, size; /* which side travels; tokens of a chunk */
    int calls, fail_at;
};

static struct rank ranks[MAX_RANKS];
static struct bench bench;

/* ---- work ---- */

static uint64_t mix(uint64_t sum, uint64_t value)
{
    sum = (sum ^ value) * 0x9e3779b97f4a7c15u;
    return sum ^ sum >> 29;
}

static int last(const struct rank *r, uint32_t chunk)
{
    int end = (int)(chunk + 1) * r->size;

    return end < TOKENS ? end : TOKENS;
}

/* Piece 2 c + h: chunk c of the side that travels, half h of the other; what is added to a token is told
 * apart by where it comes from. */
static void compute(struct rank *r, const struct ri_step *step, uint32_t piece)
{
    int first[2], end[2], moving = r->side, still = !r->side;

    first[moving] = (int)(piece / 2) * r->size, end[moving] = last(r, piece / 2);
    first[still] = piece % 2 ? TOKENS / 2 : 0, end[still] = piece % 2 ? TOKENS : TOKENS / 2;
    for (int side = 0; side < 2; side++) {
        if (piece == 0 && step->to[side].slot >= 0 && step->stores >> side & 1)
            memset(r->slots[step->to[side].slot], 0, sizeof(r->slots[0]));
        for (int t = first[side]; step->to[side].slot >= 0 && t < end[side]; t++)
            for (int u = first[!side]; u < end[!side]; u++)
                r->slots[step->to[side].slot][t] = mix(r->slots[step->to[side].slot][t],
                                                       r->slots[step->from[!side].slot][u] +
                                                       r->slots[step->from[side].slot][t]);
    }
}

static int run(void *owner, uint32_t index, uint32_t piece)
{
    struct rank *r = owner;
    const struct ri_step *step = &r->schedule->steps[index];

    r->order[r->calls++] = index;
    if (r->fail_at == r->calls)
        return ri_error(RONDO_ERR_KERNEL, "kernel fails as it was told");
    if (step->op == RI_COMPUTE)
        compute(r, step, piece);
    for (int t = (int)piece * r->size; step->op == RI_MERGE && t < last(r, piece); t++) {
        uint64_t *to = &r->slots[step->to[0].slot][t], from = r->slots[step->from[0].slot][t];

        *to = step->stores & 1 ? from : mix(*to, from);
    }
    return 0;
}

/* ---- programs ---- */

static uint32_t chunks_of(const struct rank *r)
{
    return (uint32_t)((TOKENS + r->size - 1) / r->size);
}

/* Does the step take what the other has brought to this slot? */
static int takes(const struct ri_step *step, int32_t slot)
{
    return step->from[0].slot == slot || (step->op == RI_COMPUTE && step->from[1].slot == slot) ||
           (step->op == RI_MERGE && step->to[0].slot == slot);
}

static void refine(struct rank *r, uint32_t d, const struct ri_step *on, const struct ri_step *step)
{
    int32_t slot = on->op == RI_COMPUTE ? on->to[r->side].slot : on->to[0].slot;
    int each = step->op == RI_COMPUTE ? 2 : 1, every = on->op == RI_COMPUTE ? 2 : 1;

    r->need[d] = NULL;
    if (on->op == RI_SEND || step->op == RI_RECV || (on->op == RI_COMPUTE && step->op == RI_COMPUTE) ||
        (on->op == RI_MERGE && step->op == RI_COMPUTE) || slot < 0 || !takes(step, slot))
        return;
    for (uint32_t u = 0; u < chunks_of(r) * (uint32_t)each; u++)
        r->needs[d][u] = (u / (uint32_t)each + 1) * (uint32_t)every;
    r->need[d] = r->needs[d];
}

static void fill_messages(struct rank *r, uint32_t index, uint32_t *x, uint32_t counts[2][MAX_RANKS])
{
    const struct ri_step *step = &r->schedule->steps[index];
    uint64_t *memory = r->slots[ri_step_moved(step)->slot];
    int send = step->op == RI_SEND;

    for (uint32_t c = 0; c < chunks_of(r); c++) {
        size_t first = c * (size_t)r->size, bytes = ((size_t)last(r, c) - first) * sizeof(uint64_t);

        r->xfers[*x] = (struct ri_xfer){
            .tag = counts[send][step->peer]++, .peer = step->peer, .send = (uint8_t)send, .lane = step->lane,
            .rows = 1, .row_bytes = bytes, .row_stride = bytes, .base = (char *)(memory + first),
        };
        (*x)++;
        r->chunk_end[*x - 1] = *x;
    }
}

/* whole: a transfer is one step of many messages, and nothing is refined. */
static void make_program(struct rank *r, int whole)
{
    const struct ri_schedule *s = r->schedule;
    uint32_t counts[2][MAX_RANKS] = { { 0 } }, x = 0;

    assert_true(s->step_count <= MAX_STEPS && s->slot_count <= MAX_SLOTS && s->dep_count <= MAX_DEPS);
    for (uint32_t i = 0; i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];

        r->first_xfer[i] = r->first_chunk[i] = x;
        r->pieces[i] = ri_step_moves(step) ? 0 : chunks_of(r) * (step->op == RI_COMPUTE ? 2 : 1);
        if (ri_step_moves(step))
            fill_messages(r, i, &x, counts);
        for (uint32_t d = step->first_dep; d < step->first_dep + step->deps; d++)
            refine(r, d, &s->steps[s->deps[d]], step);
    }
    r->first_xfer[s->step_count] = r->first_chunk[s->step_count] = x;
    r->program = (struct ri_program){ .schedule = s, .transport = r->transport, .xfers = r->xfers,
                                      .first_xfer = r->first_xfer, .pieces = r->pieces, .run = run,
                                      .owner = r };
    if (whole)
        return;
    r->program.first_chunk = r->first_chunk;
    r->program.chunk_end = r->chunk_end;
    r->program.need = r->need;
}

struct ring {
    ri_builder *build;
    int side, sum, home; /* which side travels; slots of results: of the query, of the key, or -1 */
};

static const struct ring rings[] = {
    { ri_build_ring_forward, KEY, 2, -1 },
    { ri_build_ring_kv_grad, KEY, 2, 3 },
    { ri_build_ring_q_grad, QUERY, 2, 3 },
};
enum { RINGS = sizeof(rings) / sizeof(*rings) };

static void open_all(const struct ring *ring, int count, int size, int whole, uint64_t seed)
{
    static struct ri_config config;

    config.self_seed = (int64_t)seed;
    bench_open(&bench, "self", count, &config);
    for (int i = 0; i < count; i++) {
        struct ri_build how = { .rank = i, .ranks = count };

        memset(&ranks[i], 0, sizeof(ranks[i]));
        ranks[i].transport = bench.rank[i];
        ranks[i].side = ring->side, ranks[i].size = size;
        assert_int_equal(ring->build(&ranks[i].schedule, &how), 0);
        assert_int_equal(ri_engine_create(ranks[i].schedule, &ranks[i].engine), 0);
        make_program(&ranks[i], whole);
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

/* The caller's blocks; what is left of a run before would be seen. */
static void fill(int count)
{
    for (int i = 0; i < count; i++) {
        memset(ranks[i].slots, 0x55, sizeof(ranks[i].slots));
        for (int t = 0; t < TOKENS; t++) {
            ranks[i].slots[0][t] = (uint64_t)(1000 * i + t);
            ranks[i].slots[1][t] = (uint64_t)(1000 * i + 500 + t);
        }
        ranks[i].calls = 0;
    }
}

/* To the end of all ranks, or to the first failure; returns that. */
static int drive(int count, uint64_t seed)
{
    struct ri_engine *engines[MAX_RANKS];

    fill(count);
    for (int i = 0; i < count; i++) {
        engines[i] = ranks[i].engine;
        assert_int_equal(ri_engine_start(engines[i], &ranks[i].program), 0);
    }
    return drive_engines(engines, count, seed, NULL);
}

/* ---- tests ---- */

static uint64_t wanted[MAX_RANKS][2][TOKENS];

static void remember(const struct ring *ring, int count)
{
    for (int i = 0; i < count; i++) {
        memcpy(wanted[i][0], ranks[i].slots[ring->sum], sizeof(wanted[i][0]));
        if (ring->home >= 0)
            memcpy(wanted[i][1], ranks[i].slots[ring->home], sizeof(wanted[i][1]));
    }
}

static void compare(const struct ring *ring, int count)
{
    for (int i = 0; i < count; i++) {
        assert_memory_equal(ranks[i].slots[ring->sum], wanted[i][0], sizeof(wanted[i][0]));
        if (ring->home >= 0)
            assert_memory_equal(ranks[i].slots[ring->home], wanted[i][1], sizeof(wanted[i][1]));
    }
}

static void results_do_not_depend_on_what_comes_first(void **state)
{
    static const int sizes[] = { 1, 3, 5, 12 };

    for (int b = 0; b < RINGS; b++)
        for (int count = 1; count <= MAX_RANKS; count += 1 + count / 3)
            for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
                open_all(&rings[b], count, sizes[i], 1, 0);
                assert_int_equal(drive(count, 0), 0);
                remember(&rings[b], count);
                close_all(count);
                for (uint64_t seed = 0; seed < 6; seed++) {
                    open_all(&rings[b], count, sizes[i], 0, seed);
                    assert_int_equal(drive(count, seed + 1), 0);
                    compare(&rings[b], count);
                    close_all(count);
                }
            }
    (void)state;
}

/* Wherever it fails, nothing stays posted, and the next run is right. */
static void a_failure_in_the_middle_of_a_chunked_step_ends_it(void **state)
{
    for (int b = 0; b < RINGS; b++) {
        open_all(&rings[b], 3, 2, 0, 3);
        assert_int_equal(drive(3, 0), 0);
        remember(&rings[b], 3);
        for (int fail_at = 1; fail_at <= 30; fail_at++) {
            ranks[1].fail_at = fail_at;
            assert_int_equal(drive(3, (uint64_t)fail_at), RONDO_ERR_KERNEL);
            for (int i = 0; i < 3; i++)
                ri_engine_cancel(ranks[i].engine);
            for (int i = 0; i < 3; i++)
                for (uint32_t x = 0; x < ranks[i].first_xfer[ranks[i].schedule->step_count]; x++)
                    assert_int_not_equal(ranks[i].xfers[x].state, RI_XFER_POSTED);
            ranks[1].fail_at = 0;
            assert_int_equal(drive(3, (uint64_t)fail_at), 0);
            compare(&rings[b], 3);
        }
        close_all(3);
    }
    (void)state;
}

/* The n-th step of a kind that is not about the own block. */
static uint32_t find(const struct rank *r, int op, enum ri_bundle bundle)
{
    const struct ri_schedule *s = r->schedule;

    for (uint32_t i = 0; i < s->step_count; i++)
        if (s->steps[i].op == op && (!ri_step_moves(&s->steps[i]) ||
                                     s->slots[ri_step_moved(&s->steps[i])->slot].bundle == bundle))
            return i;
    fail();
    return 0;
}

/* Pieces of COMPUTE steps so far. */
static int computed(const struct rank *r)
{
    int n = 0;

    for (int i = 0; i < r->calls; i++)
        n += r->schedule->steps[r->order[i]].op == RI_COMPUTE;
    return n;
}

/* Both ranks step by step: a chunk of K is worked on while the next ones have not come, and a chunk of dK
 * has left when its last piece is done. */
static void a_chunk_of_a_sum_leaves_when_it_is_done(void **state)
{
    uint32_t send, left = 0;
    int idle, now;

    open_all(&rings[1], 2, 3, 0, 0);
    fill(2);
    send = find(&ranks[0], RI_SEND, RI_DK);
    assert_int_equal(ri_engine_start(ranks[0].engine, &ranks[0].program), 0);
    assert_int_equal(ri_engine_start(ranks[1].engine, &ranks[1].program), 0);
    for (int i = 0; i < 100 && computed(&ranks[0]) < 16; i++) {
        const struct ri_xfer *first = &ranks[0].xfers[ranks[0].first_xfer[send]];

        ri_engine_progress(ranks[1].engine, NULL, &idle);
        ri_engine_progress(ranks[0].engine, NULL, &idle);
        for (left = 0; left < 4 && first[left].state != RI_XFER_IDLE; left++)
            ;
        now = computed(&ranks[0]);
        /* 8 pieces at home, then 2 a chunk; what the last piece has finished leaves in the next call, before
         * its piece.  A chunk of the other's sum is merged between two of them. */
        assert_in_range(left, now > 8 ? (now - 9) / 2 : 0, now > 8 ? (now - 8) / 2 : 0);
    }
    assert_in_range(left, 3, 4);
    close_all(2);
    (void)state;
}

static void work_begins_on_the_chunks_that_have_come(void **state)
{
    uint32_t recv;
    int idle;

    open_all(&rings[0], 2, 3, 0, 0);
    fill(2);
    recv = ranks[0].first_chunk[find(&ranks[0], RI_RECV, RI_K)];
    ranks[1].program.need = NULL;
    assert_int_equal(ri_engine_start(ranks[0].engine, &ranks[0].program), 0);
    for (uint32_t c = 0; c < 4; c++) { /* the peer's messages, one by one, and the second before the first */
        uint32_t at = c < 2 ? !c : c;
        struct ri_xfer message = ranks[1].xfers[find(&ranks[1], RI_SEND, RI_K) * 4 + at], *send = &message;

        assert_int_equal(ri_transport_self.post(ranks[1].transport, &send, 1), 0);
        for (int i = 0; i < 20; i++) {
            ri_transport_self.progress(ranks[1].transport);
            ri_engine_progress(ranks[0].engine, NULL, &idle);
        }
        assert_int_equal(message.state, RI_XFER_DONE);
        assert_int_equal(ranks[0].xfers[recv + at].state, RI_XFER_DONE);
        assert_int_equal(ranks[0].calls, c == 0 ? 8 : 8 + 2 * (int)(c + 1));
    }
    close_all(2);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_do_not_depend_on_what_comes_first),
        cmocka_unit_test(a_failure_in_the_middle_of_a_chunked_step_ends_it),
        cmocka_unit_test(a_chunk_of_a_sum_leaves_when_it_is_done),
        cmocka_unit_test(work_begins_on_the_chunks_that_have_come),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
