/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_DEVICE_H
#define RI_DEVICE_H

#include <stddef.h>

/* Where memory lives.  Today: the host.  alloc gives zeroed memory, 64-byte aligned, or NULL. */
struct ri_device {
    const char *name;
    void *(*alloc)(size_t bytes);
    void (*release)(void *memory); /* NULL is a no-op */
    void (*copy)(void *to, const void *from, size_t bytes);
};

extern const struct ri_device ri_device_host;

#endif
