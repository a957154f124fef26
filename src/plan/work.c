/* SPDX-License-Identifier: Apache-2.0 */
/* What COMPUTE, COPY and MERGE steps do to memory. */
#include <math.h>

#include "base/status.h"
#include "device/device.h"
#include "kernels/table.h"
#include "plan/chunks.h"

/* A tensor of an operand of one block, from its first token on. */
static rondo_tensor_t view(const struct ri_run *run, const struct ri_operand *operand,
                           enum ri_tensor tensor)
{
    const struct ri_plan *plan = run->pass->plan;
    struct ri_region region;

    if (operand->slot < 0)
        return (rondo_tensor_t){ NULL, 0, 0, 0 };
    region = ri_operand_region(plan, run->pass->schedule, operand);
    return ri_region_view(run->pass, tensor, run->slots[operand->slot][tensor], &region);
}

/* One chunk of as many of an operand. */
struct chunk {
    uint32_t count, number;
};

static struct ri_region region_of(const struct ri_run *run, const struct ri_operand *operand,
                                  const struct chunk *chunk)
{
    struct ri_region region = ri_operand_region(run->pass->plan, run->pass->schedule, operand);

    return ri_chunks_cut(chunk->count, &region, chunk->number);
}

static struct ri_rows rows_of(const struct ri_run *run, const struct ri_operand *operand,
                              enum ri_tensor tensor, const struct chunk *chunk)
{
    struct ri_region region = region_of(run, operand, chunk);

    return ri_region_rows(&run->pass->plan->desc, tensor, ri_pass_type(run->pass, tensor),
                          run->slots[operand->slot][tensor], &region);
}

static const enum ri_tensor *tensors_of(const struct ri_run *run, const struct ri_operand *operand)
{
    return ri_pass_tensors(run->pass, run->pass->schedule->slots[operand->slot].bundle);
}

/* Makes an accumulated operand empty: (0, -inf), or 0. */
static void empty_block(const struct ri_run *run, const struct ri_operand *operand)
{
    const struct chunk all = { 1, 0 };
    const enum ri_tensor *t;

    for (t = tensors_of(run, operand); *t != RI_TENSORS; t++) {
        struct ri_rows rows = rows_of(run, operand, *t, &all);
        float value = *t == RI_T_LSE ? -INFINITY : 0;

        for (size_t row = 0; row < rows.rows; row++) {
            float *data = (float *)(void *)(rows.base + row * rows.row_stride);

            for (size_t i = 0; i < rows.row_bytes / sizeof(float); i++)
                data[i] = value;
        }
    }
}

static void empty(const struct ri_run *run, const struct ri_operand *operand)
{
    for (int b = 0; b < operand->blocks; b++) {
        struct ri_operand block = ri_operand_block(operand, b);

        empty_block(run, &block);
    }
}

/* A partial result, or a running one. */
struct output {
    rondo_tensor_t o, lse;
};

/* The first element of row (batch b, head h) from token `first` on. */
static float *row_at(const rondo_tensor_t *t, int64_t b, int h, int64_t first)
{
    return (float *)t->data + b * t->batch_stride + first * t->token_stride + h * t->head_stride;
}

/* Folds queries [first, first + count) of a partial into the running output. */
static void merge_lse(const struct ri_plan *plan, const struct output *to, const struct output *from,
                      int64_t first, int64_t count)
{
    for (int64_t b = 0; b < plan->desc.batch; b++)
        for (int h = 0; h < plan->desc.q_heads; h++)
            ri_merge_lse(row_at(&to->o, b, h, first), to->o.token_stride, row_at(&to->lse, b, h, first),
                         to->lse.token_stride, row_at(&from->o, b, h, first), from->o.token_stride,
                         row_at(&from->lse, b, h, first), from->lse.token_stride, count,
                         plan->desc.v_dim);
}

/* The operands of a piece: those of its step, of one block each. */
struct operands {
    struct ri_operand q, k, q_side, k_side;
};

