/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_DEAL_H
#define TEST_DEAL_H

#include <stdint.h>
#include <string.h>

#include <rondo/layout.h>

/* An independent definition of the layouts: positions are dealt one by one, as one deals cards. */
enum { DEAL_TOKENS_MAX = 64, DEAL_RANKS_MAX = 9 };

struct deal {
    int tokens, ranks;
    int count[DEAL_RANKS_MAX];                         /* tokens of each shard */
    int position[DEAL_RANKS_MAX][DEAL_TOKENS_MAX];     /* of (rank, index), ascending */
    int rank[DEAL_TOKENS_MAX], index[DEAL_TOKENS_MAX]; /* of a position */
};

/* Who holds piece `piece` of the layout's pieces. */
static inline int deal_rank_of_piece(rondo_layout_kind_t kind, int ranks, int piece)
{
    if (kind == RONDO_LAYOUT_ZIGZAG && piece >= ranks)
        return 2 * ranks - 1 - piece;
    return piece;
}

static inline struct deal deal(rondo_layout_kind_t kind, int tokens, int ranks)
{
    int pieces = kind == RONDO_LAYOUT_ZIGZAG ? 2 * ranks : ranks;
    int size[2 * DEAL_RANKS_MAX] = {0};
    struct deal d = {.tokens = tokens, .ranks = ranks};

    for (int t = 0; t < tokens; t++)
        size[t % pieces]++;
    for (int position = 0, piece = 0, left = size[0]; position < tokens; position++) {
        int rank = position % ranks;

        while (left == 0)
            left = size[++piece];
        left--;
        if (kind != RONDO_LAYOUT_STRIPED)
            rank = deal_rank_of_piece(kind, ranks, piece);
        d.rank[position] = rank;
        d.index[position] = d.count[rank];
        d.position[rank][d.count[rank]++] = position;
    }
    return d;
}

static const rondo_layout_kind_t all_layouts[] = {RONDO_LAYOUT_CONTIGUOUS, RONDO_LAYOUT_ZIGZAG,
                                                  RONDO_LAYOUT_STRIPED};
static const rondo_mask_t all_masks[] = {RONDO_MASK_FULL, RONDO_MASK_CAUSAL};

/* Calls `check` for every layout, token count and number of ranks that a deal can hold. */
static inline void deal_every_shape(void (*check)(rondo_layout_kind_t kind, int tokens, int ranks))
{
    for (int k = 0; k < 3; k++)
        for (int tokens = 1; tokens <= DEAL_TOKENS_MAX; tokens++)
            for (int ranks = 1; ranks <= DEAL_RANKS_MAX; ranks++)
                check(all_layouts[k], tokens, ranks);
}

static inline int deal_visible(rondo_mask_t mask, int q_position, int k_position)
{
    return mask == RONDO_MASK_FULL || k_position <= q_position;
}

#endif
