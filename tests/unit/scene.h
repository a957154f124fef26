/* SPDX-License-Identifier: Apache-2.0 */
/* Queries, keys and a mask of a few tokens, and who sees whom by the words of rondo/mask.h: pair by pair. */
#ifndef TEST_SCENE_H
#define TEST_SCENE_H

#include "layout/balance.h"
#include "layout/sight.h"
#include "tests/unit/deal.h"

enum { SCENE_TOKENS = 40, SCENE_DOCUMENTS = 40, SCENE_RANKS = 5, SCENE_RANGES = 8 };

struct scene_batch {
    int tokens, documents; /* 0: not packed */
    int64_t cu_seqlens[SCENE_DOCUMENTS + 1], lengths[SCENE_DOCUMENTS];
};

struct scene_side {
    rondo_layout_kind_t kind;
    rondo_deal_t deal;
    int64_t chunk_tokens;
    rondo_mask_t balance; /* of the scene's params */
    int max_tokens, max_documents;
    struct scene_batch batch;
};

struct scene {
    int ranks;
    struct scene_side q, k;
    rondo_mask_t mask;
    rondo_mask_params_t params; /* borrows blocks and ranges: scene_params sets that */
    uint8_t blocks[SCENE_TOKENS * SCENE_TOKENS];
    rondo_range_t ranges[SCENE_RANGES];
};

static inline const rondo_mask_params_t *scene_params(struct scene *scene)
{
    scene->params.blocks = scene->blocks;
    scene->params.ranges = scene->ranges;
    return &scene->params;
}

/* ---- the definition ---- */

/* -1: padding.  *first, *length: of the document. */
static inline int scene_document(const struct scene_batch *batch, int position, int64_t *first, int64_t *length)
{
    *first = 0;
    *length = batch->tokens;
    for (int d = 0; d < batch->documents; d++) {
        *first = batch->cu_seqlens[d];
        *length = batch->lengths[d];
        if (position >= *first && position < *first + *length)
            return d;
    }
    return batch->documents ? -1 : 0;
}

static inline int scene_range_sees(const rondo_range_t *range, int64_t i, int64_t j)
{
    int causal = i - j >= range->q_count - range->k_count, inverse = i - j <= 0;

    if (i < 0 || i >= range->q_count || j < 0 || j >= range->k_count)
        return 0;
    if (range->kind == RONDO_RANGE_BAND)
        return range->lo <= i - j && i - j <= range->hi;
    return (causal || range->kind == RONDO_RANGE_FULL || range->kind == RONDO_RANGE_INVERSE) &&
           (inverse || range->kind == RONDO_RANGE_FULL || range->kind == RONDO_RANGE_CAUSAL);
}

/* How many ranges say that the query sees the key. */
static inline int scene_ranges_see(const rondo_range_t *ranges, int count, int q, int k)
{
    int times = 0;

    for (int r = 0; r < count; r++)
        times += scene_range_sees(&ranges[r], q - ranges[r].q_first, k - ranges[r].k_first);
    return times;
}

static inline int scene_sees_within(const struct scene *scene, int64_t q, int64_t k, int64_t key_of_document)
{
    const rondo_mask_params_t *params = &scene->params;

    switch (scene->mask) {
    case RONDO_MASK_CAUSAL:
        return k <= q;
    case RONDO_MASK_STRICT:
        return k < q;
    case RONDO_MASK_PREFIX:
        return k <= q || key_of_document < params->prefix;
    case RONDO_MASK_WINDOW:
        return (params->left == -1 || q - k <= params->left) && (params->right == -1 || k - q <= params->right);
    default:
        return 1;
    }
}

/* Blocks are rows of those of the most tokens. */
static inline int scene_sees(const struct scene *scene, int q, int k)
{
    const rondo_mask_params_t *params = &scene->params;
    int64_t q_first, q_length, k_first, k_length, side = params->block_tokens;
    int q_document = scene_document(&scene->q.batch, q, &q_first, &q_length);
    int k_document = scene_document(&scene->k.batch, k, &k_first, &k_length);

    if (scene->mask == RONDO_MASK_BLOCKS)
        return scene->blocks[q / side * ((scene->k.max_tokens + side - 1) / side) + k / side] != 0;
    if (scene->mask == RONDO_MASK_RANGES)
        return scene_ranges_see(scene->ranges, params->range_count, q, k);
    if (q_document < 0 || q_document != k_document)
        return 0;
    if (params->align_ends) /* counted back from the last, which is at 0 */
        return scene_sees_within(scene, q - q_first - q_length, k - k_first - k_length, k - k_first);
    return scene_sees_within(scene, q - q_first, k - k_first, k - k_first);
}

