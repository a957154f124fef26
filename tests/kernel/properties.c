/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of any kernel, whatever the numbers. */
#include "tests/kernel/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/status.h>

#include "kernels/table.h"

static const struct dims middling = {2, 100, 110, 4, 2, 24, 16};

void zero_keys_give_the_mean(void **kernel)
{
    rondo_tile_t tile = tile_causal(0, 100, 0, 110);
    struct problem *p = problem_create(middling, 0.3f, &tile, 1, STRIDES_PACKED, 1);

    box_fill(&p->k, 0);
    run_forward(*kernel, p, &tile, 1);
    for (int64_t t = 0; t < 100; t++)
        for (int d = 0; d < 16; d++) {
            double mean = 0;

            for (int64_t j = 0; j <= t; j++)
                mean += (double)box_at(&p->v, 1, j, 1)[d] / (double)(t + 1);
            assert_true(fabs((double)box_at(&p->o, 1, t, 3)[d] - mean) <= 2e-6);
            assert_true(fabs((double)*box_at(&p->lse, 1, t, 3) - log((double)(t + 1))) <= 1e-6);
        }
    problem_destroy(p);
}

static void check_all_near(const struct box *x, double value, double tolerance)
{
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t t = 0; t < x->tokens; t++)
            for (int h = 0; h < x->heads; h++)
                for (int d = 0; d < x->dim; d++)
                    assert_true(fabs((double)box_at(x, b, t, h)[d] - value) <= tolerance);
}

/* v = 1: o = 1, and no score can change it, so dq = dk = 0. */
void constant_values_come_back(void **kernel)
{
    rondo_tile_t tile = tile_causal(0, 100, 0, 110);
    struct problem *p = problem_create(middling, 0.2f, &tile, 1, STRIDES_PACKED, 2);

    box_fill(&p->v, 1);
    run_forward(*kernel, p, &tile, 1);
    check_all_near(&p->o, 1, 1e-6);
    for (int64_t b = 0; b < 2; b++)
        for (int h = 0; h < 4; h++)
            ri_delta(box_at(&p->delta, b, 0, h), p->delta.view.token_stride, box_at(&p->o, b, 0, h),
                     p->o.view.token_stride, box_at(&p->d_o, b, 0, h), p->d_o.view.token_stride,
                     100, 16);
    run_backward(*kernel, p, &tile, 1);
    check_all_near(&p->dq, 0, 1e-5);
    check_all_near(&p->dk, 0, 1e-5);
    problem_destroy(p);
}

void zero_d_o_gives_zero_gradients(void **kernel)
{
    rondo_tile_t tile = tile_full(0, 100, 0, 110);
    struct problem *p = problem_create(middling, 0.2f, &tile, 1, STRIDES_PACKED, 3);

    box_fill(&p->d_o, 0);
    run_forward(*kernel, p, &tile, 1);
    run_backward(*kernel, p, &tile, 1);
    check_all_near(&p->dq, 0, 0);
    check_all_near(&p->dk, 0, 0);
    check_all_near(&p->dv, 0, 0);
    problem_destroy(p);
}

/* Tokens first <= t < end of every head and batch. */
static void spoil(struct box *x, int64_t first, int64_t end, float value)
{
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t t = first; t < end; t++)
            for (int h = 0; h < x->heads; h++)
                for (int d = 0; d < x->dim; d++)
                    box_at(x, b, t, h)[d] = value;
}

static void check_same_tokens(const struct box *x, const float *kept, int64_t first, int64_t end)
{
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t t = first; t < end; t++)
            for (int h = 0; h < x->heads; h++)
                assert_memory_equal(box_at(x, b, t, h), kept + oracle_at(x, b, t, h),
                                    (size_t)x->dim * sizeof(float));
}

static void empty_outputs(struct problem *p)
{
    box_fill(&p->o, 0);
    box_fill(&p->lse, -INFINITY);
}

static void zero_gradients(struct problem *p)
{
    box_fill(&p->dq, 0);
    box_fill(&p->dk, 0);
    box_fill(&p->dv, 0);
}

/* Offsets in steps of five meet every place within a group of rows that a kernel takes at once. */
static const struct dims narrow = {1, 100, 110, 2, 1, 24, 16};
static const int64_t stride_of_offsets = 5;
static const float spoilers[] = {1e30f, NAN, INFINITY};
enum { SPOILERS = 3 };

