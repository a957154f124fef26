/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_KERNEL_DROPOUT_H
#define RI_KERNEL_DROPOUT_H

#include <stdint.h>

/* Which weights dropout keeps: seven rounds of Philox 2x32 (Salmon et al., Parallel random numbers: as easy as
 * 1, 2, 3, 2011), whose key and part of whose counter say seed, batch row and query head. */
enum { RI_DROPOUT_ROUNDS = 7 };
#define RI_DROPOUT_MULTIPLIER 0xd256d193u
#define RI_DROPOUT_WEYL 0x9e3779b9u

static inline uint64_t ri_dropout_mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* What all weights of one row of the batch and one query head have in common. */
static inline uint64_t ri_dropout_stream(uint64_t seed, int64_t batch, int q_head)
{
    uint64_t x = ri_dropout_mix(seed + 0x9e3779b97f4a7c15u * ((uint64_t)batch + 1));

    return ri_dropout_mix(x + 0x9e3779b97f4a7c15u * ((uint64_t)q_head + 1));
}

/* Weights whose word is below it are dropped. */
static inline uint32_t ri_dropout_threshold(float dropout)
{
    return (uint32_t)((double)dropout * 4294967296.0);
}

static inline uint32_t ri_dropout_word(uint64_t stream, int64_t q_position, int64_t k_position)
{
    uint32_t x = (uint32_t)q_position ^ (uint32_t)(stream >> 32), y = (uint32_t)k_position;
    uint32_t key = (uint32_t)stream;

    for (int round = 0; round < RI_DROPOUT_ROUNDS; round++) {
        uint64_t product = (uint64_t)x * RI_DROPOUT_MULTIPLIER;

        x = (uint32_t)(product >> 32) ^ key ^ y;
        y = (uint32_t)product;
        key += RI_DROPOUT_WEYL;
    }
    return x;
}

#endif
