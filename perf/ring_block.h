/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_RING_BLOCK_H
#define PERF_RING_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include <rondo/kernel.h>

/* The K+V block of rondo_ring: one head, batch 1, contiguous layout, so that rank r holds the
 * positions r*tokens .. (r+1)*tokens-1.  Filled by a formula that the kernel knows. */

struct ring_shape {
    int rank, ranks;
    int64_t tokens; /* of one block */
    int qk_dim, v_dim;
};

/* Block of `bytes` bytes: 4 * tokens * (qk_dim + v_dim).  With qk_dim 0 the dims follow from bytes.
 * 0, or -1: bytes is no multiple, and *multiple says of what it should be. */
int ring_shape_init(struct ring_shape *shape, size_t bytes, int qk_dim, int v_dim,
                    size_t *multiple);

/* The same for rows so wide that a block has `tokens` tokens, a power of two, or the largest part of it
 * that goes. */
int ring_shape_init_wide(struct ring_shape *shape, size_t bytes, size_t tokens, size_t *multiple);

/* k: [tokens][qk_dim], v: [tokens][v_dim] of this rank; all elements differ by owner, position and
 * iteration, so that a stale or misplaced block shows. */
void ring_fill(const struct ring_shape *shape, uint32_t iteration, float *k, float *v);

/* What the kernel is told, and what it found in one rotation.  Without `on` it does nothing at all. */
struct ring_check {
    int on;
    struct ring_shape shape;
    uint32_t iteration;
    int blocks, owner; /* blocks seen, and whose the last one was */
    int64_t pairs;     /* (query, key) pairs of the block seen last */
    uint64_t wrong;
    char first[192]; /* the first fault in words; kept over rotations */
};

/* Before and after each verified rotation; end returns the faults found in it. */
void ring_check_begin(struct ring_check *check, uint32_t iteration);
uint64_t ring_check_end(struct ring_check *check);

/* The forward of a rondo_kernel_t; context is a struct ring_check. */
int ring_forward(void *context, const rondo_kernel_forward_t *args);

#endif
