/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_KERNEL_TABLE_H
#define RI_KERNEL_TABLE_H

#include <rondo/kernel.h>

/* The bundled kernels; table.c lists them. */
extern const rondo_kernel_t ri_kernel_reference;
extern const rondo_kernel_t ri_kernel_flash;

/* flash with the inner loops of one instruction set: "flash-avx2" ...; NULL: no such name, or not on this CPU.
 * And the i-th of those that are on this CPU, or NULL. */
const rondo_kernel_t *ri_kernel_flash_with(const char *name);
const rondo_kernel_t *ri_kernel_flash_at(int i);

/* The names of all bundled kernels that run on this CPU, in text, which is returned. */
const char *ri_kernel_names(char *text, size_t bytes);

/* All flags that there are. */
#define RI_KERNEL_FLAGS (2u * RONDO_KERNEL_POLLS - 1)

/* merge.c: plain fp32 loops over packed memory, on the host. */

/* Folds the partial (o_i, lse_i) into (o, lse): rows of dim floats, one lse a row, lse strides in
 * elements.  Natural log.  (0, -inf) is the identity; +inf (the old empty convention) reads as -inf; a
 * side of weight 0 is not read (its o may be NaN). */
void ri_merge_lse(float *o, int64_t o_stride, float *lse, int64_t lse_stride, const float *o_i,
                  int64_t o_i_stride, const float *lse_i, int64_t lse_i_stride, int64_t rows, int dim);

/* acc[i] += x[i] */
void ri_merge_sum_f32(float *acc, const float *x, size_t count);
void ri_merge_sum_f64(double *acc, const double *x, size_t count);

/* delta[r] = sum over dim of o[r] * d_o[r], in double, rounded once; rows as in ri_merge_lse. */
void ri_delta(float *delta, int64_t delta_stride, const float *o, int64_t o_stride, const float *d_o,
              int64_t d_o_stride, int64_t rows, int dim);

#endif
