/* SPDX-License-Identifier: Apache-2.0 */
/* Plans whose length changes from call to call: as fresh plans to the bit, without allocating and without
 * asking anyone; and ranks that bound different lengths. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "comm/comm.h"
#include "plan/plan.h"
#include "tests/api/heap.h"
#include "tests/api/shard.h"
#include "tests/short.h"

/* ---- what is counted, by the thread of each rank ---- */

static _Thread_local int agreements;

int __real_ri_bootstrap_allgather(struct ri_bootstrap *bootstrap, const void *mine, size_t bytes,
                                  void *all, int64_t deadline_ns);
int __wrap_ri_bootstrap_allgather(struct ri_bootstrap *bootstrap, const void *mine, size_t bytes,
                                  void *all, int64_t deadline_ns);

int __wrap_ri_bootstrap_allgather(struct ri_bootstrap *bootstrap, const void *mine, size_t bytes,
                                  void *all, int64_t deadline_ns)
{
    agreements += heap.counting;
    return __real_ri_bootstrap_allgather(bootstrap, mine, bytes, all, deadline_ns);
}

/* Number of this thread's listing that fails, from 1 on; 0: none does. */
static _Thread_local int failing_list;

int __real_ri_pieces_list(struct ri_pass *pass);
int __wrap_ri_pieces_list(struct ri_pass *pass);

int __wrap_ri_pieces_list(struct ri_pass *pass)
{
    if (failing_list > 0 && --failing_list == 0)
        return ri_error(RONDO_ERR_MEMORY, "no room");
    return __real_ri_pieces_list(pass);
}

/* ---- one rank ---- */

struct test {
    struct meeting meeting;
    struct problem problem; /* of the longest length; shorter ones use the beginning of its data */
    rondo_layout_kind_t kind;
    const int64_t *lengths; /* ends with 0 */
    int odd_rank, backward; /* who binds another length, before which pass */
    pthread_barrier_t together;
    const char *binding, *schedule, *gradients; /* NULL: a ring, KV-grad */
    int ranks_per_host;                         /* 0: all on one */
};

static rondo_plan_t plan_of(rondo_comm_t comm, const struct test *t, int64_t tokens, int ranks)
{
    rondo_layout_t layout = layout_of(t->kind, tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_plan_t plan = NULL;

    options.schedule = t->schedule ? t->schedule : "ring";
    options.backward = t->gradients ? t->gradients : "kv-grad";
    options.binding = t->binding;
    if (expect(!rondo_attention_plan(comm, layout, &desc, &options, &plan), "plan: %s", rondo_last_error()))
        exit(1);
    rondo_layout_destroy(layout);
    return plan;
}

static void shard_of(const struct test *t, int64_t tokens, int rank, int ranks, struct shard *s)
{
    rondo_layout_t layout = layout_of(t->kind, tokens, ranks);
    struct problem p = t->problem;

    p.tokens = tokens;
    shard_init(s, layout, rank, &p);
    rondo_layout_destroy(layout);
}

/* Binds and runs both passes; counts what that takes.  All ranks come and go together, because rank 0 takes
 * memory for what it hears of ranks that are ahead. */
static int bind_and_run(struct test *t, rondo_plan_t plan, int64_t tokens, const struct shard *s)
{
    int bad;

    pthread_barrier_wait(&t->together);
    heap.counting = 1;
    bad = expect(!rondo_plan_bind(plan, tokens, NULL, 0), "bind: %s", rondo_last_error()) ||
          expect(!shard_both(plan, s), "run: %s", rondo_last_error());
    heap.counting = 0;
    pthread_barrier_wait(&t->together);
    return bad + expect(heap.allocations == 0, "%d allocations", heap.allocations) +
           expect(agreements == 0, "%d agreements", agreements);
}

static int check_length(rondo_comm_t comm, struct test *t, rondo_plan_t plan, int64_t tokens)
{
    rondo_comm_info_t info = RONDO_COMM_INFO_INIT;
    struct shard s, want;
    rondo_plan_t fresh;
    int bad;

    rondo_comm_query(comm, &info);
    shard_of(t, tokens, info.rank, info.size, &s);
    shard_of(t, tokens, info.rank, info.size, &want);
    fresh = plan_of(comm, t, tokens, info.size);
    bad = expect(!shard_both(fresh, &want), "fresh plan: %s", rondo_last_error());
    bad += bind_and_run(t, plan, tokens, &s);
    bad += expect(s.output_count == 0 || memcmp(s.outputs, want.outputs, s.output_count * sizeof(float)) == 0,
                  "rank %d of %d, %s: %lld tokens have other bits than in a fresh plan", info.rank,
                  info.size, rondo_layout_kind_name(t->kind), (long long)tokens);
    rondo_plan_destroy(fresh);
    shard_release(&want);
    shard_release(&s);
    return bad;
}

static int lengths_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_plan_t plan = plan_of(comm, t, t->problem.tokens, ranks);
    int bad = 0;

    for (const int64_t *tokens = t->lengths; *tokens; tokens++)
        bad += check_length(comm, t, plan, *tokens);
    rondo_plan_destroy(plan);
    rondo_comm_destroy(comm);
    return bad;
}

