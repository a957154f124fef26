/* SPDX-License-Identifier: Apache-2.0 */
/* What the trainer's tests share: seeded data and comparisons with a double. */
#ifndef TRAIN_CHECK_H
#define TRAIN_CHECK_H

#include "tests/helper.h"

#include <math.h>
#include <string.h>

#include "examples/train/random.h"

/* count normal values, in float and as the same values in double. */
static inline void check_fill(float *x, double *y, int64_t count, uint64_t seed)
{
    uint64_t state = seed;

    for (int64_t i = 0; i < count; i++) {
        x[i] = (float)random_normal(&state);
        y[i] = (double)x[i];
    }
}

/* |x - y| <= tolerance * (1 + |y|), for one value. */
static inline void check_close(double x, double y, double tolerance, const char *what, int64_t at)
{
    if (!(fabs(x - y) <= tolerance * (1.0 + fabs(y))))
        fail_msg("%s[%lld] is %.9g, expected %.9g", what, (long long)at, x, y);
}

static inline void check_all_close(const float *x, const double *y, int64_t count,
                                   double tolerance, const char *what)
{
    for (int64_t i = 0; i < count; i++)
        check_close((double)x[i], y[i], tolerance, what, i);
}

#endif
