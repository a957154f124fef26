/* SPDX-License-Identifier: Apache-2.0 */
/* The masks that rondo-masks(7) shows, and what they are by definition. */
#include "tests/unit/masks_shown.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const int64_t packed[] = {0, 5, 6, 12}, lengths[] = {4, 1, 5};
static const uint8_t bitmap[] = {1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1, 0, 1, 1};
static const rondo_range_t answers[] = {
    {0, 4, 0, 4, RONDO_RANGE_CAUSAL, 0, 0},
    {4, 4, 0, 8, RONDO_RANGE_CAUSAL, 0, 0},
    {8, 4, 0, 4, RONDO_RANGE_FULL, 0, 0},
    {8, 4, 8, 4, RONDO_RANGE_CAUSAL, 0, 0},
};
static const rondo_range_t kinds[] = {
    {0, 4, 0, 6, RONDO_RANGE_CAUSAL, 0, 0},  {0, 4, 6, 6, RONDO_RANGE_FULL, 0, 0},
    {4, 4, 0, 6, RONDO_RANGE_INVERSE, 0, 0}, {4, 4, 6, 6, RONDO_RANGE_BAND, -1, 1},
    {8, 4, 0, 6, RONDO_RANGE_BICAUSAL, 0, 0},
};

#define PACKED .cu_seqlens = packed, .documents = 3

const struct picture pictures[] = {
    {.name = "full", .columns = 3, .mask = RONDO_MASK_FULL},
    {.name = "causal", .columns = 4, .mask = RONDO_MASK_CAUSAL},
    {.name = "strict", .columns = 4, .mask = RONDO_MASK_STRICT},
    {.name = "window", .columns = 4, .mask = RONDO_MASK_WINDOW, .params = {.left = 2, .right = 0}},
    {.name = "window on both sides", .columns = 4, .mask = RONDO_MASK_WINDOW, .params = {.left = 1, .right = 2}},
    {.name = "prefix", .columns = 4, .mask = RONDO_MASK_PREFIX, .params = {.prefix = 4}},
    {.name = "blocks", .columns = 4, .mask = RONDO_MASK_BLOCKS, .params = {.block_tokens = 3, .blocks = bitmap}},
    {.name = "ranges", .columns = 4, .mask = RONDO_MASK_RANGES, .params = {.ranges = answers, .range_count = 4}},
    {.name = "kinds of ranges", .columns = 1, .mask = RONDO_MASK_RANGES,
     .params = {.ranges = kinds, .range_count = 5}},
    {.name = "documents", .columns = 4, .mask = RONDO_MASK_CAUSAL, PACKED},
    {.name = "documents, each dealt out", .columns = 3, .mask = RONDO_MASK_CAUSAL, PACKED,
     .deal = RONDO_DEAL_DOCUMENTS},
    {.name = "padding", .columns = 4, .mask = RONDO_MASK_CAUSAL, PACKED, .lengths = lengths},
    {.name = "starts aligned", .columns = 3, .mask = RONDO_MASK_CAUSAL, .queries = 8},
    {.name = "ends aligned", .columns = 3, .mask = RONDO_MASK_CAUSAL, .queries = 8, .params = {.align_ends = 1}},
};
const int picture_count = sizeof(pictures) / sizeof(pictures[0]);

static const int64_t long_packed[] = {0, 3500, 5500, 7000, 7800, 8192};
#define LONG_PACKED .mask = RONDO_MASK_CAUSAL, .cu_seqlens = long_packed, .documents = 5

const struct picture costs[] = {
    {.name = "full", .columns = 4, .mask = RONDO_MASK_FULL},
    {.name = "causal", .columns = 4, .mask = RONDO_MASK_CAUSAL},
    {.name = "window of 512", .columns = 4, .mask = RONDO_MASK_WINDOW, .params = {.left = 511, .right = 0}},
    {.name = "prefix 2048", .columns = 4, .mask = RONDO_MASK_PREFIX, .params = {.prefix = 2048}},
    {.name = "documents", .columns = 4, LONG_PACKED},
    {.name = "each dealt out", .columns = 3, LONG_PACKED, .deal = RONDO_DEAL_DOCUMENTS},
};
const int cost_count = sizeof(costs) / sizeof(costs[0]);

/* ---- who sees whom, from the definition ---- */

static int range_sees(const rondo_range_t *r, int64_t query, int64_t key)
{
    int64_t i = query - r->q_first, j = key - r->k_first, longer = r->q_count - r->k_count;

    if (i < 0 || i >= r->q_count || j < 0 || j >= r->k_count)
        return 0;
    switch (r->kind) {
    case RONDO_RANGE_CAUSAL: return i - j >= longer;
    case RONDO_RANGE_INVERSE: return i - j <= 0;
    case RONDO_RANGE_BICAUSAL: return i - j >= longer && i - j <= 0;
    case RONDO_RANGE_BAND: return r->lo <= i - j && i - j <= r->hi;
    default: return 1;
    }
}

static int mask_sees(const struct picture *p, int64_t query, int64_t key)
{
    const rondo_mask_params_t *params = &p->params;
    int64_t behind = query - key, side = params->block_tokens;

    if (params->align_ends)
        behind += SHOWN_TOKENS - p->queries;
    switch (p->mask) {
    case RONDO_MASK_CAUSAL: return behind >= 0;
    case RONDO_MASK_STRICT: return behind > 0;
    case RONDO_MASK_WINDOW: return behind <= params->left && -behind <= params->right;
    case RONDO_MASK_PREFIX: return behind >= 0 || key < params->prefix;
    case RONDO_MASK_BLOCKS: return params->blocks[query / side * (SHOWN_TOKENS / side) + key / side];
    case RONDO_MASK_RANGES:
        for (int n = 0; n < params->range_count; n++)
            if (range_sees(&params->ranges[n], query, key))
                return 1;
        return 0;
    default: return 1;
    }
}

int picture_sees(const struct picture *p, int64_t query, int64_t key)
{
    int64_t first, end;

    if (!p->documents)
        return mask_sees(p, query, key);
    for (int d = 0; d < p->documents; d++) {
        first = p->cu_seqlens[d];
        end = p->lengths ? first + p->lengths[d] : p->cu_seqlens[d + 1];
        if (first <= query && query < end && first <= key && key < end)
            return mask_sees(p, query - first, key - first);
    }
    return 0;
}

/* ---- as calls take them ---- */

rondo_mask_params_t picture_params(const struct picture *p)
{
    rondo_mask_params_t params = p->params;

    params.struct_bytes = sizeof(params);
    return params;
}

rondo_layout_t picture_layout(const struct picture *p, rondo_layout_kind_t kind, int64_t tokens, int ranks)
{
    rondo_mask_params_t params = picture_params(p);
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    rondo_layout_t layout;

    desc.kind = kind, desc.tokens = tokens, desc.ranks = ranks;
    desc.cu_seqlens = p->cu_seqlens, desc.documents = p->documents, desc.lengths = p->lengths;
    desc.deal = p->deal;
    if (kind == RONDO_LAYOUT_BALANCED)
        desc.mask = p->mask, desc.mask_params = &params;
    if (kind == RONDO_LAYOUT_BALANCED && tokens == SHOWN_TOKENS)
        desc.chunk_tokens = SHOWN_CHUNK;
    assert_int_equal(rondo_layout_create(&desc, &layout), 0);
    return layout;
}