/* ---- layouts ---- */

static inline struct rondo_layout *scene_layout(struct scene *scene, const struct scene_side *side)
{
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    struct rondo_layout *layout = NULL;

    desc.kind = side->kind;
    desc.deal = side->kind == RONDO_LAYOUT_BALANCED ? RONDO_DEAL_SEQUENCE : side->deal;
    desc.tokens = side->batch.tokens;
    desc.ranks = scene->ranks;
    desc.documents = side->batch.documents;
    desc.max_documents = side->max_documents;
    if (desc.documents) {
        desc.cu_seqlens = side->batch.cu_seqlens;
        desc.lengths = side->batch.lengths;
    }
    desc.mask = side->balance;
    desc.mask_params = scene_params(scene);
    desc.chunk_tokens = side->chunk_tokens;
    assert_int_equal(ri_layout_make(&desc, &layout), 0);
    return layout;
}

struct scene_shards {
    int count[SCENE_RANKS], position[SCENE_RANKS][SCENE_TOKENS];
};

/* Slots [first, first + slots) as a sequence of their own. */
static inline void scene_deal_slots(const struct scene_side *side, int ranks, int64_t first, int64_t slots,
                                    struct scene_shards *shards)
{
    struct deal d = deal(side->kind, (int)slots, ranks);

    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < d.count[r]; i++)
            shards->position[r][shards->count[r]++] = (int)first + d.position[r][i];
}

/* By cards; chunks of a balanced layout are taken from it. */
static inline struct scene_shards scene_shards(const struct rondo_layout *layout, const struct scene_side *side)
{
    const struct scene_batch *batch = &side->batch;
    struct scene_shards shards = { .count = { 0 } };

    if (side->kind == RONDO_LAYOUT_BALANCED) {
        for (int p = 0; p < batch->tokens; p++) {
            int r = layout->balance->rank[p / layout->balance->chunk_tokens];

            shards.position[r][shards.count[r]++] = p;
        }
    } else if (side->deal == RONDO_DEAL_SEQUENCE || batch->documents == 0) {
        scene_deal_slots(side, layout->ranks, 0, batch->tokens, &shards);
    } else {
        for (int d = 0; d < batch->documents; d++)
            scene_deal_slots(side, layout->ranks, batch->cu_seqlens[d],
                             batch->cu_seqlens[d + 1] - batch->cu_seqlens[d], &shards);
    }
    return shards;
}

static inline void scene_check_layout(const struct rondo_layout *layout, const struct scene_shards *shards)
{
    int64_t largest = 0;

    for (int r = 0; r < layout->ranks; r++) {
        assert_int_equal(ri_layout_tokens(layout, r), shards->count[r]);
        largest = shards->count[r] > largest ? shards->count[r] : largest;
        for (int i = 0; i < shards->count[r]; i++) {
            int64_t index;
            int rank;

            ri_layout_owner(layout, shards->position[r][i], &rank, &index);
            if (ri_layout_position(layout, r, i) != shards->position[r][i] || rank != r || index != i)
                fail_msg("rank %d, index %d is not at %d", r, i, shards->position[r][i]);
        }
    }
    assert_int_equal(ri_layout_largest(layout), largest);
    assert_true(largest <= ri_layout_most_largest(layout));
}

/* ---- tiles ---- */

static inline int scene_tile_sees(const rondo_tile_t *tile, int64_t i, int64_t j)
{
    return tile->lo <= i - j && i - j <= tile->hi;
}

