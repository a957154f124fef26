/* SPDX-License-Identifier: Apache-2.0 */
#include "layout/layout.h"

/* Piece i of m holds tokens div m + (i < tokens mod m) tokens, so sizes differ by at most one. */
static int64_t piece_tokens(int64_t tokens, int64_t pieces, int64_t piece)
{
    return tokens / pieces + (piece < tokens % pieces);
}

static int64_t piece_start(int64_t tokens, int64_t pieces, int64_t piece)
{
    int64_t longer = tokens % pieces;

    return piece * (tokens / pieces) + (piece < longer ? piece : longer);
}

/* The longer pieces come first.  Where pieces outnumber tokens the shorter ones are empty, and
 * every position lies in a longer one, so nothing is divided by zero. */
static int64_t piece_of(int64_t tokens, int64_t pieces, int64_t position)
{
    int64_t longer = tokens % pieces, shorter_tokens = tokens / pieces;
    int64_t longer_end = longer * shorter_tokens + longer;

    if (position < longer_end)
        return position / (shorter_tokens + 1);
    return longer + (position - longer_end) / shorter_tokens;
}

static struct ri_token_run piece_run(int64_t tokens, int64_t pieces, int64_t piece, int64_t index)
{
    return (struct ri_token_run){
        .index = index,
        .count = piece_tokens(tokens, pieces, piece),
        .start = piece_start(tokens, pieces, piece),
        .step = 1,
    };
}

/* Contiguous: rank r holds piece r of `ranks`. */
static int contiguous_runs(const struct rondo_layout *layout, int rank, struct ri_token_run *runs)
{
    runs[0] = piece_run(layout->tokens, layout->ranks, rank, 0);
    return runs[0].count > 0;
}

static void contiguous_owner(const struct rondo_layout *layout, int64_t position, int *rank,
                             int64_t *index)
{
    int64_t piece = piece_of(layout->tokens, layout->ranks, position);

    *rank = (int)piece;
    *index = position - piece_start(layout->tokens, layout->ranks, piece);
}

/* Zigzag: rank r holds pieces r and 2*ranks-1-r of 2*ranks, so that causal work is even.
 * Neighbouring pieces, those of the last rank, make one run.  A piece is never longer than one
 * before it, so an empty front has an empty back. */
static int zigzag_runs(const struct rondo_layout *layout, int rank, struct ri_token_run *runs)
{
    int64_t pieces = 2 * (int64_t)layout->ranks;
    struct ri_token_run front = piece_run(layout->tokens, pieces, rank, 0);
    struct ri_token_run back = piece_run(layout->tokens, pieces, pieces - 1 - rank, front.count);

    runs[0] = front;
    if (back.start == front.start + front.count) {
        runs[0].count += back.count;
        return runs[0].count > 0;
    }
    runs[1] = back;
    return back.count > 0 ? 2 : front.count > 0;
}

static void zigzag_owner(const struct rondo_layout *layout, int64_t position, int *rank,
                         int64_t *index)
{
    int64_t pieces = 2 * (int64_t)layout->ranks;
    int64_t piece = piece_of(layout->tokens, pieces, position);
    int64_t inside = position - piece_start(layout->tokens, pieces, piece);

    if (piece < layout->ranks) {
        *rank = (int)piece;
        *index = inside;
        return;
    }
    *rank = (int)(pieces - 1 - piece);
    *index = piece_tokens(layout->tokens, pieces, *rank) + inside;
}

/* Striped: rank r holds the positions r, r + ranks, r + 2*ranks, ... */
static int striped_runs(const struct rondo_layout *layout, int rank, struct ri_token_run *runs)
{
    runs[0] = (struct ri_token_run){
        .count = piece_tokens(layout->tokens, layout->ranks, rank),
        .start = rank,
        .step = layout->ranks,
    };
    return runs[0].count > 0;
}

static void striped_owner(const struct rondo_layout *layout, int64_t position, int *rank,
                          int64_t *index)
{
    *rank = (int)(position % layout->ranks);
    *index = position / layout->ranks;
}

static const struct {
    int (*runs)(const struct rondo_layout *layout, int rank, struct ri_token_run *runs);
    void (*owner)(const struct rondo_layout *layout, int64_t position, int *rank, int64_t *index);
    int most_runs;
} maps[] = {
    [RONDO_LAYOUT_CONTIGUOUS] = {contiguous_runs, contiguous_owner, 1},
    [RONDO_LAYOUT_ZIGZAG] = {zigzag_runs, zigzag_owner, 2},
    [RONDO_LAYOUT_STRIPED] = {striped_runs, striped_owner, 1},
};

int ri_layout_runs(const struct rondo_layout *layout, int rank,
                   struct ri_token_run runs[RI_LAYOUT_RUNS_MAX])
{
    return maps[layout->kind].runs(layout, rank, runs);
}

int ri_layout_most_runs(const struct rondo_layout *layout)
{
    return maps[layout->kind].most_runs;
}

void ri_layout_owner(const struct rondo_layout *layout, int64_t position, int *rank, int64_t *index)
{
    maps[layout->kind].owner(layout, position, rank, index);
}

int64_t ri_layout_tokens(const struct rondo_layout *layout, int rank)
{
    struct ri_token_run runs[RI_LAYOUT_RUNS_MAX];
    int count = ri_layout_runs(layout, rank, runs);

    return count ? runs[count - 1].index + runs[count - 1].count : 0;
}

int64_t ri_layout_largest(const struct rondo_layout *layout)
{
    int64_t largest = 0;

    for (int r = 0; r < layout->ranks; r++)
        if (ri_layout_tokens(layout, r) > largest)
            largest = ri_layout_tokens(layout, r);
    return largest;
}

int64_t ri_layout_position(const struct rondo_layout *layout, int rank, int64_t index)
{
    struct ri_token_run runs[RI_LAYOUT_RUNS_MAX];
    int count = ri_layout_runs(layout, rank, runs);
    const struct ri_token_run *run = &runs[count > 1 && index >= runs[1].index];

    return run->start + (index - run->index) * run->step;
}