/* Rows before `rows` see only keys before `from`: o, lse and dq must not change by one bit. */
static void check_blind_rows(const rondo_kernel_t *kernel, rondo_tile_t tile, int64_t rows,
                             int64_t from)
{
    for (int s = 0; s < SPOILERS; s++) {
        struct problem *p = problem_create(narrow, 0.2f, &tile, 1, STRIDES_PACKED, 4);
        float *o, *lse, *dq;

        run_forward(kernel, p, &tile, 1);
        o = box_copy(&p->o);
        lse = box_copy(&p->lse);
        run_backward(kernel, p, &tile, 1);
        dq = box_copy(&p->dq);
        spoil(&p->k, from, 110, spoilers[s]);
        spoil(&p->v, from, 110, spoilers[s]);
        zero_gradients(p);
        run_backward(kernel, p, &tile, 1); /* with the old lse */
        check_same_tokens(&p->dq, dq, 0, rows);
        empty_outputs(p);
        run_forward(kernel, p, &tile, 1);
        check_same_tokens(&p->o, o, 0, rows);
        check_same_tokens(&p->lse, lse, 0, rows);
        free(o);
        free(lse);
        free(dq);
        problem_destroy(p);
    }
}

void later_keys_never_change_earlier_rows(void **kernel)
{
    for (int64_t from = 1; from < 100; from += stride_of_offsets) {
        check_blind_rows(*kernel, tile_causal(0, 100, 0, 110), from, from);
        check_blind_rows(*kernel, tile_strict(0, 100, 0, 110), from + 1, from);
        check_blind_rows(*kernel, tile_band(0, 100, 0, 110, -7, 12), from < 7 ? 0 : from - 7, from);
    }
}

/* Queries before `until` do not see keys from `from` on: whatever they hold, the gradients of those
 * keys keep their bits. */
static void check_hidden_queries(const rondo_kernel_t *kernel, rondo_tile_t tile, int64_t until,
                                 int64_t from)
{
    for (int s = 0; s < SPOILERS; s++) {
        struct problem *p = problem_create(narrow, 0.2f, &tile, 1, STRIDES_PACKED, 5);
        float *dk, *dv;

        run_forward(kernel, p, &tile, 1);
        run_backward(kernel, p, &tile, 1);
        dk = box_copy(&p->dk);
        dv = box_copy(&p->dv);
        spoil(&p->q, 0, until, spoilers[s]);
        spoil(&p->d_o, 0, until, spoilers[s]);
        spoil(&p->delta, 0, until, spoilers[s]);
        zero_gradients(p);
        run_backward(kernel, p, &tile, 1);
        check_same_tokens(&p->dk, dk, from, 110);
        check_same_tokens(&p->dv, dv, from, 110);
        free(dk);
        free(dv);
        problem_destroy(p);
    }
}

void hidden_rows_never_change_gradients(void **kernel)
{
    for (int64_t until = 1; until < 100; until += stride_of_offsets) {
        check_hidden_queries(*kernel, tile_causal(0, 100, 0, 110), until, until);
        check_hidden_queries(*kernel, tile_strict(0, 100, 0, 110), until, until - 1);
        check_hidden_queries(*kernel, tile_band(0, 100, 0, 110, -7, 12), until, until + 7);
    }
}

/* Bottom-right causal, four queries and two keys: rows 0 and 1 see nothing. */
void empty_rows_stay(void **kernel)
{
    struct dims n = {1, 4, 2, 1, 1, 4, 3};
    rondo_tile_t tile = tile_band(0, 4, 0, 2, 2, 3);
    struct problem *p = problem_create(n, 0.5f, &tile, 1, STRIDES_PACKED, 6);
    const float second[2][3] = {{7, -7, 0.1f}, {7, -7, 0.1f}}, second_lse[2] = {-20, -20};

    check_problem(*kernel, p);
    empty_outputs(p);
    run_forward(*kernel, p, &tile, 1);
    for (int64_t t = 0; t < 2; t++) {
        assert_true(*box_at(&p->lse, 0, t, 0) == -INFINITY);
        for (int d = 0; d < 3; d++)
            assert_true(box_at(&p->o, 0, t, 0)[d] == 0);
    }
    ri_merge_lse(box_at(&p->o, 0, 0, 0), 3, box_at(&p->lse, 0, 0, 0), 1, second[0], 3, second_lse,
                 1, 2, 3);
    assert_memory_equal(box_at(&p->o, 0, 0, 0), second, sizeof second);
    assert_memory_equal(box_at(&p->lse, 0, 0, 0), second_lse, sizeof second_lse);
    run_forward(*kernel, p, &tile, 1); /* full rows stay as they are, too */
    assert_memory_equal(box_at(&p->o, 0, 0, 0), second, sizeof second);
    assert_memory_equal(box_at(&p->lse, 0, 0, 0), second_lse, sizeof second_lse);
    problem_destroy(p);
}

