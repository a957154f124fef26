/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include <rondo/layout.h>

static const rondo_layout_desc_t good = {
    .struct_bytes = sizeof(good), .kind = RONDO_LAYOUT_ZIGZAG, .tokens = 10, .ranks = 3};

static rondo_layout_t make(rondo_layout_kind_t kind, int64_t tokens, int ranks)
{
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    rondo_layout_t layout = NULL;

    desc.kind = kind;
    desc.tokens = tokens;
    desc.ranks = ranks;
    assert_int_equal(rondo_layout_create(&desc, &layout), RONDO_OK);
    return layout;
}

/* The call was refused, and the text names the argument and its value. */
static void assert_refused(rondo_status_t status, const char *argument, const char *value)
{
    assert_int_equal(status, RONDO_ERR_ARGUMENT);
    if (!strstr(rondo_last_error(), argument) || !strstr(rondo_last_error(), value))
        fail_msg("\"%s\" lacks \"%s\" or \"%s\"", rondo_last_error(), argument, value);
}

static void create_refuses(void **state)
{
    rondo_layout_t untouched = (rondo_layout_t)state, layout = untouched;
    rondo_layout_desc_t desc = good;

    assert_refused(rondo_layout_create(NULL, &layout), "desc", "NULL");
    assert_refused(rondo_layout_create(&good, NULL), "layout", "NULL");
    desc.struct_bytes = 0;
    assert_refused(rondo_layout_create(&desc, &layout), "struct_bytes", "0");
    desc.struct_bytes = sizeof(desc) + 8;
    assert_refused(rondo_layout_create(&desc, &layout), "struct_bytes", "RONDO_LAYOUT_DESC_INIT");
    desc = good;
    desc.kind = (rondo_layout_kind_t)4;
    assert_refused(rondo_layout_create(&desc, &layout), "kind", "4");
    desc.kind = (rondo_layout_kind_t)-1;
    assert_refused(rondo_layout_create(&desc, &layout), "kind", "-1");
    assert_non_null(strstr(rondo_last_error(), "RONDO_LAYOUT_STRIPED or RONDO_LAYOUT_BALANCED"));
    desc = good;
    desc.tokens = 0;
    assert_refused(rondo_layout_create(&desc, &layout), "tokens", " 0");
    desc.tokens = INT64_MIN;
    assert_refused(rondo_layout_create(&desc, &layout), "tokens", "-9223372036854775808");
    desc = good;
    desc.ranks = 0;
    assert_refused(rondo_layout_create(&desc, &layout), "ranks", " 0");
    desc.ranks = INT32_MAX;
    assert_refused(rondo_layout_create(&desc, &layout), "ranks", "2147483647");
    desc.ranks = -4;
    assert_refused(rondo_layout_create(&desc, &layout), "ranks", "-4");
    assert_ptr_equal(layout, untouched);
}

static void ranks_out_of_range_are_refused(void **state)
{
    static const int ranks[] = {-1, 3, INT32_MIN, INT32_MAX};
    static const char *const texts[] = {"-1", "3", "-2147483648", "2147483647"};
    rondo_layout_t layout = make(RONDO_LAYOUT_ZIGZAG, 10, 3);
    int64_t positions[10];
    int32_t tokens[10] = {0}, other[10] = {0};

    (void)state;
    for (int i = 0; i < 4; i++) {
        int r = ranks[i];

        assert_int_equal(rondo_layout_tokens(layout, r), -1);
        assert_refused(RONDO_ERR_ARGUMENT, "rank", texts[i]);
        assert_refused(rondo_layout_positions(layout, r, positions), "rank", texts[i]);
        assert_refused(rondo_layout_shard(layout, r, tokens, 4, other), "rank", texts[i]);
        assert_refused(rondo_layout_unshard(layout, r, tokens, 4, other), "rank", texts[i]);
        assert_refused(rondo_layout_targets(layout, r, tokens, other), "rank", texts[i]);
        assert_int_equal(rondo_layout_pairs(layout, r, RONDO_MASK_CAUSAL, NULL), -1);
        assert_refused(RONDO_ERR_ARGUMENT, "rank", texts[i]);
    }
    rondo_layout_destroy(layout);
}

