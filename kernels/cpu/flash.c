/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in blocks, in fp32: the choice of inner loops, and what forward and backward share. */
#include "kernels/cpu/flash.h"

const struct ri_flash_ops *const ri_flash_variants[] = {
#if defined(__x86_64__)
    &ri_flash_avx512,
    &ri_flash_avx2,
#endif
    &ri_flash_plain,
    NULL,
};

static const struct ri_flash_ops *best_ops(void)
{
    int i = 0;

    while (!ri_flash_variants[i]->supported())
        i++;
    return ri_flash_variants[i];
}

static int clamp(int64_t x, int least, int most)
{
    if (x < least)
        return least;
    return x > most ? most : (int)x;
}

struct ri_flash_band ri_flash_band(const rondo_tile_t *tile, int64_t query, int queries,
                                   int64_t key, int keys)
{
    struct ri_flash_band band;

    band.lo = clamp(ri_tile_edge(tile, tile->lo) - (query - key), -keys, queries);
    band.hi = clamp(ri_tile_edge(tile, tile->hi) - (query - key), -keys, queries);
    band.first = ri_flash_max(0, band.lo);
    band.end = ri_flash_min(queries, (int64_t)keys + band.hi);
    return band;
}

/* Sixteen keys at a time: of more, a power of two apart, too many would fall on one cache set. */
static void transpose_strip(float *dst, const float *src, int64_t stride, int count, int dim)
{
    for (int d = 0; d < dim; d++)
        for (int j = 0; j < 16; j++)
            dst[d * RI_FLASH_KEYS + j] = j < count ? src[j * stride + d] : 0;
}

void ri_flash_transpose(float *dst, const float *src, int64_t stride, int count, int dim)
{
    for (int j = 0; j < count; j += RI_FLASH_KEYS, dst += (int64_t)dim * RI_FLASH_KEYS)
        for (int strip = 0; strip < RI_FLASH_KEYS; strip += 16)
            transpose_strip(dst + strip, src + (int64_t)(j + strip) * stride, stride,
                            count - j - strip, dim);
}

static size_t flash_workspace(void *context, const rondo_kernel_shape_t *shape)
{
    size_t forward = ri_flash_forward_floats(shape), backward = ri_flash_backward_floats(shape);

    return (forward > backward ? forward : backward) * sizeof(float);
}

static int flash_forward(void *context, const rondo_kernel_forward_t *args)
{
    return ri_flash_forward(best_ops(), args);
}

static int flash_backward(void *context, const rondo_kernel_backward_t *args)
{
    return ri_flash_backward(best_ops(), args);
}

const rondo_kernel_t ri_kernel_flash = {
    .struct_bytes = sizeof(rondo_kernel_t),
    .name = "flash",
    .flags = RONDO_KERNEL_MERGES,
    .workspace_bytes = flash_workspace,
    .forward = flash_forward,
    .backward = flash_backward,
};
