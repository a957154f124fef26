/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/pool.h"

#include <assert.h>
#include <stdlib.h>

#include "base/status.h"
#include "base/workers.h"
#include "device/device.h"
#include "transport/transport.h"

int ri_blocks_alloc(struct ri_transport *transport, size_t bytes, void **memory)
{
    int err = 0;

    if (transport->ops->alloc)
        err = transport->ops->alloc(transport, bytes, memory);
    else
        *memory = ri_device_host.alloc(bytes);
    if (!err && !*memory)
        err = ri_error(RONDO_ERR_MEMORY, "out of memory for %zu bytes of blocks", bytes);
    if (!err && transport->ops->map)
        transport->ops->map(transport, *memory, bytes);
    return err;
}

void ri_blocks_release(struct ri_transport *transport, void *memory)
{
    if (!memory)
        return;
    if (transport->ops->unmap)
        transport->ops->unmap(transport, memory);
    if (transport->ops->alloc)
        transport->ops->free(transport, memory);
    else
        ri_device_host.release(memory);
}

int ri_pool_create(struct ri_transport *transport, struct ri_pool **pool)
{
    struct ri_pool *made = calloc(1, sizeof(*made));

    if (!made)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for a pool");
    made->transport = transport;
    *pool = made;
    return 0;
}

static void destroy_arena(struct ri_pool *pool, struct ri_arena *arena)
{
    ri_blocks_release(pool->transport, arena->memory);
    ri_blocks_release(pool->transport, arena->larger);
    free(arena);
}

void ri_pool_destroy(struct ri_pool *pool)
{
    if (!pool)
        return;
    while (pool->arenas) {
        struct ri_arena *arena = pool->arenas;

        pool->arenas = arena->next;
        destroy_arena(pool, arena);
    }
    for (int i = 0; i < RI_SCRATCH_USES; i++)
        ri_device_host.release(pool->scratch[i].memory);
    ri_workers_destroy(pool->workers);
    free(pool);
}

/* ---- growing ---- */

/* The larger memory takes over, unless a start still works in the smaller one. */
static void settle(struct ri_pool *pool, struct ri_arena *arena)
{
    if (arena->taken || !arena->larger)
        return;
    ri_blocks_release(pool->transport, arena->memory);
    arena->memory = arena->larger;
    arena->bytes = arena->larger_bytes;
    arena->larger = NULL;
    arena->larger_bytes = 0;
}

static int enlarge(struct ri_pool *pool, struct ri_arena *arena, size_t bytes)
{
    void *memory;
    int err;

    if (arena->bytes >= bytes || arena->larger_bytes >= bytes)
        return 0;
    err = ri_blocks_alloc(pool->transport, bytes, &memory);
    if (err)
        return err;
    ri_blocks_release(pool->transport, arena->larger);
    arena->larger = memory;
    arena->larger_bytes = bytes;
    settle(pool, arena);
    return 0;
}

static int add_arena(struct ri_pool *pool, size_t bytes)
{
    struct ri_arena *arena = calloc(1, sizeof(*arena));
    int err = arena ? enlarge(pool, arena, bytes)
                    : ri_error(RONDO_ERR_MEMORY, "out of memory for an arena");

    if (err) {
        free(arena);
        return err;
    }
    arena->next = pool->arenas;
    pool->arenas = arena;
    pool->arena_count++;
    return 0;
}

static int enlarge_scratch(struct ri_scratch *scratch, size_t bytes)
{
    void *memory;

    if (scratch->bytes >= bytes)
        return 0;
    memory = ri_device_host.alloc(bytes);
    if (!memory)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %zu bytes of kernel workspace", bytes);
    ri_device_host.release(scratch->memory);
    *scratch = (struct ri_scratch){ memory, bytes };
    return 0;
}

int ri_pool_reserve(struct ri_pool *pool, const struct ri_need *need)
{
    size_t bytes = need->arena_bytes > pool->arena_bytes ? need->arena_bytes : pool->arena_bytes;
    int err = 0;

    for (int i = 0; !err && i < RI_SCRATCH_USES; i++)
        err = enlarge_scratch(&pool->scratch[i], need->scratch_bytes[i]);
    for (struct ri_arena *arena = pool->arenas; !err && arena; arena = arena->next)
        err = enlarge(pool, arena, bytes);
    while (!err && pool->arena_count < need->arenas)
        err = add_arena(pool, bytes);
    if (!err)
        pool->arena_bytes = bytes;
    return err;
}

int ri_pool_hire(struct ri_pool *pool, int threads)
{
    int err = 0;

    if (threads > 1 && !pool->workers)
        err = ri_workers_create(&pool->workers);
    return err || threads <= 1 ? err : ri_workers_grow(pool->workers, threads);
}

void ri_pool_admit(struct ri_pool *pool, int max_in_flight)
{
    if (pool->max_in_flight < max_in_flight)
        pool->max_in_flight = max_in_flight;
}

/* ---- starts ---- */

int ri_pool_take(struct ri_pool *pool, const char *what, uint64_t tag, struct ri_arena **arena_p)
{
    struct ri_arena *free_one = NULL;

    if (pool->taken >= pool->max_in_flight)
        return ri_error(RONDO_ERR_BUSY, "%s refused: %d of max_in_flight %d starts are under way on the "
                        "communicator; wait for one of their requests first", what, pool->taken,
                        pool->max_in_flight);
    for (struct ri_arena *arena = pool->arenas; arena; arena = arena->next) {
        if (arena->taken && arena->tag == tag)
            return ri_error(RONDO_ERR_BUSY, "%s refused: its messages would have the numbers of a start "
                            "long ago that is still under way; wait for its request first", what);
        if (!arena->taken)
            free_one = arena;
    }
    assert(free_one); /* there are max_in_flight of them, and fewer are taken */
    free_one->taken = 1;
    free_one->tag = tag;
    pool->taken++;
    *arena_p = free_one;
    return 0;
}

void ri_pool_give(struct ri_pool *pool, struct ri_arena *arena)
{
    arena->taken = 0;
    pool->taken--;
    settle(pool, arena);
}

/* ---- what it holds ---- */

size_t ri_pool_arenas_bytes(const struct ri_pool *pool)
{
    size_t bytes = 0;

    for (const struct ri_arena *arena = pool->arenas; arena; arena = arena->next)
        bytes += arena->bytes + arena->larger_bytes;
    return bytes;
}

size_t ri_pool_scratch_bytes(const struct ri_pool *pool)
{
    size_t bytes = 0;

    for (int i = 0; i < RI_SCRATCH_USES; i++)
        bytes += pool->scratch[i].bytes;
    return bytes;
}
