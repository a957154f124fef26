/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/family.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/workers.h"
#include "comm/bootstrap.h"
#include "comm/comm.h"
#include "comm/mover.h"

#define SEE_OFF_EVERY_NS 50000000
#define SEE_OFF_MS 5 /* a turn of one of several that leave */

enum { NEWS_WAKE, NEWS_CONTROL, NEWS_TRANSPORT };

struct ri_family {
    pthread_mutex_t mutex; /* of the next four, of woken, and of talks */
    pthread_cond_t changed;
    uint64_t next_ticket, serving; /* a ticket is a place in the queue for the lock */
    int is_held, references;
    pthread_t owner;
    struct rondo_comm *comms;
    struct ri_bootstrap *leaving;  /* by next_leaving; no communicator holds them */
    int64_t see_off_ns;            /* when to look at those again */
    int sleepers;
    int woken;                     /* those of them who have been woken, and have not had their turn since */
    int wake_fd;                   /* readable while there are such */
    int epoll_fd;                  /* of all news: data is NEWS_* */
    ri_advance_fn advance;
    struct ri_mover *mover;        /* NULL: none */
    int waiters;                   /* threads that move all there is until a request is done */
};

/* ---- making ---- */

static void release(struct ri_family *family)
{
    ri_mover_destroy(family->mover);
    if (family->epoll_fd >= 0)
        close(family->epoll_fd);
    if (family->wake_fd >= 0)
        close(family->wake_fd);
    pthread_cond_destroy(&family->changed);
    pthread_mutex_destroy(&family->mutex);
    free(family);
}

