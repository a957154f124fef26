/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_SHARE_H
#define PERF_SHARE_H

#include <sys/types.h>

#include <rondo/layout.h>

/* One rank's part of an attention, as a kernel does it that has all keys at hand: a process of its own that
 * is connected to nobody but its parent, and sleeps until it is told to compute. */

struct share_problem {
    rondo_layout_desc_t layout;
    int rank;
    int heads, kv_heads, head_size;
    float scale;
};

/* How the parent tells that it is the same problem. */
struct share_made {
    double pairs;     /* (query, key) pairs that the kernel is given, per head */
    double delta_sum; /* of the sizes of the sums of dO and O */
};

struct share {
    pid_t child; /* 0: none */
    int way;     /* socket to it */
};

/* Starts the process; before the parent has ranks or threads.  0, or -1. */
int share_start(struct share *share);
void share_stop(struct share *share);

/* Hands over the problem, which is computed once.  0, or -1: it died, or had no memory. */
int share_make(struct share *share, const struct share_problem *problem, struct share_made *made);

/* Ready for a run, and a run: forward and backward.  0, or -1: it died, or the kernel failed. */
int share_prepare(struct share *share);
int share_run(struct share *share);

#endif
