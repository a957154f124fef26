/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_STORED_H
#define TRAIN_STORED_H

#include <stdint.h>

#include <rondo/types.h>

/* A tensor as attention reads or writes it: RONDO_F32, on which the layers work in place, or RONDO_BF16, for
 * which they work on floats elsewhere. */

size_t stored_bytes(rondo_dtype_t dtype);

/* Where to work on floats that are going to be stored: `stored` itself, or work. */
float *stored_floats(rondo_dtype_t dtype, void *stored, float *work);
/* What was worked on there is stored, rounded once, to the nearest and if between two to the even one. */
void stored_write(rondo_dtype_t dtype, void *stored, const float *work, int64_t count);
/* Floats of what is stored: `stored` itself, or work, filled. */
float *stored_read(rondo_dtype_t dtype, void *stored, float *work, int64_t count);

#endif
