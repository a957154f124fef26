/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_MASK_H
#define RI_MASK_H

#include <rondo/mask.h>

struct rondo_layout;

/* Queries [q_first, q_end) against keys [k_first, k_end), in global positions: query q sees key k iff both
 * are inside and lo <= q - k <= hi. */
struct ri_area {
    int64_t q_first, q_end, k_first, k_end, lo, hi;
};

/* Trims queries and keys that see nothing and makes lo and hi no wider than they need be; 0: nothing is left,
 * and the area is undefined. */
int ri_area_trim(struct ri_area *area);

/* Pairs that queries first, first + step, ... (count of them, all inside the area) see in it. */
int64_t ri_area_pairs(const struct ri_area *area, int64_t first, int64_t step, int64_t count);

/* A mask with all that it says, checked; fields that its kind does not read are 0.  Owns blocks and ranges. */
struct ri_mask {
    rondo_mask_t kind;
    int64_t left, right;       /* of a window; -1: without end */
    int64_t prefix;
    int64_t block_tokens, block_rows, block_cols; /* of the tokens that it was made for */
    uint8_t *blocks;           /* [block_rows][block_cols] */
    rondo_range_t *ranges;     /* [range_count] as given */
    int range_count;
    struct ri_area *range_areas; /* [range_area_count] those of the ranges that see something, in order */
    int64_t range_area_count;
    int align_ends;
};

/* "full", "causal", "strict", "window", "prefix", "blocks", "ranges", or "unknown". */
const char *ri_mask_name(rondo_mask_t kind);

/* Checks and copies; a refusal names the argument and its value.  params may be NULL where the kind has none. */
int ri_mask_init(struct ri_mask *mask, rondo_mask_t kind, const rondo_mask_params_t *params, int64_t q_tokens,
                 int64_t k_tokens);
int ri_mask_copy(const struct ri_mask *mask, struct ri_mask *copy);
void ri_mask_release(struct ri_mask *mask);
/* What it has beside itself. */
size_t ri_mask_bytes(const struct ri_mask *mask);
uint64_t ri_mask_hash(const struct ri_mask *mask);

/* Whether the query at one position sees the key at another: from the definition, pair by pair, and sharing
 * nothing with areas and tiles.  For oracles. */
int ri_mask_sees(const struct ri_mask *mask, const struct rondo_layout *q, const struct rondo_layout *k,
                 int64_t query, int64_t key);

/* Areas of the pairs that are seen: disjoint, none empty, trimmed, ascending by q_first, then k_first.  Writes
 * at most max and returns how many there are.  Depends on the tokens and documents of q and k alone, of which
 * both have as many. */
int64_t ri_mask_areas(const struct ri_mask *mask, const struct rondo_layout *q, const struct rondo_layout *k,
                      struct ri_area *areas, int64_t max);
/* The most areas at any batch that the layouts may be fitted to. */
int64_t ri_mask_most_areas(const struct ri_mask *mask, const struct rondo_layout *q,
                           const struct rondo_layout *k);
/* BLOCKS and RANGES hold for the whole sequence, all others within each document. */
int ri_mask_takes_documents(const struct ri_mask *mask);

/* ranges.c: the range_areas of a mask's ranges; refuses ranges that are outside or overlap. */
int ri_mask_add_ranges(struct ri_mask *mask, const rondo_mask_params_t *params, int64_t q_tokens, int64_t k_tokens);

#endif
