/* SPDX-License-Identifier: Apache-2.0 */
#include "base/workers.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

struct worker {
    struct ri_workers *workers;
    pthread_t thread;
    int number; /* 1 or more: 0 is who calls */
    struct worker *next;
};

struct ri_workers {
    pid_t owner;          /* the process that has the threads */
    struct worker *first; /* the one with the largest number first */
    int count;            /* of them */
    pthread_mutex_t lock; /* of what follows, but for next_index */
    pthread_cond_t wake, left;
    uint64_t run;         /* number of the last one */
    int open;             /* it goes on: workers may still join */
    int working;          /* workers that are in it */
    int end;
    pthread_t caller;     /* of the run, and whom it works for itself */
    const struct ri_workers *callers_run;
    int threads, task_count;
    void (*task)(void *argument, int index, int thread);
    void *argument;
    atomic_int next_index;
};

/* The run that this thread is a worker of; NULL: none. */
static _Thread_local const struct ri_workers *served;

int ri_workers_create(struct ri_workers **workers)
{
    struct ri_workers *made = calloc(1, sizeof(*made));

    if (!made)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for threads");
    made->owner = getpid();
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->wake, NULL);
    pthread_cond_init(&made->left, NULL);
    atomic_init(&made->next_index, 0);
    *workers = made;
    return 0;
}

static void take_tasks(struct ri_workers *w, int thread)
{
    for (int i = ri_workers_next(&w->next_index, w->task_count); i < w->task_count;
         i = ri_workers_next(&w->next_index, w->task_count))
        w->task(w->argument, i, thread);
}

static void *work(void *argument)
{
    const struct worker *self = argument;
    struct ri_workers *w = self->workers;
    uint64_t seen = 0;

    served = w;
    pthread_mutex_lock(&w->lock);
    while (!w->end) {
        if (seen == w->run || !w->open || self->number >= w->threads) {
            pthread_cond_wait(&w->wake, &w->lock);
            continue;
        }
        seen = w->run;
        w->working++;
        pthread_mutex_unlock(&w->lock);
        take_tasks(w, self->number);
        pthread_mutex_lock(&w->lock);
        if (--w->working == 0)
            pthread_cond_signal(&w->left);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Signals are for the program's own threads. */
static int start(struct worker *worker)
{
    sigset_t all, before;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&worker->thread, NULL, work, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

static int add(struct ri_workers *w)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    int err;

    if (!worker)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for a thread");
    worker->workers = w;
    worker->number = w->count + 1;
    err = start(worker);
    if (err) {
        free(worker);
        return ri_error(RONDO_ERR_SYSTEM, "thread %d could not be started: %s; ask for fewer threads (or "
                        "RONDO_THREADS)", w->count + 2, strerror(err));
    }
    worker->next = w->first;
    w->first = worker;
    w->count++;
    return 0;
}

int ri_workers_grow(struct ri_workers *workers, int threads)
{
    int err = 0;

    while (!err && workers->count + 1 < threads && workers->owner == getpid())
        err = add(workers);
    return err;
}

static void run_alone(void (*task)(void *argument, int index, int thread), void *argument, int count)
{
    for (int i = 0; i < count; i++)
        task(argument, i, 0);
}

void ri_workers_run(struct ri_workers *w, int threads, void (*task)(void *argument, int index, int thread),
                    void *argument, int count)
{
    if (threads <= 1 || count <= 1 || w->owner != getpid()) {
        run_alone(task, argument, count);
        return;
    }
    pthread_mutex_lock(&w->lock);
    w->caller = pthread_self();
    w->callers_run = served;
    w->threads = threads;
    w->task_count = count;
    w->task = task;
    w->argument = argument;
    atomic_store(&w->next_index, 0);
    w->run++;
    w->open = 1;
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->lock);
    take_tasks(w, 0);
    pthread_mutex_lock(&w->lock);
    w->open = 0;
    while (w->working > 0)
        pthread_cond_wait(&w->left, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

int ri_workers_serve(pthread_t caller)
{
    int serves = pthread_equal(caller, pthread_self());

    for (const struct ri_workers *w = served; w && !serves; w = w->callers_run)
        serves = pthread_equal(caller, w->caller);
    return serves;
}

/* In a forked child there is nobody to end, and the lock may be held for ever. */
static void end_all(struct ri_workers *w)
{
    pthread_mutex_lock(&w->lock);
    w->end = 1;
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->lock);
    for (struct worker *worker = w->first; worker; worker = worker->next)
        pthread_join(worker->thread, NULL);
    pthread_cond_destroy(&w->left);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
}

void ri_workers_destroy(struct ri_workers *workers)
{
    if (!workers)
        return;
    if (workers->owner == getpid())
        end_all(workers);
    while (workers->first) {
        struct worker *first = workers->first;

        workers->first = first->next;
        free(first);
    }
    free(workers);
}
