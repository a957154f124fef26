/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_KERNEL_CPU_TILE_H
#define RI_KERNEL_CPU_TILE_H

#include <rondo/kernel.h>

#include "kernels/convert.h"

/* Indices first <= i < end; empty where end <= first. */
struct ri_range {
    int64_t first, end;
};

/* A band edge without what lies outside the tile, so that no sum below can overflow. */
static inline int64_t ri_tile_edge(const rondo_tile_t *t, int64_t edge)
{
    if (edge < -t->k_count)
        return -t->k_count;
    return edge > t->q_count ? t->q_count : edge;
}

static inline struct ri_range ri_range_within(int64_t first, int64_t end, int64_t count)
{
    return (struct ri_range){first < 0 ? 0 : first, end > count ? count : end};
}

/* Keys of the tile that its query i sees: i - hi <= j <= i - lo. */
static inline struct ri_range ri_tile_keys(const rondo_tile_t *t, int64_t i)
{
    return ri_range_within(i - ri_tile_edge(t, t->hi), i - ri_tile_edge(t, t->lo) + 1, t->k_count);
}

/* Queries of the tile that see its key j: j + lo <= i <= j + hi. */
static inline struct ri_range ri_tile_rows(const rondo_tile_t *t, int64_t j)
{
    return ri_range_within(j + ri_tile_edge(t, t->lo), j + ri_tile_edge(t, t->hi) + 1, t->q_count);
}

/* Whether any of `queries` from query i on sees any of `keys` from key j on. */
static inline int ri_tile_sees(const rondo_tile_t *t, int64_t i, int64_t queries, int64_t j,
                               int64_t keys)
{
    return i + queries - 1 - j >= t->lo && i - (j + keys - 1) <= t->hi;
}

/* Where row (b, t, h) of a tensor of floats starts. */
static inline float *ri_tensor_row(const rondo_tensor_t *x, int64_t b, int64_t t, int64_t h)
{
    return (float *)x->data + b * x->batch_stride + t * x->token_stride + h * x->head_stride;
}

/* The same of a tensor whose elements are of `type`. */
static inline const void *ri_tensor_typed_row(const rondo_tensor_t *x, rondo_dtype_t type, int64_t b,
                                              int64_t t, int64_t h)
{
    int64_t element = b * x->batch_stride + t * x->token_stride + h * x->head_stride;

    return (const char *)x->data + element * (int64_t)ri_convert_bytes(type);
}

#endif
