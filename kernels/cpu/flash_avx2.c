/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/flash.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define TARGET __attribute__((target("avx2,fma")))
#define TILE_VECS 2

typedef float vec __attribute__((vector_size(32)));
typedef uint64_t wide_vec __attribute__((vector_size(32)));

RI_INLINE TARGET vec vec_max(vec a, vec b)
{
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
}

RI_INLINE TARGET float reduce_max(vec x)
{
    __m128 half =
        _mm_max_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));

    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

RI_INLINE TARGET wide_vec times_multiplier(wide_vec x)
{
    return (wide_vec)_mm256_mul_epu32((__m256i)x, _mm256_set1_epi64x(RI_DROPOUT_MULTIPLIER));
}

#include "kernels/cpu/flash_ops.h"

static int supported(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

const struct ri_flash_ops ri_flash_avx2 = {
    .name = "avx2",
    .supported = supported,
    .gemm = gemm,
    .softmax = softmax,
    .cap = cap,
    .drop = drop,
    .gradients = gradients,
    .scale_rows = scale_rows,
    .add_rows = add_rows,
};

#endif
