/* SPDX-License-Identifier: Apache-2.0 */
/* The one place where tokens, heads and masks become bytes and seconds. */
#include "plan/cost.h"

#include "plan/plan.h"

static int is_element(enum ri_pass_kind kind, enum ri_tensor tensor)
{
    return tensor != RI_T_LSE && tensor != RI_T_DELTA && !ri_tensor_is_sum(kind, tensor);
}

/* Of an element that moves. */
static int moved_bytes(const struct ri_problem *problem, enum ri_pass_kind kind, enum ri_tensor tensor)
{
    int lies = is_element(kind, tensor) ? problem->element_bytes : (int)sizeof(float);

    return lies == (int)sizeof(float) && problem->wire && problem->wire->type[tensor] != RONDO_F32 ? 2 : lies;
}

/* Of the rank with most tokens. */
static double block_bytes(const struct ri_problem *problem, enum ri_pass_kind kind,
                          enum ri_bundle bundle)
{
    int64_t all = ri_bundle_side(bundle) == RI_KEYS ? problem->kv_tokens : problem->tokens;
    int64_t tokens = (all + problem->ranks - 1) / problem->ranks;
    const enum ri_tensor *t;
    double bytes = 0;

    for (t = ri_bundle_tensors(kind, bundle, problem->needs_o); *t != RI_TENSORS; t++) {
        struct ri_shape shape = ri_tensor_shape(problem->desc, *t);

        bytes += (double)problem->desc->batch * (double)tokens * shape.heads * shape.dim *
                 moved_bytes(problem, kind, *t);
    }
    return bytes;
}

/* Two products forward, five backward; a multiply-add is two operations. */
static double pair_operations(const rondo_attention_desc_t *desc, enum ri_pass_kind kind)
{
    double qk = desc->qk_dim, v = desc->v_dim;
    double of_dims = kind == RI_FORWARD ? qk + v : 3 * qk + 2 * v;

    return 2 * of_dims * desc->q_heads * (double)desc->batch;
}

void ri_problem_cost(const struct ri_problem *problem, enum ri_pass_kind kind, struct ri_cost *cost)
{
    double pairs = problem->pairs / problem->ranks / problem->ranks; /* of a pair of blocks */

    for (int bundle = 0; bundle < RI_BUNDLES; bundle++)
        cost->block[bundle] = block_bytes(problem, kind, (enum ri_bundle)bundle);
    cost->compute_seconds = pairs * pair_operations(problem->desc, kind) / problem->flops;
    cost->seconds_per_unit = 2 / cost->lane[RI_LANE_LOCAL].bandwidth; /* read and written */
}
