/* SPDX-License-Identifier: Apache-2.0 */
/* Masks, documents and chunks that are refused: the text names the argument, or its entry, and the value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include <rondo/layout.h>

enum { TOKENS = 10, RANKS = 3 };

static const int64_t edges[] = {0, 4, 4, TOKENS};
static const uint8_t blocks[4 * 4] = {1};

static rondo_layout_desc_t described(rondo_layout_kind_t kind)
{
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;

    desc.kind = kind;
    desc.tokens = TOKENS;
    desc.ranks = RANKS;
    return desc;
}

static rondo_layout_desc_t packed(rondo_layout_kind_t kind)
{
    rondo_layout_desc_t desc = described(kind);

    desc.cu_seqlens = edges;
    desc.documents = 3;
    return desc;
}

static void assert_says(rondo_status_t status, const char *argument, const char *value)
{
    assert_int_equal(status, RONDO_ERR_ARGUMENT);
    if (!strstr(rondo_last_error(), argument) || !strstr(rondo_last_error(), value))
        fail_msg("\"%s\" lacks \"%s\" or \"%s\"", rondo_last_error(), argument, value);
}

static void refuse(const rondo_layout_desc_t *desc, const char *argument, const char *value)
{
    rondo_layout_t layout = NULL;

    assert_says(rondo_layout_create(desc, &layout), argument, value);
    assert_null(layout);
}

static void documents_without_what_belongs_to_them(void **state)
{
    rondo_layout_desc_t desc = described(RONDO_LAYOUT_ZIGZAG);

    (void)state;
    desc.documents = 3;
    refuse(&desc, "documents is 3", "cu_seqlens is NULL");
    desc.documents = 0;
    desc.lengths = edges;
    refuse(&desc, "lengths", "cu_seqlens is NULL");
    desc = packed(RONDO_LAYOUT_ZIGZAG);
    desc.documents = 0;
    refuse(&desc, "documents is 0", "cu_seqlens");
    desc.documents = -1;
    refuse(&desc, "documents is -1", "cu_seqlens");
    desc = packed(RONDO_LAYOUT_ZIGZAG);
    desc.max_documents = 2;
    refuse(&desc, "max_documents is 2", "documents, 3");
    desc.max_documents = -1;
    refuse(&desc, "max_documents is -1", "documents, 3");
    desc = packed(RONDO_LAYOUT_ZIGZAG);
    desc.deal = (rondo_deal_t)2;
    refuse(&desc, "deal is 2", "RONDO_DEAL_DOCUMENTS");
    desc.deal = (rondo_deal_t)-1;
    refuse(&desc, "deal is -1", "RONDO_DEAL_SEQUENCE");
}

/* Document 1 has no room, and document 2 has room for 6. */
static void lengths_that_do_not_fit(void **state)
{
    rondo_layout_desc_t desc = packed(RONDO_LAYOUT_STRIPED);

    (void)state;
    desc.lengths = (const int64_t[]){4, 1, 6};
    refuse(&desc, "lengths[1] is 1", "0 to 0");
    desc.lengths = (const int64_t[]){4, 0, 7};
    refuse(&desc, "lengths[2] is 7", "0 to 6");
    desc.lengths = (const int64_t[]){-1, 0, 6};
    refuse(&desc, "lengths[0] is -1", "0 to 4");
}

/* No difference of two of them is a number. */
static void bounds_at_the_ends_of_numbers(void **state)
{
    rondo_layout_desc_t desc = packed(RONDO_LAYOUT_ZIGZAG);

    (void)state;
    desc.cu_seqlens = (const int64_t[]){0, INT64_MAX, INT64_MIN, TOKENS};
    refuse(&desc, "cu_seqlens[2] is -9223372036854775808", "cu_seqlens[1], 9223372036854775807");
    desc.cu_seqlens = (const int64_t[]){0, INT64_MAX, INT64_MAX, INT64_MAX};
    refuse(&desc, "cu_seqlens[3]", "9223372036854775807");
    desc.lengths = (const int64_t[]){INT64_MAX, 0, 1};
    refuse(&desc, "lengths[2] is 1", "0 to 0");
}

