/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of transport self: two ends that meet, and for bound ones the count of readers. */
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/status.h"
#include "transport/self_world.h"
#include "transport/xfer.h"

static void wake(struct ri_self_world *world, int rank)
{
    struct ri_self *self = world->members[rank].rank;

    if (!self || !self->armed)
        return;
    self->armed = 0;
    eventfd_write(self->wake_fd, 1);
}

/* ---- the life of a message ---- */

static struct ri_self_message *message_new(struct ri_self_world *world, int source, int destination,
                                           uint64_t tag)
{
    struct ri_self_message *message = world->spare, *next_all = message->next_all;

    world->spare = message->next;
    memset(message, 0, sizeof(*message));
    message->next_all = next_all;
    message->tag = tag;
    message->source = source;
    message->destination = destination;
    return message;
}

static void queue_leave(struct ri_self_world *world, const struct ri_self_message *message)
{
    struct ri_self_message **link = &world->queue;

    while (*link && *link != message)
        link = &(*link)->next;
    if (*link)
        *link = message->next;
}

static void message_recycle(struct ri_self_world *world, struct ri_self_message *message)
{
    if (message->end[SEND] || message->end[RECEIVE] || message->given || message->root ||
        message->readers)
        return;
    queue_leave(world, message);
    message->next = world->spare;
    world->spare = message;
}

/* One end is done with; afterwards nobody touches its memory. */
static void message_drop(struct ri_self_world *world, struct ri_self_message *message, int end)
{
    message->end[end] = NULL;
    message_recycle(world, message);
}

/* The message counts as a reader of the content that its send gives out or passes on. */
static void reader_add(struct ri_self_message *message, const struct ri_xfer *send)
{
    const struct ri_self_message *passed = send->reference.counter;

    message->root = passed ? passed->root : message;
    message->root->readers++;
    message->base = send->base;
}

static void reader_remove(struct ri_self_world *world, struct ri_self_message *message)
{
    struct ri_self_message *root = message->root;
    struct ri_self *holder;

    if (!root)
        return;
    message->root = NULL;
    message->read = 0;
    root->readers--;
    holder = world->members[root->source].rank;
    if (holder && root->given && !root->readers)
        atomic_store(&holder->let_go, 1);
    wake(world, root->source);
    if (root != message)
        message_recycle(world, root);
}

/* ---- the inbox ---- */

static void inbox_add(struct ri_self_world *world, struct ri_self_message *message)
{
    struct ri_self_message **link = &world->members[message->destination].inbox;

    while (*link)
        link = &(*link)->next;
    message->next = NULL;
    message->stage = WAITING;
    *link = message;
}

/* Takes the first message out of the inbox that waits for this end. */
static struct ri_self_message *inbox_take(struct ri_self_world *world, int source,
                                          int destination, uint64_t tag, int end)
{
    struct ri_self_message **link = &world->members[destination].inbox;

    for (; *link; link = &(*link)->next) {
        struct ri_self_message *message = *link;

        if (message->tag == tag && message->source == source && !message->end[end]) {
            *link = message->next;
            message->next = NULL;
            return message;
        }
    }
    return NULL;
}

static void inbox_remove(struct ri_self_world *world, struct ri_self_message *message)
{
    struct ri_self_message **link = &world->members[message->destination].inbox;

    while (*link != message)
        link = &(*link)->next;
    *link = message->next;
}

/* ---- the ends meet ---- */

static void message_settle(struct ri_self_message *message, int status, int64_t due_ns)
{
    message->stage = SETTLED;
    message->status = status;
    message->due_ns = due_ns;
}

static void message_fail(struct ri_self_world *world, struct ri_self_message *message, int status,
                         int gone)
{
    queue_leave(world, message);
    message_settle(message, status, 0);
    message->gone = gone;
    reader_remove(world, message);
    wake(world, message->source);
    wake(world, message->destination);
}

/* ---- links ---- */

