/* SPDX-License-Identifier: Apache-2.0 */
/* flash passes the installed suite with each set of inner loops that runs here, but for the fastest, which are its own
 * and test_kernels has, and with the widest vectors in whatever instructions there are. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/cpu/flash.h"
#include "kernels/table.h"
#include "tests/kernel/suite.h"

extern const struct ri_flash_ops test_flash_wide;

/* With the inner loops that its context names, whatever this processor would choose. */
static int forced_forward(void *context, const rondo_kernel_forward_t *args)
{
    return ri_flash_forward(context, args);
}

static int forced_backward(void *context, const rondo_kernel_backward_t *args)
{
    return ri_flash_backward(context, args);
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

static void passes(void **ops)
{
    rondo_kernel_t kernel = forced(*ops);

    passes_suite(&kernel, NULL, 0);
}

enum { MOST_VARIANTS = 8 };

int main(void)
{
    struct CMUnitTest tests[MOST_VARIANTS];
    size_t count = 0;
    int i = 0;

    while (!ri_flash_variants[i]->supported())
        i++;
    for (i++; ri_flash_variants[i] && count < MOST_VARIANTS - 1; i++)
        if (ri_flash_variants[i]->supported())
            tests[count++] = (struct CMUnitTest){ ri_flash_variants[i]->name, passes, NULL, NULL,
                                                  (void *)(uintptr_t)ri_flash_variants[i] };
    tests[count++] = (struct CMUnitTest){ "wide", passes, NULL, NULL, (void *)(uintptr_t)&test_flash_wide };
    return _cmocka_run_group_tests("flash", tests, count, NULL, NULL);
}
