/* SPDX-License-Identifier: Apache-2.0 */
/* What COMPUTE, COPY and MERGE steps do to memory. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "device/device.h"
#include "kernels/table.h"
#include "plan/plan.h"

/* A tensor of a slot that holds a block of `tokens` tokens. */
static rondo_tensor_t view(const struct ri_run *run, const struct ri_operand *operand,
                           enum ri_tensor tensor)
{
    const struct ri_plan *plan = run->pass->plan;
    int64_t tokens = ri_block_tokens(plan, run->pass->schedule, operand->block);

    return ri_tensor_view(&plan->desc, tensor, run->slots[operand->slot][tensor], tokens);
}

/* Makes an accumulated operand empty: (0, -inf), or 0. */
static void empty(const struct ri_run *run, const struct ri_operand *operand)
{
    const struct ri_pass *pass = run->pass;
    const struct ri_plan *plan = pass->plan;
    int64_t tokens = ri_block_tokens(plan, pass->schedule, operand->block);
    enum ri_bundle bundle = pass->schedule->slots[operand->slot].bundle;
    const enum ri_tensor *t;

    for (t = ri_bundle_tensors(pass->kind, bundle); *t != RI_TENSORS; t++) {
        float *data = run->slots[operand->slot][*t];
        size_t bytes = ri_tensor_bytes(&plan->desc, *t, tokens);

        if (bytes == 0)
            continue;
        if (*t != RI_T_LSE) {
            memset(data, 0, bytes);
            continue;
        }
        for (size_t i = 0; i < bytes / sizeof(float); i++)
            data[i] = -INFINITY;
    }
}

/* Folds queries [first, first + count) of a partial (o_i, lse_i) into (o, lse); same strides. */
static void merge_lse(const struct ri_plan *plan, rondo_tensor_t o, rondo_tensor_t lse,
                      const float *o_i, const float *lse_i, int64_t first, int64_t count)
{
    for (int64_t b = 0; b < plan->desc.batch; b++) {
        for (int h = 0; h < plan->desc.q_heads; h++) {
            int64_t at = b * o.batch_stride + first * o.token_stride + h * o.head_stride;
            int64_t lse_at = b * lse.batch_stride + first * lse.token_stride + h * lse.head_stride;

            ri_merge_lse((float *)o.data + at, o.token_stride, (float *)lse.data + lse_at,
                         lse.token_stride, o_i + at, o.token_stride, lse_i + lse_at,
                         lse.token_stride, count, plan->desc.v_dim);
        }
    }
}

static int compute_forward(struct ri_run *run, const struct ri_step *step,
                           const struct ri_piece *piece)
{
    const struct ri_pass *pass = run->pass;
    const struct ri_plan *plan = pass->plan;
    rondo_kernel_forward_t args = {
        .struct_bytes = sizeof(args), .shape = &plan->shape,
        .tiles = pass->tiles + piece->first_tile, .tile_count = (int)piece->tile_count,
        .q_tokens = ri_block_tokens(plan, pass->schedule, step->from[0].block),
        .k_tokens = ri_block_tokens(plan, pass->schedule, step->from[1].block),
        .q = view(run, &step->from[0], RI_T_Q), .k = view(run, &step->from[1], RI_T_K),
        .v = view(run, &step->from[1], RI_T_V), .o = view(run, &step->to[0], RI_T_O),
        .lse = view(run, &step->to[0], RI_T_LSE), .workspace = plan->pool->scratch[RI_WORKSPACE].memory,
        .stream = run->stream,
    };
    rondo_tensor_t o = args.o, lse = args.lse;
    int err;

    if (plan->kernel.flags & RONDO_KERNEL_MERGES)
        return plan->kernel.forward(plan->kernel.context, &args);
    args.o.data = plan->pool->scratch[RI_PARTIAL_O].memory;
    args.lse.data = plan->pool->scratch[RI_PARTIAL_LSE].memory;
    err = plan->kernel.forward(plan->kernel.context, &args);
    if (!err)
        merge_lse(plan, o, lse, args.o.data, args.lse.data, args.tiles->q_first,
                  args.tiles->q_count);
    return err;
}

