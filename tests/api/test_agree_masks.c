/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks must say alike of a mask and of layouts, and what they need not. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/api/shard.h"

enum { RANKS = 3, TOKENS = 24 };

/* What one rank gives to a plan; some of it is not as on the others. */
struct order {
    rondo_layout_desc_t layout, kv_layout; /* tokens 0: none */
    rondo_attention_desc_t desc;
    rondo_mask_params_t params;
};

/* Whoever is odd changes the order that the others have; the error on all ranks has both words, or words is
 * NULL, and there is none. */
struct difference {
    void (*common)(struct order *o), (*odd)(struct order *o);
    const char *words, *more;
};

struct test {
    struct meeting meeting;
    struct problem problem;
    const struct difference *differences;
    size_t count;
};

static void order_init(struct order *o, const struct problem *p)
{
    *o = (struct order){ RONDO_LAYOUT_DESC_INIT, RONDO_LAYOUT_DESC_INIT, desc_of(p), RONDO_MASK_PARAMS_INIT };
    o->layout.tokens = TOKENS;
    o->layout.ranks = o->kv_layout.ranks = RANKS;
    o->desc.mask_params = o->layout.mask_params = o->kv_layout.mask_params = &o->params;
}

static int make_plan(rondo_comm_t comm, struct order *o, rondo_plan_t *plan)
{
    rondo_layout_t layout = NULL, kv_layout = NULL;
    int err = rondo_layout_create(&o->layout, &layout);

    if (!err && o->kv_layout.tokens)
        err = rondo_layout_create(&o->kv_layout, &kv_layout);
    o->desc.kv_layout = kv_layout;
    if (!err)
        err = rondo_attention_plan(comm, layout, &o->desc, NULL, plan);
    rondo_layout_destroy(layout);
    rondo_layout_destroy(kv_layout);
    return err;
}

static int differ(rondo_comm_t comm, int rank, const struct problem *p, const struct difference *d, int who)
{
    rondo_plan_t plan = NULL;
    struct order o;
    int err, bad;

    order_init(&o, p);
    if (d->common)
        d->common(&o);
    if (rank == who)
        d->odd(&o);
    err = make_plan(comm, &o, &plan);
    if (d->words)
        bad = expect_error(err, RONDO_ERR_MISMATCH, d->words, d->more, d->words);
    else
        bad = expect(!err, "rank %d of a plan: %s", rank, rondo_last_error());
    rondo_plan_destroy(plan);
    return bad;
}

static int differ_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    int bad = 0;

    for (size_t i = 0; i < t->count; i++)
        for (int who = 0; who < ranks; who++)
            bad += differ(comm, rank, &t->problem, &t->differences[i], who);
    rondo_comm_destroy(comm);
    return bad;
}

static struct test *test_of(const struct difference *differences, size_t count)
{
    struct test *t = shared_memory(sizeof(*t));

    t->problem = (struct problem){ .batch = 1, .tokens = TOKENS, .causal = 1, .q_heads = 2, .kv_heads = 1,
                                   .qk_dim = 4, .v_dim = 4 };
    t->differences = differences, t->count = count;
    return t;
}

/* ---- masks ---- */

static const uint8_t blocks[16] = { 1, 0, 2, 0, 1 }, same_blocks[16] = { 7, 0, 1, 0, 2 }, other_blocks[16] = { 1 };
static const rondo_range_t range = { 0, 24, 0, 24, RONDO_RANGE_CAUSAL, 5, 3 };
static const rondo_range_t same_range = { 0, 24, 0, 24, RONDO_RANGE_CAUSAL, 0, 9 };
static const rondo_range_t other_range = { 0, 24, 0, 24, RONDO_RANGE_INVERSE, 5, 3 };

static void all_but_align(struct order *o)
{
    o->params.left = 3, o->params.right = 4, o->params.prefix = 5, o->params.block_tokens = 6;
    o->params.range_count = 1, o->params.ranges = &range, o->params.blocks = blocks;
}

static void no_params(struct order *o) { o->desc.mask_params = NULL; }
static void full(struct order *o) { o->desc.mask = RONDO_MASK_FULL; }
static void window(struct order *o) { o->desc.mask = RONDO_MASK_WINDOW; }
static void prefix(struct order *o) { o->desc.mask = RONDO_MASK_PREFIX; }
static void left(struct order *o) { o->params.left = 7; }
static void right(struct order *o) { o->params.right = 0; }
static void prefix_of_5(struct order *o) { o->params.prefix = 5; }
static void align(struct order *o) { o->params.align_ends = 1; }
static void not_0(struct order *o) { o->params.align_ends = 2; }

static void in_blocks(struct order *o)
{
    o->desc.mask = RONDO_MASK_BLOCKS, o->params.block_tokens = 6, o->params.blocks = blocks;
}

static void in_ranges(struct order *o)
{
    o->desc.mask = RONDO_MASK_RANGES, o->params.range_count = 1, o->params.ranges = &range;
}

static void fields_of_blocks(struct order *o)
{
    o->params.left = 3, o->params.prefix = 5, o->params.align_ends = 1, o->params.blocks = same_blocks;
}

static void fields_of_ranges(struct order *o)
{
    o->params.right = 3, o->params.block_tokens = 5, o->params.align_ends = 1, o->params.ranges = &same_range;
}

