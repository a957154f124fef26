/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/table.h"

#include <math.h>
#include <string.h>

/* Four floats, in whatever instructions the processor has: -O2 leaves these loops scalar. */
typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));

/* y = a * y + b * x */
static void blend(float *y, float a, const float *x, float b, size_t count)
{
    size_t i = 0;

    for (; i + 4 <= count; i += 4)
        *(quad *)(y + i) = a * *(quad *)(y + i) + b * *(const quad *)(x + i);
    for (; i < count; i++)
        y[i] = a * y[i] + b * x[i];
}

/* Some attention kernels report an empty row as +inf; no sum of exponentials is that. */
static float lse_of(float reported)
{
    return reported == INFINITY ? -INFINITY : reported;
}

/* With m the larger lse and e = exp(other - m): lse = m + log(1 + e), and the weights are 1/(1 + e)
 * and e/(1 + e).  Weights from exp(part - lse) would carry the rounding of a large lse. */
static void merge_row(float *o, float *lse, const float *o_i, float reported_i, int dim)
{
    float a = lse_of(*lse), b = lse_of(reported_i);
    float e, weight_a, weight_b;

    *lse = a;
    if (b == -INFINITY) {
        if (a == -INFINITY)
            memset(o, 0, (size_t)dim * sizeof *o);
        return;
    }
    e = a >= b ? expf(b - a) : expf(a - b);
    weight_a = a >= b ? 1 / (1 + e) : e / (1 + e);
    weight_b = a >= b ? e / (1 + e) : 1 / (1 + e);
    *lse = (a >= b ? a : b) + log1pf(e);
    if (weight_b == 0)
        return;
    if (weight_a == 0) {
        memcpy(o, o_i, (size_t)dim * sizeof *o);
        return;
    }
    blend(o, weight_a, o_i, weight_b, (size_t)dim);
}

void ri_merge_lse(float *o, int64_t o_stride, float *lse, int64_t lse_stride, const float *o_i,
                  int64_t o_i_stride, const float *lse_i, int64_t lse_i_stride, int64_t rows,
                  int dim)
{
    for (int64_t r = 0; r < rows; r++)
        merge_row(o + r * o_stride, lse + r * lse_stride, o_i + r * o_i_stride,
                  lse_i[r * lse_i_stride], dim);
}

void ri_merge_sum_f32(float *acc, const float *x, size_t count)
{
    size_t i = 0;

    for (; i + 4 <= count; i += 4)
        *(quad *)(acc + i) += *(const quad *)(x + i);
    for (; i < count; i++)
        acc[i] += x[i];
}

void ri_merge_sum_f64(double *acc, const double *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        acc[i] += x[i];
}

void ri_delta(float *delta, int64_t delta_stride, const float *o, int64_t o_stride,
              const float *d_o, int64_t d_o_stride, int64_t rows, int dim)
{
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;

        for (int d = 0; d < dim; d++)
            sum += (double)o[r * o_stride + d] * d_o[r * d_o_stride + d];
        delta[r * delta_stride] = (float)sum;
    }
}
