/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels against the oracle: kinds of tiles, sizes, heads, strides, lists, cuts. */
#include "tests/kernel/check.h"

#include <stdlib.h>

#include "tests/short.h"

enum { COUNT_OF_SIZES = 11 };
static const int sizes[COUNT_OF_SIZES] = {1, 2, 5, 16, 31, 63, 64, 65, 97, 113, 130};

static void check_one_tile(const rondo_kernel_t *kernel, struct dims n, rondo_tile_t tile)
{
    check_fresh(kernel, n, &tile, 1, STRIDES_PACKED);
}

void every_kind_and_size(void **kernel)
{
    int step = test_is_short() ? 3 : 1;

    for (int a = 0; a < COUNT_OF_SIZES; a += step)
        for (int b = 0; b < COUNT_OF_SIZES; b += step) {
            int q = sizes[a], k = sizes[b];
            struct dims n = {1, q, k, 1, 1, 8, 8};

            check_one_tile(*kernel, n, tile_full(0, q, 0, k));
            check_one_tile(*kernel, n, tile_causal(0, q, 0, k));
            if (q > 1)
                check_one_tile(*kernel, n, tile_strict(0, q, 0, k));
            check_one_tile(*kernel, n, tile_band(0, q, 0, k, 0, q / 3));
            check_one_tile(*kernel, n, tile_band(0, q, 0, k, -k / 2, q / 4));
            check_one_tile(*kernel, n, tile_band(0, q, 0, k, q - k, q)); /* bottom right */
            check_one_tile(*kernel, n, tile_band(0, q, 0, k, -1, -1 + (k == 1)));
            check_one_tile(*kernel, n, tile_band(0, q, 0, k, INT64_MIN, INT64_MAX));
        }
}

void head_counts_and_batches(void **kernel)
{
    static const int heads[][2] = {{1, 1}, {3, 3}, {8, 2}, {4, 1}, {6, 3}};

    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        for (int batch = 1; batch <= 2; batch++) {
            struct dims n = {batch, 75, 70, heads[i][0], heads[i][1], 16, 24};

            check_one_tile(*kernel, n, tile_full(0, 75, 0, 70));
            check_one_tile(*kernel, n, tile_causal(0, 75, 0, 70));
        }
}

void head_sizes(void **kernel)
{
    static const int dims[][2] = {{1, 1},   {2, 3},     {8, 8},    {15, 17},   {16, 16},   {24, 24},
                                  {40, 40}, {64, 64},   {80, 80},  {128, 128}, {192, 128}, {64, 1},
                                  {1, 64},  {112, 100}, {256, 33}, {40, 24}};

    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
        struct dims n = {1, 70, 101, 2, 1, dims[i][0], dims[i][1]};

        check_one_tile(*kernel, n, tile_full(0, 70, 0, 101));
        check_one_tile(*kernel, n, tile_causal(0, 70, 0, 101));
    }
}

void strides_and_gaps(void **kernel)
{
    static const struct dims shapes[] = {{2, 40, 71, 4, 2, 16, 16}, {3, 7, 130, 2, 2, 5, 3}};
    rondo_tile_t tile;

    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        tile = tile_full(0, shapes[i].q_tokens, 0, shapes[i].k_tokens);
        check_fresh(*kernel, shapes[i], &tile, 1, STRIDES_GAPS);
        check_fresh(*kernel, shapes[i], &tile, 1, STRIDES_HEADS_FIRST);
        tile = tile_causal(2, shapes[i].q_tokens - 2, 1, shapes[i].k_tokens - 1);
        check_fresh(*kernel, shapes[i], &tile, 1, STRIDES_GAPS);
        check_fresh(*kernel, shapes[i], &tile, 1, STRIDES_HEADS_FIRST);
    }
}

