/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "deal.h"
#include "layout/layout.h"
#include "tests/unit/dealt.h"

static int sees(const rondo_tile_t *tile, int64_t i, int64_t j)
{
    return tile->lo <= i - j && i - j <= tile->hi;
}

static int64_t count_pairs(const rondo_tile_t *tile)
{
    int64_t pairs = 0;

    for (int64_t i = 0; i < tile->q_count; i++)
        for (int64_t j = 0; j < tile->k_count; j++)
            pairs += sees(tile, i, j);
    return pairs;
}

/* The kind is exact: the first of full, causal, strict that describes every pair, else band. */
static rondo_tile_kind_t expected_kind(const rondo_tile_t *tile)
{
    int full = 1, causal = 1, strict = 1;

    for (int64_t i = 0; i < tile->q_count; i++) {
        for (int64_t j = 0; j < tile->k_count; j++) {
            full &= sees(tile, i, j);
            causal &= sees(tile, i, j) == (j <= i);
            strict &= sees(tile, i, j) == (j < i);
        }
    }
    if (full)
        return RONDO_TILE_FULL;
    if (causal)
        return RONDO_TILE_CAUSAL;
    return strict ? RONDO_TILE_STRICT : RONDO_TILE_BAND;
}

/* What holds for every tile: not empty, each key seen, the kind and what it says of lo and hi. */
static void assert_tile_is_sound(const rondo_tile_t *tile)
{
    assert_true(tile->q_count > 0 && tile->k_count > 0);
    assert_int_equal(tile->kind, expected_kind(tile));
    assert_true(tile->lo >= 1 - tile->k_count && tile->hi <= tile->q_count - 1);
    if (tile->kind != RONDO_TILE_BAND)
        assert_int_equal(tile->hi, tile->q_count - 1);
    if (tile->kind == RONDO_TILE_FULL)
        assert_int_equal(tile->lo, 1 - tile->k_count);
    if (tile->kind == RONDO_TILE_CAUSAL || tile->kind == RONDO_TILE_STRICT)
        assert_int_equal(tile->lo, tile->kind == RONDO_TILE_STRICT);
    for (int64_t j = 0; j < tile->k_count; j++) {
        int seen = 0;

        for (int64_t i = 0; i < tile->q_count; i++)
            seen |= sees(tile, i, j);
        assert_true(seen);
    }
}

/* Marks the tile's pairs, none of them twice, and checks its affine positions. */
static void mark(const rondo_tile_t *tile, const struct deal *d, int q_rank, int k_rank,
                 unsigned char seen[DEAL_TOKENS_MAX][DEAL_TOKENS_MAX])
{
    assert_true(tile->q_first >= 0 && tile->q_first + tile->q_count <= d->count[q_rank]);
    assert_true(tile->k_first >= 0 && tile->k_first + tile->k_count <= d->count[k_rank]);
    for (int64_t i = 0; i < tile->q_count; i++)
        assert_int_equal(tile->q_start + i * tile->q_step, d->position[q_rank][tile->q_first + i]);
    for (int64_t j = 0; j < tile->k_count; j++)
        assert_int_equal(tile->k_start + j * tile->k_step, d->position[k_rank][tile->k_first + j]);
    for (int64_t i = 0; i < tile->q_count; i++)
        for (int64_t j = 0; j < tile->k_count; j++)
            if (sees(tile, i, j) && seen[tile->q_first + i][tile->k_first + j]++)
                fail_msg("pair %d, %d is in two tiles", (int)i, (int)j);
}

static int tile_is_before(const rondo_tile_t *a, const rondo_tile_t *b)
{
    return a->q_first < b->q_first || (a->q_first == b->q_first && a->k_first < b->k_first);
}

static void check_block_pair(const struct rondo_layout *layout, const struct deal *d,
                             rondo_mask_t mask, int q_rank, int k_rank)
{
    unsigned char seen[DEAL_TOKENS_MAX][DEAL_TOKENS_MAX] = {{0}};
    rondo_tile_t tiles[DEALT_TILES_MAX];
    int count = dealt_tiles(layout, mask, q_rank, k_rank, tiles, DEALT_TILES_MAX);
    int wrong = 0;

    assert_in_range(count, 0, layout->kind == RONDO_LAYOUT_ZIGZAG ? DEALT_TILES_MAX : 1);
    assert_int_equal(dealt_tiles(layout, mask, q_rank, k_rank, NULL, 0), count);
    for (int t = 0; t < count; t++) {
        assert_true(t == 0 || tile_is_before(&tiles[t - 1], &tiles[t]));
        assert_tile_is_sound(&tiles[t]);
        assert_int_equal(ri_tile_pairs(&tiles[t]), count_pairs(&tiles[t]));
        mark(&tiles[t], d, q_rank, k_rank, seen);
    }
    for (int i = 0; i < d->count[q_rank]; i++)
        for (int j = 0; j < d->count[k_rank]; j++)
            wrong += seen[i][j] !=
                     deal_visible(mask, d->position[q_rank][i], d->position[k_rank][j]);
    assert_int_equal(wrong, 0);
}

