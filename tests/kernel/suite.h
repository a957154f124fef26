/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_KERNEL_SUITE_H
#define TESTS_KERNEL_SUITE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <rondo/kernel.h>

static inline void suite_report(void *owner, const char *name, int status, const char *text)
{
    if (status < 0)
        print_message("# %s\n", text);
}

/* The test fails, and says which cases do, unless the kernel passes those of the installed suite. */
static inline void passes_suite(const rondo_kernel_t *kernel, const char *only, int large)
{
    rondo_kernel_check_options_t options = RONDO_KERNEL_CHECK_OPTIONS_INIT;
    int failed = -1;

    options.only = only;
    options.large = large;
    options.report = suite_report;
    assert_int_equal(rondo_kernel_check(kernel, &options, &failed), RONDO_OK);
    assert_int_equal(failed, 0);
}

#endif
