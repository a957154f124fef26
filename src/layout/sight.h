/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SIGHT_H
#define RI_SIGHT_H

#include "layout/layout.h"
#include "layout/mask.h"

/* Who sees whom: the queries of one layout, the keys of another (or the same), and a mask. */
struct ri_sight {
    const struct rondo_layout *q, *k; /* borrowed */
    struct ri_mask mask;
    struct ri_area *areas;            /* [room], of which `count` are those of the batch */
    int64_t count, room;
    int64_t of_query, of_key;         /* the most areas that one query, one key may be in */
    int64_t of_pair;                  /* the most areas, bands aside, that a query and a key may be in together */
};

/* Layouts must outlive the sight, and hold the most tokens that they may be fitted to: blocks and ranges of the
 * mask are of those.  Room for every batch that they may be fitted to. */
int ri_sight_init(struct ri_sight *sight, const struct rondo_layout *q, const struct rondo_layout *k,
                  rondo_mask_t mask, const rondo_mask_params_t *params);
/* After a layout was fitted to another batch; allocates nothing. */
int ri_sight_fit(struct ri_sight *sight);
void ri_sight_release(struct ri_sight *sight);
/* What it has beside itself; layouts are not its own. */
size_t ri_sight_bytes(const struct ri_sight *sight);

/* Tiles of a block pair: the queries of shard q_rank against the keys of shard k_rank.  Writes at most max
 * (tiles may be NULL with max 0) and returns how many there are.  None is empty, no pair is in two, and no
 * tile spans two runs, so that its affine positions are true; its first and last query see a key, and its
 * first and last key are seen.  Order: by area, then ascending queries, then keys. */
int64_t ri_sight_tiles(const struct ri_sight *sight, int q_rank, int k_rank, rondo_tile_t *tiles, int64_t max);
/* Pairs of a block pair, and of a rank's queries with all keys. */
int64_t ri_sight_pairs(const struct ri_sight *sight, int q_rank, int k_rank);
int64_t ri_sight_query_pairs(const struct ri_sight *sight, int q_rank);

/* Over all pairs of ranks and everything that may be fitted: at least the most tiles of a block pair, and the
 * most of them that one query, one key, and a query and a key together, whether it sees it or not, may be in. */
struct ri_sight_bound {
    int64_t tiles, of_query, of_key, of_pair;
};
struct ri_sight_bound ri_sight_bound(const struct ri_sight *sight);

#endif
