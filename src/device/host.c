/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_HUGEPAGE
#define MADV_HUGEPAGE MADV_NORMAL
#endif

enum { ALIGNMENT_BYTES = 64, HUGE_BYTES = 2 << 20 };

/* Large blocks ask for large pages: a transport that copies out of another process pins every page
 * that it touches.  No bytes give one aligned unit, so that NULL always means failure.  Writing the
 * zeroes here also takes the page faults here, not while a plan runs. */
static void *host_alloc(size_t bytes)
{
    size_t unit = bytes >= HUGE_BYTES ? HUGE_BYTES : ALIGNMENT_BYTES, whole;
    void *memory;

    if (bytes > PTRDIFF_MAX - HUGE_BYTES)
        return NULL;
    whole = (bytes / unit + (bytes % unit != 0 || bytes == 0)) * unit;
    memory = aligned_alloc(unit, whole);
    if (!memory)
        return NULL;
    if (unit == HUGE_BYTES) /* a hint: refusing it costs speed only */
        madvise(memory, whole, MADV_HUGEPAGE);
    memset(memory, 0, whole);
    return memory;
}

static void host_release(void *memory)
{
    free(memory);
}

/* Empty tensors may be NULL, which memcpy does not allow. */
static void host_copy(void *to, const void *from, size_t bytes)
{
    if (bytes)
        memcpy(to, from, bytes);
}

const struct ri_device ri_device_host = {
    .name = "host",
    .alloc = host_alloc,
    .release = host_release,
    .copy = host_copy,
};
