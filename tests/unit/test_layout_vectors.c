/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts of packed documents and of windows against figures that were worked out by hand, or that others
 * publish. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include <rondo/layout.h>

#include "layout/balance.h"
#include "layout/sight.h"

enum { ROOM = 1024 };

static rondo_layout_t make(const rondo_layout_desc_t *desc)
{
    rondo_layout_t layout = NULL;

    assert_int_equal(rondo_layout_create(desc, &layout), RONDO_OK);
    return layout;
}

static rondo_layout_desc_t packed(rondo_layout_kind_t kind, int ranks, const int64_t *cu_seqlens, int documents)
{
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;

    desc.kind = kind;
    desc.ranks = ranks;
    desc.tokens = cu_seqlens[documents];
    desc.cu_seqlens = cu_seqlens;
    desc.documents = documents;
    desc.deal = RONDO_DEAL_DOCUMENTS;
    return desc;
}

static void assert_positions(rondo_layout_t layout, int rank, int n, const int64_t *global, const int64_t *in_document)
{
    int64_t positions[ROOM];

    assert_int_equal(rondo_layout_tokens(layout, rank), n);
    assert_int_equal(rondo_layout_positions(layout, rank, positions), RONDO_OK);
    assert_memory_equal(positions, global, (size_t)n * sizeof(*global));
    assert_int_equal(rondo_layout_document_positions(layout, rank, positions), RONDO_OK);
    assert_memory_equal(positions, in_document, (size_t)n * sizeof(*in_document));
}

static void zigzag_of_documents_of_8_and_4(void **state)
{
    rondo_layout_desc_t desc = packed(RONDO_LAYOUT_ZIGZAG, 2, (const int64_t[]){ 0, 8, 12 }, 2);
    rondo_layout_t layout = make(&desc);

    (void)state;
    assert_positions(layout, 0, 6, (const int64_t[]){ 0, 1, 6, 7, 8, 11 }, (const int64_t[]){ 0, 1, 6, 7, 0, 3 });
    assert_positions(layout, 1, 6, (const int64_t[]){ 2, 3, 4, 5, 9, 10 }, (const int64_t[]){ 2, 3, 4, 5, 1, 2 });
    rondo_layout_destroy(layout);
}

static void zigzag_of_documents_of_4_and_4(void **state)
{
    rondo_layout_desc_t desc = packed(RONDO_LAYOUT_ZIGZAG, 2, (const int64_t[]){ 0, 4, 8 }, 2);
    rondo_layout_t layout = make(&desc);

    (void)state;
    assert_positions(layout, 0, 4, (const int64_t[]){ 0, 3, 4, 7 }, (const int64_t[]){ 0, 3, 0, 3 });
    assert_int_equal(rondo_layout_document_positions(layout, 0, NULL), RONDO_ERR_ARGUMENT);
    rondo_layout_destroy(layout);
}

/* Rank 1 begins in the middle of its document, and sees all keys of rank 0. */
static void a_document_over_two_ranks(void **state)
{
    rondo_layout_desc_t desc = packed(RONDO_LAYOUT_CONTIGUOUS, 2, (const int64_t[]){ 0, 2048 }, 1);
    rondo_layout_t layout = make(&desc);
    int64_t positions[ROOM];

    (void)state;
    assert_int_equal(rondo_layout_document_positions(layout, 1, positions), RONDO_OK);
    for (int i = 0; i < ROOM; i++)
        assert_int_equal(positions[i], 1024 + i);
    assert_int_equal(rondo_layout_pairs(layout, 1, RONDO_MASK_CAUSAL, NULL), 1024 * 1024 + 1024 * 1025 / 2);
    rondo_layout_destroy(layout);
}

static int64_t clamp(int64_t x, int64_t most)
{
    return x < 0 ? 0 : x < most ? x : most;
}

/* Slots of document d are a multiple of 2P, so pieces are of c: rank r has clamp(len - rc, 0, c) tokens of the
 * front one and clamp(len - (2P - 1 - r)c, 0, c) of the back one. */
