/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_FEATURES_H
#define TEST_FEATURES_H

#include "tests/e2e/oracle.h"

#include <rondo/rondo.h>

/* Attention with soft-cap, sinks and dropout. */
struct features {
    float softcap, dropout;
    uint64_t seed;
    const float *sinks;  /* [q_heads]; NULL: none */
    double *d_sinks;     /* [q_heads], written; NULL: not wanted */
};

/* Answers of the whole problem, by plain loops in double from the definition: o, lse, dq, dk and dv of p. */
void features_solve(struct problem *p, const struct features *f);

/* Plain loops in double, for every type and with all that a kernel can be asked for. */
extern const rondo_kernel_t features_kernel;
/* The same, but that it does not merge. */
extern const rondo_kernel_t features_partial_kernel;

/* Numbers of type: what a caller would have. */
void features_narrow(void *to, rondo_dtype_t type, const float *from, size_t count);
/* NULL stays NULL; exits when out of memory.  The caller frees. */
void *features_narrowed(rondo_dtype_t type, const float *from, size_t count);

#endif
