/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_POOL_H
#define RI_POOL_H

#include <stddef.h>
#include <stdint.h>

struct ri_transport;
struct ri_workers;

/* Memory for blocks that travel, zeroed: of the transport's own kind where it has one, which other ranks can
 * read in place, else of the process; registered with the transport.  RONDO_ERR_MEMORY.  0 bytes is
 * something.  release accepts NULL; the transport is the one of alloc, which still lives. */
int ri_blocks_alloc(struct ri_transport *transport, size_t bytes, void **memory);
void ri_blocks_release(struct ri_transport *transport, void *memory);

/* The memory that all plans of one communicator share.  A start under way holds one arena, from its start
 * until its request is taken; scratch is only used inside one call of a kernel, and kernels of one
 * communicator run one at a time.  It grows when a plan is made and keeps what it has until the
 * communicator ends. */

/* What one start may hold; the pool's alone. */
struct ri_arena {
    char *memory;
    size_t bytes;
    char *larger;        /* takes the place of memory once it is given back; NULL: none */
    size_t larger_bytes;
    int taken;
    uint64_t tag;        /* of the first message of the start that holds it */
    struct ri_arena *next;
};

enum ri_scratch_use { RI_WORKSPACE, RI_PARTIAL_O, RI_PARTIAL_LSE, RI_SCRATCH_USES };

/* What a plan needs. */
struct ri_need {
    int arenas; /* starts under way at once */
    size_t arena_bytes, scratch_bytes[RI_SCRATCH_USES];
};

struct ri_scratch {
    void *memory;
    size_t bytes;
};

struct ri_pool {
    struct ri_transport *transport; /* whose memory arenas are; outlives the pool */
    struct ri_arena *arenas; /* each has arena_bytes at least, or will when it is given back */
    int arena_count, taken;
    int max_in_flight;       /* of the plan that allows most; arenas may be more */
    size_t arena_bytes;
    struct ri_scratch scratch[RI_SCRATCH_USES];
    struct ri_workers *workers; /* that kernels compute with; NULL: no plan wants any */
};

int ri_pool_create(struct ri_transport *transport, struct ri_pool **pool);
void ri_pool_destroy(struct ri_pool *pool);

/* Grows to what a plan needs.  After RONDO_ERR_MEMORY all that fitted before still does. */
int ri_pool_reserve(struct ri_pool *pool, const struct ri_need *need);

/* From now on so many starts may be under way, if it was less.  Apart from ri_pool_reserve, because ranks
 * must agree that all have the memory. */
void ri_pool_admit(struct ri_pool *pool, int max_in_flight);

/* An arena for a start whose messages begin with tag.  RONDO_ERR_BUSY, and nothing is changed: none is
 * free, or a start with that tag is under way.  what: "forward", for the text.  Allocates nothing. */
int ri_pool_take(struct ri_pool *pool, const char *what, uint64_t tag, struct ri_arena **arena);
void ri_pool_give(struct ri_pool *pool, struct ri_arena *arena);

/* From now on kernels can compute with so many threads, if it was less. */
int ri_pool_hire(struct ri_pool *pool, int threads);

/* What is allocated now. */
size_t ri_pool_arenas_bytes(const struct ri_pool *pool);
size_t ri_pool_scratch_bytes(const struct ri_pool *pool);

#endif
