/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/api/shard.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int expect(int good, const char *format, ...)
{
    char text[512];
    va_list args;

    if (good)
        return 0;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "# wrong: %s\n", text);
    return 1;
}

static int expect_word(const char *text, const char *word, const char *what)
{
    return word ? expect(strstr(text, word) != NULL, "%s: \"%s\" lacks \"%s\"", what, text, word) : 0;
}

int expect_error(int status, int wanted, const char *word, const char *second, const char *what)
{
    const char *text = rondo_last_error();
    int bad = expect(status == wanted, "%s: status %d (%s), not %d", what, status, text, wanted);

    if (bad || !wanted)
        return bad;
    return expect_word(text, word, what) + expect_word(text, second, what);
}

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);

    if (!memory) {
        fprintf(stderr, "# out of memory\n");
        exit(1);
    }
    return memory;
}

rondo_layout_t layout_of(rondo_layout_kind_t kind, int64_t tokens, int ranks)
{
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    rondo_layout_t layout = NULL;

    desc.kind = kind;
    desc.tokens = tokens;
    desc.ranks = ranks;
    if (rondo_layout_create(&desc, &layout)) {
        fprintf(stderr, "# layout: %s\n", rondo_last_error());
        exit(1);
    }
    return layout;
}

rondo_attention_desc_t desc_of(const struct problem *p)
{
    rondo_attention_desc_t desc = RONDO_ATTENTION_DESC_INIT;

    desc.mask = p->causal ? RONDO_MASK_CAUSAL : RONDO_MASK_FULL;
    desc.batch = p->batch;
    desc.q_heads = p->q_heads;
    desc.kv_heads = p->kv_heads;
    desc.qk_dim = p->qk_dim;
    desc.v_dim = p->v_dim;
    return desc;
}

/* ---- the shard ---- */

static float *take(rondo_layout_t layout, int rank, const float *whole, const struct problem *p, int row)
{
    int64_t n = rondo_layout_tokens(layout, rank);
    float *x;

    if (n == 0)
        return NULL;
    x = allocate((size_t)(p->batch * n * row) * sizeof(*x));
    for (int64_t b = 0; b < p->batch; b++)
        if (rondo_layout_shard(layout, rank, whole + b * p->tokens * row, (size_t)row * sizeof(float),
                               x + b * n * row))
            exit(1);
    return x;
}

void shard_init(struct shard *s, rondo_layout_t layout, int rank, const struct problem *p)
{
    int64_t n = rondo_layout_tokens(layout, rank), rows = p->batch * n;
    int64_t counts[] = { rows * p->q_heads * p->v_dim, rows * p->q_heads,
                         rows * p->q_heads * p->qk_dim, rows * p->kv_heads * p->qk_dim,
                         rows * p->kv_heads * p->v_dim };
    float **tensors[] = { &s->o, &s->lse, &s->dq, &s->dk, &s->dv };

    *s = (struct shard){ .n = n };
    if (n == 0)
        return;
    s->positions = allocate((size_t)n * sizeof(*s->positions));
    if (rondo_layout_positions(layout, rank, s->positions))
        exit(1);
    s->q = take(layout, rank, p->q, p, p->q_heads * p->qk_dim);
    s->k = take(layout, rank, p->k, p, p->kv_heads * p->qk_dim);
    s->v = take(layout, rank, p->v, p, p->kv_heads * p->v_dim);
    s->d_o = take(layout, rank, p->d_o, p, p->q_heads * p->v_dim);
    for (int i = 0; i < 5; i++)
        s->output_count += (size_t)counts[i];
    s->outputs = allocate(s->output_count * sizeof(float));
    *tensors[0] = s->outputs;
    for (int i = 1; i < 5; i++)
        *tensors[i] = *tensors[i - 1] + counts[i - 1];
    shard_clear(s);
}

void shard_release(struct shard *s)
{
    free(s->positions);
    free(s->q);
    free(s->k);
    free(s->v);
    free(s->d_o);
    free(s->outputs);
}

void shard_clear(struct shard *s)
{
    for (size_t i = 0; i < s->output_count; i++)
        s->outputs[i] = NAN;
}

/* ---- calls ---- */

rondo_attention_fwd_t shard_forward_tensors(const struct shard *s)
{
    rondo_attention_fwd_t fwd = RONDO_ATTENTION_FWD_INIT;

    fwd.q = s->q, fwd.k = s->k, fwd.v = s->v, fwd.o = s->o, fwd.lse = s->lse;
    return fwd;
}

rondo_attention_bwd_t shard_backward_tensors(const struct shard *s)
{
    rondo_attention_bwd_t bwd = RONDO_ATTENTION_BWD_INIT;

    bwd.q = s->q, bwd.k = s->k, bwd.v = s->v, bwd.o = s->o, bwd.lse = s->lse, bwd.d_o = s->d_o;
    bwd.dq = s->dq, bwd.dk = s->dk, bwd.dv = s->dv;
    return bwd;
}

int shard_forward(rondo_plan_t plan, const struct shard *s)
{
    rondo_attention_fwd_t fwd = shard_forward_tensors(s);
    rondo_request_t request = NULL;
    int err = rondo_attention_forward(plan, &fwd, NULL, &request);

    return err ? err : rondo_wait(&request, WAIT_MS);
}

