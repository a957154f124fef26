/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "ring_run.h"

const char *ring_memory_name(int memory)
{
    return memory == RING_ALLOC ? "rondo_mem_alloc" : "memory of the caller";
}

void *ring_memory_alloc(rondo_comm_t comm, int memory, size_t bytes)
{
    void *block = NULL;

    if (memory == RING_CALLER)
        return perf_touched(bytes);
    if (rondo_mem_alloc(comm, bytes, &block))
        return NULL;
    memset(block, 0, bytes);
    return block;
}

void ring_memory_free(rondo_comm_t comm, int memory, void *block)
{
    if (memory == RING_CALLER)
        free(block);
    else
        rondo_mem_free(comm, block);
}
