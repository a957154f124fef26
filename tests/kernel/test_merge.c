/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/table.h"

#define EMPTY (-INFINITY)

/* A part: every element of its row is o. */
struct part {
    float o, lse;
};

static const struct {
    struct part a, b, want;
} edge_cases[] = {
    {{0, EMPTY}, {2, 0.5f}, {2, 0.5f}},       {{2, 0.5f}, {0, EMPTY}, {2, 0.5f}},
    {{0, EMPTY}, {0, EMPTY}, {0, EMPTY}},     {{1, 1000}, {2, -1000}, {1, 1000}},
    {{1, -1000}, {2, 1000}, {2, 1000}},       {{1, INFINITY}, {2, 0}, {2, 0}},
    {{2, 0}, {1, INFINITY}, {2, 0}},          {{1, INFINITY}, {1, INFINITY}, {0, EMPTY}},
    {{NAN, EMPTY}, {2, 0.5f}, {2, 0.5f}},     {{2, 0.5f}, {NAN, EMPTY}, {2, 0.5f}},
    {{NAN, EMPTY}, {NAN, EMPTY}, {0, EMPTY}}, {{NAN, -1000}, {2, 1000}, {2, 1000}},
    {{1, 1000}, {NAN, -1000}, {1, 1000}},     {{0, EMPTY}, {3, -20}, {3, -20}},
};

static struct part merged(struct part a, struct part b)
{
    float o[3] = {a.o, a.o, a.o}, o_i[3] = {b.o, b.o, b.o}, lse = a.lse;

    ri_merge_lse(o, 3, &lse, 1, o_i, 3, &b.lse, 1, 1, 3);
    assert_memory_equal(&o[0], &o[1], sizeof(float));
    assert_memory_equal(&o[0], &o[2], sizeof(float));
    return (struct part){o[0], lse};
}

static void edge_cases_are_exact(void **state)
{
    for (size_t i = 0; i < sizeof edge_cases / sizeof edge_cases[0]; i++) {
        struct part got = merged(edge_cases[i].a, edge_cases[i].b);

        if (got.o != edge_cases[i].want.o || got.lse != edge_cases[i].want.lse)
            fail_msg("case %zu: got (%g, %g), want (%g, %g)", i, got.o, got.lse,
                     edge_cases[i].want.o, edge_cases[i].want.lse);
    }
}

static void equal_parts_add_ln_2(void **state)
{
    static const float lses[] = {0, 0.5f, -3, 80, -6e4f, 1e4f};

    for (size_t i = 0; i < sizeof lses / sizeof lses[0]; i++) {
        struct part got = merged((struct part){4, lses[i]}, (struct part){4, lses[i]});

        assert_true(got.lse == (float)(lses[i] + M_LN2) || got.lse == lses[i] + (float)M_LN2);
        assert_true(got.o == 4);
    }
}

/* All parts in double, at once. */
static struct part whole(const struct part *parts, int count)
{
    double top = -INFINITY, sum = 0, o = 0;

    for (int i = 0; i < count; i++)
        top = fmax(top, parts[i].lse);
    for (int i = 0; i < count; i++) {
        sum += exp(parts[i].lse - top);
        o += exp(parts[i].lse - top) * parts[i].o;
    }
    return (struct part){(float)(o / sum), (float)(top + log(sum))};
}

static void order_matters_only_by_rounding(void **state)
{
    enum { COUNT = 9 };
    struct part parts[COUNT];

    srand(7);
    for (int round = 0; round < 200; round++) {
        struct part want, got = {0, EMPTY};

        for (int i = 0; i < COUNT; i++)
            parts[i] = (struct part){(float)(rand() % 2001 - 1000) / 500,
                                     (float)(rand() % 2001 - 1000) / 100};
        want = whole(parts, COUNT);
        for (int i = 0; i < COUNT; i++)
            got = merged(got, parts[(i * (1 + round % 2 * 3) + round) % COUNT]);
        assert_true(fabsf(got.o - want.o) <= 2e-6f);
        assert_true(fabsf(got.lse - want.lse) <= 3e-6f);
        got = merged(parts[0], parts[1]);
        want = merged(parts[1], parts[0]);
        assert_true(fabsf(got.o - want.o) <= 5e-7f && got.lse == want.lse);
        assert_true(got.lse >= fmaxf(parts[0].lse, parts[1].lse));
    }
}

/* Weights that come from the difference of two lse, not from their rounded sum. */
static void large_lse_keeps_the_weights(void **state)
{
    struct part got = merged((struct part){1, -60000}, (struct part){1, -60000.5f});

    assert_true(fabsf(got.o - 1) <= 2e-7f);
}

static void rows_follow_their_strides(void **state)
{
    float o[2][4] = {{1, 1, 9, 9}, {5, 5, 9, 9}}, lse[2][3] = {{0, 9, 9}, {EMPTY, 9, 9}};
    float o_i[2][3] = {{3, 3, 8}, {7, 7, 8}}, lse_i[2][2] = {{0, 8}, {1, 8}};

    ri_merge_lse(o[0], 4, lse[0], 3, o_i[0], 3, lse_i[0], 2, 2, 2);
    assert_true(o[0][0] == 2 && o[0][1] == 2 && o[0][2] == 9 && o[0][3] == 9);
    assert_true(o[1][0] == 7 && o[1][1] == 7 && o[1][2] == 9 && o[1][3] == 9);
    assert_true(lse[0][1] == 9 && lse[1][0] == 1 && lse[1][1] == 9 && lse[1][2] == 9);
    ri_merge_lse(NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0, 2);
}

static void sums_add(void **state)
{
    float f[3] = {1, 2, 3}, df[3] = {0.5f, -2, 1};
    double d[2] = {1, 2}, dd[2] = {1e-12, -4};

    ri_merge_sum_f32(f, df, 3);
    ri_merge_sum_f64(d, dd, 2);
    ri_merge_sum_f32(NULL, NULL, 0);
    assert_true(f[0] == 1.5f && f[1] == 0 && f[2] == 4);
    assert_true(d[0] == 1 + 1e-12 && d[1] == -2);
}

static void delta_sums_in_double(void **state)
{
    float o[2][4] = {{1e8f, 1, -1e8f, 77}, {2, 3, 4, 77}}, d_o[2][3] = {{1, 1, 1}, {1, -1, 0.5f}};
    float delta[3] = {9, 9, 9};

    ri_delta(delta, 2, o[0], 4, d_o[0], 3, 2, 3);
    assert_true(delta[0] == 1 && delta[1] == 9 && delta[2] == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edge_cases_are_exact),
        cmocka_unit_test(equal_parts_add_ln_2),
        cmocka_unit_test(order_matters_only_by_rounding),
        cmocka_unit_test(large_lse_keeps_the_weights),
        cmocka_unit_test(rows_follow_their_strides),
        cmocka_unit_test(sums_add),
        cmocka_unit_test(delta_sums_in_double),
    };

    return cmocka_run_group_tests_name("merge", tests, NULL, NULL);
}
