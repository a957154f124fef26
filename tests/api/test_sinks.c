/* SPDX-License-Identifier: Apache-2.0 */
/* Sinks through plans: each takes its share of the weights of a row once, whatever the layout, the schedule and
 * the number of ranks, and what ranks give to its gradient adds up. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/scores.h"
#include "tests/here.h"

/* One of scores.h in which every rank has the sinks given there. */
static struct scores *test_of(int causal, int64_t tokens)
{
    struct scores *t = scores_of(causal, tokens);

    scores_give_sinks(t);
    return t;
}

static void a_sink_counts_once(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        struct scores *t = test_of(causal, 29);

        scores_run_everywhere(t);
        t->features.softcap = 2; /* of scores, not of the sink */
        t->features.dropout = 0.2f;
        t->features.seed = 99;
        scores_run_everywhere(t);
        problem_release(&t->problem);
    }
}

static void a_kernel_that_does_not_merge_will_do(void **state)
{
    struct scores *t = test_of(1, 29);
    static rondo_kernel_t kernel;

    (void)state;
    kernel = features_partial_kernel;
    t->options.kernel = &kernel;
    scores_run_everywhere(t);
    problem_release(&t->problem);
}

static void shards_may_be_empty(void **state)
{
    struct scores *t = test_of(1, 2);

    (void)state;
    scores_run_everywhere(t);
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
    struct scores *t = arg;
    struct scores_rank r;
    const struct shard *s = &r.shard;
    int bad;

    scores_enter(&r, t, rank, ranks);
    if (s->n > 0) /* nor does what nobody sees count */
        s->d_o[0] = NAN;
    bad = scores_plan(&r);
    bad += expect(bad || !scores_both(&r), "run: %s", rondo_last_error());
    for (int64_t i = 0; i < t->problem.batch * SCORES_HEADS * s->n; i++)
        bad += expect(s->lse[i] == t->sinks[0][i / s->n % SCORES_HEADS], "lse %g", (double)s->lse[i]);
    for (int64_t i = 0; i < t->problem.batch * SCORES_HEADS * s->n * t->problem.v_dim; i++)
        bad += expect(s->o[i] == 0, "o %g", (double)s->o[i]);
    for (int h = 0; h < SCORES_HEADS; h++)
        bad += expect(t->d_sinks[rank][h] == 0, "gradient %g", (double)t->d_sinks[rank][h]);
    scores_leave(&r);
    return bad;
}

static void a_row_that_sees_nothing_has_the_sink_alone(void **state)
{
    struct scores *t = test_of(1, 11);
    static rondo_kernel_t blind;

    (void)state;
    blind = features_kernel;
    blind.forward = see_nothing;
    t->options.kernel = &blind;
    for (int ranks = 1; ranks <= 3; ranks++)
        assert_int_equal(scores_ranks(t, ranks, blind_body), 0);
    problem_release(&t->problem);
}

/* d_o of the head whose sink has no weight may be anything where its gradient is asked for. */
static int infinite_body(int rank, int ranks, void *arg)
{
    struct scores *t = arg;
    struct scores_rank r;
    int bad;

    scores_enter(&r, t, rank, ranks);
    for (int64_t i = 0; i < t->problem.batch * r.shard.n; i++)
        r.shard.d_o[i * SCORES_HEADS * t->problem.v_dim] = INFINITY;
    bad = scores_plan(&r);
    bad += expect(bad || !scores_both(&r), "run: %s", rondo_last_error());
    bad += expect(t->d_sinks[rank][0] == 0, "gradient %g of no sink", (double)t->d_sinks[rank][0]);
    scores_leave(&r);
    return bad;
}

static void no_sink_has_no_gradient(void **state)
{
    struct scores *t = test_of(1, 11);

    (void)state;
    assert_int_equal(scores_ranks(t, 2, infinite_body), 0);
    problem_release(&t->problem);
}

/* ---- RONDO_VERIFY ---- */

/* Rank 0 verifies plan 0; its gradient of sink 2 is spoilt while the backward is under way, and after it was made. */
static int spoil_body(int rank, int ranks, void *arg)
{
    struct scores *t = arg;
    struct scores_rank r;
    rondo_request_t request = NULL;
    rondo_attention_fwd_t fwd;
    rondo_attention_bwd_t bwd;
    int bad, err;

    scores_enter(&r, t, rank, ranks);
    bad = scores_plan(&r);
    fwd = scores_forward_tensors(&r);
    bwd = scores_backward_tensors(&r);
    bad += expect(!rondo_attention_forward(r.plan, &fwd, NULL, &request) && !rondo_wait(&request, WAIT_MS),
                  "forward: %s", rondo_last_error());
    bad += expect(!rondo_attention_backward(r.plan, &bwd, NULL, &request), "start: %s", rondo_last_error());
    t->d_sinks[rank][2] += 0.01f;
    err = rondo_wait(&request, WAIT_MS);
    if (rank == 0)
        bad += expect_error(err, RONDO_ERR_VERIFY, "plan 0, backward: d_sinks of rank 0 is wrong", "head 2 is",
                            "verification");
    scores_leave(&r);
    return bad;
}

