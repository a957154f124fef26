/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_EXACT_H
#define RI_EXACT_H

#include "plan/plan.h"

/* What one rank's outputs must be, in fp64 and by plain loops over the whole sequence, which share nothing
 * with kernels, tiles and schedules: positions of layouts and the mask's definition say who sees whom. */

/* An output in the shape of the caller's.  An fp32 result may differ by size, the sum of the magnitudes
 * that went into the element, times the roundings that they suffered: by RI_EXACT_RELATIVE of it.  An fp32 number
 * is rounded by 2^-24 of its size; sums of a few thousand products, in whatever order, stay within 170 such
 * roundings.  Sizes count how scores' errors grow in exp, and the rounding to another type. */
struct ri_expected {
    double *value, *size; /* [count] */
    int64_t count;
};

#define RI_EXACT_RELATIVE 1e-5

struct ri_exact_place {
    int rank;
    int64_t index;
};

struct ri_exact {
    const struct ri_sight *sight; /* borrowed: the plan's, which is not bound anew before the run has ended */
    rondo_attention_desc_t desc; /* defaults filled in */
    enum ri_pass_kind kind;
    int rank;                    /* whose outputs */
    uint64_t seed;               /* of dropout; the caller's to set */
    const float *sinks;          /* [q_heads] likewise; NULL: none */
    int64_t *tokens[RI_SIDES];   /* [ranks] */
    void **shards;               /* [ranks] inputs of each rank, one behind the other as ri_exact_inputs says, of
                                  * the caller's type; solving makes them fp32 */
    double rounding;             /* to the caller's type, as a multiple of RI_EXACT_RELATIVE; 0: fp32 */
    struct ri_exact_place *places[RI_SIDES]; /* [tokens of the side] who holds a position */
    struct ri_expected expected[RI_TENSORS]; /* O and LSE; of a backward also DQ, DK and DV */
    struct ri_expected d_sinks;  /* [q_heads] of the rank's queries, in the backward of a plan with sinks, else none */
};

/* The tensors that a rank's inputs are, ends with RI_TENSORS: q, k, v, and d_o of a backward. */
const enum ri_tensor *ri_exact_inputs(enum ri_pass_kind kind);
size_t ri_exact_input_bytes(const struct ri_sight *sight, const rondo_attention_desc_t *desc,
                            enum ri_pass_kind kind, int rank);

/* Memory for the inputs of all ranks and the outputs of one: O(sequence).  The caller fills shards. */
int ri_exact_create(const struct ri_sight *sight, const rondo_attention_desc_t *desc,
                    enum ri_pass_kind kind, int rank, struct ri_exact **exact);
void ri_exact_destroy(struct ri_exact *exact);

/* Computes expected; the inputs are freed. */
int ri_exact_solve(struct ri_exact *exact);

#endif