void tile_lists(void **kernel)
{
    struct dims n = {1, 100, 100, 2, 1, 16, 8};
    const rondo_tile_t zigzag[] = {tile_causal(0, 50, 0, 50), tile_full(50, 50, 0, 50),
                                   tile_causal(50, 50, 50, 50)};
    const rondo_tile_t documents[] = {tile_causal(0, 1, 0, 1), tile_causal(1, 33, 1, 33),
                                      tile_strict(34, 60, 34, 60), tile_full(95, 5, 94, 6)};
    const rondo_tile_t pieces[] = {tile_band(10, 80, 0, 90, 0, 20),
                                   tile_band(10, 80, 0, 90, 21, 21),
                                   tile_band(10, 80, 0, 90, 50, 70)};

    check_fresh(*kernel, n, zigzag, 3, STRIDES_PACKED);
    check_fresh(*kernel, n, documents, 4, STRIDES_GAPS);
    check_fresh(*kernel, n, pieces, 3, STRIDES_PACKED);
}

/* More keys, and more queries, than a kernel that works in panels takes at once. */
void long_rows(void **kernel)
{
    struct dims wide = {1, 9, 2600, 2, 1, 16, 8}, tall = {1, 700, 30, 2, 1, 16, 8},
                square = {1, 1100, 1100, 1, 1, 8, 8};

    check_one_tile(*kernel, wide, tile_full(0, 9, 0, 2600));
    check_one_tile(*kernel, wide, tile_band(0, 9, 0, 2600, -2590, -700));
    check_one_tile(*kernel, tall, tile_full(0, 700, 0, 30));
    if (test_is_short())
        return;
    check_one_tile(*kernel, square, tile_causal(0, 1100, 0, 1100));
    check_one_tile(*kernel, square, tile_band(0, 1100, 0, 1100, 300, 500));
}

/* Whole equals split: keys in five runs, one call each, in several orders. */
void split_and_merge_in_any_order(void **kernel)
{
    enum { RUNS = 5, TOKENS = 117 };
    static const int64_t starts[RUNS + 1] = {0, 1, 40, 64, 100, TOKENS};
    struct dims n = {2, 90, TOKENS, 4, 2, 24, 16};
    rondo_tile_t whole = tile_causal(0, 90, 0, TOKENS);

    for (int order = 1; order < RUNS; order++) {
        struct problem *p = problem_create(n, default_scale(n), &whole, 1, STRIDES_PACKED, 3);

        oracle_forward(p);
        oracle_backward(p);
        for (int i = 0; i < RUNS; i++) {
            int r = (i * order + order) % RUNS;
            rondo_tile_t tile =
                tile_band(0, 90, starts[r], starts[r + 1] - starts[r], starts[r], 90);

            if (starts[r] < 90)
                run_forward(*kernel, p, &tile, 1);
        }
        check_box(&p->o, p->want_o, p, "o");
        check_box(&p->lse, p->want_lse, p, "lse");
        oracle_give_lse_and_delta(p);
        for (int i = 0; i < RUNS; i++) {
            int r = (i * order + order) % RUNS;
            rondo_tile_t tile =
                tile_band(0, 90, starts[r], starts[r + 1] - starts[r], starts[r], 90);

            if (starts[r] < 90)
                run_backward(*kernel, p, &tile, 1);
        }
        check_box(&p->dq, p->want_dq, p, "dq");
        check_box(&p->dk, p->want_dk, p, "dk");
        check_box(&p->dv, p->want_dv, p, "dv");
        problem_destroy(p);
    }
}

