/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT_BYTES = 64 };

/* No bytes give one aligned unit, so that NULL always means failure.  Writing the zeroes here also
 * takes the page faults here, not while a plan runs. */
static void *host_alloc(size_t bytes)
{
    size_t whole;
    void *memory;

    if (bytes > PTRDIFF_MAX - ALIGNMENT_BYTES)
        return NULL;
    whole = (bytes / ALIGNMENT_BYTES + (bytes % ALIGNMENT_BYTES != 0 || bytes == 0)) *
            ALIGNMENT_BYTES;
    memory = aligned_alloc(ALIGNMENT_BYTES, whole);
    if (memory)
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
