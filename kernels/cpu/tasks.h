/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_KERNEL_CPU_TASKS_H
#define RI_KERNEL_CPU_TASKS_H

#include <stdatomic.h>

#include <rondo/kernel.h>

/* How many workspaces the tasks of this shape need: one a thread. */
static inline size_t ri_task_threads(const rondo_kernel_shape_t *shape)
{
    return shape->threads > 1 ? (size_t)shape->threads : 1;
}

/* Calls task(argument, index, thread) for every (batch row, key/value head): index = row * kv_heads + head.
 * They write different rows of every tensor, so that any order and any threads give the same bits.  0, or an
 * error. */
int ri_tasks_run(const rondo_kernel_shape_t *shape, void (*task)(void *argument, int index, int thread),
                 void *argument);

/* What the threads of a call poll with (RONDO_KERNEL_POLLS); stopped: what the call then returns. */
struct ri_poll {
    int (*poll)(void *poller);
    void *poller;
    atomic_int stopped;
};

/* Is the call in vain?  Thread 0, which is the caller's, polls where there is something to. */
static inline int ri_poll(struct ri_poll *poll, int thread)
{
    int stopped = atomic_load_explicit(&poll->stopped, memory_order_relaxed);

    if (thread == 0 && poll->poll && !stopped) {
        stopped = poll->poll(poll->poller);
        atomic_store_explicit(&poll->stopped, stopped, memory_order_relaxed);
    }
    return stopped;
}

#endif
