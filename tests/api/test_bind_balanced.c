/* SPDX-License-Identifier: Apache-2.0 */
/* A plan whose layout is balanced for blocks, or for ranges, is bound to layouts made for shorter batches, whose
 * blocks and ranges are fewer; and to none that deals otherwise. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>

#include "layout/sight.h"
#include "tests/api/shard.h"

enum { LONGEST = 40 };

static const int shorter[] = { LONGEST, 33, 17, 3, 1 };

enum { BATCHES = sizeof(shorter) / sizeof(shorter[0]) };

struct test {
    struct meeting meeting;
    struct problem problems[BATCHES];
    rondo_mask_t mask;
    int64_t chunk_tokens;
};

/* Each says what a causal mask of so many tokens does. */
struct causal {
    rondo_mask_params_t params;
    uint8_t blocks[LONGEST * LONGEST]; /* of one token */
    rondo_range_t range;
};

static void causal_init(struct causal *c, int tokens)
{
    *c = (struct causal){ .params = RONDO_MASK_PARAMS_INIT };
    for (int q = 0; q < tokens; q++)
        for (int k = 0; k < tokens; k++)
            c->blocks[q * tokens + k] = k <= q;
    c->range = (rondo_range_t){ .q_count = tokens, .k_count = tokens, .kind = RONDO_RANGE_CAUSAL };
    c->params.block_tokens = 1, c->params.blocks = c->blocks;
    c->params.range_count = 1, c->params.ranges = &c->range;
}

static rondo_layout_t balanced(const struct test *t, const struct causal *c, int tokens, int ranks)
{
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    rondo_layout_t layout = NULL;

    desc.kind = RONDO_LAYOUT_BALANCED, desc.tokens = tokens, desc.ranks = ranks;
    desc.mask = t->mask, desc.mask_params = &c->params, desc.chunk_tokens = t->chunk_tokens;
    if (expect(!rondo_layout_create(&desc, &layout), "layout: %s", rondo_last_error()))
        exit(1);
    return layout;
}

static int bind_one(rondo_plan_t plan, const struct test *t, int batch, int rank, int ranks)
{
    const struct problem *p = &t->problems[batch];
    struct causal c;
    struct shard s;
    rondo_layout_t layout;
    int bad;

    causal_init(&c, shorter[batch]);
    layout = balanced(t, &c, shorter[batch], ranks);
    shard_init(&s, layout, rank, p);
    bad = expect(!rondo_plan_bind_layout(plan, layout, NULL), "%d tokens: %s", shorter[batch], rondo_last_error());
    bad += expect(!shard_both(plan, &s), "%d tokens: %s", shorter[batch], rondo_last_error());
    bad += expect(shard_forward_error(&s, p) <= SHARD_BAR && shard_backward_error(&s, p) <= SHARD_BAR,
                  "%d tokens: results are off", shorter[batch]);
    shard_release(&s);
    rondo_layout_destroy(layout);
    return bad;
}

/* All tokens to see all: another balance, as is that of larger chunks. */
static int refuses(rondo_plan_t plan, const struct test *t, int ranks)
{
    struct test other = *t;
    struct causal c;
    int bad = 0;

    causal_init(&c, 33);
    for (int i = 0; i < 2; i++) {
        rondo_layout_t layout;

        other.mask = i ? t->mask : RONDO_MASK_FULL;
        other.chunk_tokens = i ? 7 : t->chunk_tokens;
        layout = balanced(&other, &c, 33, ranks);
        bad += expect_error(rondo_plan_bind_layout(plan, layout, NULL), RONDO_ERR_ARGUMENT, "deals otherwise",
                            "than layout", "another balance");
        rondo_layout_destroy(layout);
    }
    return bad;
}