static int watch(struct ri_family *family, int fd, uint64_t news)
{
    struct epoll_event event = { .events = EPOLLIN, .data = { .u64 = news } };

    if (fd >= 0 && epoll_ctl(family->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return ri_error(RONDO_ERR_SYSTEM, "cannot watch for news of a communicator: %s", strerror(errno));
    return 0;
}

/* By hand, before it is closed: a forked child may share the descriptor, and would keep it watched. */
static void unwatch(struct ri_family *family, int fd)
{
    if (fd >= 0)
        epoll_ctl(family->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

int ri_family_create(struct ri_family **family_p)
{
    struct ri_family *family = calloc(1, sizeof(*family));
    pthread_condattr_t attributes;
    int err;

    if (!family)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a communicator");
    pthread_mutex_init(&family->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&family->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    family->references = 1;
    family->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    family->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (family->epoll_fd < 0 || family->wake_fd < 0)
        err = ri_error(RONDO_ERR_SYSTEM, "no descriptor for a communicator: %s", strerror(errno));
    else
        err = watch(family, family->wake_fd, NEWS_WAKE);
    if (err)
        release(family);
    else
        *family_p = family;
    return err;
}

void ri_family_hold(struct ri_family *family)
{
    pthread_mutex_lock(&family->mutex);
    family->references++;
    pthread_mutex_unlock(&family->mutex);
}

/* ---- the lock ---- */

static void take_turn(struct ri_family *family)
{
    uint64_t ticket = family->next_ticket++;

    while (family->serving != ticket)
        pthread_cond_wait(&family->changed, &family->mutex);
    family->owner = pthread_self();
    family->is_held = 1;
}

static void end_turn(struct ri_family *family)
{
    family->is_held = 0;
    if (++family->serving != family->next_ticket)
        pthread_cond_broadcast(&family->changed);
}

int ri_family_lock(struct ri_family *family)
{
    int is_inside;

    pthread_mutex_lock(&family->mutex);
    is_inside = family->is_held && ri_workers_serve(family->owner);
    if (!is_inside)
        take_turn(family);
    pthread_mutex_unlock(&family->mutex);
    if (is_inside)
        return ri_error(RONDO_ERR_BUSY, "called from inside a kernel: call Rondo for this communicator after "
                        "the kernel has returned");
    return 0;
}

void ri_family_unlock(struct ri_family *family)
{
    pthread_mutex_lock(&family->mutex);
    end_turn(family);
    pthread_mutex_unlock(&family->mutex);
}

void ri_family_relock(struct ri_family *family)
{
    pthread_mutex_lock(&family->mutex);
    take_turn(family);
    pthread_mutex_unlock(&family->mutex);
}

void ri_family_hand_over(struct ri_family *family)
{
    pthread_mutex_lock(&family->mutex);
    if (family->next_ticket != family->serving + 1) {
        end_turn(family);
        take_turn(family);
    }
    pthread_mutex_unlock(&family->mutex);
}

/* ---- who belongs to it ---- */

static int control_fd(const struct rondo_comm *comm)
{
    return comm->bootstrap ? ri_bootstrap_fd(comm->bootstrap) : -1;
}

static int transport_fd(const struct rondo_comm *comm)
{
    return comm->transport ? comm->transport->ops->event_fd(comm->transport) : -1;
}

int ri_family_add(struct ri_family *family, struct rondo_comm *comm)
{
    int err = watch(family, control_fd(comm), NEWS_CONTROL);

    if (!err)
        err = watch(family, transport_fd(comm), NEWS_TRANSPORT);
    if (err)
        return err;
    comm->sibling = family->comms;
    family->comms = comm;
    return 0;
}

void ri_family_unwatch(struct ri_family *family, const struct rondo_comm *comm)
{
    unwatch(family, control_fd(comm));
    unwatch(family, transport_fd(comm));
}

void ri_family_remove(struct ri_family *family, struct rondo_comm *comm)
{
    struct rondo_comm **at = &family->comms;

    ri_family_unwatch(family, comm);
    while (*at && *at != comm)
        at = &(*at)->sibling;
    if (*at)
        *at = comm->sibling;
    comm->sibling = NULL;
}

struct rondo_comm *ri_family_first(const struct ri_family *family)
{
    return family->comms;
}

/* ---- who moves it ---- */

void ri_family_set_advance(struct ri_family *family, ri_advance_fn advance)
{
    family->advance = advance;
}

static int is_active(const struct ri_family *family)
{
    int active = 0;

    for (const struct rondo_comm *comm = family->comms; comm; comm = comm->sibling)
        active |= comm->active && !comm->failed;
    return active;
}

enum ri_advance ri_family_advance(struct ri_family *family, int computes)
{
    if (!is_active(family))
        return RI_ADVANCE_NONE;
    return family->advance(family, computes) ? RI_ADVANCE_MOVED : RI_ADVANCE_IDLE;
}

void ri_family_set_mover(struct ri_family *family, struct ri_mover *mover)
{
    family->mover = mover;
}

void ri_family_wait_begin(struct ri_family *family)
{
    family->waiters++;
    if (family->mover)
        ri_mover_calm(family->mover);
}

void ri_family_wait_end(struct ri_family *family)
{
    family->waiters--;
    ri_family_rouse(family);
}

int ri_family_has_waiters(const struct ri_family *family)
{
    return family->waiters > 0;
}

void ri_family_rouse(struct ri_family *family)
{
    if (family->mover && !family->waiters && is_active(family))
        ri_mover_rouse(family->mover);
}

/* ---- leaving ---- */

static void step_leaving(struct ri_family *family, int wait_ms)
{
    struct ri_bootstrap **at = &family->leaving;

    while (*at) {
        struct ri_bootstrap *b = *at;

        if (ri_bootstrap_stays(b, wait_ms)) {
            at = &b->next_leaving;
            continue;
        }
        *at = b->next_leaving;
        unwatch(family, ri_bootstrap_fd(b));
        ri_bootstrap_destroy(b);
    }
}

void ri_family_see_off(struct ri_family *family)
{
    int64_t now_ns = family->leaving ? ri_now_ns() : 0;

    if (!family->leaving || now_ns < family->see_off_ns)
        return;
    family->see_off_ns = now_ns + SEE_OFF_EVERY_NS;
    step_leaving(family, 0);
}

static int count_out(struct ri_family *family)
{
    int left;

    pthread_mutex_lock(&family->mutex);
    left = --family->references;
    pthread_mutex_unlock(&family->mutex);
    return left;
}

void ri_family_drop(struct ri_family *family, struct ri_bootstrap *bootstrap)
{
    int left;

    if (!family) {
        ri_bootstrap_destroy(bootstrap);
        return;
    }
    ri_family_relock(family);
    if (bootstrap) {
        ri_bootstrap_leave(bootstrap);
        bootstrap->next_leaving = family->leaving;
        family->leaving = bootstrap;
        watch(family, ri_bootstrap_fd(bootstrap), NEWS_CONTROL); /* else it is seen a little later */
        step_leaving(family, 0);
    }
    left = count_out(family);
    while (left == 0 && family->leaving)
        step_leaving(family, SEE_OFF_MS);
    ri_family_unlock(family);
    if (left == 0)
        release(family);
}

/* ---- sleep ---- */

/* Who was woken and found nothing must not sleep on wake_fd before the others have seen it too: they
 * would keep each other awake. */
static void await_woken(struct ri_family *family, int64_t most_ns)
{
    int64_t until_ns = ri_now_ns() + most_ns;
    struct timespec until = { until_ns / 1000000000, until_ns % 1000000000 };
    int late = 0;

    pthread_mutex_lock(&family->mutex);
    end_turn(family);
    while (family->woken && !late)
        late = pthread_cond_timedwait(&family->changed, &family->mutex, &until) == ETIMEDOUT;
    take_turn(family);
    pthread_mutex_unlock(&family->mutex);
}

/* The lock is held.  Whoever it was that woke this thread, it counts as woken. */
static void wake_up(struct ri_family *family)
{
    eventfd_t wakes;

    pthread_mutex_lock(&family->mutex);
    family->sleepers--;
    if (family->woken && --family->woken == 0) {
        eventfd_read(family->wake_fd, &wakes);
        pthread_cond_broadcast(&family->changed);
    }
    pthread_mutex_unlock(&family->mutex);
}

int ri_family_sleep(struct ri_family *family, int64_t most_ns)
{
    struct timespec timeout = { most_ns / 1000000000, most_ns % 1000000000 };
    struct pollfd any = { family->epoll_fd, POLLIN, 0 };
    struct epoll_event events[8];
    int n = 0, control = 0;

    if (family->woken) {
        await_woken(family, most_ns);
        return 0;
    }
    family->sleepers++;
    ri_family_unlock(family);
    if (ppoll(&any, 1, &timeout, NULL) > 0)
        n = epoll_wait(family->epoll_fd, events, 8, 0);
    for (int i = 0; i < n; i++)
        control |= events[i].data.u64 == NEWS_CONTROL;
    ri_family_relock(family);
    wake_up(family);
    if (control)
        family->see_off_ns = 0;
    return control;
}

void ri_family_wake(struct ri_family *family)
{
    if (!family->sleepers)
        return;
    pthread_mutex_lock(&family->mutex);
    if (!family->woken)
        eventfd_write(family->wake_fd, 1);
    family->woken = family->sleepers;
    pthread_mutex_unlock(&family->mutex);
}

/* ---- conversations ---- */

int ri_family_talk_begin(struct rondo_comm *comm, const char *what, int64_t deadline_ns)
{
    struct ri_family *family = comm->family;
    struct timespec until = { deadline_ns / 1000000000, deadline_ns % 1000000000 };
    const char *other = NULL;
    int late = 0;

    pthread_mutex_lock(&family->mutex);
    while (comm->talk_depth && !pthread_equal(comm->talker, pthread_self()) && !late)
        late = pthread_cond_timedwait(&family->changed, &family->mutex, &until) == ETIMEDOUT;
    if (comm->talk_depth && !pthread_equal(comm->talker, pthread_self()))
        other = comm->talk;
    else if (!comm->talk_depth++)
        comm->talk = what;
    if (!other)
        comm->talker = pthread_self();
    pthread_mutex_unlock(&family->mutex);
    if (other)
        return ri_error(RONDO_ERR_TIMEOUT, "%s waited for another thread of rank %d, which is in %s", what,
                        comm->rank, other);
    return 0;
}

void ri_family_talk_end(struct rondo_comm *comm)
{
    pthread_mutex_lock(&comm->family->mutex);
    comm->talk_depth--;
    pthread_cond_broadcast(&comm->family->changed);
    pthread_mutex_unlock(&comm->family->mutex);
}
