/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of 16 bits: every one of them, every midpoint between two and its neighbours, infinities
 * and NaN, against what the formats say in doubles; one by one, and in arrays of all loops that run. */
#include "tests/helper.h"

#include <math.h>
#include <string.h>

#include "kernels/convert.h"

enum { ALL = 1 << 16 };

struct format {
    rondo_dtype_t type;
    int mantissa, bias; /* bits; of the exponent */
    float (*widen)(uint16_t x);
    uint16_t (*narrow)(float x);
};

static const struct format formats[] = {
    {RONDO_BF16, 7, 127, ri_f32_of_bf16, ri_bf16_of_f32},
    {RONDO_F16, 10, 15, ri_f32_of_f16, ri_f16_of_f32},
};

static unsigned infinity_of(const struct format *f)
{
    return 0x7fffu >> f->mantissa << f->mantissa;
}

/* Of a size: no sign, no NaN.  Infinity is where the next number would be. */
static double value_of(const struct format *f, unsigned size)
{
    int exponent = (int)(size >> f->mantissa), fraction = (int)(size & ((1u << f->mantissa) - 1));

    if (exponent == 0)
        return ldexp(fraction, 1 - f->bias - f->mantissa);
    return ldexp(fraction + (1 << f->mantissa), exponent - f->bias - f->mantissa);
}

static void every_number_is_widened(const struct format *f)
{
    for (unsigned x = 0; x < ALL; x++) {
        unsigned size = x & 0x7fff;
        float got = f->widen((uint16_t)x);

        assert_int_equal(!!signbit(got), x >> 15);
        if (size > infinity_of(f))
            assert_true(isnan(got));
        else if (size == infinity_of(f))
            assert_true(isinf(got));
        else
            assert_true(fabs((double)got) == value_of(f, size));
    }
}

static void every_number_comes_back(const struct format *f)
{
    for (unsigned x = 0; x < ALL; x++) {
        unsigned size = x & 0x7fff, quiet = size > infinity_of(f) ? 1u << (f->mantissa - 1) : 0;

        assert_int_equal(f->narrow(f->widen((uint16_t)x)), x | quiet);
    }
}

static void expect_narrow(const struct format *f, double x, unsigned want)
{
    assert_true((double)(float)x == x);
    assert_int_equal(f->narrow((float)x), want);
    assert_int_equal(f->narrow((float)-x), want | 0x8000);
}

/* Between each number and the next, which may be infinity: the midpoint goes to the even one, and the nearest
 * fp32 numbers on its sides to the nearer one. */
static void midpoints_go_to_even(const struct format *f)
{
    for (unsigned low = 0; low < infinity_of(f); low++) {
        double middle = (value_of(f, low) + value_of(f, low + 1)) / 2;

        expect_narrow(f, middle, low % 2 ? low + 1 : low);
        expect_narrow(f, nextafterf((float)middle, 0), low);
        expect_narrow(f, nextafterf((float)middle, INFINITY), low + 1);
    }
}

static void extremes(const struct format *f)
{
    const uint32_t nans[] = {0x7f800001, 0x7fc00000, 0x7fffffff, 0x7f801fff, 0x7f80ffff};

    expect_narrow(f, 0, 0);
    expect_narrow(f, INFINITY, infinity_of(f));
    expect_narrow(f, 3.40282346638528859812e38, infinity_of(f));
    if (f->type == RONDO_F16) {
        expect_narrow(f, ldexp(1, -149), 0);
        expect_narrow(f, ldexp(1, -126), 0);
    }
    for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
        unsigned got = f->narrow(ri_f32_of_bits(nans[i]));

        assert_true(got > infinity_of(f) && got <= 0x7fff && got >> (f->mantissa - 1) & 1);
        assert_int_equal(f->narrow(ri_f32_of_bits(nans[i] | 0x80000000u)), got | 0x8000);
    }
}

static void one_by_one(void **state)
{
    for (int i = 0; i < 2; i++) {
        every_number_is_widened(&formats[i]);
        every_number_comes_back(&formats[i]);
        midpoints_go_to_even(&formats[i]);
        extremes(&formats[i]);
    }
}

