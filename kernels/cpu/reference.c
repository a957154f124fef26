/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as one would write it down: plain loops, doubles inside, rounded once a tile.  The
 * oracle that other kernels are held against, and slow. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "kernels/cpu/tasks.h"
#include "kernels/cpu/tile.h"
#include "kernels/table.h"

static double dot(const float *x, const float *y, int dim)
{
    double sum = 0;

    for (int d = 0; d < dim; d++)
        sum += (double)x[d] * y[d];
    return sum;
}

static void add_scaled(double *acc, double factor, const float *x, int dim)
{
    for (int d = 0; d < dim; d++)
        acc[d] += factor * x[d];
}

static void add_rounded(float *acc, const double *x, int dim)
{
    for (int d = 0; d < dim; d++)
        acc[d] = (float)(acc[d] + x[d]);
}

struct scratch {
    double *scores;         /* [max_k_tokens] */
    double *qk, *v;         /* [qk_dim], [v_dim]: sums */
    float *q_row, *k_row;   /* [qk_dim]: tensors of 16 bits are widened here */
    float *v_row, *d_o_row; /* [v_dim] */
};

static size_t lay_out(struct scratch *w, double *workspace, const rondo_kernel_shape_t *shape)
{
    size_t qk = (size_t)shape->qk_dim, v = (size_t)shape->v_dim, keys = (size_t)shape->max_k_tokens;
    float *rows;

    if (workspace) {
        rows = (float *)(workspace + keys + qk + v);
        *w = (struct scratch){.scores = workspace, .qk = workspace + keys, .v = workspace + keys + qk,
                              .q_row = rows, .k_row = rows + qk,
                              .v_row = rows + 2 * qk, .d_o_row = rows + 2 * qk + v};
    }
    return keys + 2 * (qk + v); /* two floats count as one of the doubles */
}

static size_t reference_workspace(void *context, const rondo_kernel_shape_t *shape)
{
    return lay_out(NULL, NULL, shape) * sizeof(double) * ri_task_threads(shape);
}

static int check_dtype(const rondo_kernel_shape_t *shape)
{
    if (ri_convert_bytes(shape->dtype))
        return 0;
    return ri_error(RONDO_ERR_UNSUPPORTED, "kernel reference: dtype %d; it takes float32, bfloat16 and float16",
                    (int)shape->dtype);
}

/* Row (b, t, h) of q, k, v or dO as floats: where it lies, or in widened. */
static const float *read_row(const rondo_tensor_t *x, rondo_dtype_t type, int64_t b, int64_t t, int h, int dim,
                             float *widened)
{
    const void *row = ri_tensor_typed_row(x, type, b, t, h);

    if (type == RONDO_F32)
        return row;
    ri_convert_to_f32(widened, row, type, (size_t)dim);
    return widened;
}

/* Folds the row (o_i, lse_i) into (o, lse); lse_i is a number.  The weights sum to one. */
static void merge_row(float *o, float *lse, const double *o_i, double lse_i, int dim)
{
    double m = *lse > lse_i ? *lse : lse_i;
    double old = *lse == -INFINITY ? 0 : exp(*lse - m), new = exp(lse_i - m);

    for (int d = 0; d < dim; d++)
        o[d] = (float)((old == 0 ? 0 : old / (old + new) * o[d]) + new / (old + new) * o_i[d]);
    *lse = (float)(m + log(old + new));
}

/* The score of a pair whose rows are q and k. */
static double score(const rondo_kernel_shape_t *s, const float *q, const float *k)
{
    double x = s->scale * dot(q, k, s->qk_dim);

    return s->softcap == 0 ? x : s->softcap * tanh(x / s->softcap);
}

/* What the weight of query i and key j of the tile is multiplied by. */
static double kept(const rondo_kernel_shape_t *s, uint64_t seed, const rondo_tile_t *tile, int64_t b, int h,
                   int64_t i, int64_t j)
{
    if (s->dropout == 0)
        return 1;
    return rondo_dropout_keeps(seed, s->first_batch + b, s->first_head + h, tile->q_start + i * tile->q_step,
                               tile->k_start + j * tile->k_step, s->dropout)
               ? 1 / (1 - (double)s->dropout) : 0;
}

