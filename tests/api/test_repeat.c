/* SPDX-License-Identifier: Apache-2.0 */
/* The same again gives the same: from run to run in spite of delays, between plans that take turns, in
 * long rows, with messages of any size, and over many ranks. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/shard.h"
#include "tests/short.h"
#include "transport/transport.h"

struct test {
    struct meeting meeting;
    const char *transport;
    struct problem problem;
    rondo_layout_kind_t kind;
};

static void run(const char *transport, int ranks, const struct problem *shape, rondo_layout_kind_t kind,
                int (*body)(int, int, void *))
{
    struct test *t = shared_memory(sizeof(*t));

    if (!ri_transport_find(transport))
        skip();
    t->transport = transport;
    t->problem = *shape;
    t->kind = kind;
    problem_init(&t->problem, (uint64_t)ranks);
    assert_int_equal(run_ranks(ranks, ranks_want_processes(transport), 100, body, t), 0);
    problem_release(&t->problem);
}

static rondo_plan_t plan_of(rondo_comm_t comm, rondo_layout_t layout, const struct problem *p)
{
    rondo_attention_desc_t desc = desc_of(p);
    rondo_plan_t plan = NULL;

    if (expect(!rondo_attention_plan(comm, layout, &desc, NULL, &plan), "plan: %s", rondo_last_error()))
        exit(1);
    return plan;
}

/* ---- from run to run (Dao-AILab/flash-attention#2244) ---- */

static int same_bits(const struct shard *a, const struct shard *b)
{
    return a->output_count == 0 || memcmp(a->outputs, b->outputs, a->output_count * sizeof(float)) == 0;
}

static int delays_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    rondo_plan_t plan = plan_of(comm, layout, &t->problem);
    struct shard first, s;
    int bad = 0;

    shard_init(&first, layout, rank, &t->problem);
    shard_init(&s, layout, rank, &t->problem);
    bad += expect(!shard_both(plan, &first), "first run: %s", rondo_last_error());
    bad += expect(shard_forward_error(&first, &t->problem) <= SHARD_BAR &&
                      shard_backward_error(&first, &t->problem) <= SHARD_BAR, "the first run is off");
    for (int i = 1; i < 30 && !bad; i++) {
        shard_clear(&s);
        bad += expect(!shard_both(plan, &s), "run %d: %s", i, rondo_last_error());
        bad += expect(same_bits(&s, &first), "run %d has other bits on rank %d of %d", i, rank, ranks);
    }
    shard_release(&first);
    shard_release(&s);
    rondo_plan_destroy(plan);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

/* Every message is delayed by 0 to 5 ms, every run's by others. */
static void thirty_runs_have_the_same_bits(void **state)
{
    const struct problem shape = { .batch = 1, .tokens = 45, .causal = 1, .q_heads = 4, .kv_heads = 2,
                                   .qk_dim = 8, .v_dim = 8 };

    (void)state;
    setenv("RONDO_SELF_SEED", "20", 1);
    for (int ranks = 1; ranks <= 4; ranks *= 2)
        run("self", ranks, &shape, RONDO_LAYOUT_ZIGZAG, delays_body);
    unsetenv("RONDO_SELF_SEED");
}

/* ---- forward again before backward, of plans that take turns (pytorch/torchtitan#1522) ---- */

static int turns_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    rondo_plan_t plans[2] = { plan_of(comm, layout, &t->problem), plan_of(comm, layout, &t->problem) };
    struct shard first[2], again[2];
    int bad = 0;

    for (int i = 0; i < 2; i++) {
        shard_init(&first[i], layout, rank, &t->problem);
        shard_init(&again[i], layout, rank, &t->problem);
    }
    for (int i = 0; i < 2; i++)
        bad += expect(!shard_forward(plans[i], &first[i]), "forward: %s", rondo_last_error());
    for (int i = 1; i >= 0; i--) { /* as activation checkpointing does, last layer first */
        bad += expect(!shard_forward(plans[i], &again[i]), "again: %s", rondo_last_error());
        bad += expect(same_bits(&first[i], &again[i]), "the second forward has other bits");
        bad += expect(!shard_backward(plans[i], &again[i]), "backward: %s", rondo_last_error());
        bad += expect(shard_backward_error(&again[i], &t->problem) <= SHARD_BAR, "gradients are off");
    }
    bad += expect(same_bits(&again[0], &again[1]), "equal layers have other bits");
    for (int i = 0; i < 2; i++) {
        rondo_plan_destroy(plans[i]);
        shard_release(&first[i]);
        shard_release(&again[i]);
    }
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void forward_again_before_backward(void **state)
{
    const struct problem shape = { .batch = 2, .tokens = 26, .causal = 1, .q_heads = 2, .kv_heads = 2,
                                   .qk_dim = 8, .v_dim = 8 };

    (void)state;
    run("self", 2, &shape, RONDO_LAYOUT_ZIGZAG, turns_body);
    run("self", 3, &shape, RONDO_LAYOUT_STRIPED, turns_body);
}

/* ---- long rows: K, V, dK and dV under way both ways at once (NVIDIA/TransformerEngine PR 572) ---- */

/* One token a rank, and keys of zero: every weight is 1 / ranks, o the mean of all V, dV the mean of all
 * dO.  V and dO differ by rank and round, so that a message of another round, or K for V, is seen. */
