/* SPDX-License-Identifier: Apache-2.0 */
/* For every key/value head and panel of keys: pack the panel, gather its dk and dv in the workspace
 * from all blocks of queries of all heads that read it, then add them to the caller's.  Scores are
 * made again with q times ri_flash_q_factor, so dk comes out in base 2 and dq without scale; both
 * are mended on the way out.  d_o is taken times ri_flash_kept, as dv and what reaches a score need it. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/flash.h"
#include "kernels/cpu/tasks.h"

struct space {
    float *kt, *vt;     /* [panel/64][dim][64] */
    float *k;           /* [panel][k_row] */
    float *dk, *dv;     /* [panel][k_row], [panel][v_row] */
    float *q, *d_o;     /* [96][k_row], [96][v_row]; zero where the row has no lse */
    float *p, *ds;      /* [96][64] */
    float *dq;          /* [96][k_row] */
    float *lse, *delta; /* [96], lse in base 2, +inf where the row has none */
    float *strip;       /* [16][the larger dim] */
    int k_row, v_row;
};

static int panel_keys(const rondo_kernel_shape_t *shape)
{
    return ri_flash_panel(shape, shape->qk_dim + shape->v_dim + 2 * ri_flash_padded(shape->qk_dim) +
                                     ri_flash_padded(shape->v_dim));
}

static size_t lay_out(struct space *w, float *workspace, const rondo_kernel_shape_t *shape)
{
    size_t used = 0;
    int64_t panel = panel_keys(shape), queries = RI_FLASH_QUERIES;

    w->k_row = (int)ri_flash_padded(shape->qk_dim);
    w->v_row = (int)ri_flash_padded(shape->v_dim);
    w->kt = ri_flash_take(workspace, &used, panel * shape->qk_dim);
    w->vt = ri_flash_take(workspace, &used, panel * shape->v_dim);
    w->k = ri_flash_take(workspace, &used, panel * w->k_row);
    w->dk = ri_flash_take(workspace, &used, panel * w->k_row);
    w->dv = ri_flash_take(workspace, &used, panel * w->v_row);
    w->q = ri_flash_take(workspace, &used, queries * w->k_row);
    w->d_o = ri_flash_take(workspace, &used, queries * w->v_row);
    w->p = ri_flash_take(workspace, &used, queries * RI_FLASH_KEYS);
    w->ds = ri_flash_take(workspace, &used, queries * RI_FLASH_KEYS);
    w->dq = ri_flash_take(workspace, &used, queries * w->k_row);
    w->lse = ri_flash_take(workspace, &used, queries);
    w->delta = ri_flash_take(workspace, &used, queries);
    w->strip = ri_flash_take(workspace, &used,
                             (int64_t)RI_FLASH_STRIP * ri_flash_max(shape->qk_dim, shape->v_dim));
    return used;
}

size_t ri_flash_backward_floats(const rondo_kernel_shape_t *shape)
{
    struct space w;

    return lay_out(&w, NULL, shape);
}

/* Where we are: one call, one batch row, one tile, one panel of keys first <= j < first + count. */
struct place {
    const struct ri_flash_ops *ops;
    const rondo_kernel_backward_t *args;
    const rondo_tile_t *tile;
    struct space w;
    int64_t b, panel_first;
    int panel_count;
    struct ri_poll *poll;
    int thread;
};

/* c[rows][64] = a[rows][dim] times a panel's transposed block: scores, and what reaches them. */
static void times_keys(const struct ri_flash_ops *ops, float *c, const float *a, int a_row,
                       const float *b, int rows, int dim)
{
    const struct ri_flash_gemm g = {.a = a,
                                    .a_row = a_row,
                                    .b = b,
                                    .b_row = RI_FLASH_KEYS,
                                    .c = c,
                                    .c_row = RI_FLASH_KEYS,
                                    .rows = rows,
                                    .cols = RI_FLASH_KEYS,
                                    .depth = dim,
                                    .lo = -rows,
                                    .hi = dim};

    ops->gemm(&g);
}

/* c[keys][row] += a[queries][64] transposed times b[queries][row], over the queries that see the
 * key. */
static void add_to_keys(const struct ri_flash_ops *ops, float *c, const float *a, const float *b,
                        int row, int keys, const struct ri_flash_band *band)
{
    const struct ri_flash_gemm g = {.a = a,
                                    .b = b,
                                    .b_row = row,
                                    .c = c,
                                    .c_row = row,
                                    .rows = keys,
                                    .cols = row,
                                    .depth = band->end - band->first,
                                    .lo = band->lo - band->first,
                                    .hi = band->hi - band->first,
                                    .add = 1};

    ops->gemm(&g);
}

