/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/check/number.h"

#include <math.h>
#include <string.h>

/* How a 16-bit type is cut: bits of its fraction, and its bias. */
static int fraction_bits(rondo_dtype_t dtype)
{
    return dtype == RONDO_BF16 ? 7 : 10;
}

static int bias(rondo_dtype_t dtype)
{
    return dtype == RONDO_BF16 ? 127 : 15;
}

static double read_short(rondo_dtype_t dtype, uint16_t bits)
{
    int cut = fraction_bits(dtype), top = 2 * bias(dtype) + 1;
    int exponent = bits >> cut & top, fraction = bits & ((1 << cut) - 1);
    double size;

    if (exponent == top)
        size = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        size = ldexp(fraction, 1 - bias(dtype) - cut);
    else
        size = ldexp((1 << cut) + fraction, exponent - bias(dtype) - cut);
    return bits >> 15 ? -size : size;
}

/* The number as a multiple of the spacing of its binade; a carry goes into the exponent by itself. */
static uint16_t write_short(rondo_dtype_t dtype, double value)
{
    int cut = fraction_bits(dtype), exponent, top = 2 * bias(dtype) + 1;
    unsigned sign = signbit(value) ? 0x8000 : 0, bits, infinity = (unsigned)top << cut;

    if (isnan(value))
        return (uint16_t)(sign | infinity | 1u << (cut - 1));
    if (isinf(value))
        return (uint16_t)(sign | infinity);
    frexp(value, &exponent); /* |value| < 2^exponent */
    if (exponent < 2 - bias(dtype))
        exponent = 2 - bias(dtype);
    value = nearbyint(ldexp(fabs(value), cut + 1 - exponent));
    if (exponent > bias(dtype) + 1)
        return (uint16_t)(sign | infinity);
    bits = (unsigned)(exponent - 2 + bias(dtype)) << cut;
    bits += (unsigned)value;
    return (uint16_t)(sign | (bits > infinity ? infinity : bits));
}

double ri_number_read(rondo_dtype_t dtype, const void *at)
{
    float number;
    uint16_t bits;

    if (dtype == RONDO_F32) {
        memcpy(&number, at, sizeof(number));
        return (double)number;
    }
    memcpy(&bits, at, sizeof(bits));
    return read_short(dtype, bits);
}

void ri_number_write(rondo_dtype_t dtype, void *at, double value)
{
    float number = (float)value;
    uint16_t bits;

    if (dtype == RONDO_F32) {
        memcpy(at, &number, sizeof(number));
        return;
    }
    bits = write_short(dtype, value);
    memcpy(at, &bits, sizeof(bits));
}

/* The sum of four uniform numbers, less its mean, over its deviation. */
double ri_number_random(uint64_t *state)
{
    double sum = -2;

    for (int i = 0; i < 4; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(*state >> 11) / 9007199254740992.0;
    }
    return sum * 1.7320508075688772;
}
