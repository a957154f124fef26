/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_KERNEL_CPU_FLASH_H
#define RI_KERNEL_CPU_FLASH_H

#include <float.h>
#include <math.h>
#include <stdint.h>

#include "base/analyzer.h"
#include "kernels/cpu/tile.h"
#include "kernels/dropout.h"
#include "kernels/table.h"

/* Queries and keys of a block, the unit of work: its scores, and the rows of q, k, v that make
 * them, stay near a hundred KB.  Rows in the workspace are padded to RI_FLASH_PAD floats, a cache
 * line. */
enum { RI_FLASH_QUERIES = 96, RI_FLASH_KEYS = 64, RI_FLASH_PAD = 16 };

/* Keys transposed at a time: of more, a power of two apart, too many would fall on one cache set. */
enum { RI_FLASH_STRIP = 16 };

#define RI_INLINE static inline __attribute__((always_inline))

/* c[r][n] = or += sum over d of a[r][d] * b[d][n], for 0 <= r < rows, 0 <= n < cols and those d of
 * 0 <= d < depth with r + lo <= d <= r + hi.  a_row 0: of a[d][r], RI_FLASH_KEYS a row.  What lies outside is not
 * multiplied by zero but never read: it may be NaN.  A gemm that stores reads the whole depth. cols
 * is a multiple of RI_FLASH_PAD; b and c are rows of b_row, c_row floats. */
struct ri_flash_gemm {
    const float *a, *b;
    float *c;
    int a_row, b_row, c_row;
    int rows, cols, depth;
    int lo, hi;
    int add;
};

/* Which weights of a block dropout keeps: of row r and column j as query q_position + r * q_step and key
 * k_position + j * k_step, modulo 2^32. */
struct ri_flash_drop {
    uint64_t stream;
    uint32_t threshold;
    uint32_t q_position, q_step;
    uint32_t k_position, k_step;
};

/* p [rows][RI_FLASH_KEYS] holds scores in base 2, of which cap * tanh(score / cap) is taken where cap is not 0, and
 * becomes 2^(score - lse); dp becomes that times (dp - delta), times 1 - tanh^2 with a cap.  Where drop is not
 * NULL and drops, p and the former dp count as zero.  Rows with lse == +inf become zero whatever they held. */
struct ri_flash_gradients {
    float *p, *dp;
    const float *lse, *delta;
    int rows;
    float cap;
    const struct ri_flash_drop *drop;
};

/* The inner loops, once for every instruction set. */
struct ri_flash_ops {
    const char *name;
    int (*supported)(void);

    void (*gemm)(const struct ri_flash_gemm *g);

    /* One block of online softmax in base 2.  s [rows][RI_FLASH_KEYS] holds scores, -inf where
     * hidden, and becomes weights 2^(s - top); top [rows] is the running maximum, sum [rows][RI_FLASH_PAD] the
     * running sum of weights in parts; o [rows][cols] is scaled where the maximum rises. */
    void (*softmax)(float *s, float *top, float *sum, float *o, int rows, int cols);

    /* s [rows][RI_FLASH_KEYS] becomes bound * tanh(s / bound); bound and its inverse are normal numbers. */
    void (*cap)(float *s, float bound, int rows);

    /* What is dropped of s [rows][RI_FLASH_KEYS] becomes zero. */
    void (*drop)(float *s, const struct ri_flash_drop *drop, int rows);

    void (*gradients)(const struct ri_flash_gradients *g);

    /* Into the workspace: dst[i][d] = factor * src[i][d] for d < dim, and zero up to row. */
    void (*scale_rows)(float *dst, int row, const float *src, int64_t stride, int count, int dim,
                       float factor);

    /* Out of it: acc[i][d] += factor * src[i][d]. */
    void (*add_rows)(float *acc, int64_t stride, const float *src, int row, int count, int dim,
                     float factor);
};

extern const struct ri_flash_ops ri_flash_avx512;
extern const struct ri_flash_ops ri_flash_avx2;
extern const struct ri_flash_ops ri_flash_neon;
extern const struct ri_flash_ops ri_flash_plain;

/* Fastest first, NULL behind the last, which runs anywhere. */
extern const struct ri_flash_ops *const ri_flash_variants[];

/* A kernel's two calls, with the inner loops to use; and the workspace that a thread
 * needs for each. */
