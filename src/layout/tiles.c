/* SPDX-License-Identifier: Apache-2.0 */
#include "layout/layout.h"

#include "base/minmax.h"

static rondo_tile_kind_t band_kind(const rondo_tile_t *tile)
{
    if (tile->hi < tile->q_count - 1)
        return RONDO_TILE_BAND;
    if (tile->lo <= 1 - tile->k_count)
        return RONDO_TILE_FULL;
    if (tile->lo == 0)
        return RONDO_TILE_CAUSAL;
    return tile->lo == 1 ? RONDO_TILE_STRICT : RONDO_TILE_BAND;
}

int ri_tile_queries(const rondo_tile_t *tile, int64_t first, int64_t count, rondo_tile_t *out)
{
    /* Query i sees keys i - hi to i - lo: together the piece sees one run of keys. */
    int64_t k_first = ri_max64(0, first - tile->hi);
    int64_t k_end = ri_min64(tile->k_count, first + count - tile->lo);
    int64_t shift = k_first - first;
    rondo_tile_t piece = *tile;

    if (count < 1 || k_first >= k_end)
        return 0;
    piece.q_first += first;
    piece.q_count = count;
    piece.q_start += first * tile->q_step;
    piece.k_first += k_first;
    piece.k_count = k_end - k_first;
    piece.k_start += k_first * tile->k_step;
    piece.lo = ri_max64(tile->lo + shift, 1 - piece.k_count);
    piece.hi = ri_min64(tile->hi + shift, count - 1);
    piece.kind = band_kind(&piece);
    *out = piece;
    return 1;
}

int ri_tile_keys(const rondo_tile_t *tile, int64_t first, int64_t count, rondo_tile_t *out)
{
    /* Key j is seen by queries j + lo to j + hi: together the piece is seen by one run of queries. */
    int64_t q_first = ri_max64(0, first + tile->lo);
    int64_t q_end = ri_min64(tile->q_count, first + count + tile->hi);
    int64_t shift = first - q_first;
    rondo_tile_t piece = *tile;

    if (count < 1 || q_first >= q_end)
        return 0;
    piece.k_first += first;
    piece.k_count = count;
    piece.k_start += first * tile->k_step;
    piece.q_first += q_first;
    piece.q_count = q_end - q_first;
    piece.q_start += q_first * tile->q_step;
    piece.lo = ri_max64(tile->lo + shift, 1 - count);
    piece.hi = ri_min64(tile->hi + shift, piece.q_count - 1);
    piece.kind = band_kind(&piece);
    *out = piece;
    return 1;
}

int ri_tile_trim(rondo_tile_t *tile)
{
    int64_t first, end;

    if (tile->q_count < 1 || tile->k_count < 1 || tile->lo > tile->hi)
        return 0;
    /* Keys [0, k_count) are seen by queries lo to k_count - 1 + hi. */
    first = ri_max64(0, tile->lo);
    end = ri_min64(tile->q_count, tile->k_count + tile->hi);
    return first < end && ri_tile_queries(tile, first, end - first, tile);
}

/* Sum of min(width, max(0, u)) over all u <= t. */
static int64_t ramp_sum(int64_t t, int64_t width)
{
    if (t <= 0)
        return 0;
    if (t <= width)
        return t * (t + 1) / 2;
    return width * (width + 1) / 2 + (t - width) * width;
}

/* Pairs with i - j >= least: query i has min(k_count, max(0, i - least + 1)) such keys. */
static int64_t pairs_from(const rondo_tile_t *tile, int64_t least)
{
    return ramp_sum(tile->q_count - least, tile->k_count) - ramp_sum(-least, tile->k_count);
}

int64_t ri_tile_pairs(const rondo_tile_t *tile)
{
    return pairs_from(tile, tile->lo) - pairs_from(tile, tile->hi + 1);
}
