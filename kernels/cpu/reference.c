/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as one would write it down: plain loops, doubles inside, rounded once a tile.  The
 * oracle that other kernels are held against, and slow. */
#include <math.h>
#include <string.h>

#include "base/status.h"
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

/* Doubles: one row of scores, or of probabilities, and one row each of q and v. */
static size_t reference_workspace(void *context, const rondo_kernel_shape_t *shape)
{
    size_t row_count = (size_t)shape->qk_dim + (size_t)shape->v_dim;

    return ((size_t)shape->max_k_tokens + row_count) * sizeof(double);
}

static int check_dtype(const rondo_kernel_shape_t *shape)
{
    if (shape->dtype == RONDO_F32)
        return 0;
    return ri_error(RONDO_ERR_UNSUPPORTED, "kernel reference: dtype %d; it takes float32 alone",
                    (int)shape->dtype);
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

/* Query i of the tile, head h, against the keys it sees.  p[k_count] is scratch, o_i [v_dim]. */
static void forward_row(const rondo_kernel_forward_t *a, const rondo_tile_t *tile, int64_t b, int h,
                        int64_t i, double *p, double *o_i)
{
    const rondo_kernel_shape_t *s = a->shape;
    struct ri_range keys = ri_tile_keys(tile, i);
    int kv_head = h / (s->q_heads / s->kv_heads);
    const float *q = ri_tensor_row(&a->q, b, tile->q_first + i, h);
    double m = -INFINITY, sum = 0;

    for (int64_t j = keys.first; j < keys.end; j++) {
        p[j] = s->scale * dot(q, ri_tensor_row(&a->k, b, tile->k_first + j, kv_head), s->qk_dim);
        m = isnan(m) || p[j] <= m ? m : p[j]; /* a NaN stays */
    }
    if ((float)m == -INFINITY) /* no lse could say more of it */
        return;
    memset(o_i, 0, (size_t)s->v_dim * sizeof *o_i);
    for (int64_t j = keys.first; j < keys.end; j++) {
        double e = exp(p[j] - m);

        sum += e;
        add_scaled(o_i, e, ri_tensor_row(&a->v, b, tile->k_first + j, kv_head), s->v_dim);
    }
    for (int d = 0; d < s->v_dim; d++)
        o_i[d] /= sum;
    merge_row(ri_tensor_row(&a->o, b, tile->q_first + i, h),
              ri_tensor_row(&a->lse, b, tile->q_first + i, h), o_i, m + log(sum), s->v_dim);
}

static int reference_forward(void *context, const rondo_kernel_forward_t *a)
{
    double *p = a->workspace, *o_i = p + a->shape->max_k_tokens;
    int err = check_dtype(a->shape);

    if (err)
        return err;
    for (int64_t b = 0; b < a->shape->batch; b++)
        for (int h = 0; h < a->shape->q_heads; h++)
            for (int t = 0; t < a->tile_count; t++)
                for (int64_t i = 0; i < a->tiles[t].q_count; i++)
                    forward_row(a, &a->tiles[t], b, h, i, p, o_i);
    return 0;
}

/* One pair: p and ds = p * (dp - delta) * scale, or false where the row has no sum to divide by. */
static int backward_pair(const rondo_kernel_backward_t *a, int64_t b, int h, int64_t query,
                         int64_t key, double *p, double *ds)
{
    const rondo_kernel_shape_t *s = a->shape;
    int kv_head = h / (s->q_heads / s->kv_heads);
    double lse = *ri_tensor_row(&a->lse, b, query, h), dp;

    if (lse == -INFINITY)
        return 0;
    *p = exp(s->scale * dot(ri_tensor_row(&a->q, b, query, h),
                            ri_tensor_row(&a->k, b, key, kv_head), s->qk_dim) -
             lse);
    dp = dot(ri_tensor_row(&a->d_o, b, query, h), ri_tensor_row(&a->v, b, key, kv_head), s->v_dim);
    *ds = *p * (dp - *ri_tensor_row(&a->delta, b, query, h)) * s->scale;
    return 1;
}

/* dq of query i of the tile.  dq [qk_dim] is scratch. */
static void backward_query(const rondo_kernel_backward_t *a, const rondo_tile_t *tile, int64_t b,
                           int h, int64_t i, double *dq)
{
    const rondo_kernel_shape_t *s = a->shape;
    struct ri_range keys = ri_tile_keys(tile, i);
    int kv_head = h / (s->q_heads / s->kv_heads);
    double p, ds;

    memset(dq, 0, (size_t)s->qk_dim * sizeof *dq);
    for (int64_t j = keys.first; j < keys.end; j++)
        if (backward_pair(a, b, h, tile->q_first + i, tile->k_first + j, &p, &ds))
            add_scaled(dq, ds, ri_tensor_row(&a->k, b, tile->k_first + j, kv_head), s->qk_dim);
    add_rounded(ri_tensor_row(&a->dq, b, tile->q_first + i, h), dq, s->qk_dim);
}

/* dk and dv of key j of the tile, from all query heads that read it.  dk [qk_dim], dv [v_dim]. */
static void backward_key(const rondo_kernel_backward_t *a, const rondo_tile_t *tile, int64_t b,
                         int kv_head, int64_t j, double *dk, double *dv)
{
    const rondo_kernel_shape_t *s = a->shape;
    struct ri_range queries = ri_tile_rows(tile, j);
    int group = s->q_heads / s->kv_heads;
    double p, ds;

    memset(dk, 0, (size_t)s->qk_dim * sizeof *dk);
    memset(dv, 0, (size_t)s->v_dim * sizeof *dv);
    for (int h = kv_head * group; h < (kv_head + 1) * group; h++)
        for (int64_t i = queries.first; i < queries.end; i++)
            if (backward_pair(a, b, h, tile->q_first + i, tile->k_first + j, &p, &ds)) {
                add_scaled(dk, ds, ri_tensor_row(&a->q, b, tile->q_first + i, h), s->qk_dim);
                add_scaled(dv, p, ri_tensor_row(&a->d_o, b, tile->q_first + i, h), s->v_dim);
            }
    add_rounded(ri_tensor_row(&a->dk, b, tile->k_first + j, kv_head), dk, s->qk_dim);
    add_rounded(ri_tensor_row(&a->dv, b, tile->k_first + j, kv_head), dv, s->v_dim);
}

/* Every pair is computed twice, once for dq and once for dk and dv, so that each gradient is one
 * sum in double. */
static int reference_backward(void *context, const rondo_kernel_backward_t *a)
{
    double *x = a->workspace, *y = x + a->shape->qk_dim;
    int err = check_dtype(a->shape);

    if (err)
        return err;
    for (int64_t b = 0; b < a->shape->batch; b++)
        for (int t = 0; t < a->tile_count; t++) {
            const rondo_tile_t *tile = &a->tiles[t];

            for (int h = 0; h < a->shape->q_heads; h++)
                for (int64_t i = 0; i < tile->q_count; i++)
                    backward_query(a, tile, b, h, i, x);
            for (int h = 0; h < a->shape->kv_heads; h++)
                for (int64_t j = 0; j < tile->k_count; j++)
                    backward_key(a, tile, b, h, j, x, y);
        }
    return 0;
}

const rondo_kernel_t ri_kernel_reference = {
    .struct_bytes = sizeof(rondo_kernel_t),
    .name = "reference",
    .flags = RONDO_KERNEL_MERGES,
    .workspace_bytes = reference_workspace,
    .forward = reference_forward,
    .backward = reference_backward,
};
