/* SPDX-License-Identifier: Apache-2.0 */
/* The formulas of perf/, by a fixed clock. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "perf/measure.h"

static int is_about(double value, double wanted)
{
    return fabs(value - wanted) < 0.005;
}

/* 4 ranks, 64 MiB in all from each rank's point of view, in 1 ms; GB is 1e9. */
static void a_rank_sends_three_quarters(void **state)
{
    double block = 64.0 * 1024 * 1024 / 4;

    assert_true(is_about(perf_algbw(4, block, 1000), 67.11));
    assert_true(is_about(perf_busbw(4, block, 1000), 50.33));
}

static void quantiles_are_of_the_sorted(void **state)
{
    double odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2}, one[] = {7};

    assert_true(perf_median(odd, 3) == 3);
    assert_true(perf_median(even, 4) == 2.5);
    assert_true(perf_median(one, 1) == 7);
    assert_true(perf_quantile(even, 4, 0.99) == 4);
    assert_true(perf_quantile(even, 4, 0.5) == 2);
    assert_true(perf_quantile(even, 4, 0) == 1);
}

static void a_pause_is_as_long_as_it_says(void **state)
{
    double begin = perf_now_us(), took = perf_pause(300), all = perf_now_us() - begin;

    assert_true(took >= 300);
    assert_true(all >= took);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_sends_three_quarters),
        cmocka_unit_test(quantiles_are_of_the_sorted),
        cmocka_unit_test(a_pause_is_as_long_as_it_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