static struct operands operands_of(const struct ri_step *step, const struct ri_piece *piece)
{
    struct operands all = { ri_operand_block(&step->from[0], piece->q_block),
                            ri_operand_block(&step->from[1], piece->k_block), ri_none, ri_none };

    if (step->to[0].slot >= 0)
        all.q_side = ri_operand_block(&step->to[0], piece->q_block);
    if (step->to[1].slot >= 0)
        all.k_side = ri_operand_block(&step->to[1], piece->k_block);
    return all;
}

static int64_t tokens_of(const struct ri_run *run, const struct ri_operand *operand)
{
    return ri_operand_region(run->pass->plan, run->pass->schedule, operand).count;
}

static int compute_forward(struct ri_run *run, const struct operands *at, const struct ri_piece *piece)
{
    const struct ri_plan *plan = run->pass->plan;
    rondo_kernel_forward_t args = {
        .struct_bytes = sizeof(args), .shape = &plan->shape,
        .tiles = run->pass->tiles + piece->first_tile, .tile_count = (int)piece->tile_count,
        .q_tokens = tokens_of(run, &at->q), .k_tokens = tokens_of(run, &at->k),
        .q = view(run, &at->q, RI_T_Q), .k = view(run, &at->k, RI_T_K),
        .v = view(run, &at->k, RI_T_V), .o = view(run, &at->q_side, RI_T_O),
        .lse = view(run, &at->q_side, RI_T_LSE),
        .workspace = plan->pool->scratch[RI_WORKSPACE].memory, .stream = run->stream,
        .seed = run->seed, .poll = plan->place.poll, .poller = plan->place.poller,
    };
    struct output to = { args.o, args.lse }, from;
    int err;

    if (plan->kernel.flags & RONDO_KERNEL_MERGES)
        return plan->kernel.forward(plan->kernel.context, &args);
    args.o = ri_tensor_view(&plan->desc, RI_T_O, plan->pool->scratch[RI_PARTIAL_O].memory, args.q_tokens);
    args.lse = ri_tensor_view(&plan->desc, RI_T_LSE, plan->pool->scratch[RI_PARTIAL_LSE].memory, args.q_tokens);
    from = (struct output){ args.o, args.lse };
    err = plan->kernel.forward(plan->kernel.context, &args);
    if (!err)
        merge_lse(plan, &to, &from, args.tiles->q_first, args.tiles->q_count);
    return err;
}

static int compute_backward(struct ri_run *run, const struct operands *at,
                            const struct ri_piece *piece)
{
    const struct ri_plan *plan = run->pass->plan;
    rondo_kernel_backward_t args = {
        .struct_bytes = sizeof(args), .shape = &plan->shape,
        .tiles = run->pass->tiles + piece->first_tile, .tile_count = (int)piece->tile_count,
        .q_tokens = tokens_of(run, &at->q), .k_tokens = tokens_of(run, &at->k),
        .q = view(run, &at->q, RI_T_Q), .k = view(run, &at->k, RI_T_K), .v = view(run, &at->k, RI_T_V),
        .o = view(run, &at->q, RI_T_O), .d_o = view(run, &at->q, RI_T_D_O),
        .lse = view(run, &at->q, RI_T_LSE), .delta = view(run, &at->q, RI_T_DELTA),
        .dq = view(run, &at->q_side, RI_T_DQ), .dk = view(run, &at->k_side, RI_T_DK),
        .dv = view(run, &at->k_side, RI_T_DV),
        .workspace = plan->pool->scratch[RI_WORKSPACE].memory, .stream = run->stream,
        .seed = run->seed, .poll = plan->place.poll, .poller = plan->place.poller,
    };

    return plan->kernel.backward(plan->kernel.context, &args);
}

