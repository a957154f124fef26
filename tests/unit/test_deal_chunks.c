/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks of a balanced layout go to the ranks that the rule of rondo/layout.h says, worked out plainly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/scene.h"

/* Pairs that each chunk's queries see, one by one. */
static void count_pairs(const struct scene *scene, int64_t side, int64_t pairs[SCENE_TOKENS])
{
    for (int c = 0; c < SCENE_TOKENS; c++)
        pairs[c] = 0;
    for (int q = 0; q < scene->q.batch.tokens; q++)
        for (int k = 0; k < scene->q.batch.tokens; k++)
            pairs[q / side] += scene_sees(scene, q, k);
}

/* Takes the chunk with most pairs out of them, the first of several. */
static int take_heaviest(int64_t pairs[SCENE_TOKENS], int chunks, int64_t *taken)
{
    int heaviest = 0;

    for (int c = 1; c < chunks; c++)
        if (pairs[c] > pairs[heaviest])
            heaviest = c;
    *taken = pairs[heaviest];
    pairs[heaviest] = -1;
    return heaviest;
}

static void check_deal(const struct scene *scene, const struct rondo_layout *layout)
{
    int64_t side = layout->balance->chunk_tokens, pairs[SCENE_TOKENS], load[SCENE_RANKS] = { 0 }, taken;
    int chunks = (int)((scene->q.batch.tokens + side - 1) / side), most = (chunks + scene->ranks - 1) / scene->ranks;
    int held[SCENE_RANKS] = { 0 };

    assert_int_equal(layout->balance->chunks, chunks);
    count_pairs(scene, side, pairs);
    for (int i = 0; i < chunks; i++) {
        int chunk = take_heaviest(pairs, chunks, &taken), rank = -1;

        for (int r = 0; r < scene->ranks; r++)
            if (held[r] < most && (rank < 0 || load[r] < load[rank]))
                rank = r;
        assert_int_equal(layout->balance->rank[chunk], rank);
        load[rank] += taken;
        held[rank]++;
    }
}

static void by_the_rule(void **state)
{
    uint64_t chance = 5;

    (void)state;
    for (int i = 0; i < 7000; i++) {
        struct scene scene = { .ranks = 1 + scene_below(&chance, SCENE_RANKS), .mask = (rondo_mask_t)(i % 7),
                               .params = RONDO_MASK_PARAMS_INIT };
        int tokens = 1 + scene_below(&chance, SCENE_TOKENS);
        struct rondo_layout *layout;

        scene.q = (struct scene_side){ .kind = RONDO_LAYOUT_BALANCED, .max_tokens = tokens, .balance = scene.mask,
                                       .chunk_tokens = scene_below(&chance, 4), .batch.tokens = tokens };
        if (scene.mask < RONDO_MASK_BLOCKS && scene_below(&chance, 2))
            scene_cut(&scene.q.batch, tokens, 1 + scene_below(&chance, 9), scene_below(&chance, 2), &chance);
        scene.k = scene.q;
        scene.params.left = scene_below(&chance, 5) - 1;
        scene.params.right = scene_below(&chance, 5) - 1;
        scene.params.prefix = scene_below(&chance, 5);
        scene_any_blocks(&scene, &chance);
        scene_any_ranges(&scene, &chance);
        layout = scene_layout(&scene, &scene.q);
        check_deal(&scene, layout);
        ri_layout_free(layout);
    }
}

/* A rank has every RANKS-th of equal chunks.  Were each chunk held against each rank, this took minutes. */
static void a_hundred_thousand_ranks(void **state)
{
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    struct rondo_layout *layout;

    (void)state;
    desc.kind = RONDO_LAYOUT_BALANCED;
    desc.ranks = RI_LAYOUT_RANKS_MAX / 8;
    desc.tokens = 32 * (int64_t)desc.ranks;
    assert_int_equal(ri_layout_make(&desc, &layout), 0);
    for (int64_t c = 0; c < layout->balance->chunks; c++)
        if (layout->balance->rank[c] != c % desc.ranks)
            fail_msg("chunk %lld lies with rank %d", (long long)c, layout->balance->rank[c]);
    assert_int_equal(ri_layout_largest(layout), 32);
    ri_layout_free(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_the_rule),
        cmocka_unit_test(a_hundred_thousand_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
