/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_PLAN_COST_H
#define RI_PLAN_COST_H

#include "plan/choose.h"

/* What an attention call is to a schedule: numbers that plans and rondo-plan both know. */
struct ri_problem {
    int ranks;
    int64_t tokens, kv_tokens;          /* of queries, of keys */
    double pairs;                       /* visible, over all ranks */
    const rondo_attention_desc_t *desc; /* valid, defaults filled in */
    int needs_o;                        /* the kernel takes o in place of delta */
    int element_bytes;                  /* of q, k, v, d_o; sums, lse and delta have 4 */
    double flops;                       /* operations per second of one rank */
    const struct ri_wire *wire;         /* NULL: all travel as they lie */
};

/* Fills in what the problem says of *cost: blocks, compute and moves.  Links and launch are the
 * caller's, set before: moves take what the local link's bandwidth says, twice. */
void ri_problem_cost(const struct ri_problem *problem, enum ri_pass_kind kind,
                     struct ri_cost *cost);

#endif