static void check_padded(int ranks, const int64_t *lengths, const int64_t *cu_seqlens, int documents)
{
    rondo_layout_desc_t desc = packed(RONDO_LAYOUT_ZIGZAG, ranks, cu_seqlens, documents);
    int64_t positions[ROOM], in_document[ROOM], all = 0;
    rondo_layout_t layout;

    desc.lengths = lengths;
    layout = make(&desc);
    for (int r = 0; r < ranks; r++) {
        int64_t tokens[8] = { 0 };

        assert_int_equal(rondo_layout_positions(layout, r, positions), RONDO_OK);
        assert_int_equal(rondo_layout_document_positions(layout, r, in_document), RONDO_OK);
        for (int64_t i = 0, d = 0; i < rondo_layout_tokens(layout, r); i++) {
            while (positions[i] >= cu_seqlens[d + 1])
                d++;
            assert_int_equal(in_document[i], positions[i] - cu_seqlens[d]);
            tokens[d] += in_document[i] < lengths[d];
        }
        for (int d = 0; d < documents; d++) {
            int64_t c = (cu_seqlens[d + 1] - cu_seqlens[d]) / (2 * ranks);

            assert_int_equal(tokens[d], clamp(lengths[d] - r * c, c) + clamp(lengths[d] - (2 * ranks - 1 - r) * c, c));
            all += tokens[d];
        }
    }
    for (int d = 0; d < documents; d++)
        all -= lengths[d];
    assert_int_equal(all, 0);
    rondo_layout_destroy(layout);
}

static void tokens_among_padding(void **state)
{
    (void)state;
    check_padded(4, (const int64_t[]){ 7, 9, 1, 0, 698 }, (const int64_t[]){ 0, 8, 24, 32, 32, 736 }, 5);
    check_padded(2, (const int64_t[]){ 9, 8, 8, 12, 8, 12 }, (const int64_t[]){ 0, 12, 20, 28, 40, 48, 60 }, 6);
}

/* w keys, its own among them, are left w - 1. */
static void a_window_of_six(void **state)
{
    static const int64_t pairs[3][4] = { { 10, 23, 24, 24 }, { 15, 19, 23, 24 }, { 18, 20, 21, 22 } };
    static const int64_t most[3] = { 24, 24, 22 };
    rondo_mask_params_t params = RONDO_MASK_PARAMS_INIT;
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;

    (void)state;
    params.left = 5;
    params.right = 0;
    desc.tokens = 16;
    desc.ranks = 4;
    for (int kind = 0; kind < 3; kind++) {
        rondo_layout_t layout;
        double ratio;

        desc.kind = (rondo_layout_kind_t)kind;
        layout = make(&desc);
        for (int r = 0; r < 4; r++)
            assert_int_equal(rondo_layout_pairs(layout, r, RONDO_MASK_WINDOW, &params), pairs[kind][r]);
        assert_int_equal(rondo_layout_balance(layout, RONDO_MASK_WINDOW, &params, &ratio), RONDO_OK);
        assert_float_equal(ratio, (double)most[kind] * 4 / 81, 1e-6);
        rondo_layout_destroy(layout);
    }
}

/* Row i sees min(i + 1, 4) keys: one rank for each row. */
static void a_window_of_four_row_by_row(void **state)
{
    rondo_mask_params_t params = RONDO_MASK_PARAMS_INIT;
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    rondo_layout_t layout;

    (void)state;
    params.left = 3;
    params.right = 0;
    desc.tokens = desc.ranks = 16;
    layout = make(&desc);
    for (int i = 0; i < 16; i++)
        assert_int_equal(rondo_layout_pairs(layout, i, RONDO_MASK_WINDOW, &params), i < 3 ? i + 1 : 4);
    rondo_layout_destroy(layout);
}

static void chunks_of_causal_work_are_a_zigzag(void **state)
{
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    rondo_layout_t layout;

    (void)state;
    desc.kind = RONDO_LAYOUT_BALANCED;
    desc.tokens = 64;
    desc.ranks = 4;
    desc.mask = RONDO_MASK_CAUSAL;
    desc.chunk_tokens = 8;
    layout = make(&desc);
    for (int chunk = 0; chunk < 8; chunk++)
        assert_int_equal(layout->balance->rank[chunk], chunk < 4 ? chunk : 7 - chunk);
    rondo_layout_destroy(layout);
}

