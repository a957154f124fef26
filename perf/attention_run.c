/* SPDX-License-Identifier: Apache-2.0 */
#include "attention_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "measure.h"

/* ---- made and released ---- */

static rondo_layout_desc_t deal_of(const struct attention_run *run)
{
    rondo_layout_desc_t deal = RONDO_LAYOUT_DESC_INIT;

    deal.kind = run->own->layout;
    deal.tokens = run->own->tokens;
    deal.ranks = run->bench->info.size;
    if (deal.kind == RONDO_LAYOUT_BALANCED)
        deal.mask = RONDO_MASK_CAUSAL;
    return deal;
}

static float scale_of(const struct attention_options *own)
{
    return (float)(1 / sqrt((double)own->head_size));
}

static int init_call(const struct attention_run *run, struct kernel_call *call, int64_t tokens)
{
    const struct attention_options *own = run->own;

    *call = (struct kernel_call){.kernel = rondo_kernel_find("flash"), .tiles = &run->tile, .tile_count = 1,
                                 .q_tokens = tokens, .k_tokens = tokens,
                                 .shape = {.dtype = RONDO_F32, .batch = 1, .q_heads = (int)own->heads,
                                           .kv_heads = (int)own->kv_heads, .qk_dim = (int)own->head_size,
                                           .v_dim = (int)own->head_size, .scale = scale_of(own), .threads = 1}};
    return call_init(call);
}

static rondo_status_t make_plan(struct attention_run *run)
{
    const struct attention_options *own = run->own;
    rondo_attention_desc_t desc = RONDO_ATTENTION_DESC_INIT;
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;

    desc.q_heads = (int)own->heads;
    desc.kv_heads = (int)own->kv_heads;
    desc.qk_dim = (int)own->head_size;
    desc.scale = scale_of(own);
    options.schedule = own->schedule;
    options.backward = own->backward;
    options.threads = 1;
    return rondo_attention_plan(run->bench->comm, run->layout, &desc, &options, &run->plan);
}

static rondo_status_t make_tensors(struct attention_run *run)
{
    int rank = run->bench->info.rank;
    int64_t tokens = run->own->tokens, n = rondo_layout_tokens(run->layout, rank);

    run->tile = (rondo_tile_t){.q_count = tokens, .k_count = tokens, .hi = tokens - 1, .q_step = 1, .k_step = 1,
                               .kind = RONDO_TILE_CAUSAL};
    run->positions = calloc((size_t)n, sizeof(*run->positions));
    if (!run->positions || init_call(run, &run->shard, n) || (rank == 0 && init_call(run, &run->whole, tokens)))
        return RONDO_ERR_MEMORY;
    if (rank == 0)
        call_fill(&run->whole, NULL, NULL);
    return rondo_layout_positions(run->layout, rank, run->positions);
}

rondo_status_t attention_init(struct attention_run *run, struct perf_bench *bench)
{
    rondo_layout_desc_t deal;
    rondo_status_t status;

    *run = (struct attention_run){.bench = bench, .own = bench->options.own};
    deal = deal_of(run);
    status = rondo_layout_create(&deal, &run->layout);
    run->idle_rank = -1;
    for (int r = 0; r < deal.ranks && !status; r++)
        if (rondo_layout_tokens(run->layout, r) == 0)
            run->idle_rank = r;
    if (status || run->idle_rank >= 0)
        return status;
    status = make_tensors(run);
    if (!status)
        status = make_plan(run);
    if (!status)
        call_fill(&run->shard, run->positions, run->positions);
    return status;
}

void attention_release(struct attention_run *run)
{
    rondo_plan_destroy(run->plan);
    rondo_layout_destroy(run->layout);
    call_release(&run->whole);
    call_release(&run->shard);
    free(run->positions);
}

double attention_operations(const struct attention_run *run)
{
    double n = (double)run->own->tokens, dims = (double)run->own->head_size * 7;

    return 2 * dims * n * (n + 1) / 2 * (double)run->own->heads;
}

/* ---- each of the three ---- */

/* A barrier in which ranks sleep, so that whoever still works has the cores. */
static rondo_status_t rest(struct attention_run *run)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    rondo_request_t request = NULL;
    rondo_status_t status = rondo_barrier(run->bench->comm, NULL, &request);
    int done = 0;

    while (!status && !done) {
        status = rondo_test(&request, &done);
        if (!status && !done)
            nanosleep(&nap, NULL);
    }
    return status;
}

/* Rank 0 alone. */
static rondo_status_t run_single(struct attention_run *run, double *us)
{
    double begin;
    int err = 0;

    if (run->bench->info.rank == 0) {
        call_clear_forward(&run->whole);
        call_clear_backward(&run->whole);
        begin = perf_now_us();
        err = call_forward(&run->whole) || call_backward(&run->whole);
        *us = perf_now_us() - begin;
    }
    return err ? RONDO_ERR_KERNEL : rest(run);
}

static rondo_status_t run_plan(struct attention_run *run, double *us, double *exposed_us)
{
    rondo_plan_stats_t before = RONDO_PLAN_STATS_INIT, after = RONDO_PLAN_STATS_INIT;
    rondo_status_t status = rondo_plan_stats(run->plan, &before);
    double begin;

    if (!status)
        status = perf_barrier(run->bench->comm);
    begin = perf_now_us();
    if (!status)
        status = call_plan_forward(&run->shard, run->plan);
    if (!status)
        status = call_plan_backward(&run->shard, run->plan);
    *us = perf_now_us() - begin;
    if (!status)
        status = rondo_plan_stats(run->plan, &after);
    *exposed_us = (after.exposed_seconds - before.exposed_seconds) * 1e6;
    return status ? status : rest(run);
}

