/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/flash.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <math.h>
#include <string.h>

#define TARGET
#define TILE_VECS 4

typedef float vec __attribute__((vector_size(16)));
typedef uint64_t wide_vec __attribute__((vector_size(16)));

/* The number where one side is NaN, which then is in the sum all the same. */
RI_INLINE TARGET vec vec_max(vec a, vec b)
{
    return (vec)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
}

RI_INLINE TARGET float reduce_max(vec x)
{
    return vmaxnmvq_f32((float32x4_t)x);
}

RI_INLINE TARGET wide_vec times_multiplier(wide_vec x)
{
    return (wide_vec)vmull_n_u32(vmovn_u64((uint64x2_t)x), RI_DROPOUT_MULTIPLIER);
}

#include "kernels/cpu/flash_ops.h"

static int supported(void)
{
    return 1;
}

const struct ri_flash_ops ri_flash_neon = {
    .name = "neon",
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
