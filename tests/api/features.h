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

/* The same, but that its forward takes the threads it is given, a task for each row of the batch and head. */
extern const rondo_kernel_t features_threads_kernel;
/* The same, but that it computes delta from o. */
extern const rondo_kernel_t features_o_kernel;

/* Rounds to a type; there and back; and what it was exactly. */
void features_narrow(void *to, rondo_dtype_t type, const float *from, size_t count);
void features_round(rondo_dtype_t type, float *x, size_t count);
void features_widen(float *to, rondo_dtype_t type, const void *from, size_t count);
/* The inputs of a problem, so that callers of that type have exactly these. */
void features_round_problem(struct problem *p, rondo_dtype_t type);

#endif
