/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of one host over shm, ranks of different hosts over ucx: every message goes to the one that
 * reaches its peer.  Rank to itself counts as one host. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/status.h"
#include "transport/xfer.h"

enum { NEAR, FAR, WAYS };

static const char *const way_names[WAYS] = { "shm", "ucx" };

/* A send to another host of what is read in place on this one: entered while the far way may read it. */
struct guarded {
    struct ri_xfer *xfer;
    struct ri_reference reference;
};

struct route {
    struct ri_transport base;
    struct ri_transport *way[WAYS];
    uint8_t *peers[WAYS];     /* [ranks] whom it reaches */
    char *address;            /* what the near way needs, after its length, then the far way's */
    int event_fd;             /* of both; -1: one has none */
    struct guarded *guarded;  /* [guarded_room], the first guarded_count are under way */
    int guarded_count, guarded_room, reserved;
};

static struct route *route_of(struct ri_transport *transport)
{
    return (struct route *)transport;
}

static struct ri_transport *way_to(const struct route *self, int peer)
{
    return self->way[self->peers[NEAR][peer] ? NEAR : FAR];
}

/* Its counters are those of its ways. */
static void count(struct route *self)
{
    for (int lane = 0; lane < RI_TRANSPORT_LANES; lane++) {
        self->base.sent_bytes[lane] = self->way[NEAR]->sent_bytes[lane] + self->way[FAR]->sent_bytes[lane];
        self->base.received_bytes[lane] =
            self->way[NEAR]->received_bytes[lane] + self->way[FAR]->received_bytes[lane];
    }
}

/* ---- making ---- */

static void route_close(struct ri_transport *transport)
{
    struct route *self = route_of(transport);

    if (!self)
        return;
    if (self->event_fd >= 0)
        close(self->event_fd);
    for (int w = 0; w < WAYS; w++) {
        if (self->way[w])
            self->way[w]->ops->close(self->way[w]);
        free(self->peers[w]);
    }
    free(self->guarded);
    free(self->address);
    free(self);
}

static int open_way(struct route *self, const struct ri_transport_params *params, int w,
                    const void **address, size_t *address_bytes)
{
    const struct ri_transport_ops *ops = ri_transport_find(way_names[w]);
    struct ri_transport_params own = *params;

    if (!ops)
        return ri_error(RONDO_ERR_UNSUPPORTED, "transport %s is not built in", way_names[w]);
    self->peers[w] = calloc((size_t)params->ranks, 1);
    if (!self->peers[w])
        return ri_error(RONDO_ERR_MEMORY, "no memory for %d ranks", params->ranks);
    for (int r = 0; r < params->ranks; r++)
        self->peers[w][r] = (params->host[r] == params->host[params->rank]) == (w == NEAR) &&
                            (!params->peers || params->peers[r]);
    own.peers = self->peers[w];
    return ops->open(&own, &self->way[w], address, address_bytes);
}

static int join_addresses(struct route *self, const void *const *parts, const size_t *bytes)
{
    self->address = malloc(sizeof(size_t) + bytes[NEAR] + bytes[FAR]);
    if (!self->address)
        return ri_error(RONDO_ERR_MEMORY, "no memory for an address");
    memcpy(self->address, &bytes[NEAR], sizeof(size_t));
    memcpy(self->address + sizeof(size_t), parts[NEAR], bytes[NEAR]);
    memcpy(self->address + sizeof(size_t) + bytes[NEAR], parts[FAR], bytes[FAR]);
    return 0;
}

/* One descriptor that is readable when one of the ways' is. */
static int join_events(struct route *self)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    if (epoll < 0)
        return -1;
    for (int w = 0; w < WAYS; w++) {
        struct epoll_event event = { .events = EPOLLIN };
        int fd = self->way[w]->ops->event_fd(self->way[w]);

        if (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
            close(epoll);
            return -1;
        }
    }
    return epoll;
}

static int route_open(const struct ri_transport_params *params, struct ri_transport **transport,
                      const void **address, size_t *address_bytes)
{
    struct route *self = calloc(1, sizeof(*self));
    const void *parts[WAYS] = { NULL, NULL };
    size_t bytes[WAYS] = { 0, 0 };
    int err = 0;

    if (!self)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a transport");
    self->base.ops = &ri_transport_route;
    self->base.rank = params->rank;
    self->base.ranks = params->ranks;
    self->event_fd = -1;
    for (int w = 0; w < WAYS && !err; w++)
        err = open_way(self, params, w, &parts[w], &bytes[w]);
    if (!err)
        err = join_addresses(self, parts, bytes);
    if (err) {
        route_close(&self->base);
        return err;
    }
    self->base.message_bytes = self->way[NEAR]->message_bytes + self->way[FAR]->message_bytes;
    self->event_fd = join_events(self);
    *transport = &self->base;
    *address = self->address;
    *address_bytes = sizeof(size_t) + bytes[NEAR] + bytes[FAR];
    return 0;
}