int ri_flash_forward(const struct ri_flash_ops *ops, const rondo_kernel_forward_t *args);
int ri_flash_backward(const struct ri_flash_ops *ops, const rondo_kernel_backward_t *args);
size_t ri_flash_forward_floats(const rondo_kernel_shape_t *shape);
size_t ri_flash_backward_floats(const rondo_kernel_shape_t *shape);

static inline int ri_flash_min(int64_t a, int64_t b)
{
    return (int)(a < b ? a : b);
}

static inline int ri_flash_max(int64_t a, int64_t b)
{
    return (int)(a > b ? a : b);
}

static inline int64_t ri_flash_padded(int64_t floats)
{
    return (floats + RI_FLASH_PAD - 1) / RI_FLASH_PAD * RI_FLASH_PAD;
}

/* The next `floats` of a workspace, of which *used are taken; NULL while only sizes are asked. */
static inline float *ri_flash_take(float *workspace, size_t *used, int64_t floats)
{
    float *taken = workspace ? workspace + *used : NULL;

    *used += (size_t)ri_flash_padded(floats);
    return taken;
}

/* A block of queries against a block of keys: query i sees key j iff lo <= i - j <= hi; queries
 * before first and from end on see nothing. */
struct ri_flash_band {
    int lo, hi;
    int first, end;
};

struct ri_flash_band ri_flash_band(const rondo_tile_t *tile, int64_t query, int queries,
                                   int64_t key, int keys);

/* Keys packed at one time, with so many floats each: a multiple of RI_FLASH_KEYS, as many as may come but at most
 * two MiB of them, which larger second caches hold.  Of fewer, queries would be loaded more often. */
enum { RI_FLASH_PANEL_FLOATS = 1 << 19 };

static inline int ri_flash_panel(const rondo_kernel_shape_t *shape, int64_t floats)
{
    int64_t blocks = (shape->max_k_tokens + RI_FLASH_KEYS - 1) / RI_FLASH_KEYS;
    int64_t most = RI_FLASH_PANEL_FLOATS / (floats * RI_FLASH_KEYS);

    if (blocks > most)
        blocks = most > 1 ? most : 1;
    return (int)blocks * RI_FLASH_KEYS;
}

/* What q is multiplied by, so that scores come out in base 2. */
static inline float ri_flash_q_factor(const rondo_kernel_shape_t *shape)
{
    return (float)(shape->scale * M_LOG2E);
}

/* The soft-cap in base 2, of which fp32 holds the inverse, too; 0: none.  One above 1e30 changes no bit of a score
 * below 1e26, and counts as none: tanh would be asked for numbers that fp32 holds with few bits or not at all.  One
 * below the smallest makes every weight 2^0, as the smallest does. */
static inline float ri_flash_cap(const rondo_kernel_shape_t *shape)
{
    if (shape->softcap == 0 || shape->softcap > 1e30f)
        return 0;
    return fmaxf((float)(shape->softcap * M_LOG2E), FLT_MIN);
}

/* What a weight that dropout keeps counts. */
static inline float ri_flash_kept(const rondo_kernel_shape_t *shape)
{
    return 1 / (1 - shape->dropout);
}

/* Of the block whose first pair is query i and key j of the tile; head h and batch row b of the call. */
struct ri_flash_drop ri_flash_drop(const rondo_kernel_shape_t *shape, uint64_t seed, int64_t b, int h,
                                   const rondo_tile_t *tile, int64_t i, int64_t j);

/* 0, or the error of a dtype that flash does not take or a workspace that is not there. */
int ri_flash_refuse(const rondo_kernel_shape_t *shape, const void *workspace);

/* Tokens of one head of a caller's tensor, `stride` elements apart. */
struct ri_flash_source {
    const void *data;
    int64_t stride;
    rondo_dtype_t type;
};

static inline struct ri_flash_source ri_flash_source(const rondo_tensor_t *x, rondo_dtype_t type,
                                                     int64_t b, int64_t t, int64_t h)
{
    return (struct ri_flash_source){ri_tensor_typed_row(x, type, b, t, h), x->token_stride, type};
}

/* dst[i][d] = factor * src[i][d] for d < dim, and zero up to row. */
void ri_flash_load_rows(const struct ri_flash_ops *ops, float *dst, int row, struct ri_flash_source src,
                        int count, int dim, float factor);

/* dst[block][d][RI_FLASH_KEYS] from src[key][d], zero behind the last key.  strip [RI_FLASH_STRIP][dim] is
 * scratch. */
void ri_flash_transpose(float *dst, struct ri_flash_source src, int count, int dim, float *strip);

#endif