static void verification_finds_a_wrong_gradient(void **state)
{
    struct scores *t = test_of(1, 29);

    (void)state;
    setenv("RONDO_VERIFY", "1", 1);
    assert_int_equal(scores_ranks(t, 2, spoil_body), 0);
    unsetenv("RONDO_VERIFY");
    problem_release(&t->problem);
}

static void verification_passes_right_ones(void **state)
{
    (void)state;
    setenv("RONDO_VERIFY", "1", 1);
    for (int large = 0; large < 2; large++) {
        struct scores *t = test_of(1, large ? 29 : 2);

        scores_run_everywhere(t);
        t->features.softcap = 2;
        t->features.dropout = 0.2f;
        t->features.seed = 99;
        scores_run_everywhere(t);
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

/* Rank `odd` gives a sink that no other does. */
static int differ(struct scores_rank *r, int odd, const char *its_name)
{
    int err;

    r->test->sinks[r->rank][1] = (float)(r->rank == odd);
    err = scores_both(r);
    return expect_error(err, err == RONDO_ERR_PEER ? err : RONDO_ERR_MISMATCH, "tensors.sinks", its_name,
                        "other sinks"); /* PEER: another one was quicker to say so */
}

static int refuse_body(int rank, int ranks, void *arg)
{
    struct scores *t = arg;
    struct scores_rank r;
    rondo_plan_t without = NULL;
    float sinks[SCORES_HEADS] = { 0, 1, 2, 3 }, d_sinks[SCORES_HEADS];
    int bad;

    scores_enter(&r, t, rank, ranks);
    bad = scores_plan(&r);
    r.desc.has_sinks = 0;
    bad += expect(!rondo_attention_plan(r.comm, r.layout, &r.desc, &t->options, &without), "plan: %s",
                  rondo_last_error());
    bad += refused(r.plan, &r.shard, NULL, d_sinks, "tensors.sinks is NULL, and the plan was made with has_sinks");
    bad += refused(r.plan, &r.shard, sinks, NULL, "tensors.d_sinks is NULL");
    bad += refused(without, &r.shard, sinks, NULL, "tensors.sinks is given");
    bad += refused(without, &r.shard, NULL, d_sinks, "tensors.d_sinks is given");
    sinks[2] = NAN;
    bad += refused(r.plan, &r.shard, sinks, d_sinks, "tensors.sinks[2] is nan");
    sinks[2] = INFINITY;
    bad += refused(r.plan, &r.shard, sinks, d_sinks, "tensors.sinks[2] is inf");
    r.desc.has_sinks = rank;
    bad += expect_error(rondo_attention_plan(r.comm, r.layout, &r.desc, &t->options, &without), RONDO_ERR_MISMATCH,
                        "has_sinks", NULL, "has_sinks");
    bad += differ(&r, 1, "rank 1");
    rondo_plan_destroy(without);
    scores_leave(&r);
    return bad;
}

static void what_does_not_fit_is_refused(void **state)
{
    struct scores *t = test_of(0, 29);

    (void)state;
    assert_int_equal(scores_ranks(t, 2, refuse_body), 0);
    problem_release(&t->problem);
}

/* Of three ranks with one token the last has none, and gives sinks of its own. */
static int empty_body(int rank, int ranks, void *arg)
{
    struct scores_rank r;
    int bad;

    scores_enter(&r, arg, rank, ranks);
    bad = scores_plan(&r);
    bad += refused(r.plan, &r.shard, NULL, NULL, "tensors.sinks is NULL");
    bad += everyone_is_here(&((struct scores *)arg)->planned, ranks); /* the others fail their communicator now */
    bad += differ(&r, 2, "rank 2");
    scores_leave(&r);
    return bad;
}

static void ranks_without_tokens_give_sinks_too(void **state)
{
    struct scores *t = test_of(0, 1);

    (void)state;
    t->options.schedule = "ring";
    assert_int_equal(scores_ranks(t, 3, empty_body), 0);
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
