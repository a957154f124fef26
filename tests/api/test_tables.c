/* SPDX-License-Identifier: Apache-2.0 */
/* What rondo_plan_memory says of a plan's tables is what making the plan allocates. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>

#include "tests/api/heap.h"
#include "tests/api/shard.h"

/* ---- plans ---- */

enum { TOKENS = 300, MOST_DOCUMENTS = 2000 };

struct test {
    struct meeting meeting;
    rondo_plan_options_t options;
    rondo_layout_kind_t kind;
    rondo_deal_t deal;
    rondo_mask_t mask;
    int64_t tokens, chunk_tokens;
    int max_documents, is_cross;
};

static const uint8_t blocks[TOKENS * TOKENS];
static rondo_range_t ranges[TOKENS];

static rondo_mask_params_t params_of(void)
{
    rondo_mask_params_t params = RONDO_MASK_PARAMS_INIT;

    params.block_tokens = 1, params.blocks = blocks;
    params.range_count = TOKENS, params.ranges = ranges;
    return params;
}

static rondo_layout_t make_layout(const struct test *t, int ranks)
{
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    rondo_mask_params_t params = params_of();
    rondo_layout_t layout = NULL;

    desc.kind = t->kind, desc.deal = t->deal, desc.tokens = t->tokens, desc.ranks = ranks;
    desc.max_documents = t->max_documents, desc.chunk_tokens = t->chunk_tokens;
    desc.mask = t->mask, desc.mask_params = &params;
    if (expect(!rondo_layout_create(&desc, &layout), "layout: %s", rondo_last_error()))
        exit(1);
    return layout;
}

/* The pool is there: a plan before has made it, and its memory is no table. */
static int tables_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layout = make_layout(t, ranks);
    rondo_attention_desc_t desc = RONDO_ATTENTION_DESC_INIT;
    rondo_mask_params_t params = params_of();
    rondo_plan_memory_t memory = RONDO_PLAN_MEMORY_INIT;
    rondo_plan_t before = NULL, plan = NULL;
    size_t took;
    long was;
    int bad;

    desc.batch = 2, desc.q_heads = 4, desc.kv_heads = 2, desc.qk_dim = 8, desc.v_dim = 4;
    desc.mask = t->mask, desc.mask_params = &params;
    desc.kv_layout = t->is_cross ? layout : NULL;
    bad = expect(!rondo_attention_plan(comm, layout, &desc, &t->options, &before) &&
                     !rondo_plan_memory(comm, layout, &desc, &t->options, &memory), "%s", rondo_last_error());
    was = heap.held;
    bad += expect(!rondo_attention_plan(comm, layout, &desc, &t->options, &plan), "%s", rondo_last_error());
    took = (size_t)(heap.held - was);
    /* Of small tables much is what the heap rounds up to. */
    bad += expect(memory.table_bytes < took + took / 10 &&
                      memory.table_bytes > took - took / (took > 256 << 10 ? 10 : 4),
                  "layout %d, mask %d, rank %d of %d: tables are said to be %zu bytes, and are %zu", (int)t->kind,
                  (int)t->mask, rank, ranks, memory.table_bytes, took);
    rondo_plan_destroy(plan);
    rondo_plan_destroy(before);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void run(int ranks, const struct test *as)
{
    struct test *t = shared_memory(sizeof(*t));

    *t = *as;
    assert_int_equal(run_ranks(ranks, 0, 60, tables_body, t), 0);
}

static void tables_are_what_is_allocated(void **state)
{
    static const char *const schedules[] = { "ring", "direct" };
    struct test t = { .options = RONDO_PLAN_OPTIONS_INIT, .kind = RONDO_LAYOUT_ZIGZAG, .tokens = 11,
                      .mask = RONDO_MASK_CAUSAL };

    (void)state;
    for (int i = 0; i < 8; i++) {
        t.options.schedule = schedules[i % 2];
        t.options.max_in_flight = i < 4 ? 1 : 4;
        run(2 + i % 3, &t);
    }
}

