/* SPDX-License-Identifier: Apache-2.0 */
/* Packed documents, padding and keys of another length, where other people reported wrong results elsewhere,
 * one by one: doc/cases.md says which. */
#include "tests/e2e/attend.h"

#include <math.h>

#define DOCUMENTS(slots, lengths) { sizeof(slots) / sizeof((slots)[0]), slots, lengths }

static struct mask_case packed(rondo_mask_t mask, int64_t tokens, const struct packing *docs, int shape)
{
    return (struct mask_case){ .group = "case", .name = "packed", .mask = mask, .tokens = { tokens },
                               .docs = { docs }, .shape = shape };
}

/* Padding has o and all gradients zero and lse -inf, exactly, whatever lies there. */
static void padding_is_nothing(const struct attended *a)
{
    const struct answer *got = &a->team->answer;
    const struct masked *p = &a->p;

    for (int64_t t = 0; t < p->tokens[QUERIES]; t++) {
        if (!masked_is_padding(p, QUERIES, t))
            continue;
        for (int i = 0; i < p->q_heads * p->v_dim; i++)
            assert_true(got->o[t * p->q_heads * p->v_dim + i] == 0);
        for (int i = 0; i < p->q_heads * p->qk_dim; i++)
            assert_true(got->dq[t * p->q_heads * p->qk_dim + i] == 0);
        for (int i = 0; i < p->kv_heads * p->qk_dim; i++)
            assert_true(got->dk[t * p->kv_heads * p->qk_dim + i] == 0);
        for (int i = 0; i < p->kv_heads * p->v_dim; i++)
            assert_true(got->dv[t * p->kv_heads * p->v_dim + i] == 0);
        for (int h = 0; h < p->q_heads; h++)
            assert_true(got->lse[t * p->q_heads + h] == -INFINITY);
    }
}

static void exact_with_padding(const struct mask_case *is, rondo_layout_kind_t kind, rondo_deal_t deal, int ranks)
{
    struct attended a;

    attended_init(&a, is, 1, ranks, 1);
    for (int i = 0; i < 2; i++) {
        struct setting s = setting_of(kind, "ring", i ? "q-grad" : "kv-grad");

        s.deal = deal;
        attended_run(&a, &s);
        attended_is_exact(&a);
        padding_is_nothing(&a);
    }
    attended_release(&a);
}

/* ---- padding ---- */

static void seven_of_eight_slots(void **state)
{
    static const int64_t slots[] = { 8 }, lengths[] = { 7 };
    static const struct packing docs = DOCUMENTS(slots, lengths);
    struct mask_case is = packed(RONDO_MASK_CAUSAL, 8, &docs, 5);

    (void)state;
    exact_with_padding(&is, RONDO_LAYOUT_ZIGZAG, RONDO_DEAL_SEQUENCE, 2);
    exact_with_padding(&is, RONDO_LAYOUT_ZIGZAG, RONDO_DEAL_DOCUMENTS, 2);
}

/* One is added to V of the last token: its row changes as on one rank. */
static void last_token_counts(const struct packing *docs, int64_t tokens, rondo_layout_kind_t kind)
{
    struct mask_case is = packed(RONDO_MASK_CAUSAL, tokens, docs, 5);
    struct setting s = setting_of(kind, "ring", "kv-grad");
    struct attended a;
    float *before;

    exact_with_padding(&is, kind, RONDO_DEAL_SEQUENCE, 2);
    attended_init(&a, &is, 1, 2, 1);
    attended_run(&a, &s);
    before = copy_of(a.team->answer.o, tokens * 2 * 32);
    for (int i = 6 * 2 * 32; i < 7 * 2 * 32; i++)
        a.p.v[i] += 1;
    masked_solve(&a.p);
    attended_run(&a, &s);
    attended_is_exact(&a);
    assert_memory_equal(before, a.team->answer.o, 6 * 2 * 32 * sizeof(float));
    for (int i = 6 * 2 * 32; i < 7 * 2 * 32; i++)
        assert_true(a.team->answer.o[i] > before[i]);
    free(before);
    attended_release(&a);
}

