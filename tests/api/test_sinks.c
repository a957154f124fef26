/* SPDX-License-Identifier: Apache-2.0 */
/* Sinks through plans: each takes its share of the weights of a row once, whatever the layout, the schedule and
 * the number of ranks, and what ranks give to its gradient adds up. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/features.h"
#include "tests/api/shard.h"

enum { MAX_RANKS = 4, HEADS = 4 };

struct test {
    struct meeting meeting;
    struct problem problem;
    struct features features;
    rondo_layout_kind_t kind;
    rondo_plan_options_t options;
    int ranks_per_host; /* 0: all on one */
    float sinks[MAX_RANKS][HEADS], d_sinks[MAX_RANKS][HEADS]; /* of each rank */
    double want[HEADS];
};

static rondo_comm_t comm_on_host(struct test *t, int rank, int ranks)
{
    rondo_config_t config = RONDO_CONFIG_INIT;
    rondo_comm_t comm = NULL;
    char host[16];

    snprintf(host, sizeof(host), "host%d", t->ranks_per_host ? rank / t->ranks_per_host : 0);
    config.transport = "self";
    config.host_id = host;
    if (meet(&t->meeting, rank, ranks, &config, &comm))
        exit(1);
    return comm;
}

static rondo_attention_desc_t features_desc(const struct test *t)
{
    rondo_attention_desc_t desc = desc_of(&t->problem);

    desc.softcap = t->features.softcap;
    desc.dropout = t->features.dropout;
    desc.has_sinks = 1;
    return desc;
}

static int forward_of(struct test *t, rondo_plan_t plan, struct shard *s, int rank)
{
    rondo_attention_fwd_t fwd = shard_forward_tensors(s);
    rondo_request_t request = NULL;
    int err;

    fwd.seed = t->features.seed;
    fwd.sinks = t->sinks[rank];
    err = rondo_attention_forward(plan, &fwd, NULL, &request);
    return err ? err : rondo_wait(&request, WAIT_MS);
}

static rondo_attention_bwd_t backward_of(struct test *t, struct shard *s, int rank)
{
    rondo_attention_bwd_t bwd = shard_backward_tensors(s);

    bwd.seed = t->features.seed;
    bwd.sinks = t->sinks[rank];
    bwd.d_sinks = t->d_sinks[rank];
    return bwd;
}

static int both(struct test *t, rondo_plan_t plan, struct shard *s, int rank)
{
    rondo_attention_bwd_t bwd = backward_of(t, s, rank);
    rondo_request_t request = NULL;
    int err = forward_of(t, plan, s, rank);

    if (!err)
        err = rondo_attention_backward(plan, &bwd, NULL, &request);
    return err ? err : rondo_wait(&request, WAIT_MS);
}

static int body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_on_host(t, rank, ranks);
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = features_desc(t);
    rondo_plan_t plan = NULL;
    struct shard s;
    double forward, backward;
    int bad;

    shard_init(&s, layout, rank, &t->problem);
    bad = expect(!rondo_attention_plan(comm, layout, &desc, &t->options, &plan), "plan: %s", rondo_last_error());
    bad += expect(bad || !both(t, plan, &s, rank), "run: %s", rondo_last_error());
    forward = shard_forward_error(&s, &t->problem);
    backward = shard_backward_error(&s, &t->problem);
    bad += expect(forward <= SHARD_BAR && backward <= SHARD_BAR,
                  "%d ranks, layout %d: errors are %g and %g", ranks, (int)t->kind, forward, backward);
    rondo_plan_destroy(plan);
    shard_release(&s);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static struct test *test_of(int causal, int64_t tokens)
{
    struct test *t = shared_memory(sizeof(*t));

    t->problem = (struct problem){ .batch = 2, .tokens = tokens, .causal = causal, .q_heads = HEADS, .kv_heads = 2,
                                   .qk_dim = 8, .v_dim = 6 };
    problem_init(&t->problem, 17);
    t->options = (rondo_plan_options_t)RONDO_PLAN_OPTIONS_INIT;
    t->options.kernel = &features_kernel;
    return t;
}

