/* SPDX-License-Identifier: Apache-2.0 */
/* bf16 against its definition: of the numbers that have 8 bits, the nearest, and between two the even one. */
#include "check.h"

#include "examples/train/stored.h"

static float stored(float x)
{
    uint16_t half = 0;
    float work = 0.0f;

    stored_write(RONDO_BF16, &half, &x, 1);
    assert_ptr_equal(stored_read(RONDO_BF16, &half, &work, 1), &work);
    return work;
}

/* By arithmetic in double: x scaled so that 8 bits stand before the point, rounded, scaled back. */
static float nearest(float x)
{
    int exponent;

    frexp((double)x, &exponent);
    exponent = exponent < -125 ? -125 : exponent; /* subnormal numbers share one exponent */
    return (float)ldexp(nearbyint(ldexp((double)x, 8 - exponent)), exponent - 8);
}

static void rounds_to_nearest_and_even(void **state)
{
    uint64_t random = 5;

    assert_true(stored(1.0f + 0x1p-8f) == 1.0f);             /* between two: to the even one */
    assert_true(stored(1.0f + 3 * 0x1p-8f) == 1.0f + 0x1p-6f);
    assert_true(stored(-(1.0f + 0x1.8p-8f)) == -(1.0f + 0x1p-7f));
    assert_true(stored(0x1.fffffep127f) == INFINITY);
    for (int i = 0; i < 100000; i++) {
        uint32_t bits = (uint32_t)random_bits(&random);
        float x;

        memcpy(&x, &bits, sizeof(x));
        if (isfinite(x))
            assert_true(stored(x) == nearest(x) || fabsf(x) > 0x1.fep127f);
    }
}

static void what_is_no_number_stays_none(void **state)
{
    static const uint32_t nans[] = { 0x7f800001, 0x7fffffff, 0xffffffff, 0xff800001, 0x7fc00000 };

    assert_true(stored(INFINITY) == INFINITY);
    assert_true(stored(-INFINITY) == -INFINITY);
    assert_true(signbit(stored(-0.0f)));
    for (size_t i = 0; i < sizeof(nans) / sizeof(nans[0]); i++) {
        float x;

        memcpy(&x, &nans[i], sizeof(x));
        assert_true(isnan(stored(x)));
    }
}

static void floats_stay_where_they_are(void **state)
{
    float x[2] = { 1.1f, 2.2f }, work[2] = { 0.0f, 0.0f };

    assert_ptr_equal(stored_floats(RONDO_F32, x, work), x);
    assert_ptr_equal(stored_floats(RONDO_BF16, x, work), work);
    stored_write(RONDO_F32, x, x, 2);
    assert_ptr_equal(stored_read(RONDO_F32, x, NULL, 2), x);
    assert_true(x[0] == 1.1f && x[1] == 2.2f);
    assert_int_equal(stored_bytes(RONDO_F32), 4);
    assert_int_equal(stored_bytes(RONDO_BF16), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_to_nearest_and_even),
        cmocka_unit_test(what_is_no_number_stays_none),
        cmocka_unit_test(floats_stay_where_they_are),
    };

    return cmocka_run_group_tests_name("train stored", tests, NULL, NULL);
}
