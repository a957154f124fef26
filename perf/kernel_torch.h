/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_KERNEL_TORCH_H
#define PERF_KERNEL_TORCH_H

#include "kernel_call.h"

/* PyTorch's attention forward, in a Python process that is asked for one run at a time. */

struct kernel_torch_problem {
    const char *python;             /* the interpreter */
    int threads, causal;
    int timeout_ms;                 /* of every answer; 0: two minutes */
    const struct kernel_call *call; /* fp32, one batch row, and o as our kernel made it */
};

/* Starts it, hands over q, k and v, and compares its o with ours.  NULL: stderr says why. */
struct kernel_torch *kernel_torch_start(const struct kernel_torch_problem *problem);

/* Seconds of one run; < 0: stderr says why. */
double kernel_torch_time(struct kernel_torch *torch);

/* Ends the process, too.  NULL is a no-op. */
void kernel_torch_stop(struct kernel_torch *torch);

#endif
