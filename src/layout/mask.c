/* SPDX-License-Identifier: Apache-2.0 */
/* Masks: what is asked, and who sees whom by definition. */
#include "layout/mask.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/minmax.h"
#include "base/status.h"
#include "layout/layout.h"

static const char *const names[] = {
    [RONDO_MASK_FULL] = "full",     [RONDO_MASK_CAUSAL] = "causal", [RONDO_MASK_STRICT] = "strict",
    [RONDO_MASK_WINDOW] = "window", [RONDO_MASK_PREFIX] = "prefix", [RONDO_MASK_BLOCKS] = "blocks",
    [RONDO_MASK_RANGES] = "ranges",
};

enum { NAME_COUNT = sizeof(names) / sizeof(names[0]) };

const char *ri_mask_name(rondo_mask_t kind)
{
    return (unsigned)kind < NAME_COUNT ? names[kind] : "unknown";
}

int ri_mask_takes_documents(const struct ri_mask *mask)
{
    return mask->kind != RONDO_MASK_BLOCKS && mask->kind != RONDO_MASK_RANGES;
}

/* ---- making one ---- */

static int set_window(struct ri_mask *mask, const rondo_mask_params_t *params)
{
    if (params->left < -1 || params->right < -1)
        return ri_error(RONDO_ERR_ARGUMENT, "the mask's %s is %" PRId64 ": it must be -1 (without end) or more",
                        params->left < -1 ? "left" : "right", params->left < -1 ? params->left : params->right);
    mask->left = params->left;
    mask->right = params->right;
    return 0;
}

static int set_prefix(struct ri_mask *mask, const rondo_mask_params_t *params)
{
    if (params->prefix < 0)
        return ri_error(RONDO_ERR_ARGUMENT, "the mask's prefix is %" PRId64 ": it must be 0 or more",
                        params->prefix);
    mask->prefix = params->prefix;
    return 0;
}

static int set_blocks(struct ri_mask *mask, const rondo_mask_params_t *params, int64_t q_tokens, int64_t k_tokens)
{
    int64_t side = params->block_tokens;
    size_t bytes;

    if (side < 1)
        return ri_error(RONDO_ERR_ARGUMENT, "the mask's block_tokens is %" PRId64 ": it must be positive", side);
    if (!params->blocks)
        return ri_error(RONDO_ERR_ARGUMENT, "the mask's blocks is NULL: mask blocks needs a bitmap");
    mask->block_tokens = side;
    mask->block_rows = q_tokens / side + (q_tokens % side > 0);
    mask->block_cols = k_tokens / side + (k_tokens % side > 0);
    if (__builtin_mul_overflow((size_t)mask->block_rows, (size_t)mask->block_cols, &bytes) || bytes > SIZE_MAX / 128)
        return ri_error(RONDO_ERR_ARGUMENT, "the mask's block_tokens is %" PRId64 ": %" PRId64 " x %" PRId64
                        " blocks are too many", side, mask->block_rows, mask->block_cols);
    mask->blocks = malloc(bytes);
    if (!mask->blocks)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %zu blocks of a mask", bytes);
    memcpy(mask->blocks, params->blocks, bytes);
    return 0;
}

static int check_params(rondo_mask_t kind, const rondo_mask_params_t *params)
{
    if ((unsigned)kind >= NAME_COUNT)
        return ri_error(RONDO_ERR_ARGUMENT, "mask is %d: there is no such mask", (int)kind);
    if (!params && kind >= RONDO_MASK_WINDOW)
        return ri_error(RONDO_ERR_ARGUMENT, "the mask's params are NULL: mask %s needs them", names[kind]);
    if (params && params->struct_bytes != sizeof(*params))
        return ri_error(RONDO_ERR_ARGUMENT, "the mask's struct_bytes is %zu, not %zu: start from "
                        "RONDO_MASK_PARAMS_INIT", params->struct_bytes, sizeof(*params));
    return 0;
}

int ri_mask_init(struct ri_mask *mask, rondo_mask_t kind, const rondo_mask_params_t *params, int64_t q_tokens,
                 int64_t k_tokens)
{
    int err = check_params(kind, params);

    *mask = (struct ri_mask){ .kind = kind };
    if (err)
        return err;
    if (params && kind != RONDO_MASK_FULL && ri_mask_takes_documents(mask))
        mask->align_ends = params->align_ends != 0;
    if (kind == RONDO_MASK_WINDOW)
        err = set_window(mask, params);
    else if (kind == RONDO_MASK_PREFIX)
        err = set_prefix(mask, params);
    else if (kind == RONDO_MASK_BLOCKS)
        err = set_blocks(mask, params, q_tokens, k_tokens);
    else if (kind == RONDO_MASK_RANGES)
        err = ri_mask_add_ranges(mask, params, q_tokens, k_tokens);
    if (err) {
        ri_mask_release(mask);
        *mask = (struct ri_mask){ .kind = RONDO_MASK_FULL };
    }
    return err;
}

