/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_KERNEL_CONVERT_H
#define RI_KERNEL_CONVERT_H

#include <string.h>

#include <rondo/types.h>

/* Numbers of 16 bits and fp32.  To fp32 is exact; from it rounds to the nearest, ties to even, and what is
 * too large becomes infinite.  NaN stays NaN, with its sign and upper bits; an f16 or fp32 NaN comes out quiet. */

static inline uint32_t ri_bits_of_f32(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float ri_f32_of_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float ri_f32_of_bf16(uint16_t x)
{
    return ri_f32_of_bits((uint32_t)x << 16);
}

static inline uint16_t ri_bf16_of_f32(float x)
{
    uint32_t bits = ri_bits_of_f32(x), rounded = bits + 0x7fff + (bits >> 16 & 1);

    return (uint16_t)(((bits & 0x7fffffff) > 0x7f800000 ? bits | 0x400000 : rounded) >> 16);
}

/* Without a branch, which a compiler would keep beside what might trap. */
static inline uint32_t ri_convert_choose(int first, uint32_t a, uint32_t b)
{
    uint32_t mask = -(uint32_t)first;

    return (a & mask) | (b & ~mask);
}

/* A denormal m * 2^-24 is (1 + m * 2^-10) * 2^-14 less 2^-14; in all others the exponent moves by 112. */
static inline float ri_f32_of_f16(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, bits = (uint32_t)(x & 0x7fff) << 13;
    uint32_t small = ri_bits_of_f32(ri_f32_of_bits(bits + (113u << 23)) - ri_f32_of_bits(113u << 23));
    uint32_t large = bits + (224u << 23), special = bits > 0x1f << 23 ? large | 0x400000 : large;
    uint32_t normal = bits + (112u << 23);

    normal = bits >= 0x1f << 23 ? special : normal;
    return ri_f32_of_bits(sign | (ri_convert_choose(bits < 1 << 23, small, normal)));
}

/* A denormal is rounded where 0.5 + |x| is, whose last bit is worth 2^-24. */
static inline uint16_t ri_f16_of_f32(float x)
{
    uint32_t bits = ri_bits_of_f32(x), size = bits & 0x7fffffff;
    uint32_t small = ri_bits_of_f32(ri_f32_of_bits(size) + 0.5f) - (126u << 23);
    uint32_t normal = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
    uint32_t nan = 0x7e00 | (size >> 13 & 0x3ff), special = size > 0x7f800000 ? nan : 0x7c00;

    normal = size >= 143u << 23 ? special : normal;
    return (uint16_t)(bits >> 16 & 0x8000) | (uint16_t)ri_convert_choose(size < 113u << 23, small, normal);
}

/* Arrays, not overlapping; a number of 16 bits lies on an even address. */
struct ri_convert_ops {
    const char *name;
    int (*supported)(void);
    void (*f32_of_bf16)(float *dst, const uint16_t *src, size_t count);
    void (*bf16_of_f32)(uint16_t *dst, const float *src, size_t count);
    void (*f32_of_f16)(float *dst, const uint16_t *src, size_t count);
    void (*f16_of_f32)(uint16_t *dst, const float *src, size_t count);
};

/* Fastest first, NULL behind the last, which runs anywhere.  All give the same bits. */
extern const struct ri_convert_ops *const ri_convert_variants[];

/* 2 or 4; 0 for what is no type of a tensor of a kernel. */
size_t ri_convert_bytes(rondo_dtype_t type);

/* With the fastest of them; types are RONDO_F32 (a copy), RONDO_BF16 and RONDO_F16. */
void ri_convert_to_f32(float *dst, const void *src, rondo_dtype_t type, size_t count);
void ri_convert_from_f32(void *dst, rondo_dtype_t type, const float *src, size_t count);

#endif
