/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that callers ask for, so that their tensors lie where the other ranks can read them. */
#include <rondo/comm.h>

#include <stdint.h>
#include <stdlib.h>

#include "base/status.h"
#include "comm/comm.h"
#include "plan/pool.h"

struct ri_memory {
    void *memory;
    struct ri_memory *next;
};

static void release_all(struct rondo_comm *comm)
{
    while (comm->memory) {
        struct ri_memory *first = comm->memory;

        comm->memory = first->next;
        ri_blocks_release(comm->transport, first->memory);
        free(first);
    }
}

/* The comm is entered. */
static int alloc_locked(struct rondo_comm *comm, size_t bytes, void **memory)
{
    struct ri_memory *made;
    int err;

    if (comm->failed)
        return ri_error(comm->failed, "memory refused: the communicator has failed: %s", comm->failure);
    made = malloc(sizeof(*made));
    if (!made)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %zu bytes of blocks", bytes);
    err = ri_blocks_alloc(comm->transport, bytes, &made->memory);
    if (err) {
        free(made);
        return err;
    }
    made->next = comm->memory;
    comm->memory = made;
    comm->release_memory = release_all;
    *memory = made->memory;
    return 0;
}

rondo_status_t rondo_mem_alloc(rondo_comm_t comm, size_t bytes, void **memory)
{
    int err;

    if (!comm || !memory)
        return ri_error(RONDO_ERR_ARGUMENT, "%s is NULL", comm ? "memory" : "comm");
    if (bytes > PTRDIFF_MAX)
        return ri_error(RONDO_ERR_ARGUMENT, "bytes is %zu; give %td at most", bytes, (ptrdiff_t)PTRDIFF_MAX);
    err = ri_comm_enter(comm);
    return err ? err : ri_comm_leave(comm, alloc_locked(comm, bytes, memory));
}

static int free_locked(struct rondo_comm *comm, void *memory)
{
    struct ri_memory **at = &comm->memory, *found;

    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    found = *at;
    if (!found)
        return ri_error(RONDO_ERR_ARGUMENT, "memory is %p, which rondo_mem_alloc has not given on this communicator, "
                        "or which is free already", memory);
    *at = found->next;
    ri_blocks_release(comm->transport, memory);
    free(found);
    return 0;
}

rondo_status_t rondo_mem_free(rondo_comm_t comm, void *memory)
{
    int err;

    if (!comm)
        return ri_error(RONDO_ERR_ARGUMENT, "comm is NULL");
    if (!memory)
        return 0;
    err = ri_comm_enter(comm);
    return err ? err : ri_comm_leave(comm, free_locked(comm, memory));
}