static void tables_of_layouts_and_masks(void **state)
{
    static const struct test tests[] = {
        { .kind = RONDO_LAYOUT_CONTIGUOUS, .mask = RONDO_MASK_CAUSAL, .max_documents = MOST_DOCUMENTS },
        { .kind = RONDO_LAYOUT_ZIGZAG, .mask = RONDO_MASK_PREFIX, .max_documents = MOST_DOCUMENTS,
          .deal = RONDO_DEAL_DOCUMENTS },
        { .kind = RONDO_LAYOUT_ZIGZAG, .mask = RONDO_MASK_CAUSAL, .max_documents = MOST_DOCUMENTS, .is_cross = 1 },
        { .kind = RONDO_LAYOUT_BALANCED, .mask = RONDO_MASK_CAUSAL },
        { .kind = RONDO_LAYOUT_BALANCED, .mask = RONDO_MASK_CAUSAL, .chunk_tokens = 2, .is_cross = 1 },
        { .kind = RONDO_LAYOUT_BALANCED, .mask = RONDO_MASK_CAUSAL, .max_documents = MOST_DOCUMENTS },
        { .kind = RONDO_LAYOUT_STRIPED, .mask = RONDO_MASK_BLOCKS },
        { .kind = RONDO_LAYOUT_BALANCED, .mask = RONDO_MASK_BLOCKS },
        { .kind = RONDO_LAYOUT_BALANCED, .mask = RONDO_MASK_RANGES },
    };

    (void)state;
    for (int i = 0; i < TOKENS; i++)
        ranges[i] = (rondo_range_t){ i, 1, i, 1, RONDO_RANGE_FULL, 0, 0 };
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        struct test t = tests[i];

        t.options = (rondo_plan_options_t)RONDO_PLAN_OPTIONS_INIT;
        t.tokens = TOKENS;
        run(2 + (int)i % 2, &t);
    }
}

/* A block pair of 16 chunks a side is the same square as one of 2 pieces, or of one: cut a little more. */
static int balanced_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_attention_desc_t desc = RONDO_ATTENTION_DESC_INIT;
    rondo_plan_memory_t memory = RONDO_PLAN_MEMORY_INIT;
    size_t bytes[4] = { 0 };
    int bad = 0;

    desc.batch = 1, desc.q_heads = 32, desc.kv_heads = 8, desc.qk_dim = desc.v_dim = 128;
    desc.mask = t->mask;
    for (int kind = 0; rank == 0 && kind < 4; kind++) {
        struct test one = *t;
        rondo_layout_t layout;

        one.kind = (rondo_layout_kind_t)kind;
        layout = make_layout(&one, ranks);
        bad += expect(!rondo_plan_memory(comm, layout, &desc, &t->options, &memory), "%s", rondo_last_error());
        bytes[kind] = memory.table_bytes;
        rondo_layout_destroy(layout);
    }
    bad += expect(bytes[RONDO_LAYOUT_ZIGZAG] <= bytes[RONDO_LAYOUT_CONTIGUOUS] * 5 / 4 &&
                      bytes[RONDO_LAYOUT_BALANCED] <= bytes[RONDO_LAYOUT_CONTIGUOUS] * 2,
                  "tables are of %zu KiB, of %zu zigzag, and of %zu balanced", bytes[RONDO_LAYOUT_CONTIGUOUS] >> 10,
                  bytes[RONDO_LAYOUT_ZIGZAG] >> 10, bytes[RONDO_LAYOUT_BALANCED] >> 10);
    rondo_comm_destroy(comm);
    return bad;
}

static void tables_of_many_chunks(void **state)
{
    struct test *t = shared_memory(sizeof(*t));

    (void)state;
    t->options = (rondo_plan_options_t)RONDO_PLAN_OPTIONS_INIT;
    t->options.schedule = "ring";
    t->options.chunk_bytes = (int64_t)1 << 40;
    t->mask = RONDO_MASK_CAUSAL;
    t->tokens = 4 << 16;
    assert_int_equal(run_ranks(4, 0, 60, balanced_body, t), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_what_is_allocated),
        cmocka_unit_test(tables_of_layouts_and_masks),
        cmocka_unit_test(tables_of_many_chunks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