static void run(struct test *t, int ranks)
{
    for (int r = 0; r < ranks; r++)
        for (int h = 0; h < HEADS; h++)
            t->d_sinks[r][h] = NAN;
    assert_int_equal(run_ranks(ranks, 0, 60, body, t), 0);
    memset(&t->meeting, 0, sizeof(t->meeting));
    for (int h = 0; h < HEADS; h++) {
        double sum = 0;

        for (int r = 0; r < ranks; r++)
            sum += (double)t->d_sinks[r][h];
        if (!(fabs(sum - t->want[h]) <= SHARD_BAR * (1 + fabs(t->want[h]))))
            fail_msg("%d ranks: the gradient of sink %d is %g, not %g", ranks, h, sum, t->want[h]);
    }
}

static void run_everywhere(struct test *t)
{
    static const char *const backwards[] = { "kv-grad", "q-grad" };
    static const char *const schedules[] = { "ring", "direct" };

    t->features.sinks = t->sinks[0];
    t->features.d_sinks = t->want;
    features_solve(&t->problem, &t->features);
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++)
        for (int way = 0; way < 4; way++) {
            t->kind = (rondo_layout_kind_t)((ranks + way) % 3);
            t->options.backward = backwards[way & 1];
            t->options.schedule = schedules[way >> 1];
            run(t, ranks);
        }
    t->options.schedule = "two-level";
    t->ranks_per_host = 2;
    run(t, 4);
}

/* One of no weight, one of little, one like a score, one that takes nearly all. */
static void give_sinks(struct test *t)
{
    static const float sinks[HEADS] = { -INFINITY, -3, 0, 5 };

    for (int r = 0; r < MAX_RANKS; r++)
        memcpy(t->sinks[r], sinks, sizeof(sinks));
}

static void a_sink_counts_once(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        struct test *t = test_of(causal, 29);

        give_sinks(t);
        run_everywhere(t);
        t->features.softcap = 2; /* of scores, not of the sink */
        t->features.dropout = 0.2f;
        t->features.seed = 99;
        run_everywhere(t);
        problem_release(&t->problem);
    }
}

static void a_kernel_that_does_not_merge_will_do(void **state)
{
    struct test *t = test_of(1, 29);
    static rondo_kernel_t kernel;

    (void)state;
    kernel = features_partial_kernel;
    give_sinks(t);
    t->options.kernel = &kernel;
    run_everywhere(t);
    problem_release(&t->problem);
}

static void shards_may_be_empty(void **state)
{
    struct test *t = test_of(1, 2);

    (void)state;
    give_sinks(t);
    run_everywhere(t);
    problem_release(&t->problem);
}

/* Computes nothing, as if nobody saw anybody. */
static int see_nothing(void *context, const rondo_kernel_forward_t *args)
{
    (void)context, (void)args;
    return 0;
}

static int blind_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_on_host(t, rank, ranks);
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = features_desc(t);
    rondo_plan_t plan = NULL;
    struct shard s;
    int bad;

    shard_init(&s, layout, rank, &t->problem);
    if (s.n > 0) /* nor does what nobody sees count */
        s.d_o[0] = NAN;
    bad = expect(!rondo_attention_plan(comm, layout, &desc, &t->options, &plan), "plan: %s", rondo_last_error());
    bad += expect(bad || !both(t, plan, &s, rank), "run: %s", rondo_last_error());
    for (int64_t i = 0; i < t->problem.batch * HEADS * s.n; i++)
        bad += expect(s.lse[i] == t->sinks[0][i / s.n % HEADS], "lse %g", (double)s.lse[i]);
    for (int64_t i = 0; i < t->problem.batch * HEADS * s.n * t->problem.v_dim; i++)
        bad += expect(s.o[i] == 0, "o %g", (double)s.o[i]);
    for (int h = 0; h < HEADS; h++)
        bad += expect(t->d_sinks[rank][h] == 0, "gradient %g", (double)t->d_sinks[rank][h]);
    rondo_plan_destroy(plan);
    shard_release(&s);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void a_row_that_sees_nothing_has_the_sink_alone(void **state)
{
    struct test *t = test_of(1, 11);
    static rondo_kernel_t blind;

    (void)state;
    give_sinks(t);
    blind = features_kernel;
    blind.forward = see_nothing;
    t->options.kernel = &blind;
    for (int ranks = 1; ranks <= 3; ranks++) {
        assert_int_equal(run_ranks(ranks, 0, 60, blind_body, t), 0);
        memset(&t->meeting, 0, sizeof(t->meeting));
    }
    problem_release(&t->problem);
}

