/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of tile, in sizes that are multiples of nothing; lists of tiles. */
#include "kernels/check/problem.h"

enum kind_of_case { FULL, CAUSAL, STRICT, WINDOW, AROUND, BOTTOM_RIGHT, DIAGONAL, UNBOUNDED };

/* The tile of a block of q queries and k keys; 0 when there is none that shows a pair. */
static int tile_of_case(enum kind_of_case kind, int64_t q, int64_t k, rondo_tile_t *tile)
{
    switch (kind) {
    case FULL:
        *tile = ri_tile_full(0, q, 0, k);
        return 1;
    case CAUSAL:
        *tile = ri_tile_causal(0, q, 0, k);
        return 1;
    case STRICT:
        *tile = ri_tile_strict(0, q, 0, k);
        return q > 1;
    case WINDOW:
        *tile = ri_tile_band(0, q, 0, k, 0, q / 3);
        return 1;
    case AROUND:
        *tile = ri_tile_band(0, q, 0, k, -k / 2, q / 4);
        return 1;
    case BOTTOM_RIGHT:
        *tile = ri_tile_band(0, q, 0, k, q - k, q);
        return 1;
    case DIAGONAL:
        *tile = ri_tile_band(0, q, 0, k, -1, -1 + (k == 1));
        return 1;
    default:
        *tile = ri_tile_band(0, q, 0, k, INT64_MIN, INT64_MAX);
        return 1;
    }
}

static int every_size(struct ri_probe *c, const void *data)
{
    static const int64_t sizes[] = { 1, 2, 5, 16, 31, 64, 65, 130 };
    enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };
    const enum kind_of_case *kind = data;
    int err = 0;

    for (int a = 0; a < SIZES && !err; a++)
        for (int b = 0; b < SIZES && !err; b++) {
            rondo_tile_t tile;
            struct ri_problem_spec spec = { .batch = 1, .q_tokens = sizes[a], .k_tokens = sizes[b], .q_heads = 1,
                                            .kv_heads = 1, .qk_dim = 8, .v_dim = 8, .tiles = &tile,
                                            .tile_count = 1 };

            if (tile_of_case(*kind, sizes[a], sizes[b], &tile))
                err = ri_check_spec(c, &spec);
            ri_probe_release(c, NULL);
        }
    return err;
}

static const enum kind_of_case full = FULL, causal = CAUSAL, strict = STRICT, window = WINDOW, around = AROUND,
                               bottom_right = BOTTOM_RIGHT, diagonal = DIAGONAL, unbounded = UNBOUNDED;

/* The three tiles of one rank's zigzag. */
static int zigzag(struct ri_probe *c, const void *data)
{
    const rondo_tile_t tiles[] = { ri_tile_causal(0, 50, 0, 50), ri_tile_full(50, 50, 0, 50),
                                   ri_tile_causal(50, 50, 50, 50) };
    const struct ri_problem_spec spec = { .batch = 1, .q_tokens = 100, .k_tokens = 100, .q_heads = 2, .kv_heads = 1,
                                          .qk_dim = 16, .v_dim = 8, .tiles = tiles, .tile_count = 3 };

    return ri_check_spec(c, &spec);
}

/* Documents, with a token between that belongs to none. */
static int documents(struct ri_probe *c, const void *data)
{
    const rondo_tile_t tiles[] = { ri_tile_causal(0, 1, 0, 1), ri_tile_causal(1, 33, 1, 33),
                                   ri_tile_strict(34, 60, 34, 60), ri_tile_full(95, 5, 94, 6) };
    const struct ri_problem_spec spec = { .batch = 2, .q_tokens = 100, .k_tokens = 100, .q_heads = 2, .kv_heads = 1,
                                          .qk_dim = 16, .v_dim = 8, .tiles = tiles, .tile_count = 4,
                                          .strides = RI_STRIDES_GAPS };

    return ri_check_spec(c, &spec);
}

/* Bands of the same queries and keys that share no pair. */
static int pieces(struct ri_probe *c, const void *data)
{
    const rondo_tile_t tiles[] = { ri_tile_band(10, 80, 0, 90, 0, 20), ri_tile_band(10, 80, 0, 90, 21, 21),
                                   ri_tile_band(10, 80, 0, 90, 50, 70) };
    const struct ri_problem_spec spec = { .batch = 1, .q_tokens = 100, .k_tokens = 100, .q_heads = 2, .kv_heads = 1,
                                          .qk_dim = 16, .v_dim = 8, .tiles = tiles, .tile_count = 3 };

    return ri_check_spec(c, &spec);
}

/* Runs far apart, in no order: most tokens of the block are in no tile. */
static int gaps_between(struct ri_probe *c, const void *data)
{
    const rondo_tile_t tiles[] = { ri_tile_causal(70, 13, 41, 13), ri_tile_full(3, 7, 90, 9),
                                   ri_tile_band(20, 31, 5, 22, -3, 11), ri_tile_full(3, 7, 41, 13) };
    const struct ri_problem_spec spec = { .batch = 2, .q_tokens = 101, .k_tokens = 103, .q_heads = 4, .kv_heads = 2,
                                          .qk_dim = 24, .v_dim = 16, .tiles = tiles, .tile_count = 4,
                                          .strides = RI_STRIDES_HEADS_FIRST };

    return ri_check_spec(c, &spec);
}

/* Many tiles of one token. */
static int one_token(struct ri_probe *c, const void *data)
{
    enum { TILES = 40 };
    rondo_tile_t tiles[TILES];
    const struct ri_problem_spec spec = { .batch = 1, .q_tokens = 45, .k_tokens = 60, .q_heads = 2, .kv_heads = 2,
                                          .qk_dim = 16, .v_dim = 16, .tiles = tiles, .tile_count = TILES };

    for (int t = 0; t < TILES; t++)
        tiles[t] = t % 2 ? ri_tile_full(t, 1, t, 1) : ri_tile_causal(t, 1, 59 - t, 1);
    return ri_check_spec(c, &spec);
}

const struct ri_probe_case ri_probe_tiles[] = {
    { "tile_full", every_size, &full, RI_PROBE_BOTH, 0, 0 },
    { "tile_causal", every_size, &causal, RI_PROBE_BOTH, 0, 0 },
    { "tile_strict", every_size, &strict, RI_PROBE_BOTH, 0, 0 },
    { "tile_window", every_size, &window, RI_PROBE_BOTH, 0, 0 },
    { "tile_around", every_size, &around, RI_PROBE_BOTH, 0, 0 },
    { "tile_bottom_right", every_size, &bottom_right, RI_PROBE_BOTH, 0, 0 },
    { "tile_diagonal", every_size, &diagonal, RI_PROBE_BOTH, 0, 0 },
    { "tile_unbounded", every_size, &unbounded, RI_PROBE_BOTH, 0, 0 },
    { "tiles_zigzag", zigzag, NULL, RI_PROBE_BOTH, 0, 0 },
    { "tiles_documents", documents, NULL, RI_PROBE_BOTH, 0, 0 },
    { "tiles_pieces", pieces, NULL, RI_PROBE_BOTH, 0, 0 },
    { "tiles_gaps_between", gaps_between, NULL, RI_PROBE_BOTH, 0, 0 },
    { "tiles_one_token", one_token, NULL, RI_PROBE_BOTH, 0, 0 },
    { NULL, NULL, NULL, 0, 0, 0 },
};