static void check_tiles(rondo_layout_kind_t kind, int tokens, int ranks)
{
    DEALT struct rondo_layout *layout = dealt(kind, tokens, ranks);
    struct deal d = deal(kind, tokens, ranks);

    for (int m = 0; m < 2; m++)
        for (int q = 0; q < ranks; q++)
            for (int k = 0; k < ranks; k++)
                check_block_pair(layout, &d, all_masks[m], q, k);
}

static void tiles_cover_the_visible_pairs_once(void **state)
{
    (void)state;
    deal_every_shape(check_tiles);
}

static int64_t block_pairs(const struct rondo_layout *layout, rondo_mask_t mask, int q, int k)
{
    rondo_tile_t tiles[DEALT_TILES_MAX];
    int count = dealt_tiles(layout, mask, q, k, tiles, DEALT_TILES_MAX);
    int64_t pairs = 0;

    for (int t = 0; t < count; t++)
        pairs += ri_tile_pairs(&tiles[t]);
    return pairs;
}

static void check_sums(rondo_layout_kind_t kind, int tokens, int ranks)
{
    DEALT struct rondo_layout *layout = dealt(kind, tokens, ranks);

    for (int m = 0; m < 2; m++) {
        int64_t all = 0;

        for (int q = 0; q < ranks; q++) {
            int64_t pairs = 0;

            for (int k = 0; k < ranks; k++)
                pairs += block_pairs(layout, all_masks[m], q, k);
            assert_int_equal(pairs, rondo_layout_pairs(layout, q, all_masks[m], NULL));
            all += pairs;
        }
        assert_int_equal(all, m == 0 ? tokens * tokens : tokens * (tokens + 1) / 2);
    }
}

static void tile_pairs_sum_to_the_area_of_the_mask(void **state)
{
    (void)state;
    deal_every_shape(check_sums);
    for (int k = 0; k < 3; k++) {
        check_sums(all_layouts[k], 2999, 4);
        check_sums(all_layouts[k], 40001, 7);
    }
}

/* One piece of a tile against the tile: the same pairs for its queries, no key too many. */
static void check_cut(const rondo_tile_t *tile, int64_t first, int64_t count)
{
    rondo_tile_t piece, untouched;
    int64_t expected = 0;
    int some;

    memset(&untouched, 0x55, sizeof(untouched));
    memset(&piece, 0x55, sizeof(piece));
    for (int64_t i = first; i < first + count; i++)
        for (int64_t j = 0; j < tile->k_count; j++)
            expected += sees(tile, i, j);
    some = ri_tile_queries(tile, first, count, &piece);
    assert_int_equal(some, expected > 0);
    if (!some) {
        assert_memory_equal(&piece, &untouched, sizeof(piece));
        return;
    }
    assert_tile_is_sound(&piece);
    assert_int_equal(piece.q_first, tile->q_first + first);
    assert_int_equal(piece.q_count, count);
    assert_int_equal(piece.q_start, tile->q_start + first * tile->q_step);
    assert_int_equal(piece.q_step, tile->q_step);
    assert_int_equal(piece.k_start - tile->k_start, (piece.k_first - tile->k_first) * tile->k_step);
    assert_int_equal(piece.k_step, tile->k_step);
    assert_int_equal(ri_tile_pairs(&piece), expected);
    /* As many pairs as expected, and each of them the tile's. */
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < piece.k_count; j++)
            if (sees(&piece, i, j))
                assert_true(sees(tile, first + i, piece.k_first - tile->k_first + j));
}

/* The same by keys: no query too many. */
static void check_key_cut(const rondo_tile_t *tile, int64_t first, int64_t count)
{
    rondo_tile_t piece, untouched;
    int64_t pairs = 0, queries = 0;

    memset(&untouched, 0x55, sizeof(untouched));
    memset(&piece, 0x55, sizeof(piece));
    for (int64_t i = 0; i < tile->q_count; i++) {
        int64_t before = pairs;

        for (int64_t j = first; j < first + count; j++)
            pairs += sees(tile, i, j);
        queries += pairs > before;
    }
    assert_int_equal(ri_tile_keys(tile, first, count, &piece), pairs > 0);
    if (pairs == 0) {
        assert_memory_equal(&piece, &untouched, sizeof(piece));
        return;
    }
    assert_int_equal(piece.kind, expected_kind(&piece));
    assert_int_equal(piece.k_first, tile->k_first + first);
    assert_int_equal(piece.k_count, count);
    assert_int_equal(piece.k_start, tile->k_start + first * tile->k_step);
    assert_int_equal(piece.k_step, tile->k_step);
    assert_int_equal(piece.q_count, queries);
    assert_int_equal(piece.q_start - tile->q_start, (piece.q_first - tile->q_first) * tile->q_step);
    assert_int_equal(piece.q_step, tile->q_step);
    assert_int_equal(ri_tile_pairs(&piece), pairs);
    for (int64_t i = 0; i < piece.q_count; i++)
        for (int64_t j = 0; j < count; j++)
            if (sees(&piece, i, j))
                assert_true(sees(tile, piece.q_first - tile->q_first + i, first + j));
}