static void set_other_blocks(struct order *o) { o->params.blocks = other_blocks; }
static void set_other_range(struct order *o) { o->params.ranges = &other_range; }
static void no_ranges(struct order *o) { o->params.range_count = 0; }

static void what_a_mask_does_not_read_may_differ(void **state)
{
    static const struct difference differences[] = {
        { NULL, all_but_align, NULL, NULL },
        { all_but_align, no_params, NULL, NULL },
        { full, align, NULL, NULL },
        { align, not_0, NULL, NULL },
        { window, prefix_of_5, NULL, NULL },
        { prefix, left, NULL, NULL },
        { in_blocks, fields_of_blocks, NULL, NULL },
        { in_ranges, fields_of_ranges, NULL, NULL },
    };

    (void)state;
    assert_int_equal(run_ranks(RANKS, 0, 60, differ_body, test_of(differences, 8)), 0);
}

static void what_a_mask_reads_may_not(void **state)
{
    static const struct difference differences[] = {
        { NULL, full, "mask is ", "full on rank " },
        { window, left, "mask_params.left is ", "7 on rank " },
        { window, right, "mask_params.right is ", "0 on rank " },
        { prefix, prefix_of_5, "mask_params.prefix is ", "5 on rank " },
        { NULL, align, "mask_params.align_ends is ", "1 on rank " },
        { in_blocks, set_other_blocks, "mask (hash) is ", NULL },
        { in_ranges, set_other_range, "mask (hash) is ", NULL },
        { in_ranges, no_ranges, "mask_params.range_count is ", "0 on rank " },
    };

    (void)state;
    assert_int_equal(run_ranks(RANKS, 0, 60, differ_body, test_of(differences, 8)), 0);
}

/* ---- layouts ---- */

static void up_to_3(struct order *o) { o->layout.max_documents = 3; }
static void up_to_4(struct order *o) { o->layout.max_documents = 4; }

static void balanced(struct order *o)
{
    o->layout.kind = RONDO_LAYOUT_BALANCED, o->layout.mask = RONDO_MASK_CAUSAL;
}

/* As chosen for the batch, but not for shorter ones. */
static void chunks_of_1(struct order *o) { o->layout.chunk_tokens = 1; }
static void for_full(struct order *o) { o->layout.mask = RONDO_MASK_FULL; }

static void for_blocks(struct order *o)
{
    o->layout.kind = RONDO_LAYOUT_BALANCED, o->layout.mask = RONDO_MASK_BLOCKS;
    o->params.block_tokens = 6, o->params.blocks = blocks;
}

static void cross(struct order *o)
{
    balanced(o);
    o->kv_layout = o->layout;
}

static void kv_up_to_2(struct order *o) { o->kv_layout.max_documents = 2; }
static void kv_chunks_of_1(struct order *o) { o->kv_layout.chunk_tokens = 1; }
static void kv_for_strict(struct order *o) { o->kv_layout.mask = RONDO_MASK_STRICT; }
static void kv_for_prefix_of_0(struct order *o) { o->kv_layout.mask = RONDO_MASK_PREFIX; } /* deals as causal */

static void layouts_may_be_bound_to_the_same(void **state)
{
    static const struct difference differences[] = {
        { up_to_3, up_to_4, "max_documents is ", "4 on rank " },
        { NULL, up_to_4, "max_documents is ", "4 on rank " },
        { balanced, chunks_of_1, "chunk_tokens is ", "1 on rank " },
        { balanced, for_full, "the mask of the balance (hash) is ", NULL },
        { for_blocks, set_other_blocks, "the mask of the balance (hash) is ", NULL },
        { cross, kv_up_to_2, "max_documents of kv_layout is ", "2 on rank " },
        { cross, kv_chunks_of_1, "chunk_tokens of kv_layout is ", "1 on rank " },
        { cross, kv_for_strict, "the balance of kv_layout (hash) is ", NULL },
        { cross, kv_for_prefix_of_0, "the balance of kv_layout (hash) is ", NULL },
    };

    (void)state;
    assert_int_equal(run_ranks(RANKS, 0, 60, differ_body, test_of(differences, 9)), 0);
}

/* ---- what is refused ---- */

/* The size that the params say is all the memory that they have. */
static rondo_mask_params_t *small_params(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *params = pages + page - bytes;

    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE))
        return NULL;
    memcpy(params, &bytes, sizeof(bytes));
    return params;
}

static int small_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_ZIGZAG, TOKENS, ranks);
    int bad = 0;

    for (int who = 0; who < ranks; who++) {
        rondo_attention_desc_t desc = desc_of(&t->problem);
        rondo_plan_t plan = NULL;
        int err;

        desc.mask_params = rank == who ? small_params(sizeof(size_t)) : NULL;
        err = rondo_attention_plan(comm, layout, &desc, NULL, &plan);
        bad += expect_error(err, rank == who ? RONDO_ERR_ARGUMENT : RONDO_ERR_PEER, "mask's struct_bytes is 8", NULL,
                            "params of 8 bytes");
    }
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void refused_params_are_not_read(void **state)
{
    (void)state;
    assert_int_equal(run_ranks(RANKS, 0, 60, small_body, test_of(NULL, 0)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_mask_does_not_read_may_differ),
        cmocka_unit_test(what_a_mask_reads_may_not),
        cmocka_unit_test(layouts_may_be_bound_to_the_same),
        cmocka_unit_test(refused_params_are_not_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
