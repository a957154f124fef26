/* SPDX-License-Identifier: Apache-2.0 */
#include "api/request.h"

#include <time.h>

#include "api/verify.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"

#define LEFT_AFTER_NS ((int64_t)2000000000)
#define UNSEEN_NS ((int64_t)1000000000) /* from one look of a wait to the next: it did not get to look */

int ri_request_check(const struct rondo_request *request, struct rondo_comm *comm, const char *what)
{
    if (comm->failed)
        return ri_error(comm->failed, "%s refused: the communicator has failed: %s", what,
                        comm->failure);
    if (request && request->active)
        return ri_error(RONDO_ERR_BUSY, "%s refused: the %s before it is still active; wait for its "
                        "request first", what, request->what);
    return 0;
}

static int advance(struct ri_family *family, int computes);

static void unlink_request(struct rondo_request *request)
{
    struct rondo_request **at = &request->comm->active;

    while (*at && *at != request)
        at = &(*at)->next;
    if (*at)
        *at = request->next;
    request->next = NULL;
    request->active = 0;
    ri_verify_destroy(request->verify);
    request->verify = NULL;
    if (request->taken)
        request->taken(request->owner);
}

/* Ends a run that others may read.  They have been told, and begin nothing more; who is inside a kernel
 * ends it first, and meanwhile our other threads have the lock. */
static void stop(struct rondo_comm *comm, struct ri_engine *engine)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    int64_t deadline_ns = ri_now_ns() + RI_ENGINE_READERS_NS;

    while (!ri_engine_stop(engine, deadline_ns)) {
        ri_family_unlock(comm->family);
        nanosleep(&pause, NULL);
        ri_family_relock(comm->family);
    }
}

int ri_request_begin(struct rondo_request *request, struct rondo_comm *comm, struct ri_engine *engine,
                     const char *what, uint64_t *completed, int status, rondo_request_t *handle)
{
    struct rondo_request **last;

    if (status) {
        status = ri_comm_fail(comm, status);
        stop(comm, engine);
        return status;
    }
    request->comm = comm;
    request->engine = engine;
    request->what = what;
    request->completed = completed;
    request->state = 0;
    request->active = 1;
    for (last = &comm->active; *last;)
        last = &(*last)->next;
    request->next = NULL;
    *last = request;
    comm->idle_since_ns = 0;
    ri_family_set_advance(comm->family, advance);
    ri_family_rouse(comm->family);
    *handle = request;
    return 0;
}

/* Others may wait for what this request would have sent, so they are told. */
void ri_request_cancel(struct rondo_request *request)
{
    if (!request->active)
        return;
    if (request->state == 0)
        ri_comm_fail(request->comm, ri_error(RONDO_ERR_PEER, "rank %d destroyed a %s that was under way",
                                             request->comm->rank, request->what));
    stop(request->comm, request->engine);
    unlink_request(request);
}

/* Moves every request of the communicator that is under way.  Where it computes, one of them calls its kernel,
 * the first that can: taken in turn, all would end late.  idle: none could do anything. */
static void advance_all(struct rondo_comm *comm, int computes, int *idle)
{
    *idle = 1;
    for (struct rondo_request *r = comm->active; r; r = r->next) {
        int nothing = 1, calls_kernel = computes;

        if (r->state != 0)
            continue;
        r->state = ri_engine_progress(r->engine, &calls_kernel, &nothing);
        computes = computes && !calls_kernel;
        if (r->state == 1 && r->ended)
            r->ended(r->owner);
        if (r->state == 1 && ri_verify_compare(r->verify))
            r->state = RONDO_ERR_VERIFY;
        if (r->state == 1 && r->completed)
            (*r->completed)++;
        if (r->state < 0)
            ri_comm_fail(comm, r->state);
        *idle = *idle && nothing && r->state == 0;
    }
}

/* Fails when a request waits for a rank that has left in good order: it will never send.  What it sent
 * before may still be on its way, so that takes a while of idleness. */
static void look_who_left(struct rondo_comm *comm)
{
    if (comm->failed || ri_now_ns() - comm->idle_since_ns < LEFT_AFTER_NS)
        return;
    for (struct rondo_request *r = comm->active; r; r = r->next) {
        char where[160];
        int peer;

        if (r->state != 0)
            continue;
        ri_engine_where(r->engine, where, sizeof(where), &peer);
        if (peer < 0 || !ri_comm_has_left(comm, peer))
            continue;
        ri_comm_fail(comm, ri_error(RONDO_ERR_PEER, "rank %d has left, and rank %d waits in %s", peer,
                                    comm->rank, where));
        return;
    }
}

/* Moves what can be moved of one communicator.  Returns whether nothing could be done. */
static int attend_one(struct rondo_comm *comm, int computes)
{
    int idle;

    if (comm->failed)
        return 1;
    advance_all(comm, computes, &idle);
    if (!idle) {
        comm->idle_since_ns = 0;
        return 0;
    }
    if (comm->idle_since_ns == 0)
        comm->idle_since_ns = ri_now_ns();
    if (ri_comm_progress(comm) > 0)
        return 0;
    look_who_left(comm);
    return 1;
}

/* One round of everything: all communicators of the family.  Returns whether nothing could be done. */
static int attend(struct ri_family *family, int computes)
{
    int idle = 1;

    for (struct rondo_comm *comm = ri_family_first(family); comm; comm = comm->sibling)
        idle &= attend_one(comm, computes);
    if (idle)
        ri_family_see_off(family);
    else
        ri_family_wake(family);
    return idle;
}

