/* SPDX-License-Identifier: Apache-2.0 */
/* The tiles of all pairs of ranks are the pairs that a mask lets see: each once, and no other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/scene.h"

static void check(struct scene *scene)
{
    struct rondo_layout *q = scene_layout(scene, &scene->q), *k = scene_layout(scene, &scene->k);
    struct ri_sight sight;

    assert_int_equal(ri_sight_init(&sight, q, k, scene->mask, scene_params(scene)), 0);
    scene_check(scene, &sight);
    ri_sight_release(&sight);
    ri_layout_free(q);
    ri_layout_free(k);
}

static const struct {
    rondo_mask_t kind;
    int64_t left, right, prefix;
} masks[] = {
    { RONDO_MASK_FULL, -1, -1, 0 },  { RONDO_MASK_CAUSAL, -1, -1, 0 }, { RONDO_MASK_STRICT, -1, -1, 0 },
    { RONDO_MASK_WINDOW, -1, -1, 0 }, { RONDO_MASK_WINDOW, 0, 0, 0 },  { RONDO_MASK_WINDOW, 2, 0, 0 },
    { RONDO_MASK_WINDOW, 0, 2, 0 },  { RONDO_MASK_WINDOW, 3, 1, 0 },   { RONDO_MASK_WINDOW, -1, 0, 0 },
    { RONDO_MASK_WINDOW, 0, -1, 0 }, { RONDO_MASK_WINDOW, -1, 2, 0 },  { RONDO_MASK_WINDOW, 2, -1, 0 },
    { RONDO_MASK_WINDOW, INT64_MAX, 7, 0 }, { RONDO_MASK_WINDOW, 5, INT64_MAX, 0 },
    { RONDO_MASK_PREFIX, -1, -1, 0 }, { RONDO_MASK_PREFIX, -1, -1, 1 }, { RONDO_MASK_PREFIX, -1, -1, 3 },
    { RONDO_MASK_PREFIX, -1, -1, INT64_MAX },
};

enum { MASK_COUNT = sizeof(masks) / sizeof(masks[0]), KIND_COUNT = 4 };

static struct scene scene_of(int mask, int ranks)
{
    struct scene scene = { .ranks = ranks, .mask = masks[mask].kind, .params = RONDO_MASK_PARAMS_INIT };

    scene.params.left = masks[mask].left;
    scene.params.right = masks[mask].right;
    scene.params.prefix = masks[mask].prefix;
    return scene;
}

static struct scene_side side_of(int kind, int tokens)
{
    return (struct scene_side){ .kind = (rondo_layout_kind_t)kind, .max_tokens = tokens,
                                .batch = { .tokens = tokens } };
}

/* Balanced for the mask itself, in chunks of 2, or for the causal one in chunks that are chosen. */
static void set_balance(struct scene *scene, struct scene_side *side, int fine)
{
    side->balance = fine ? scene->mask : RONDO_MASK_CAUSAL;
    side->chunk_tokens = fine ? 2 : 0;
}

static void one_document(void **state)
{
    (void)state;
    for (int mask = 0; mask < MASK_COUNT; mask++) {
        for (int ranks = 1; ranks <= SCENE_RANKS; ranks++) {
            struct scene scene = scene_of(mask, ranks);

            for (int kind = 0; kind < KIND_COUNT; kind++) {
                for (int tokens = 1; tokens <= 17; tokens++) {
                    scene.q = side_of(kind, tokens);
                    set_balance(&scene, &scene.q, tokens % 2);
                    scene.k = scene.q;
                    check(&scene);
                }
            }
        }
    }
}

/* Ends of documents, -1 behind the last; and whether the last token of each is padding. */
static const struct {
    int padded, ends[12];
} packs[] = {
    { 0, { 24, -1 } },
    { 1, { 24, -1 } },
    { 0, { 8, 16, 24, -1 } },
    { 0, { 0, 0, 1, 2, 7, 7, 20, 23, 24, 24, -1 } },
    { 1, { 0, 1, 2, 3, 9, 9, 22, 24, -1 } },
    { 0, { 1, 2, 3, 4, 5, 6, 7, 24, -1 } },
    { 1, { 13, 24, 24, -1 } },
    { 0, { 23, 24, -1 } },
};

static struct scene_batch pack(int number)
{
    struct scene_batch batch = { .tokens = 24 };
    int64_t first = 0;

    for (int d = 0; packs[number].ends[d] >= 0; d++) {
        batch.cu_seqlens[d + 1] = packs[number].ends[d];
        batch.lengths[d] = packs[number].ends[d] - first;
        if (packs[number].padded && batch.lengths[d])
            batch.lengths[d]--;
        first = packs[number].ends[d];
        batch.documents = d + 1;
    }
    return batch;
}

static void packed_documents(void **state)
{
    (void)state;
    for (int mask = 0; mask < MASK_COUNT; mask++) {
        for (int ranks = 1; ranks <= SCENE_RANKS; ranks++) {
            for (int shape = 0; shape < 2 * KIND_COUNT; shape++) {
                for (int p = 0; p < (int)(sizeof(packs) / sizeof(packs[0])); p++) {
                    struct scene scene = scene_of(mask, ranks);

                    scene.q = side_of(shape / 2, 24);
                    scene.q.deal = (rondo_deal_t)(shape % 2);
                    scene.q.batch = pack(p);
                    set_balance(&scene, &scene.q, p % 2);
                    scene.k = scene.q;
                    check(&scene);
                }
            }
        }
    }
}

/* Kinds may differ, but striped goes with striped alone. */
static const int pairs_of_kinds[][2] = { { 0, 0 }, { 1, 1 }, { 2, 2 }, { 3, 3 }, { 0, 1 }, { 1, 0 }, { 3, 1 }, { 0, 3 } };