int shard_backward(rondo_plan_t plan, const struct shard *s)
{
    rondo_attention_bwd_t bwd = shard_backward_tensors(s);
    rondo_request_t request = NULL;
    int err = rondo_attention_backward(plan, &bwd, NULL, &request);

    return err ? err : rondo_wait(&request, WAIT_MS);
}

int shard_both(rondo_plan_t plan, const struct shard *s)
{
    int err = shard_forward(plan, s);

    return err ? err : shard_backward(plan, s);
}

int run_both(rondo_plan_t plan, const rondo_attention_fwd_t *fwd, const rondo_attention_bwd_t *bwd)
{
    rondo_request_t request = NULL;
    int err = rondo_attention_forward(plan, fwd, NULL, &request);

    if (!err)
        err = rondo_wait(&request, WAIT_MS);
    if (!err)
        err = rondo_attention_backward(plan, bwd, NULL, &request);
    return err ? err : rondo_wait(&request, WAIT_MS);
}

/* ---- against the oracle ---- */

static void widen(double *worst, double difference)
{
    if (!isnan(*worst) && !(fabs(difference) <= *worst))
        *worst = fabs(difference);
}

/* got [batch][n][row] against want [batch][tokens][row]. */
static void widen_rows(double *worst, const struct shard *s, const struct problem *p, const float *got,
                       const double *want, int row)
{
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < s->n; i++)
            for (int c = 0; c < row; c++)
                widen(worst, got[(b * s->n + i) * row + c] -
                                 want[(b * p->tokens + s->positions[i]) * row + c]);
}

double shard_forward_error(const struct shard *s, const struct problem *p)
{
    double worst = 0;

    widen_rows(&worst, s, p, s->o, p->o, p->q_heads * p->v_dim);
    for (int64_t b = 0; b < p->batch; b++)
        for (int h = 0; h < p->q_heads; h++)
            for (int64_t i = 0; i < s->n; i++)
                widen(&worst, s->lse[(b * p->q_heads + h) * s->n + i] -
                                  p->lse[(b * p->tokens + s->positions[i]) * p->q_heads + h]);
    return worst;
}

double shard_backward_error(const struct shard *s, const struct problem *p)
{
    double worst = 0;

    widen_rows(&worst, s, p, s->dq, p->dq, p->q_heads * p->qk_dim);
    widen_rows(&worst, s, p, s->dk, p->dk, p->kv_heads * p->qk_dim);
    widen_rows(&worst, s, p, s->dv, p->dv, p->kv_heads * p->v_dim);
    return worst;
}

int run_problem(rondo_comm_t comm, rondo_layout_kind_t kind, const struct problem *p,
                const rondo_plan_options_t *options)
{
    rondo_comm_info_t info = RONDO_COMM_INFO_INIT;
    rondo_attention_desc_t desc = desc_of(p);
    rondo_layout_t layout;
    rondo_plan_t plan = NULL;
    struct shard s;
    int err, bad;

    rondo_comm_query(comm, &info);
    layout = layout_of(kind, p->tokens, info.size);
    shard_init(&s, layout, info.rank, p);
    err = rondo_attention_plan(comm, layout, &desc, options, &plan);
    if (!err)
        err = shard_both(plan, &s);
    bad = expect(!err, "rank %d of %d, %s, %lld tokens: %s", info.rank, info.size,
                 rondo_layout_kind_name(kind), (long long)p->tokens, rondo_last_error());
    if (!bad)
        bad = expect(shard_forward_error(&s, p) <= SHARD_BAR && shard_backward_error(&s, p) <= SHARD_BAR,
                     "rank %d of %d, %s, %lld tokens: off by %g, %g", info.rank, info.size,
                     rondo_layout_kind_name(kind), (long long)p->tokens, shard_forward_error(&s, p),
                     shard_backward_error(&s, p));
    rondo_plan_destroy(plan);
    shard_release(&s);
    rondo_layout_destroy(layout);
    return bad;
}

static rondo_comm_t comm_or_exit(struct meeting *meeting, int rank, int ranks, const rondo_config_t *config)
{
    rondo_comm_t comm = NULL;

    if (meet(meeting, rank, ranks, config, &comm)) {
        fprintf(stderr, "# rank %d of %d, no communicator: %s\n", rank, ranks, rondo_last_error());
        exit(1);
    }
    return comm;
}

rondo_comm_t comm_of(struct meeting *meeting, int rank, int ranks, const char *transport)
{
    rondo_config_t config = RONDO_CONFIG_INIT;

    config.transport = transport;
    return comm_or_exit(meeting, rank, ranks, &config);
}

rondo_comm_t comm_on_host(struct meeting *meeting, int rank, int ranks, const char *transport, int ranks_per_host)
{
    rondo_config_t config = RONDO_CONFIG_INIT;
    char host[16];

    snprintf(host, sizeof(host), "host%d", ranks_per_host ? rank / ranks_per_host : 0);
    config.transport = transport;
    config.host_id = host;
    return comm_or_exit(meeting, rank, ranks, &config);
}
