/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_KERNEL_SUITE_H
#define TESTS_KERNEL_SUITE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <rondo/kernel.h>

#include "tests/short.h"

static inline void suite_report(void *owner, const char *name, int status, const char *text)
{
    if (status < 0)
        print_message("# %s\n", text);
}

/* The test fails, and says which cases do, unless the kernel passes those of the installed suite whose names
 * contain `only`; NULL: all, or where tests are to be short those that show the most. */
static inline void passes_suite(const rondo_kernel_t *kernel, const char *only, int large)
{
    static const char *const few[] = { "tiles", "strides", "merge_running", "threads", "_all" };
    rondo_kernel_check_options_t options = RONDO_KERNEL_CHECK_OPTIONS_INIT;
    int is_short = !only && test_is_short(), failed = -1;

    options.large = large;
    options.report = suite_report;
    for (size_t i = 0; i < (is_short ? sizeof(few) / sizeof(few[0]) : 1); i++) {
        options.only = is_short ? few[i] : only;
        assert_int_equal(rondo_kernel_check(kernel, &options, &failed), RONDO_OK);
        assert_int_equal(failed, 0);
    }
}

#endif
