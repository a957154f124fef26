/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_DEALT_H
#define TEST_DEALT_H

#include "layout/sight.h"

/* A layout of one document: freed at the end of its scope when it is declared DEALT. */
static inline struct rondo_layout *dealt(rondo_layout_kind_t kind, int64_t tokens, int ranks)
{
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    struct rondo_layout *layout = NULL;

    desc.kind = kind;
    desc.tokens = tokens;
    desc.ranks = ranks;
    assert_int_equal(ri_layout_make(&desc, &layout), 0);
    return layout;
}

static inline void dealt_free(struct rondo_layout **layout)
{
    ri_layout_free(*layout);
}

#define DEALT __attribute__((cleanup(dealt_free)))

/* Zigzag has two runs a shard, and so at most four tiles a pair of shards. */
enum { DEALT_TILES_MAX = 4 };

/* Tiles under a mask without parameters. */
static inline int dealt_tiles(const struct rondo_layout *layout, rondo_mask_t mask, int q_rank, int k_rank,
                              rondo_tile_t *tiles, int max)
{
    struct ri_sight sight;
    int count;

    assert_int_equal(ri_sight_init(&sight, layout, layout, mask, NULL), 0);
    count = (int)ri_sight_tiles(&sight, q_rank, k_rank, tiles, max);
    assert_true(count <= ri_sight_bound(&sight).tiles);
    ri_sight_release(&sight);
    return count;
}

#endif