static struct test *test_of(const struct problem *shape, rondo_layout_kind_t kind)
{
    struct test *t = shared_memory(sizeof(*t));

    t->problem = *shape;
    t->kind = kind;
    problem_init(&t->problem, (uint64_t)shape->tokens);
    return t;
}

static void run_lengths(const struct problem *shape, rondo_layout_kind_t kind, int ranks,
                        const int64_t *lengths)
{
    struct test *t = test_of(shape, kind);

    t->lengths = lengths;
    assert_int_equal(pthread_barrier_init(&t->together, NULL, (unsigned)ranks), 0);
    assert_int_equal(run_ranks(ranks, 0, 100, lengths_body, t), 0);
    pthread_barrier_destroy(&t->together);
    problem_release(&t->problem);
}

/* ---- lengths that change ---- */

static void every_length_up_to_the_longest(void **state)
{
    enum { LONGEST = 17 };
    int64_t lengths[2 * LONGEST + 1] = { 0 };

    (void)state;
    for (int i = 0; i < LONGEST; i++) {
        lengths[i] = LONGEST - i;
        lengths[LONGEST + i] = 1 + i * 5 % LONGEST;
    }
    for (int ranks = 1; ranks <= 5; ranks++)
        for (int kind = 0; kind < 3; kind++) {
            struct problem shape = { .batch = 2, .tokens = LONGEST, .causal = (ranks + kind) % 4 != 0,
                                     .q_heads = 2, .kv_heads = 1, .qk_dim = 4, .v_dim = 3 };

            run_lengths(&shape, (rondo_layout_kind_t)kind, ranks, lengths);
        }
}

/* Blocks of many pieces of work. */
static void long_lengths(void **state)
{
    static const int64_t all[] = { 600, 599, 333, 64, 7, 1, 257, 600, 0 }, few[] = { 600, 64, 257, 0 };
    const int64_t *lengths = test_is_short() ? few : all;
    const int dim = test_is_short() ? 4 : 64, kv_heads = test_is_short() ? 1 : 2;
    const struct problem shape = { .batch = 1, .tokens = 600, .causal = 1, .q_heads = 2 * kv_heads,
                                   .kv_heads = kv_heads, .qk_dim = dim, .v_dim = dim };

    (void)state;
    for (int kind = 0; kind < 3; kind++)
        run_lengths(&shape, (rondo_layout_kind_t)kind, 1 + kind, lengths);
    run_lengths(&shape, RONDO_LAYOUT_ZIGZAG, 1, lengths);
}

/* ---- what was sent, by tensor ---- */

/* What a ring and KV-grad send of the blocks of the ranks from `first` to `last` before this one. */
static uint64_t bytes_of(const struct test *t, int64_t tokens, int rank, int ranks, int first, int last,
                         int row)
{
    rondo_layout_t layout = layout_of(t->kind, tokens, ranks);
    int64_t rows = 0;

    for (int i = first; i <= last; i++)
        rows += rondo_layout_tokens(layout, (rank - i + ranks) % ranks);
    rondo_layout_destroy(layout);
    return (uint64_t)(rows * t->problem.batch * row) * sizeof(float);
}

