/* SPDX-License-Identifier: Apache-2.0 */
#include "layout/layout.h"

#include "base/minmax.h"

/* b > 0; C rounds towards zero, which is up for a negative quotient. */
static int64_t divide_up(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

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

/* A query at a + i*step sees a key at b + j*step iff i - j >= (b - a) / step, rounded up. */
static int run_pair_tile(const struct ri_token_run *q, const struct ri_token_run *k, rondo_mask_t mask,
                         rondo_tile_t *out)
{
    rondo_tile_t whole = {
        .q_first = q->index, .q_count = q->count, .q_start = q->start, .q_step = q->step,
        .k_first = k->index, .k_count = k->count, .k_start = k->start, .k_step = k->step,
        .lo = 1 - k->count, .hi = q->count - 1,
    };

    if (mask == RONDO_MASK_CAUSAL)
        whole.lo = ri_max64(whole.lo, divide_up(k->start - q->start, q->step));
    return ri_tile_queries(&whole, 0, whole.q_count, out);
}

int ri_layout_tiles(const struct rondo_layout *layout, rondo_mask_t mask, int q_rank, int k_rank,
                    rondo_tile_t *tiles, int max)
{
    struct ri_token_run q[RI_LAYOUT_RUNS_MAX], k[RI_LAYOUT_RUNS_MAX];
    int q_runs = ri_layout_runs(layout, q_rank, q);
    int k_runs = ri_layout_runs(layout, k_rank, k);
    rondo_tile_t tile;
    int count = 0;

    for (int i = 0; i < q_runs; i++) {
        for (int j = 0; j < k_runs; j++) {
            if (!run_pair_tile(&q[i], &k[j], mask, &tile))
                continue;
            if (count < max)
                tiles[count] = tile;
            count++;
        }
    }
    return count;
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
