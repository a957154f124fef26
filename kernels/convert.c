/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/convert.h"

#include <stdatomic.h>

#define INLINE static inline __attribute__((always_inline))

/* Elements at a time, for a compiler to make vectors of. */
enum { STRIDE = 16 };

INLINE void widen(float *restrict dst, const uint16_t *restrict src, size_t count, float (*of)(uint16_t))
{
    size_t i = 0;

    for (; i + STRIDE <= count; i += STRIDE)
        for (size_t j = i; j < i + STRIDE; j++)
            dst[j] = of(src[j]);
    for (; i < count; i++)
        dst[i] = of(src[i]);
}

INLINE void narrow(uint16_t *restrict dst, const float *restrict src, size_t count, uint16_t (*of)(float))
{
    size_t i = 0;

    for (; i + STRIDE <= count; i += STRIDE)
        for (size_t j = i; j < i + STRIDE; j++)
            dst[j] = of(src[j]);
    for (; i < count; i++)
        dst[i] = of(src[i]);
}

static void f32_of_bf16_plain(float *dst, const uint16_t *src, size_t count)
{
    widen(dst, src, count, ri_f32_of_bf16);
}

static void bf16_of_f32_plain(uint16_t *dst, const float *src, size_t count)
{
    narrow(dst, src, count, ri_bf16_of_f32);
}

static void f32_of_f16_plain(float *dst, const uint16_t *src, size_t count)
{
    widen(dst, src, count, ri_f32_of_f16);
}

static void f16_of_f32_plain(uint16_t *dst, const float *src, size_t count)
{
    narrow(dst, src, count, ri_f16_of_f32);
}

static int supported_plain(void)
{
    return 1;
}

static const struct ri_convert_ops plain = {
    .name = "plain",
    .supported = supported_plain,
    .f32_of_bf16 = f32_of_bf16_plain,
    .bf16_of_f32 = bf16_of_f32_plain,
    .f32_of_f16 = f32_of_f16_plain,
    .f16_of_f32 = f16_of_f32_plain,
};

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,f16c")))

TARGET static void f32_of_bf16_f16c(float *dst, const uint16_t *src, size_t count)
{
    widen(dst, src, count, ri_f32_of_bf16);
}

TARGET static void bf16_of_f32_f16c(uint16_t *dst, const float *src, size_t count)
{
    narrow(dst, src, count, ri_bf16_of_f32);
}

TARGET static void f32_of_f16_f16c(float *dst, const uint16_t *src, size_t count)
{
    size_t i = 0;

    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(src + i))));
    for (; i < count; i++)
        dst[i] = ri_f32_of_f16(src[i]);
}

TARGET static void f16_of_f32_f16c(uint16_t *dst, const float *src, size_t count)
{
    size_t i = 0;

    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i_u *)(dst + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < count; i++)
        dst[i] = ri_f16_of_f32(src[i]);
}

/* Compilers do not agree on a name for this feature, and asking the processor takes long: 1 is no, 2 is yes. */
static int supported_f16c(void)
{
    static atomic_int known;
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    unsigned a, b, c = 0, d;

    if (!answer) {
        answer = __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C ? 2 : 1;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
}

static const struct ri_convert_ops f16c = {
    .name = "f16c",
    .supported = supported_f16c,
    .f32_of_bf16 = f32_of_bf16_f16c,
    .bf16_of_f32 = bf16_of_f32_f16c,
    .f32_of_f16 = f32_of_f16_f16c,
    .f16_of_f32 = f16_of_f32_f16c,
};

#endif

const struct ri_convert_ops *const ri_convert_variants[] = {
#if defined(__x86_64__)
    &f16c,
#endif
    &plain,
    NULL,
};

static const struct ri_convert_ops *best(void)
{
    int i = 0;

    while (!ri_convert_variants[i]->supported())
        i++;
    return ri_convert_variants[i];
}

size_t ri_convert_bytes(rondo_dtype_t type)
{
    if (type == RONDO_BF16 || type == RONDO_F16)
        return sizeof(uint16_t);
    return type == RONDO_F32 ? sizeof(float) : 0;
}

void ri_convert_to_f32(float *dst, const void *src, rondo_dtype_t type, size_t count)
{
    if (type == RONDO_BF16)
        best()->f32_of_bf16(dst, src, count);
    else if (type == RONDO_F16)
        best()->f32_of_f16(dst, src, count);
    else
        memcpy(dst, src, count * sizeof *dst);
}

void ri_convert_from_f32(void *dst, rondo_dtype_t type, const float *src, size_t count)
{
    if (type == RONDO_BF16)
        best()->bf16_of_f32(dst, src, count);
    else if (type == RONDO_F16)
        best()->f16_of_f32(dst, src, count);
    else
        memcpy(dst, src, count * sizeof *src);
}
