/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/self_world.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/status.h"
#include "transport/xfer.h"

static pthread_mutex_t worlds_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ri_self_world *worlds;

static struct ri_self_world *world_new(const struct ri_transport_params *params)
{
    struct ri_self_world *world =
        calloc(1, sizeof(*world) + (size_t)params->ranks * sizeof(world->members[0]));

    if (!world)
        return NULL;
    memcpy(world->token, params->token, sizeof(world->token));
    world->ranks = params->ranks;
    pthread_mutex_init(&world->lock, NULL);
    pthread_cond_init(&world->copied, NULL);
    return world;
}

static void messages_free(struct ri_self_message *message)
{
    while (message) {
        struct ri_self_message *next = message->next;

        free(message);
        message = next;
    }
}

static void world_free(struct ri_self_world *world)
{
    for (int r = 0; r < world->ranks; r++)
        messages_free(world->members[r].inbox);
    messages_free(world->spare);
    pthread_cond_destroy(&world->copied);
    pthread_mutex_destroy(&world->lock);
    free(world);
}

struct ri_self_world *ri_self_world_join(const struct ri_transport_params *params)
{
    struct ri_self_world *world;

    pthread_mutex_lock(&worlds_lock);
    for (world = worlds; world; world = world->next)
        if (memcmp(world->token, params->token, sizeof(world->token)) == 0)
            break;
    if (!world) {
        world = world_new(params);
        if (world) {
            world->next = worlds;
            worlds = world;
        }
    }
    if (world)
        world->references++;
    pthread_mutex_unlock(&worlds_lock);
    return world;
}

void ri_self_world_leave(struct ri_self_world *world)
{
    struct ri_self_world **link;

    pthread_mutex_lock(&worlds_lock);
    if (--world->references > 0) {
        pthread_mutex_unlock(&worlds_lock);
        return;
    }
    for (link = &worlds; *link != world; link = &(*link)->next)
        ;
    *link = world->next;
    pthread_mutex_unlock(&worlds_lock);
    world_free(world);
}

int ri_self_world_enter(struct ri_self_world *world, struct ri_self *self)
{
    struct ri_transport *base = &self->base;
    int err = 0;

    pthread_mutex_lock(&world->lock);
    if (world->ranks != base->ranks)
        err = ri_error(RONDO_ERR_MISMATCH, "rank %d says %d ranks, the first to open said %d",
                       base->rank, base->ranks, world->ranks);
    else if (world->members[base->rank].presence != ABSENT)
        err = ri_error(RONDO_ERR_ARGUMENT, "rank %d has opened transport self before", base->rank);
    if (!err) {
        world->members[base->rank].presence = OPEN;
        world->members[base->rank].rank = self;
    }
    pthread_mutex_unlock(&world->lock);
    return err;
}

int ri_self_reserve(struct ri_self_world *world, int n)
{
    int have = 0;

    for (struct ri_self_message *spare = world->spare; spare && have < n; spare = spare->next)
        have++;
    for (; have < n; have++) {
        struct ri_self_message *message = calloc(1, sizeof(*message));

        if (!message)
            return ri_error(RONDO_ERR_MEMORY, "no memory for %d messages", n);
        message->next = world->spare;
        world->spare = message;
    }
    return 0;
}

static void wake(struct ri_self_world *world, int rank)
{
    struct ri_self *self = world->members[rank].rank;

    if (!self || !self->armed)
        return;
    self->armed = 0;
    eventfd_write(self->wake_fd, 1);
}

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

static void message_settle(struct ri_self_message *message, int status, int64_t due_ns)
{
    message->stage = SETTLED;
    message->status = status;
    message->due_ns = due_ns;
}

/* Both ends are there now: the sender's link is taken from this moment on. */
static void message_match(struct ri_self_world *world, struct ri_self_message *message)
{
    struct ri_self *sender = world->members[message->source].rank;
    size_t bytes = message->bytes[SEND];

    if (bytes != message->bytes[RECEIVE]) {
        message_settle(message, RONDO_ERR_MISMATCH, 0);
    } else {
        message->stage = MATCHED;
        message->due_ns =
            ri_self_due_ns(&sender->links[message->end[SEND]->lane], &sender->model, ri_now_ns(),
                           bytes, message->source, message->tag);
    }
    wake(world, message->source);
    wake(world, message->destination);
}