/* The parts of all ranks' addresses that way w needs. */
static int connect_way(struct route *self, int w, const void *const *addresses, const size_t *address_bytes,
                       int64_t deadline_ns)
{
    size_t ranks = (size_t)self->base.ranks;
    const void **parts = calloc(ranks, sizeof(*parts));
    size_t *bytes = calloc(ranks, sizeof(*bytes));
    int err = 0;

    if (!parts || !bytes)
        err = ri_error(RONDO_ERR_MEMORY, "no memory for %zu addresses", ranks);
    for (size_t r = 0; r < ranks && !err; r++) {
        const char *address = addresses[r];
        size_t near_bytes = 0;

        if (address_bytes[r] >= sizeof(size_t))
            memcpy(&near_bytes, address, sizeof(size_t));
        if (address_bytes[r] < sizeof(size_t) || near_bytes > address_bytes[r] - sizeof(size_t))
            err = ri_error(RONDO_ERR_TRANSPORT, "the address of rank %zu is damaged", r);
        parts[r] = address + sizeof(size_t) + (w == NEAR ? 0 : near_bytes);
        bytes[r] = w == NEAR ? near_bytes : address_bytes[r] - sizeof(size_t) - near_bytes;
    }
    if (!err)
        err = self->way[w]->ops->connect(self->way[w], parts, bytes, deadline_ns);
    free(parts);
    free(bytes);
    return err;
}

static int route_connect(struct ri_transport *transport, const void *const *addresses,
                         const size_t *address_bytes, int64_t deadline_ns)
{
    struct route *self = route_of(transport);
    int err = 0;

    for (int w = 0; w < WAYS && !err; w++)
        err = connect_way(self, w, addresses, address_bytes, deadline_ns);
    return err;
}

/* ---- messages ---- */

/* Room for n guarded sends. */
static int guards_grow(struct route *self, int n)
{
    struct guarded *grown;

    if (n <= self->guarded_room)
        return 0;
    grown = realloc(self->guarded, (size_t)n * sizeof(*grown));
    if (!grown)
        return ri_error(RONDO_ERR_MEMORY, "no memory for %d messages", n);
    self->guarded = grown;
    self->guarded_room = n;
    return 0;
}

static void unguard(struct route *self, int i)
{
    struct ri_transport *near = self->way[NEAR];
    struct ri_xfer *xfer = self->guarded[i].xfer;
    int err = near->ops->leave(near, &self->guarded[i].reference);

    if (err && xfer->state == RI_XFER_DONE)
        ri_xfer_failed(xfer, err); /* what has gone out may be of no content */
    self->guarded[i] = self->guarded[--self->guarded_count];
}

/* Those that have ended. */
static void unguard_ended(struct route *self)
{
    for (int i = self->guarded_count - 1; i >= 0; i--)
        if (self->guarded[i].xfer->state != RI_XFER_POSTED)
            unguard(self, i);
}

/* Posts one message the way it goes. */
static int post_one(struct route *self, struct ri_xfer *xfer)
{
    struct ri_transport *way = way_to(self, xfer->peer), *near = self->way[NEAR];
    int is_guarded = way != near && xfer->send && xfer->reference.counter, err;

    if (!is_guarded)
        return way->ops->post(way, &xfer, 1);
    err = guards_grow(self, self->guarded_count + 1);
    if (!err)
        err = near->ops->enter(near, &xfer->reference);
    if (err)
        return err;
    self->guarded[self->guarded_count++] = (struct guarded){ xfer, xfer->reference };
    err = way->ops->post(way, &xfer, 1);
    if (err)
        xfer->state = RI_XFER_IDLE;
    unguard_ended(self);
    return err;
}

static void route_cancel(struct ri_transport *transport, struct ri_xfer *const *xfers, int n)
{
    struct route *self = route_of(transport);

    for (int i = 0, end; i < n; i = end) { /* together, for a way may take its time once a call */
        struct ri_transport *way = way_to(self, xfers[i]->peer);

        for (end = i + 1; end < n && way_to(self, xfers[end]->peer) == way;)
            end++;
        way->ops->cancel(way, &xfers[i], end - i);
    }
    unguard_ended(route_of(transport));
    count(route_of(transport));
}

static int route_post(struct ri_transport *transport, struct ri_xfer *const *xfers, int n)
{
    struct route *self = route_of(transport);
    int err = ri_xfer_check(transport, xfers, n), posted = 0;

    while (!err && posted < n) {
        err = post_one(self, xfers[posted]);
        posted += !err;
    }
    if (err)
        route_cancel(transport, xfers, posted);
    count(self);
    return err;
}

