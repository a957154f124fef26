/* SPDX-License-Identifier: Apache-2.0 */
/* Which weights dropout keeps: by the numbers that the manual page gives, and as chance would. */
#include "tests/helper.h"

#include <math.h>

#include <rondo/kernel.h>

enum { SIDE = 512 };

/* The generator as the manual page has it, written again. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint32_t word(uint64_t seed, uint64_t batch, uint64_t head, uint64_t query, uint64_t key)
{
    const uint64_t w = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t stream = mix(mix(seed + w * (batch + 1)) + w * (head + 1));
    uint64_t x = (query & 0xffffffff) ^ stream >> 32, y = key & 0xffffffff;

    for (uint64_t round = 0; round < 7; round++) {
        uint64_t product = x * UINT64_C(0xd256d193);
        uint64_t round_key = (stream + round * UINT64_C(0x9e3779b9)) & 0xffffffff;

        x = (product >> 32) ^ round_key ^ y;
        y = product & 0xffffffff;
    }
    return (uint32_t)x;
}

static void keeps_what_the_manual_says(void **state)
{
    const float rates[] = {0, 0.1f, 0.5f, 0.999f};

    for (int i = 0; i < 20000; i++) {
        uint64_t r = mix((uint64_t)i + 7);
        uint64_t seed = mix(r), batch = r & 3, head = r >> 2 & 63, query = r >> 8 & 0xffffffff;
        uint64_t key = mix(r + 1) >> 32;
        float rate = rates[i % 4];
        int want = word(seed, batch, head, query, key) >= floor((double)rate * 4294967296.0);

        assert_int_equal(rondo_dropout_keeps(seed, (int64_t)batch, (int)head, (int64_t)query,
                                             (int64_t)key, rate), want);
    }
}

/* A count of n draws of chance p is off by more than five deviations once in a million. */
static void assert_chance(int count, int n, double p)
{
    assert_true(fabs(count - n * p) <= 5 * sqrt(n * p * (1 - p)));
}

static void keeps_the_share_that_is_asked_for(void **state)
{
    const double rates[] = {0.05, 0.25, 0.5, 0.9};

    for (int r = 0; r < 4; r++) {
        int all = 0;

        for (int query = 0; query < SIDE; query++) {
            int row = 0, column = 0;

            for (int key = 0; key < SIDE; key++) {
                row += rondo_dropout_keeps(3, 0, 1, query, key, (float)rates[r]);
                column += rondo_dropout_keeps(3, 0, 1, key, query, (float)rates[r]);
            }
            assert_chance(row, SIDE, 1 - rates[r]);
            assert_chance(column, SIDE, 1 - rates[r]);
            all += row;
        }
        assert_chance(all, SIDE * SIDE, 1 - rates[r]);
    }
}

/* Neighbours in any index agree as often as two coins do. */
static void neighbours_are_independent(void **state)
{
    int same[5] = {0}, n = SIDE * SIDE;

    for (int query = 0; query < SIDE; query++)
        for (int key = 0; key < SIDE; key++) {
            int kept = rondo_dropout_keeps(9, 0, 0, query, key, 0.5f);

            same[0] += kept == rondo_dropout_keeps(9, 0, 0, query, key + 1, 0.5f);
            same[1] += kept == rondo_dropout_keeps(9, 0, 0, query + 1, key, 0.5f);
            same[2] += kept == rondo_dropout_keeps(9, 0, 1, query, key, 0.5f);
            same[3] += kept == rondo_dropout_keeps(9, 1, 0, query, key, 0.5f);
            same[4] += kept == rondo_dropout_keeps(10, 0, 0, query, key, 0.5f);
        }
    for (int i = 0; i < 5; i++)
        assert_chance(same[i], n, 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_what_the_manual_says),
        cmocka_unit_test(keeps_the_share_that_is_asked_for),
        cmocka_unit_test(neighbours_are_independent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
