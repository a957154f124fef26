/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout and soft-cap through plans: every layout, schedule and number of ranks gives what plain loops over
 * the whole sequence do, and a seed that is not everybody's is an error that names it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/features.h"
#include "tests/api/shard.h"

enum { MAX_RANKS = 4 };

struct test {
    struct meeting meeting;
    struct problem problem;
    struct features features;
    rondo_layout_kind_t kind;
    rondo_plan_options_t options;
    int ranks_per_host; /* 0: all on one */
    uint64_t seeds[MAX_RANKS];
    int wait_fails;
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
    return desc;
}

static int both(struct test *t, rondo_plan_t plan, struct shard *s, int rank)
{
    rondo_attention_fwd_t fwd = shard_forward_tensors(s);
    rondo_attention_bwd_t bwd = shard_backward_tensors(s);
    rondo_request_t request = NULL;
    int err;

    fwd.seed = bwd.seed = t->seeds[rank];
    err = rondo_attention_forward(plan, &fwd, NULL, &request);
    if (!err)
        err = rondo_wait(&request, WAIT_MS);
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

static struct test *test_of(int causal)
{
    struct test *t = shared_memory(sizeof(*t));

    t->problem = (struct problem){ .batch = 2, .tokens = 29, .causal = causal, .q_heads = 4, .kv_heads = 2,
                                   .qk_dim = 8, .v_dim = 6 };
    problem_init(&t->problem, 17);
    t->options = (rondo_plan_options_t)RONDO_PLAN_OPTIONS_INIT;
    t->options.kernel = &features_kernel;
    return t;
}

static void run(struct test *t, int ranks)
{
    for (int r = 0; r < MAX_RANKS; r++)
        t->seeds[r] = t->features.seed;
    assert_int_equal(run_ranks(ranks, 0, 60, body, t), 0);
    memset(&t->meeting, 0, sizeof(t->meeting));
}

static void run_everywhere(struct test *t)
{
    static const char *const backwards[] = { "kv-grad", "q-grad" };
    static const char *const schedules[] = { "ring", "direct" };

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

static void the_same_weights_are_dropped_everywhere(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        struct test *t = test_of(causal);

        t->features.dropout = 0.3f;
        t->features.seed = UINT64_C(0x123456789abcdef);
        run_everywhere(t);
        problem_release(&t->problem);
    }
}

static void scores_are_capped_forward_and_backward(void **state)
{
    struct test *t = test_of(1);

    (void)state;
    t->features.softcap = 0.8f;
    run_everywhere(t);
    t->features.dropout = 0.5f; /* both at once */
    t->features.seed = 3;
    run_everywhere(t);
    problem_release(&t->problem);
}

/* ---- ranks that do not agree ---- */

static int seed_body(int rank, int ranks, void *arg)
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
    err = both(t, plan, &s, rank);
    if (t->wait_fails)
        bad += expect_error(err, err == RONDO_ERR_PEER ? err : RONDO_ERR_MISMATCH, "7 on rank 0", "8 on rank 1",
                            "seed"); /* PEER: the other one was quicker to say so */
    else
        bad += expect(!err, "without dropout a seed means nothing: %s", rondo_last_error());
    rondo_plan_destroy(plan);
    shard_release(&s);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void another_seed_is_named(void **state)
{
    struct test *t = test_of(0);

    (void)state;
    t->seeds[0] = 7;
    t->seeds[1] = 8;
    for (t->wait_fails = 0; t->wait_fails < 2; t->wait_fails++) {
        t->features.dropout = t->wait_fails ? 0.1f : 0;
        assert_int_equal(run_ranks(2, 0, 60, seed_body, t), 0);
        memset(&t->meeting, 0, sizeof(t->meeting));
    }
    problem_release(&t->problem);
}

static int wrong_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_on_host(t, rank, ranks);
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = features_desc(t);
    rondo_plan_t plan = NULL;
    int bad;

    desc.softcap = rank == 1 ? 30 : 50;
    bad = expect_error(rondo_attention_plan(comm, layout, &desc, &t->options, &plan), RONDO_ERR_MISMATCH, "softcap",
                       "30", "softcap");
    desc.softcap = 0;
    desc.dropout = rank == 1 ? 0.25f : 0.5f;
    bad += expect_error(rondo_attention_plan(comm, layout, &desc, &t->options, &plan), RONDO_ERR_MISMATCH, "dropout",
                        "0.25", "dropout");
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void other_wishes_are_named(void **state)
{
    struct test *t = test_of(0);

    (void)state;
    assert_int_equal(run_ranks(2, 0, 60, wrong_body, t), 0);
    problem_release(&t->problem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_weights_are_dropped_everywhere),
        cmocka_unit_test(scores_are_capped_forward_and_backward),
        cmocka_unit_test(another_seed_is_named),
        cmocka_unit_test(other_wishes_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
