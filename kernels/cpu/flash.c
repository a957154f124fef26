/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in blocks, in fp32: the choice of inner loops, and what forward and backward share. */
#include "kernels/cpu/flash.h"

#include <string.h>

#include "base/status.h"
#include "kernels/cpu/tasks.h"

const struct ri_flash_ops *const ri_flash_variants[] = {
#if defined(__x86_64__)
    &ri_flash_avx512,
    &ri_flash_avx2,
#elif defined(__aarch64__)
    &ri_flash_neon,
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

struct ri_flash_drop ri_flash_drop(const rondo_kernel_shape_t *shape, uint64_t seed, int64_t b, int h,
                                   const rondo_tile_t *tile, int64_t i, int64_t j)
{
    return (struct ri_flash_drop){
        .stream = ri_dropout_stream(seed, shape->first_batch + b, shape->first_head + h),
        .threshold = ri_dropout_threshold(shape->dropout),
        .q_position = (uint32_t)(tile->q_start + i * tile->q_step),
        .q_step = (uint32_t)tile->q_step,
        .k_position = (uint32_t)(tile->k_start + j * tile->k_step),
        .k_step = (uint32_t)tile->k_step,
    };
}

int ri_flash_refuse(const rondo_kernel_shape_t *shape, const void *workspace)
{
    if (!ri_convert_bytes(shape->dtype))
        return ri_error(RONDO_ERR_UNSUPPORTED, "kernel flash: dtype %d; it takes float32, bfloat16 and float16",
                        (int)shape->dtype);
    if (!workspace)
        return ri_error(RONDO_ERR_ARGUMENT, "kernel flash: workspace is NULL; give its bytes");
    return 0;
}

static const void *source_row(const struct ri_flash_source *src, int i)
{
    return (const char *)src->data + i * src->stride * (int64_t)ri_convert_bytes(src->type);
}

void ri_flash_load_rows(const struct ri_flash_ops *ops, float *dst, int row, struct ri_flash_source src,
                        int count, int dim, float factor)
{
    if (src.type == RONDO_F32) {
        ops->scale_rows(dst, row, src.data, src.stride, count, dim, factor);
        return;
    }
    for (int i = 0; i < count; i++)
        ri_convert_to_f32(dst + (int64_t)i * row, source_row(&src, i), src.type, (size_t)dim);
    ops->scale_rows(dst, row, dst, row, count, dim, factor);
}

static void transpose_strip(float *dst, const float *src, int64_t stride, int count, int dim)
{
    for (int d = 0; d < dim; d++)
        for (int j = 0; j < RI_FLASH_STRIP; j++)
            dst[d * RI_FLASH_KEYS + j] = j < count ? src[j * stride + d] : 0;
}

/* Rows i to i + count as floats, *stride apart: where they lie, or converted into strip. */
static const float *as_floats(const struct ri_flash_source *src, int i, int count, int dim, float *strip,
                              int64_t *stride)
{
    *stride = src->stride;
    if (src->type == RONDO_F32)
        return source_row(src, i);
    *stride = dim;
    for (int j = 0; j < count; j++)
        ri_convert_to_f32(strip + (int64_t)j * dim, source_row(src, i + j), src->type, (size_t)dim);
    return strip;
}

void ri_flash_transpose(float *dst, struct ri_flash_source src, int count, int dim, float *strip)
{
    for (int j = 0; j < count || j % RI_FLASH_KEYS; j += RI_FLASH_STRIP) {
        float *block = dst + (int64_t)(j / RI_FLASH_KEYS) * dim * RI_FLASH_KEYS;
        int keys = ri_flash_min(RI_FLASH_STRIP, count - j);
        int64_t stride;
        const float *rows = as_floats(&src, j, keys, dim, strip, &stride);

        transpose_strip(block + j % RI_FLASH_KEYS, rows, stride, keys, dim);
    }
}

static size_t flash_workspace(void *context, const rondo_kernel_shape_t *shape)
{
    size_t forward = ri_flash_forward_floats(shape), backward = ri_flash_backward_floats(shape);

    return (forward > backward ? forward : backward) * sizeof(float) * ri_task_threads(shape);
}

/* The kernel's context names the inner loops; NULL: the best. */
static const struct ri_flash_ops *ops_of(void *context)
{
    return context ? context : best_ops();
}

static int flash_forward(void *context, const rondo_kernel_forward_t *args)
{
    return ri_flash_forward(ops_of(context), args);
}

static int flash_backward(void *context, const rondo_kernel_backward_t *args)
{
    return ri_flash_backward(ops_of(context), args);
}

#define FLASH(title, ops) \
    { \
        .struct_bytes = sizeof(rondo_kernel_t), .name = title, .context = (void *)(uintptr_t)(ops), \
        .flags = RONDO_KERNEL_MERGES | RONDO_KERNEL_BF16 | RONDO_KERNEL_F16 | RONDO_KERNEL_SOFTCAP | \
                 RONDO_KERNEL_DROPOUT | RONDO_KERNEL_POLLS, \
        .workspace_bytes = flash_workspace, .forward = flash_forward, .backward = flash_backward, \
    }

const rondo_kernel_t ri_kernel_flash = FLASH("flash", NULL);

static const rondo_kernel_t with_ops[] = {
#if defined(__x86_64__)
    FLASH("flash-avx512", &ri_flash_avx512), FLASH("flash-avx2", &ri_flash_avx2),
#elif defined(__aarch64__)
    FLASH("flash-neon", &ri_flash_neon),
#endif
    FLASH("flash-plain", &ri_flash_plain),
};

const rondo_kernel_t *ri_kernel_flash_at(int i)
{
    for (size_t k = 0; k < sizeof with_ops / sizeof with_ops[0]; k++)
        if (ops_of(with_ops[k].context)->supported() && i-- == 0)
            return &with_ops[k];
    return NULL;
}

const rondo_kernel_t *ri_kernel_flash_with(const char *name)
{
    const rondo_kernel_t *kernel;

    for (int i = 0; kernel = ri_kernel_flash_at(i), kernel; i++)
        if (strcmp(kernel->name, name) == 0)
            return kernel;
    return NULL;
}
