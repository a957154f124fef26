/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_RING_REWRITE_H
#define PERF_RING_REWRITE_H

#include "bench.h"
#include "ring_run.h"

/* rondo_ring --rewrite: in each iteration the owner writes its block anew, the block goes round the
 * ring, every rank reads every block once where it lies, and all readers have ended before the owner
 * writes again.  MPI does the same by MPI_Sendrecv, with one read of each block. */

extern const struct perf_column ring_rewrite_columns[];

/* As ring_shape_init says, with the dims of the options. */
int ring_rewrite_shape(struct ring_shape *shape, const struct ring_options *own, size_t bytes,
                       size_t *multiple);

/* As perf_program says of size. */
int ring_rewrite_size(struct perf_bench *bench, size_t bytes, int first);

#endif