static int rounds_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    struct problem *p = &t->problem;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, t->transport);
    rondo_layout_t layout = layout_of(t->kind, p->tokens, ranks);
    rondo_plan_t plan = plan_of(comm, layout, p);
    struct shard s;
    int bad = 0, rounds = test_is_short() ? 50 : 500;

    shard_init(&s, layout, rank, p);
    memset(s.k, 0, (size_t)(s.n * p->qk_dim) * sizeof(float));
    for (int round = 0; round < rounds && !bad; round++) {
        for (int64_t i = 0; i < s.n * p->v_dim; i++) {
            s.v[i] = (float)(round * 8 + rank + 1);
            s.d_o[i] = (float)(round * 4 + rank + 1);
        }
        shard_clear(&s);
        bad += expect(!shard_both(plan, &s), "round %d: %s", round, rondo_last_error());
        for (int64_t i = 0; i < s.n * p->v_dim && !bad; i++) {
            double mean = round * 8 + (ranks + 1) / 2.0, d_mean = round * 4 + (ranks + 1) / 2.0;

            bad += expect(fabs(s.o[i] - mean) <= 1e-6 * mean, "round %d: o is %g, not %g", round,
                          (double)s.o[i], mean);
            bad += expect(fabs(s.dv[i] - d_mean) <= 1e-6 * d_mean, "round %d: dv is %g, not %g", round,
                          (double)s.dv[i], d_mean);
        }
    }
    shard_release(&s);
    rondo_plan_destroy(plan);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void five_hundred_rounds(void **state)
{
    struct problem shape = { .batch = 1, .tokens = 2, .causal = 0, .q_heads = 1, .kv_heads = 1,
                             .qk_dim = 4, .v_dim = 4 };

    (void)state;
    run("self", 2, &shape, RONDO_LAYOUT_CONTIGUOUS, rounds_body);
    shape.tokens = 3;
    run("self", 3, &shape, RONDO_LAYOUT_CONTIGUOUS, rounds_body);
}

static void five_hundred_rounds_between_processes(void **state)
{
    const struct problem shape = { .batch = 1, .tokens = 2, .causal = 0, .q_heads = 1, .kv_heads = 1,
                                   .qk_dim = 4, .v_dim = 4 };

    (void)state;
    run("ucx", 2, &shape, RONDO_LAYOUT_CONTIGUOUS, rounds_body);
}

static void five_hundred_rounds_in_shared_memory(void **state)
{
    const struct problem shape = { .batch = 1, .tokens = 2, .causal = 0, .q_heads = 1, .kv_heads = 1,
                                   .qk_dim = 4, .v_dim = 4 };

    (void)state;
    run("shm", 2, &shape, RONDO_LAYOUT_CONTIGUOUS, rounds_body);
}

/* ---- messages across eager limits (lucidrains/ring-attention-pytorch PR 9) ---- */

static int problem_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, t->transport);
    int bad = run_problem(comm, t->kind, &t->problem, NULL);

    rondo_comm_destroy(comm);
    return bad;
}

/* Messages of 4 bytes, 8 KiB and 128 KiB: many short rows are cheap to compute. */
static void sizes_over(const char *transport, const int *ranks, int count)
{
    static const int batches[] = { 1, 64, 1024 }, dims[] = { 1, 16, 16 };

    for (int i = 0; i < count; i++) {
        for (int size = 0; size < 3; size++) {
            struct problem shape = { .batch = batches[size], .tokens = 2 * ranks[i] - 1, .causal = 1,
                                     .q_heads = 1, .kv_heads = 1, .qk_dim = dims[size], .v_dim = dims[size] };

            run(transport, ranks[i], &shape, RONDO_LAYOUT_STRIPED, problem_body);
        }
    }
}

static void messages_of_any_size(void **state)
{
    static const int ranks[] = { 2, 3, 5, 8 };

    (void)state;
    sizes_over("self", ranks, 4);
}

static void messages_of_any_size_between_processes(void **state)
{
    static const int ranks[] = { 2, 5 };

    (void)state;
    sizes_over("ucx", ranks, 2);
}

static void messages_of_any_size_in_shared_memory(void **state)
{
    static const int ranks[] = { 2, 3, 5, 8 };

    (void)state;
    sizes_over("shm", ranks, 4);
}

/* ---- many ranks (openucx/ucc#981) ---- */

static void many_over(const char *transport, const int *ranks, int count)
{
    for (int i = 0; i < count; i++) {
        struct problem shape = { .batch = 1, .tokens = 2 * ranks[i], .causal = 1, .q_heads = 2, .kv_heads = 1,
                                 .qk_dim = 4, .v_dim = 4 };

        run(transport, ranks[i], &shape, RONDO_LAYOUT_ZIGZAG, problem_body);
    }
}

static void many_ranks(void **state)
{
    static const int ranks[] = { 17, 18, 24, 33, 64 };

    (void)state;
    many_over("self", ranks, test_is_short() ? 3 : 5);
}

static void many_ranks_between_processes(void **state)
{
    static const int ranks[] = { 18 };

    (void)state;
    many_over("ucx", ranks, 1);
}

static void many_ranks_in_shared_memory(void **state)
{
    static const int ranks[] = { 17, 18, 24, 33 };

    (void)state;
    many_over("shm", ranks, test_is_short() ? 2 : 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thirty_runs_have_the_same_bits),
        cmocka_unit_test(forward_again_before_backward),
        cmocka_unit_test(five_hundred_rounds),
        cmocka_unit_test(five_hundred_rounds_between_processes),
        cmocka_unit_test(five_hundred_rounds_in_shared_memory),
        cmocka_unit_test(messages_of_any_size),
        cmocka_unit_test(messages_of_any_size_between_processes),
        cmocka_unit_test(messages_of_any_size_in_shared_memory),
        cmocka_unit_test(many_ranks),
        cmocka_unit_test(many_ranks_between_processes),
        cmocka_unit_test(many_ranks_in_shared_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
