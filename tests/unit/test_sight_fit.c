/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts and sights that were made for maxima and fitted to other batches are those of the batches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/scene.h"

enum { MOST_DOCUMENTS = 9, TILES_MAX = SCENE_TOKENS * SCENE_TOKENS };

static void fit(struct rondo_layout *layout, const struct scene_batch *batch)
{
    const int64_t *cu_seqlens = batch->documents ? batch->cu_seqlens : NULL;
    const int64_t *lengths = batch->documents ? batch->lengths : NULL;

    assert_int_equal(ri_layout_fit(layout, batch->tokens, cu_seqlens, batch->documents, lengths), 0);
}

/* A range of any kind, as a band that ends with the batch. */
static rondo_range_t cut_range(const rondo_range_t *range, int64_t q_tokens, int64_t k_tokens)
{
    int64_t q_left = q_tokens - range->q_first, k_left = k_tokens - range->k_first;
    rondo_range_t band = *range;

    band.kind = RONDO_RANGE_BAND;
    if (range->kind == RONDO_RANGE_FULL || range->kind == RONDO_RANGE_INVERSE)
        band.lo = -range->k_count;
    if (range->kind == RONDO_RANGE_CAUSAL || range->kind == RONDO_RANGE_BICAUSAL)
        band.lo = range->q_count - range->k_count;
    if (range->kind == RONDO_RANGE_FULL || range->kind == RONDO_RANGE_CAUSAL)
        band.hi = range->q_count;
    if (range->kind == RONDO_RANGE_INVERSE || range->kind == RONDO_RANGE_BICAUSAL)
        band.hi = 0;
    if (q_left < 0 || k_left < 0 || band.lo > band.hi)
        return (rondo_range_t){ .q_first = 0 };
    band.q_count = band.q_count < q_left ? band.q_count : q_left;
    band.k_count = band.k_count < k_left ? band.k_count : k_left;
    return band;
}

/* The same scene, made for the batch alone. */
static struct scene cut_scene(const struct scene *scene)
{
    struct scene cut = *scene;
    int64_t side = scene->params.block_tokens;
    int64_t rows = (scene->q.batch.tokens + side - 1) / side, cols = (scene->k.batch.tokens + side - 1) / side;
    int64_t full_cols = (scene->k.max_tokens + side - 1) / side;

    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            cut.blocks[r * cols + c] = scene->blocks[r * full_cols + c];
    for (int i = 0; i < scene->params.range_count; i++)
        cut.ranges[i] = cut_range(&scene->ranges[i], scene->q.batch.tokens, scene->k.batch.tokens);
    cut.q.max_tokens = scene->q.batch.tokens;
    cut.k.max_tokens = scene->k.batch.tokens;
    cut.q.max_documents = cut.k.max_documents = 0;
    return cut;
}

static void assert_tiles_are_the_same(const struct ri_sight *a, const struct ri_sight *b, int q_rank, int k_rank)
{
    static rondo_tile_t a_tiles[TILES_MAX], b_tiles[TILES_MAX];
    int64_t count = ri_sight_tiles(a, q_rank, k_rank, a_tiles, TILES_MAX);

    assert_int_equal(ri_sight_tiles(b, q_rank, k_rank, b_tiles, TILES_MAX), count);
    for (int64_t t = 0; t < count; t++) {
        assert_int_equal(a_tiles[t].q_first, b_tiles[t].q_first);
        assert_int_equal(a_tiles[t].q_count, b_tiles[t].q_count);
        assert_int_equal(a_tiles[t].q_start, b_tiles[t].q_start);
        assert_int_equal(a_tiles[t].k_first, b_tiles[t].k_first);
        assert_int_equal(a_tiles[t].k_count, b_tiles[t].k_count);
        assert_int_equal(a_tiles[t].k_start, b_tiles[t].k_start);
        assert_int_equal(a_tiles[t].lo, b_tiles[t].lo);
        assert_int_equal(a_tiles[t].hi, b_tiles[t].hi);
        assert_int_equal(a_tiles[t].kind, b_tiles[t].kind);
    }
}

