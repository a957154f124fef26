/* SPDX-License-Identifier: Apache-2.0 */
/* A plan for attention: both passes, what they share, and the caller's tensors of one call. */
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "device/device.h"
#include "kernels/table.h"

static int64_t largest_shard(const struct rondo_layout *layout)
{
    int64_t largest = 0;

    for (int r = 0; r < layout->ranks; r++)
        if (ri_layout_tokens(layout, r) > largest)
            largest = ri_layout_tokens(layout, r);
    return largest;
}

/* What the kernel needs beside the blocks. */
static int allocate_scratch(struct ri_plan *plan, int backward)
{
    size_t workspace = 0;

    if (plan->kernel.workspace_bytes)
        workspace = plan->kernel.workspace_bytes(plan->kernel.context, &plan->shape);
    plan->workspace = ri_device_host.alloc(workspace);
    if (!plan->workspace)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %zu bytes of kernel workspace", workspace);
    if (!(plan->kernel.flags & RONDO_KERNEL_MERGES)) {
        plan->partial_o = ri_device_host.alloc(ri_tensor_bytes(&plan->desc, RI_T_O, plan->max_tokens));
        plan->partial_lse = ri_device_host.alloc(ri_tensor_bytes(&plan->desc, RI_T_LSE, plan->max_tokens));
        if (!plan->partial_o || !plan->partial_lse)
            return ri_error(RONDO_ERR_MEMORY, "out of memory for partial outputs");
    }
    if (backward && !(plan->kernel.flags & RONDO_KERNEL_NEEDS_O)) {
        plan->delta = ri_device_host.alloc(ri_tensor_bytes(&plan->desc, RI_T_DELTA, plan->max_tokens));
        if (!plan->delta)
            return ri_error(RONDO_ERR_MEMORY, "out of memory for delta");
    }
    return 0;
}

static int init_pass(struct ri_plan *plan, enum ri_pass_kind kind, ri_builder *build)
{
    int err = ri_pass_init(&plan->pass[kind], plan, kind, build);

    return err ? err : ri_run_init(&plan->run[kind], &plan->pass[kind]);
}

int ri_plan_create(const struct ri_place *place, uint32_t number, const struct rondo_layout *layout,
                   const rondo_attention_desc_t *desc, const struct ri_choice *choice,
                   const rondo_kernel_t *kernel, struct ri_plan **plan_p)
{
    struct ri_plan *plan = calloc(1, sizeof(*plan));
    int err;

    if (!plan)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for a plan");
    plan->place = *place;
    plan->number = number;
    plan->layout = *layout;
    plan->desc = *desc;
    plan->kernel = *kernel;
    plan->max_tokens = largest_shard(layout);
    plan->shape = (rondo_kernel_shape_t){
        .struct_bytes = sizeof(plan->shape), .dtype = desc->dtype, .batch = desc->batch,
        .q_heads = desc->q_heads, .kv_heads = desc->kv_heads, .qk_dim = desc->qk_dim,
        .v_dim = desc->v_dim, .scale = desc->scale, .max_q_tokens = plan->max_tokens,
        .max_k_tokens = plan->max_tokens,
    };
    err = allocate_scratch(plan, choice->build[RI_BACKWARD] != NULL);
    for (int i = 0; !err && i < RI_PASSES; i++)
        if (choice->build[i])
            err = init_pass(plan, (enum ri_pass_kind)i, choice->build[i]);
    if (err) {
        ri_plan_destroy(plan);
        return err;
    }
    *plan_p = plan;
    return 0;
}

void ri_plan_destroy(struct ri_plan *plan)
{
    if (!plan)
        return;
    for (int i = 0; i < RI_PASSES; i++) {
        ri_run_release(&plan->run[i]);
        ri_pass_release(&plan->pass[i]);
    }
    ri_device_host.release(plan->workspace);
    ri_device_host.release(plan->partial_o);
    ri_device_host.release(plan->partial_lse);
    ri_device_host.release(plan->delta);
    free(plan);
}

/* ---- one call ---- */

int ri_plan_start_forward(struct ri_plan *plan, const rondo_attention_fwd_t *tensors, void *stream,
                          struct ri_run **run_p)
{
    struct ri_run *run = &plan->run[RI_FORWARD];

    *run_p = run;
    ri_run_bind(run, RI_T_Q, tensors->q);
    ri_run_bind(run, RI_T_K, tensors->k);
    ri_run_bind(run, RI_T_V, tensors->v);
    ri_run_bind(run, RI_T_O, tensors->o);
    ri_run_bind(run, RI_T_LSE, tensors->lse);
    return ri_run_start(run, plan->starts[RI_FORWARD]++, stream);
}

