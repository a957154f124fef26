/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_MINMAX_H
#define RI_MINMAX_H

#include <stddef.h>
#include <stdint.h>

static inline int ri_min(int a, int b)
{
    return a < b ? a : b;
}

static inline int ri_max(int a, int b)
{
    return a > b ? a : b;
}

static inline int64_t ri_min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t ri_max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline size_t ri_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The quotient, rounded up; b > 0.  C rounds towards zero, which is up for a negative one. */
static inline int64_t ri_divide_up(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

#endif