static struct ri_self_link *link_of(struct ri_self_world *world, const struct ri_self_message *message,
                                    int end)
{
    struct ri_self_member *member = &world->members[end == SEND ? message->source : message->destination];

    if (world->model.shared_nic && message->lane == RI_TRANSPORT_HOST)
        member = &world->members[member->nic];
    return end == SEND ? &member->out[message->lane] : &member->in[message->lane];
}

static int64_t start_ns(struct ri_self_world *world, const struct ri_self_message *message)
{
    return ri_self_start_ns(link_of(world, message, SEND), link_of(world, message, RECEIVE),
                            message->met_ns);
}

void ri_self_serve_links(struct ri_self_world *world, int64_t now_ns)
{
    for (;;) {
        struct ri_self_message *first = world->queue;

        for (struct ri_self_message *m = first; m; m = m->next)
            if (start_ns(world, m) < start_ns(world, first))
                first = m;
        if (!first || start_ns(world, first) > now_ns)
            return;
        queue_leave(world, first);
        first->due_ns = ri_self_due_ns(link_of(world, first, SEND), link_of(world, first, RECEIVE),
                                       &world->model.lanes[first->lane], first->met_ns,
                                       first->bind[SEND] ? 0 : first->bytes[SEND]) +
                        ri_self_delay_ns(world->model.seed, first->source, first->tag);
    }
}

int64_t ri_self_look_ns(struct ri_self_world *world, const struct ri_self_message *message)
{
    return message->due_ns != INT64_MAX ? message->due_ns : start_ns(world, message);
}

/* To the end of the queue; what its links can take now leaves it at once. */
static void queue_enter(struct ri_self_world *world, struct ri_self_message *message)
{
    struct ri_self_message **link = &world->queue;

    while (*link)
        link = &(*link)->next;
    message->next = NULL;
    *link = message;
    message->lane = message->end[SEND]->lane;
    message->met_ns = ri_now_ns();
    ri_self_serve_links(world, message->met_ns);
}

/* Both ends are there now. */
static void message_match(struct ri_self_world *world, struct ri_self_message *message)
{
    if (message->bytes[SEND] != message->bytes[RECEIVE] ||
        message->bind[SEND] != message->bind[RECEIVE]) {
        message_fail(world, message, RONDO_ERR_MISMATCH, 0);
        return;
    }
    message_settle(message, RONDO_OK, INT64_MAX);
    if (!message->bind[SEND])
        message->stage = MATCHED;
    queue_enter(world, message);
    wake(world, message->source);
    wake(world, message->destination);
}

/* ---- what self.c does with them ---- */

int ri_self_check_bound(const struct ri_self *self, struct ri_xfer *const *xfers, int n)
{
    const struct ri_self_member *members = self->world->members;
    int rank = self->base.rank;

    for (int i = 0; i < n; i++) {
        const struct ri_xfer *xfer = xfers[i];
        const struct ri_self_message *passed = xfer->reference.counter;

        if (!xfer->bind)
            continue;
        if (members[rank].host != members[xfer->peer].host)
            return ri_error(RONDO_ERR_ARGUMENT, "bound message between rank %d and rank %d of another "
                            "host: copy it", rank, xfer->peer);
        if (xfer->send && passed && !(passed->read && passed->destination == rank))
            return ri_error(RONDO_ERR_ARGUMENT, "rank %d passes on to rank %d what it has released", rank,
                            xfer->peer);
    }
    return 0;
}

