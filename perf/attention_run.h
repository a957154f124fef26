/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_ATTENTION_RUN_H
#define PERF_ATTENTION_RUN_H

#include "bench.h"
#include "kernel_call.h"
#include "share.h"

/* Causal attention, forward and backward: by the kernel in one call on one rank, by a plan on all ranks, and by
 * the kernel on the shares of all ranks at once. */

struct attention_options {
    int64_t tokens, heads, kv_heads, head_size;
    rondo_layout_kind_t layout;
    const char *schedule, *backward;
    struct share share; /* this rank's process */
};

struct attention_times {
    double single_us, plan_us, shares_us;
    double exposed_us; /* of plan_us, in both passes: transfers that nothing hid */
};

struct attention_run {
    struct perf_bench *bench;
    struct attention_options *own;
    rondo_layout_t layout;
    rondo_plan_t plan;
    rondo_tile_t tile;
    struct kernel_call whole; /* rank 0's: one tile */
    struct kernel_call shard; /* the plan's tensors of this rank */
    int64_t *positions;       /* [shard.q_tokens] */
    double wrong;             /* found on this rank */
    int idle_rank;            /* one that has no tokens: there is no plan, nor tensors; -1: none */
};

/* Collective, all of them.  Release it after a failure too. */
rondo_status_t attention_init(struct attention_run *run, struct perf_bench *bench);
void attention_release(struct attention_run *run);

/* The plan's outputs are the single call's, and the shares are of the same problem. */
rondo_status_t attention_verify(struct attention_run *run);

/* Once each; equal on all ranks. */
rondo_status_t attention_measure(struct attention_run *run, struct attention_times *times);

/* Of both passes and all ranks. */
double attention_operations(const struct attention_run *run);

#endif