static void null_layouts_are_refused(void **state)
{
    int32_t tokens[10] = {0}, other[10] = {0};
    int64_t positions[10];
    int rank;

    (void)state;
    assert_int_equal(rondo_layout_tokens(NULL, 0), -1);
    assert_refused(RONDO_ERR_ARGUMENT, "layout", "NULL");
    assert_refused(rondo_layout_positions(NULL, 0, positions), "layout", "NULL");
    assert_refused(rondo_layout_owner(NULL, 0, &rank, positions), "layout", "NULL");
    assert_refused(rondo_layout_shard(NULL, 0, tokens, 4, other), "layout", "NULL");
    assert_refused(rondo_layout_unshard(NULL, 0, tokens, 4, other), "layout", "NULL");
    assert_refused(rondo_layout_targets(NULL, 0, tokens, other), "layout", "NULL");
    assert_int_equal(rondo_layout_pairs(NULL, 0, RONDO_MASK_FULL, NULL), -1);
    rondo_layout_destroy(NULL);
}

static void null_memory_is_refused(void **state)
{
    rondo_layout_t layout = make(RONDO_LAYOUT_STRIPED, 10, 3);
    int32_t tokens[10] = {0}, other[10] = {0};
    int64_t index = 5;
    int rank = 5;

    (void)state;
    assert_refused(rondo_layout_positions(layout, 0, NULL), "positions", "NULL");
    assert_refused(rondo_layout_owner(layout, 0, NULL, &index), "rank", "NULL");
    assert_refused(rondo_layout_owner(layout, 0, &rank, NULL), "index", "NULL");
    assert_refused(rondo_layout_shard(layout, 0, NULL, 4, other), "whole", "NULL");
    assert_refused(rondo_layout_shard(layout, 0, tokens, 4, NULL), "shard", "NULL");
    assert_refused(rondo_layout_unshard(layout, 0, NULL, 4, other), "shard", "NULL");
    assert_refused(rondo_layout_unshard(layout, 0, tokens, 4, NULL), "whole", "NULL");
    assert_refused(rondo_layout_targets(layout, 0, NULL, other), "tokens", "NULL");
    assert_refused(rondo_layout_targets(layout, 0, tokens, NULL), "targets", "NULL");
    assert_int_equal(rank, 5);
    assert_int_equal(index, 5);
    rondo_layout_destroy(layout);
}

/* malloc(0) may give NULL, so an empty shard must not need memory. */
static void empty_shards_need_no_memory(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        rondo_layout_t layout = make((rondo_layout_kind_t)k, 2, 3);

        assert_int_equal(rondo_layout_tokens(layout, 2), 0);
        assert_int_equal(rondo_layout_positions(layout, 2, NULL), RONDO_OK);
        assert_int_equal(rondo_layout_shard(layout, 2, NULL, 4, NULL), RONDO_OK);
        assert_int_equal(rondo_layout_unshard(layout, 2, NULL, 4, NULL), RONDO_OK);
        assert_int_equal(rondo_layout_targets(layout, 2, NULL, NULL), RONDO_OK);
        assert_int_equal(rondo_layout_pairs(layout, 2, RONDO_MASK_FULL, NULL), 0);
        assert_int_equal(rondo_layout_pairs(layout, 2, RONDO_MASK_CAUSAL, NULL), 0);
        rondo_layout_destroy(layout);
    }
}