void ri_self_post_end(struct ri_self *self, struct ri_xfer *xfer)
{
    struct ri_self_world *world = self->world;
    int end = xfer->send ? SEND : RECEIVE;
    int source = xfer->send ? self->base.rank : xfer->peer;
    int destination = xfer->send ? xfer->peer : self->base.rank;
    struct ri_self_message *message = inbox_take(world, source, destination, xfer->tag, end);

    if (!message)
        message = message_new(world, source, destination, xfer->tag);
    message->end[end] = xfer;
    message->bytes[end] = ri_xfer_bytes(xfer);
    message->bind[end] = xfer->bind;
    xfer->handle = message;
    xfer->state = RI_XFER_POSTED;
    xfer->next = NULL;
    *self->posted_end = xfer;
    self->posted_end = &xfer->next;
    if (xfer->send && xfer->bind)
        reader_add(message, xfer);
    if (world->members[xfer->peer].presence == CLOSED)
        message_fail(world, message, RONDO_ERR_PEER, xfer->peer);
    else if (message->root && message->root->revoked)
        message_fail(world, message, RONDO_ERR_PEER, message->root->source);
    else if (message->end[!end])
        message_match(world, message);
    else
        inbox_add(world, message);
}

void ri_self_copy(struct ri_self_world *world, struct ri_self_message *message)
{
    const struct ri_xfer *from = message->end[SEND];
    const struct ri_xfer *to = message->end[RECEIVE];
    struct ri_self_message *read = from->reference.counter; /* the sender reads it in place; NULL: its own */
    int good = 1;
    size_t rows = ri_xfer_contiguous(from) ? 1 : from->rows;
    size_t row_bytes = ri_xfer_contiguous(from) ? message->bytes[SEND] : from->row_bytes;

    if (read && !ri_self_enter(read)) {
        message_fail(world, message, RONDO_ERR_PEER, read->root->source);
        return;
    }
    message->stage = COPYING;
    pthread_mutex_unlock(&world->lock);
    for (size_t row = 0; row < rows && row_bytes > 0; row++)
        ri_xfer_unpack(to, row * row_bytes, from->base + row * from->row_stride, row_bytes);
    pthread_mutex_lock(&world->lock);
    if (read)
        good = ri_self_leave(world, read);
    message_settle(message, good ? RONDO_OK : RONDO_ERR_PEER, message->due_ns);
    if (!good)
        message->gone = read->root->source;
    wake(world, message->source);
    pthread_cond_broadcast(&world->copied);
}

static void say_mismatch(const struct ri_self_message *message)
{
    unsigned long long tag = message->tag;

    if (message->bind[SEND] != message->bind[RECEIVE])
        ri_error(RONDO_ERR_MISMATCH, "the message from rank %d to rank %d with tag 0x%llx is bound by its %s "
                 "only: bind it at both ends or at neither", message->source, message->destination, tag,
                 message->bind[SEND] ? "sender" : "receiver");
    else
        ri_error(RONDO_ERR_MISMATCH, "rank %d sends %zu bytes with tag 0x%llx, rank %d expects %zu",
                 message->source, message->bytes[SEND], tag, message->destination,
                 message->bytes[RECEIVE]);
}

/* A bound end is DONE: the sender's owner may ask for readers, the receiver reads. */
static void bound_done(struct ri_self *self, struct ri_xfer *xfer, struct ri_self_message *message)
{
    ri_xfer_done(&self->base, xfer);
    if (xfer->send) {
        message->given = !xfer->reference.counter;
        xfer->handle = message->given ? message : NULL;
        return;
    }
    message->read = 1;
    xfer->base = message->base;
    xfer->reference = (struct ri_reference){ message->base, message->root->source, message };
}

void ri_self_finish(struct ri_self *self, struct ri_xfer *xfer)
{
    struct ri_self_message *message = xfer->handle;
    int status = message->status;

    if (status == RONDO_ERR_MISMATCH)
        say_mismatch(message);
    if (status == RONDO_ERR_PEER)
        ri_error(status, "rank %d has %s", message->gone,
                 self->world->members[message->gone].presence == CLOSED
                     ? "closed its transport" : "given up its run, and taken back what was passed on");
    if (status)
        ri_xfer_failed(xfer, status);
    else if (xfer->bind)
        bound_done(self, xfer, message);
    else
        ri_xfer_done(&self->base, xfer);
    message_drop(self->world, message, xfer->send ? SEND : RECEIVE);
}

