/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/api/features.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/convert.h"

static void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes + 1);

    if (!memory) {
        fprintf(stderr, "# out of memory\n");
        exit(1);
    }
    return memory;
}

void features_narrow(void *to, rondo_dtype_t type, const float *from, size_t count)
{
    if (type == RONDO_F32)
        memcpy(to, from, count * sizeof(*from));
    for (size_t i = 0; i < count && type != RONDO_F32; i++)
        ((uint16_t *)to)[i] = type == RONDO_BF16 ? ri_bf16_of_f32(from[i]) : ri_f16_of_f32(from[i]);
}

void features_widen(float *to, rondo_dtype_t type, const void *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = type == RONDO_F32    ? ((const float *)from)[i]
                : type == RONDO_BF16 ? ri_f32_of_bf16(((const uint16_t *)from)[i])
                                     : ri_f32_of_f16(((const uint16_t *)from)[i]);
}

void features_round(rondo_dtype_t type, float *x, size_t count)
{
    for (size_t i = 0; i < count && type != RONDO_F32; i++)
        x[i] = type == RONDO_BF16 ? ri_f32_of_bf16(ri_bf16_of_f32(x[i])) : ri_f32_of_f16(ri_f16_of_f32(x[i]));
}

void features_round_problem(struct problem *p, rondo_dtype_t type)
{
    size_t rows = (size_t)(p->batch * p->tokens);

    features_round(type, p->q, rows * (size_t)p->q_heads * (size_t)p->qk_dim);
    features_round(type, p->k, rows * (size_t)p->kv_heads * (size_t)p->qk_dim);
    features_round(type, p->v, rows * (size_t)p->kv_heads * (size_t)p->v_dim);
    features_round(type, p->d_o, rows * (size_t)p->q_heads * (size_t)p->v_dim);
}

/* ---- one row: scores, weights, and what goes back ---- */

struct row {
    double *s, *slope, *p, *keep; /* [keys] */
    int64_t keys;
};

static struct row row_of(int64_t keys)
{
    double *all = allocate(4 * (size_t)keys * sizeof(double));

    return (struct row){ all, all + keys, all + 2 * keys, all + 3 * keys, keys };
}

/* The score of a product, and its derivative. */
static double cap(double product, float softcap, double *slope)
{
    double t = softcap > 0 ? tanh(product / softcap) : 0;

    *slope = softcap > 0 ? 1 - t * t : 1;
    return softcap > 0 ? softcap * t : product;
}

static double factor(uint64_t seed, int64_t b, int h, int64_t q, int64_t k, float dropout)
{
    if (dropout <= 0)
        return 1;
    return rondo_dropout_keeps(seed, b, h, q, k, dropout) ? 1 / (1 - (double)dropout) : 0;
}

/* ---- the whole problem ---- */

static const float *of(const struct problem *p, const float *x, int heads, int dim, int64_t b, int64_t i, int h)
{
    return x + ((b * p->tokens + i) * heads + h) * dim;
}

static double *to(const struct problem *p, double *x, int heads, int dim, int64_t b, int64_t i, int h)
{
    return x + ((b * p->tokens + i) * heads + h) * dim;
}

static double dot(const float *a, const float *b, int dim)
{
    double sum = 0;

    for (int c = 0; c < dim; c++)
        sum += (double)a[c] * b[c];
    return sum;
}

static double weigh(const struct problem *p, const struct features *f, struct row *row, int64_t b, int64_t i, int h)
{
    int kv = h / (p->q_heads / p->kv_heads);
    double top = f->sinks ? (double)f->sinks[h] : -INFINITY, sum = 0, lse;

    row->keys = p->causal ? i + 1 : p->tokens;
    for (int64_t j = 0; j < row->keys; j++) {
        double x = dot(of(p, p->q, p->q_heads, p->qk_dim, b, i, h), of(p, p->k, p->kv_heads, p->qk_dim, b, j, kv),
                       p->qk_dim) / sqrt(p->qk_dim);

        row->s[j] = cap(x, f->softcap, &row->slope[j]);
        row->keep[j] = factor(f->seed, b, h, i, j, f->dropout);
        top = fmax(top, row->s[j]);
    }
    for (int64_t j = 0; j < row->keys; j++)
        sum += exp(row->s[j] - top);
    lse = top + log(sum + (f->sinks ? exp((double)f->sinks[h] - top) : 0));
    for (int64_t j = 0; j < row->keys; j++)
        row->p[j] = exp(row->s[j] - lse);
    return lse;
}