static int bytes_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    int64_t tokens = t->problem.tokens - 2;
    const struct problem *p = &t->problem;
    int k_row = p->kv_heads * p->qk_dim, v_row = p->kv_heads * p->v_dim, bad;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_plan_t plan = plan_of(comm, t, p->tokens, ranks);
    rondo_plan_stats_t stats = RONDO_PLAN_STATS_INIT;
    uint64_t want[RONDO_TENSOR_COUNT] = {
        [RONDO_TENSOR_K] = 2 * bytes_of(t, tokens, rank, ranks, 0, ranks - 2, k_row),
        [RONDO_TENSOR_V] = 2 * bytes_of(t, tokens, rank, ranks, 0, ranks - 2, v_row),
        [RONDO_TENSOR_DK] = bytes_of(t, tokens, rank, ranks, 1, ranks - 1, k_row),
        [RONDO_TENSOR_DV] = bytes_of(t, tokens, rank, ranks, 1, ranks - 1, v_row),
    };
    int in_place = !t->binding;
    uint64_t sum = 0, bound = 0;
    struct shard s;

    shard_of(t, tokens, rank, ranks, &s);
    bad = expect(!rondo_plan_bind(plan, tokens, NULL, 0) && !shard_both(plan, &s) &&
                     !rondo_plan_stats(plan, &stats), "%s", rondo_last_error());
    for (int i = 0; i < RONDO_TENSOR_COUNT; i++) {
        if (in_place && (i == RONDO_TENSOR_K || i == RONDO_TENSOR_V)) {
            bound += 2 * bytes_of(t, tokens, rank, ranks, 1, ranks - 1,
                                  i == RONDO_TENSOR_K ? k_row : v_row); /* of those that came */
            want[i] = 0;
        }
        sum += want[i];
        bad += expect(stats.sent_tensor_bytes[0][i] == want[i] && stats.sent_tensor_bytes[1][i] == 0,
                      "%s: %llu bytes, not %llu", rondo_tensor_name(i),
                      (unsigned long long)stats.sent_tensor_bytes[0][i], (unsigned long long)want[i]);
    }
    bad += expect(stats.sent_bytes[0] == sum && stats.sent_bytes[1] == 0 && stats.bound_bytes == bound,
                  "sent %llu, read in place %llu, not %llu", (unsigned long long)stats.sent_bytes[0],
                  (unsigned long long)stats.bound_bytes, (unsigned long long)bound);
    shard_release(&s);
    rondo_plan_destroy(plan);
    rondo_comm_destroy(comm);
    return bad;
}

static void bytes_by_tensor(void **state)
{
    struct problem shape = { .batch = 2, .tokens = 13, .causal = 1, .q_heads = 2, .kv_heads = 1,
                             .qk_dim = 4, .v_dim = 3 };

    (void)state;
    assert_string_equal(rondo_tensor_name(RONDO_TENSOR_DO), "d_o");
    assert_string_equal(rondo_tensor_name(RONDO_TENSOR_COUNT), "unknown");
    assert_string_equal(rondo_tensor_name(-1), "unknown");
    for (int i = 2; i <= 11; i++) {
        struct test *t = test_of(&shape, (rondo_layout_kind_t)(i / 2 % 3));

        t->binding = i % 2 ? "copy" : NULL;
        assert_int_equal(run_ranks(i / 2, 0, 100, bytes_body, t), 0);
        problem_release(&t->problem);
    }
}

/* ---- ranks of different minds ---- */

/* What had moved until the failure is counted, and no stamp with it. */
static int expect_sane(rondo_plan_t plan, const struct problem *p)
{
    uint64_t most = 1000 * (uint64_t)(p->batch * p->tokens * p->q_heads * (p->qk_dim + p->v_dim));
    rondo_plan_stats_t stats = RONDO_PLAN_STATS_INIT;
    int bad = expect(!rondo_plan_stats(plan, &stats), "stats: %s", rondo_last_error());

    for (int lane = 0; lane < 2; lane++)
        bad += expect(stats.sent_bytes[lane] <= most && stats.received_bytes[lane] <= most,
                      "lane %d: %llu bytes sent, %llu received", lane,
                      (unsigned long long)stats.sent_bytes[lane],
                      (unsigned long long)stats.received_bytes[lane]);
    return bad + expect(stats.bound_bytes <= most, "%llu bytes are read in place",
                        (unsigned long long)stats.bound_bytes);
}