/* Fitted, against layouts and a sight that are made for the batch. */
static void check_as_fresh(const struct scene *scene, const struct ri_sight *sight)
{
    struct scene cut = cut_scene(scene);
    struct rondo_layout *q = scene_layout(&cut, &cut.q), *k = scene_layout(&cut, &cut.k);
    struct ri_sight fresh;

    assert_int_equal(ri_sight_init(&fresh, q, k, cut.mask, scene_params(&cut)), 0);
    for (int q_rank = 0; q_rank < cut.ranks; q_rank++)
        for (int k_rank = 0; k_rank < cut.ranks; k_rank++)
            assert_tiles_are_the_same(sight, &fresh, q_rank, k_rank);
    assert_true(fresh.room <= sight->room);
    assert_int_equal(ri_layout_hash(sight->q), ri_layout_hash(q));
    assert_int_equal(ri_layout_hash(sight->k), ri_layout_hash(k));
    ri_sight_release(&fresh);
    ri_layout_free(q);
    ri_layout_free(k);
}

static void any_batch(struct scene_side *side, int tokens, int documents, uint64_t *chance)
{
    if (documents)
        scene_cut(&side->batch, tokens, documents, scene_below(chance, 2), chance);
    else
        side->batch = (struct scene_batch){ .tokens = tokens };
}

static struct scene any_scene(rondo_mask_t mask, uint64_t *chance)
{
    static const int kinds[][2] = { { 0, 0 }, { 1, 1 }, { 2, 2 }, { 3, 3 }, { 3, 1 }, { 0, 3 } };
    int pair = scene_below(chance, 6), tokens = 1 + scene_below(chance, SCENE_TOKENS);
    int takes_documents = mask < RONDO_MASK_BLOCKS;
    struct scene scene = { .ranks = 1 + scene_below(chance, SCENE_RANKS), .mask = mask,
                           .params = RONDO_MASK_PARAMS_INIT };

    scene.q = scene.k = (struct scene_side){
        .max_tokens = tokens, .max_documents = takes_documents ? scene_below(chance, 2) * MOST_DOCUMENTS : 0,
        .deal = (rondo_deal_t)scene_below(chance, 2), .balance = mask, .chunk_tokens = scene_below(chance, 4),
    };
    scene.q.kind = (rondo_layout_kind_t)kinds[pair][0];
    scene.k.kind = (rondo_layout_kind_t)kinds[pair][1];
    if (takes_documents && scene_below(chance, 2))
        scene.k.max_tokens = 1 + scene_below(chance, SCENE_TOKENS);
    scene.params.left = scene_below(chance, 5) - 1;
    scene.params.right = scene_below(chance, 5) - 1;
    scene.params.prefix = scene_below(chance, 5);
    scene.params.align_ends = scene_below(chance, 2);
    scene_any_blocks(&scene, chance);
    scene_any_ranges(&scene, chance);
    any_batch(&scene.q, scene.q.max_tokens, scene.q.max_documents, chance);
    any_batch(&scene.k, scene.k.max_tokens, scene.k.max_documents, chance);
    return scene;
}

/* A batch that the layout refuses leaves it as it was. */
static void refuse(struct rondo_layout *layout)
{
    uint64_t hash = ri_layout_hash(layout);

    assert_int_equal(ri_layout_fit(layout, layout->most_tokens + 1, NULL, 0, NULL), RONDO_ERR_ARGUMENT);
    assert_int_equal(ri_layout_fit(layout, 1, (const int64_t[]){ 0, 2 }, 1, NULL), RONDO_ERR_ARGUMENT);
    assert_int_equal(ri_layout_hash(layout), hash);
}

