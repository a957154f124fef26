/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_OVERLAP_RUN_H
#define PERF_OVERLAP_RUN_H

#include <rondo/rondo.h>

#include "bench.h"
#include "load.h"
#include "ring_block.h"

enum overlap_pass { PASS_FORWARD, PASS_KV_GRAD, PASS_Q_GRAD, PASSES };

/* A plan as it is, and one that computes only on whole blocks. */
enum overlap_kind { OVERLAP_CHUNKS, OVERLAP_WHOLE, OVERLAP_KINDS };

enum { RATIOS_MAX = 16, IN_FLIGHT = 2 };

struct overlap_options {
    int qk_dim, v_dim; /* --dims */
    enum overlap_pass pass;
    enum load_kind load;
    int64_t chunk_bytes; /* 0: the plan chooses */
    double ratio[RATIOS_MAX];
    int ratios;
};

extern const char *const overlap_pass_names[PASSES];

/* One size: plans, tensors, and a kernel that works. */
struct overlap_run {
    struct perf_bench *bench; /* borrowed */
    const struct overlap_options *own;
    size_t bytes; /* of a block of keys and values */
    struct ring_shape shape;
    struct load load;
    rondo_kernel_t kernel;
    rondo_layout_t layout;
    rondo_plan_t plan[OVERLAP_KINDS];
    float *q, *k, *v, *d_o;
    char *peer[3]; /* own block, and two that come in turn */
    struct {
        float *o, *lse, *dq, *dk, *dv;
    } out[IN_FLIGHT];
    uint64_t wrong;
};

/* What is timed in a repetition, in us and of one call.  Calls follow each other: the step is one of them
 * while the next one is started already. */
struct overlap_times {
    double transfer_us;              /* without work, the next one started already */
    double compute_us;               /* of the work alone, on all ranks at once */
    double step_us[OVERLAP_KINDS];
    double call_us[OVERLAP_KINDS];   /* started when the one before has ended */
    double worked_us[OVERLAP_KINDS]; /* within such a call */
    double peer_us;                  /* the same call by MPI, on whole blocks, moved between portions */
};

/* Collective.  Release it after a failure too. */
rondo_status_t overlap_init(struct overlap_run *run, struct perf_bench *bench, size_t bytes);
void overlap_release(struct overlap_run *run);

/* Collective: calls with tensors filled anew, of which every byte is looked at by the kernel. */
rondo_status_t overlap_verify(struct overlap_run *run, int calls);

/* Collective: a call without work, back to back. */
rondo_status_t overlap_transfer(struct overlap_run *run, double *us);

/* Collective: all of it once, with compute_us of work in each call.  Of this rank. */
rondo_status_t overlap_measure(struct overlap_run *run, double compute_us,
                               struct overlap_times *times);

#endif
