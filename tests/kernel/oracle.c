/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t poison = 0x7fc0dead; /* a NaN of our own */

rondo_tile_t tile_band(int64_t q_first, int64_t q_count, int64_t k_first, int64_t k_count,
                       int64_t lo, int64_t hi)
{
    return (rondo_tile_t){.q_first = q_first,
                          .q_count = q_count,
                          .k_first = k_first,
                          .k_count = k_count,
                          .lo = lo,
                          .hi = hi,
                          .q_step = 1,
                          .k_step = 1,
                          .kind = RONDO_TILE_BAND};
}

rondo_tile_t tile_full(int64_t q_first, int64_t q_count, int64_t k_first, int64_t k_count)
{
    rondo_tile_t t = tile_band(q_first, q_count, k_first, k_count, 1 - k_count, q_count - 1);

    t.kind = RONDO_TILE_FULL;
    return t;
}

rondo_tile_t tile_causal(int64_t q_first, int64_t q_count, int64_t k_first, int64_t k_count)
{
    rondo_tile_t t = tile_band(q_first, q_count, k_first, k_count, 0, q_count - 1);

    t.kind = RONDO_TILE_CAUSAL;
    return t;
}

rondo_tile_t tile_strict(int64_t q_first, int64_t q_count, int64_t k_first, int64_t k_count)
{
    rondo_tile_t t = tile_band(q_first, q_count, k_first, k_count, 1, q_count - 1);

    t.kind = RONDO_TILE_STRICT;
    return t;
}

/* By kind, not by lo and hi, where the kind says it. */
static int tile_sees(const rondo_tile_t *t, int64_t i, int64_t j)
{
    switch (t->kind) {
    case RONDO_TILE_FULL:
        return 1;
    case RONDO_TILE_CAUSAL:
        return j <= i;
    case RONDO_TILE_STRICT:
        return j < i;
    default:
        return t->lo <= i - j && i - j <= t->hi;
    }
}

float *box_at(const struct box *x, int64_t b, int64_t t, int h)
{
    return (float *)x->view.data + b * x->view.batch_stride + t * x->view.token_stride +
           h * x->view.head_stride;
}

static int64_t packed_floats(const struct box *x)
{
    return x->batch * x->tokens * x->heads * x->dim;
}

static void box_make(struct box *x, int64_t batch, int64_t tokens, int heads, int dim,
                     enum strides strides)
{
    int gaps = strides == STRIDES_GAPS;
    rondo_tensor_t *v = &x->view;

    *x = (struct box){.batch = batch, .tokens = tokens, .heads = heads, .dim = dim};
    if (strides == STRIDES_HEADS_FIRST) {
        v->token_stride = dim;
        v->head_stride = tokens * dim;
        v->batch_stride = heads * v->head_stride;
    } else {
        v->head_stride = dim + 3 * gaps;
        v->token_stride = heads * v->head_stride + 5 * gaps;
        v->batch_stride = tokens * v->token_stride + 7 * gaps;
    }
    x->floats = batch * v->batch_stride + gaps;
    x->memory = malloc((size_t)x->floats * sizeof(float));
    for (int64_t i = 0; i < x->floats; i++)
        memcpy(&x->memory[i], &poison, sizeof poison);
    v->data = x->memory + gaps;
}

void box_fill(struct box *x, float value)
{
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t t = 0; t < x->tokens; t++)
            for (int h = 0; h < x->heads; h++)
                for (int d = 0; d < x->dim; d++)
                    box_at(x, b, t, h)[d] = value;
}

/* Approximately normal: the sum of twelve uniform numbers, less its mean. */
static float random_normal(uint64_t *state)
{
    double sum = -6;

    for (int i = 0; i < 12; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(*state >> 11) / 9007199254740992.0;
    }
    return (float)sum;
}

static void box_randomise(struct box *x, uint64_t *state)
{
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t t = 0; t < x->tokens; t++)
            for (int h = 0; h < x->heads; h++)
                for (int d = 0; d < x->dim; d++)
                    box_at(x, b, t, h)[d] = random_normal(state);
}

int box_poison_intact(const struct box *x)
{
    int64_t found = 0;

    for (int64_t i = 0; i < x->floats; i++)
        found += memcmp(&x->memory[i], &poison, sizeof poison) == 0;
    return found == x->floats - packed_floats(x);
}

