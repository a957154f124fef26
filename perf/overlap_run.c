/* SPDX-License-Identifier: Apache-2.0 */
#include "overlap_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"
#include "pattern.h"
#include "peer.h"

/* Work alone is done in such portions, as a plan's pieces of work are about. */
#define PORTION_US 200.0

const char *const overlap_pass_names[PASSES] = {"forward", "kv-grad", "q-grad"};

/* ---- made and released ---- */

/* More than any block: nothing is cut. */
#define WHOLE_BYTES ((int64_t)1 << 40)

static rondo_status_t make_plan(struct overlap_run *run, enum overlap_kind kind)
{
    rondo_attention_desc_t desc = RONDO_ATTENTION_DESC_INIT;
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;

    desc.mask = RONDO_MASK_FULL; /* every block must come */
    desc.q_heads = desc.kv_heads = 1;
    desc.qk_dim = run->shape.qk_dim;
    desc.v_dim = run->shape.v_dim;
    options.schedule = "ring";
    options.backward = run->own->pass ? overlap_pass_names[run->own->pass] : "none";
    options.kernel = &run->kernel;
    options.max_in_flight = IN_FLIGHT;
    options.chunk_bytes = kind == OVERLAP_WHOLE ? WHOLE_BYTES : run->own->chunk_bytes;
    return rondo_attention_plan(run->bench->comm, run->layout, &desc, &options, &run->plan[kind]);
}

static rondo_status_t allocate(struct overlap_run *run)
{
    const struct ring_shape *shape = &run->shape;
    size_t tokens = (size_t)shape->tokens, ranks = (size_t)shape->ranks;
    size_t qk_bytes = tokens * (size_t)shape->qk_dim * sizeof(float);
    size_t v_bytes = tokens * (size_t)shape->v_dim * sizeof(float);
    int ok;

    run->q = perf_touched(qk_bytes);
    run->k = perf_touched(qk_bytes);
    run->v = perf_touched(v_bytes);
    run->d_o = perf_touched(v_bytes);
    run->load.q_sum = perf_touched(ranks * ranks * sizeof(uint32_t));
    run->load.kv_sum = perf_touched(ranks * ranks * sizeof(uint32_t));
    run->load.pairs = perf_touched(ranks * ranks * sizeof(int64_t));
    ok = run->q && run->k && run->v && run->d_o && run->load.q_sum && run->load.kv_sum &&
         run->load.pairs;
    for (int i = 0; i < 3 && run->bench->options.peer; i++) {
        run->peer[i] = perf_touched(run->bytes);
        ok = ok && run->peer[i];
    }
    for (int i = 0; i < IN_FLIGHT; i++) {
        run->out[i].o = perf_touched(v_bytes);
        run->out[i].lse = perf_touched(tokens * sizeof(float));
        run->out[i].dq = perf_touched(qk_bytes);
        run->out[i].dk = perf_touched(qk_bytes);
        run->out[i].dv = perf_touched(v_bytes);
        ok = ok && run->out[i].o && run->out[i].lse && run->out[i].dq && run->out[i].dk &&
             run->out[i].dv;
    }
    return ok ? RONDO_OK : RONDO_ERR_MEMORY;
}

rondo_status_t overlap_init(struct overlap_run *run, struct perf_bench *bench, size_t bytes)
{
    const struct overlap_options *own = bench->options.own;
    rondo_layout_desc_t deal = RONDO_LAYOUT_DESC_INIT;
    struct ring_shape *shape = &run->shape;
    rondo_status_t status;
    size_t multiple;

    *run = (struct overlap_run){.bench = bench, .own = own, .bytes = bytes};
    shape->rank = bench->info.rank;
    shape->ranks = bench->info.size;
    if (ring_shape_init(shape, bytes, own->qk_dim, own->v_dim, &multiple))
        return RONDO_ERR_ARGUMENT;
    run->load.ranks = shape->ranks;
    run->load.tokens = shape->tokens;
    run->load.qk_dim = shape->qk_dim;
    run->load.v_dim = shape->v_dim;
    run->kernel = (rondo_kernel_t){.struct_bytes = sizeof(run->kernel),
                                   .name = "rondo_overlap",
                                   .flags = RONDO_KERNEL_MERGES,
                                   .context = &run->load,
                                   .forward = load_forward,
                                   .backward = load_backward};
    deal.tokens = shape->tokens * shape->ranks;
    deal.ranks = shape->ranks;
    status = allocate(run);
    if (!status)
        status = rondo_layout_create(&deal, &run->layout);
    for (int kind = 0; kind < OVERLAP_KINDS && !status; kind++)
        status = make_plan(run, kind);
    return status;
}

