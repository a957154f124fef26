/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_BALANCE_H
#define RI_BALANCE_H

#include "layout/layout.h"
#include "layout/mask.h"

/* Of a BALANCED layout: chunk c is the positions from c * chunk_tokens on, the last may be short, and lies
 * with rank[c].  Chunks are given away by the pairs that their queries see, the most first, each to the rank
 * with least pairs of those that have room: no rank has more than ceil(chunks / ranks) chunks.  Ties go to the
 * chunk that comes first, and to the lowest rank.  Dealing n of them takes n log n steps, whatever the ranks. */
struct ri_balance {
    struct ri_mask mask;
    int64_t asked_tokens;         /* of a chunk; 0: chosen anew for each batch */
    int64_t chunk_tokens, chunks; /* of the batch */
    int64_t room;                 /* the most chunks at any batch */
    int *rank;                    /* [room] */
    int64_t *first, *next;        /* [ranks], [room]: a rank's chunks as they ascend; -1 ends them */
    /* While chunks are dealt: the pairs of each, and a heap of them, [room]; and of ranks, minus their pairs, their
     * chunks, and a heap of those that have room, [ranks]. */
    int64_t *work, *heaviest;
    int64_t *spare, *held, *lightest;
    struct ri_area *areas;        /* [area_room] */
    int64_t area_room;
};

int ri_balance_create(const rondo_layout_desc_t *desc, struct ri_balance **balance);
int ri_balance_copy(const struct ri_balance *balance, int ranks, struct ri_balance **copy);
void ri_balance_destroy(struct ri_balance *balance);
size_t ri_balance_bytes(const struct ri_balance *balance, int ranks);

/* Fills chunks, rank, first and next by the layout's tokens and documents. */
void ri_balance_deal(struct ri_balance *balance, const struct rondo_layout *layout);

/* The most chunks of a rank, and the most tokens, at any batch of up to so many tokens. */
int64_t ri_balance_most_chunks(const struct ri_balance *balance, int ranks);
int64_t ri_balance_most_tokens(const struct ri_balance *balance, int64_t tokens, int ranks);
/* Of the batch's chunks, whatever the mask says of others; and of what they are dealt by, whatever the batch. */
uint64_t ri_balance_hash(const struct ri_balance *balance);
uint64_t ri_balance_desc_hash(const struct ri_balance *balance);
/* RONDO_ERR_ARGUMENT, of a mask that holds for the whole sequence. */
int ri_balance_refuse_documents(const struct ri_mask *mask);

#endif
