/* SPDX-License-Identifier: Apache-2.0 */
/* What perf/ fills blocks with: sums agree with their formula at any size, and faults are found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "perf/pattern.h"

enum { BYTES = 1500, BEYOND = 0x5a };

static _Alignas(64) char memory[BYTES + 64];

static void sums_agree_with_their_formula(void **state)
{
    size_t where;

    for (size_t bytes = 0; bytes <= BYTES; bytes++) {
        memset(memory, BEYOND, sizeof(memory));
        pattern_fill(memory + 4, bytes, 3, 7, bytes % 5);
        assert_int_equal(memory[3], BEYOND);
        assert_int_equal(memory[4 + bytes], BEYOND);
        assert_int_equal(pattern_sum(memory + 4, bytes), pattern_expected(bytes, 3, 7, bytes % 5));
        assert_int_equal(pattern_wrong(memory + 4, bytes, 3, 7, bytes % 5, &where), 0);
    }
}

/* A block in two parts is the block in one. */
static void parts_continue_each_other(void **state)
{
    size_t where;

    for (size_t words = 0; words <= BYTES / 4; words++) {
        pattern_fill(memory, words * 4, 1, 2, 0);
        pattern_fill(memory + words * 4, BYTES - words * 4, 1, 2, words);
        assert_int_equal(pattern_wrong(memory, BYTES, 1, 2, 0, &where), 0);
        assert_int_equal(pattern_expected(words * 4, 1, 2, 0) +
                             pattern_expected(BYTES - words * 4, 1, 2, words) -
                             pattern_expected(BYTES, 1, 2, 0),
                         0);
    }
}

static void other_owners_and_iterations_differ(void **state)
{
    size_t where = 9;

    pattern_fill(memory, 64, 1, 1, 0);
    for (int owner = 0; owner < 8; owner++)
        for (uint32_t iteration = 0; iteration < 100; iteration++) {
            if (owner == 1 && iteration == 1)
                continue;
            assert_int_equal(pattern_wrong(memory, 64, owner, iteration, 0, &where), 16);
            assert_int_not_equal(pattern_sum(memory, 64), pattern_expected(64, owner, iteration, 0));
        }
    assert_int_equal(where, 0);
}

static void one_wrong_byte_is_found(void **state)
{
    for (size_t i = 0; i < BYTES; i++) {
        size_t where = BYTES;

        pattern_fill(memory, BYTES, 0, 5, 0);
        memory[i]++;
        assert_int_equal(pattern_wrong(memory, BYTES, 0, 5, 0, &where), 1);
        assert_int_equal(where, i / 4);
        assert_int_not_equal(pattern_sum(memory, BYTES), pattern_expected(BYTES, 0, 5, 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_agree_with_their_formula),
        cmocka_unit_test(parts_continue_each_other),
        cmocka_unit_test(other_owners_and_iterations_differ),
        cmocka_unit_test(one_wrong_byte_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