static void the_last_valid_token_is_there(void **state)
{
    static const int64_t ten[] = { 10 }, twelve[] = { 12 }, lengths[] = { 7 };
    static const struct packing of_ten = DOCUMENTS(ten, lengths), of_twelve = DOCUMENTS(twelve, lengths);

    (void)state;
    last_token_counts(&of_ten, 10, RONDO_LAYOUT_CONTIGUOUS);
    last_token_counts(&of_twelve, 12, RONDO_LAYOUT_ZIGZAG);
}

static const int64_t six_slots[] = { 12, 8, 8, 12, 8, 12 }, six_lengths[] = { 9, 8, 8, 12, 8, 12 };
static const struct packing six = DOCUMENTS(six_slots, six_lengths);

static void half_a_piece_of_padding(void **state)
{
    static const int64_t first[] = { 0, 1, 2, 9, 10, 11 };
    struct mask_case is = packed(RONDO_MASK_CAUSAL, 60, &six, 5);
    struct setting s = setting_of(RONDO_LAYOUT_ZIGZAG, "ring", "kv-grad");
    rondo_layout_t layout = NULL;
    int64_t positions[60];
    struct masked p;

    (void)state;
    exact_with_padding(&is, RONDO_LAYOUT_ZIGZAG, RONDO_DEAL_DOCUMENTS, 2);
    masked_init(&p, &is, 1);
    s.deal = RONDO_DEAL_DOCUMENTS;
    assert_int_equal(setting_layout(&s, &p, QUERIES, 2, &layout), 0);
    assert_int_equal(rondo_layout_tokens(layout, 0), 30);
    assert_int_equal(rondo_layout_positions(layout, 0, positions), 0);
    assert_memory_equal(positions, first, sizeof(first));
    rondo_layout_destroy(layout);
    masked_release(&p);
}

/* ---- documents ---- */

static const int64_t five_slots[] = { 100, 300, 24, 500, 100 };
static const struct packing five = DOCUMENTS(five_slots, NULL);

/* Only document 1 has gradients: those of V of the others are zero, and not nearly. */
static void documents_are_alone(void **state)
{
    struct mask_case is = packed(RONDO_MASK_CAUSAL, 1024, &five, 11);

    (void)state;
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        struct setting s = setting_of(RONDO_LAYOUT_CONTIGUOUS, "ring", "kv-grad");
        struct attended a;

        exact(&is, RONDO_LAYOUT_ZIGZAG, RONDO_DEAL_SEQUENCE, ranks, 1);
        attended_init(&a, &is, 1, ranks, 1);
        set_all(a.p.d_o, 100 * 32, 0);
        set_all(a.p.d_o + 400 * 32, 624 * 32, 0);
        masked_solve(&a.p);
        attended_run(&a, &s);
        attended_is_exact(&a);
        for (int64_t i = 0; i < 1024 * 16; i++)
            assert_true(a.team->answer.dv[i] == 0 || (i >= 100 * 16 && i < 400 * 16));
        attended_release(&a);
    }
}

static void documents_across_shards(void **state)
{
    static const int64_t slots[] = { 19, 28, 24, 12, 25, 8, 4, 8 };
    static const struct packing docs = DOCUMENTS(slots, NULL);
    struct mask_case is = packed(RONDO_MASK_CAUSAL, 128, &docs, 5);

    (void)state;
    exact(&is, RONDO_LAYOUT_CONTIGUOUS, RONDO_DEAL_SEQUENCE, 4, 1);
    exact(&is, RONDO_LAYOUT_CONTIGUOUS, RONDO_DEAL_SEQUENCE, 4, 2);
}

static void documents_of_one_token_and_of_none(void **state)
{
    static const int64_t q[] = { 1, 0, 1 }, k[] = { 3, 0, 5 }, ones[] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    static const struct packing q_docs = DOCUMENTS(q, NULL), k_docs = DOCUMENTS(k, NULL);
    static const struct packing singles = DOCUMENTS(ones, NULL);
    struct mask_case crossed = { "case", "1, 0 and 1 queries", RONDO_MASK_CAUSAL, { .align_ends = 1 }, { 2, 8 },
                                 { &q_docs, &k_docs }, .shape = 7 };
    struct mask_case is = packed(RONDO_MASK_CAUSAL, 8, &singles, 5);
    struct setting s = setting_of(RONDO_LAYOUT_CONTIGUOUS, "ring", "kv-grad");
    struct attended a;

    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++)
        exact(&crossed, RONDO_LAYOUT_CONTIGUOUS, RONDO_DEAL_SEQUENCE, ranks, 1);
    attended_init(&a, &is, 1, 2, 1);
    attended_run(&a, &s);
    attended_is_exact(&a);
    assert_memory_equal(a.team->answer.o, a.p.v, 8 * 2 * 32 * sizeof(float));
    attended_release(&a);
}

