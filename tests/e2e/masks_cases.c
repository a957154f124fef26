/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/e2e/masks_cases.h"

#include <stddef.h>

/* ---- documents ---- */

#define PACKING(name, slots, lengths) \
    static const struct packing name = { sizeof(slots) / sizeof((slots)[0]), slots, lengths }

static const int64_t some_slots[] = { 0, 1, 17, 0, 10, 5, 0 };
PACKING(some, some_slots, NULL); /* 33 */

/* Each dealt out by itself in zigzag has half pieces of padding alone. */
static const int64_t padded_slots[] = { 12, 8, 8, 12, 8, 12 }, padded_lengths[] = { 9, 8, 8, 12, 8, 12 };
PACKING(padded, padded_slots, padded_lengths); /* 60 */

static const int64_t holes_slots[] = { 10, 0, 5, 1, 16, 4 }, holes_lengths[] = { 7, 0, 0, 1, 13, 3 };
PACKING(holes, holes_slots, holes_lengths); /* 36 */

static const int64_t singles_slots[] = { 1, 1, 1, 1, 1, 1, 1, 1 };
PACKING(singles, singles_slots, NULL);

static const int64_t repeated_slots[] = { 0, 4, 0, 4, 0 };
PACKING(repeated, repeated_slots, NULL);

static const int64_t straddling_slots[] = { 19, 28, 24, 12, 25, 8, 4, 8 };
PACKING(straddling, straddling_slots, NULL); /* 128 */

static const int64_t long_slots[] = { 100, 300, 24, 500, 100 };
PACKING(lengthy, long_slots, NULL); /* 1024 */

static const int64_t alone_slots[] = { 33 }, alone_lengths[] = { 26 };
PACKING(alone, alone_slots, alone_lengths);

static const int64_t few_slots[] = { 7, 0, 16, 4, 3 }, more_slots[] = { 12, 3, 0, 20, 3 };
static const int64_t few_lengths[] = { 6, 0, 13, 4, 3 }, more_lengths[] = { 9, 3, 0, 20, 1 };
PACKING(few, few_slots, NULL); /* 30 */
PACKING(more, more_slots, NULL); /* 38 */
PACKING(few_padded, few_slots, few_lengths);
PACKING(more_padded, more_slots, more_lengths);

static const int64_t short_queries[] = { 1, 0, 1 }, short_keys[] = { 3, 0, 5 };
PACKING(two_queries, short_queries, NULL);
PACKING(eight_keys, short_keys, NULL);

/* ---- bitmaps: rows and columns that are empty, rows that are whole ---- */

static const uint8_t bitmap_5x5[] = {
    1, 0, 0, 0, 1,
    0, 0, 0, 0, 0,
    0, 1, 1, 0, 0,
    1, 1, 1, 0, 1,
    0, 0, 1, 0, 1,
};

static const uint8_t bitmap_8x8[] = {
    0, 0, 0, 0, 0, 0, 0, 0,
    1, 1, 0, 0, 0, 0, 0, 1,
    0, 1, 0, 1, 0, 1, 0, 0,
    1, 1, 1, 1, 1, 1, 1, 1,
    0, 0, 0, 0, 0, 0, 1, 0,
    1, 0, 0, 0, 1, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0,
    1, 0, 1, 0, 0, 0, 1, 1,
};

static const uint8_t bitmap_3x7[] = {
    1, 0, 0, 1, 0, 0, 1,
    0, 0, 0, 0, 0, 0, 0,
    0, 1, 1, 0, 0, 0, 1,
};

static const uint8_t bitmap_none[] = { 0, 0, 0, 0 }, bitmap_one[] = { 1 };

/* ---- ranges ---- */

static const rondo_range_t range_causal[] = { { 0, 33, 0, 33, RONDO_RANGE_CAUSAL, 0, 0 } };

/* The documents `some`, each by itself, as a mask of its own kind. */
static const rondo_range_t range_documents[] = {
    { 0, 0, 0, 0, RONDO_RANGE_FULL, 0, 0 },     { 0, 1, 0, 1, RONDO_RANGE_FULL, 0, 0 },
    { 1, 17, 1, 17, RONDO_RANGE_CAUSAL, 0, 0 }, { 18, 10, 18, 10, RONDO_RANGE_INVERSE, 0, 0 },
    { 28, 5, 28, 5, RONDO_RANGE_FULL, 0, 0 },
};

/* Prefix 40 of 100, by two ranges; a window of 9 in the last part by a band. */
static const rondo_range_t range_prefix[] = {
    { 0, 40, 0, 40, RONDO_RANGE_FULL, 0, 0 },
    { 40, 60, 0, 40, RONDO_RANGE_FULL, 0, 0 },
    { 40, 60, 40, 60, RONDO_RANGE_BAND, 0, 8 },
};

