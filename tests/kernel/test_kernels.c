/* SPDX-License-Identifier: Apache-2.0 */
/* Every case for every bundled kernel, and for flash with each set of inner loops that runs. */
#include "tests/kernel/check.h"

#include <stdio.h>

#include "kernels/cpu/flash.h"
#include "tests/short.h"

static void print_failure(void *owner, const char *name, int status, const char *text)
{
    if (status < 0)
        print_message("%s\n", text);
}

/* The installed suite, in one test. */
static void passes_the_suite(void **kernel)
{
    rondo_kernel_check_options_t options = RONDO_KERNEL_CHECK_OPTIONS_INIT;
    int failed = -1;

    options.report = print_failure;
    assert_int_equal(rondo_kernel_check(*kernel, &options, &failed), RONDO_OK);
    assert_int_equal(failed, 0);
}

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
    {"scores of -inf weigh nothing", scores_of_minus_infinity_weigh_nothing},
    {"seen NaN is reported", seen_nan_is_reported},
    {"rows without lse add nothing", rows_without_lse_add_nothing},
    {"two runs give the same bits", two_runs_give_the_same_bits},
    {"other types are refused", other_types_are_refused},
    {"passes the suite", passes_the_suite},
};

extern const struct ri_flash_ops test_flash_wide;

/* flash with the inner loops that its context names, whatever this processor would choose. */
static int forced_forward(void *context, const rondo_kernel_forward_t *args)
{
    return ri_flash_forward(context, args);
}

static int forced_backward(void *context, const rondo_kernel_backward_t *args)
{
    return ri_flash_backward(context, args);
}

enum { CASES = sizeof cases / sizeof cases[0], MOST_KERNELS = 8 };

static void names_are_known(void **state)
{
    assert_ptr_equal(rondo_kernel_find("reference"), &ri_kernel_reference);
    assert_ptr_equal(rondo_kernel_find("flash"), &ri_kernel_flash);
    assert_null(rondo_kernel_find("Reference"));
    assert_null(rondo_kernel_find(""));
    assert_null(rondo_kernel_find(NULL));
}

static rondo_kernel_t forced(const struct ri_flash_ops *ops)
{
    rondo_kernel_t kernel = ri_kernel_flash;

    kernel.name = ops->name;
    kernel.context = (void *)(uintptr_t)ops;
    kernel.forward = forced_forward;
    kernel.backward = forced_backward;
    return kernel;
}

struct suite {
    char names[MOST_KERNELS * CASES][64];
    struct CMUnitTest tests[1 + MOST_KERNELS * CASES];
    int count;
};

/* Every case for one kernel, named "flash, avx2: head sizes". */
static void add_kernel(struct suite *s, const char *prefix, const rondo_kernel_t *kernel)
{
    for (int i = 0; i < CASES; i++, s->count++) {
        char *name = s->names[s->count - 1];

        snprintf(name, sizeof s->names[0], "%s%s: %s", prefix, kernel->name, cases[i].name);
        s->tests[s->count] =
            (struct CMUnitTest){name, cases[i].run, NULL, NULL, (void *)(uintptr_t)kernel};
    }
}

int main(void)
{
    static struct suite suite;
    static rondo_kernel_t variants[MOST_KERNELS];

    suite.tests[suite.count++] = (struct CMUnitTest)cmocka_unit_test(names_are_known);
    add_kernel(&suite, "", &ri_kernel_reference);
    add_kernel(&suite, "", &ri_kernel_flash);
    for (int i = 0; ri_flash_variants[i] && !test_is_short(); i++) {
        variants[i] = forced(ri_flash_variants[i]);
        if (ri_flash_variants[i]->supported())
            add_kernel(&suite, "flash, ", &variants[i]);
    }
    variants[MOST_KERNELS - 1] = forced(&test_flash_wide);
    if (!test_is_short())
        add_kernel(&suite, "flash, ", &variants[MOST_KERNELS - 1]);
    return _cmocka_run_group_tests("kernels", suite.tests, (size_t)suite.count, NULL, NULL);
}
