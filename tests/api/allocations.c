/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/api/allocations.h"

static _Thread_local size_t asked_bytes;
static _Thread_local int good_calls = -1;

/* Names that the linker gives them. */
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    if (good_calls == 0)
        return NULL;
    good_calls -= good_calls > 0;
    asked_bytes += bytes;
    return __real_aligned_alloc(alignment, bytes);
}

void aligned_fail_after(int good)
{
    good_calls = good;
}

size_t aligned_bytes(void)
{
    return asked_bytes;
}