static void as_many_fewer_and_more_keys(void **state)
{
    static const int counts[] = { 1, 2, 5, 8, 13 };

    (void)state;
    for (int mask = 0; mask < MASK_COUNT; mask++) {
        for (int ranks = 1; ranks <= SCENE_RANKS; ranks++) {
            for (int pair = 0; pair < 8 * 2 * 25; pair++) {
                struct scene scene = scene_of(mask, ranks);

                scene.params.align_ends = pair / 25 % 2;
                scene.q = side_of(pairs_of_kinds[pair / 50][0], counts[pair % 5]);
                scene.k = side_of(pairs_of_kinds[pair / 50][1], counts[pair / 5 % 5]);
                set_balance(&scene, &scene.q, 0);
                set_balance(&scene, &scene.k, 1);
                check(&scene);
            }
        }
    }
}

static struct scene any_scene(uint64_t *chance)
{
    struct scene scene = scene_of(scene_below(chance, MASK_COUNT), 1 + scene_below(chance, SCENE_RANKS));
    const int *kinds = pairs_of_kinds[scene_below(chance, 8)];
    int documents = scene_below(chance, 3) ? 1 + scene_below(chance, 9) : 0;

    scene.q = side_of(kinds[0], 1 + scene_below(chance, SCENE_TOKENS));
    scene.k = side_of(kinds[1], scene_below(chance, 2) ? scene.q.max_tokens : 1 + scene_below(chance, SCENE_TOKENS));
    set_balance(&scene, &scene.q, scene_below(chance, 2));
    set_balance(&scene, &scene.k, scene_below(chance, 2));
    if (documents) {
        scene_cut(&scene.q.batch, scene.q.max_tokens, documents, scene_below(chance, 2), chance);
        scene_cut(&scene.k.batch, scene.k.max_tokens, documents, scene_below(chance, 2), chance);
    }
    scene.q.deal = (rondo_deal_t)scene_below(chance, 2);
    scene.k.deal = (rondo_deal_t)scene_below(chance, 2);
    scene.params.align_ends = scene_below(chance, 2);
    return scene;
}

static void packed_documents_of_other_keys(void **state)
{
    uint64_t chance = 1;

    (void)state;
    for (int i = 0; i < 8000; i++) {
        struct scene scene = any_scene(&chance);

        check(&scene);
    }
}

/* Neither takes documents, and a layout is balanced for them where queries and keys are as many. */
static void blocks_and_ranges(void **state)
{
    uint64_t chance = 2;

    (void)state;
    for (int i = 0; i < 8000; i++) {
        struct scene scene = any_scene(&chance);

        scene.q.batch.documents = scene.k.batch.documents = 0;
        scene.mask = i % 2 ? RONDO_MASK_BLOCKS : RONDO_MASK_RANGES;
        scene_any_blocks(&scene, &chance);
        scene_any_ranges(&scene, &chance);
        scene.q.balance = scene.k.balance =
            scene.q.max_tokens == scene.k.max_tokens ? scene.mask : RONDO_MASK_CAUSAL;
        check(&scene);
    }
}

/* Exactly those that have a pair in common. */
static void ranges_that_overlap_are_refused(void **state)
{
    uint64_t chance = 3;
    int refused = 0;

    (void)state;
    for (int i = 0; i < 8000; i++) {
        struct scene scene = any_scene(&chance);
        struct ri_mask mask;
        int err;

        scene.params.range_count = 1 + scene_below(&chance, SCENE_RANGES);
        for (int r = 0; r < scene.params.range_count; r++)
            scene.ranges[r] = scene_any_range(&scene, &chance);
        err = ri_mask_init(&mask, RONDO_MASK_RANGES, scene_params(&scene), scene.q.max_tokens,
                           scene.k.max_tokens);
        assert_int_equal(err, scene_overlaps(&scene, scene.params.range_count) ? RONDO_ERR_ARGUMENT : 0);
        refused += err != 0;
        ri_mask_release(&mask);
    }
    assert_in_range(refused, 1000, 7000);
}

/* Every other block of one token: 20 areas a query and 20 a key, and never two of a pair.  A rank has 16 runs at
 * most: 800 areas, and 15 times 20, twice, and 15 times 15. */
static void bound_of_a_checkerboard(void **state)
{
    struct scene scene = { .ranks = 2, .mask = RONDO_MASK_BLOCKS, .params = RONDO_MASK_PARAMS_INIT };
    struct rondo_layout *layout;
    struct ri_sight sight;

    (void)state;
    for (int i = 0; i < SCENE_TOKENS * SCENE_TOKENS; i++)
        scene.blocks[i] = (uint8_t)((i / SCENE_TOKENS + i) % 2);
    scene.params.block_tokens = 1;
    scene.q = scene.k = (struct scene_side){ .kind = RONDO_LAYOUT_BALANCED, .max_tokens = SCENE_TOKENS,
                                             .balance = RONDO_MASK_BLOCKS, .batch.tokens = SCENE_TOKENS };
    layout = scene_layout(&scene, &scene.q);
    assert_int_equal(ri_sight_init(&sight, layout, layout, scene.mask, scene_params(&scene)), 0);
    scene_check(&scene, &sight);
    assert_int_equal(ri_sight_bound(&sight).tiles, 800 + 2 * 15 * 20 + 15 * 15);
    ri_sight_release(&sight);
    ri_layout_free(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_document),
        cmocka_unit_test(packed_documents),
        cmocka_unit_test(as_many_fewer_and_more_keys),
        cmocka_unit_test(packed_documents_of_other_keys),
        cmocka_unit_test(blocks_and_ranges),
        cmocka_unit_test(ranges_that_overlap_are_refused),
        cmocka_unit_test(bound_of_a_checkerboard),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
