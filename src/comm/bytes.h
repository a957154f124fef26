/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_BYTES_H
#define RI_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* Numbers on the wire are little-endian, whatever the machine. */
static inline void ri_put(uint8_t *to, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t ri_get(const uint8_t *from, size_t bytes)
{
    uint64_t value = 0;

    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << (8 * i);
    return value;
}

/* FNV-1a, 64 bits.  Every step is a bijection of the state, so one changed byte always shows. */
static inline uint64_t ri_fnv(uint64_t state, const void *data, size_t bytes)
{
    const uint8_t *at = data;

    for (size_t i = 0; i < bytes; i++)
        state = (state ^ at[i]) * 0x100000001b3u;
    return state;
}

#define RI_FNV_START 0xcbf29ce484222325u

/* Two hashes from different starts; not for secrets. */
static inline void ri_hash16(const void *data, size_t bytes, uint8_t hash[16])
{
    ri_put(hash, ri_fnv(RI_FNV_START, data, bytes), 8);
    ri_put(hash + 8, ri_fnv(0x6c62272e07bb0142u, data, bytes), 8);
}

#endif