static void make_boxes(struct problem *p, enum strides strides)
{
    const struct dims *n = &p->n;

    box_make(&p->q, n->batch, n->q_tokens, n->q_heads, n->qk_dim, strides);
    box_make(&p->k, n->batch, n->k_tokens, n->kv_heads, n->qk_dim, strides);
    box_make(&p->v, n->batch, n->k_tokens, n->kv_heads, n->v_dim, strides);
    box_make(&p->d_o, n->batch, n->q_tokens, n->q_heads, n->v_dim, strides);
    box_make(&p->o, n->batch, n->q_tokens, n->q_heads, n->v_dim, strides);
    box_make(&p->lse, n->batch, n->q_tokens, n->q_heads, 1, strides);
    box_make(&p->delta, n->batch, n->q_tokens, n->q_heads, 1, strides);
    box_make(&p->dq, n->batch, n->q_tokens, n->q_heads, n->qk_dim, strides);
    box_make(&p->dk, n->batch, n->k_tokens, n->kv_heads, n->qk_dim, strides);
    box_make(&p->dv, n->batch, n->k_tokens, n->kv_heads, n->v_dim, strides);
}

static void fill_boxes(struct problem *p, unsigned seed)
{
    uint64_t state = 0x9e3779b97f4a7c15u * (seed + 1);

    box_randomise(&p->q, &state);
    box_randomise(&p->k, &state);
    box_randomise(&p->v, &state);
    box_randomise(&p->d_o, &state);
    box_fill(&p->o, 0);
    box_fill(&p->lse, -INFINITY);
    box_fill(&p->delta, 0);
    box_fill(&p->dq, 0);
    box_fill(&p->dk, 0);
    box_fill(&p->dv, 0);
}

static double *make_want(const struct box *x)
{
    return calloc((size_t)packed_floats(x), sizeof(double));
}

struct problem *problem_create(struct dims n, float scale, const rondo_tile_t *tiles,
                               int tile_count, enum strides strides, unsigned seed)
{
    struct problem *p = calloc(1, sizeof *p);

    p->n = n;
    p->tiles = tiles;
    p->tile_count = tile_count;
    p->shape = (rondo_kernel_shape_t){.struct_bytes = sizeof p->shape,
                                      .batch = n.batch,
                                      .q_heads = n.q_heads,
                                      .kv_heads = n.kv_heads,
                                      .qk_dim = n.qk_dim,
                                      .v_dim = n.v_dim,
                                      .scale = scale,
                                      .max_q_tokens = n.q_tokens,
                                      .max_k_tokens = n.k_tokens,
                                      .threads = 1};
    make_boxes(p, strides);
    fill_boxes(p, seed);
    p->want_o = make_want(&p->o);
    p->want_lse = make_want(&p->lse);
    p->want_dq = make_want(&p->dq);
    p->want_dk = make_want(&p->dk);
    p->want_dv = make_want(&p->dv);
    p->seen = calloc((size_t)(n.q_tokens * n.k_tokens), 1);
    for (int t = 0; t < tile_count; t++)
        for (int64_t i = 0; i < tiles[t].q_count; i++)
            for (int64_t j = 0; j < tiles[t].k_count; j++)
                if (tile_sees(&tiles[t], i, j))
                    p->seen[(tiles[t].q_first + i) * n.k_tokens + tiles[t].k_first + j]++;
    return p;
}

void problem_destroy(struct problem *p)
{
    struct box *const boxes[] = {&p->q,   &p->k,     &p->v,  &p->d_o, &p->o,
                                 &p->lse, &p->delta, &p->dq, &p->dk,  &p->dv};
    double *const wants[] = {p->want_o, p->want_lse, p->want_dq, p->want_dk, p->want_dv};

    for (size_t i = 0; i < sizeof boxes / sizeof boxes[0]; i++)
        free(boxes[i]->memory);
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; i++)
        free(wants[i]);
    free(p->seen);
    free(p);
}

static double score(const struct problem *p, int64_t b, int h, int64_t i, int64_t j)
{
    const float *q = box_at(&p->q, b, i, h);
    const float *k = box_at(&p->k, b, j, h * p->n.kv_heads / p->n.q_heads);
    double sum = 0;

    for (int d = 0; d < p->n.qk_dim; d++)
        sum += (double)q[d] * (double)k[d];
    return sum * (double)p->shape.scale;
}

