/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layout/layout.h"
#include "tests/unit/dealt.h"

/* Causal work in a ring: in step s, rank r sees the block of rank (r - s) mod ranks. */
static int64_t step_pairs(const struct rondo_layout *layout, int step, int rank)
{
    int k_rank = (rank - step + layout->ranks) % layout->ranks;
    rondo_tile_t tiles[DEALT_TILES_MAX];
    int count =
        dealt_tiles(layout, RONDO_MASK_CAUSAL, rank, k_rank, tiles, DEALT_TILES_MAX);
    int64_t pairs = 0;

    for (int t = 0; t < count; t++)
        pairs += ri_tile_pairs(&tiles[t]);
    return pairs;
}

/* Every step lasts as long as its slowest rank. */
static int64_t critical_path(const struct rondo_layout *layout)
{
    int64_t path = 0;

    for (int step = 0; step < layout->ranks; step++) {
        int64_t slowest = 0;

        for (int rank = 0; rank < layout->ranks; rank++)
            if (step_pairs(layout, step, rank) > slowest)
                slowest = step_pairs(layout, step, rank);
        path += slowest;
    }
    return path;
}

static void assert_balance(rondo_layout_kind_t kind, const int64_t steps[4][4],
                           const int64_t ranks[4], int64_t path)
{
    DEALT struct rondo_layout *layout = dealt(kind, 16, 4);

    for (int rank = 0; rank < 4; rank++) {
        int64_t pairs = 0;

        for (int step = 0; step < 4; step++) {
            assert_int_equal(step_pairs(layout, step, rank), steps[step][rank]);
            pairs += steps[step][rank];
        }
        assert_int_equal(pairs, ranks[rank]);
    }
    assert_int_equal(critical_path(layout), path);
}

static void contiguous_steps_of_sixteen_tokens(void **state)
{
    static const int64_t steps[4][4] = {
        {10, 10, 10, 10}, {0, 16, 16, 16}, {0, 0, 16, 16}, {0, 0, 0, 16}};

    (void)state;
    assert_balance(RONDO_LAYOUT_CONTIGUOUS, steps, (const int64_t[]){10, 26, 42, 58}, 58);
}

static void zigzag_steps_of_sixteen_tokens(void **state)
{
    static const int64_t steps[4][4] = {{10, 10, 10, 10}, {8, 8, 8, 8}, {8, 8, 8, 8}, {8, 8, 8, 8}};

    (void)state;
    assert_balance(RONDO_LAYOUT_ZIGZAG, steps, (const int64_t[]){34, 34, 34, 34}, 34);
}

static void striped_steps_of_sixteen_tokens(void **state)
{
    static const int64_t steps[4][4] = {
        {10, 10, 10, 10}, {6, 10, 10, 10}, {6, 6, 10, 10}, {6, 6, 6, 10}};

    (void)state;
    assert_balance(RONDO_LAYOUT_STRIPED, steps, (const int64_t[]){28, 32, 36, 40}, 40);
}

static void eight_ranks_of_eight_tokens(void **state)
{
    static const int64_t first[] = {36, 260, 232}, rise[] = {64, 0, 8}, path[] = {484, 260, 288};

    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        DEALT struct rondo_layout *layout = dealt((rondo_layout_kind_t)kind, 64, 8);
        int64_t total = 0;

        for (int rank = 0; rank < 8; rank++) {
            int64_t pairs = rondo_layout_pairs(layout, rank, RONDO_MASK_CAUSAL, NULL);

            assert_int_equal(pairs, first[kind] + rank * rise[kind]);
            total += pairs;
        }
        assert_int_equal(total, 2080);
        assert_int_equal(critical_path(layout), path[kind]);
    }
}

static int64_t most_pairs(rondo_layout_kind_t kind, int64_t tokens, int ranks)
{
    DEALT struct rondo_layout *layout = dealt(kind, tokens, ranks);
    int64_t most = 0;

    for (int rank = 0; rank < ranks; rank++)
        if (rondo_layout_pairs(layout, rank, RONDO_MASK_CAUSAL, NULL) > most)
            most = rondo_layout_pairs(layout, rank, RONDO_MASK_CAUSAL, NULL);
    return most;
}

/* Busiest rank over mean, with n tokens a rank: contiguous (2nP-n+1)/(nP+1), striped P(n+1)/(nP+1),
 * zigzag 1.  Compared as cross products: mean = n(nP+1)/2. */
static void busiest_rank_by_formula(void **state)
{
    (void)state;
    for (int p = 1; p <= 16; p++) {
        for (int64_t n = 2; n <= 1024; n *= 2) {
            assert_int_equal(2 * most_pairs(RONDO_LAYOUT_CONTIGUOUS, n * p, p),
                             n * (2 * n * p - n + 1));
            assert_int_equal(2 * most_pairs(RONDO_LAYOUT_STRIPED, n * p, p), n * p * (n + 1));
            assert_int_equal(2 * most_pairs(RONDO_LAYOUT_ZIGZAG, n * p, p), n * (n * p + 1));
        }
    }
}