/* Every score -6e4: a mask value for some, a score like any other here. */
void hugely_negative_scores_count(void **kernel)
{
    struct dims n = {1, 3, 16, 1, 1, 8, 4};
    rondo_tile_t all = tile_full(0, 3, 0, 16), one = tile_band(0, 3, 5, 3, 2, 2);
    struct problem *p = problem_create(n, 1, &all, 1, STRIDES_PACKED, 7);

    spoil(&p->q, 0, 3, -75);
    spoil(&p->k, 0, 16, 100);
    run_forward(*kernel, p, &all, 1);
    for (int d = 0; d < 4; d++) {
        double mean = 0;

        for (int64_t j = 0; j < 16; j++)
            mean += (double)box_at(&p->v, 0, j, 0)[d] / 16;
        assert_true(fabs((double)box_at(&p->o, 0, 1, 0)[d] - mean) <= 1e-6);
    }
    assert_true(fabs((double)*box_at(&p->lse, 0, 1, 0) - (-6e4 + log(16))) <= 0.012);
    empty_outputs(p);
    run_forward(*kernel, p, &one, 1); /* query 2 sees key 5 alone, the others nothing */
    assert_memory_equal(box_at(&p->o, 0, 2, 0), box_at(&p->v, 0, 5, 0), 4 * sizeof(float));
    assert_true(fabs((double)*box_at(&p->lse, 0, 2, 0) + 6e4) <= 0.012);
    assert_true(*box_at(&p->lse, 0, 1, 0) == -INFINITY);
    problem_destroy(p);
}

void large_scores_do_not_overflow(void **kernel)
{
    rondo_tile_t tile = tile_causal(0, 100, 0, 110);
    struct problem *p = problem_create(middling, 40, &tile, 1, STRIDES_PACKED, 8);

    oracle_forward(p);
    run_forward(*kernel, p, &tile, 1);
    for (int64_t t = 0; t < 100; t++) {
        double want = p->want_lse[oracle_at(&p->lse, 0, t, 0)];

        assert_true(fabs((double)*box_at(&p->lse, 0, t, 0) - want) <= 1e-6 * fabs(want) + 1e-4);
        for (int d = 0; d < 16; d++)
            assert_true(fabs((double)box_at(&p->o, 0, t, 0)[d] -
                             p->want_o[oracle_at(&p->o, 0, t, 0) + d]) <= 2e-3);
    }
    problem_destroy(p);
}

/* Scales of zero and below are scales; so are weights that fall below the smallest float. */
void scores_in_and_out_of_range(void **kernel)
{
    static const float scales[] = {0, -0.2f, 1e-30f, 0.05f, 1};
    const struct dims n = {1, 40, 70, 1, 1, 12, 5};
    rondo_tile_t tile = tile_causal(0, 40, 0, 70);

    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        struct problem *p = problem_create(n, scales[i], &tile, 1, STRIDES_PACKED, 9);

        check_problem(*kernel, p);
        problem_destroy(p);
    }
}

/* Products that overflow to -inf weigh nothing, and where no other is seen the row stays empty. */
void scores_of_minus_infinity_weigh_nothing(void **kernel)
{
    rondo_tile_t tile = tile_causal(0, 100, 0, 110);
    struct problem *p = problem_create(narrow, 0.2f, &tile, 1, STRIDES_PACKED, 13);

    spoil(&p->q, 0, 100, -1e30f);
    spoil(&p->k, 0, 110, 1e30f);
    spoil(&p->k, 70, 71, 0);
    spoil(&p->k, 80, 81, 0);
    run_forward(*kernel, p, &tile, 1);
    for (int64_t t = 0; t < 100; t++) {
        float lse = *box_at(&p->lse, 0, t, 1), o = box_at(&p->o, 0, t, 1)[3];
        float first = box_at(&p->v, 0, 70, 0)[3], second = box_at(&p->v, 0, 80, 0)[3];

        if (t < 70)
            assert_true(lse == -INFINITY && o == 0);
        else if (t < 80)
            assert_true(lse == 0 && o == first);
        else
            assert_true(fabsf(lse - (float)M_LN2) < 1e-6f &&
                        fabsf(o - (first + second) / 2) < 1e-6f);
    }
    problem_destroy(p);
}