/* d_o of the head whose sink has no weight may be anything where its gradient is asked for. */
static int infinite_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_on_host(t, rank, ranks);
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = features_desc(t);
    rondo_plan_t plan = NULL;
    struct shard s;
    int bad;

    shard_init(&s, layout, rank, &t->problem);
    for (int64_t i = 0; i < t->problem.batch * s.n; i++)
        s.d_o[i * HEADS * t->problem.v_dim] = INFINITY;
    bad = expect(!rondo_attention_plan(comm, layout, &desc, &t->options, &plan), "plan: %s", rondo_last_error());
    bad += expect(bad || !both(t, plan, &s, rank), "run: %s", rondo_last_error());
    bad += expect(t->d_sinks[rank][0] == 0, "gradient %g of no sink", (double)t->d_sinks[rank][0]);
    rondo_plan_destroy(plan);
    shard_release(&s);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void no_sink_has_no_gradient(void **state)
{
    struct test *t = test_of(1, 11);

    (void)state;
    give_sinks(t);
    assert_int_equal(run_ranks(2, 0, 60, infinite_body, t), 0);
    problem_release(&t->problem);
}

/* ---- RONDO_VERIFY ---- */

/* Rank 0 verifies plan 0; its gradient of sink 2 is spoilt while the backward is under way, and after it was made. */
static int spoil_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_on_host(t, rank, ranks);
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = features_desc(t);
    rondo_request_t request = NULL;
    rondo_attention_bwd_t bwd;
    rondo_plan_t plan = NULL;
    struct shard s;
    int bad, err;

    shard_init(&s, layout, rank, &t->problem);
    bad = expect(!rondo_attention_plan(comm, layout, &desc, &t->options, &plan), "plan: %s", rondo_last_error());
    bad += expect(bad || !forward_of(t, plan, &s, rank), "forward: %s", rondo_last_error());
    bwd = backward_of(t, &s, rank);
    bad += expect(!rondo_attention_backward(plan, &bwd, NULL, &request), "start: %s", rondo_last_error());
    t->d_sinks[rank][2] += 0.01f;
    err = rondo_wait(&request, WAIT_MS);
    if (rank == 0)
        bad += expect_error(err, RONDO_ERR_VERIFY, "plan 0, backward: d_sinks of rank 0 is wrong", "head 2 is",
                            "verification");
    rondo_plan_destroy(plan);
    shard_release(&s);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void verification_finds_a_wrong_gradient(void **state)
{
    struct test *t = test_of(1, 29);

    (void)state;
    give_sinks(t);
    setenv("RONDO_VERIFY", "1", 1);
    assert_int_equal(run_ranks(2, 0, 60, spoil_body, t), 0);
    unsetenv("RONDO_VERIFY");
    problem_release(&t->problem);
}

static void verification_passes_right_ones(void **state)
{
    (void)state;
    setenv("RONDO_VERIFY", "1", 1);
    for (int large = 0; large < 2; large++) {
        struct test *t = test_of(1, large ? 29 : 2);

        give_sinks(t);
        run_everywhere(t);
        t->features.softcap = 2;
        t->features.dropout = 0.2f;
        t->features.seed = 99;
        run_everywhere(t);
        problem_release(&t->problem);
    }
    unsetenv("RONDO_VERIFY");
}

/* ---- what is refused ---- */

static int refused(rondo_plan_t plan, const struct shard *s, const float *sinks, float *d_sinks, const char *words)
{
    rondo_attention_fwd_t fwd = shard_forward_tensors(s);
    rondo_attention_bwd_t bwd = shard_backward_tensors(s);
    rondo_request_t request = NULL;
    int bad = 0;

    fwd.sinks = bwd.sinks = sinks;
    bwd.d_sinks = d_sinks;
    if (!strstr(words, "d_sinks"))
        bad = expect_error(rondo_attention_forward(plan, &fwd, NULL, &request), RONDO_ERR_ARGUMENT, words, NULL,
                           "forward");
    bad += expect_error(rondo_attention_backward(plan, &bwd, NULL, &request), RONDO_ERR_ARGUMENT, words, NULL,
                        "backward");
    return bad + expect(!request, "a request");
}