/* Query i of the tile, head h, against the keys it sees. */
static void forward_row(const rondo_kernel_forward_t *a, const struct scratch *w, const rondo_tile_t *tile,
                        int64_t b, int h, int64_t i)
{
    const rondo_kernel_shape_t *s = a->shape;
    struct ri_range keys = ri_tile_keys(tile, i);
    int kv_head = h / (s->q_heads / s->kv_heads);
    const float *q = read_row(&a->q, s->dtype, b, tile->q_first + i, h, s->qk_dim, w->q_row);
    double m = -INFINITY, sum = 0, *p = w->scores;

    for (int64_t j = keys.first; j < keys.end; j++) {
        p[j] = score(s, q, read_row(&a->k, s->dtype, b, tile->k_first + j, kv_head, s->qk_dim, w->k_row));
        m = isnan(m) || p[j] <= m ? m : p[j]; /* a NaN stays */
    }
    if ((float)m == -INFINITY) /* no lse could say more of it */
        return;
    memset(w->v, 0, (size_t)s->v_dim * sizeof *w->v);
    for (int64_t j = keys.first; j < keys.end; j++) {
        double e = exp(p[j] - m);

        sum += e;
        add_scaled(w->v, e * kept(s, a->seed, tile, b, h, i, j),
                   read_row(&a->v, s->dtype, b, tile->k_first + j, kv_head, s->v_dim, w->v_row), s->v_dim);
    }
    for (int d = 0; d < s->v_dim; d++)
        w->v[d] /= sum;
    merge_row(ri_tensor_row(&a->o, b, tile->q_first + i, h),
              ri_tensor_row(&a->lse, b, tile->q_first + i, h), w->v, m + log(sum), s->v_dim);
}

static void forward_task(void *argument, int index, int thread)
{
    const rondo_kernel_forward_t *a = argument;
    int kv_heads = a->shape->kv_heads, group = a->shape->q_heads / kv_heads, kv_head = index % kv_heads;
    struct scratch w = {0};

    lay_out(&w, (double *)a->workspace + (size_t)thread * lay_out(NULL, NULL, a->shape), a->shape);
    for (int h = kv_head * group; h < (kv_head + 1) * group; h++)
        for (int t = 0; t < a->tile_count; t++)
            for (int64_t i = 0; i < a->tiles[t].q_count; i++)
                forward_row(a, &w, &a->tiles[t], index / kv_heads, h, i);
}

static int reference_forward(void *context, const rondo_kernel_forward_t *a)
{
    int err = check_dtype(a->shape);

    return err ? err : ri_tasks_run(a->shape, forward_task, (void *)(uintptr_t)a);
}

/* Query i and key j of a tile, and what their gradients are made of: p of dv, and ds of dq and dk: what
 * reaches scale times the product of q and k.  Rows stay until the next pair. */
struct pair {
    const float *q, *k, *d_o;
    double p, ds;
};

/* False where the row has no sum to divide by. */
static int backward_pair(const rondo_kernel_backward_t *a, const struct scratch *w, const rondo_tile_t *tile,
                         int64_t b, int h, int64_t i, int64_t j, struct pair *pair)
{
    const rondo_kernel_shape_t *s = a->shape;
    int64_t query = tile->q_first + i, key = tile->k_first + j;
    int kv_head = h / (s->q_heads / s->kv_heads);
    double lse = *ri_tensor_row(&a->lse, b, query, h), dp, x, keep;

    if (lse == -INFINITY)
        return 0;
    pair->q = read_row(&a->q, s->dtype, b, query, h, s->qk_dim, w->q_row);
    pair->k = read_row(&a->k, s->dtype, b, key, kv_head, s->qk_dim, w->k_row);
    pair->d_o = read_row(&a->d_o, s->dtype, b, query, h, s->v_dim, w->d_o_row);
    x = score(s, pair->q, pair->k);
    keep = kept(s, a->seed, tile, b, h, i, j);
    pair->p = exp(x - lse);
    dp = dot(pair->d_o, read_row(&a->v, s->dtype, b, key, kv_head, s->v_dim, w->v_row), s->v_dim);
    pair->ds = pair->p * (keep * dp - *ri_tensor_row(&a->delta, b, query, h)) * s->scale;
    if (s->softcap != 0)
        pair->ds *= 1 - x / s->softcap * (x / s->softcap);
    pair->p *= keep;
    return 1;
}