static int compute(struct ri_run *run, uint32_t index, uint32_t piece)
{
    const struct ri_pass *pass = run->pass;
    const struct ri_step *step = &pass->schedule->steps[index];
    uint32_t at = pass->first_piece[index] + piece;
    struct operands operands;
    int err;

    for (int side = 0; piece == 0 && side < 2; side++)
        if (step->to[side].slot >= 0 && (step->stores >> side & 1))
            empty(run, &step->to[side]);
    if (at >= pass->first_piece[index + 1])
        return 0; /* no tile is live */
    operands = operands_of(step, &pass->work[at]);
    err = pass->kind == RI_FORWARD ? compute_forward(run, &operands, &pass->work[at])
                                   : compute_backward(run, &operands, &pass->work[at]);
    if (err)
        return ri_error(RONDO_ERR_KERNEL, "kernel %s returned %d in %s step %u",
                        pass->plan->kernel.name, err, pass->schedule->name, index);
    run->pairs += (uint64_t)pass->work[at].pairs;
    return 0;
}

/* COPY, and MERGE into an empty target, are copies. */
static void copy(struct ri_run *run, const struct ri_operand *from, const struct ri_operand *to,
                 const struct chunk *chunk)
{
    const enum ri_tensor *t;

    for (t = tensors_of(run, from); *t != RI_TENSORS; t++) {
        struct ri_rows source = rows_of(run, from, *t, chunk), target = rows_of(run, to, *t, chunk);

        for (size_t row = 0; row < source.rows; row++)
            ri_device_host.copy(target.base + row * target.row_stride,
                                source.base + row * source.row_stride, source.row_bytes);
        if (run->shadows[to->slot][*t] && !ri_tensor_is_sum(run->pass->kind, *t)) {
            struct ri_region region = region_of(run, to, chunk);

            ri_wire_shade(run, to->slot, *t, &region);
        }
    }
}

static void merge_sum(struct ri_run *run, const struct ri_operand *from, const struct ri_operand *to,
                      const struct chunk *chunk)
{
    const enum ri_tensor *t;

    for (t = tensors_of(run, from); *t != RI_TENSORS; t++) {
        struct ri_rows source = rows_of(run, from, *t, chunk), target = rows_of(run, to, *t, chunk);

        for (size_t row = 0; row < source.rows; row++)
            ri_merge_sum_f32((float *)(void *)(target.base + row * target.row_stride),
                             (const float *)(const void *)(source.base + row * source.row_stride),
                             source.row_bytes / sizeof(float));
    }
}

static void merge_block(struct ri_run *run, enum ri_merge how, const struct ri_operand *from,
                        const struct ri_operand *to, const struct chunk *chunk)
{
    if (how == RI_MERGE_LSE) {
        struct ri_region all = ri_operand_region(run->pass->plan, run->pass->schedule, from);
        struct ri_region part = region_of(run, from, chunk);
        struct output target = { view(run, to, RI_T_O), view(run, to, RI_T_LSE) };
        struct output source = { view(run, from, RI_T_O), view(run, from, RI_T_LSE) };

        merge_lse(run->pass->plan, &target, &source, part.first - all.first, part.count);
        return;
    }
    merge_sum(run, from, to, chunk);
}

int ri_run_work(void *owner, uint32_t index, uint32_t piece)
{
    struct ri_run *run = owner;
    const struct ri_step *step = &run->pass->schedule->steps[index];
    struct chunk chunk = { 1, piece };

    if (step->op == RI_COMPUTE)
        return compute(run, index, piece);
    if (step->op == RI_MERGE)
        chunk.count = ri_chunks_of_merge(run->pass, step);
    for (int b = 0; b < step->from[0].blocks; b++) {
        struct ri_operand from = ri_operand_block(&step->from[0], b);
        struct ri_operand to = ri_operand_block(&step->to[0], b);

        if (step->op == RI_MERGE && !(step->stores & 1))
            merge_block(run, (enum ri_merge)step->merge, &from, &to, &chunk);
        else
            copy(run, &from, &to, &chunk);
    }
    return 0;
}