/* The first of full, causal, strict that describes every pair, else band. */
static inline rondo_tile_kind_t scene_tile_kind(const rondo_tile_t *tile)
{
    int full = 1, causal = 1, strict = 1;

    for (int64_t i = 0; i < tile->q_count; i++) {
        for (int64_t j = 0; j < tile->k_count; j++) {
            full &= scene_tile_sees(tile, i, j);
            causal &= scene_tile_sees(tile, i, j) == (j <= i);
            strict &= scene_tile_sees(tile, i, j) == (j < i);
        }
    }
    if (full)
        return RONDO_TILE_FULL;
    return causal ? RONDO_TILE_CAUSAL : strict ? RONDO_TILE_STRICT : RONDO_TILE_BAND;
}

static inline int scene_row_sees(const rondo_tile_t *tile, int64_t i)
{
    int seen = 0;

    for (int64_t j = 0; j < tile->k_count; j++)
        seen |= scene_tile_sees(tile, i, j);
    return seen;
}

static inline int scene_column_is_seen(const rondo_tile_t *tile, int64_t j)
{
    int seen = 0;

    for (int64_t i = 0; i < tile->q_count; i++)
        seen |= scene_tile_sees(tile, i, j);
    return seen;
}

static inline void scene_check_tile(const rondo_tile_t *tile, const int *q, int q_count, const int *k, int k_count)
{
    int wrong = 0;

    assert_true(tile->q_count > 0 && tile->k_count > 0);
    assert_true(tile->q_first >= 0 && tile->q_first + tile->q_count <= q_count);
    assert_true(tile->k_first >= 0 && tile->k_first + tile->k_count <= k_count);
    for (int64_t i = 0; i < tile->q_count; i++)
        wrong |= tile->q_start + i * tile->q_step != q[tile->q_first + i];
    for (int64_t j = 0; j < tile->k_count; j++)
        wrong |= tile->k_start + j * tile->k_step != k[tile->k_first + j];
    if (wrong)
        fail_msg("a position is not true");
    assert_true(scene_row_sees(tile, 0) && scene_row_sees(tile, tile->q_count - 1));
    assert_true(scene_column_is_seen(tile, 0) && scene_column_is_seen(tile, tile->k_count - 1));
    assert_int_equal(tile->kind, scene_tile_kind(tile));
}

/* Returns the pairs of the block pair, and marks them by position. */
static inline int64_t scene_check_block(const struct ri_sight *sight, const struct scene_shards *q,
                                        const struct scene_shards *k, int q_rank, int k_rank,
                                        unsigned char seen[SCENE_TOKENS][SCENE_TOKENS])
{
    static rondo_tile_t tiles[SCENE_TOKENS * SCENE_TOKENS];
    struct ri_sight_bound bound = ri_sight_bound(sight);
    int64_t count = ri_sight_tiles(sight, q_rank, k_rank, tiles, SCENE_TOKENS * SCENE_TOKENS), pairs = 0;
    int of_query[SCENE_TOKENS] = { 0 }, of_key[SCENE_TOKENS] = { 0 }, of_pair[SCENE_TOKENS][SCENE_TOKENS] = { { 0 } };

    assert_true(count <= bound.tiles);
    for (int64_t t = 0; t < count; t++) {
        const rondo_tile_t *tile = &tiles[t];

        scene_check_tile(tile, q->position[q_rank], q->count[q_rank], k->position[k_rank], k->count[k_rank]);
        for (int64_t i = 0; i < tile->q_count; i++)
            assert_true(++of_query[tile->q_first + i] <= bound.of_query);
        for (int64_t j = 0; j < tile->k_count; j++)
            assert_true(++of_key[tile->k_first + j] <= bound.of_key);
        for (int64_t i = 0; i < tile->q_count; i++) {
            for (int64_t j = 0; j < tile->k_count; j++) {
                int sees = scene_tile_sees(tile, i, j);

                assert_true(++of_pair[tile->q_first + i][tile->k_first + j] <= bound.of_pair);
                pairs += sees;
                seen[tile->q_start + i * tile->q_step][tile->k_start + j * tile->k_step] += (unsigned char)sees;
            }
        }
    }
    assert_int_equal(ri_sight_tiles(sight, q_rank, k_rank, NULL, 0), count);
    assert_int_equal(ri_sight_pairs(sight, q_rank, k_rank), pairs);
    return pairs;
}

