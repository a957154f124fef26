/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/api/scores.h"

#include <stdarg.h>
#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

struct scores *scores_of(int causal, int64_t tokens)
{
    struct scores *t = shared_memory(sizeof(*t));

    t->problem = (struct problem){ .batch = 2, .tokens = tokens, .causal = causal, .q_heads = SCORES_HEADS,
                                   .kv_heads = 2, .qk_dim = 8, .v_dim = 6 };
    problem_init(&t->problem, 17);
    t->options = (rondo_plan_options_t)RONDO_PLAN_OPTIONS_INIT;
    t->options.kernel = &features_kernel;
    return t;
}

void scores_give_sinks(struct scores *t)
{
    static const float sinks[SCORES_HEADS] = { -INFINITY, -3, 0, 5 };

    for (int r = 0; r < SCORES_RANKS; r++)
        memcpy(t->sinks[r], sinks, sizeof(sinks));
    t->features.sinks = t->sinks[0];
    t->features.d_sinks = t->want;
}

/* ---- a rank ---- */

void scores_enter(struct scores_rank *r, struct scores *t, int rank, int ranks)
{
    *r = (struct scores_rank){ .test = t, .rank = rank };
    r->comm = comm_on_host(&t->meeting, rank, ranks, "self", t->ranks_per_host);
    r->layout = layout_of(t->kind, t->problem.tokens, ranks);
    r->desc = desc_of(&t->problem);
    r->desc.softcap = t->features.softcap;
    r->desc.dropout = t->features.dropout;
    r->desc.has_sinks = t->features.sinks != NULL;
    shard_init(&r->shard, r->layout, rank, &t->problem);
}

int scores_plan(struct scores_rank *r)
{
    return expect(!rondo_attention_plan(r->comm, r->layout, &r->desc, &r->test->options, &r->plan), "plan: %s",
                  rondo_last_error());
}

void scores_leave(struct scores_rank *r)
{
    rondo_plan_destroy(r->plan);
    shard_release(&r->shard);
    rondo_layout_destroy(r->layout);
    rondo_comm_destroy(r->comm);
}

static uint64_t seed_of(const struct scores_rank *r)
{
    return r->test->own_seeds ? r->test->seeds[r->rank] : r->test->features.seed;
}

rondo_attention_fwd_t scores_forward_tensors(const struct scores_rank *r)
{
    rondo_attention_fwd_t fwd = shard_forward_tensors(&r->shard);

    fwd.seed = seed_of(r);
    fwd.sinks = r->test->features.sinks ? r->test->sinks[r->rank] : NULL;
    return fwd;
}

rondo_attention_bwd_t scores_backward_tensors(const struct scores_rank *r)
{
    rondo_attention_bwd_t bwd = shard_backward_tensors(&r->shard);

    bwd.seed = seed_of(r);
    bwd.sinks = r->test->features.sinks ? r->test->sinks[r->rank] : NULL;
    bwd.d_sinks = r->test->features.sinks ? r->test->d_sinks[r->rank] : NULL;
    return bwd;
}

int scores_both(const struct scores_rank *r)
{
    rondo_attention_fwd_t fwd = scores_forward_tensors(r);
    rondo_attention_bwd_t bwd = scores_backward_tensors(r);

    return run_both(r->plan, &fwd, &bwd);
}

/* ---- everywhere ---- */

static int body(int rank, int ranks, void *arg)
{
    struct scores *t = arg;
    struct scores_rank r;
    double forward, backward;
    int bad;

    scores_enter(&r, t, rank, ranks);
    bad = scores_plan(&r);
    bad += expect(bad || !scores_both(&r), "run: %s", rondo_last_error());
    forward = shard_forward_error(&r.shard, &t->problem);
    backward = shard_backward_error(&r.shard, &t->problem);
    bad += expect(forward <= SHARD_BAR && backward <= SHARD_BAR, "%d ranks, layout %d: errors are %g and %g", ranks,
                  (int)t->kind, forward, backward);
    scores_leave(&r);
    return bad;
}

int scores_ranks(struct scores *t, int ranks, int (*rank_body)(int rank, int ranks, void *arg))
{
    memset(&t->meeting, 0, sizeof(t->meeting));
    return run_ranks(ranks, 0, 60, rank_body, t);
}

static void check_d_sinks(const struct scores *t, int ranks)
{
    for (int h = 0; h < SCORES_HEADS; h++) {
        double sum = 0;

        for (int r = 0; r < ranks; r++)
            sum += (double)t->d_sinks[r][h];
        if (!(fabs(sum - t->want[h]) <= SHARD_BAR * (1 + fabs(t->want[h]))))
            fail_msg("%d ranks: the gradient of sink %d is %g, not %g", ranks, h, sum, t->want[h]);
    }
}

static void run(struct scores *t, int ranks)
{
    for (int r = 0; r < ranks; r++)
        for (int h = 0; h < SCORES_HEADS; h++)
            t->d_sinks[r][h] = NAN;
    assert_int_equal(scores_ranks(t, ranks, body), 0);
    if (t->features.sinks)
        check_d_sinks(t, ranks);
}

void scores_run_everywhere(struct scores *t)
{
    static const char *const backwards[] = { "kv-grad", "q-grad" };
    static const char *const schedules[] = { "ring", "direct" };

    features_solve(&t->problem, &t->features);
    for (int ranks = 1; ranks <= SCORES_RANKS; ranks++)
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