static void solve_row(struct problem *p, const struct features *f, struct row *row, int64_t b, int64_t i, int h)
{
    int kv = h / (p->q_heads / p->kv_heads);
    const float *d_o = of(p, p->d_o, p->q_heads, p->v_dim, b, i, h);
    const float *q = of(p, p->q, p->q_heads, p->qk_dim, b, i, h);
    double *o = to(p, p->o, p->q_heads, p->v_dim, b, i, h), *dq = to(p, p->dq, p->q_heads, p->qk_dim, b, i, h);
    double lse = weigh(p, f, row, b, i, h), delta = 0, scale = 1 / sqrt(p->qk_dim);

    p->lse[(b * p->tokens + i) * p->q_heads + h] = lse;
    for (int64_t j = 0; j < row->keys; j++)
        for (int c = 0; c < p->v_dim; c++)
            o[c] += row->keep[j] * row->p[j] * of(p, p->v, p->kv_heads, p->v_dim, b, j, kv)[c];
    for (int c = 0; c < p->v_dim; c++)
        delta += o[c] * d_o[c];
    if (f->d_sinks)
        f->d_sinks[h] -= exp((double)f->sinks[h] - lse) * delta;
    for (int64_t j = 0; j < row->keys; j++) {
        double *dk = to(p, p->dk, p->kv_heads, p->qk_dim, b, j, kv);
        double *dv = to(p, p->dv, p->kv_heads, p->v_dim, b, j, kv);
        double dp = row->keep[j] * dot(d_o, of(p, p->v, p->kv_heads, p->v_dim, b, j, kv), p->v_dim);
        double g = row->p[j] * (dp - delta) * row->slope[j] * scale;

        for (int c = 0; c < p->qk_dim; c++) {
            dq[c] += g * of(p, p->k, p->kv_heads, p->qk_dim, b, j, kv)[c];
            dk[c] += g * q[c];
        }
        for (int c = 0; c < p->v_dim; c++)
            dv[c] += row->keep[j] * row->p[j] * d_o[c];
    }
}

void features_solve(struct problem *p, const struct features *f)
{
    struct row row = row_of(p->tokens);
    size_t rows = (size_t)(p->batch * p->tokens);

    memset(p->o, 0, rows * (size_t)p->q_heads * (size_t)p->v_dim * sizeof(double));
    memset(p->dq, 0, rows * (size_t)p->q_heads * (size_t)p->qk_dim * sizeof(double));
    memset(p->dk, 0, rows * (size_t)p->kv_heads * (size_t)p->qk_dim * sizeof(double));
    memset(p->dv, 0, rows * (size_t)p->kv_heads * (size_t)p->v_dim * sizeof(double));
    for (int h = 0; f->d_sinks && h < p->q_heads; h++)
        f->d_sinks[h] = 0;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < p->tokens; i++)
            for (int h = 0; h < p->q_heads; h++)
                solve_row(p, f, &row, b, i, h);
    free(row.s);
}

/* ---- the kernel ---- */

/* Element c of row (b, t, h). */
static float get(const rondo_tensor_t *x, rondo_dtype_t type, int64_t b, int64_t t, int h, int c)
{
    int64_t at = b * x->batch_stride + t * x->token_stride + h * x->head_stride + c;

    if (type == RONDO_BF16)
        return ri_f32_of_bf16(((const uint16_t *)x->data)[at]);
    return type == RONDO_F16 ? ri_f32_of_f16(((const uint16_t *)x->data)[at]) : ((const float *)x->data)[at];
}