static void balanced_layouts_refuse(void **state)
{
    rondo_layout_desc_t desc = packed(RONDO_LAYOUT_BALANCED);
    rondo_mask_params_t params = RONDO_MASK_PARAMS_INIT;

    (void)state;
    desc.deal = RONDO_DEAL_DOCUMENTS;
    refuse(&desc, "deal is RONDO_DEAL_DOCUMENTS", "RONDO_DEAL_SEQUENCE");
    desc = described(RONDO_LAYOUT_BALANCED);
    desc.chunk_tokens = -2;
    refuse(&desc, "chunk_tokens", "-2");
    desc.chunk_tokens = 0;
    desc.tokens = (int64_t)INT32_MAX + 1;
    refuse(&desc, "tokens", "2147483648");
    desc = described(RONDO_LAYOUT_BALANCED);
    desc.mask = RONDO_MASK_WINDOW;
    refuse(&desc, "params are NULL", "window");
    params.block_tokens = 3;
    params.blocks = blocks;
    desc = packed(RONDO_LAYOUT_BALANCED);
    desc.mask = RONDO_MASK_BLOCKS;
    desc.mask_params = &params;
    refuse(&desc, "mask blocks", "cu_seqlens");
    desc = described(RONDO_LAYOUT_BALANCED);
    desc.max_documents = 1;
    desc.mask = RONDO_MASK_RANGES;
    desc.mask_params = &params;
    refuse(&desc, "mask ranges", "cu_seqlens");
}

/* ---- masks ---- */

static void refuse_mask_of(const rondo_layout_desc_t *desc, rondo_mask_t mask, const rondo_mask_params_t *params,
                           const char *argument, const char *value)
{
    rondo_layout_t layout = NULL;
    double ratio = 7;

    assert_int_equal(rondo_layout_create(desc, &layout), RONDO_OK);
    assert_says(rondo_layout_balance(layout, mask, params, &ratio), argument, value);
    assert_true(ratio == 7);
    assert_int_equal(rondo_layout_pairs(layout, 0, mask, params), -1);
    assert_says(RONDO_ERR_ARGUMENT, argument, value);
    rondo_layout_destroy(layout);
}

static void refuse_mask(rondo_mask_t mask, const rondo_mask_params_t *params, const char *argument,
                        const char *value)
{
    rondo_layout_desc_t desc = described(RONDO_LAYOUT_ZIGZAG);

    refuse_mask_of(&desc, mask, params, argument, value);
}

static void masks_without_params(void **state)
{
    static const char *const names[] = {"window", "prefix", "blocks", "ranges"};
    rondo_mask_params_t params = RONDO_MASK_PARAMS_INIT;

    (void)state;
    for (int i = 0; i < 4; i++)
        refuse_mask((rondo_mask_t)(RONDO_MASK_WINDOW + i), NULL, "params are NULL", names[i]);
    params.struct_bytes = 3;
    refuse_mask(RONDO_MASK_CAUSAL, &params, "struct_bytes is 3", "RONDO_MASK_PARAMS_INIT");
    refuse_mask((rondo_mask_t)-1, NULL, "mask", "-1");
}

static void numbers_of_masks(void **state)
{
    rondo_mask_params_t params = RONDO_MASK_PARAMS_INIT;

    (void)state;
    params.left = -2;
    refuse_mask(RONDO_MASK_WINDOW, &params, "left", "-2");
    params.left = 5;
    params.right = -3;
    refuse_mask(RONDO_MASK_WINDOW, &params, "right", "-3");
    params.prefix = -1;
    refuse_mask(RONDO_MASK_PREFIX, &params, "prefix", "-1");
    params.blocks = blocks;
    refuse_mask(RONDO_MASK_BLOCKS, &params, "block_tokens", " 0");
    params.block_tokens = 3;
    params.blocks = NULL;
    refuse_mask(RONDO_MASK_BLOCKS, &params, "blocks", "NULL");
    params.range_count = -1;
    refuse_mask(RONDO_MASK_RANGES, &params, "range_count", "-1");
    params.range_count = 2;
    refuse_mask(RONDO_MASK_RANGES, &params, "ranges is NULL", "2");
}

