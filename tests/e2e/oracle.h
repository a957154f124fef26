/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_ORACLE_H
#define TEST_ORACLE_H

#include <stdint.h>

/* One attention problem over the whole sequence, and its answer in double on one rank, straight from
 * the definition: it shares no code with the library. */
struct problem {
    int64_t batch, tokens;
    int causal;
    int q_heads, kv_heads, qk_dim, v_dim;
    float *q, *k, *v, *d_o;                 /* [batch][tokens][heads][dim], unit variance */
    double *o, *lse, *dq, *dk, *dv;         /* lse: [batch][tokens][q_heads] */
};

/* Fills inputs from the seed and computes the answers.  Exits when out of memory. */
void problem_init(struct problem *p, uint64_t seed);
/* Computes the answers again, after inputs were changed. */
void problem_solve(struct problem *p);
void problem_release(struct problem *p);

/* The next number of a small generator: uniform in (0, 1), and normal with unit variance. */
double next_uniform(uint64_t *state);
double next_normal(uint64_t *state);

#endif
