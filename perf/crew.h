/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_CREW_H
#define PERF_CREW_H

/* Threads for the `run` of a rondo_kernel_shape_t.  They are made in each call and gone after it, which
 * takes tens of microseconds. */
struct crew {
    int threads; /* 1 or more, at most CREW_MOST */
};

enum { CREW_MOST = 256 };

/* runner is a struct crew. */
void crew_run(void *runner, void (*task)(void *argument, int index, int thread), void *argument, int count);

#endif