static int compute_backward(struct ri_run *run, const struct ri_step *step,
                            const struct ri_piece *piece)
{
    const struct ri_pass *pass = run->pass;
    const struct ri_plan *plan = pass->plan;
    const struct ri_operand *q = &step->from[0], *k = &step->from[1];
    rondo_kernel_backward_t args = {
        .struct_bytes = sizeof(args), .shape = &plan->shape,
        .tiles = pass->tiles + piece->first_tile, .tile_count = (int)piece->tile_count,
        .q_tokens = ri_block_tokens(plan, pass->schedule, q->block),
        .k_tokens = ri_block_tokens(plan, pass->schedule, k->block),
        .q = view(run, q, RI_T_Q), .k = view(run, k, RI_T_K), .v = view(run, k, RI_T_V),
        .o = view(run, q, RI_T_O), .d_o = view(run, q, RI_T_D_O), .lse = view(run, q, RI_T_LSE),
        .delta = view(run, q, RI_T_DELTA), .dq = view(run, &step->to[0], RI_T_DQ),
        .dk = view(run, &step->to[1], RI_T_DK), .dv = view(run, &step->to[1], RI_T_DV),
        .workspace = plan->pool->scratch[RI_WORKSPACE].memory,
        .stream = run->stream,
    };

    return plan->kernel.backward(plan->kernel.context, &args);
}

static int compute(struct ri_run *run, uint32_t index, uint32_t piece)
{
    const struct ri_pass *pass = run->pass;
    const struct ri_step *step = &pass->schedule->steps[index];
    uint32_t at = pass->first_piece[index] + piece;
    int err;

    for (int side = 0; piece == 0 && side < 2; side++)
        if (step->to[side].slot >= 0 && (step->stores >> side & 1))
            empty(run, &step->to[side]);
    if (at >= pass->first_piece[index + 1])
        return 0; /* no tile is live */
    err = pass->kind == RI_FORWARD ? compute_forward(run, step, &pass->work[at])
                                   : compute_backward(run, step, &pass->work[at]);
    if (err)
        return ri_error(RONDO_ERR_KERNEL, "kernel %s returned %d in %s step %u",
                        pass->plan->kernel.name, err, pass->schedule->name, index);
    run->pairs += (uint64_t)pass->work[at].pairs;
    return 0;
}

/* COPY, and MERGE into an empty target, are copies. */
static void copy(struct ri_run *run, const struct ri_step *step)
{
    const struct ri_pass *pass = run->pass;
    const struct ri_operand *from = &step->from[0], *to = &step->to[0];
    int64_t tokens = ri_block_tokens(pass->plan, pass->schedule, from->block);
    enum ri_bundle bundle = pass->schedule->slots[from->slot].bundle;
    const enum ri_tensor *t;

    for (t = ri_bundle_tensors(pass->kind, bundle); *t != RI_TENSORS; t++) {
        size_t bytes = ri_tensor_bytes(&pass->plan->desc, *t, tokens);

        if (bytes > 0)
            ri_device_host.copy(run->slots[to->slot][*t], run->slots[from->slot][*t], bytes);
    }
}

static void merge(struct ri_run *run, const struct ri_step *step)
{
    const struct ri_pass *pass = run->pass;
    const struct ri_operand *from = &step->from[0], *to = &step->to[0];
    int64_t tokens = ri_block_tokens(pass->plan, pass->schedule, from->block);
    enum ri_bundle bundle = pass->schedule->slots[from->slot].bundle;
    const enum ri_tensor *t;

    if (step->merge == RI_MERGE_LSE) {
        merge_lse(pass->plan, view(run, to, RI_T_O), view(run, to, RI_T_LSE),
                  run->slots[from->slot][RI_T_O], run->slots[from->slot][RI_T_LSE], 0, tokens);
        return;
    }
    for (t = ri_bundle_tensors(pass->kind, bundle); *t != RI_TENSORS; t++)
        ri_merge_sum_f32(run->slots[to->slot][*t], run->slots[from->slot][*t],
                         ri_tensor_bytes(&pass->plan->desc, *t, tokens) / sizeof(float));
}

int ri_run_work(void *owner, uint32_t index, uint32_t piece)
{
    struct ri_run *run = owner;
    const struct ri_step *step = &run->pass->schedule->steps[index];

    if (step->op == RI_COMPUTE)
        return compute(run, index, piece);
    if (step->op == RI_MERGE && !(step->stores & 1))
        merge(run, step);
    else
        copy(run, step);
    return 0;
}
