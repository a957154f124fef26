/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/self_world.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

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
    world->model = ri_self_model(params->config);
    for (int r = 0; r < params->ranks; r++) {
        struct ri_self_member *member = &world->members[r];

        member->host = params->host ? params->host[r] : 0;
        while (world->members[member->nic].host != member->host)
            member->nic++;
    }
    pthread_mutex_init(&world->lock, NULL);
    pthread_cond_init(&world->copied, NULL);
    return world;
}

static void world_free(struct ri_self_world *world)
{
    while (world->all) {
        struct ri_self_message *message = world->all;

        world->all = message->next_all;
        free(message);
    }
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

void ri_self_world_exit(struct ri_self_world *world, int rank)
{
    pthread_mutex_lock(&world->lock);
    world->members[rank].presence = CLOSED;
    world->members[rank].rank = NULL;
    ri_self_forsake(world, rank);
    pthread_mutex_unlock(&world->lock);
}

/* ---- memory of messages ---- */

static int add_message(struct ri_self_world *world)
{
    struct ri_self_message *message = calloc(1, sizeof(*message));

    if (!message)
        return ri_error(RONDO_ERR_MEMORY, "no memory for %d messages of transport self",
                        world->message_count + 1);
    message->next = world->spare;
    world->spare = message;
    message->next_all = world->all;
    world->all = message;
    world->message_count++;
    return 0;
}

/* Frees spare ones beyond what is reserved. */
static void drop_messages(struct ri_self_world *world)
{
    while (world->spare && world->message_count > world->reserved) {
        struct ri_self_message *message = world->spare, **link = &world->all;

        while (*link != message)
            link = &(*link)->next_all;
        *link = message->next_all;
        world->spare = message->next;
        world->message_count--;
        free(message);
    }
}

int ri_self_provide(struct ri_self_world *world, int n)
{
    int have = 0, err = 0;

    for (struct ri_self_message *spare = world->spare; spare && have < n; spare = spare->next)
        have++;
    for (; have < n && !err; have++)
        err = add_message(world);
    return err;
}

int ri_self_reserve(struct ri_self_world *world, int messages)
{
    int err = 0;

    world->reserved += messages;
    while (world->message_count < world->reserved && !err)
        err = add_message(world);
    if (err)
        world->reserved -= messages;
    if (err || messages < 0)
        drop_messages(world);
    return err;
}