static float *at(const rondo_tensor_t *x, int64_t b, int64_t t, int h)
{
    return (float *)x->data + b * x->batch_stride + t * x->token_stride + h * x->head_stride;
}

static double product(const rondo_kernel_shape_t *s, const rondo_tensor_t *x, int64_t t, int h,
                      const rondo_tensor_t *y, int64_t u, int g, int64_t b, int dim)
{
    double sum = 0;

    for (int c = 0; c < dim; c++)
        sum += (double)get(x, s->dtype, b, t, h, c) * get(y, s->dtype, b, u, g, c);
    return sum;
}

static int sees(const rondo_tile_t *t, int64_t i, int64_t j)
{
    return t->lo <= i - j && i - j <= t->hi;
}

static double kept(const rondo_kernel_shape_t *s, uint64_t seed, const rondo_tile_t *t, int64_t b, int h, int64_t i,
                   int64_t j)
{
    return factor(seed, s->first_batch + b, s->first_head + h, t->q_start + i * t->q_step,
                  t->k_start + j * t->k_step, s->dropout);
}

/* Folds one key after the other into the row. */
static void forward_row(const rondo_kernel_forward_t *a, const rondo_tile_t *t, int64_t b, int h, int64_t i)
{
    const rondo_kernel_shape_t *s = a->shape;
    int kv = h / (s->q_heads / s->kv_heads);
    float *o = at(&a->o, b, t->q_first + i, h), *lse_at = at(&a->lse, b, t->q_first + i, h);
    double lse = *lse_at, slope, *sum = allocate((size_t)s->v_dim * sizeof(double));

    for (int c = 0; c < s->v_dim; c++)
        sum[c] = o[c];
    for (int64_t j = 0; j < t->k_count; j++) {
        double x, more, old, keep = kept(s, a->seed, t, b, h, i, j);

        if (!sees(t, i, j))
            continue;
        x = cap(s->scale * product(s, &a->q, t->q_first + i, h, &a->k, t->k_first + j, kv, b, s->qk_dim),
                s->softcap, &slope);
        more = fmax(x, lse) + log1p(exp(fmin(x, lse) - fmax(x, lse)));
        old = exp(lse - more);
        for (int c = 0; c < s->v_dim; c++)
            sum[c] = old * sum[c] + keep * exp(x - more) * get(&a->v, s->dtype, b, t->k_first + j, kv, c);
        lse = more;
    }
    for (int c = 0; c < s->v_dim; c++)
        o[c] = (float)sum[c];
    *lse_at = (float)lse;
    free(sum);
}

static int forward(void *context, const rondo_kernel_forward_t *a)
{
    (void)context;
    for (int64_t b = 0; b < a->shape->batch; b++)
        for (int h = 0; h < a->shape->q_heads; h++)
            for (int t = 0; t < a->tile_count; t++)
                for (int64_t i = 0; i < a->tiles[t].q_count; i++)
                    forward_row(a, &a->tiles[t], b, h, i);
    return 0;
}

static void forward_head(void *argument, int index, int thread)
{
    const rondo_kernel_forward_t *a = argument;
    int heads = a->shape->q_heads;

    (void)thread;
    for (int t = 0; t < a->tile_count; t++)
        for (int64_t i = 0; i < a->tiles[t].q_count; i++)
            forward_row(a, &a->tiles[t], index / heads, index % heads, i);
}

static int forward_threads(void *context, const rondo_kernel_forward_t *a)
{
    rondo_kernel_forward_t args = *a;

    (void)context;
    if ((a->shape->threads > 1) != (a->shape->run != NULL))
        return 1;
    if (!a->shape->run)
        return forward(context, a);
    a->shape->run(a->shape->runner, forward_head, &args, (int)a->shape->batch * a->shape->q_heads);
    return 0;
}