/* NULL for nothing, which *err does not call a failure. */
static void *duplicate(const void *from, size_t bytes, int *err)
{
    void *copy = bytes ? malloc(bytes) : NULL;

    if (copy)
        memcpy(copy, from, bytes);
    else if (bytes)
        *err = ri_error(RONDO_ERR_MEMORY, "out of memory for a mask of %zu bytes", bytes);
    return copy;
}

int ri_mask_copy(const struct ri_mask *mask, struct ri_mask *copy)
{
    int err = 0;

    *copy = *mask;
    copy->blocks = duplicate(mask->blocks, (size_t)mask->block_rows * (size_t)mask->block_cols, &err);
    copy->ranges = duplicate(mask->ranges, (size_t)mask->range_count * sizeof(*mask->ranges), &err);
    copy->range_areas = duplicate(mask->range_areas, (size_t)mask->range_area_count * sizeof(*mask->range_areas),
                                  &err);
    if (err)
        ri_mask_release(copy);
    return err;
}

void ri_mask_release(struct ri_mask *mask)
{
    free(mask->blocks);
    free(mask->ranges);
    free(mask->range_areas);
    mask->blocks = NULL;
    mask->ranges = NULL;
    mask->range_areas = NULL;
}

size_t ri_mask_bytes(const struct ri_mask *mask)
{
    return (size_t)mask->block_rows * (size_t)mask->block_cols +
           (size_t)mask->range_count * sizeof(*mask->ranges) +
           (size_t)mask->range_area_count * sizeof(*mask->range_areas);
}

uint64_t ri_mask_hash(const struct ri_mask *mask)
{
    uint64_t hash = ri_mix(ri_mix(ri_mix(0, mask->kind), mask->left), mask->right);

    hash = ri_mix(ri_mix(ri_mix(hash, mask->prefix), mask->align_ends), mask->block_tokens);
    for (int64_t i = 0; i < mask->block_rows * mask->block_cols; i++)
        hash = ri_mix(hash, mask->blocks[i] != 0);
    for (int i = 0; i < mask->range_count; i++) {
        const rondo_range_t *range = &mask->ranges[i];
        int band = range->kind == RONDO_RANGE_BAND;

        hash = ri_mix(ri_mix(hash, range->q_first), range->q_count);
        hash = ri_mix(ri_mix(hash, range->k_first), range->k_count);
        hash = ri_mix(ri_mix(ri_mix(hash, range->kind), band ? range->lo : 0), band ? range->hi : 0);
    }
    return hash;
}

/* ---- the definition ---- */

/* Both counted from the range's first. */
static int range_sees(const rondo_range_t *range, int64_t i, int64_t j)
{
    if (i < 0 || i >= range->q_count || j < 0 || j >= range->k_count)
        return 0;
    switch (range->kind) {
    case RONDO_RANGE_FULL:
        return 1;
    case RONDO_RANGE_CAUSAL:
        return range->k_count - j >= range->q_count - i;
    case RONDO_RANGE_INVERSE:
        return j >= i;
    case RONDO_RANGE_BICAUSAL:
        return j >= i && range->k_count - j >= range->q_count - i;
    case RONDO_RANGE_BAND:
        return range->lo <= i - j && i - j <= range->hi;
    }
    return 0;
}

static int ranges_see(const struct ri_mask *mask, int64_t query, int64_t key)
{
    for (int r = 0; r < mask->range_count; r++)
        if (range_sees(&mask->ranges[r], query - mask->ranges[r].q_first, key - mask->ranges[r].k_first))
            return 1;
    return 0;
}

/* Both counted from the first token of their document, or so that the last ones are the same. */
static int sees_within(const struct ri_mask *mask, int64_t query, int64_t key, int64_t key_index)
{
    switch (mask->kind) {
    case RONDO_MASK_CAUSAL:
        return key <= query;
    case RONDO_MASK_STRICT:
        return key < query;
    case RONDO_MASK_WINDOW:
        return (mask->left < 0 || query - key <= mask->left) && (mask->right < 0 || key - query <= mask->right);
    case RONDO_MASK_PREFIX:
        return key <= query || key_index < mask->prefix;
    default:
        return 1;
    }
}

int ri_mask_sees(const struct ri_mask *mask, const struct rondo_layout *q, const struct rondo_layout *k,
                 int64_t query, int64_t key)
{
    int document = ri_layout_document_of(q, query);
    struct ri_document q_document = ri_layout_document(q, document);
    struct ri_document k_document = ri_layout_document(k, document);
    int64_t i = query - q_document.first, j = key - k_document.first, shift = 0;

    if (mask->kind == RONDO_MASK_BLOCKS)
        return mask->blocks[query / mask->block_tokens * mask->block_cols + key / mask->block_tokens] != 0;
    if (mask->kind == RONDO_MASK_RANGES)
        return ranges_see(mask, query, key);
    if (ri_layout_document_of(k, key) != document || i >= q_document.length || j >= k_document.length)
        return 0;
    if (mask->align_ends)
        shift = k_document.length - q_document.length;
    return sees_within(mask, i + shift, j, j);
}