/* For those who know no requests: agreements that wait, and the family's own thread. */
static int advance(struct ri_family *family, int computes)
{
    return !attend(family, computes);
}

int ri_request_poll(void *poller)
{
    struct rondo_comm *comm = poller;

    attend(comm->family, 0);
    return comm->failed;
}

/* Takes the request out of the caller's hands; says how it ended. */
static int end(rondo_request_t *handle)
{
    struct rondo_request *request = *handle;
    struct rondo_comm *comm = request->comm;
    int state = request->state;

    *handle = NULL;
    if (state != 1)
        stop(comm, request->engine);
    unlink_request(request);
    if (state == 1)
        return 0;
    return ri_error(comm->failed ? comm->failed : state, "%s: %s", request->what, comm->failure);
}

static int give_up(rondo_request_t *handle, int timeout_ms)
{
    struct rondo_request *request = *handle;
    char where[160];
    int peer;

    ri_engine_where(request->engine, where, sizeof(where), &peer);
    ri_error(RONDO_ERR_TIMEOUT, "rank %d waited %d ms in %s", request->comm->rank, timeout_ms, where);
    ri_comm_fail(request->comm, RONDO_ERR_TIMEOUT);
    return end(handle);
}

rondo_status_t rondo_test(rondo_request_t *request, int *done)
{
    struct rondo_comm *comm;
    int err = 0;

    if (!request)
        return ri_error(RONDO_ERR_ARGUMENT, "request is NULL");
    if (!done)
        return ri_error(RONDO_ERR_ARGUMENT, "done is NULL");
    *done = !*request;
    if (!*request)
        return 0;
    comm = (*request)->comm;
    err = ri_comm_enter(comm);
    if (err)
        return err;
    attend(comm->family, 1);
    *done = (*request)->state != 0 || comm->failed;
    if (*done)
        err = end(request);
    return ri_comm_leave(comm, err);
}

/* A peer that hangs says nothing, and the end of the wait may be half an hour away: so the log names it.  Twice
 * for one wait; *quiet_ns is when. */
static void tell_waiting(const struct rondo_request *request, int64_t begin_ns, int64_t now_ns, int64_t *quiet_ns)
{
    const struct rondo_comm *comm = request->comm;
    int64_t first_ns = comm->config.warn_after_ms * 1000000;
    int64_t since_ns = comm->idle_since_ns > begin_ns ? comm->idle_since_ns : begin_ns;
    char where[160];
    int peer;

    if (!*quiet_ns || comm->idle_since_ns == 0 || now_ns - since_ns < *quiet_ns)
        return;
    *quiet_ns = *quiet_ns == first_ns ? 10 * first_ns : 0;
    ri_engine_where(request->engine, where, sizeof(where), &peer);
    ri_log(RI_LOG_WARN, "comm", "rank %d has waited %.1f s in %s", comm->rank, (double)(now_ns - since_ns) * 1e-9,
           where);
}

/* A process may be stopped, or its machine paused, for longer than a wait may last.  When it goes on, the others
 * have not had their time to come: perhaps they go on only now, too. */
static int wait_until(rondo_request_t *request, int timeout_ms)
{
    struct rondo_comm *comm = (*request)->comm;
    int64_t begin_ns = ri_now_ns(), deadline_ns = begin_ns + (int64_t)timeout_ms * 1000000;
    int64_t quiet_ns = comm->config.warn_after_ms * 1000000, looked_ns = begin_ns;

    for (struct ri_idle idle = { 0 };;) {
        int nothing = attend(comm->family, 1);
        int64_t now_ns = ri_now_ns();

        if ((*request)->state != 0 || comm->failed)
            return end(request);
        if (now_ns - looked_ns > UNSEEN_NS) {
            deadline_ns += now_ns - looked_ns;
            begin_ns = now_ns;
        }
        looked_ns = now_ns;
        if (now_ns >= deadline_ns)
            return give_up(request, timeout_ms);
        tell_waiting(*request, begin_ns, now_ns, &quiet_ns);
        if (nothing) {
            ri_comm_idle(comm, &idle);
        } else {
            idle = (struct ri_idle){ 0 };
            ri_family_hand_over(comm->family);
        }
    }
}

rondo_status_t rondo_wait(rondo_request_t *request, int timeout_ms)
{
    struct rondo_comm *comm;
    int err;

    if (!request)
        return ri_error(RONDO_ERR_ARGUMENT, "request is NULL");
    if (timeout_ms < -1)
        return ri_error(RONDO_ERR_ARGUMENT, "timeout_ms is %d; use -1 or more", timeout_ms);
    if (!*request)
        return 0;
    comm = (*request)->comm;
    if (timeout_ms == -1)
        timeout_ms = (int)comm->config.timeout_ms;
    err = ri_comm_enter(comm);
    if (err)
        return err;
    ri_family_wait_begin(comm->family);
    err = wait_until(request, timeout_ms);
    ri_family_wait_end(comm->family);
    return ri_comm_leave(comm, err);
}

rondo_status_t rondo_comm_progress(rondo_comm_t comm)
{
    int err;

    if (!comm)
        return ri_error(RONDO_ERR_ARGUMENT, "comm is NULL");
    err = ri_comm_enter(comm);
    if (err)
        return err;
    attend(comm->family, 1);
    return ri_comm_leave(comm, comm->failed ? ri_error(comm->failed, "%s", comm->failure) : 0);
}