/* The tile's own result, over whatever was there. */
static int forward_alone(void *context, const rondo_kernel_forward_t *a)
{
    const rondo_tile_t *t = a->tiles;

    for (int64_t b = 0; b < a->shape->batch; b++)
        for (int h = 0; h < a->shape->q_heads; h++)
            for (int64_t i = 0; i < t->q_count; i++) {
                memset(at(&a->o, b, t->q_first + i, h), 0, (size_t)a->shape->v_dim * sizeof(float));
                *at(&a->lse, b, t->q_first + i, h) = -INFINITY;
            }
    return forward(context, a);
}

static void backward_pair(const rondo_kernel_backward_t *a, const rondo_tile_t *t, int64_t b, int h, int64_t i,
                          int64_t j)
{
    const rondo_kernel_shape_t *s = a->shape;
    int kv = h / (s->q_heads / s->kv_heads);
    int64_t query = t->q_first + i, key = t->k_first + j;
    float *dq = at(&a->dq, b, query, h), *dk = at(&a->dk, b, key, kv), *dv = at(&a->dv, b, key, kv);
    double slope, lse = *at(&a->lse, b, query, h), keep = kept(s, a->seed, t, b, h, i, j);
    double x = cap(s->scale * product(s, &a->q, query, h, &a->k, key, kv, b, s->qk_dim), s->softcap, &slope);
    double p = lse == -INFINITY ? 0 : exp(x - lse);
    double dp = keep * product(s, &a->d_o, query, h, &a->v, key, kv, b, s->v_dim);
    double delta = a->delta.data ? (double)*at(&a->delta, b, query, h)
                                 : product(s, &a->o, query, h, &a->d_o, query, h, b, s->v_dim);
    double g = p * (dp - delta) * slope * s->scale;

    for (int c = 0; c < s->qk_dim; c++) {
        dq[c] += (float)(g * get(&a->k, s->dtype, b, key, kv, c));
        dk[c] += (float)(g * get(&a->q, s->dtype, b, query, h, c));
    }
    for (int c = 0; c < s->v_dim; c++)
        dv[c] += (float)(keep * p * get(&a->d_o, s->dtype, b, query, h, c));
}

static int backward(void *context, const rondo_kernel_backward_t *a)
{
    (void)context;
    for (int64_t b = 0; b < a->shape->batch; b++)
        for (int h = 0; h < a->shape->q_heads; h++)
            for (int t = 0; t < a->tile_count; t++)
                for (int64_t i = 0; i < a->tiles[t].q_count; i++)
                    for (int64_t j = 0; j < a->tiles[t].k_count; j++)
                        if (sees(&a->tiles[t], i, j))
                            backward_pair(a, &a->tiles[t], b, h, i, j);
    return 0;
}

const rondo_kernel_t features_kernel = {
    .struct_bytes = sizeof(features_kernel), .name = "plain",
    .flags = RONDO_KERNEL_MERGES | RONDO_KERNEL_BF16 | RONDO_KERNEL_F16 | RONDO_KERNEL_SOFTCAP |
             RONDO_KERNEL_DROPOUT,
    .forward = forward, .backward = backward,
};

const rondo_kernel_t features_partial_kernel = {
    .struct_bytes = sizeof(features_partial_kernel), .name = "partial",
    .flags = RONDO_KERNEL_BF16 | RONDO_KERNEL_F16 | RONDO_KERNEL_SOFTCAP | RONDO_KERNEL_DROPOUT,
    .forward = forward_alone, .backward = backward,
};

const rondo_kernel_t features_o_kernel = {
    .struct_bytes = sizeof(features_o_kernel), .name = "takes o",
    .flags = RONDO_KERNEL_MERGES | RONDO_KERNEL_NEEDS_O | RONDO_KERNEL_BF16 | RONDO_KERNEL_F16,
    .forward = forward, .backward = backward,
};

const rondo_kernel_t features_threads_kernel = {
    .struct_bytes = sizeof(features_threads_kernel), .name = "threads", .flags = RONDO_KERNEL_MERGES,
    .forward = forward_threads, .backward = backward,
};
