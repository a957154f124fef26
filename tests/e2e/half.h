/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_HALF_H
#define TEST_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <rondo/types.h>

/* Numbers of 16 bits, by arithmetic on doubles and not by bits, as a reference is: exact, slow. */

/* The nearest number that the type has, ties to even. */
static inline float half_round(float x, rondo_dtype_t dtype)
{
    int bits = dtype == RONDO_BF16 ? 8 : 11, least = dtype == RONDO_BF16 ? -125 : -13, exponent;
    double unit;

    if (dtype == RONDO_F32 || !isfinite(x) || x == 0)
        return x;
    frexp(x, &exponent);
    unit = ldexp(1, (exponent < least ? least : exponent) - bits);
    x = (float)(nearbyint(x / unit) * unit);
    return dtype == RONDO_F16 && fabsf(x) > 65504 ? copysignf(INFINITY, x) : x;
}

static inline float half_to_float(uint16_t half, rondo_dtype_t dtype)
{
    uint32_t wide = (uint32_t)half << 16;
    int exponent = half >> 10 & 31, fraction = half & 1023;
    float x;

    if (dtype == RONDO_BF16) {
        memcpy(&x, &wide, sizeof(x));
        return x;
    }
    if (exponent == 31)
        x = fraction ? NAN : INFINITY;
    else
        x = exponent ? ldexpf((float)(1024 + fraction), exponent - 25) : ldexpf((float)fraction, -24);
    return half >> 15 ? -x : x;
}

/* Of a number that the type has. */
static inline uint16_t half_of_float(float x, rondo_dtype_t dtype)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    uint32_t wide;
    int exponent;

    memcpy(&wide, &x, sizeof(wide));
    if (dtype == RONDO_BF16)
        return (uint16_t)(isnan(x) ? 0x7fc0 : wide >> 16);
    if (isnan(x))
        return 0x7e00;
    if (isinf(x))
        return (uint16_t)(sign | 0x7c00);
    frexpf(x, &exponent);
    if (x == 0 || exponent < -13)
        return (uint16_t)(sign | (uint16_t)ldexpf(fabsf(x), 24));
    return (uint16_t)(sign | (exponent + 14) << 10 | ((int)ldexpf(fabsf(x), 11 - exponent) & 1023));
}

#endif
