/* SPDX-License-Identifier: Apache-2.0 */
/* The bundled kernels pass the installed suite. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <rondo/status.h>

#include "kernels/cpu/flash.h"
#include "kernels/table.h"
#include "tests/kernel/suite.h"
#include "tests/short.h"

static void names_are_known(void **state)
{
    assert_ptr_equal(rondo_kernel_find("reference"), &ri_kernel_reference);
    assert_ptr_equal(rondo_kernel_find("flash"), &ri_kernel_flash);
    assert_null(rondo_kernel_find("Reference"));
    assert_null(rondo_kernel_find(""));
    assert_null(rondo_kernel_find(NULL));
}

/* flash with the inner loops of each instruction set, where they run. */
static void instruction_sets_have_names(void **state)
{
    static const char *const lacking[] = { "flash-", "flash-avx", "flash-avx2 ", "flash-flash" };
    char name[40];

    for (int i = 0; ri_flash_variants[i]; i++) {
        const rondo_kernel_t *kernel;

        snprintf(name, sizeof(name), "flash-%s", ri_flash_variants[i]->name);
        kernel = rondo_kernel_find(name);
        assert_int_equal(kernel != NULL, ri_flash_variants[i]->supported() != 0);
        assert_true(!kernel || (kernel->context == ri_flash_variants[i] && strcmp(kernel->name, name) == 0));
    }
    for (size_t i = 0; i < sizeof(lacking) / sizeof(lacking[0]); i++)
        assert_null(rondo_kernel_find(lacking[i]));
}

static void other_types_are_refused(void **kernel)
{
    const rondo_kernel_t *k = *kernel;
    rondo_kernel_shape_t shape = { .struct_bytes = sizeof(shape), .dtype = RONDO_F64, .batch = 1, .q_heads = 1,
                                   .kv_heads = 1, .qk_dim = 4, .v_dim = 4, .scale = 1, .max_q_tokens = 1,
                                   .max_k_tokens = 1, .threads = 1 };
    rondo_kernel_forward_t forward = { .struct_bytes = sizeof(forward), .shape = &shape };
    rondo_kernel_backward_t backward = { .struct_bytes = sizeof(backward), .shape = &shape };

    assert_int_equal(k->forward(k->context, &forward), RONDO_ERR_UNSUPPORTED);
    assert_int_equal(k->backward(k->context, &backward), RONDO_ERR_UNSUPPORTED);
}

static void reference_passes(void **state)
{
    passes_suite(&ri_kernel_reference, NULL, 0);
}

static void flash_passes(void **state)
{
    passes_suite(&ri_kernel_flash, NULL, !test_is_short());
}

static void no_backward_passes(void **state)
{
    rondo_kernel_t kernel = ri_kernel_flash;

    kernel.backward = NULL;
    passes_suite(&kernel, "tile_full", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_known),
        cmocka_unit_test(instruction_sets_have_names),
        { "reference refuses other types", other_types_are_refused, NULL, NULL, (void *)(uintptr_t)&ri_kernel_reference },
        { "flash refuses other types", other_types_are_refused, NULL, NULL, (void *)(uintptr_t)&ri_kernel_flash },
        cmocka_unit_test(reference_passes),
        cmocka_unit_test(flash_passes),
        cmocka_unit_test(no_backward_passes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
