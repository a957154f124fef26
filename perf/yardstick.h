/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_YARDSTICK_H
#define PERF_YARDSTICK_H

#include "crew.h"

/* What a kernel's speed is held against: a matrix product of the machine's BLAS, and the most that its
 * multiply-adds can do. */

/* Holds the yardsticks to the vectors that a kernel of this name is held to ("flash-avx2"), or else to all that
 * the CPU has.  A BLAS that is older than the CPU may take it for a much lesser one: then the program is started
 * again, by its arguments, with OPENBLAS_CORETYPE, unless that is set already. */
void yardstick_choose(const char *kernel, char **argv);

/* NULL: yardstick_sgemm works.  Else why it does not. */
const char *yardstick_no_sgemm(void);

/* Which library, in words. */
const char *yardstick_sgemm_name(void);

/* The library takes so many threads from now on. */
void yardstick_sgemm_threads(int threads);

struct yardstick {
    int size;          /* of the square matrices */
    float *a, *b, *c;
    struct crew *crew; /* for the multiply-adds; borrowed */
};

/* 0, or -1: no memory.  Release it after a failure too. */
int yardstick_init(struct yardstick *y, int size, struct crew *crew);
void yardstick_release(struct yardstick *y);

/* GFLOP/s of one product, whose result is looked at; 0: it was wrong. */
double yardstick_sgemm(struct yardstick *y);

/* GFLOP/s of independent chains of multiply-adds, of the widest vectors that are chosen, in each thread
 * of the crew; 0: a result was wrong, so that the loop was not what ran. */
double yardstick_fma(struct yardstick *y);

/* Which vectors, in words. */
const char *yardstick_fma_name(void);

#endif
