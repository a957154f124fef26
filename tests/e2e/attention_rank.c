/* SPDX-License-Identifier: Apache-2.0 */
/* One rank: its shards, a plan for each scheme, and how far its results are from what they should be. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/attention.h"

struct shard {
    int64_t n, *positions;
    float *q, *k, *v, *d_o, *o, *lse, *gradient[3], *twin[3]; /* dq, dk, dv */
};

static float *vector(int64_t count)
{
    float *x = malloc(((size_t)count + 1) * sizeof(*x));

    if (!x)
        exit(1);
    return x;
}

static float *take(rondo_layout_t layout, int rank, int64_t n, const float *whole,
                   const struct problem *p, int row)
{
    float *x = vector(p->batch * n * row);

    for (int64_t b = 0; b < p->batch; b++)
        if (rondo_layout_shard(layout, rank, whole + b * p->tokens * row, (size_t)row * sizeof(float),
                               x + b * n * row))
            exit(1);
    return x;
}

/* Numbers in a row of dq, dk, dv. */
static int gradient_row(const struct problem *p, int i)
{
    return i == 0 ? p->q_heads * p->qk_dim : p->kv_heads * (i == 1 ? p->qk_dim : p->v_dim);
}

static void make_shard(struct shard *s, rondo_layout_t layout, int rank, const struct problem *p)
{
    int64_t n = rondo_layout_tokens(layout, rank), rows = p->batch * n;

    s->n = n;
    s->positions = malloc(((size_t)n + 1) * sizeof(int64_t));
    if (!s->positions || rondo_layout_positions(layout, rank, s->positions))
        exit(1);
    s->q = take(layout, rank, n, p->q, p, p->q_heads * p->qk_dim);
    s->k = take(layout, rank, n, p->k, p, p->kv_heads * p->qk_dim);
    s->v = take(layout, rank, n, p->v, p, p->kv_heads * p->v_dim);
    s->d_o = take(layout, rank, n, p->d_o, p, p->q_heads * p->v_dim);
    s->o = vector(rows * p->q_heads * p->v_dim);
    s->lse = vector(rows * p->q_heads);
    for (int i = 0; i < 3; i++) {
        s->gradient[i] = vector(rows * gradient_row(p, i));
        s->twin[i] = vector(rows * gradient_row(p, i));
    }
}

static void free_shard(struct shard *s)
{
    float *all[] = { s->q, s->k, s->v, s->d_o, s->o, s->lse };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
    for (int i = 0; i < 3; i++) {
        free(s->gradient[i]);
        free(s->twin[i]);
    }
    free(s->positions);
}

static void unset(float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = NAN; /* what is not written is seen */
}

static void unset_outputs(struct shard *s, const struct problem *p)
{
    int64_t rows = p->batch * s->n;

    unset(s->o, rows * p->q_heads * p->v_dim);
    unset(s->lse, rows * p->q_heads);
    for (int i = 0; i < 3; i++)
        unset(s->gradient[i], rows * gradient_row(p, i));
}

/* ---- comparing ---- */

static void compare(struct error *e, float got, double want)
{
    double diff = fabs(got - want);

    if (isnan(diff))
        diff = INFINITY;
    if (diff > e->worst)
        e->worst = diff;
    e->diff2 += diff * diff;
    e->ref2 += want * want;
}

/* Tensor [batch][n][row] against [batch][tokens][row]. */
static void compare_rows(struct error *e, const struct shard *s, const struct problem *p,
                         const float *got, const double *want, int row)
{
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < s->n; i++)
            for (int c = 0; c < row; c++)
                compare(e, got[(b * s->n + i) * row + c],
                        want[(b * p->tokens + s->positions[i]) * row + c]);
}

static void compare_lse(struct error *e, const struct shard *s, const struct problem *p)
{
    for (int64_t b = 0; b < p->batch; b++)
        for (int h = 0; h < p->q_heads; h++)
            for (int64_t i = 0; i < s->n; i++)
                compare(e, s->lse[(b * p->q_heads + h) * s->n + i],
                        p->lse[(b * p->tokens + s->positions[i]) * p->q_heads + h]);
}

static void compare_twin(struct error *errors, const struct shard *s, const struct problem *p)
{
    for (int i = 0; i < 3; i++)
        for (int64_t j = 0; j < p->batch * s->n * gradient_row(p, i); j++)
            compare(&errors[TWIN_DQ + i], s->gradient[i][j], s->twin[i][j]);
}

static void compare_all(struct error *errors, struct shard *s, const struct problem *p, int with_twin)
{
    const double *gradients[] = { p->dq, p->dk, p->dv };

    compare_rows(&errors[O], s, p, s->o, p->o, p->q_heads * p->v_dim);
    compare_lse(&errors[LSE], s, p);
    for (int i = 0; i < 3; i++)
        compare_rows(&errors[DQ + i], s, p, s->gradient[i], gradients[i], gradient_row(p, i));
    if (with_twin)
        compare_twin(errors, s, p);
    for (int i = 0; i < 3; i++)
        memcpy(s->twin[i], s->gradient[i],
               (size_t)(p->batch * s->n * gradient_row(p, i)) * sizeof(float));
}

/* ---- running ---- */

static int run_plan(rondo_plan_t plan, const struct shard *s)
{
    rondo_attention_fwd_t fwd = RONDO_ATTENTION_FWD_INIT;
    rondo_attention_bwd_t bwd = RONDO_ATTENTION_BWD_INIT;
    rondo_request_t request = NULL;
    int err;

    fwd.q = s->q, fwd.k = s->k, fwd.v = s->v, fwd.o = s->o, fwd.lse = s->lse;
    err = rondo_attention_forward(plan, &fwd, NULL, &request);
    if (!err)
        err = rondo_wait(&request, 60000);
    if (err)
        return err;
    bwd.q = s->q, bwd.k = s->k, bwd.v = s->v, bwd.o = s->o, bwd.lse = s->lse, bwd.d_o = s->d_o;
    bwd.dq = s->gradient[0], bwd.dk = s->gradient[1], bwd.dv = s->gradient[2];
    err = rondo_attention_backward(plan, &bwd, NULL, &request);
    return err ? err : rondo_wait(&request, 60000);
}