/* delta = rowsum(O * dO), [batch][q_heads][n]. */
static void fill_delta(struct ri_plan *plan, const rondo_attention_bwd_t *tensors)
{
    int64_t n = ri_layout_tokens(&plan->layout, plan->place.rank);
    int heads = plan->desc.q_heads, dim = plan->desc.v_dim;
    int64_t row = (int64_t)heads * dim;

    for (int64_t b = 0; b < plan->desc.batch; b++)
        for (int h = 0; h < heads; h++)
            ri_delta(plan->delta + (b * heads + h) * n, 1,
                     (const float *)tensors->o + b * n * row + h * dim, row,
                     (const float *)tensors->d_o + b * n * row + h * dim, row, n, dim);
}

int ri_plan_start_backward(struct ri_plan *plan, const rondo_attention_bwd_t *tensors, void *stream,
                           struct ri_run **run_p)
{
    struct ri_run *run = &plan->run[RI_BACKWARD];

    *run_p = run;
    if (plan->delta && ri_layout_tokens(&plan->layout, plan->place.rank) > 0)
        fill_delta(plan, tensors);
    ri_run_bind(run, RI_T_Q, tensors->q);
    ri_run_bind(run, RI_T_K, tensors->k);
    ri_run_bind(run, RI_T_V, tensors->v);
    ri_run_bind(run, RI_T_O, plan->delta ? NULL : tensors->o);
    ri_run_bind(run, RI_T_DELTA, plan->delta);
    ri_run_bind(run, RI_T_LSE, tensors->lse);
    ri_run_bind(run, RI_T_D_O, tensors->d_o);
    ri_run_bind(run, RI_T_DQ, tensors->dq);
    ri_run_bind(run, RI_T_DK, tensors->dk);
    ri_run_bind(run, RI_T_DV, tensors->dv);
    return ri_run_start(run, plan->starts[RI_BACKWARD]++, stream);
}

/* ---- what it has done, and in words ---- */

void ri_plan_stats(const struct ri_plan *plan, rondo_plan_stats_t *stats)
{
    *stats = (rondo_plan_stats_t)RONDO_PLAN_STATS_INIT;
    stats->forwards = plan->calls[RI_FORWARD];
    stats->backwards = plan->calls[RI_BACKWARD];
    for (int i = 0; i < RI_PASSES; i++) {
        const struct ri_run *run = &plan->run[i];
        const struct ri_engine_stats *from = run->engine ? ri_engine_stats(run->engine) : NULL;

        if (!from)
            continue;
        for (int lane = 0; lane < RI_LANES; lane++) {
            stats->sent_bytes[lane] += from->sent_bytes[lane];
            stats->received_bytes[lane] += from->received_bytes[lane];
        }
        stats->pairs += run->pairs;
        stats->compute_seconds += from->compute_seconds;
        stats->move_seconds += from->move_seconds;
        stats->exposed_seconds += from->exposed_seconds;
    }
}

static void print_head(FILE *out, const struct ri_plan *plan)
{
    const rondo_attention_desc_t *d = &plan->desc;

    for (int i = 0; i < RI_PASSES; i++)
        if (plan->pass[i].schedule)
            fprintf(out, "%s: schedule %s, %u steps, %u turns, %zu bytes of blocks in flight\n",
                    i == RI_FORWARD ? "forward" : "backward", plan->pass[i].schedule->name,
                    plan->pass[i].schedule->step_count, plan->pass[i].schedule->turns,
                    plan->pass[i].slots_bytes);
    fprintf(out, "layout: %s, %lld tokens over %d ranks, %lld on rank %d\n",
            rondo_layout_kind_name(plan->layout.kind), (long long)plan->layout.tokens,
            plan->place.ranks, (long long)ri_layout_tokens(&plan->layout, plan->place.rank),
            plan->place.rank);
    fprintf(out,
            "attention: %s mask, batch %lld, %d query heads, %d key heads, head sizes %d and %d, "
            "scale %g\n",
            d->mask == RONDO_MASK_CAUSAL ? "causal" : "full", (long long)d->batch, d->q_heads,
            d->kv_heads, d->qk_dim, d->v_dim, (double)d->scale);
    fprintf(out, "kernel: %s\ntransport: %s\n", plan->kernel.name,
            plan->place.transport->ops->name);
}

char *ri_plan_text(const struct ri_plan *plan)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    if (!out)
        return NULL;
    print_head(out, plan);
    for (int i = 0; i < RI_PASSES; i++) {
        char *schedule = plan->pass[i].schedule ? ri_schedule_print(plan->pass[i].schedule) : NULL;

        if (schedule)
            fprintf(out, "\n%s", schedule);
        free(schedule);
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
