/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_WORKERS_H
#define RI_WORKERS_H

#include <pthread.h>
#include <stdatomic.h>

/* Threads that work on the tasks of one call at a time, beside the thread that calls.  They take no signals, and
 * sleep between calls.  A forked child has none of them: there the caller works alone. */
struct ri_workers;

/* Has none yet.  RONDO_ERR_MEMORY. */
int ri_workers_create(struct ri_workers **workers);
/* From now on `threads` can work at once, the caller of run among them, if it was less.  Not during a run.
 * RONDO_ERR_SYSTEM: there are as many as could be started. */
int ri_workers_grow(struct ri_workers *workers, int threads);
/* Calls task(argument, index, thread) once for each 0 <= index < count, in up to `threads` threads at a time, and
 * returns when all are done; 0 <= thread < threads, the caller's is 0.  One run at a time. */
void ri_workers_run(struct ri_workers *workers, int threads, void (*task)(void *argument, int index, int thread),
                    void *argument, int count);
/* Takes the next of count indices: count, when none is left.  Stays there however many ask: one beyond INT_MAX would
 * be a negative index. */
static inline int ri_workers_next(atomic_int *next, int count)
{
    int index = atomic_load(next);

    while (index < count && !atomic_compare_exchange_weak(next, &index, index + 1))
        continue;
    return index;
}

/* Whether the calling thread works for another one: is it, or is in a task of a run that the other one called, or
 * that a thread that works for it called. */
int ri_workers_serve(pthread_t caller);
/* NULL is fine. */
void ri_workers_destroy(struct ri_workers *workers);

#endif
