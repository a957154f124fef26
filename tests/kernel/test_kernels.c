/* SPDX-License-Identifier: Apache-2.0 */
/* Every case for every bundled kernel. */
#include "tests/kernel/check.h"

#include <stdio.h>

#include "kernels/table.h"

static const struct {
    const char *name;
    CMUnitTestFunction run;
} cases[] = {
    {"every kind and size", every_kind_and_size},
    {"head counts and batches", head_counts_and_batches},
    {"head sizes", head_sizes},
    {"strides and gaps", strides_and_gaps},
    {"tile lists", tile_lists},
    {"long rows", long_rows},
    {"split and merge in any order", split_and_merge_in_any_order},
    {"slices of rows", slices_of_rows},
    {"gradients add", gradients_add},
    {"gradients are difference quotients", gradients_are_difference_quotients},
    {"zero keys give the mean", zero_keys_give_the_mean},
    {"constant values come back", constant_values_come_back},
    {"zero d_o gives zero gradients", zero_d_o_gives_zero_gradients},
    {"later keys never change earlier rows", later_keys_never_change_earlier_rows},
    {"hidden rows never change gradients", hidden_rows_never_change_gradients},
    {"empty rows stay", empty_rows_stay},
    {"hugely negative scores count", hugely_negative_scores_count},
    {"large scores do not overflow", large_scores_do_not_overflow},
    {"scores in and out of range", scores_in_and_out_of_range},
    {"seen NaN is reported", seen_nan_is_reported},
    {"rows without lse add nothing", rows_without_lse_add_nothing},
    {"two runs give the same bits", two_runs_give_the_same_bits},
    {"other types are refused", other_types_are_refused},
};

static const rondo_kernel_t *const kernels[] = {&ri_kernel_reference};

enum { CASES = sizeof cases / sizeof cases[0], KERNELS = sizeof kernels / sizeof kernels[0] };

static void names_are_known(void **state)
{
    assert_ptr_equal(rondo_kernel_find("reference"), &ri_kernel_reference);
    assert_null(rondo_kernel_find("Reference"));
    assert_null(rondo_kernel_find(""));
    assert_null(rondo_kernel_find(NULL));
}

/* Appends every case for one kernel. */
static void add_kernel(struct CMUnitTest *tests, char (*names)[64], const rondo_kernel_t *kernel)
{
    for (int i = 0; i < CASES; i++) {
        snprintf(names[i], sizeof names[i], "%s: %s", kernel->name, cases[i].name);
        tests[i] = (struct CMUnitTest){names[i], cases[i].run, NULL, NULL, (void *)(uintptr_t)kernel};
    }
}

int main(void)
{
    static char names[KERNELS * CASES][64];
    struct CMUnitTest tests[1 + KERNELS * CASES] = {cmocka_unit_test(names_are_known)};

    for (int k = 0; k < KERNELS; k++)
        add_kernel(tests + 1 + k * CASES, names + k * CASES, kernels[k]);
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
