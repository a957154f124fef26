/* SPDX-License-Identifier: Apache-2.0 */
/* All ranks in one process: a thread each, or one thread that calls each rank in turn.  A message is
 * copied once both ends are posted, by its receiver, or bound: then the receiver reads where the
 * content lies.  Links can be modelled (self_model.h). */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/analyzer.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/status.h"
#include "transport/self_world.h"
#include "transport/xfer.h"

static struct ri_self *self_of(struct ri_transport *transport)
{
    return (struct ri_self *)transport;
}

static int make_fds(struct ri_self *self)
{
    struct epoll_event event = { .events = EPOLLIN };

    self->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    self->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    self->sleep_fd = epoll_create1(EPOLL_CLOEXEC);
    if (self->wake_fd < 0 || self->timer_fd < 0 || self->sleep_fd < 0 ||
        epoll_ctl(self->sleep_fd, EPOLL_CTL_ADD, self->wake_fd, &event) ||
        epoll_ctl(self->sleep_fd, EPOLL_CTL_ADD, self->timer_fd, &event))
        return ri_error(RONDO_ERR_TRANSPORT, "transport self has no event descriptor: %m");
    return 0;
}

static void self_close(struct ri_transport *transport);

/* It takes a rank closed by its base for a lost one. */
RI_ANALYZER_IGNORE("-Wanalyzer-malloc-leak")
static int self_open(const struct ri_transport_params *params, struct ri_transport **transport,
                     const void **address, size_t *address_bytes)
{
    struct ri_self *self = calloc(1, sizeof(*self));
    int err;

    if (!self)
        return ri_error(RONDO_ERR_MEMORY, "no memory for transport self");
    self->base.ops = &ri_transport_self;
    self->base.rank = params->rank;
    self->base.ranks = params->ranks;
    self->base.message_bytes = sizeof(struct ri_self_message);
    self->posted_end = &self->posted;
    self->wake_fd = self->timer_fd = self->sleep_fd = -1;
    err = make_fds(self);
    if (err)
        goto close;
    err = RONDO_ERR_MEMORY;
    self->world = ri_self_world_join(params);
    if (!self->world) {
        ri_error(err, "no memory for %d ranks", params->ranks);
        goto close;
    }
    err = ri_self_world_enter(self->world, self);
    if (err)
        goto close;
    *transport = &self->base;
    *address = &self->base.rank;
    *address_bytes = sizeof(self->base.rank);
    return 0;

close:
    self_close(&self->base);
    return err;
}
RI_ANALYZER_RESUME

/* Addresses are exchanged after open, so whoever is absent now lives in another process. */
static int self_connect(struct ri_transport *transport, const void *const *addresses,
                        const size_t *address_bytes, int64_t deadline_ns)
{
    struct ri_self_world *world = self_of(transport)->world;
    int err = 0;

    (void)addresses, (void)address_bytes, (void)deadline_ns;
    pthread_mutex_lock(&world->lock);
    for (int r = 0; r < world->ranks && !err; r++)
        if (world->members[r].presence == ABSENT)
            err = ri_error(RONDO_ERR_TRANSPORT,
                           "rank %d is not in the process of rank %d, as transport self needs", r,
                           transport->rank);
    pthread_mutex_unlock(&world->lock);
    return err;
}

static int self_post(struct ri_transport *transport, struct ri_xfer *const *xfers, int n)
{
    struct ri_self *self = self_of(transport);
    int err = ri_xfer_check(transport, xfers, n);

    if (err)
        return err;
    pthread_mutex_lock(&self->world->lock);
    err = ri_self_check_bound(self, xfers, n);
    if (!err)
        err = ri_self_provide(self->world, n);
    for (int i = 0; i < n && !err; i++)
        ri_self_post_end(self, xfers[i]);
    pthread_mutex_unlock(&self->world->lock);
    return err;
}

static int self_progress(struct ri_transport *transport)
{
    struct ri_self *self = self_of(transport);
    struct ri_xfer **link = &self->posted;
    int64_t now_ns = ri_now_ns();
    int events = atomic_exchange(&self->let_go, 0);

    if (!self->posted)
        return events;
    pthread_mutex_lock(&self->world->lock);
    ri_self_serve_links(self->world, now_ns);
    while (*link) {
        struct ri_xfer *xfer = *link, *next = xfer->next;

        struct ri_self_message *message = xfer->handle;

        if (ri_self_ready(xfer, now_ns) && message->stage == MATCHED) {
            ri_self_copy(self->world, message);
            events++;
        }
        if (ri_self_ready(xfer, now_ns)) {
            ri_self_finish(self, xfer);
            *link = next;
            events++;
        } else {
            link = &xfer->next;
        }
    }
    self->posted_end = link;
    pthread_mutex_unlock(&self->world->lock);
    return events;
}

static int self_event_fd(struct ri_transport *transport)
{
    return self_of(transport)->sleep_fd;
}

