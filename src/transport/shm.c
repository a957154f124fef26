/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of one host, through memory that they share.  A bound message is read where it lies; what lies
 * elsewhere than in memory that alloc gave is copied once by its sender and then given out.  A message
 * that is not bound is copied by its receiver. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "transport/shm_private.h"

static struct ri_shm *shm_of(struct ri_transport *transport)
{
    return (struct ri_shm *)transport;
}

/* ---- open and close ---- */

static int find_locals(struct ri_shm *self, const struct ri_transport_params *params)
{
    int32_t host = params->host[params->rank];

    for (int r = 0; r < params->ranks; r++)
        self->locals += params->host[r] == host;
    if (self->locals > RI_SHM_LOCALS_MAX)
        return ri_error(RONDO_ERR_UNSUPPORTED, "transport shm takes %d ranks of a host at most, not %d",
                        (int)RI_SHM_LOCALS_MAX, self->locals);
    self->local_of = calloc((size_t)params->ranks, sizeof(*self->local_of));
    self->peers = calloc((size_t)self->locals, sizeof(*self->peers));
    for (int p = 0; self->peers && p < self->locals; p++)
        self->peers[p].wake_fd = self->peers[p].keep_fd = self->peers[p].memory_fd = -1;
    if (!self->local_of || !self->peers)
        return ri_error(RONDO_ERR_MEMORY, "no memory for %d ranks", params->ranks);
    for (int r = 0, local = 0; r < params->ranks; r++) {
        self->local_of[r] = (int16_t)(params->host[r] == host ? local++ : -1);
        if (self->local_of[r] < 0)
            continue;
        self->peers[local - 1].rank = r;
        self->peers[local - 1].is_peer = !params->peers || params->peers[r];
    }
    self->me = self->local_of[params->rank];
    return 0;
}

static void fill_address(struct ri_shm *self)
{
    struct ri_shm_address *address = &self->address;
    struct stat pipe = { .st_ino = 0 };

    fstat(self->send_wake_fd, &pipe);
    address->wake_inode = pipe.st_ino;
    self->probe = self->front->random[0];
    address->layout = RI_SHM_LAYOUT;
    address->random[0] = self->front->random[0];
    address->random[1] = self->front->random[1];
    address->bytes = self->front->bytes;
    address->probe = (uint64_t)(uintptr_t)&self->probe;
    address->pid = (int32_t)getpid();
    address->memory_fd = self->memory_fd;
    address->wake_fd = self->send_wake_fd;
    self->peers[self->me].wake_fd = self->send_wake_fd;
}

static void shm_close(struct ri_transport *transport);

static int shm_open_rank(const struct ri_transport_params *params, struct ri_transport **transport,
                         const void **address, size_t *address_bytes)
{
    struct ri_shm *self = calloc(1, sizeof(*self));
    int err;

    if (!self)
        return ri_error(RONDO_ERR_MEMORY, "no memory for transport shm");
    self->base.ops = &ri_transport_shm;
    self->base.rank = params->rank;
    self->base.ranks = params->ranks;
    self->memory_fd = self->wake_fd = self->send_wake_fd = self->pass_fd = -1;
    err = find_locals(self, params);
    if (!err)
        err = ri_shm_wake_open(self);
    if (!err)
        err = ri_shm_memory_open(self);
    if (err) {
        shm_close(&self->base);
        return err;
    }
    fill_address(self);
    ri_shm_pass_open(self);
    *transport = &self->base;
    *address = &self->address;
    *address_bytes = sizeof(self->address);
    return 0;
}

static int shm_connect(struct ri_transport *transport, const void *const *addresses,
                       const size_t *address_bytes, int64_t deadline_ns)
{
    int err = ri_shm_connect(shm_of(transport), addresses, address_bytes, deadline_ns);

    ri_shm_pass_close(shm_of(transport));
    return err;
}

static void shm_close(struct ri_transport *transport)
{
    struct ri_shm *self = shm_of(transport);

    if (!self)
        return;
    if (self->front && self->address.pid == (int32_t)getpid()) { /* a child of ours does not have it */
        ri_shm_give_up_all(self);
        atomic_store(&self->front->closed, 1);
        atomic_store(&self->front->asleep, 0); /* nobody need open what wakes us any more */
        for (int p = 0; p < self->locals; p++)
            if (p != self->me && self->peers[p].front)
                ri_shm_ring(self, p);
    }
    ri_shm_pass_close(self);
    ri_shm_wake_close(self);
    ri_shm_memory_close(self);
    ri_shm_ops_close(self);
    free(self->local_of);
    free(self->peers);
    free(self);
}

/* ---- messages ---- */

static int shm_post(struct ri_transport *transport, struct ri_xfer *const *xfers, int n)
{
    return ri_shm_post(shm_of(transport), xfers, n);
}