static void forward_one(struct problem *p, int64_t b, int h, int64_t i)
{
    double *o = p->want_o + oracle_at(&p->o, b, i, h), top = -INFINITY, sum = 0;
    const unsigned char *seen = p->seen + i * p->n.k_tokens;

    for (int64_t j = 0; j < p->n.k_tokens; j++)
        if (seen[j])
            top = fmax(top, score(p, b, h, i, j));
    for (int d = 0; d < p->n.v_dim; d++)
        o[d] = 0;
    for (int64_t j = 0; j < p->n.k_tokens; j++) {
        const float *v = box_at(&p->v, b, j, h * p->n.kv_heads / p->n.q_heads);
        double weight = seen[j] ? exp(score(p, b, h, i, j) - top) : 0;

        sum += weight;
        for (int d = 0; d < p->n.v_dim && seen[j]; d++)
            o[d] += weight * (double)v[d];
    }
    for (int d = 0; d < p->n.v_dim && sum > 0; d++)
        o[d] /= sum;
    p->want_lse[oracle_at(&p->lse, b, i, h)] = sum > 0 ? top + log(sum) : -INFINITY;
}

void oracle_forward(struct problem *p)
{
    for (int64_t b = 0; b < p->n.batch; b++)
        for (int h = 0; h < p->n.q_heads; h++)
            for (int64_t i = 0; i < p->n.q_tokens; i++)
                forward_one(p, b, h, i);
}

static double probability(const struct problem *p, int64_t b, int h, int64_t i, int64_t j)
{
    if (!p->seen[i * p->n.k_tokens + j])
        return 0;
    return exp(score(p, b, h, i, j) - p->want_lse[oracle_at(&p->lse, b, i, h)]);
}

static double d_probability(const struct problem *p, int64_t b, int h, int64_t i, int64_t j)
{
    const float *d_o = box_at(&p->d_o, b, i, h);
    const float *v = box_at(&p->v, b, j, h * p->n.kv_heads / p->n.q_heads);
    double sum = 0;

    for (int d = 0; d < p->n.v_dim; d++)
        sum += (double)d_o[d] * (double)v[d];
    return sum;
}

/* rowsum(P * dP), which equals rowsum(o * d_o). */
static double row_delta(const struct problem *p, int64_t b, int h, int64_t i)
{
    double sum = 0;

    for (int64_t j = 0; j < p->n.k_tokens; j++)
        if (p->seen[i * p->n.k_tokens + j])
            sum += probability(p, b, h, i, j) * d_probability(p, b, h, i, j);
    return sum;
}

void oracle_give_lse_and_delta(struct problem *p)
{
    for (int64_t b = 0; b < p->n.batch; b++)
        for (int h = 0; h < p->n.q_heads; h++)
            for (int64_t i = 0; i < p->n.q_tokens; i++) {
                *box_at(&p->lse, b, i, h) = (float)p->want_lse[oracle_at(&p->lse, b, i, h)];
                *box_at(&p->delta, b, i, h) = (float)row_delta(p, b, h, i);
            }
}

static void backward_one(struct problem *p, int64_t b, int h, int64_t i)
{
    int kv_head = h * p->n.kv_heads / p->n.q_heads;
    const float *q = box_at(&p->q, b, i, h), *d_o = box_at(&p->d_o, b, i, h);
    double *dq = p->want_dq + oracle_at(&p->dq, b, i, h), delta = row_delta(p, b, h, i);

    for (int64_t j = 0; j < p->n.k_tokens; j++) {
        const float *k = box_at(&p->k, b, j, kv_head);
        double *dk = p->want_dk + oracle_at(&p->dk, b, j, kv_head);
        double *dv = p->want_dv + oracle_at(&p->dv, b, j, kv_head);
        double weight, ds;

        if (!p->seen[i * p->n.k_tokens + j])
            continue;
        weight = probability(p, b, h, i, j);
        ds = weight * (d_probability(p, b, h, i, j) - delta) * (double)p->shape.scale;
        for (int d = 0; d < p->n.v_dim; d++)
            dv[d] += weight * (double)d_o[d];
        for (int d = 0; d < p->n.qk_dim; d++) {
            dq[d] += ds * (double)k[d];
            dk[d] += ds * (double)q[d];
        }
    }
}

void oracle_backward(struct problem *p)
{
    memset(p->want_dq, 0, (size_t)packed_floats(&p->dq) * sizeof(double));
    memset(p->want_dk, 0, (size_t)packed_floats(&p->dk) * sizeof(double));
    memset(p->want_dv, 0, (size_t)packed_floats(&p->dv) * sizeof(double));
    for (int64_t b = 0; b < p->n.batch; b++)
        for (int h = 0; h < p->n.q_heads; h++)
            for (int64_t i = 0; i < p->n.q_tokens; i++)
                backward_one(p, b, h, i);
}