/* A NaN that a row does see must not be lost on the way. */
void seen_nan_is_reported(void **kernel)
{
    for (int in_key = 0; in_key < 2; in_key++)
        for (int64_t key = 0; key < 110; key += 9) {
            rondo_tile_t tile = tile_full(0, 100, 0, 110);
            struct problem *p = problem_create(middling, 0.2f, &tile, 1, STRIDES_PACKED, 10);

            spoil(in_key ? &p->k : &p->v, key, key + 1, NAN);
            run_forward(*kernel, p, &tile, 1);
            for (int64_t t = 0; t < 100; t++)
                assert_true(isnan(box_at(&p->o, 1, t, 2)[15]));
            problem_destroy(p);
        }
}

/* lse == -inf, and NaN in all else that the row holds. */
void rows_without_lse_add_nothing(void **kernel)
{
    rondo_tile_t tile = tile_full(0, 100, 0, 110);
    struct problem *p = problem_create(middling, 0.2f, &tile, 1, STRIDES_PACKED, 11);
    float *zeros = calloc(2 * 110 * 4 * 24, sizeof *zeros);

    assert_non_null(zeros);
    box_fill(&p->lse, -INFINITY);
    box_fill(&p->d_o, NAN);
    box_fill(&p->delta, NAN);
    box_fill(&p->q, NAN);
    run_backward(*kernel, p, &tile, 1);
    box_fill(&p->k, NAN);
    run_backward(*kernel, p, &tile, 1);
    check_same_tokens(&p->dq, zeros, 0, 100);
    check_same_tokens(&p->dk, zeros, 0, 110);
    check_same_tokens(&p->dv, zeros, 0, 110);
    free(zeros);
    problem_destroy(p);
}

void two_runs_give_the_same_bits(void **kernel)
{
    const rondo_tile_t tiles[] = {tile_causal(0, 60, 0, 60), tile_full(60, 40, 0, 110)};
    struct problem *p = problem_create(middling, 0.2f, tiles, 2, STRIDES_GAPS, 12);
    float *o, *dq, *dk, *dv;

    run_forward(*kernel, p, tiles, 2);
    run_backward(*kernel, p, tiles, 2);
    o = box_copy(&p->o);
    dq = box_copy(&p->dq);
    dk = box_copy(&p->dk);
    dv = box_copy(&p->dv);
    empty_outputs(p);
    zero_gradients(p);
    run_forward(*kernel, p, tiles, 2);
    run_backward(*kernel, p, tiles, 2);
    check_same_tokens(&p->o, o, 0, 100);
    check_same_tokens(&p->dq, dq, 0, 100);
    check_same_tokens(&p->dk, dk, 0, 110);
    check_same_tokens(&p->dv, dv, 0, 110);
    free(o);
    free(dq);
    free(dk);
    free(dv);
    problem_destroy(p);
}

void other_types_are_refused(void **kernel)
{
    const rondo_kernel_t *k = *kernel;
    rondo_kernel_shape_t shape = {.struct_bytes = sizeof shape, .dtype = RONDO_F64, .batch = 1,
                                  .q_heads = 1, .kv_heads = 1, .qk_dim = 4, .v_dim = 4, .scale = 1,
                                  .max_q_tokens = 1, .max_k_tokens = 1, .threads = 1};
    rondo_kernel_forward_t forward = {.struct_bytes = sizeof forward, .shape = &shape};
    rondo_kernel_backward_t backward = {.struct_bytes = sizeof backward, .shape = &shape};

    assert_int_equal(k->forward(k->context, &forward), RONDO_ERR_UNSUPPORTED);
    assert_int_equal(k->backward(k->context, &backward), RONDO_ERR_UNSUPPORTED);
}
