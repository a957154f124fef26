/* SPDX-License-Identifier: Apache-2.0 */
/* A plan for attention: both passes, and what they share. */
#include "plan/plan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "base/workers.h"

static int init_runs(struct ri_plan *plan, enum ri_pass_kind kind)
{
    int err = 0;

    plan->runs[kind] = calloc((size_t)plan->max_in_flight, sizeof(*plan->runs[kind]));
    if (!plan->runs[kind])
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %d runs", plan->max_in_flight);
    for (int i = 0; !err && i < plan->max_in_flight; i++)
        err = ri_run_init(&plan->runs[kind][i], &plan->pass[kind]);
    return err;
}

static int init_passes(struct ri_plan *plan)
{
    int err = 0;

    for (int i = 0; !err && i < RI_PASSES; i++) {
        if (!plan->choice.pass[i].builder)
            continue;
        err = ri_pass_init(&plan->pass[i], plan, (enum ri_pass_kind)i);
        if (!err && plan->pool)
            err = init_runs(plan, (enum ri_pass_kind)i);
    }
    return err;
}

static int reserve(struct ri_plan *plan)
{
    struct ri_transport *transport = plan->place.transport;
    struct ri_need need = ri_plan_need(plan);
    int messages = transport->ops->reserve ? ri_plan_messages(plan) : 0;
    int err = ri_pool_reserve(plan->pool, &need);

    if (!err && messages)
        err = transport->ops->reserve(transport, messages);
    if (!err)
        plan->reserved = messages;
    return err;
}

static void run_tasks(void *runner, void (*task)(void *argument, int index, int thread), void *argument, int count)
{
    const struct ri_plan *plan = runner;

    ri_workers_run(plan->pool->workers, plan->shape.threads, task, argument, count);
}

static int copy_layouts(struct ri_plan *plan, const struct rondo_layout *const given[RI_SIDES])
{
    int err = 0;

    for (int side = 0; !err && side <= plan->is_cross; side++) {
        err = ri_layout_copy(given[side], &plan->layout[side]);
        if (!err)
            err = ri_layout_copy(given[side], &plan->spare[side]);
    }
    if (!plan->is_cross) {
        plan->layout[RI_KEYS] = plan->layout[RI_QUERIES];
        plan->spare[RI_KEYS] = plan->spare[RI_QUERIES];
    }
    return err;
}

/* Who holds which tokens, and who sees whom. */
static int init_sight(struct ri_plan *plan, struct ri_sight *sight)
{
    int err = copy_layouts(plan, (const struct rondo_layout *const[]){ sight->q, sight->k });

    if (err)
        return err;
    plan->sight = *sight;
    *sight = (struct ri_sight){ .q = NULL };
    plan->sight.q = plan->layout[RI_QUERIES];
    plan->sight.k = plan->layout[RI_KEYS];
    for (int side = 0; side < RI_SIDES; side++) {
        plan->largest[side] = ri_layout_largest(plan->layout[side]);
        plan->max_tokens[side] = ri_layout_most_largest(plan->layout[side]);
    }
    plan->seen_room = ri_sight_bound(&plan->sight).tiles;
    plan->seen = calloc((size_t)plan->seen_room + 1, sizeof(*plan->seen));
    return plan->seen ? 0 : ri_error(RONDO_ERR_MEMORY, "out of memory for %lld tiles of a block pair",
                                     (long long)plan->seen_room);
}

static rondo_kernel_shape_t shape_of(struct ri_plan *plan, int threads)
{
    const rondo_attention_desc_t *desc = &plan->desc;

    return (rondo_kernel_shape_t){
        .struct_bytes = sizeof(plan->shape), .dtype = desc->dtype, .batch = desc->batch,
        .q_heads = desc->q_heads, .kv_heads = desc->kv_heads, .qk_dim = desc->qk_dim,
        .v_dim = desc->v_dim, .scale = desc->scale, .softcap = desc->softcap, .dropout = desc->dropout,
        .max_q_tokens = plan->max_tokens[RI_QUERIES], .max_k_tokens = plan->max_tokens[RI_KEYS],
        .threads = threads > 1 ? threads : 1, .run = threads > 1 ? run_tasks : NULL, .runner = plan,
    };
}

int ri_plan_create(const struct ri_plan_params *params, struct ri_plan **plan_p)
{
    const rondo_attention_desc_t *desc = params->desc;
    struct ri_plan *plan = calloc(1, sizeof(*plan));
    int err;

    if (!plan)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for a plan");
    plan->place = params->place;
    plan->number = params->number;
    plan->desc = *desc;
    plan->choice = *params->choice;
    plan->kernel = *params->kernel;
    plan->pool = params->pool;
    plan->max_in_flight = params->max_in_flight;
    plan->desc.mask_params = NULL; /* the caller's, as kv_layout */
    plan->desc.kv_layout = NULL;
    plan->is_cross = desc->kv_layout != NULL;
    err = init_sight(plan, params->sight);
    plan->shape = shape_of(plan, params->threads);
    if (!err)
        err = init_passes(plan);
    if (!err && plan->pool)
        err = reserve(plan);
    if (!err && plan->pool)
        err = ri_pool_hire(plan->pool, plan->shape.threads);
    if (err) {
        ri_plan_destroy(plan);
        return err;
    }
    *plan_p = plan;
    return 0;
}

