/* SPDX-License-Identifier: Apache-2.0 */
/* How a sequence, or one document of it, is dealt out to ranks: closed formulas. */
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

static struct ri_token_run piece_run(int64_t tokens, int64_t pieces, int64_t piece)
{
    return (struct ri_token_run){
        .count = piece_tokens(tokens, pieces, piece),
        .start = piece_start(tokens, pieces, piece),
        .step = 1,
    };
}

/* Contiguous: rank r holds piece r of `ranks`. */
static int contiguous_runs(int64_t tokens, int ranks, int rank, struct ri_token_run *runs)
{
    runs[0] = piece_run(tokens, ranks, rank);
    return 1;
}

static int contiguous_rank(int64_t tokens, int ranks, int64_t position)
{
    return (int)piece_of(tokens, ranks, position);
}

/* Zigzag: rank r holds pieces r and 2*ranks-1-r of 2*ranks, so that causal work is even. */
static int zigzag_runs(int64_t tokens, int ranks, int rank, struct ri_token_run *runs)
{
    int64_t pieces = 2 * (int64_t)ranks;

    runs[0] = piece_run(tokens, pieces, rank);
    runs[1] = piece_run(tokens, pieces, pieces - 1 - rank);
    return 2;
}

static int zigzag_rank(int64_t tokens, int ranks, int64_t position)
{
    int64_t pieces = 2 * (int64_t)ranks;
    int64_t piece = piece_of(tokens, pieces, position);

    return (int)(piece < ranks ? piece : pieces - 1 - piece);
}

/* Striped: rank r holds the positions r, r + ranks, r + 2*ranks, ... */
static int striped_runs(int64_t tokens, int ranks, int rank, struct ri_token_run *runs)
{
    runs[0] = (struct ri_token_run){ .count = piece_tokens(tokens, ranks, rank), .start = rank, .step = ranks };
    return 1;
}

static int striped_rank(int64_t tokens, int ranks, int64_t position)
{
    (void)tokens;
    return (int)(position % ranks);
}

static const struct ri_map maps[] = {
    [RONDO_LAYOUT_CONTIGUOUS] = { contiguous_runs, contiguous_rank, 1 },
    [RONDO_LAYOUT_ZIGZAG] = { zigzag_runs, zigzag_rank, 2 },
    [RONDO_LAYOUT_STRIPED] = { striped_runs, striped_rank, 1 },
};

const struct ri_map *ri_layout_map(rondo_layout_kind_t kind)
{
    return kind == RONDO_LAYOUT_BALANCED ? NULL : &maps[kind];
}
