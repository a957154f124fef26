/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/mover.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/status.h"
#include "comm/comm.h"

/* How long it leaves a request to a caller that may come to wait at once: by then it has not queued for
 * the lock, where that caller would stand behind it. */
#define GRACE_NS 50000

struct ri_mover {
    struct ri_family *family;
    int rank;
    pthread_t thread;
    int is_ending;         /* under the family's lock */
    pthread_mutex_t mutex; /* of is_roused */
    pthread_cond_t roused;
    int is_roused;
};

/* Until there may be something to do, without the family's lock.  What is done under that lock before a
 * rouse is seen afterwards. */
static void rest(struct ri_mover *mover)
{
    const struct timespec grace = { .tv_nsec = GRACE_NS };

    ri_family_unlock(mover->family);
    pthread_mutex_lock(&mover->mutex);
    do {
        while (!mover->is_roused)
            pthread_cond_wait(&mover->roused, &mover->mutex);
        pthread_mutex_unlock(&mover->mutex);
        nanosleep(&grace, NULL);
        pthread_mutex_lock(&mover->mutex);
    } while (!mover->is_roused);
    mover->is_roused = 0;
    pthread_mutex_unlock(&mover->mutex);
    ri_family_relock(mover->family);
}

/* It never spins: the cores are the callers', who compute meanwhile. */
static void *serve(void *context)
{
    struct ri_mover *mover = context;
    struct ri_family *family = mover->family;
    int64_t sleeps = 0;

    ri_log_rank(mover->rank);
    ri_family_relock(family);
    while (!mover->is_ending) {
        enum ri_advance what = RI_ADVANCE_NONE;

        if (!ri_family_has_waiters(family))
            what = ri_family_advance(family, 0);
        if (what == RI_ADVANCE_IDLE && ri_comm_sleep(family, sleeps)) {
            sleeps++;
            continue;
        }
        sleeps = 0;
        if (what == RI_ADVANCE_NONE)
            rest(mover);
        else
            ri_family_hand_over(family);
    }
    ri_family_unlock(family);
    return NULL;
}

/* Signals are for the program's own threads. */
static int start(struct ri_mover *mover)
{
    sigset_t all, before;
    int fault;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    fault = pthread_create(&mover->thread, NULL, serve, mover);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return fault;
}

static void release(struct ri_mover *mover)
{
    pthread_cond_destroy(&mover->roused);
    pthread_mutex_destroy(&mover->mutex);
    free(mover);
}

int ri_mover_create(struct ri_family *family, int rank, struct ri_mover **mover_p)
{
    struct ri_mover *mover = calloc(1, sizeof(*mover));
    int fault;

    if (!mover)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a progress thread");
    mover->family = family;
    mover->rank = rank;
    pthread_mutex_init(&mover->mutex, NULL);
    pthread_cond_init(&mover->roused, NULL);
    fault = start(mover);
    if (fault) {
        release(mover);
        return ri_error(RONDO_ERR_SYSTEM, "RONDO_PROGRESS=thread: no thread can be made: %s; go on with caller",
                        strerror(fault));
    }
    *mover_p = mover;
    return 0;
}

void ri_mover_destroy(struct ri_mover *mover)
{
    if (!mover)
        return;
    ri_family_relock(mover->family);
    mover->is_ending = 1;
    ri_family_wake(mover->family);
    ri_mover_rouse(mover);
    ri_family_unlock(mover->family);
    pthread_join(mover->thread, NULL);
    release(mover);
}

void ri_mover_rouse(struct ri_mover *mover)
{
    pthread_mutex_lock(&mover->mutex);
    mover->is_roused = 1;
    pthread_cond_signal(&mover->roused);
    pthread_mutex_unlock(&mover->mutex);
}

void ri_mover_calm(struct ri_mover *mover)
{
    pthread_mutex_lock(&mover->mutex);
    mover->is_roused = 0;
    pthread_mutex_unlock(&mover->mutex);
}
