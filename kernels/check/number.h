/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_KERNEL_CHECK_NUMBER_H
#define RI_KERNEL_CHECK_NUMBER_H

#include <stdint.h>

#include <rondo/types.h>

/* Numbers of the types that kernels take, by arithmetic and not by bits where that is possible: the kernels
 * have conversions of their own, and these judge them. */
double ri_number_read(rondo_dtype_t dtype, const void *at);
void ri_number_write(rondo_dtype_t dtype, void *at, double value); /* to nearest, ties to even */
static inline int ri_number_bytes(rondo_dtype_t dtype)
{
    return dtype == RONDO_F32 ? 4 : 2;
}

double ri_number_random(uint64_t *state); /* approximately normal, variance 1, mean 0 */

#endif
