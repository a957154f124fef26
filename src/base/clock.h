/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_CLOCK_H
#define RI_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Monotonic time, for deadlines and statistics. */
static inline int64_t ri_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