void ri_self_post_end(struct ri_self *self, struct ri_xfer *xfer)
{
    struct ri_self_world *world = self->world;
    int end = xfer->send ? SEND : RECEIVE;
    int source = xfer->send ? self->base.rank : xfer->peer;
    int destination = xfer->send ? xfer->peer : self->base.rank;
    struct ri_self_message *message = inbox_take(world, source, destination, xfer->tag, end);

    if (!message) {
        message = world->spare;
        world->spare = message->next;
        memset(message, 0, sizeof(*message));
        message->tag = xfer->tag;
        message->source = source;
        message->destination = destination;
    }
    message->end[end] = xfer;
    message->bytes[end] = ri_xfer_bytes(xfer);
    xfer->handle = message;
    xfer->state = RI_XFER_POSTED;
    xfer->next = NULL;
    *self->posted_end = xfer;
    self->posted_end = &xfer->next;
    if (world->members[xfer->peer].presence == CLOSED)
        message_settle(message, RONDO_ERR_PEER, 0);
    else if (message->end[!end])
        message_match(world, message);
    else
        inbox_add(world, message);
}

/* One end is done with; afterwards nobody touches its memory. */
static void message_drop(struct ri_self_world *world, struct ri_self_message *message, int end)
{
    message->end[end] = NULL;
    if (message->end[!end])
        return;
    message->next = world->spare;
    world->spare = message;
}

void ri_self_copy(struct ri_self_world *world, struct ri_self_message *message)
{
    const struct ri_xfer *from = message->end[SEND];
    const struct ri_xfer *to = message->end[RECEIVE];
    size_t rows = ri_xfer_contiguous(from) ? 1 : from->rows;
    size_t row_bytes = ri_xfer_contiguous(from) ? message->bytes[SEND] : from->row_bytes;

    message->stage = COPYING;
    pthread_mutex_unlock(&world->lock);
    for (size_t row = 0; row < rows && row_bytes > 0; row++)
        ri_xfer_unpack(to, row * row_bytes, from->base + row * from->row_stride, row_bytes);
    pthread_mutex_lock(&world->lock);
    message_settle(message, RONDO_OK, message->due_ns);
    wake(world, message->source);
    pthread_cond_broadcast(&world->copied);
}

void ri_self_finish(struct ri_self *self, struct ri_xfer *xfer)
{
    struct ri_self_message *message = xfer->handle;
    int status = message->status;

    if (status == RONDO_ERR_MISMATCH)
        ri_error(status, "rank %d sends %zu bytes with tag 0x%llx, rank %d expects %zu",
                 message->source, message->bytes[SEND], (unsigned long long)message->tag,
                 message->destination, message->bytes[RECEIVE]);
    if (status == RONDO_ERR_PEER)
        ri_error(status, "rank %d has closed its transport", xfer->peer);
    message_drop(self->world, message, xfer->send ? SEND : RECEIVE);
    if (status)
        ri_xfer_failed(xfer, status);
    else
        ri_xfer_done(&self->base, xfer);
}

int ri_self_ready(const struct ri_xfer *xfer, int64_t now_ns)
{
    const struct ri_self_message *message = xfer->handle;

    if (message->stage == MATCHED)
        return !xfer->send;
    return message->stage == SETTLED && message->due_ns <= now_ns;
}

void ri_self_give_up(struct ri_self_world *world, struct ri_xfer *xfer)
{
    struct ri_self_message *message = xfer->handle;
    int end = xfer->send ? SEND : RECEIVE;

    while (message->stage == COPYING)
        pthread_cond_wait(&world->copied, &world->lock);
    if (message->stage == WAITING)
        inbox_remove(world, message);
    else if (message->stage == MATCHED)
        inbox_add(world, message);
    message_drop(world, message, end);
    xfer->handle = NULL;
    xfer->state = RI_XFER_IDLE;
}

void ri_self_world_exit(struct ri_self_world *world, int rank)
{
    pthread_mutex_lock(&world->lock);
    world->members[rank].presence = CLOSED;
    world->members[rank].rank = NULL;
    for (int r = 0; r < world->ranks; r++) {
        struct ri_self_message **link = &world->members[r].inbox;

        while (*link) {
            struct ri_self_message *message = *link;

            if (message->source != rank && message->destination != rank) {
                link = &message->next;
                continue;
            }
            *link = message->next;
            message_settle(message, RONDO_ERR_PEER, 0);
            wake(world, message->source);
            wake(world, message->destination);
        }
    }
    pthread_mutex_unlock(&world->lock);
}

