/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_LAYOUT_H
#define RI_LAYOUT_H

#include <rondo/kernel.h>
#include <rondo/layout.h>

/* A bijection between global positions and (rank, index).  Plain data: copy it freely. */
struct rondo_layout {
    rondo_layout_kind_t kind;
    int64_t tokens;
    int ranks;
};

/* Local indices [index, index + count) of a shard: index + i is at position start + i * step. */
struct ri_token_run {
    int64_t index, count;
    int64_t start, step;
};

enum { RI_LAYOUT_RUNS_MAX = 2 };

int64_t ri_layout_tokens(const struct rondo_layout *layout, int rank);
/* Tokens of the longest shard. */
int64_t ri_layout_largest(const struct rondo_layout *layout);
int64_t ri_layout_position(const struct rondo_layout *layout, int rank, int64_t index);
void ri_layout_owner(const struct rondo_layout *layout, int64_t position, int *rank,
                     int64_t *index);

/* The shard as ascending runs, none empty, as few as affine positions allow; returns how many.
 * Every run of a layout has the same step. */
int ri_layout_runs(const struct rondo_layout *layout, int rank,
                   struct ri_token_run runs[RI_LAYOUT_RUNS_MAX]);
/* The most runs that any shard of a layout of this kind has. */
int ri_layout_most_runs(const struct rondo_layout *layout);

enum { RI_LAYOUT_TILES_MAX = RI_LAYOUT_RUNS_MAX * RI_LAYOUT_RUNS_MAX };

/* Tiles of a block pair: the queries of shard q_rank against the keys of shard k_rank.  Writes at
 * most max tiles (tiles may be NULL with max 0) and returns how many there are, no more than
 * RI_LAYOUT_TILES_MAX; no tile is empty, no pair is in two.  Order: ascending queries, then keys.
 * A tile never spans two runs, so that its affine positions are true: zigzag has a tile for each
 * pair of pieces that has something to see, the other layouts one at most. */
int ri_layout_tiles(const struct rondo_layout *layout, rondo_mask_t mask, int q_rank, int k_rank,
                    rondo_tile_t *tiles, int max);

/* Visible pairs of one tile, by formula; counts up to INT32_MAX do not overflow. */
int64_t ri_tile_pairs(const rondo_tile_t *tile);

/* Cuts off queries [first, first + count) of a tile, which must lie inside it; band, positions and
 * kind follow.  Returns 0 when the piece sees nothing (out is then untouched), else 1.  Keys no
 * query of the piece sees are trimmed, so that a piece of a causal tile is no larger than it must
 * be; queries are not, even those that see no key.  out may be the tile itself. */
int ri_tile_queries(const rondo_tile_t *tile, int64_t first, int64_t count, rondo_tile_t *out);

/* The same with keys [first, first + count): here queries that see no key of the piece are trimmed,
 * and keys are not. */
int ri_tile_keys(const rondo_tile_t *tile, int64_t first, int64_t count, rondo_tile_t *out);

#endif
