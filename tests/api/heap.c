/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/api/heap.h"

#include <malloc.h>
#include <stddef.h>

_Thread_local struct heap heap;

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);
void __real_free(void *memory);
void __wrap_free(void *memory);

static void *note(void *memory)
{
    heap.allocations += heap.counting;
    heap.held += (long)malloc_usable_size(memory);
    return memory;
}

void *__wrap_malloc(size_t bytes)
{
    return note(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return note(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    heap.held -= (long)malloc_usable_size(memory);
    return note(__real_realloc(memory, bytes));
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return note(__real_aligned_alloc(alignment, bytes));
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    int err = __real_posix_memalign(memory, alignment, bytes);

    if (!err)
        note(*memory);
    return err;
}

void __wrap_free(void *memory)
{
    heap.held -= (long)malloc_usable_size(memory);
    __real_free(memory);
}
