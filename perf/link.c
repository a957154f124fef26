/* SPDX-License-Identifier: Apache-2.0 */
#include "link.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/comm.h"

#define CLOCK_EVERY 1024 /* idle rounds between two looks at the clock */
#define SLEEP_MS 100
#define YIELDS 32 /* before a sleep, as the library yields first: who has just sent is not woken for that */

/* No plan is made by programs that use links, so half of the tags is free. */
#define FIRST_TAG (RI_TAG_END / 2)

void perf_link_init(struct perf_link *link, rondo_comm_t comm)
{
    *link = (struct perf_link){.comm = comm, .transport = comm->transport,
                               .ops = comm->transport->ops};
}

int perf_link_reserve(struct perf_link *link, int messages)
{
    int err = ri_comm_enter(link->comm);

    if (err)
        return err;
    if (link->ops->reserve)
        err = link->ops->reserve(link->transport, messages);
    return ri_comm_leave(link->comm, err);
}

int perf_link_begin(struct perf_link *link)
{
    return ri_comm_enter(link->comm);
}

void perf_link_end(struct perf_link *link)
{
    ri_comm_leave(link->comm, 0);
}

int perf_link_is_near(const struct perf_link *link, int peer)
{
    return link->comm->host[peer] == link->comm->host[link->comm->rank];
}

int perf_link_binds(const struct perf_link *link, int peer)
{
    return link->ops->readers && perf_link_is_near(link, peer);
}

int perf_link_sleeps(const struct perf_link *link)
{
    return link->ops->event_fd(link->transport) >= 0;
}

const char *perf_link_way(const struct perf_link *link, int peer)
{
    return link->ops->way ? link->ops->way(link->transport, peer) : link->ops->name;
}

void *perf_link_alloc(struct perf_link *link, size_t bytes)
{
    void *memory = NULL;

    if (!link->ops->alloc) {
        memory = malloc(bytes ? bytes : 1);
    } else if (ri_comm_enter(link->comm) == 0) {
        if (link->ops->alloc(link->transport, bytes ? bytes : 1, &memory))
            memory = NULL;
        ri_comm_leave(link->comm, 0);
    }
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

void perf_link_free(struct perf_link *link, void *memory)
{
    if (!link->ops->alloc) {
        free(memory);
    } else if (memory && ri_comm_enter(link->comm) == 0) {
        link->ops->free(link->transport, memory);
        ri_comm_leave(link->comm, 0);
    }
}

struct ri_xfer perf_link_message(const struct perf_link *link, int peer, uint64_t n, void *base,
                                 size_t bytes)
{
    struct ri_xfer xfer = {.tag = FIRST_TAG + n % FIRST_TAG,
                           .base = base,
                           .rows = bytes > 0,
                           .row_bytes = bytes,
                           .row_stride = bytes,
                           .peer = peer};

    xfer.lane = perf_link_is_near(link, peer) ? RI_TRANSPORT_LOCAL : RI_TRANSPORT_HOST;
    return xfer;
}

int perf_link_post(struct perf_link *link, struct ri_xfer *xfer)
{
    return link->ops->post(link->transport, &xfer, 1);
}

/* Nothing could be done, for the rounds-th time in a row. */
static int idle(struct perf_link *link, int rounds, enum perf_how how, int64_t *deadline_ns)
{
    struct pollfd event = {.events = POLLIN};
    int armed;

    if (rounds % CLOCK_EVERY == 0 || how == PERF_ASLEEP) {
        if (*deadline_ns == 0)
            *deadline_ns = ri_now_ns() + link->comm->config.timeout_ms * 1000000;
        if (ri_now_ns() > *deadline_ns)
            return ri_error(RONDO_ERR_TIMEOUT, "no message came for %lld ms; --timeout sets it",
                            (long long)link->comm->config.timeout_ms);
    }
    if (how == PERF_AWAKE || rounds <= link->comm->config.spin + YIELDS) {
        if (rounds > link->comm->config.spin)
            sched_yield();
        return 0;
    }
    armed = link->ops->arm(link->transport);
    if (armed <= 0)
        return armed;
    event.fd = link->ops->event_fd(link->transport);
    poll(&event, 1, SLEEP_MS);
    return 0;
}

/* One round of a wait. */
static int turn(struct perf_link *link, int *rounds, enum perf_how how, int64_t *deadline_ns)
{
    int moved = ri_comm_progress(link->comm);

    if (moved < 0)
        return moved;
    *rounds = moved ? 0 : *rounds + 1;
    return moved ? 0 : idle(link, *rounds, how, deadline_ns);
}

int perf_link_wait(struct perf_link *link, const struct ri_xfer *xfer, enum perf_how how)
{
    int64_t deadline_ns = 0;
    int rounds = 0, err = 0;

    while (!err && xfer->state == RI_XFER_POSTED)
        err = turn(link, &rounds, how, &deadline_ns);
    if (err)
        return err;
    return xfer->state == RI_XFER_FAILED ? ri_error(xfer->status, "%s", xfer->why) : 0;
}

int perf_link_wait_readers(struct perf_link *link, struct ri_xfer *send, enum perf_how how)
{
    int64_t deadline_ns = 0;
    int rounds = 0, err = 0;

    while (!err && link->ops->readers(link->transport, send) > 0)
        err = turn(link, &rounds, how, &deadline_ns);
    return err;
}