void overlap_release(struct overlap_run *run)
{
    for (int kind = 0; kind < OVERLAP_KINDS; kind++)
        rondo_plan_destroy(run->plan[kind]);
    rondo_layout_destroy(run->layout);
    free(run->q);
    free(run->k);
    free(run->v);
    free(run->d_o);
    free(run->load.q_sum);
    free(run->load.kv_sum);
    free(run->load.pairs);
    for (int i = 0; i < 3; i++)
        free(run->peer[i]);
    for (int i = 0; i < IN_FLIGHT; i++) {
        free(run->out[i].o);
        free(run->out[i].lse);
        free(run->out[i].dq);
        free(run->out[i].dk);
        free(run->out[i].dv);
    }
}

/* ---- calls ---- */

/* The number-th of those that follow each other. */
static rondo_status_t start(struct overlap_run *run, enum overlap_kind kind, int64_t number,
                            rondo_request_t *request)
{
    int i = (int)(number % IN_FLIGHT);
    rondo_attention_fwd_t fwd = RONDO_ATTENTION_FWD_INIT;
    rondo_attention_bwd_t bwd = RONDO_ATTENTION_BWD_INIT;

    if (run->own->pass == PASS_FORWARD) {
        fwd.q = run->q;
        fwd.k = run->k;
        fwd.v = run->v;
        fwd.o = run->out[i].o;
        fwd.lse = run->out[i].lse;
        return rondo_attention_forward(run->plan[kind], &fwd, NULL, request);
    }
    bwd.q = run->q;
    bwd.k = run->k;
    bwd.v = run->v;
    bwd.o = run->out[i].o;
    bwd.lse = run->out[i].lse;
    bwd.d_o = run->d_o;
    bwd.dq = run->out[i].dq;
    bwd.dk = run->out[i].dk;
    bwd.dv = run->out[i].dv;
    return rondo_attention_backward(run->plan[kind], &bwd, NULL, request);
}

/* Mean time between ends of calls, of each of which the next one is under way when it ends.  Two under
 * way may end together, so an even number of them is timed. */
static rondo_status_t time_steps(struct overlap_run *run, enum overlap_kind kind, double *us)
{
    rondo_request_t request[IN_FLIGHT] = {NULL};
    int64_t first = run->bench->options.warmup - 1;
    int64_t last = first + run->bench->options.iterations;
    double begin_us = 0;
    rondo_status_t status = perf_barrier(run->bench->comm);

    if (!status)
        status = start(run, kind, 0, &request[0]);
    for (int64_t i = 0; i <= last + 1 && !status; i++) {
        if (i <= last)
            status = start(run, kind, i + 1, &request[(i + 1) % IN_FLIGHT]);
        if (!status)
            status = rondo_wait(&request[i % IN_FLIGHT], -1);
        if (i == first)
            begin_us = perf_now_us();
        if (i == last)
            *us = (perf_now_us() - begin_us) / run->bench->options.iterations;
    }
    return status;
}

static rondo_status_t time_call(struct overlap_run *run, enum overlap_kind kind, double *us,
                                double *worked_us)
{
    rondo_request_t request = NULL;
    rondo_status_t status = perf_barrier(run->bench->comm);
    double begin = perf_now_us();

    run->load.worked_us = 0;
    if (!status)
        status = perf_wait(start(run, kind, 0, &request), &request);
    *us = perf_now_us() - begin;
    *worked_us = run->load.worked_us;
    return status;
}

/* A block is computed while the next one comes, and the hop is moved between portions of the work. */
static void time_peer(struct overlap_run *run, double compute_us, double *us)
{
    int ranks = run->shape.ranks;
    double block_us = compute_us / ranks, begin;
    char *from = run->peer[0];

    perf_peer_barrier();
    begin = perf_now_us();
    for (int hop = 1; hop < ranks; hop++) {
        char *to = run->peer[1 + hop % 2];

        perf_peer_begin(from, to, run->bytes);
        for (double done = 0; done < block_us; done += PORTION_US) {
            load_work(&run->load, fmin(PORTION_US, block_us - done), PORTION_US);
            perf_peer_move();
        }
        perf_peer_end();
        from = to;
    }
    load_work(&run->load, block_us, PORTION_US);
    *us = perf_now_us() - begin;
}

