/* SPDX-License-Identifier: Apache-2.0 */
/* For any processor: 16-byte vectors, which a compiler without such registers splits. */
#include "kernels/cpu/flash.h"

#include <math.h>
#include <string.h>

#define TARGET
#define TILE_VECS 2

typedef float vec __attribute__((vector_size(16)));
typedef uint64_t wide_vec __attribute__((vector_size(16)));

RI_INLINE TARGET vec vec_max(vec a, vec b)
{
    for (int i = 0; i < 4; i++)
        a[i] = a[i] > b[i] ? a[i] : b[i];
    return a;
}

RI_INLINE TARGET float reduce_max(vec x)
{
    float top = x[0];

    for (int i = 1; i < 4; i++)
        top = x[i] > top ? x[i] : top;
    return top;
}

RI_INLINE TARGET wide_vec times_multiplier(wide_vec x)
{
    return (x & UINT32_MAX) * RI_DROPOUT_MULTIPLIER;
}

#include "kernels/cpu/flash_ops.h"

static int supported(void)
{
    return 1;
}

const struct ri_flash_ops ri_flash_plain = {
    .name = "plain",
    .supported = supported,
    .gemm = gemm,
    .softmax = softmax,
    .cap = cap,
    .drop = drop,
    .gradients = gradients,
    .scale_rows = scale_rows,
    .add_rows = add_rows,
};
