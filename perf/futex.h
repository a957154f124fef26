/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_FUTEX_H
#define PERF_FUTEX_H

#include <stdint.h>
#include <sys/types.h>

/* What the kernel takes to wake another process, and nothing else: this process and a child of it
 * wake each other by a futex in a shared page. */
struct perf_futex {
    struct perf_futex_page *page;
    pid_t child;
    uint32_t turn;
};

/* 0, or -1: no page or no child. */
int perf_futex_open(struct perf_futex *futex);
void perf_futex_close(struct perf_futex *futex);

/* Wakes the child, which waits pause_us, busily, and wakes us.  *us: one wake, half of both without the
 * pause.  Before it this process waits pause_us too, so that the child surely sleeps.  0, or -1: the
 * child did not answer. */
int perf_futex_wake(struct perf_futex *futex, double pause_us, double *us);

#endif