rondo_status_t overlap_transfer(struct overlap_run *run, double *us)
{
    run->load.units_per_pair = 0;
    return time_steps(run, OVERLAP_CHUNKS, us);
}

rondo_status_t overlap_measure(struct overlap_run *run, double compute_us,
                               struct overlap_times *times)
{
    double tokens = (double)run->shape.tokens;
    double pairs = tokens * tokens * run->shape.ranks;
    rondo_status_t status = overlap_transfer(run, &times->transfer_us);

    if (!status)
        status = perf_barrier(run->bench->comm);
    times->compute_us = load_work(&run->load, compute_us, PORTION_US);
    run->load.units_per_pair = compute_us / run->load.unit_us / pairs;
    for (int kind = 0; kind < OVERLAP_KINDS && !status; kind++) {
        status = time_steps(run, kind, &times->step_us[kind]);
        if (!status)
            status = time_call(run, kind, &times->call_us[kind], &times->worked_us[kind]);
    }
    if (!status && run->bench->options.peer)
        time_peer(run, compute_us, &times->peer_us);
    return status;
}

/* ---- verified ---- */

/* Over all sizes: no fill comes twice. */
static uint32_t next_fill;

static void fill(struct overlap_run *run, uint32_t iteration)
{
    const struct ring_shape *shape = &run->shape;
    size_t qk_bytes = (size_t)shape->tokens * (size_t)shape->qk_dim * sizeof(float);
    size_t v_bytes = run->bytes - qk_bytes;

    pattern_fill(run->k, qk_bytes, shape->rank, iteration, 0);
    pattern_fill(run->v, v_bytes, shape->rank, iteration, qk_bytes / sizeof(float));
    pattern_fill(run->q, qk_bytes, shape->rank, iteration, run->bytes / sizeof(float));
}

static void fault(struct overlap_run *run, const char *what, int q_owner, int k_owner)
{
    if (run->wrong++ == 0)
        fprintf(stderr, "rank %d: size %zu: queries of rank %d with keys of rank %d: %s\n",
                run->shape.rank, run->bytes, q_owner, k_owner, what);
}

/* A pair of blocks is computed here whole, or not at all. */
static int64_t judge_pair(struct overlap_run *run, int q_owner, int k_owner, uint32_t iteration)
{
    const struct ring_shape *shape = &run->shape;
    int at = q_owner * shape->ranks + k_owner;
    size_t qk_bytes = (size_t)shape->tokens * (size_t)shape->qk_dim * sizeof(float);
    int64_t all = shape->tokens * shape->tokens, pairs = run->load.pairs[at];

    if (pairs == 0)
        return 0;
    if (pairs != all)
        fault(run, "not every query met every key once", q_owner, k_owner);
    if (run->load.kv_sum[at] != pattern_expected(run->bytes, k_owner, iteration, 0))
        fault(run, "keys or values are not those that were filled in", q_owner, k_owner);
    if (run->load.q_sum[at] !=
        pattern_expected(qk_bytes, q_owner, iteration, run->bytes / sizeof(float)))
        fault(run, "queries are not those that were filled in", q_owner, k_owner);
    return pairs;
}

static void judge(struct overlap_run *run, uint32_t iteration)
{
    int64_t ranks = run->shape.ranks, pairs = 0, all = run->shape.tokens * run->shape.tokens;

    for (int q = 0; q < run->shape.ranks; q++)
        for (int k = 0; k < run->shape.ranks; k++)
            pairs += judge_pair(run, q, k, iteration);
    if (pairs != ranks * all)
        fault(run, "too many or too few pairs in all", run->shape.rank, run->shape.rank);
    for (int64_t i = 0; i < ranks * ranks; i++) {
        run->load.pairs[i] = 0;
        run->load.q_sum[i] = run->load.kv_sum[i] = 0;
    }
}

rondo_status_t overlap_verify(struct overlap_run *run, int calls)
{
    rondo_status_t status = RONDO_OK;

    run->load.looks = 1;
    for (int i = 0; i < calls * OVERLAP_KINDS && !status; i++) {
        rondo_request_t request = NULL;

        fill(run, next_fill);
        status = perf_wait(start(run, i % OVERLAP_KINDS, 0, &request), &request);
        if (!status)
            judge(run, next_fill);
        next_fill++;
    }
    run->load.looks = 0;
    return status;
}