/* All that holds of a sight whose layouts hold the scene's batches. */
static inline void scene_check(const struct scene *scene, const struct ri_sight *sight)
{
    unsigned char seen[SCENE_TOKENS][SCENE_TOKENS] = { { 0 } };
    struct scene_shards q = scene_shards(sight->q, &scene->q), k = scene_shards(sight->k, &scene->k);

    scene_check_layout(sight->q, &q);
    scene_check_layout(sight->k, &k);
    for (int q_rank = 0; q_rank < scene->ranks; q_rank++) {
        int64_t pairs = 0;

        for (int k_rank = 0; k_rank < scene->ranks; k_rank++)
            pairs += scene_check_block(sight, &q, &k, q_rank, k_rank, seen);
        assert_int_equal(ri_sight_query_pairs(sight, q_rank), pairs);
    }
    for (int i = 0; i < scene->q.batch.tokens; i++) {
        for (int j = 0; j < scene->k.batch.tokens; j++) {
            int sees = scene_sees(scene, i, j);

            if (seen[i][j] != sees)
                fail_msg("mask %d: query %d sees key %d %d times, and is in %d tiles", scene->mask, i, j, sees,
                         seen[i][j]);
            if (ri_mask_sees(&sight->mask, sight->q, sight->k, i, j) != sees)
                fail_msg("mask %d: ri_mask_sees is wrong of query %d and key %d", scene->mask, i, j);
        }
    }
}

/* ---- by chance ---- */

static inline int scene_below(uint64_t *state, int n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int)((*state >> 33) % (uint64_t)n);
}

/* Documents of any length, some empty, some of one token; padding where it is asked for. */
static inline void scene_cut(struct scene_batch *batch, int tokens, int documents, int padded, uint64_t *state)
{
    batch->tokens = tokens;
    batch->documents = documents;
    for (int d = 1; d < documents; d++) {
        int64_t end = scene_below(state, tokens + 1);
        int e = d;

        for (; e > 1 && batch->cu_seqlens[e - 1] > end; e--)
            batch->cu_seqlens[e] = batch->cu_seqlens[e - 1];
        batch->cu_seqlens[e] = end;
    }
    batch->cu_seqlens[0] = 0;
    batch->cu_seqlens[documents] = tokens;
    for (int d = 0; d < documents; d++) {
        batch->lengths[d] = batch->cu_seqlens[d + 1] - batch->cu_seqlens[d];
        if (padded && scene_below(state, 3))
            batch->lengths[d] = scene_below(state, (int)batch->lengths[d] + 1);
    }
}

static inline void scene_any_blocks(struct scene *scene, uint64_t *state)
{
    scene->params.block_tokens = 1 + scene_below(state, 6);
    for (int i = 0; i < SCENE_TOKENS * SCENE_TOKENS; i++)
        scene->blocks[i] = (uint8_t)(scene_below(state, 3) ? 0 : 1 + scene_below(state, 255));
}

static inline rondo_range_t scene_any_range(const struct scene *scene, uint64_t *state)
{
    int q = scene->q.max_tokens, k = scene->k.max_tokens;
    rondo_range_t range = { .q_first = scene_below(state, q + 1), .k_first = scene_below(state, k + 1),
                            .kind = (rondo_range_kind_t)scene_below(state, 5) };

    range.q_count = scene_below(state, q + 1 - (int)range.q_first);
    range.k_count = scene_below(state, k + 1 - (int)range.k_first);
    range.lo = scene_below(state, 2 * k) - k;
    range.hi = range.lo + scene_below(state, 6);
    return range;
}

static inline int scene_overlaps(const struct scene *scene, int count)
{
    for (int i = 0; i < scene->q.max_tokens; i++)
        for (int j = 0; j < scene->k.max_tokens; j++)
            if (scene_ranges_see(scene->ranges, count, i, j) > 1)
                return 1;
    return 0;
}

/* Each that would overlap those before it is left out. */
static inline void scene_any_ranges(struct scene *scene, uint64_t *state)
{
    int tries = scene_below(state, SCENE_RANGES + 1), count = 0;

    for (int i = 0; i < tries; i++) {
        scene->ranges[count] = scene_any_range(scene, state);
        count += !scene_overlaps(scene, count + 1);
    }
    scene->params.range_count = count;
}

#endif