static int self_arm(struct ri_transport *transport)
{
    struct ri_self *self = self_of(transport);
    struct itimerspec timer = { 0 };
    int64_t due_ns = INT64_MAX;
    eventfd_t wakes;
    int work;

    pthread_mutex_lock(&self->world->lock);
    eventfd_read(self->wake_fd, &wakes);
    work = atomic_load(&self->let_go);
    for (struct ri_xfer *xfer = self->posted; xfer && !work; xfer = xfer->next) {
        const struct ri_self_message *message = xfer->handle;

        work = ri_self_ready(xfer, ri_now_ns());
        if (message->stage == SETTLED && ri_self_look_ns(self->world, message) < due_ns)
            due_ns = ri_self_look_ns(self->world, message);
    }
    self->armed = !work;
    pthread_mutex_unlock(&self->world->lock);
    if (work)
        return 0;
    if (due_ns != INT64_MAX) {
        timer.it_value.tv_sec = due_ns / 1000000000;
        timer.it_value.tv_nsec = due_ns % 1000000000;
    }
    timerfd_settime(self->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL);
    return 1;
}

static int self_reserve(struct ri_transport *transport, int messages)
{
    struct ri_self_world *world = self_of(transport)->world;
    int err;

    pthread_mutex_lock(&world->lock);
    err = ri_self_reserve(world, messages);
    pthread_mutex_unlock(&world->lock);
    return err;
}

static void self_cancel(struct ri_transport *transport, struct ri_xfer *const *xfers, int n)
{
    struct ri_self *self = self_of(transport);
    struct ri_xfer **link = &self->posted;

    pthread_mutex_lock(&self->world->lock);
    for (int i = 0; i < n; i++)
        if (xfers[i]->state == RI_XFER_POSTED)
            ri_self_give_up(self, xfers[i]);
    while (*link)
        if ((*link)->state == RI_XFER_POSTED)
            link = &(*link)->next;
        else
            *link = (*link)->next;
    self->posted_end = link;
    pthread_mutex_unlock(&self->world->lock);
}

static int self_readers(struct ri_transport *transport, struct ri_xfer *send)
{
    struct ri_self_world *world = self_of(transport)->world;
    int readers;

    if (!send->bind || !send->handle)
        return 0;
    pthread_mutex_lock(&world->lock);
    readers = ri_self_readers(world, send);
    pthread_mutex_unlock(&world->lock);
    return readers;
}

static void self_release(struct ri_transport *transport, struct ri_xfer *receive)
{
    struct ri_self_world *world = self_of(transport)->world;

    pthread_mutex_lock(&world->lock);
    ri_self_release(world, receive->reference.counter);
    pthread_mutex_unlock(&world->lock);
    receive->reference.counter = NULL;
}

static int revoked_error(const struct ri_transport *transport, const struct ri_reference *reference)
{
    return ri_error(RONDO_ERR_PEER, "rank %d has given up its run, and taken back what rank %d read in its "
                    "memory", reference->holder, transport->rank);
}

static int self_enter(struct ri_transport *transport, const struct ri_reference *reference)
{
    struct ri_self_world *world = self_of(transport)->world;
    int entered;

    pthread_mutex_lock(&world->lock);
    entered = ri_self_enter(reference->counter);
    pthread_mutex_unlock(&world->lock);
    return entered ? 0 : revoked_error(transport, reference);
}

static int self_leave(struct ri_transport *transport, const struct ri_reference *reference)
{
    struct ri_self_world *world = self_of(transport)->world;
    int good;

    pthread_mutex_lock(&world->lock);
    good = ri_self_leave(world, reference->counter);
    pthread_mutex_unlock(&world->lock);
    return good ? 0 : revoked_error(transport, reference);
}

static void self_revoke(struct ri_transport *transport, struct ri_xfer *send)
{
    struct ri_self_world *world = self_of(transport)->world;

    if (!send->bind || !send->handle)
        return;
    pthread_mutex_lock(&world->lock);
    ((struct ri_self_message *)send->handle)->revoked = 1;
    pthread_mutex_unlock(&world->lock);
}

static void self_close(struct ri_transport *transport)
{
    struct ri_self *self = self_of(transport);
    struct ri_self_world *world = self ? self->world : NULL;

    if (!self)
        return;
    while (self->posted)
        self_cancel(transport, &self->posted, 1);
    if (world && world->members[transport->rank].rank == self)
        ri_self_world_exit(world, transport->rank);
    if (world)
        ri_self_world_leave(world);
    if (self->wake_fd >= 0)
        close(self->wake_fd);
    if (self->timer_fd >= 0)
        close(self->timer_fd);
    if (self->sleep_fd >= 0)
        close(self->sleep_fd);
    free(self);
}

const struct ri_transport_ops ri_transport_self = {
    .name = "self",
    .open = self_open,
    .connect = self_connect,
    .post = self_post,
    .progress = self_progress,
    .event_fd = self_event_fd,
    .arm = self_arm,
    .reserve = self_reserve,
    .cancel = self_cancel,
    .readers = self_readers,
    .release = self_release,
    .enter = self_enter,
    .leave = self_leave,
    .revoke = self_revoke,
    .close = self_close,
};
