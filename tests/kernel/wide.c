/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of flash with the widest vectors and register tile, in whatever instructions the
 * compiler has for them: so that what AVX-512 takes from flash_ops.h is tested on processors
 * without. */
#include "kernels/cpu/flash.h"

#include <math.h>
#include <string.h>

#define TARGET
#define TILE_VECS 4

typedef float vec __attribute__((vector_size(64)));
typedef uint64_t wide_vec __attribute__((vector_size(64)));

extern const struct ri_flash_ops test_flash_wide;

RI_INLINE vec vec_max(vec a, vec b)
{
    for (int i = 0; i < 16; i++)
        a[i] = a[i] > b[i] ? a[i] : b[i];
    return a;
}

RI_INLINE float reduce_max(vec x)
{
    float top = x[0];

    for (int i = 1; i < 16; i++)
        top = x[i] > top ? x[i] : top;
    return top;
}

RI_INLINE wide_vec times_multiplier(wide_vec x)
{
    return (x & UINT32_MAX) * RI_DROPOUT_MULTIPLIER;
}

#include "kernels/cpu/flash_ops.h"

static int supported(void)
{
    return 1;
}

const struct ri_flash_ops test_flash_wide = {
    .name = "wide",
    .supported = supported,
    .gemm = gemm,
    .softmax = softmax,
    .cap = cap,
    .drop = drop,
    .gradients = gradients,
    .scale_rows = scale_rows,
    .add_rows = add_rows,
};