static rondo_status_t run_shares(struct attention_run *run, double *us)
{
    int err = share_prepare(&run->own->share);
    rondo_status_t status = err ? RONDO_ERR_SYSTEM : perf_barrier(run->bench->comm);
    double begin = perf_now_us();

    if (!status && share_run(&run->own->share))
        status = RONDO_ERR_SYSTEM;
    *us = perf_now_us() - begin;
    return status ? status : rest(run);
}

rondo_status_t attention_measure(struct attention_run *run, struct attention_times *times)
{
    rondo_status_t status;

    *times = (struct attention_times){0};
    status = run_single(run, &times->single_us);
    if (!status)
        status = run_plan(run, &times->plan_us, &times->exposed_us);
    if (!status)
        status = run_shares(run, &times->shares_us);
    if (!status)
        status = perf_max_over_ranks(run->bench->comm, (double *)times, sizeof(*times) / sizeof(double));
    return status;
}

/* ---- verified ---- */

/* Two orders of the same sums, in fp32. */
static int differ(float x, float y)
{
    return !(fabsf(x - y) <= 2e-5f * fmaxf(1, fabsf(y)));
}

static void fault(struct attention_run *run, const char *what, double got, double want)
{
    if (run->wrong++ == 0)
        fprintf(stderr, "rondo_attention: rank %d: %s: %.9g, not %.9g\n", run->bench->info.rank, what, got, want);
}

/* ours: [n][width], whole: [tokens][width].  lse comes by the head. */
static void compare(struct attention_run *run, const char *name, const float *ours, const float *whole, int64_t width)
{
    for (int64_t t = 0; t < run->shard.q_tokens; t++)
        for (int64_t i = 0; i < width; i++) {
            float x = ours[t * width + i], y = whole[run->positions[t] * width + i];

            if (differ(x, y))
                fault(run, name, x, y);
        }
}

/* Rank 0's tensor comes to all. */
static rondo_status_t compare_all(struct attention_run *run, float *buffer)
{
    struct kernel_call *shard = &run->shard, *whole = &run->whole;
    int64_t q_width = shard->q.token_stride, k_width = shard->k.token_stride, tokens = run->own->tokens;
    const struct {
        const char *name;
        const rondo_tensor_t *ours, *whole;
        int64_t width, count; /* parts of the tensor that follow each other */
    } tensors[] = {{"o", &shard->o, &whole->o, q_width, 1},
                   {"lse", &shard->lse, &whole->lse, 1, run->own->heads},
                   {"dq", &shard->dq, &whole->dq, q_width, 1},
                   {"dk", &shard->dk, &whole->dk, k_width, 1},
                   {"dv", &shard->dv, &whole->dv, k_width, 1}};
    rondo_status_t status = RONDO_OK;

    for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]) && !status; i++) {
        int64_t width = tensors[i].width, count = tensors[i].count;
        float *data = run->bench->info.rank == 0 ? tensors[i].whole->data : buffer;
        rondo_request_t request = NULL;

        status = perf_wait(rondo_broadcast(run->bench->comm, data, (size_t)(tokens * width * count) * sizeof(*data), 0,
                                           NULL, &request),
                           &request);
        for (int64_t j = 0; j < count && !status; j++)
            compare(run, tensors[i].name, (const float *)tensors[i].ours->data + j * shard->q_tokens * width,
                    data + j * tokens * width, width);
    }
    return status;
}

/* It computes as many pairs as this rank does in the plan, and with the same queries. */
static rondo_status_t verify_share(struct attention_run *run)
{
    const struct attention_options *own = run->own;
    int rank = run->bench->info.rank;
    const struct share_problem problem = {.layout = deal_of(run), .rank = rank, .heads = (int)own->heads,
                                          .kv_heads = (int)own->kv_heads, .head_size = (int)own->head_size,
                                          .scale = scale_of(own)};
    double pairs = (double)rondo_layout_pairs(run->layout, rank, RONDO_MASK_CAUSAL, NULL), sum = 0;
    struct share_made made;

    if (share_make(&run->own->share, &problem, &made))
        return RONDO_ERR_SYSTEM;
    call_delta(&run->shard);
    for (int64_t i = 0; i < run->shard.delta.batch_stride; i++)
        sum += fabsf(((const float *)run->shard.delta.data)[i]);
    if (made.pairs != pairs)
        fault(run, "pairs of the share", made.pairs, pairs);
    if (!(fabs(made.delta_sum - sum) <= 1e-4 * sum))
        fault(run, "sum of dO and O of the share", made.delta_sum, sum);
    return RONDO_OK;
}

rondo_status_t attention_verify(struct attention_run *run)
{
    const struct kernel_call *shard = &run->shard;
    int64_t q_width = shard->q.token_stride;
    float *buffer = malloc((size_t)(run->own->tokens * (q_width + 1)) * sizeof(*buffer));
    rondo_status_t status = buffer ? RONDO_OK : RONDO_ERR_MEMORY;
    double us;

    if (!status)
        status = call_plan_forward(&run->shard, run->plan);
    if (!status)
        status = call_plan_backward(&run->shard, run->plan);
    if (!status && run->bench->info.rank == 0) { /* delta of the calls that are timed */
        call_clear_forward(&run->whole);
        status = call_forward(&run->whole) ? RONDO_ERR_KERNEL : RONDO_OK;
        call_delta(&run->whole);
    }
    if (!status)
        status = run_single(run, &us);
    if (!status)
        status = compare_all(run, buffer);
    if (!status)
        status = verify_share(run);
    free(buffer);
    return status;
}