int ri_self_ready(const struct ri_xfer *xfer, int64_t now_ns)
{
    const struct ri_self_message *message = xfer->handle;

    if (message->stage == MATCHED)
        return !xfer->send;
    return message->stage == SETTLED && message->due_ns <= now_ns;
}

/* A bound message that has arrived loses one end.  Nobody has read yet, or the send has gone through. */
static void bound_part(struct ri_self *self, struct ri_xfer *xfer, struct ri_self_message *message)
{
    struct ri_self_world *world = self->world;
    int end = xfer->send ? SEND : RECEIVE;

    if (xfer->send && !message->end[RECEIVE]) {
        ri_self_finish(self, xfer);
        return;
    }
    if (xfer->send || !message->end[SEND])
        reader_remove(world, message);
    if (message->end[!end])
        inbox_add(world, message);
    message_drop(world, message, end);
    xfer->handle = NULL;
    xfer->state = RI_XFER_IDLE;
}

void ri_self_give_up(struct ri_self *self, struct ri_xfer *xfer)
{
    struct ri_self_world *world = self->world;
    struct ri_self_message *message = xfer->handle;
    int end = xfer->send ? SEND : RECEIVE;

    while (message->stage == COPYING)
        pthread_cond_wait(&world->copied, &world->lock);
    if (message->stage == MATCHED || (xfer->bind && message->stage == SETTLED))
        queue_leave(world, message); /* one that is copied still arrives at its other end */
    if (xfer->bind && message->stage == SETTLED && !message->status) {
        bound_part(self, xfer, message);
        return;
    }
    if (message->stage == WAITING)
        inbox_remove(world, message);
    else if (message->stage == MATCHED)
        inbox_add(world, message);
    if (xfer->send)
        reader_remove(world, message);
    message_drop(world, message, end);
    xfer->handle = NULL;
    xfer->state = RI_XFER_IDLE;
}

/* ---- readers ---- */

int ri_self_readers(struct ri_self_world *world, struct ri_xfer *send)
{
    struct ri_self_message *message = send->handle;

    int readers = !message ? 0 : message->revoked ? message->inside : message->readers;

    if (!message || readers)
        return readers;
    send->handle = NULL;
    message->given = 0;
    message_recycle(world, message);
    return 0;
}

void ri_self_release(struct ri_self_world *world, struct ri_self_message *message)
{
    reader_remove(world, message);
    message_recycle(world, message);
}

int ri_self_enter(struct ri_self_message *message)
{
    struct ri_self_message *root = message->root;

    if (!root || root->revoked)
        return 0;
    root->inside++;
    return 1;
}

int ri_self_leave(struct ri_self_world *world, struct ri_self_message *message)
{
    struct ri_self_message *root = message->root;
    struct ri_self *holder = world->members[root->source].rank;

    root->inside--;
    if (!root->revoked)
        return 1;
    if (holder && !root->inside)
        atomic_store(&holder->let_go, 1);
    wake(world, root->source);
    return 0;
}

static void forsake(struct ri_self_world *world, struct ri_self_message *message, int rank)
{
    int given = message->given && message->source == rank;
    int read = message->read && message->destination == rank;
    int holds = message->root && message->root->source == rank;
    int ends = message->end[SEND] || message->end[RECEIVE];

    if (message->source == rank && message->readers)
        message->revoked = 1;
    if (given)
        message->given = 0;
    if (read)
        reader_remove(world, message);
    if (given || read)
        message_recycle(world, message);
    if (!ends || (message->stage != WAITING && !(holds && message->end[RECEIVE])))
        return;
    if (message->stage == WAITING && (holds || message->source == rank || message->destination == rank))
        inbox_remove(world, message);
    else if (message->stage == WAITING)
        return;
    message_fail(world, message, RONDO_ERR_PEER, rank);
}

void ri_self_forsake(struct ri_self_world *world, int rank)
{
    for (struct ri_self_message *message = world->all; message; message = message->next_all)
        forsake(world, message, rank);
}