static void the_busiest_over_the_mean(void **state)
{
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    rondo_layout_t layout;
    double ratio = -1;

    (void)state;
    desc.tokens = 16;
    desc.ranks = 4;
    layout = make(&desc);
    assert_int_equal(rondo_layout_balance(layout, RONDO_MASK_CAUSAL, NULL, NULL), RONDO_ERR_ARGUMENT);
    assert_int_equal(rondo_layout_balance(NULL, RONDO_MASK_CAUSAL, NULL, &ratio), RONDO_ERR_ARGUMENT);
    assert_int_equal(rondo_layout_balance(layout, RONDO_MASK_WINDOW, NULL, &ratio), RONDO_ERR_ARGUMENT);
    assert_true(ratio < 0);
    assert_int_equal(rondo_layout_balance(layout, RONDO_MASK_CAUSAL, NULL, &ratio), RONDO_OK);
    assert_float_equal(ratio, 58.0 / 34, 1e-6);
    assert_int_equal(rondo_layout_balance(layout, RONDO_MASK_FULL, NULL, &ratio), RONDO_OK);
    assert_float_equal(ratio, 1, 1e-6);
    rondo_layout_destroy(layout);
    desc.tokens = 1; /* which sees nothing */
    layout = make(&desc);
    assert_int_equal(rondo_layout_balance(layout, RONDO_MASK_STRICT, NULL, &ratio), RONDO_OK);
    assert_float_equal(ratio, 1, 1e-6);
    rondo_layout_destroy(layout);
}

/* 1, 0 and 1 queries at the ends of 3, 0 and 5 keys see them all. */
static void documents_of_one_query(void **state)
{
    rondo_layout_desc_t q = packed(RONDO_LAYOUT_ZIGZAG, 2, (const int64_t[]){ 0, 1, 1, 2 }, 3);
    rondo_layout_desc_t k = packed(RONDO_LAYOUT_ZIGZAG, 2, (const int64_t[]){ 0, 3, 3, 8 }, 3);
    rondo_mask_params_t params = RONDO_MASK_PARAMS_INIT;
    rondo_layout_t q_layout = make(&q), k_layout = make(&k);
    struct ri_sight sight;

    (void)state;
    params.align_ends = 1;
    assert_int_equal(ri_sight_init(&sight, q_layout, k_layout, RONDO_MASK_CAUSAL, &params), 0);
    assert_int_equal(ri_sight_query_pairs(&sight, 0) + ri_sight_query_pairs(&sight, 1), 8);
    ri_sight_release(&sight);
    rondo_layout_destroy(q_layout);
    rondo_layout_destroy(k_layout);
}

static void refuse(const int64_t *cu_seqlens, int documents, int64_t tokens, const char *name, const char *value)
{
    rondo_layout_desc_t desc = packed(RONDO_LAYOUT_ZIGZAG, 2, cu_seqlens, documents);
    rondo_layout_t layout = NULL;

    desc.tokens = tokens;
    assert_int_equal(rondo_layout_create(&desc, &layout), RONDO_ERR_ARGUMENT);
    assert_null(layout);
    assert_non_null(strstr(rondo_last_error(), name));
    assert_non_null(strstr(rondo_last_error(), value));
}

static void bounds_that_are_refused(void **state)
{
    rondo_layout_desc_t desc = packed(RONDO_LAYOUT_ZIGZAG, 2, (const int64_t[]){ 0, 0, 4, 4, 8, 8 }, 5);
    rondo_layout_t layout = make(&desc);

    (void)state;
    assert_int_equal(rondo_layout_pairs(layout, 0, RONDO_MASK_CAUSAL, NULL), 10);
    rondo_layout_destroy(layout);
    refuse((const int64_t[]){ 0, 5, 3, 8 }, 3, 8, "cu_seqlens[2]", "3");
    refuse((const int64_t[]){ 1, 8 }, 1, 8, "cu_seqlens[0]", "1");
    refuse((const int64_t[]){ 0, 9 }, 1, 8, "cu_seqlens[1]", "9");
    refuse((const int64_t[]){ 0, 8, 16 }, 2, 8, "cu_seqlens[2], the last, is 16", "tokens, 8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zigzag_of_documents_of_8_and_4),
        cmocka_unit_test(zigzag_of_documents_of_4_and_4),
        cmocka_unit_test(a_document_over_two_ranks),
        cmocka_unit_test(tokens_among_padding),
        cmocka_unit_test(a_window_of_six),
        cmocka_unit_test(a_window_of_four_row_by_row),
        cmocka_unit_test(chunks_of_causal_work_are_a_zigzag),
        cmocka_unit_test(the_busiest_over_the_mean),
        cmocka_unit_test(documents_of_one_query),
        cmocka_unit_test(bounds_that_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
