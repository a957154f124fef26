/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "peer.h"

static rondo_status_t rotate(struct ring_run *run)
{
    rondo_request_t request = NULL;

    return perf_wait(rondo_attention_forward(run->plan, &run->tensors, NULL, &request), &request);
}

void ring_run_release(struct ring_run *run)
{
    rondo_plan_destroy(run->plan);
    rondo_layout_destroy(run->layout);
    free(run->q);
    free(run->k);
    free(run->v);
    free(run->o);
    free(run->tensors.lse);
    free(run->peer[0]);
    free(run->peer[1]);
    free(run->rotation_us);
    free(run->ours_us);
    free(run->peer_us);
}

/* Pages are touched here, so that no timed rotation meets a fresh one. */
static rondo_status_t allocate(struct ring_run *run)
{
    const struct ring_shape *shape = &run->check.shape;
    size_t tokens = (size_t)shape->tokens, repetitions = (size_t)run->options->repetitions;
    size_t qk_bytes = tokens * (size_t)shape->qk_dim * sizeof(float);
    size_t v_bytes = tokens * (size_t)shape->v_dim * sizeof(float);
    int ok;

    run->q = perf_touched(qk_bytes);
    run->k = perf_touched(qk_bytes);
    run->v = perf_touched(v_bytes);
    run->o = perf_touched(v_bytes);
    run->tensors.lse = perf_touched(tokens * sizeof(float));
    run->rotation_us = perf_touched(repetitions * (size_t)run->iterations * sizeof(double));
    run->ours_us = perf_touched(repetitions * sizeof(double));
    run->peer_us = perf_touched(repetitions * sizeof(double));
    ok = run->q && run->k && run->v && run->o && run->tensors.lse && run->rotation_us &&
         run->ours_us && run->peer_us;
    for (int i = 0; i < 2 && run->options->peer; i++) {
        run->peer[i] = perf_touched(run->bytes);
        ok = ok && run->peer[i];
    }
    run->tensors.q = run->q;
    run->tensors.k = run->k;
    run->tensors.v = run->v;
    run->tensors.o = run->o;
    return ok ? 0 : RONDO_ERR_MEMORY;
}

rondo_status_t ring_plan(rondo_comm_t comm, const struct ring_shape *shape,
                         const rondo_kernel_t *kernel, rondo_layout_t *layout, rondo_plan_t *plan)
{
    rondo_layout_desc_t deal = RONDO_LAYOUT_DESC_INIT;
    rondo_attention_desc_t desc = RONDO_ATTENTION_DESC_INIT;
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_status_t status;

    deal.tokens = shape->tokens * shape->ranks;
    deal.ranks = shape->ranks;
    desc.mask = RONDO_MASK_FULL; /* every block must come */
    desc.q_heads = desc.kv_heads = 1;
    desc.qk_dim = shape->qk_dim;
    desc.v_dim = shape->v_dim;
    options.schedule = "ring";
    options.backward = "none";
    options.kernel = kernel;
    status = rondo_layout_create(&deal, layout);
    return status ? status : rondo_attention_plan(comm, *layout, &desc, &options, plan);
}

rondo_status_t ring_run_init(struct ring_run *run, rondo_comm_t comm,
                             const struct perf_options *options, size_t bytes)
{
    rondo_comm_info_t info = RONDO_COMM_INFO_INIT;
    rondo_status_t status = rondo_comm_query(comm, &info);
    const struct ring_options *own = options->own;
    struct ring_shape *shape = &run->check.shape;
    size_t multiple;

    *run = (struct ring_run){.comm = comm,
                             .options = options,
                             .bytes = bytes,
                             .tensors = RONDO_ATTENTION_FWD_INIT,
                             .iterations = perf_iterations(options, bytes),
                             .warmup = perf_warmup(options, bytes)};
    shape->rank = info.rank;
    shape->ranks = info.size;
    if (ring_shape_init(shape, bytes, own->qk_dim, own->v_dim, &multiple))
        return RONDO_ERR_ARGUMENT;
    run->kernel = (rondo_kernel_t){.struct_bytes = sizeof(run->kernel),
                                   .name = "rondo_ring",
                                   .flags = RONDO_KERNEL_MERGES,
                                   .context = &run->check,
                                   .forward = ring_forward};
    if (!status)
        status = allocate(run);
    return status ? status : ring_plan(comm, shape, &run->kernel, &run->layout, &run->plan);
}

