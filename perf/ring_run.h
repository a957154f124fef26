/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_RING_RUN_H
#define PERF_RING_RUN_H

#include <rondo/rondo.h>

#include "bench.h"
#include "ring_block.h"

/* What rondo_ring takes beside the common options. */
struct ring_options {
    int qk_dim, v_dim; /* --dims; 0: by size */
    int rewrite;       /* --rewrite */
    int reads_own;     /* --reads all: its own block too */
    unsigned memories; /* --memory: 1 << RING_ALLOC, 1 << RING_CALLER */
};

/* Where a block may lie: in memory of rondo_mem_alloc, or in memory of malloc. */
enum { RING_ALLOC, RING_CALLER, RING_MEMORIES };

const char *ring_memory_name(int memory);
/* Touched.  NULL: none. */
void *ring_memory_alloc(rondo_comm_t comm, int memory, size_t bytes);
void ring_memory_free(rondo_comm_t comm, int memory, void *block);

/* Collective: a forward ring over blocks of this shape, with this kernel, which outlives the plan. */
rondo_status_t ring_plan(rondo_comm_t comm, const struct ring_shape *shape,
                         const rondo_kernel_t *kernel, rondo_layout_t *layout, rondo_plan_t *plan);

/* One size of rondo_ring: a plan, its tensors, and the times that were taken. */
struct ring_run {
    rondo_comm_t comm; /* borrowed, as are the options */
    const struct perf_options *options;
    size_t bytes; /* of a block */
    int iterations, warmup;
    struct ring_check check;
    rondo_kernel_t kernel;
    rondo_layout_t layout;
    rondo_plan_t plan;
    rondo_attention_fwd_t tensors;
    float *q, *k, *v, *o;
    char *peer[2];             /* the peer's two blocks */
    double *rotation_us;       /* [repetitions][iterations] single rotations */
    double *ours_us, *peer_us; /* [repetitions] mean time of a rotation */
    /* Of all timed rotations, summed over ranks. */
    double exposed_seconds;
    double moved_bytes, bound_bytes; /* sent; read in place instead */
};

/* Collective.  bytes is a size that ring_shape_init takes.  Release the run after a failure too. */
rondo_status_t ring_run_init(struct ring_run *run, rondo_comm_t comm,
                             const struct perf_options *options, size_t bytes);
void ring_run_release(struct ring_run *run);

/* Collective.  Verified rotations, filled with the iterations from first_iteration on.  *wrong:
 * faults of all ranks; each rank names its own first on stderr. */
rondo_status_t ring_run_verify(struct ring_run *run, uint32_t first_iteration, int rotations,
                               double *wrong);

/* Collective.  Warms up, then times ours and the peer in turn.  Times are then those of the slowest
 * rank. */
rondo_status_t ring_run_time(struct ring_run *run);

#endif