/* A plan cuts a tile into runs of queries, to drive the network between them. */
void slices_of_rows(void **kernel)
{
    struct dims n = {1, 130, 130, 2, 2, 16, 16};
    rondo_tile_t whole = tile_causal(0, 130, 0, 130);

    for (int rows = 1; rows < 130; rows = rows * 3 + 1) {
        struct problem *p = problem_create(n, default_scale(n), &whole, 1, STRIDES_PACKED, 4);

        oracle_forward(p);
        oracle_backward(p);
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t i = 0; i < 130; i += rows) {
                int64_t count = 130 - i < rows ? 130 - i : rows;
                rondo_tile_t tile = tile_band(i, count, 0, 130, -i, 129);

                (pass == 0 ? run_forward : run_backward)(*kernel, p, &tile, 1);
            }
            if (pass == 0) {
                check_box(&p->o, p->want_o, p, "o");
                check_box(&p->lse, p->want_lse, p, "lse");
                oracle_give_lse_and_delta(p);
            }
        }
        check_box(&p->dq, p->want_dq, p, "dq");
        check_box(&p->dk, p->want_dk, p, "dk");
        check_box(&p->dv, p->want_dv, p, "dv");
        problem_destroy(p);
    }
}

void gradients_add(void **kernel)
{
    struct dims n = {1, 33, 40, 2, 1, 8, 16};
    rondo_tile_t tile = tile_causal(0, 33, 0, 33);
    struct problem *p = problem_create(n, default_scale(n), &tile, 1, STRIDES_GAPS, 5);
    int64_t q_floats = 33 * 2 * 8, k_floats = 40 * 8, v_floats = 40 * 16;

    oracle_forward(p);
    oracle_backward(p);
    oracle_give_lse_and_delta(p);
    box_fill(&p->dq, 1);
    box_fill(&p->dk, -2);
    box_fill(&p->dv, 3);
    for (int64_t i = 0; i < q_floats; i++)
        p->want_dq[i] += 1;
    for (int64_t i = 0; i < k_floats; i++)
        p->want_dk[i] -= 2;
    for (int64_t i = 0; i < v_floats; i++)
        p->want_dv[i] += 3;
    run_backward(*kernel, p, &tile, 1);
    check_box(&p->dq, p->want_dq, p, "dq");
    check_box(&p->dk, p->want_dk, p, "dk");
    check_box(&p->dv, p->want_dv, p, "dv");
    problem_destroy(p);
}

/* sum(o * d_o) in double, by the oracle's forward alone. */
static double loss(struct problem *p)
{
    double sum = 0;

    oracle_forward(p);
    for (int64_t b = 0; b < p->n.batch; b++)
        for (int64_t t = 0; t < p->n.q_tokens; t++)
            for (int h = 0; h < p->n.q_heads; h++)
                for (int d = 0; d < p->n.v_dim; d++)
                    sum += p->want_o[oracle_at(&p->o, b, t, h) + d] *
                           (double)box_at(&p->d_o, b, t, h)[d];
    return sum;
}

static void check_quotients(struct problem *p, struct box *x, const struct box *gradient)
{
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t t = 0; t < x->tokens; t++)
            for (int h = 0; h < x->heads; h++)
                for (int d = 0; d < x->dim; d++) {
                    float *element = &box_at(x, b, t, h)[d], kept = *element;
                    float above = kept + 0.002f, below = kept - 0.002f;
                    double rise, got = (double)box_at(gradient, b, t, h)[d];

                    *element = above;
                    rise = loss(p);
                    *element = below;
                    rise -= loss(p);
                    *element = kept;
                    assert_true(got - rise / ((double)above - (double)below) < 3e-5);
                    assert_true(rise / ((double)above - (double)below) - got < 3e-5);
                }
}

void gradients_are_difference_quotients(void **kernel)
{
    struct dims n = {2, 9, 8, 4, 2, 5, 3};
    const rondo_tile_t tiles[] = {tile_causal(1, 7, 1, 7), tile_full(8, 1, 0, 5)};
    struct problem *p = problem_create(n, default_scale(n), tiles, 2, STRIDES_PACKED, 6);

    oracle_forward(p);
    oracle_give_lse_and_delta(p);
    run_backward(*kernel, p, tiles, 2);
    check_quotients(p, &p->q, &p->dq);
    check_quotients(p, &p->k, &p->dk);
    check_quotients(p, &p->v, &p->dv);
    problem_destroy(p);
}
