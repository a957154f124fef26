/* SPDX-License-Identifier: Apache-2.0 */
/* For every key/value head and panel of keys: pack the panel once, then run every block of queries
 * of every head that reads it over the panel with an online softmax, and fold the result into o and
 * lse. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/flash.h"
#include "kernels/cpu/tasks.h"

struct space {
    float *kt;              /* [panel/64][qk_dim][64] */
    float *v;               /* [panel][v_row] */
    float *q;               /* [96][qk_dim], times ri_flash_q_factor */
    float *s;               /* [96][64] */
    float *o;               /* [96][v_row] */
    float *top, *lse;       /* [96] */
    float *sum;             /* [96][16], a row's sum in parts */
    float *strip;           /* [16][qk_dim] */
    int v_row;
};

static int panel_keys(const rondo_kernel_shape_t *shape)
{
    return ri_flash_panel(shape, shape->qk_dim + ri_flash_padded(shape->v_dim));
}

static size_t lay_out(struct space *w, float *workspace, const rondo_kernel_shape_t *shape)
{
    size_t used = 0;
    int64_t panel = panel_keys(shape);

    w->v_row = (int)ri_flash_padded(shape->v_dim);
    w->kt = ri_flash_take(workspace, &used, panel * shape->qk_dim);
    w->v = ri_flash_take(workspace, &used, panel * w->v_row);
    w->q = ri_flash_take(workspace, &used, (int64_t)RI_FLASH_QUERIES * shape->qk_dim);
    w->s = ri_flash_take(workspace, &used, RI_FLASH_QUERIES * RI_FLASH_KEYS);
    w->o = ri_flash_take(workspace, &used, (int64_t)RI_FLASH_QUERIES * w->v_row);
    w->top = ri_flash_take(workspace, &used, RI_FLASH_QUERIES);
    w->sum = ri_flash_take(workspace, &used, RI_FLASH_QUERIES * RI_FLASH_PAD);
    w->lse = ri_flash_take(workspace, &used, RI_FLASH_QUERIES);
    w->strip = ri_flash_take(workspace, &used, (int64_t)RI_FLASH_STRIP * shape->qk_dim);
    return used;
}

size_t ri_flash_forward_floats(const rondo_kernel_shape_t *shape)
{
    struct space w;

    return lay_out(&w, NULL, shape);
}

/* Where we are: one call, one batch row, one tile, one panel of keys first <= j < first + count. */
struct place {
    const struct ri_flash_ops *ops;
    const rondo_kernel_forward_t *args;
    const rondo_tile_t *tile;
    struct space w;
    int64_t b, panel_first;
    int panel_count;
    struct ri_poll *poll;
    int thread;
};

static void hide_keys(float *s, const struct ri_flash_band *band, int keys)
{
    for (int i = band->first; i < band->end; i++) {
        int first = ri_flash_max(0, i - band->hi), end = ri_flash_min(keys, i - band->lo + 1);

        for (int j = 0; j < first; j++)
            s[i * RI_FLASH_KEYS + j] = -INFINITY;
        for (int j = end; j < RI_FLASH_KEYS; j++)
            s[i * RI_FLASH_KEYS + j] = -INFINITY;
    }
}

/* Every query that sees anything sees all keys of a full block. */
static int is_whole(const struct ri_flash_band *band, int keys)
{
    return keys == RI_FLASH_KEYS && band->first - (keys - 1) >= band->lo &&
           band->end - 1 <= band->hi;
}

/* Queries first + band->first to first + band->end of the tile, which lie in w.q, against keys from `key` of
 * the panel on. */
static void add_block(const struct place *at, int64_t first, int h, int key, int keys,
                      const struct ri_flash_band *band)
{
    const rondo_kernel_shape_t *shape = at->args->shape;
    const struct space *w = &at->w;
    int r = band->first, rows = band->end - r;
    struct ri_flash_gemm scores = {.a = w->q + (int64_t)r * shape->qk_dim,
                                   .a_row = shape->qk_dim,
                                   .b = w->kt + (int64_t)key * shape->qk_dim,
                                   .b_row = RI_FLASH_KEYS,
                                   .c = w->s + r * RI_FLASH_KEYS,
                                   .c_row = RI_FLASH_KEYS,
                                   .rows = rows,
                                   .cols = RI_FLASH_KEYS,
                                   .depth = shape->qk_dim,
                                   .lo = -rows,
                                   .hi = shape->qk_dim};
    struct ri_flash_gemm values = {.a = w->s + r * RI_FLASH_KEYS,
                                   .a_row = RI_FLASH_KEYS,
                                   .b = w->v + (int64_t)key * w->v_row,
                                   .b_row = w->v_row,
                                   .c = w->o + (int64_t)r * w->v_row,
                                   .c_row = w->v_row,
                                   .rows = rows,
                                   .cols = w->v_row,
                                   .depth = keys,
                                   .lo = r - band->hi,
                                   .hi = r - band->lo,
                                   .add = 1};

    at->ops->gemm(&scores);
    if (ri_flash_cap(shape) != 0)
        at->ops->cap(w->s + r * RI_FLASH_KEYS, ri_flash_cap(shape), rows);
    if (!is_whole(band, keys))
        hide_keys(w->s, band, keys);
    at->ops->softmax(w->s + r * RI_FLASH_KEYS, w->top + r, w->sum + r * RI_FLASH_PAD, w->o + (int64_t)r * w->v_row,
                     rows, w->v_row);
    if (shape->dropout != 0) {
        struct ri_flash_drop drop = ri_flash_drop(shape, at->args->seed, at->b, h, at->tile, first + r,
                                                  at->panel_first + key);

        at->ops->drop(w->s + r * RI_FLASH_KEYS, &drop, rows);
    }
    at->ops->gemm(&values);
}

