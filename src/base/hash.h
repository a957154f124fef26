/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_HASH_H
#define RI_HASH_H

#include <stdint.h>

/* Mixes one number into a hash, which starts from 0; order counts.  Not for secrets. */
static inline uint64_t ri_mix(uint64_t hash, int64_t value)
{
    hash = (hash ^ (uint64_t)value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

#endif