typedef void widen_call(float *dst, const uint16_t *src, size_t count);
typedef void narrow_call(uint16_t *dst, const float *src, size_t count);

/* In one call, at an address that no vector is aligned to, and with an end that no vector divides. */
static void widens_alike(const struct format *f, widen_call *call)
{
    static uint16_t src[ALL + 2];
    static float dst[ALL + 2];

    for (unsigned x = 0; x < ALL; x++)
        src[x + 1] = (uint16_t)x;
    dst[0] = dst[ALL] = -1;
    call(dst + 1, src + 1, ALL - 1);
    assert_true(dst[0] == -1 && dst[ALL] == -1);
    for (unsigned x = 0; x < ALL - 1; x++)
        assert_int_equal(ri_bits_of_f32(dst[x + 1]), ri_bits_of_f32(f->widen((uint16_t)x)));
}

/* All signs and exponents and the upper mantissa, with the lowest bits that a tie turns on. */
static void narrows_alike(const struct format *f, narrow_call *call)
{
    static float src[ALL];
    static uint16_t dst[ALL + 2];
    const uint32_t lows[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x0fff, 0x1000, 0x1001};

    for (size_t i = 0; i < sizeof lows / sizeof lows[0]; i++) {
        for (uint32_t x = 0; x < ALL; x++)
            src[x] = ri_f32_of_bits(x << 16 | lows[i]);
        dst[0] = dst[ALL] = 7;
        call(dst + 1, src, ALL - 1);
        assert_true(dst[0] == 7 && dst[ALL] == 7);
        for (uint32_t x = 0; x < ALL - 1; x++)
            assert_int_equal(dst[x + 1], f->narrow(src[x]));
    }
}

static void arrays_give_the_same_bits(void **state)
{
    for (int i = 0; ri_convert_variants[i]; i++) {
        const struct ri_convert_ops *ops = ri_convert_variants[i];

        if (!ops->supported())
            continue;
        widens_alike(&formats[0], ops->f32_of_bf16);
        widens_alike(&formats[1], ops->f32_of_f16);
        narrows_alike(&formats[0], ops->bf16_of_f32);
        narrows_alike(&formats[1], ops->f16_of_f32);
    }
}

static void short_arrays_are_not_overrun(void **state)
{
    for (size_t count = 0; count < 40; count++)
        for (int i = 0; i < 2; i++) {
            uint16_t narrow[41];
            float wide[41], back[41];

            for (size_t j = 0; j < 41; j++) {
                wide[j] = (float)j;
                back[j] = -1;
                narrow[j] = 7;
            }
            ri_convert_from_f32(narrow, formats[i].type, wide, count);
            ri_convert_to_f32(back, narrow, formats[i].type, count);
            for (size_t j = 0; j < count; j++)
                assert_true(back[j] == (float)j);
            assert_int_equal(narrow[count], 7);
            assert_true(back[count] == -1);
        }
}

static void fp32_is_copied(void **state)
{
    const uint32_t bits[3] = {0x7f800001, 1, 0x80000000};
    uint32_t there[3], back[3];

    assert_int_equal(ri_convert_bytes(RONDO_F32), 4);
    assert_int_equal(ri_convert_bytes(RONDO_BF16), 2);
    assert_int_equal(ri_convert_bytes(RONDO_F16), 2);
    assert_int_equal(ri_convert_bytes(RONDO_F64), 0);
    assert_int_equal(ri_convert_bytes((rondo_dtype_t)99), 0);
    ri_convert_from_f32(there, RONDO_F32, (const float *)bits, 3);
    ri_convert_to_f32((float *)back, there, RONDO_F32, 3);
    assert_memory_equal(back, bits, sizeof bits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_by_one),
        cmocka_unit_test(arrays_give_the_same_bits),
        cmocka_unit_test(short_arrays_are_not_overrun),
        cmocka_unit_test(fp32_is_copied),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