static int route_progress(struct ri_transport *transport)
{
    struct route *self = route_of(transport);
    int moved = 0;

    for (int w = 0; w < WAYS; w++) {
        int one = self->way[w]->ops->progress(self->way[w]);

        if (one < 0)
            return one;
        moved = moved > INT_MAX - one ? INT_MAX : moved + one;
    }
    if (self->guarded_count)
        unguard_ended(self);
    if (moved)
        count(self);
    return moved;
}

/* Both are asked, so that both begin with what is left. */
static int route_settled(struct ri_transport *transport)
{
    int settled = 1;

    for (int w = 0; w < WAYS; w++) {
        struct ri_transport *way = route_of(transport)->way[w];

        if (way->ops->settled && !way->ops->settled(way))
            settled = 0;
    }
    return settled;
}

static int route_event_fd(struct ri_transport *transport)
{
    return route_of(transport)->event_fd;
}

static int route_arm(struct ri_transport *transport)
{
    struct route *self = route_of(transport);
    int armed = 1;

    for (int w = 0; w < WAYS && armed > 0; w++)
        armed = self->way[w]->ops->arm(self->way[w]);
    return armed;
}

static int route_reserve(struct ri_transport *transport, int messages)
{
    struct route *self = route_of(transport);
    int err = guards_grow(self, self->reserved + messages), w;

    for (w = 0; w < WAYS && !err; w++)
        if (self->way[w]->ops->reserve)
            err = self->way[w]->ops->reserve(self->way[w], messages);
    if (err && w == WAYS && self->way[NEAR]->ops->reserve)
        self->way[NEAR]->ops->reserve(self->way[NEAR], -messages);
    self->reserved += err ? 0 : messages;
    return err;
}

/* ---- memory, and what is read in place: the near way's ---- */

static int route_alloc(struct ri_transport *transport, size_t bytes, void **memory)
{
    struct ri_transport *way = route_of(transport)->way[NEAR];

    return way->ops->alloc(way, bytes, memory);
}

static void route_free(struct ri_transport *transport, void *memory)
{
    struct ri_transport *way = route_of(transport)->way[NEAR];

    way->ops->free(way, memory);
}

static void route_map(struct ri_transport *transport, void *base, size_t bytes)
{
    for (int w = 0; w < WAYS; w++) {
        struct ri_transport *way = route_of(transport)->way[w];

        if (way->ops->map)
            way->ops->map(way, base, bytes);
    }
}

static void route_unmap(struct ri_transport *transport, void *base)
{
    for (int w = 0; w < WAYS; w++) {
        struct ri_transport *way = route_of(transport)->way[w];

        if (way->ops->unmap)
            way->ops->unmap(way, base);
    }
}

static const char *route_way(struct ri_transport *transport, int peer)
{
    struct ri_transport *way = way_to(route_of(transport), peer);

    return way->ops->way ? way->ops->way(way, peer) : way->ops->name;
}

static int route_readers(struct ri_transport *transport, struct ri_xfer *send)
{
    struct ri_transport *way = route_of(transport)->way[NEAR];

    return way->ops->readers(way, send);
}

static void route_release(struct ri_transport *transport, struct ri_xfer *receive)
{
    struct ri_transport *way = route_of(transport)->way[NEAR];

    way->ops->release(way, receive);
}

static int route_enter(struct ri_transport *transport, const struct ri_reference *reference)
{
    struct ri_transport *way = route_of(transport)->way[NEAR];

    return way->ops->enter(way, reference);
}

static int route_leave(struct ri_transport *transport, const struct ri_reference *reference)
{
    struct ri_transport *way = route_of(transport)->way[NEAR];

    return way->ops->leave(way, reference);
}

static void route_revoke(struct ri_transport *transport, struct ri_xfer *send)
{
    struct ri_transport *way = route_of(transport)->way[NEAR];

    way->ops->revoke(way, send);
}

const struct ri_transport_ops ri_transport_route = {
    .name = "shm+ucx",
    .open = route_open,
    .connect = route_connect,
    .post = route_post,
    .progress = route_progress,
    .settled = route_settled,
    .event_fd = route_event_fd,
    .arm = route_arm,
    .reserve = route_reserve,
    .alloc = route_alloc,
    .free = route_free,
    .map = route_map,
    .unmap = route_unmap,
    .way = route_way,
    .cancel = route_cancel,
    .readers = route_readers,
    .release = route_release,
    .enter = route_enter,
    .leave = route_leave,
    .revoke = route_revoke,
    .close = route_close,
};