/* dq of query i of the tile. */
static void backward_query(const rondo_kernel_backward_t *a, const struct scratch *w, const rondo_tile_t *tile,
                           int64_t b, int h, int64_t i)
{
    int qk_dim = a->shape->qk_dim;
    struct ri_range keys = ri_tile_keys(tile, i);
    struct pair pair;

    memset(w->qk, 0, (size_t)qk_dim * sizeof *w->qk);
    for (int64_t j = keys.first; j < keys.end; j++)
        if (backward_pair(a, w, tile, b, h, i, j, &pair))
            add_scaled(w->qk, pair.ds, pair.k, qk_dim);
    add_rounded(ri_tensor_row(&a->dq, b, tile->q_first + i, h), w->qk, qk_dim);
}

/* dk and dv of key j of the tile, from all query heads that read it. */
static void backward_key(const rondo_kernel_backward_t *a, const struct scratch *w, const rondo_tile_t *tile,
                         int64_t b, int kv_head, int64_t j)
{
    const rondo_kernel_shape_t *s = a->shape;
    struct ri_range queries = ri_tile_rows(tile, j);
    int group = s->q_heads / s->kv_heads;
    struct pair pair;

    memset(w->qk, 0, (size_t)s->qk_dim * sizeof *w->qk);
    memset(w->v, 0, (size_t)s->v_dim * sizeof *w->v);
    for (int h = kv_head * group; h < (kv_head + 1) * group; h++)
        for (int64_t i = queries.first; i < queries.end; i++)
            if (backward_pair(a, w, tile, b, h, i, j, &pair)) {
                add_scaled(w->qk, pair.ds, pair.q, s->qk_dim);
                add_scaled(w->v, pair.p, pair.d_o, s->v_dim);
            }
    add_rounded(ri_tensor_row(&a->dk, b, tile->k_first + j, kv_head), w->qk, s->qk_dim);
    add_rounded(ri_tensor_row(&a->dv, b, tile->k_first + j, kv_head), w->v, s->v_dim);
}

/* Every pair is computed twice, once for dq and once for dk and dv, so that each gradient is one
 * sum in double. */
static void backward_task(void *argument, int index, int thread)
{
    const rondo_kernel_backward_t *a = argument;
    int kv_heads = a->shape->kv_heads, group = a->shape->q_heads / kv_heads, kv_head = index % kv_heads;
    int64_t b = index / kv_heads;
    struct scratch w = {0};

    lay_out(&w, (double *)a->workspace + (size_t)thread * lay_out(NULL, NULL, a->shape), a->shape);
    for (int t = 0; t < a->tile_count; t++) {
        const rondo_tile_t *tile = &a->tiles[t];

        for (int h = kv_head * group; h < (kv_head + 1) * group; h++)
            for (int64_t i = 0; i < tile->q_count; i++)
                backward_query(a, &w, tile, b, h, i);
        for (int64_t j = 0; j < tile->k_count; j++)
            backward_key(a, &w, tile, b, kv_head, j);
    }
}

static int reference_backward(void *context, const rondo_kernel_backward_t *a)
{
    int err = check_dtype(a->shape);

    return err ? err : ri_tasks_run(a->shape, backward_task, (void *)(uintptr_t)a);
}

const rondo_kernel_t ri_kernel_reference = {
    .struct_bytes = sizeof(rondo_kernel_t),
    .name = "reference",
    .flags = RONDO_KERNEL_MERGES | RONDO_KERNEL_BF16 | RONDO_KERNEL_F16 | RONDO_KERNEL_SOFTCAP |
             RONDO_KERNEL_DROPOUT,
    .workspace_bytes = reference_workspace,
    .forward = reference_forward,
    .backward = reference_backward,
};