void ri_plan_admit(struct ri_plan *plan)
{
    ri_pool_admit(plan->pool, plan->max_in_flight);
}

void ri_plan_destroy(struct ri_plan *plan)
{
    if (!plan)
        return;
    for (int i = 0; i < RI_PASSES; i++) {
        for (int r = 0; plan->runs[i] && r < plan->max_in_flight; r++)
            ri_run_release(&plan->runs[i][r]);
        free(plan->runs[i]);
        ri_pass_release(&plan->pass[i]);
    }
    free(plan->seen);
    ri_sight_release(&plan->sight);
    for (int side = 0; side <= plan->is_cross; side++) {
        ri_layout_free(plan->layout[side]);
        ri_layout_free(plan->spare[side]);
    }
    if (plan->reserved)
        plan->place.transport->ops->reserve(plan->place.transport, -plan->reserved);
    free(plan);
}

/* ---- one start ---- */

/* A run of the pass that is not under way; how many of both passes are. */
static struct ri_run *idle_run(struct ri_plan *plan, enum ri_pass_kind kind, int *under_way)
{
    struct ri_run *idle = NULL;

    *under_way = 0;
    for (int i = 0; i < RI_PASSES; i++)
        for (int r = 0; plan->runs[i] && r < plan->max_in_flight; r++) {
            if (plan->runs[i][r].arena)
                (*under_way)++;
            else if (i == (int)kind)
                idle = &plan->runs[i][r];
        }
    return idle;
}

int ri_plan_take(struct ri_plan *plan, enum ri_pass_kind kind, struct ri_run **run_p)
{
    const struct ri_pass *pass = &plan->pass[kind];
    struct ri_run *run;
    int under_way, err;

    run = idle_run(plan, kind, &under_way);
    if (under_way >= plan->max_in_flight)
        return ri_error(RONDO_ERR_BUSY, "%s refused: %d of max_in_flight %d starts of the plan are under "
                        "way; wait for one of their requests first", ri_pass_names[kind], under_way,
                        plan->max_in_flight);
    err = ri_pool_take(plan->pool, ri_pass_names[kind], ri_run_tag(pass, plan->starts[kind]), &run->arena);
    if (err)
        return err;
    assert(run); /* fewer than max_in_flight are under way */
    run->number = plan->starts[kind]++;
    ri_run_place(pass, run, run->arena->memory);
    *run_p = run;
    return 0;
}

void ri_plan_give(struct ri_run *run)
{
    ri_pool_give(run->pass->plan->pool, run->arena);
    run->arena = NULL;
}

/* ---- what it has done, and in words ---- */

static void add_run_stats(const struct ri_run *run, rondo_plan_stats_t *stats)
{
    const struct ri_engine_stats *from = ri_engine_stats(run->engine);

    for (int lane = 0; lane < RI_LANES; lane++) {
        stats->sent_bytes[lane] += from->sent_bytes[lane] - from->sent_kind[lane][RI_STAMP];
        stats->received_bytes[lane] += from->received_bytes[lane] - from->received_kind[lane][RI_STAMP];
        for (int t = 0; t < RI_TENSORS; t++)
            stats->sent_tensor_bytes[lane][t] += from->sent_kind[lane][t];
    }
    stats->bound_bytes += from->bound_bytes;
    stats->pairs += run->pairs;
    stats->compute_seconds += from->compute_seconds;
    stats->move_seconds += from->move_seconds;
    stats->exposed_seconds += from->exposed_seconds;
}

void ri_plan_stats(const struct ri_plan *plan, rondo_plan_stats_t *stats)
{
    rondo_plan_memory_t memory;

    ri_plan_memory(plan, &memory);
    *stats = (rondo_plan_stats_t)RONDO_PLAN_STATS_INIT;
    stats->pool_bytes = ri_pool_arenas_bytes(plan->pool);
    stats->scratch_bytes = ri_pool_scratch_bytes(plan->pool);
    stats->table_bytes = memory.table_bytes;
    stats->forwards = plan->calls[RI_FORWARD];
    stats->backwards = plan->calls[RI_BACKWARD];
    for (int i = 0; i < RI_PASSES; i++)
        stats->priced_seconds[i] = plan->choice.pass[i].builder ? plan->choice.pass[i].seconds : -1;
    for (int i = 0; i < RI_PASSES; i++)
        for (int r = 0; plan->runs[i] && r < plan->max_in_flight; r++)
            add_run_stats(&plan->runs[i][r], stats);
}
