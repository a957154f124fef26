/* SPDX-License-Identifier: Apache-2.0 */
/* How a rank waits: it moves messages, looks now and then whether its peers live, and gives the core
 * to others when there is nothing to do. */
#include <poll.h>
#include <sched.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "comm/bootstrap.h"
#include "comm/comm.h"

#define LOOK_EVERY_NS 50000000
#define SLEEP_MAX_NS 20000000   /* with descriptors that wake us */
#define SLEEP_BLIND_NS 1000000  /* with a transport that has none */
#define AWAKE_NS 50000          /* idle for so long, it sleeps: where ranks share cores, so do all others */
#define CULPRIT_NS 1000000000   /* how long a death may need to show on the control connection */

static int64_t spins(const struct rondo_comm *comm)
{
    return comm->config.spin + (comm->config.yield > 0 ? comm->config.yield : 0);
}

static int look_at_peers(struct rondo_comm *comm)
{
    int64_t now_ns = ri_now_ns();
    int err;

    if (now_ns < comm->next_look_ns)
        return 0;
    comm->next_look_ns = now_ns + LOOK_EVERY_NS;
    err = ri_bootstrap_poll(comm->bootstrap);
    return err ? ri_comm_fail(comm, err) : 0;
}

int ri_comm_progress(struct rondo_comm *comm)
{
    int moved;

    if (comm->failed)
        return ri_error(comm->failed, "%s", comm->failure);
    moved = comm->transport->ops->progress(comm->transport);
    if (moved < 0)
        return ri_comm_fail(comm, moved);
    return moved || !comm->bootstrap ? moved : look_at_peers(comm);
}

int ri_comm_has_left(const struct rondo_comm *comm, int rank)
{
    return comm->bootstrap && rank >= 0 && rank < comm->size && comm->bootstrap->left[rank];
}

/* 50 us, doubled with every sleep in a row. */
static int64_t sleep_ns(int64_t sleeps, int64_t most_ns)
{
    int64_t ns = 50000;

    while (sleeps-- > 0 && ns < most_ns)
        ns *= 2;
    return ns < most_ns ? ns : most_ns;
}

/* Readies all transports of the family for a sleep.  0: one has work; 1: go; 2: one cannot wake us. */
static int arm_all(struct ri_family *family)
{
    int ready = 1;

    for (struct rondo_comm *comm = ri_family_first(family); comm; comm = comm->sibling) {
        struct ri_transport *transport = comm->transport;
        int armed = 1;

        if (comm->failed)
            continue;
        if (transport->ops->event_fd(transport) < 0)
            ready = 2;
        else
            armed = transport->ops->arm(transport);
        if (armed < 0)
            ri_comm_fail(comm, armed);
        if (armed <= 0)
            return 0;
    }
    return ready;
}

int ri_comm_sleep(struct ri_family *family, int64_t sleeps)
{
    int ready = arm_all(family);

    if (!ready)
        return 0;
    if (!ri_family_sleep(family, sleep_ns(sleeps, ready == 1 ? SLEEP_MAX_NS : SLEEP_BLIND_NS)))
        return 1;
    for (struct rondo_comm *comm = ri_family_first(family); comm; comm = comm->sibling) {
        comm->next_look_ns = 0;
        if (!comm->failed && comm->bootstrap)
            look_at_peers(comm);
    }
    return 1;
}

static void yield(struct ri_family *family)
{
    ri_family_unlock(family);
    sched_yield();
    ri_family_relock(family);
}

/* Whether a yield comes before the next sleep. */
static int stays_awake(const struct rondo_comm *comm, const struct ri_idle *idle)
{
    if (comm->config.yield < 0)
        return 1;
    return !idle->sleeps && idle->rounds < spins(comm) && ri_now_ns() - idle->since_ns < AWAKE_NS;
}

int ri_comm_idle(struct rondo_comm *comm, struct ri_idle *idle)
{
    if (comm->failed)
        return ri_error(comm->failed, "%s", comm->failure);
    if (idle->rounds == 0)
        idle->since_ns = ri_now_ns();
    if (!idle->sleeps && idle->rounds < comm->config.spin) {
        ri_family_hand_over(comm->family);
    } else if (!stays_awake(comm, idle) && ri_comm_sleep(comm->family, idle->sleeps)) {
        idle->sleeps++;
    } else {
        yield(comm->family);
    }
    idle->rounds++;
    return comm->failed ? ri_error(comm->failed, "%s", comm->failure) : 0;
}

/* A transport often notices a death first, but the control connection knows whose it is. */
static int ask_for_culprit(struct rondo_comm *comm, int status)
{
    int64_t deadline_ns = ri_now_ns() + CULPRIT_NS, left_ns = CULPRIT_NS;
    struct pollfd control;
    int err;

    if (!comm->bootstrap || (status != RONDO_ERR_TRANSPORT && status != RONDO_ERR_PEER))
        return status;
    err = ri_bootstrap_poll(comm->bootstrap);
    control = (struct pollfd){ ri_bootstrap_fd(comm->bootstrap), POLLIN, 0 };
    while (!err && left_ns > 0) { /* that a rank left, say, is no reason */
        poll(&control, 1, (int)(left_ns / 1000000) + 1);
        err = ri_bootstrap_poll(comm->bootstrap);
        left_ns = deadline_ns - ri_now_ns();
    }
    return err ? err : status;
}

int ri_comm_fail(struct rondo_comm *comm, int status)
{
    int culprit, is_told;

    if (comm->failed)
        return ri_error(comm->failed, "%s", comm->failure);
    comm->failed = status;
    snprintf(comm->failure, sizeof(comm->failure), "%s", rondo_last_error());
    culprit = ask_for_culprit(comm, status);
    if (culprit != status || culprit == RONDO_ERR_PEER) {
        comm->failed = culprit;
        snprintf(comm->failure, sizeof(comm->failure), "%s", rondo_last_error());
    }
    /* One line at error for one failure, from whoever found it. */
    is_told = comm->bootstrap && comm->bootstrap->is_told;
    ri_log(is_told ? RI_LOG_INFO : RI_LOG_ERROR, "comm", "the communicator has failed: %s", comm->failure);
    ri_bootstrap_abort(comm->bootstrap, comm->failure);
    ri_family_unwatch(comm->family, comm);
    ri_family_wake(comm->family);
    return ri_error(comm->failed, "%s", comm->failure);
}

int ri_comm_give_up(struct rondo_comm *comm, int status)
{
    if (ri_comm_enter(comm))
        return status;
    return ri_comm_leave(comm, ri_comm_fail(comm, status));
}
