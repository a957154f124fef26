/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_RANDOM_H
#define TRAIN_RANDOM_H

#include <math.h>
#include <stdint.h>

/* splitmix64: any 64-bit state gives good bits, so that (seed, step) can be hashed by it as well.
 * Equal on every machine, which the ranks rely on. */
static inline uint64_t random_bits(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* In [0, 1). */
static inline double random_unit(uint64_t *state)
{
    return (double)(random_bits(state) >> 11) * 0x1p-53;
}

/* Mean 0, deviation 1 (Box-Muller, the cosine half). */
static inline double random_normal(uint64_t *state)
{
    double radius = sqrt(-2.0 * log(1.0 - random_unit(state)));

    return radius * cos(6.283185307179586 * random_unit(state));
}

/* A stream of its own for each (seed, index). */
static inline uint64_t random_stream(uint64_t seed, uint64_t index)
{
    uint64_t state = seed;

    state = random_bits(&state) ^ index;
    return random_bits(&state);
}

#endif