static int keep_counts(rondo_plan_t plan, struct outcome *outcome)
{
    rondo_plan_stats_t stats = RONDO_PLAN_STATS_INIT;
    int err = rondo_plan_stats(plan, &stats);

    memcpy(outcome->sent_bytes, stats.sent_tensor_bytes, sizeof(outcome->sent_bytes));
    outcome->bound_bytes = stats.bound_bytes;
    return err;
}

/* A plan for more tokens, that is then bound to those of the problem. */
static int make_longer(rondo_comm_t comm, rondo_layout_kind_t kind, int ranks, const struct problem *p,
                       const rondo_attention_desc_t *desc, const rondo_plan_options_t *options,
                       int64_t longer, rondo_plan_t *plan)
{
    rondo_layout_desc_t layout_desc = RONDO_LAYOUT_DESC_INIT;
    rondo_layout_t layout = NULL;
    int err;

    layout_desc.kind = kind, layout_desc.tokens = p->tokens + longer, layout_desc.ranks = ranks;
    err = rondo_layout_create(&layout_desc, &layout);
    if (!err)
        err = rondo_attention_plan(comm, layout, desc, options, plan);
    rondo_layout_destroy(layout);
    return err ? err : rondo_plan_bind(*plan, p->tokens, NULL, 0);
}

static int run_scheme(rondo_comm_t comm, rondo_layout_t layout, const struct test *t, int kind,
                      const struct problem *p, const struct scheme *scheme, struct shard *s,
                      struct outcome *outcome)
{
    rondo_attention_desc_t desc = RONDO_ATTENTION_DESC_INIT;
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_plan_t plan = NULL;
    int err;

    desc.mask = p->causal ? RONDO_MASK_CAUSAL : RONDO_MASK_FULL, desc.batch = p->batch;
    desc.q_heads = p->q_heads, desc.kv_heads = p->kv_heads;
    desc.qk_dim = p->qk_dim, desc.v_dim = p->v_dim;
    options.kernel_name = t->kernel;
    options.schedule = scheme->schedule, options.backward = scheme->backward;
    options.binding = scheme->binding, options.pieces = scheme->pieces ? scheme->pieces : 1;
    options.chunk_bytes = scheme->chunk_bytes;
    if (scheme->host_transfers)
        options.host_transfers = scheme->host_transfers;
    if (scheme->kernel)
        options.kernel_name = NULL, options.kernel = scheme->kernel;
    unset_outputs(s, p);
    err = scheme->longer ? make_longer(comm, (rondo_layout_kind_t)kind, t->ranks, p, &desc, &options,
                                       scheme->longer, &plan)
                         : rondo_attention_plan(comm, layout, &desc, &options, &plan);
    if (!err)
        err = run_plan(plan, s);
    if (!err)
        err = keep_counts(plan, outcome);
    rondo_plan_destroy(plan);
    return err;
}

/* One problem in one layout, by all schemes. */
static int run_problem(rondo_comm_t comm, struct test *t, int kind, int index, int rank)
{
    const struct problem *p = &t->problems[index];
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    rondo_layout_t layout = NULL;
    struct shard s;
    int err;

    desc.kind = (rondo_layout_kind_t)kind, desc.tokens = p->tokens, desc.ranks = t->ranks;
    err = rondo_layout_create(&desc, &layout);
    if (err)
        return err;
    make_shard(&s, layout, rank, p);
    for (int i = 0; !err && i < t->scheme_count; i++) {
        struct outcome *outcome = &t->outcomes[i][kind][index][rank];

        err = run_scheme(comm, layout, t, kind, p, &t->schemes[i], &s, outcome);
        if (!err)
            compare_all(outcome->errors, &s, p, is_twin(t, i));
        else
            fprintf(stderr, "# %s, %s, %s:\n", t->schemes[i].schedule, t->schemes[i].backward,
                    t->schemes[i].binding);
    }
    free_shard(&s);
    rondo_layout_destroy(layout);
    return err;
}

int is_twin(const struct test *t, int scheme)
{
    const struct scheme *at = &t->schemes[scheme], *before = at - 1;

    return scheme > 0 && strcmp(at->schedule, before->schedule) == 0 &&
           strcmp(at->binding, before->binding) == 0;
}

int run_cases(rondo_comm_t comm, int rank, struct test *t)
{
    int err = 0;

    for (int kind = t->first_layout; !err && kind <= t->last_layout; kind++)
        for (int i = 0; !err && i < t->problem_count; i++)
            err = run_problem(comm, t, kind, i, rank);
    if (err)
        fprintf(stderr, "# rank %d: %s: %s\n", rank, rondo_strerror(err), rondo_last_error());
    return err;
}

int run_rank(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_config_t config = RONDO_CONFIG_INIT;
    rondo_comm_t comm = NULL;
    char host[16];
    int err;

    snprintf(host, sizeof(host), "host%d", host_of(rank, ranks, t->hosts));
    config.transport = t->transport;
    config.host_id = host;
    err = meet(&t->meeting, rank, ranks, &config, &comm);
    if (err)
        fprintf(stderr, "# rank %d: %s: %s\n", rank, rondo_strerror(err), rondo_last_error());
    else
        err = run_cases(comm, rank, t);
    rondo_comm_destroy(comm);
    return err;
}