/* All ranks fail, and say why: those next to the odd one by their own comparison, or by what it told. */
static int odd_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    int64_t usual = t->problem.tokens - 1, odd = t->problem.tokens - 4;
    rondo_comm_t comm = comm_on_host(&t->meeting, rank, ranks, "self", t->ranks_per_host);
    rondo_plan_t plan = plan_of(comm, t, t->problem.tokens, ranks);
    char mine[32], theirs[32];
    struct shard s, other;
    int bad, status;

    shard_of(t, usual, rank, ranks, &s);
    shard_of(t, odd, rank, ranks, &other);
    bad = expect(!rondo_plan_bind(plan, usual, NULL, 0), "bind: %s", rondo_last_error());
    if (t->backward)
        bad += expect(!shard_forward(plan, &s), "forward: %s", rondo_last_error());
    pthread_barrier_wait(&t->together); /* nobody is still in what went well */
    if (rank == t->odd_rank)
        bad += expect(!rondo_plan_bind(plan, odd, NULL, 0), "bind: %s", rondo_last_error());
    status = (t->backward ? shard_backward : shard_forward)(plan, rank == t->odd_rank ? &other : &s);
    snprintf(mine, sizeof(mine), "is %lld", (long long)(rank == t->odd_rank ? odd : usual));
    snprintf(theirs, sizeof(theirs), "and %lld", (long long)(rank == t->odd_rank ? usual : odd));
    if (status == RONDO_ERR_MISMATCH)
        bad += expect_error(status, RONDO_ERR_MISMATCH, mine, theirs, "odd length");
    bad += expect(status == RONDO_ERR_MISMATCH || status == RONDO_ERR_PEER, "status %d: %s", status,
                  rondo_last_error());
    bad += expect(strstr(rondo_last_error(), "rondo_plan_bind: tokens") != NULL, "rank %d of %d: %s", rank,
                  ranks, rondo_last_error());
    bad += expect_sane(plan, &t->problem);
    shard_release(&s);
    shard_release(&other);
    rondo_plan_destroy(plan);
    rondo_comm_destroy(comm);
    return bad;
}

static void run_odd(const struct test *as, int ranks)
{
    struct problem shape = { .batch = 1, .tokens = 24, .causal = 1, .q_heads = 2, .kv_heads = 1,
                             .qk_dim = 4, .v_dim = 4 };
    struct test *t = test_of(&shape, (rondo_layout_kind_t)(as->odd_rank % 3));

    t->odd_rank = as->odd_rank, t->backward = as->backward;
    t->schedule = as->schedule, t->gradients = as->gradients;
    t->ranks_per_host = as->ranks_per_host;
    assert_int_equal(pthread_barrier_init(&t->together, NULL, (unsigned)ranks), 0);
    assert_int_equal(run_ranks(ranks, 0, 100, odd_body, t), 0);
    pthread_barrier_destroy(&t->together);
    problem_release(&t->problem);
}

static void a_rank_that_bound_another_length(void **state)
{
    struct test t = { .odd_rank = 0 };

    (void)state;
    for (int ranks = 2; ranks <= 5; ranks++)
        for (t.odd_rank = 0; t.odd_rank < ranks; t.odd_rank++)
            for (t.backward = 0; t.backward < 2; t.backward++)
                run_odd(&t, ranks);
}