static void ranges_outside(void **state)
{
    static const struct {
        rondo_range_t range;
        const char *argument, *value;
    } cases[] = {
        {{-1, 2, 0, 2, RONDO_RANGE_FULL, 0, 0}, "ranges[1].q_first", "-1"},
        {{11, 0, 0, 2, RONDO_RANGE_FULL, 0, 0}, "ranges[1].q_first", "11"},
        {{3, 8, 0, 2, RONDO_RANGE_FULL, 0, 0}, "ranges[1].q_count", "8"},
        {{3, -1, 0, 2, RONDO_RANGE_FULL, 0, 0}, "ranges[1].q_count", "-1"},
        {{3, 2, 11, 2, RONDO_RANGE_FULL, 0, 0}, "ranges[1].k_first", "11"},
        {{3, 2, 1, INT64_MAX, RONDO_RANGE_FULL, 0, 0}, "ranges[1].k_count", "9223372036854775807"},
        {{3, 2, 1, 2, (rondo_range_kind_t)5, 0, 0}, "ranges[1].kind", "5"},
        {{3, 2, 1, 2, RONDO_RANGE_BAND, 1, 0}, "ranges[1].lo", "hi, 0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rondo_range_t ranges[2] = {{0, 1, 0, 1, RONDO_RANGE_FULL, 0, 0}, cases[i].range};
        rondo_mask_params_t params = RONDO_MASK_PARAMS_INIT;

        params.ranges = ranges;
        params.range_count = 2;
        refuse_mask(RONDO_MASK_RANGES, &params, cases[i].argument, cases[i].value);
    }
}

/* Entries are the caller's, in whatever order they stand; an empty one between them does not count. */
static void ranges_with_a_pair_in_common(void **state)
{
    static const rondo_range_t ranges[] = {
        {6, 4, 5, 5, RONDO_RANGE_CAUSAL, 0, 0},
        {0, 10, 0, 0, RONDO_RANGE_FULL, 0, 0},
        {0, 5, 0, 5, RONDO_RANGE_FULL, 0, 0},
        {4, 2, 4, 3, RONDO_RANGE_FULL, 0, 0}, /* query 4 and key 4 are of entry 2, too */
    };
    rondo_mask_params_t params = RONDO_MASK_PARAMS_INIT;

    (void)state;
    params.ranges = ranges;
    params.range_count = 4;
    refuse_mask(RONDO_MASK_RANGES, &params, "ranges[2]", "ranges[3]");
}

static void masks_of_the_whole_sequence_take_no_documents(void **state)
{
    static const rondo_range_t range = {0, 10, 0, 10, RONDO_RANGE_CAUSAL, 0, 0};
    rondo_layout_desc_t desc = packed(RONDO_LAYOUT_CONTIGUOUS);
    rondo_mask_params_t params = RONDO_MASK_PARAMS_INIT;

    (void)state;
    params.ranges = &range;
    params.range_count = 1;
    params.block_tokens = 3;
    params.blocks = blocks;
    refuse_mask_of(&desc, RONDO_MASK_RANGES, &params, "mask ranges", "3 documents");
    refuse_mask_of(&desc, RONDO_MASK_BLOCKS, &params, "mask blocks", "3 documents");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_without_what_belongs_to_them),
        cmocka_unit_test(lengths_that_do_not_fit),
        cmocka_unit_test(bounds_at_the_ends_of_numbers),
        cmocka_unit_test(balanced_layouts_refuse),
        cmocka_unit_test(masks_without_params),
        cmocka_unit_test(numbers_of_masks),
        cmocka_unit_test(ranges_outside),
        cmocka_unit_test(ranges_with_a_pair_in_common),
        cmocka_unit_test(masks_of_the_whole_sequence_take_no_documents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