/* From sums of weighted values to a normalised part, and into the caller's o and lse. */
static void fold_rows(const struct place *at, int64_t query, int rows, int h)
{
    const rondo_kernel_forward_t *a = at->args;
    const struct space *w = &at->w;

    for (int i = 0; i < rows; i++) {
        float *o = w->o + (int64_t)i * w->v_row;

        float sum = 0;

        for (int k = 0; k < RI_FLASH_PAD; k++)
            sum += w->sum[i * RI_FLASH_PAD + k];
        w->lse[i] = sum == 0 ? -INFINITY : (float)((w->top[i] + log2f(sum)) * M_LN2);
        if (sum != 0)
            at->ops->scale_rows(o, w->v_row, o, 0, 1, w->v_row, ri_flash_kept(a->shape) / sum);
    }
    ri_merge_lse(ri_tensor_row(&a->o, at->b, query, h), a->o.token_stride,
                 ri_tensor_row(&a->lse, at->b, query, h), a->lse.token_stride, w->o, w->v_row,
                 w->lse, 1, rows, a->shape->v_dim);
}

/* Queries first <= i < first + rows of the tile, head h, over the panel. */
static void run_queries(const struct place *at, int64_t first, int rows, int h)
{
    const rondo_kernel_forward_t *a = at->args;
    const rondo_kernel_shape_t *shape = a->shape;
    const struct space *w = &at->w;
    int64_t query = at->tile->q_first + first;

    ri_flash_load_rows(at->ops, w->q, shape->qk_dim,
                       ri_flash_source(&a->q, shape->dtype, at->b, query, h), rows, shape->qk_dim,
                       ri_flash_q_factor(shape));
    memset(w->o, 0, (size_t)rows * (size_t)w->v_row * sizeof *w->o);
    memset(w->sum, 0, (size_t)rows * RI_FLASH_PAD * sizeof *w->sum);
    for (int i = 0; i < rows; i++)
        w->top[i] = -INFINITY;
    for (int key = 0; key < at->panel_count; key += RI_FLASH_KEYS) {
        int keys = ri_flash_min(RI_FLASH_KEYS, at->panel_count - key);
        struct ri_flash_band band =
            ri_flash_band(at->tile, first, rows, at->panel_first + key, keys);

        if (band.first < band.end)
            add_block(at, first, h, key, keys, &band);
    }
    fold_rows(at, query, rows, h);
}

static void run_panel(const struct place *at, int kv_head)
{
    const rondo_kernel_forward_t *a = at->args;
    const rondo_kernel_shape_t *shape = a->shape;
    int64_t key = at->tile->k_first + at->panel_first;
    int group = shape->q_heads / shape->kv_heads;

    ri_flash_transpose(at->w.kt, ri_flash_source(&a->k, shape->dtype, at->b, key, kv_head),
                       at->panel_count, shape->qk_dim, at->w.strip);
    ri_flash_load_rows(at->ops, at->w.v, at->w.v_row,
                       ri_flash_source(&a->v, shape->dtype, at->b, key, kv_head), at->panel_count,
                       shape->v_dim, 1);
    for (int h = kv_head * group; h < (kv_head + 1) * group; h++)
        for (int64_t i = 0; i < at->tile->q_count; i += RI_FLASH_QUERIES) {
            int rows = ri_flash_min(RI_FLASH_QUERIES, at->tile->q_count - i);

            if (ri_tile_sees(at->tile, i, rows, at->panel_first, at->panel_count) && !ri_poll(at->poll, at->thread))
                run_queries(at, i, rows, h);
        }
}

struct job {
    const struct ri_flash_ops *ops;
    const rondo_kernel_forward_t *args;
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

    lay_out(&at.w, (float *)job->args->workspace + (size_t)thread * ri_flash_forward_floats(shape), shape);
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

int ri_flash_forward(const struct ri_flash_ops *ops, const rondo_kernel_forward_t *args)
{
    struct job job = {.ops = ops, .args = args, .poll = {.poll = args->poll, .poller = args->poller}};
    int err = ri_flash_refuse(args->shape, args->workspace);

    if (!err)
        err = ri_tasks_run(args->shape, run_task, &job);
    return err ? err : job.poll.stopped;
}