static void token_sizes_are_checked(void **state)
{
    rondo_layout_t layout = make(RONDO_LAYOUT_CONTIGUOUS, 10, 3);
    rondo_layout_t huge = make(RONDO_LAYOUT_STRIPED, INT64_MAX, 3);
    char whole[10] = {0}, shard[10] = {0};

    (void)state;
    assert_refused(rondo_layout_shard(layout, 0, whole, 0, shard), "token_bytes", "0");
    assert_refused(rondo_layout_unshard(layout, 0, shard, 0, whole), "token_bytes", "0");
    assert_refused(rondo_layout_shard(layout, 0, whole, SIZE_MAX / 10 + 1, shard), "token_bytes",
                   "1844674407370955162");
    assert_refused(rondo_layout_unshard(layout, 0, shard, SIZE_MAX, whole), "token_bytes",
                   "18446744073709551615");
    assert_refused(rondo_layout_shard(huge, 0, whole, 3, shard), "tokens", "9223372036854775807");
    rondo_layout_destroy(layout);
    rondo_layout_destroy(huge);
}

static void positions_outside_are_refused(void **state)
{
    rondo_layout_t layout = make(RONDO_LAYOUT_ZIGZAG, 10, 3);
    int64_t index = 77;
    int rank = 77;

    (void)state;
    assert_refused(rondo_layout_owner(layout, -1, &rank, &index), "position", "-1");
    assert_refused(rondo_layout_owner(layout, 10, &rank, &index), "position", "10");
    assert_refused(rondo_layout_owner(layout, INT64_MAX, &rank, &index), "position",
                   "9223372036854775807");
    assert_int_equal(rank, 77);
    assert_int_equal(index, 77);
    rondo_layout_destroy(layout);
}

static void pairs_refuse(void **state)
{
    rondo_layout_t layout = make(RONDO_LAYOUT_ZIGZAG, 10, 3);
    rondo_layout_t huge = make(RONDO_LAYOUT_ZIGZAG, (int64_t)INT32_MAX + 1, 3);

    (void)state;
    assert_int_equal(rondo_layout_pairs(layout, 0, (rondo_mask_t)7, NULL), -1);
    assert_refused(RONDO_ERR_ARGUMENT, "mask", "7");
    assert_int_equal(rondo_layout_pairs(huge, 0, RONDO_MASK_FULL, NULL), -1);
    assert_refused(RONDO_ERR_ARGUMENT, "tokens", "2147483648");
    rondo_layout_destroy(layout);
    rondo_layout_destroy(huge);
}

static void kind_names_there_and_back(void **state)
{
    static const char *const names[] = {"contiguous", "zigzag", "striped", "balanced"};

    (void)state;
    for (int k = 0; k < 4; k++) {
        rondo_layout_kind_t kind = (rondo_layout_kind_t)-1;

        assert_string_equal(rondo_layout_kind_name((rondo_layout_kind_t)k), names[k]);
        assert_int_equal(rondo_layout_kind_parse(names[k], &kind), RONDO_OK);
        assert_int_equal(kind, k);
    }
    assert_string_equal(rondo_layout_kind_name((rondo_layout_kind_t)4), "unknown");
    assert_string_equal(rondo_layout_kind_name((rondo_layout_kind_t)-1), "unknown");
}

static void unknown_kind_names_are_refused(void **state)
{
    static const char *const names[] = {"", "Zigzag", "zigzag ", "ring", "strip"};
    rondo_layout_kind_t kind = RONDO_LAYOUT_STRIPED;

    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_refused(rondo_layout_kind_parse(names[i], &kind), names[i],
                       "contiguous, zigzag, striped, balanced");
        assert_int_equal(kind, RONDO_LAYOUT_STRIPED);
    }
    assert_refused(rondo_layout_kind_parse(NULL, &kind), "name", "NULL");
    assert_refused(rondo_layout_kind_parse("zigzag", NULL), "kind", "NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_refuses),
        cmocka_unit_test(ranks_out_of_range_are_refused),
        cmocka_unit_test(null_layouts_are_refused),
        cmocka_unit_test(null_memory_is_refused),
        cmocka_unit_test(empty_shards_need_no_memory),
        cmocka_unit_test(token_sizes_are_checked),
        cmocka_unit_test(positions_outside_are_refused),
        cmocka_unit_test(pairs_refuse),
        cmocka_unit_test(kind_names_there_and_back),
        cmocka_unit_test(unknown_kind_names_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