/* As in training on mixed data: causal documents, one that is whole, answers that share a question, rows
 * and columns that nobody has, and a band off the diagonal. */
static const rondo_range_t range_mixed[] = {
    { 0, 40, 0, 40, RONDO_RANGE_CAUSAL, 0, 0 },     { 40, 30, 40, 30, RONDO_RANGE_FULL, 0, 0 },
    { 75, 25, 70, 30, RONDO_RANGE_CAUSAL, 0, 0 },   { 100, 50, 70, 30, RONDO_RANGE_FULL, 0, 0 },
    { 100, 25, 100, 25, RONDO_RANGE_CAUSAL, 0, 0 }, { 125, 25, 125, 25, RONDO_RANGE_CAUSAL, 0, 0 },
    { 150, 40, 130, 60, RONDO_RANGE_BICAUSAL, 0, 0 }, { 150, 20, 0, 30, RONDO_RANGE_INVERSE, 0, 0 },
    { 190, 33, 100, 20, RONDO_RANGE_CAUSAL, 0, 0 }, { 190, 33, 200, 33, RONDO_RANGE_BAND, -12, -3 },
    { 240, 10, 5, 0, RONDO_RANGE_FULL, 0, 0 },
};

/* Triangles that are cut off: more queries than keys, and more keys than queries. */
static const rondo_range_t range_cut[] = {
    { 3, 20, 0, 9, RONDO_RANGE_CAUSAL, 0, 0 },   { 0, 9, 10, 23, RONDO_RANGE_CAUSAL, 0, 0 },
    { 9, 20, 10, 8, RONDO_RANGE_INVERSE, 0, 0 }, { 12, 7, 20, 13, RONDO_RANGE_INVERSE, 0, 0 },
    { 20, 5, 18, 15, RONDO_RANGE_BICAUSAL, 0, 0 }, { 29, 4, 10, 2, RONDO_RANGE_BICAUSAL, 0, 0 },
};

static const rondo_range_t range_crossed[] = {
    { 0, 17, 0, 33, RONDO_RANGE_CAUSAL, 0, 0 }, { 17, 13, 30, 20, RONDO_RANGE_BICAUSAL, 0, 0 },
    { 17, 13, 0, 5, RONDO_RANGE_BAND, 3, 9 },
};

static const rondo_range_t range_long[] = {
    { 0, 600, 0, 600, RONDO_RANGE_CAUSAL, 0, 0 },   { 600, 424, 100, 100, RONDO_RANGE_FULL, 0, 0 },
    { 600, 424, 600, 424, RONDO_RANGE_BAND, 0, 63 }, { 0, 300, 900, 124, RONDO_RANGE_INVERSE, 0, 0 },
};

/* ---- the cases ---- */

#define WINDOW(l, r) RONDO_MASK_WINDOW, { .left = (l), .right = (r) }
#define WINDOW_ENDS(l, r) RONDO_MASK_WINDOW, { .left = (l), .right = (r), .align_ends = 1 }
#define PREFIX(n) RONDO_MASK_PREFIX, { .prefix = (n) }
#define BLOCKS(side, bitmap) RONDO_MASK_BLOCKS, { .block_tokens = (side), .blocks = (bitmap) }
#define RANGES(list) RONDO_MASK_RANGES, { .ranges = (list), .range_count = sizeof(list) / sizeof((list)[0]) }
#define ENDS { .align_ends = 1 }
#define NONE { .prefix = 0 }