static void check_all_cuts(const rondo_tile_t *tile)
{
    for (int64_t first = 0; first <= tile->k_count; first++)
        for (int64_t count = 0; first + count <= tile->k_count; count++)
            check_key_cut(tile, first, count);
    for (int64_t first = 0; first <= tile->q_count; first++)
        for (int64_t count = 0; first + count <= tile->q_count; count++)
            check_cut(tile, first, count);
}

static void check_cuts_of_shape(rondo_layout_kind_t kind, int tokens, int ranks)
{
    DEALT struct rondo_layout *layout = dealt(kind, tokens, ranks);
    rondo_tile_t tiles[DEALT_TILES_MAX];

    if (tokens > 24 && tokens % 13 != 0)
        return;
    for (int m = 0; m < 2; m++) {
        for (int pair = 0; pair < ranks * ranks; pair++) {
            int count = dealt_tiles(layout, all_masks[m], pair / ranks, pair % ranks, tiles,
                                        DEALT_TILES_MAX);

            for (int t = 0; t < count; t++)
                check_all_cuts(&tiles[t]);
        }
    }
}

static void every_cut_sees_what_the_tile_sees(void **state)
{
    (void)state;
    deal_every_shape(check_cuts_of_shape);
}

/* Bands that today's masks do not make: both edges anywhere, inside the tile and far outside. */
static void any_band_is_cut_and_counted(void **state)
{
    rondo_tile_t tile = {.q_first = 5, .k_first = 7, .q_start = 100, .q_step = 3, .k_start = 50,
                         .k_step = 3};

    (void)state;
    for (tile.q_count = 1; tile.q_count <= 6; tile.q_count++)
        for (tile.k_count = 1; tile.k_count <= 6; tile.k_count++)
            for (tile.lo = -9; tile.lo <= 9; tile.lo++)
                for (tile.hi = tile.lo; tile.hi <= 9; tile.hi++) {
                    tile.kind = expected_kind(&tile);
                    assert_int_equal(ri_tile_pairs(&tile), count_pairs(&tile));
                    check_all_cuts(&tile);
                }
}

static void a_tile_may_be_cut_in_place(void **state)
{
    DEALT struct rondo_layout *layout = dealt(RONDO_LAYOUT_CONTIGUOUS, 20, 2);
    rondo_tile_t tile, piece;

    (void)state;
    assert_int_equal(dealt_tiles(layout, RONDO_MASK_CAUSAL, 1, 1, &tile, 1), 1);
    assert_int_equal(ri_tile_queries(&tile, 4, 3, &piece), 1);
    assert_int_equal(ri_tile_queries(&tile, 4, 3, &tile), 1);
    assert_int_equal(tile.q_first, piece.q_first);
    assert_int_equal(tile.q_start, piece.q_start);
    assert_int_equal(tile.k_count, 7);
    assert_int_equal(piece.k_count, 7);
    assert_int_equal(tile.lo, -4);
    assert_int_equal(piece.lo, -4);
}

/* INT32_MAX tokens: no overflow in a full or a causal tile, or in a cut of it. */
static void pairs_of_the_largest_tile(void **state)
{
    const int64_t n = INT32_MAX;
    DEALT struct rondo_layout *layout = dealt(RONDO_LAYOUT_STRIPED, n, 1);
    rondo_tile_t tile;

    (void)state;
    assert_int_equal(dealt_tiles(layout, RONDO_MASK_FULL, 0, 0, &tile, 1), 1);
    assert_int_equal(ri_tile_pairs(&tile), n * n);
    assert_int_equal(dealt_tiles(layout, RONDO_MASK_CAUSAL, 0, 0, &tile, 1), 1);
    assert_int_equal(ri_tile_pairs(&tile), n * (n + 1) / 2);
    assert_int_equal(ri_tile_queries(&tile, n - 2, 2, &tile), 1);
    assert_int_equal(ri_tile_pairs(&tile), 2 * n - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_cover_the_visible_pairs_once),
        cmocka_unit_test(tile_pairs_sum_to_the_area_of_the_mask),
        cmocka_unit_test(every_cut_sees_what_the_tile_sees),
        cmocka_unit_test(any_band_is_cut_and_counted),
        cmocka_unit_test(a_tile_may_be_cut_in_place),
        cmocka_unit_test(pairs_of_the_largest_tile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
