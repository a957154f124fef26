/* SPDX-License-Identifier: Apache-2.0 */
/* A plain kernel passes the suite, whatever its flags say of how it is called. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include <rondo/status.h>

#include "tests/kernel/plain.h"
#include "tests/kernel/suite.h"

enum { ABLE = RONDO_KERNEL_BF16 | RONDO_KERNEL_F16 | RONDO_KERNEL_SOFTCAP | RONDO_KERNEL_DROPOUT };

static void passes_with_flags(unsigned flags, const char *only)
{
    struct plain p = { flags, FAULT_NONE, 0 };
    rondo_kernel_t kernel = plain_kernel(&p);

    passes_suite(&kernel, only, 0);
}

static void all_pass(void **state)
{
    passes_with_flags(ABLE | RONDO_KERNEL_MERGES, NULL);
}

/* Those in which it matters how a kernel is called; the numbers are the same. */
static void partials_pass(void **state)
{
    static const char *const some[] = { "tiles", "tile_full", "tile_bottom_right", "merge", "strides", "empty",
                                        "hidden_nan", "hugely", "minus", "seen", "without_lse", "no_row",
                                        "drop", "16_all", "threads" };

    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
        passes_with_flags(ABLE, some[i]);
}

/* A forward knows nothing of it. */
static void with_o_pass(void **state)
{
    static const char *const some[] = { "tiles", "tile_full", "tile_bottom_right", "merge", "strides", "empty",
                                        "hidden_nan", "hugely", "rows_without_lse", "no_row", "threads",
                                        "dropout", "bf16_all", "f16_all" };
    char name[64];

    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        snprintf(name, sizeof(name), "backward.%s", some[i]);
        passes_with_flags(ABLE | RONDO_KERNEL_NEEDS_O | RONDO_KERNEL_MERGES, name);
    }
}

static void partials_with_o_pass(void **state)
{
    passes_with_flags(ABLE | RONDO_KERNEL_NEEDS_O, "tiles");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_pass),
        cmocka_unit_test(partials_pass),
        cmocka_unit_test(with_o_pass),
        cmocka_unit_test(partials_with_o_pass),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
