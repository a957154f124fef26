/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/flash.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>

#define TARGET __attribute__((target("avx512f,avx512dq")))
#define TILE_VECS 4

typedef float vec __attribute__((vector_size(64)));
typedef uint64_t wide_vec __attribute__((vector_size(64)));

RI_INLINE TARGET vec vec_max(vec a, vec b)
{
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
}

RI_INLINE TARGET float reduce_max(vec x)
{
    return _mm512_reduce_max_ps((__m512)x);
}

RI_INLINE TARGET wide_vec times_multiplier(wide_vec x)
{
    return (wide_vec)_mm512_mul_epu32((__m512i)x, _mm512_set1_epi64(RI_DROPOUT_MULTIPLIER));
}

#include "kernels/cpu/flash_ops.h"

static int supported(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
}

const struct ri_flash_ops ri_flash_avx512 = {
    .name = "avx512",
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
