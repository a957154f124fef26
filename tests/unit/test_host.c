/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "device/device.h"

/* Memory is dirtied before it is given back, so that zeroes are not there by luck. */
static void memory_is_zeroed_and_aligned(void **state)
{
    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t bytes = 1; bytes <= 300; bytes++) {
            unsigned char *memory = ri_device_host.alloc(bytes);

            assert_non_null(memory);
            assert_int_equal((uintptr_t)memory % 64, 0);
            for (size_t i = 0; i < bytes; i++)
                assert_int_equal(memory[i], 0);
            memset(memory, 0xa5, bytes);
            ri_device_host.release(memory);
        }
    }
}

static void no_bytes_are_not_a_failure(void **state)
{
    void *memory = ri_device_host.alloc(0);

    (void)state;
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % 64, 0);
    ri_device_host.release(memory);
    ri_device_host.release(NULL);
}

static void impossible_sizes_give_null(void **state)
{
    (void)state;
    assert_null(ri_device_host.alloc(SIZE_MAX));
    assert_null(ri_device_host.alloc(SIZE_MAX - 63));
    assert_null(ri_device_host.alloc(PTRDIFF_MAX));
}

static void copies_what_it_is_told(void **state)
{
    const char from[8] = "abcdefg";
    char to[8] = "zzzzzzz";

    (void)state;
    ri_device_host.copy(to + 1, from, 3);
    assert_string_equal(to, "zabczzz");
    ri_device_host.copy(to, from, 0);
    ri_device_host.copy(NULL, NULL, 0);
    assert_string_equal(to, "zabczzz");
    assert_string_equal(ri_device_host.name, "host");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_aligned),
        cmocka_unit_test(no_bytes_are_not_a_failure),
        cmocka_unit_test(impossible_sizes_give_null),
        cmocka_unit_test(copies_what_it_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