static int refuse_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_on_host(t, rank, ranks);
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = features_desc(t);
    rondo_plan_t with = NULL, without = NULL;
    float sinks[HEADS] = { 0, 1, 2, 3 }, d_sinks[HEADS];
    struct shard s;
    int bad, err;

    shard_init(&s, layout, rank, &t->problem);
    bad = expect(!rondo_attention_plan(comm, layout, &desc, &t->options, &with), "plan: %s", rondo_last_error());
    desc.has_sinks = 0;
    bad += expect(!rondo_attention_plan(comm, layout, &desc, &t->options, &without), "plan: %s", rondo_last_error());
    bad += refused(with, &s, NULL, d_sinks, "tensors.sinks is NULL");
    bad += refused(with, &s, sinks, NULL, "tensors.d_sinks is NULL");
    bad += refused(without, &s, sinks, NULL, "tensors.sinks is given");
    bad += refused(without, &s, NULL, d_sinks, "tensors.d_sinks is given");
    sinks[2] = NAN;
    bad += refused(with, &s, sinks, d_sinks, "tensors.sinks[2] is nan");
    sinks[2] = INFINITY;
    bad += refused(with, &s, sinks, d_sinks, "tensors.sinks[2] is inf");
    desc.has_sinks = rank;
    bad += expect_error(rondo_attention_plan(comm, layout, &desc, &t->options, &without), RONDO_ERR_MISMATCH,
                        "has_sinks", NULL, "has_sinks");
    t->sinks[rank][1] = (float)rank;
    err = both(t, with, &s, rank);
    bad += expect_error(err, err == RONDO_ERR_PEER ? err : RONDO_ERR_MISMATCH, "tensors.sinks", "rank 1",
                        "other sinks"); /* PEER: the other one was quicker to say so */
    rondo_plan_destroy(with);
    rondo_plan_destroy(without);
    shard_release(&s);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void what_does_not_fit_is_refused(void **state)
{
    struct test *t = test_of(0, 29);

    (void)state;
    assert_int_equal(run_ranks(2, 0, 60, refuse_body, t), 0);
    problem_release(&t->problem);
}

/* Of three ranks with one token the last has none, and gives sinks of its own. */
static int empty_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_on_host(t, rank, ranks);
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = features_desc(t);
    rondo_plan_t plan = NULL;
    struct shard s;
    int bad, err;

    shard_init(&s, layout, rank, &t->problem);
    bad = expect(!rondo_attention_plan(comm, layout, &desc, &t->options, &plan), "plan: %s", rondo_last_error());
    bad += refused(plan, &s, NULL, NULL, "tensors.sinks is NULL");
    t->sinks[rank][1] = (float)(rank == 2);
    err = both(t, plan, &s, rank);
    bad += expect_error(err, err == RONDO_ERR_PEER ? err : RONDO_ERR_MISMATCH, "tensors.sinks", "rank 2",
                        "sinks of rank 2");
    rondo_plan_destroy(plan);
    shard_release(&s);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void ranks_without_tokens_give_sinks_too(void **state)
{
    struct test *t = test_of(0, 1);

    (void)state;
    t->options.schedule = "ring";
    assert_int_equal(run_ranks(3, 0, 60, empty_body, t), 0);
    problem_release(&t->problem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sink_counts_once),
        cmocka_unit_test(a_kernel_that_does_not_merge_will_do),
        cmocka_unit_test(shards_may_be_empty),
        cmocka_unit_test(a_row_that_sees_nothing_has_the_sink_alone),
        cmocka_unit_test(no_sink_has_no_gradient),
        cmocka_unit_test(verification_finds_a_wrong_gradient),
        cmocka_unit_test(verification_passes_right_ones),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(ranks_without_tokens_give_sinks_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