/* dq[rows][k_row] += ds[rows][64] times k[keys][k_row], over the keys that the query sees. */
static void add_to_queries(const struct place *at, const float *ds, int key, int keys,
                           const struct ri_flash_band *band)
{
    const struct space *w = &at->w;
    const struct ri_flash_gemm g = {.a = ds,
                                    .a_row = RI_FLASH_KEYS,
                                    .b = w->k + (int64_t)key * w->k_row,
                                    .b_row = w->k_row,
                                    .c = w->dq + (int64_t)band->first * w->k_row,
                                    .c_row = w->k_row,
                                    .rows = band->end - band->first,
                                    .cols = w->k_row,
                                    .depth = keys,
                                    .lo = band->first - band->hi,
                                    .hi = band->first - band->lo,
                                    .add = 1};

    at->ops->gemm(&g);
}

/* What p and ds hold outside the band is never read, so nothing is masked. */
static void add_block(const struct place *at, int64_t first, int h, int key, int keys,
                      const struct ri_flash_band *band)
{
    const struct ri_flash_ops *ops = at->ops;
    const rondo_kernel_shape_t *shape = at->args->shape;
    const struct space *w = &at->w;
    int r = band->first, rows = band->end - r;
    const float *q = w->q + (int64_t)r * w->k_row, *d_o = w->d_o + (int64_t)r * w->v_row;
    float *p = w->p, *ds = w->ds;
    struct ri_flash_drop drop;
    struct ri_flash_gradients gradients = {.p = p,
                                           .dp = ds,
                                           .lse = w->lse + r,
                                           .delta = w->delta + r,
                                           .rows = rows,
                                           .cap = ri_flash_cap(shape)};

    if (shape->dropout != 0) {
        drop = ri_flash_drop(shape, at->args->seed, at->b, h, at->tile, first + r, at->panel_first + key);
        gradients.drop = &drop;
    }
    times_keys(ops, p, q, w->k_row, w->kt + (int64_t)key * shape->qk_dim, rows, shape->qk_dim);
    times_keys(ops, ds, d_o, w->v_row, w->vt + (int64_t)key * shape->v_dim, rows, shape->v_dim);
    ops->gradients(&gradients);
    add_to_keys(ops, w->dv + (int64_t)key * w->v_row, p, d_o, w->v_row, keys, band);
    add_to_keys(ops, w->dk + (int64_t)key * w->k_row, ds, q, w->k_row, keys, band);
    add_to_queries(at, ds, key, keys, band);
}

static void load_queries(const struct place *at, int64_t query, int rows, int h)
{
    const rondo_kernel_backward_t *a = at->args;
    const rondo_kernel_shape_t *shape = a->shape;
    const struct space *w = &at->w;

    ri_flash_load_rows(at->ops, w->q, w->k_row,
                       ri_flash_source(&a->q, shape->dtype, at->b, query, h), rows, shape->qk_dim,
                       ri_flash_q_factor(shape));
    ri_flash_load_rows(at->ops, w->d_o, w->v_row,
                       ri_flash_source(&a->d_o, shape->dtype, at->b, query, h), rows, shape->v_dim,
                       ri_flash_kept(shape));
    memset(w->dq, 0, (size_t)rows * (size_t)w->k_row * sizeof *w->dq);
    for (int i = 0; i < rows; i++) {
        float lse = *ri_tensor_row(&a->lse, at->b, query + i, h);

        w->delta[i] = *ri_tensor_row(&a->delta, at->b, query + i, h);
        w->lse[i] = lse == -INFINITY ? INFINITY : (float)(lse * M_LOG2E);
        if (lse == -INFINITY) {
            memset(w->q + (int64_t)i * w->k_row, 0, (size_t)w->k_row * sizeof *w->q);
            memset(w->d_o + (int64_t)i * w->v_row, 0, (size_t)w->v_row * sizeof *w->d_o);
        }
    }
}