static void refuses(const int64_t *cu_seqlens, int documents, const char *entry)
{
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    rondo_layout_t layout = NULL;

    desc.tokens = 8, desc.ranks = 2;
    desc.cu_seqlens = cu_seqlens, desc.documents = documents;
    assert_int_equal(rondo_layout_create(&desc, &layout), RONDO_ERR_ARGUMENT);
    assert_null(layout);
    assert_non_null(strstr(rondo_last_error(), "cu_seqlens"));
    if (!strstr(rondo_last_error(), entry))
        fail_msg("'%s' does not say '%s'", rondo_last_error(), entry);
}

static void offsets_that_repeat_and_offsets_that_are_wrong(void **state)
{
    static const int64_t slots[] = { 0, 4, 0, 4, 0 };
    static const struct packing docs = DOCUMENTS(slots, NULL);
    static const int64_t unsorted[] = { 0, 5, 3, 8 }, late[] = { 1, 8 }, beyond[] = { 0, 4, 9 };
    struct mask_case is = packed(RONDO_MASK_CAUSAL, 8, &docs, 5);

    (void)state;
    exact(&is, RONDO_LAYOUT_CONTIGUOUS, RONDO_DEAL_SEQUENCE, 2, 1);
    exact(&is, RONDO_LAYOUT_ZIGZAG, RONDO_DEAL_DOCUMENTS, 2, 1);
    refuses(unsorted, 3, "[2]");
    refuses(late, 1, "[0]");
    refuses(beyond, 2, "[2]");
}

/* Rows of a batch that have documents of their own are one row of them all. */
static void two_rows_with_documents_of_their_own(void **state)
{
    static const int64_t slots[] = { 10, 6, 4, 12 };
    static const struct packing docs = DOCUMENTS(slots, NULL);
    struct mask_case is = packed(RONDO_MASK_CAUSAL, 32, &docs, 5);

    (void)state;
    exact(&is, RONDO_LAYOUT_BALANCED, RONDO_DEAL_SEQUENCE, 2, 1);
    exact(&is, RONDO_LAYOUT_ZIGZAG, RONDO_DEAL_DOCUMENTS, 2, 1);
}

/* ---- keys of another length ---- */

/* 4 queries, 2 keys, aligned at their ends: the first two rows see nothing. */
static void rows_that_see_nothing_are_empty(void **state)
{
    struct mask_case is = { "case", "2 keys", RONDO_MASK_CAUSAL, { .align_ends = 1 }, { 4, 2 }, .shape = 5 };

    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++) {
        struct setting s = setting_of(RONDO_LAYOUT_CONTIGUOUS, "ring", "kv-grad");
        struct attended a;

        exact(&is, RONDO_LAYOUT_CONTIGUOUS, RONDO_DEAL_SEQUENCE, ranks, 1);
        attended_init(&a, &is, 1, ranks, 1);
        attended_run(&a, &s);
        for (int i = 0; i < 2 * 2 * 32; i++)
            assert_true(a.team->answer.o[i] == 0);
        for (int i = 0; i < 2 * 2; i++)
            assert_true(a.team->answer.lse[i] == -INFINITY);
        attended_release(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seven_of_eight_slots),
        cmocka_unit_test(the_last_valid_token_is_there),
        cmocka_unit_test(half_a_piece_of_padding),
        cmocka_unit_test(documents_are_alone),
        cmocka_unit_test(documents_across_shards),
        cmocka_unit_test(documents_of_one_token_and_of_none),
        cmocka_unit_test(offsets_that_repeat_and_offsets_that_are_wrong),
        cmocka_unit_test(two_rows_with_documents_of_their_own),
        cmocka_unit_test(rows_that_see_nothing_are_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
