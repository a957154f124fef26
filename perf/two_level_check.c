/* SPDX-License-Identifier: Apache-2.0 */
/* The schedules that are timed, held to the same choices, compute a small problem rightly. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_call.h"
#include "measure.h"
#include "two_level_run.h"

/* A problem of shards of different lengths: whole, by the reference kernel, on each rank, and by plans. */
struct small {
    struct two_level_run *run;
    rondo_layout_t layout;
    rondo_tile_t tile;
    struct kernel_call whole, shard;
    int64_t *positions; /* [shard.q_tokens] */
};

enum { TOKENS_PER_RANK = 5, TOKENS_OVER = 3 };

static int init_call(const struct small *small, struct kernel_call *call, int64_t tokens)
{
    const struct two_level_options *own = small->run->own;

    *call = (struct kernel_call){.kernel = rondo_kernel_find("reference"), .tiles = &small->tile, .tile_count = 1,
                                 .q_tokens = tokens, .k_tokens = tokens,
                                 .shape = {.dtype = RONDO_F32, .batch = 1, .q_heads = (int)own->heads,
                                           .kv_heads = (int)own->kv_heads, .qk_dim = (int)own->head_size,
                                           .v_dim = (int)own->head_size, .threads = 1,
                                           .scale = (float)(1 / sqrt((double)own->head_size))}};
    return call_init(call);
}

static int compute_whole(struct small *small)
{
    struct kernel_call *whole = &small->whole;
    int err;

    call_fill(whole, NULL, NULL);
    call_clear_forward(whole);
    call_clear_backward(whole);
    err = call_forward(whole);
    call_delta(whole);
    return err ? err : call_backward(whole);
}

static rondo_status_t small_init(struct small *small, struct two_level_run *run)
{
    rondo_layout_desc_t deal = RONDO_LAYOUT_DESC_INIT;
    int rank = run->bench->info.rank;
    int64_t n;
    rondo_status_t status;

    *small = (struct small){.run = run};
    deal.ranks = run->bench->info.size;
    deal.tokens = deal.ranks * TOKENS_PER_RANK + TOKENS_OVER;
    small->tile = (rondo_tile_t){.q_count = deal.tokens, .k_count = deal.tokens, .lo = 1 - deal.tokens,
                                 .hi = deal.tokens - 1, .q_step = 1, .k_step = 1, .kind = RONDO_TILE_FULL};
    status = rondo_layout_create(&deal, &small->layout);
    if (status)
        return status;
    n = rondo_layout_tokens(small->layout, rank);
    small->positions = calloc((size_t)n, sizeof(*small->positions));
    if (!small->positions || init_call(small, &small->shard, n) || init_call(small, &small->whole, deal.tokens))
        return RONDO_ERR_MEMORY;
    status = rondo_layout_positions(small->layout, rank, small->positions);
    call_fill(&small->shard, small->positions, small->positions);
    if (!status && compute_whole(small))
        status = RONDO_ERR_KERNEL;
    return status;
}

static void small_release(struct small *small)
{
    rondo_layout_destroy(small->layout);
    call_release(&small->whole);
    call_release(&small->shard);
    free(small->positions);
}

/* Held to what the timed plan chose for its larger blocks. */
static rondo_status_t make_plan(const struct small *small, const struct two_level_case *it, rondo_plan_t *plan)
{
    const struct two_level_options *own = small->run->own;
    rondo_attention_desc_t desc = RONDO_ATTENTION_DESC_INIT;
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;

    desc.mask = RONDO_MASK_FULL;
    desc.q_heads = (int)own->heads;
    desc.kv_heads = (int)own->kv_heads;
    desc.qk_dim = (int)own->head_size;
    desc.scale = small->whole.shape.scale;
    options.schedule = it->scheme.schedule;
    options.backward = it->pass == TWO_LEVEL_FORWARD ? "none" : it->scheme.gradients;
    options.threads = 1;
    if (it->schedule == TWO_LEVEL_TWO_LEVEL) {
        options.host_transfers = strcmp(it->scheme.variant, "chunked") == 0 ? "chunked" : "own-turns";
        options.pieces = atoi(it->scheme.variant); /* "3-pieces" */
        options.pieces += options.pieces == 0;
    }
    return rondo_attention_plan(small->run->bench->comm, small->layout, &desc, &options, plan);
}