/* Queries first <= i < first + rows of the tile, head h, over the panel. */
static void run_queries(const struct place *at, int64_t first, int rows, int h)
{
    const rondo_kernel_backward_t *a = at->args;
    const struct space *w = &at->w;
    int64_t query = at->tile->q_first + first;

    load_queries(at, query, rows, h);
    for (int key = 0; key < at->panel_count; key += RI_FLASH_KEYS) {
        int keys = ri_flash_min(RI_FLASH_KEYS, at->panel_count - key);
        struct ri_flash_band band =
            ri_flash_band(at->tile, first, rows, at->panel_first + key, keys);

        if (band.first < band.end)
            add_block(at, first, h, key, keys, &band);
    }
    for (int i = 0; i < rows; i++)
        if (w->lse[i] != INFINITY)
            at->ops->add_rows(ri_tensor_row(&a->dq, at->b, query + i, h), 0,
                              w->dq + (int64_t)i * w->k_row, 0, 1, a->shape->qk_dim,
                              a->shape->scale);
}

static void load_panel(const struct place *at, int64_t key, int kv_head)
{
    const rondo_kernel_backward_t *a = at->args;
    const rondo_kernel_shape_t *shape = a->shape;
    const struct space *w = &at->w;
    struct ri_flash_source k = ri_flash_source(&a->k, shape->dtype, at->b, key, kv_head);
    size_t count = (size_t)at->panel_count;

    ri_flash_transpose(w->kt, k, at->panel_count, shape->qk_dim, w->strip);
    ri_flash_transpose(w->vt, ri_flash_source(&a->v, shape->dtype, at->b, key, kv_head),
                       at->panel_count, shape->v_dim, w->strip);
    ri_flash_load_rows(at->ops, w->k, w->k_row, k, at->panel_count, shape->qk_dim, 1);
    memset(w->dk, 0, count * (size_t)w->k_row * sizeof *w->dk);
    memset(w->dv, 0, count * (size_t)w->v_row * sizeof *w->dv);
}

static void run_panel(const struct place *at, int kv_head)
{
    const rondo_kernel_backward_t *a = at->args;
    const rondo_kernel_shape_t *shape = a->shape;
    int64_t key = at->tile->k_first + at->panel_first;
    int group = shape->q_heads / shape->kv_heads;

    load_panel(at, key, kv_head);
    for (int h = kv_head * group; h < (kv_head + 1) * group; h++)
        for (int64_t i = 0; i < at->tile->q_count; i += RI_FLASH_QUERIES) {
            int rows = ri_flash_min(RI_FLASH_QUERIES, at->tile->q_count - i);

            if (ri_tile_sees(at->tile, i, rows, at->panel_first, at->panel_count) && !ri_poll(at->poll, at->thread))
                run_queries(at, i, rows, h);
        }
    at->ops->add_rows(ri_tensor_row(&a->dk, at->b, key, kv_head), a->dk.token_stride, at->w.dk,
                      at->w.k_row, at->panel_count, shape->qk_dim, (float)M_LN2);
    at->ops->add_rows(ri_tensor_row(&a->dv, at->b, key, kv_head), a->dv.token_stride, at->w.dv,
                      at->w.v_row, at->panel_count, shape->v_dim, 1);
}

struct job {
    const struct ri_flash_ops *ops;
    const rondo_kernel_backward_t *args;
    struct ri_poll poll;
};

static void run_task(void *argument, int index, int thread)
{
    struct job *job = argument;
    const rondo_kernel_shape_t *shape = job->args->shape;
    struct place at = {.ops = job->ops, .args = job->args, .b = index / shape->kv_heads,
                       .poll = &job->poll,
                       .thread = thread};
    int panel = panel_keys(shape);

    lay_out(&at.w, (float *)job->args->workspace + (size_t)thread * ri_flash_backward_floats(shape), shape);
    for (int t = 0; t < job->args->tile_count; t++) {
        at.tile = &job->args->tiles[t];
        for (at.panel_first = 0; at.panel_first < at.tile->k_count; at.panel_first += panel) {
            at.panel_count = ri_flash_min(panel, at.tile->k_count - at.panel_first);
            if (ri_tile_sees(at.tile, 0, at.tile->q_count, at.panel_first, at.panel_count) &&
                !ri_poll(at.poll, thread))
                run_panel(&at, index % shape->kv_heads);
        }
    }
}

int ri_flash_backward(const struct ri_flash_ops *ops, const rondo_kernel_backward_t *args)
{
    struct job job = {.ops = ops, .args = args, .poll = {.poll = args->poll, .poller = args->poller}};
    int err = ri_flash_refuse(args->shape, args->workspace);

    if (!err)
        err = ri_tasks_run(args->shape, run_task, &job);
    return err ? err : job.poll.stopped;
}