static void another_length_in_every_scheme(void **state)
{
    static const struct test schemes[] = {
        { .schedule = "ring", .gradients = "q-grad" },
        { .schedule = "two-level", .gradients = "kv-grad", .ranks_per_host = 2 },
        { .schedule = "two-level", .gradients = "q-grad", .ranks_per_host = 2 },
        { .schedule = "direct", .gradients = "kv-grad" },
        { .schedule = "direct", .gradients = "q-grad", .ranks_per_host = 2 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        struct test t = schemes[i];

        for (t.odd_rank = 0; t.odd_rank < 4; t.odd_rank++)
            for (t.backward = 0; t.backward < 2; t.backward++)
                run_odd(&t, 4);
    }
}

/* ---- refused ---- */

static void refuses_and_stays_as_it_was(void **state)
{
    struct problem shape = { .batch = 1, .tokens = 9, .q_heads = 1, .kv_heads = 1, .qk_dim = 4,
                             .v_dim = 4 };
    struct test *t = test_of(&shape, RONDO_LAYOUT_CONTIGUOUS);
    rondo_comm_t comm = comm_of(&t->meeting, 0, 1, "self");
    rondo_plan_t plan = plan_of(comm, t, 9, 1);
    const int64_t cu_seqlens[] = { 0, 4, 9 };
    rondo_attention_fwd_t fwd;
    rondo_request_t request = NULL;
    struct shard s;

    (void)state;
    shard_of(t, 5, 0, 1, &s);
    fwd = shard_forward_tensors(&s);
    assert_int_equal(rondo_plan_bind(plan, 5, NULL, 0), 0);
    assert_int_equal(expect_error(rondo_plan_bind(NULL, 5, NULL, 0), RONDO_ERR_ARGUMENT, "plan is NULL",
                                  NULL, "no plan"), 0);
    assert_int_equal(expect_error(rondo_plan_bind(plan, 0, NULL, 0), RONDO_ERR_ARGUMENT, "tokens is 0",
                                  "1 to 9", "too few"), 0);
    assert_int_equal(expect_error(rondo_plan_bind(plan, 10, NULL, 0), RONDO_ERR_ARGUMENT, "tokens is 10",
                                  "1 to 9", "too many"), 0);
    assert_int_equal(expect_error(rondo_plan_bind(plan, 9, cu_seqlens, 2), RONDO_ERR_ARGUMENT,
                                  "documents is 2", "max_documents", "more documents than it was made for"), 0);
    assert_int_equal(expect_error(rondo_plan_bind(plan, 9, NULL, 2), RONDO_ERR_ARGUMENT, "documents is 2",
                                  "cu_seqlens is NULL", "documents without bounds"), 0);
    assert_int_equal(expect_error(rondo_plan_bind(plan, 9, cu_seqlens, 0), RONDO_ERR_ARGUMENT, "documents is 0",
                                  "cu_seqlens is given", "bounds of no documents"), 0);
    assert_int_equal(expect_error(rondo_plan_bind_layout(plan, NULL, NULL), RONDO_ERR_ARGUMENT,
                                  "layout is NULL", NULL, "no layout"), 0);
    for (int nth = 1; nth <= 2; nth++) { /* of the forward, of the backward */
        failing_list = nth;
        assert_int_equal(expect_error(rondo_plan_bind(plan, 9, NULL, 0), RONDO_ERR_MEMORY, "no room", NULL,
                                      "no room"), 0);
        assert_int_equal(failing_list, 0);
    }
    assert_int_equal(rondo_attention_forward(plan, &fwd, NULL, &request), 0);
    assert_int_equal(expect_error(rondo_plan_bind(plan, 9, NULL, 0), RONDO_ERR_BUSY, "under way", "wait",
                                  "under way"), 0);
    assert_int_equal(rondo_wait(&request, WAIT_MS), 0);
    t->problem.tokens = 5;
    problem_solve(&t->problem);
    assert_true(shard_forward_error(&s, &t->problem) <= SHARD_BAR);
    shard_release(&s);
    rondo_plan_destroy(plan);
    rondo_comm_destroy(comm);
    problem_release(&t->problem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_up_to_the_longest),
        cmocka_unit_test(long_lengths),
        cmocka_unit_test(bytes_by_tensor),
        cmocka_unit_test(a_rank_that_bound_another_length),
        cmocka_unit_test(another_length_in_every_scheme),
        cmocka_unit_test(refuses_and_stays_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