static void fitted_is_as_fresh(void **state)
{
    uint64_t chance = 4;

    (void)state;
    for (int i = 0; i < 3000; i++) {
        struct scene scene = any_scene((rondo_mask_t)(i % 7), &chance);
        struct rondo_layout *q = scene_layout(&scene, &scene.q), *k = scene_layout(&scene, &scene.k);
        struct rondo_layout *q_copy;
        struct ri_sight sight;

        assert_int_equal(ri_layout_copy(q, &q_copy), 0);
        assert_int_equal(ri_layout_desc_hash(q_copy), ri_layout_desc_hash(q));
        assert_int_equal(ri_sight_init(&sight, q_copy, k, scene.mask, scene_params(&scene)), 0);
        for (int batch = 0; batch < 4; batch++) {
            int documents = scene.q.max_documents ? scene_below(&chance, MOST_DOCUMENTS + 1) : 0;

            any_batch(&scene.q, 1 + scene_below(&chance, scene.q.max_tokens), documents, &chance);
            any_batch(&scene.k, 1 + scene_below(&chance, scene.k.max_tokens), documents, &chance);
            if (scene.mask >= RONDO_MASK_BLOCKS) /* balanced for both */
                scene.k.batch = scene.q.batch;
            fit(q_copy, &scene.q.batch);
            fit(k, &scene.k.batch);
            refuse(k);
            assert_int_equal(ri_sight_fit(&sight), 0);
            scene_check(&scene, &sight);
            check_as_fresh(&scene, &sight);
        }
        ri_sight_release(&sight);
        ri_layout_free(q);
        ri_layout_free(q_copy);
        ri_layout_free(k);
    }
}

/* Every batch of up to so many tokens: the most that a shard may have, and the most runs. */
static void no_batch_exceeds_the_most(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * 40 * SCENE_RANKS * 4; i++) {
        rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
        struct rondo_layout *layout;

        desc.kind = (rondo_layout_kind_t)(i % 4);
        desc.tokens = 1 + 5 * (i / 4 % 40);
        desc.ranks = 1 + i / 160 % SCENE_RANKS;
        desc.mask = i / 800 % 2 ? RONDO_MASK_CAUSAL : RONDO_MASK_FULL;
        desc.chunk_tokens = 3 * (i / 1600);
        assert_int_equal(ri_layout_make(&desc, &layout), 0);
        for (int64_t tokens = 1; tokens <= desc.tokens; tokens++) {
            assert_int_equal(ri_layout_fit(layout, tokens, NULL, 0, NULL), 0);
            assert_true(ri_layout_largest(layout) <= ri_layout_most_largest(layout));
            for (int r = 0; r < desc.ranks; r++) {
                int runs;

                ri_layout_runs(layout, r, &runs);
                assert_true(runs <= ri_layout_most_runs(layout));
            }
        }
        ri_layout_free(layout);
    }
}

/* A document d has 1 + d mod 37 tokens.  Were tiles sought in all areas for all runs, this took minutes. */
static void ten_thousand_documents(void **state)
{
    enum { DOCUMENTS = 10000 };
    static int64_t cu_seqlens[DOCUMENTS + 1];
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    int64_t expected = 0;

    (void)state;
    for (int64_t d = 0; d < DOCUMENTS; d++) {
        cu_seqlens[d + 1] = cu_seqlens[d] + 1 + d % 37;
        expected += (1 + d % 37) * (2 + d % 37) / 2;
    }
    desc.cu_seqlens = cu_seqlens;
    desc.documents = DOCUMENTS;
    desc.tokens = cu_seqlens[DOCUMENTS];
    desc.ranks = 8;
    desc.mask = RONDO_MASK_CAUSAL;
    for (int i = 0; i < 7; i++) {
        struct rondo_layout *layout;
        struct ri_sight sight;
        int64_t pairs = 0;

        desc.kind = (rondo_layout_kind_t)(i % 4);
        desc.deal = (rondo_deal_t)(i / 4);
        assert_int_equal(ri_layout_make(&desc, &layout), 0);
        assert_int_equal(ri_sight_init(&sight, layout, layout, RONDO_MASK_CAUSAL, NULL), 0);
        for (int q = 0; q < desc.ranks; q++)
            for (int k = 0; k < desc.ranks; k++)
                pairs += ri_sight_pairs(&sight, q, k);
        assert_int_equal(pairs, expected);
        ri_sight_release(&sight);
        ri_layout_free(layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fitted_is_as_fresh),
        cmocka_unit_test(no_batch_exceeds_the_most),
        cmocka_unit_test(ten_thousand_documents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