const struct mask_case mask_cases[] = {
    { "full", "1 token", RONDO_MASK_FULL, NONE, { 1 }, .shape = 1 },
    { "full", "3 tokens", RONDO_MASK_FULL, NONE, { 3 }, .shape = 3 },
    { "full", "64 tokens", RONDO_MASK_FULL, NONE, { 64 }, .shape = 2 },
    { "full", "250 tokens", RONDO_MASK_FULL, NONE, { 250 }, .shape = 1 },
    { "causal", "1 token", RONDO_MASK_CAUSAL, NONE, { 1 }, .shape = 2 },
    { "causal", "17 tokens", RONDO_MASK_CAUSAL, NONE, { 17 }, .shape = 3 },
    { "causal", "250 tokens", RONDO_MASK_CAUSAL, NONE, { 250 }, .shape = 1 },
    { "causal", "1024 tokens", RONDO_MASK_CAUSAL, NONE, { 1024 }, .shape = 5 },
    { "strict", "1 token", RONDO_MASK_STRICT, NONE, { 1 }, .shape = 1 },
    { "strict", "33 tokens", RONDO_MASK_STRICT, NONE, { 33 }, .shape = 2 },
    { "strict", "250 tokens", RONDO_MASK_STRICT, NONE, { 250 }, .shape = 1 },
    { "window", "of one", WINDOW(0, 0), { 33 }, .shape = 1 },
    { "window", "7 back", WINDOW(7, 0), { 64 }, .shape = 2 },
    { "window", "5 back, 3 on", WINDOW(5, 3), { 64 }, .shape = 1 },
    { "window", "4 on", WINDOW(0, 4), { 33 }, .shape = 3 },
    { "window", "all back, 4 on", WINDOW(-1, 4), { 33 }, .shape = 0 },
    { "window", "6 back, all on", WINDOW(6, -1), { 33 }, .shape = 1 },
    { "window", "without end", WINDOW(-1, -1), { 17 }, .shape = 0 },
    { "window", "wider than the sequence", WINDOW(1000, 1000), { 33 }, .shape = 1 },
    { "window", "wider than the sequence, causal", WINDOW(33, 0), { 33 }, .shape = 2 },
    { "window", "100 back of 250", WINDOW(100, 0), { 250 }, .shape = 1 },
    { "window", "127 back of 1024", WINDOW(127, 0), { 1024 }, .shape = 5 },
    { "prefix", "none", PREFIX(0), { 33 }, .shape = 1 },
    { "prefix", "5 of 33", PREFIX(5), { 33 }, .shape = 2 },
    { "prefix", "all", PREFIX(33), { 33 }, .shape = 0 },
    { "prefix", "more than there are", PREFIX(100), { 17 }, .shape = 3 },
    { "prefix", "100 of 250", PREFIX(100), { 250 }, .shape = 1 },
    { "prefix", "300 of 1024", PREFIX(300), { 1024 }, .shape = 5 },
    { "blocks", "of 7 in 33", BLOCKS(7, bitmap_5x5), { 33 }, .shape = 1 },
    { "blocks", "of 8 in 64", BLOCKS(8, bitmap_8x8), { 64 }, .shape = 2 },
    { "blocks", "of 32 in 250", BLOCKS(32, bitmap_8x8), { 250 }, .shape = 1 },
    { "blocks", "of 1 in 5", BLOCKS(1, bitmap_5x5), { 5 }, .shape = 3 },
    { "blocks", "none is seen", BLOCKS(16, bitmap_none), { 32 }, .shape = 0 },
    { "blocks", "one for all", BLOCKS(100, bitmap_one), { 33 }, .shape = 0 },
    { "blocks", "of 128 in 1024", BLOCKS(128, bitmap_8x8), { 1024 }, .shape = 5 },
    { "ranges", "causal", RANGES(range_causal), { 33 }, .shape = 1 },
    { "ranges", "documents", RANGES(range_documents), { 33 }, .shape = 2 },
    { "ranges", "prefix and band", RANGES(range_prefix), { 100 }, .shape = 1 },
    { "ranges", "mixed", RANGES(range_mixed), { 250 }, .shape = 1 },
    { "ranges", "triangles cut off", RANGES(range_cut), { 33 }, .shape = 3 },
    { "ranges", "of 1024", RANGES(range_long), { 1024 }, .shape = 5 },
    { "documents", "full, empty and short ones", RONDO_MASK_FULL, NONE, { 33 }, { &some }, .shape = 1 },
    { "documents", "causal, empty and short ones", RONDO_MASK_CAUSAL, NONE, { 33 }, { &some }, .shape = 2 },
    { "documents", "strict, empty and short ones", RONDO_MASK_STRICT, NONE, { 33 }, { &some }, .shape = 1 },
    { "documents", "window, empty and short ones", WINDOW(4, 2), { 33 }, { &some }, .shape = 1 },
    { "documents", "prefix, empty and short ones", PREFIX(6), { 33 }, { &some }, .shape = 1 },
    { "documents", "full, padded", RONDO_MASK_FULL, NONE, { 60 }, { &padded }, .shape = 2 },
    { "documents", "causal, padded", RONDO_MASK_CAUSAL, NONE, { 60 }, { &padded }, .shape = 1 },
    { "documents", "causal, padding alone", RONDO_MASK_CAUSAL, NONE, { 36 }, { &holes }, .shape = 3 },
    { "documents", "strict, padding alone", RONDO_MASK_STRICT, NONE, { 36 }, { &holes }, .shape = 1 },
    { "documents", "window, padding alone", WINDOW(3, 0), { 36 }, { &holes }, .shape = 1 },
    { "documents", "prefix, padding alone", PREFIX(8), { 36 }, { &holes }, .shape = 1 },
    { "documents", "all of one token", RONDO_MASK_CAUSAL, NONE, { 8 }, { &singles }, .shape = 1 },
    { "documents", "between empty ones", RONDO_MASK_FULL, NONE, { 8 }, { &repeated }, .shape = 1 },
    { "documents", "one with padding", RONDO_MASK_CAUSAL, NONE, { 33 }, { &alone }, .shape = 1 },
    { "documents", "across shards", RONDO_MASK_CAUSAL, NONE, { 128 }, { &straddling }, .shape = 1 },
    { "documents", "of 1024", RONDO_MASK_CAUSAL, NONE, { 1024 }, { &lengthy }, .shape = 5 },
    { "documents", "window in 1024", WINDOW(60, 0), { 1024 }, { &lengthy }, .shape = 5 },
    { "cross", "full, more keys", RONDO_MASK_FULL, NONE, { 17, 40 }, .shape = 1 },
    { "cross", "full, fewer keys", RONDO_MASK_FULL, NONE, { 64, 7 }, .shape = 2 },
    { "cross", "full, as many keys", RONDO_MASK_FULL, NONE, { 33, 33 }, .shape = 1 },
    { "cross", "causal, more keys", RONDO_MASK_CAUSAL, NONE, { 17, 40 }, .shape = 3 },
    { "cross", "causal, fewer keys", RONDO_MASK_CAUSAL, NONE, { 40, 17 }, .shape = 1 },
    { "cross", "causal at the ends, more keys", RONDO_MASK_CAUSAL, ENDS, { 17, 40 }, .shape = 1 },
    { "cross", "causal at the ends, fewer keys", RONDO_MASK_CAUSAL, ENDS, { 40, 17 }, .shape = 2 },
    { "cross", "causal at the ends, as many", RONDO_MASK_CAUSAL, ENDS, { 33, 33 }, .shape = 0 },
    { "cross", "strict at the ends, more keys", RONDO_MASK_STRICT, ENDS, { 17, 33 }, .shape = 0 },
    { "cross", "window, more keys", WINDOW(5, 2), { 17, 33 }, .shape = 1 },
    { "cross", "window at the ends, more keys", WINDOW_ENDS(5, 2), { 17, 33 }, .shape = 1 },
    { "cross", "window at the ends, fewer keys", WINDOW_ENDS(5, 0), { 33, 17 }, .shape = 2 },
    { "cross", "prefix, more keys", PREFIX(9), { 17, 33 }, .shape = 1 },
    { "cross", "blocks of 8", BLOCKS(8, bitmap_3x7), { 24, 50 }, .shape = 1 },
    { "cross", "ranges", RANGES(range_crossed), { 30, 50 }, .shape = 3 },
    { "cross", "one query", RONDO_MASK_CAUSAL, ENDS, { 1, 100 }, .shape = 1 },
    { "cross", "documents, full", RONDO_MASK_FULL, NONE, { 30, 38 }, { &few, &more }, .shape = 1 },
    { "cross", "documents, causal", RONDO_MASK_CAUSAL, NONE, { 30, 38 }, { &few, &more }, .shape = 2 },
    { "cross", "documents, causal at the ends", RONDO_MASK_CAUSAL, ENDS, { 30, 38 }, { &few, &more }, .shape = 1 },
    { "cross", "documents, window at the ends", WINDOW_ENDS(4, 1), { 30, 38 }, { &few, &more }, .shape = 1 },
    { "cross", "padded documents, causal at the ends", RONDO_MASK_CAUSAL, ENDS, { 30, 38 },
      { &few_padded, &more_padded }, .shape = 1 },
    { "cross", "documents of one query", RONDO_MASK_CAUSAL, ENDS, { 2, 8 }, { &two_queries, &eight_keys }, .shape = 7 },
    { "scores", "soft cap", RONDO_MASK_CAUSAL, NONE, { 64 }, .shape = 1, .softcap = 0.7f },
    { "scores", "sinks", RONDO_MASK_CAUSAL, NONE, { 64 }, .shape = 2, .sinks = 1 },
    { "scores", "sinks, strict", RONDO_MASK_STRICT, NONE, { 33 }, .shape = 1, .sinks = 1 },
    { "scores", "sinks, window", WINDOW(9, 0), { 250 }, .shape = 1, .sinks = 1 },
    { "scores", "sinks, padded documents", RONDO_MASK_CAUSAL, NONE, { 36 }, { &holes }, .shape = 3, .sinks = 1 },
    { "scores", "dropout", RONDO_MASK_CAUSAL, NONE, { 64 }, .shape = 2, .dropout = 0.3f },
    { "scores", "dropout, padded documents", RONDO_MASK_CAUSAL, NONE, { 60 }, { &padded },
      .shape = 1, .dropout = 0.5f },
    { "scores", "dropout, more keys", RONDO_MASK_FULL, NONE, { 17, 40 }, .shape = 1, .dropout = 0.1f },
    { "scores", "all of them", WINDOW(20, 3), { 100 }, .shape = 3, .softcap = 2, .dropout = 0.2f, .sinks = 1 },
};

const int mask_case_count = sizeof(mask_cases) / sizeof(mask_cases[0]);
