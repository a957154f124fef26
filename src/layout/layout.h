/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_LAYOUT_H
#define RI_LAYOUT_H

#include <rondo/kernel.h>
#include <rondo/layout.h>

/* Local indices [index, index + count) of a shard: index + i is at position start + i * step. */
struct ri_token_run {
    int64_t index, count;
    int64_t start, step;
};

/* A bijection between global positions and (rank, index).  Owned by whoever made it. */
struct rondo_layout {
    rondo_layout_kind_t kind;
    rondo_deal_t deal;
    int64_t tokens;
    int ranks;
    int documents, max_documents; /* documents is 0: one, not packed */
    int64_t *cu_seqlens, *lengths; /* [max_documents + 1], [max_documents]; NULL when that is 0 */
    int64_t most_tokens;           /* that may be fitted: those it was made with */
    int64_t step;                  /* of every run */
    struct ri_token_run *runs;     /* [run_room] of rank r: runs[first_run[r]] .. runs[first_run[r + 1] - 1] */
    size_t *first_run;             /* [ranks + 1] */
    size_t run_room;
    struct ri_balance *balance;    /* of BALANCED, else NULL */
    uint64_t hash;
};

/* Runs of every rank are kept, so there is a limit that no machine reaches. */
enum { RI_LAYOUT_RANKS_MAX = 1 << 20 };

/* ---- making one (deal.c, check.c) ---- */

/* Checks the description and deals out. */
int ri_layout_make(const rondo_layout_desc_t *desc, struct rondo_layout **layout);
/* With the same capacities. */
int ri_layout_copy(const struct rondo_layout *layout, struct rondo_layout **copy);
/* Deals out another batch in the memory that the layout has: no more tokens than it was made with, no more
 * documents than max_documents.  Allocates nothing.  After a failure the layout is as it was.  cu_seqlens
 * NULL: not packed.  lengths NULL: no padding. */
int ri_layout_fit(struct rondo_layout *layout, int64_t tokens, const int64_t *cu_seqlens, int documents,
                  const int64_t *lengths);
void ri_layout_free(struct rondo_layout *layout);
/* Memory that it has. */
size_t ri_layout_bytes(const struct rondo_layout *layout);

int ri_layout_check_desc(const rondo_layout_desc_t *desc);
int ri_layout_check_documents(int64_t tokens, const int64_t *cu_seqlens, int documents, const int64_t *lengths);

/* ---- what it says ---- */

/* A document, or the whole sequence where none are packed: positions [first, first + slots), of which the
 * first length are tokens. */
struct ri_document {
    int64_t first, length, slots;
};

/* 1 or more. */
int ri_layout_documents(const struct rondo_layout *layout);
struct ri_document ri_layout_document(const struct rondo_layout *layout, int document);
/* Which document a position lies in. */
int ri_layout_document_of(const struct rondo_layout *layout, int64_t position);
/* Whether a position is a token, and not padding. */
int ri_layout_is_token(const struct rondo_layout *layout, int64_t position);

/* The shard as runs that ascend in index and in position, none empty, as few as affine positions allow;
 * padding is part of them.  Valid until the layout is fitted or freed. */
const struct ri_token_run *ri_layout_runs(const struct rondo_layout *layout, int rank, int *count);
/* The most runs that any shard has, at any batch that may be fitted; and within one of its documents. */
int64_t ri_layout_most_runs(const struct rondo_layout *layout);
int ri_layout_document_runs(const struct rondo_layout *layout);

int64_t ri_layout_tokens(const struct rondo_layout *layout, int rank);
/* Tokens of the longest shard, now; and the most at any batch that may be fitted, which can be more: documents
 * that do not divide, dealt out each by itself, give their odd tokens to the first ranks. */
int64_t ri_layout_largest(const struct rondo_layout *layout);
int64_t ri_layout_most_largest(const struct rondo_layout *layout);
int64_t ri_layout_position(const struct rondo_layout *layout, int rank, int64_t index);
void ri_layout_owner(const struct rondo_layout *layout, int64_t position, int *rank, int64_t *index);
/* Of who holds what of the batch, and of its documents: equal for the same batch, fitted or made for it. */
uint64_t ri_layout_hash(const struct rondo_layout *layout);
/* Of that, and of all that says how other batches are dealt out, and which there may be. */
uint64_t ri_layout_desc_hash(const struct rondo_layout *layout);

/* ---- how one sequence is dealt out (maps.c) ---- */

struct ri_map {
    /* The rank's share of tokens in at most `most_runs` runs, of which some may be empty; index is not set.
     * Returns how many were written. */
    int (*runs)(int64_t tokens, int ranks, int rank, struct ri_token_run *runs);
    int (*rank)(int64_t tokens, int ranks, int64_t position);
    int most_runs;
};

/* NULL: the layout's kind is dealt out by its balance. */
const struct ri_map *ri_layout_map(rondo_layout_kind_t kind);

/* ---- tiles (tiles.c) ---- */

/* Visible pairs of one tile, by formula; counts up to INT32_MAX do not overflow. */
int64_t ri_tile_pairs(const rondo_tile_t *tile);

/* Trims queries and keys that see nothing, makes lo and hi no wider than they need be, and says the kind.
 * Returns 0 when nothing is left (the tile is then undefined), else 1. */
int ri_tile_trim(rondo_tile_t *tile);

/* Cuts off queries [first, first + count) of a tile, which must lie inside it; band, positions and
 * kind follow.  Returns 0 when the piece sees nothing (out is then untouched), else 1.  Keys no
 * query of the piece sees are trimmed, so that a piece of a causal tile is no larger than it must
 * be; queries are not, even those that see no key.  out may be the tile itself. */
int ri_tile_queries(const rondo_tile_t *tile, int64_t first, int64_t count, rondo_tile_t *out);

/* The same with keys [first, first + count): here queries that see no key of the piece are trimmed,
 * and keys are not. */
int ri_tile_keys(const rondo_tile_t *tile, int64_t first, int64_t count, rondo_tile_t *out);

#endif