/* A zigzag step is even: with c the owner of the keys, half a block's area for c != r. */
static void zigzag_steps_are_even(void **state)
{
    (void)state;
    for (int p = 1; p <= 9; p++) {
        for (int64_t n = 2; n <= 256; n *= 2) {
            DEALT struct rondo_layout *layout = dealt(RONDO_LAYOUT_ZIGZAG, n * p, p);

            for (int step = 0; step < p; step++)
                for (int rank = 0; rank < p; rank++)
                    assert_int_equal(step_pairs(layout, step, rank),
                                     step == 0 ? n * (n + 1) / 2 : n * n / 2);
        }
    }
}

/* Striped: one causal tile; where the key's rank is behind the query's, without the first query and the last
 * key, which see nothing of each other. */
static void striped_tiles_are_causal(void **state)
{
    (void)state;
    for (int p = 1; p <= 9; p++) {
        for (int64_t tokens = 3 * p; tokens <= 4 * p; tokens++) {
            DEALT struct rondo_layout *layout = dealt(RONDO_LAYOUT_STRIPED, tokens, p);

            for (int q = 0; q < p; q++) {
                for (int k = 0; k < p; k++) {
                    rondo_tile_t tile;
                    int count = dealt_tiles(layout, RONDO_MASK_CAUSAL, q, k, &tile, 1);

                    assert_int_equal(count, 1);
                    assert_int_equal(tile.kind, RONDO_TILE_CAUSAL);
                    assert_int_equal(tile.q_first, k > q);
                    assert_int_equal(tile.q_count, ri_layout_tokens(layout, q) - (k > q));
                }
            }
        }
    }
}

/* Zigzag: all queries see the front half of an earlier rank's keys, and only the back half of the
 * queries sees a later rank's keys, all of them. */
static void zigzag_tiles_are_full_halves(void **state)
{
    DEALT struct rondo_layout *layout = dealt(RONDO_LAYOUT_ZIGZAG, 32, 4);
    rondo_tile_t tiles[DEALT_TILES_MAX];

    (void)state;
    assert_int_equal(dealt_tiles(layout, RONDO_MASK_CAUSAL, 1, 0, tiles, 4), 2);
    for (int t = 0; t < 2; t++) {
        assert_int_equal(tiles[t].kind, RONDO_TILE_FULL);
        assert_int_equal(tiles[t].q_first, 4 * t);
        assert_int_equal(tiles[t].k_first, 0);
        assert_int_equal(tiles[t].k_count, 4);
    }
    assert_int_equal(dealt_tiles(layout, RONDO_MASK_CAUSAL, 0, 1, tiles, 4), 2);
    for (int t = 0; t < 2; t++) {
        assert_int_equal(tiles[t].kind, RONDO_TILE_FULL);
        assert_int_equal(tiles[t].q_first, 4);
        assert_int_equal(tiles[t].k_first, 4 * t);
        assert_int_equal(tiles[t].k_count, 4);
    }
    assert_int_equal(dealt_tiles(layout, RONDO_MASK_CAUSAL, 0, 0, tiles, 4), 3);
    assert_int_equal(tiles[0].kind, RONDO_TILE_CAUSAL);
    assert_int_equal(tiles[1].kind, RONDO_TILE_FULL);
    assert_int_equal(tiles[2].kind, RONDO_TILE_CAUSAL);
}

/* The last rank's two pieces are neighbours, so they need no tiles of their own. */
static void neighbouring_pieces_share_a_tile(void **state)
{
    (void)state;
    for (int p = 1; p <= 9; p++) {
        for (int64_t tokens = 2 * p; tokens <= 4 * p; tokens++) {
            DEALT struct rondo_layout *layout = dealt(RONDO_LAYOUT_ZIGZAG, tokens, p);
            rondo_tile_t tile;

            assert_int_equal(
                dealt_tiles(layout, RONDO_MASK_CAUSAL, p - 1, p - 1, &tile, 1), 1);
            assert_int_equal(tile.kind, RONDO_TILE_CAUSAL);
            assert_int_equal(tile.q_count, ri_layout_tokens(layout, p - 1));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contiguous_steps_of_sixteen_tokens),
        cmocka_unit_test(zigzag_steps_of_sixteen_tokens),
        cmocka_unit_test(striped_steps_of_sixteen_tokens),
        cmocka_unit_test(eight_ranks_of_eight_tokens),
        cmocka_unit_test(busiest_rank_by_formula),
        cmocka_unit_test(zigzag_steps_are_even),
        cmocka_unit_test(striped_tiles_are_causal),
        cmocka_unit_test(zigzag_tiles_are_full_halves),
        cmocka_unit_test(neighbouring_pieces_share_a_tile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