static int body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_attention_desc_t desc = desc_of(&t->problems[0]);
    rondo_plan_t plan = NULL;
    rondo_layout_t layout;
    struct causal c;
    int bad;

    causal_init(&c, LONGEST);
    layout = balanced(t, &c, LONGEST, ranks);
    desc.mask = t->mask, desc.mask_params = &c.params;
    bad = expect(!rondo_attention_plan(comm, layout, &desc, NULL, &plan), "plan: %s", rondo_last_error());
    rondo_layout_destroy(layout);
    for (int batch = 0; !bad && batch < BATCHES; batch++)
        bad += bind_one(plan, t, batch, rank, ranks);
    if (!bad)
        bad += refuses(plan, t, ranks) + bind_one(plan, t, 1, rank, ranks);
    rondo_plan_destroy(plan);
    rondo_comm_destroy(comm);
    return bad;
}

static void run(rondo_mask_t mask)
{
    for (int ranks = 2; ranks <= 3; ranks++)
        for (int64_t chunk_tokens = 0; chunk_tokens <= 3; chunk_tokens += 3) {
            struct test *t = shared_memory(sizeof(*t));

            t->mask = mask, t->chunk_tokens = chunk_tokens;
            for (int i = 0; i < BATCHES; i++) {
                t->problems[i] = (struct problem){ .batch = 1, .tokens = shorter[i], .causal = 1, .q_heads = 2,
                                                   .kv_heads = 1, .qk_dim = 4, .v_dim = 4 };
                problem_init(&t->problems[i], (uint64_t)i);
            }
            assert_int_equal(run_ranks(ranks, 0, 60, body, t), 0);
            for (int i = 0; i < BATCHES; i++)
                problem_release(&t->problems[i]);
        }
}

static void a_plan_balanced_for_blocks(void **state)
{
    (void)state;
    run(RONDO_MASK_BLOCKS);
}

static void a_plan_balanced_for_ranges(void **state)
{
    (void)state;
    run(RONDO_MASK_RANGES);
}

/* ---- more tiles than were thought of ---- */

/* Of a block pair, beside those that there are. */
static _Thread_local int64_t more_tiles;

int64_t __real_ri_sight_tiles(const struct ri_sight *sight, int q_rank, int k_rank, rondo_tile_t *tiles, int64_t max);
int64_t __wrap_ri_sight_tiles(const struct ri_sight *sight, int q_rank, int k_rank, rondo_tile_t *tiles, int64_t max);

int64_t __wrap_ri_sight_tiles(const struct ri_sight *sight, int q_rank, int k_rank, rondo_tile_t *tiles, int64_t max)
{
    return __real_ri_sight_tiles(sight, q_rank, k_rank, tiles, max) + more_tiles;
}

static int too_many_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_ZIGZAG, LONGEST, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problems[0]);
    rondo_plan_t plan = NULL;
    struct shard s;
    int bad = expect(!rondo_attention_plan(comm, layout, &desc, NULL, &plan), "plan: %s", rondo_last_error());

    shard_init(&s, layout, rank, &t->problems[0]);
    more_tiles = 1 << 20;
    bad += expect_error(rondo_plan_bind(plan, 9, NULL, 0), RONDO_ERR_INTERNAL, "tiles of a block pair", "room for 4",
                        "too many tiles");
    more_tiles = 0;
    bad += expect(!rondo_plan_bind(plan, LONGEST, NULL, 0) && !shard_both(plan, &s), "%s", rondo_last_error());
    bad += expect(shard_forward_error(&s, &t->problems[0]) <= SHARD_BAR, "results are off");
    shard_release(&s);
    rondo_plan_destroy(plan);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void more_tiles_than_there_is_room_for(void **state)
{
    struct test *t = shared_memory(sizeof(*t));

    (void)state;
    t->problems[0] = (struct problem){ .batch = 1, .tokens = LONGEST, .causal = 1, .q_heads = 2, .kv_heads = 1,
                                       .qk_dim = 4, .v_dim = 4 };
    problem_init(&t->problems[0], 1);
    assert_int_equal(run_ranks(2, 0, 60, too_many_body, t), 0);
    problem_release(&t->problems[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_balanced_for_blocks),
        cmocka_unit_test(a_plan_balanced_for_ranges),
        cmocka_unit_test(more_tiles_than_there_is_room_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