static void look_at_news(struct ri_shm *self, int word)
{
    uint64_t news = atomic_exchange(&self->front->news[word], 0);

    while (news) {
        int bit = __builtin_ctzll(news);

        news &= news - 1;
        ri_shm_look(self, word * 64 + bit);
    }
}

/* With nothing to do it reads one word per 64 ranks. */
static int shm_progress(struct ri_transport *transport)
{
    struct ri_shm *self = shm_of(transport);
    int is_news = 0, events;

    if (self->armed || self->owed_bytes)
        ri_shm_awake(self);
    for (int w = 0; w <= (self->locals - 1) / 64; w++)
        if (atomic_load_explicit(&self->front->news[w], memory_order_relaxed)) {
            look_at_news(self, w);
            is_news = 1;
        }
    if (is_news && atomic_load_explicit(&self->front->let_go, memory_order_relaxed))
        self->events += (int)atomic_exchange(&self->front->let_go, 0);
    if (is_news && self->unsettled)
        ri_shm_settle_left(self);
    if (self->work.first)
        ri_shm_work(self);
    events = self->events;
    self->events = 0;
    return events;
}

static int shm_event_fd(struct ri_transport *transport)
{
    return shm_of(transport)->wake_fd;
}

static int shm_arm(struct ri_transport *transport)
{
    return ri_shm_arm(shm_of(transport));
}

static void shm_cancel(struct ri_transport *transport, struct ri_xfer *const *xfers, int n)
{
    int64_t deadline_ns = ri_now_ns() + RI_SHM_CANCEL_NS;

    for (int i = 0; i < n; i++)
        if (xfers[i]->state == RI_XFER_POSTED)
            ri_shm_give_up(shm_of(transport), xfers[i]->handle, deadline_ns);
}

static int shm_reserve(struct ri_transport *transport, int messages)
{
    struct ri_shm *self = shm_of(transport);
    int err = messages > 0 ? ri_shm_ops_grow(self, self->reserved + messages) : 0;

    if (!err)
        self->reserved += messages;
    return err;
}

/* ---- memory ---- */

static int shm_alloc(struct ri_transport *transport, size_t bytes, void **memory)
{
    struct ri_shm *self = shm_of(transport);
    struct ri_shm_block *block = ri_shm_block_new(self, bytes);

    if (!block)
        return RONDO_ERR_MEMORY;
    *memory = self->peers[self->me].base + block->offset;
    return 0;
}

static void shm_free(struct ri_transport *transport, void *memory)
{
    struct ri_shm *self = shm_of(transport);
    struct ri_shm_block *block = memory ? ri_shm_block_find(self, memory) : NULL;

    if (block)
        ri_shm_block_free(self, block);
}

static const char *shm_way(struct ri_transport *transport, int peer)
{
    struct ri_shm *self = shm_of(transport);

    return self->local_of[peer] < 0 ? "none: another host" : self->peers[self->local_of[peer]].way;
}

/* ---- binding ---- */

static int shm_readers(struct ri_transport *transport, struct ri_xfer *send)
{
    return send->bind && send->handle ? ri_shm_readers(shm_of(transport), send) : 0;
}

static void shm_release(struct ri_transport *transport, struct ri_xfer *receive)
{
    ri_shm_release(shm_of(transport), receive->reference.counter);
    receive->reference.counter = NULL;
}

static int revoked_error(const struct ri_transport *transport, const struct ri_reference *reference)
{
    return ri_error(RONDO_ERR_PEER, "rank %d has given up its run, and taken back what rank %d read in its "
                    "memory", reference->holder, transport->rank);
}

static int shm_enter(struct ri_transport *transport, const struct ri_reference *reference)
{
    struct ri_shm_op *read = reference->counter;

    if (ri_shm_enter(read->lend))
        return 0;
    ri_shm_leave(shm_of(transport), read->lend, read->holder);
    return revoked_error(transport, reference);
}

static int shm_leave(struct ri_transport *transport, const struct ri_reference *reference)
{
    struct ri_shm_op *read = reference->counter;

    return ri_shm_leave(shm_of(transport), read->lend, read->holder) ? 0 : revoked_error(transport, reference);
}

static void shm_revoke(struct ri_transport *transport, struct ri_xfer *send)
{
    (void)transport;
    if (send->bind && send->handle)
        ri_shm_revoke(send->handle);
}

const struct ri_transport_ops ri_transport_shm = {
    .name = "shm",
    .open = shm_open_rank,
    .connect = shm_connect,
    .post = shm_post,
    .progress = shm_progress,
    .event_fd = shm_event_fd,
    .arm = shm_arm,
    .reserve = shm_reserve,
    .alloc = shm_alloc,
    .free = shm_free,
    .way = shm_way,
    .cancel = shm_cancel,
    .readers = shm_readers,
    .release = shm_release,
    .enter = shm_enter,
    .leave = shm_leave,
    .revoke = shm_revoke,
    .close = shm_close,
};
