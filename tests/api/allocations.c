/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/api/allocations.h"

static _Thread_local size_t asked_bytes;

/* Names that the linker gives them. */
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    asked_bytes += bytes;
    return __real_aligned_alloc(alignment, bytes);
}

size_t aligned_bytes(void)
{
    return asked_bytes;
}