rondo_status_t ring_run_verify(struct ring_run *run, uint32_t first_iteration, int rotations,
                               double *wrong)
{
    double mine = 0;
    rondo_status_t status;

    for (int i = 0; i < rotations; i++) {
        ring_fill(&run->check.shape, first_iteration + (uint32_t)i, run->k, run->v);
        ring_check_begin(&run->check, first_iteration + (uint32_t)i);
        status = rotate(run);
        mine += (double)ring_check_end(&run->check);
        if (status)
            return status;
    }
    if (mine > 0)
        fprintf(stderr, "rondo_ring: rank %d: size %zu: %s\n", run->check.shape.rank, run->bytes,
                run->check.first);
    status = perf_sum_over_ranks(run->comm, &mine, 1);
    *wrong = mine;
    return status;
}

static rondo_status_t time_ours(struct ring_run *run, int repetition)
{
    double *rotation = run->rotation_us + (size_t)repetition * (size_t)run->iterations;
    rondo_status_t status = perf_barrier(run->comm);
    double begin = perf_now_us(), last = begin;

    for (int i = 0; i < run->iterations && !status; i++) {
        double now;

        status = rotate(run);
        now = perf_now_us();
        rotation[i] = now - last;
        last = now;
    }
    run->ours_us[repetition] = (last - begin) / run->iterations;
    return status;
}

static void time_peer(struct ring_run *run, int repetition)
{
    double begin;

    perf_peer_barrier();
    begin = perf_now_us();
    for (int i = 0; i < run->iterations; i++)
        perf_peer_hops(run->peer, run->bytes, run->check.shape.ranks - 1);
    run->peer_us[repetition] = (perf_now_us() - begin) / run->iterations;
}

/* Adds `sign` times what the plan has counted so far. */
static rondo_status_t count(struct ring_run *run, double sign)
{
    rondo_plan_stats_t stats = RONDO_PLAN_STATS_INIT;
    rondo_status_t status = rondo_plan_stats(run->plan, &stats);

    run->exposed_seconds += sign * stats.exposed_seconds;
    run->moved_bytes += sign * (double)(stats.sent_bytes[0] + stats.sent_bytes[1]);
    run->bound_bytes += sign * (double)stats.bound_bytes;
    return status;
}

/* Ours and the peer's in turn, so that a busy moment of the machine meets both. */
static rondo_status_t time_in_turn(struct ring_run *run)
{
    rondo_status_t status = RONDO_OK;

    for (int i = 0; i < run->warmup && !status; i++)
        status = rotate(run);
    for (int i = 0; i < run->warmup && !status && run->options->peer; i++)
        perf_peer_hops(run->peer, run->bytes, run->check.shape.ranks - 1);
    if (!status)
        status = count(run, -1);
    for (int i = 0; i < run->options->repetitions && !status; i++) {
        status = time_ours(run, i);
        if (!status && run->options->peer)
            time_peer(run, i);
    }
    return status ? status : count(run, 1);
}

rondo_status_t ring_run_time(struct ring_run *run)
{
    size_t repetitions = (size_t)run->options->repetitions;
    rondo_status_t status = time_in_turn(run);

    if (!status)
        status = perf_max_over_ranks(run->comm, run->ours_us, repetitions);
    if (!status)
        status = perf_max_over_ranks(run->comm, run->peer_us, repetitions);
    if (!status)
        status =
            perf_max_over_ranks(run->comm, run->rotation_us, repetitions * (size_t)run->iterations);
    if (!status)
        status = perf_sum_over_ranks(run->comm, &run->exposed_seconds, 1);
    if (!status)
        status = perf_sum_over_ranks(run->comm, &run->moved_bytes, 1);
    return status ? status : perf_sum_over_ranks(run->comm, &run->bound_bytes, 1);
}