static void fault(const struct small *small, struct two_level_case *it, const char *what, double got, double want)
{
    if (it->wrong++ == 0)
        fprintf(stderr, "rondo_two_level: rank %d: %s %s: %s: %.9g, not %.9g\n", small->run->bench->info.rank,
                it->scheme.schedule, two_level_passes[it->pass], what, got, want);
}

/* Both [tokens][heads][dim] by their strides. */
static void compare(const struct small *small, struct two_level_case *it, const char *name, const rondo_tensor_t *ours,
                    const rondo_tensor_t *whole, int heads, int dim)
{
    for (int64_t t = 0; t < small->shard.q_tokens; t++)
        for (int h = 0; h < heads; h++)
            for (int d = 0; d < dim; d++) {
                float x = call_at(ours, 0, t, h)[d], y = call_at(whole, 0, small->positions[t], h)[d];

                if (!(fabsf(x - y) <= 2e-5f * fmaxf(1, fabsf(y)))) /* fp32 sums, beside fp64 */
                    fault(small, it, name, x, y);
            }
}

static rondo_status_t forward(struct small *small, struct two_level_case *it, rondo_plan_t plan)
{
    struct kernel_call *shard = &small->shard;
    rondo_status_t status;

    call_clear_forward(shard);
    status = call_plan_forward(shard, plan);
    if (status)
        return status;
    compare(small, it, "o", &shard->o, &small->whole.o, (int)small->run->own->heads, (int)small->run->own->head_size);
    compare(small, it, "lse", &shard->lse, &small->whole.lse, (int)small->run->own->heads, 1);
    return RONDO_OK;
}

static rondo_status_t backward(struct small *small, struct two_level_case *it, rondo_plan_t plan)
{
    struct kernel_call *shard = &small->shard;
    int dim = (int)small->run->own->head_size, kv_heads = (int)small->run->own->kv_heads;
    rondo_status_t status;

    call_clear_backward(shard);
    status = call_plan_backward(shard, plan);
    if (status)
        return status;
    compare(small, it, "dq", &shard->dq, &small->whole.dq, (int)small->run->own->heads, dim);
    compare(small, it, "dk", &shard->dk, &small->whole.dk, kv_heads, dim);
    compare(small, it, "dv", &shard->dv, &small->whole.dv, kv_heads, dim);
    return RONDO_OK;
}

static rondo_status_t verify_case(struct small *small, struct two_level_case *it, int starts)
{
    struct two_level_scheme scheme = {.schedule = ""};
    rondo_plan_t plan = NULL;
    rondo_status_t status = make_plan(small, it, &plan);

    if (!status)
        status = two_level_read(plan, it->pass, &scheme);
    if (!status && !two_level_alike(&scheme, &it->scheme) && it->wrong++ == 0)
        fprintf(stderr, "rondo_two_level: %s %s is timed, but %s %s is verified\n", it->scheme.schedule,
                it->scheme.variant, scheme.schedule, scheme.variant);
    for (int i = 0; i < starts && !status; i++) {
        status = forward(small, it, plan);
        if (!status && it->pass != TWO_LEVEL_FORWARD)
            status = backward(small, it, plan);
    }
    rondo_plan_destroy(plan);
    return status ? status : perf_sum_over_ranks(small->run->bench->comm, &it->wrong, 1);
}

rondo_status_t two_level_verify(struct two_level_run *run, int starts)
{
    struct small small;
    rondo_status_t status = small_init(&small, run);

    for (int i = 0; i < run->count && !status; i++)
        status = verify_case(&small, &run->cases[i], starts);
    small_release(&small);
    return status;
}
