/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers hide behind the caller's kernel: four ranks on `self` with modelled links, a kernel that
 * takes as long as the transfers do and leaves the core alone, as a device would.  What counts is a
 * ratio of one run: total against the larger of compute and transfer, plus one block.  Prints TAP. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "tests/ranks.h"

enum { RANKS = 4, TOKENS = 2048, HEADS = 4, DIM = 64, TRIES = 5 };

/* K and V of one shard, and how long one hop and one block pair take. */
#define BLOCK_BYTES ((size_t)2 * (TOKENS / RANKS) * HEADS * DIM * sizeof(float))
#define TRANSFER_S 0.300
#define HOP_S (TRANSFER_S / (RANKS - 1))
#define PAIR_S (TRANSFER_S / RANKS)

struct test {
    struct meeting meeting;
    double seconds[RANKS];
    rondo_plan_stats_t stats[RANKS];
};

static double now_s(void)
{
    return (double)ri_now_ns() * 1e-9;
}

/* Sleeps in proportion to the queries of the call. */
static int slow_forward(void *context, const rondo_kernel_forward_t *args)
{
    double share = 0;

    (void)context;
    for (int i = 0; i < args->tile_count; i++)
        share += (double)(args->tiles[i].q_count * args->tiles[i].k_count) /
                 (double)(args->q_tokens * args->k_tokens);
    nanosleep(&(struct timespec){ 0, (long)(share * PAIR_S * 1e9) }, NULL);
    return 0;
}

static int run(rondo_plan_t plan, double *seconds)
{
    size_t shard = (size_t)TOKENS / RANKS * HEADS * DIM;
    float *data = calloc(5 * shard, sizeof(*data));
    rondo_attention_fwd_t fwd = RONDO_ATTENTION_FWD_INIT;
    rondo_request_t request = NULL;
    double start;
    int err;

    if (!data)
        return RONDO_ERR_MEMORY;
    fwd.q = data, fwd.k = data + shard, fwd.v = data + 2 * shard, fwd.o = data + 3 * shard;
    fwd.lse = data + 4 * shard;
    start = now_s();
    err = rondo_attention_forward(plan, &fwd, NULL, &request);
    if (!err)
        err = rondo_wait(&request, 20000);
    *seconds = now_s() - start;
    free(data);
    return err;
}

static int body(int rank, int ranks, void *arg)
{
    static const rondo_kernel_t kernel = { .struct_bytes = sizeof(kernel), .name = "sleeps",
                                           .flags = RONDO_KERNEL_MERGES, .forward = slow_forward };
    struct test *t = arg;
    rondo_config_t config = RONDO_CONFIG_INIT;
    rondo_layout_desc_t ld = RONDO_LAYOUT_DESC_INIT;
    rondo_attention_desc_t ad = RONDO_ATTENTION_DESC_INIT;
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_comm_t comm = NULL;
    rondo_layout_t layout = NULL;
    rondo_plan_t plan = NULL;
    rondo_request_t request = NULL;
    int err;

    config.transport = "self";
    ld.tokens = TOKENS, ld.ranks = ranks;
    ad.mask = RONDO_MASK_FULL, ad.q_heads = ad.kv_heads = HEADS, ad.qk_dim = DIM;
    options.kernel = &kernel, options.backward = "none";
    err = meet(&t->meeting, rank, ranks, &config, &comm);
    if (!err)
        err = rondo_layout_create(&ld, &layout);
    if (!err)
        err = rondo_attention_plan(comm, layout, &ad, &options, &plan);
    if (!err)
        err = rondo_barrier(comm, NULL, &request);
    if (!err)
        err = rondo_wait(&request, 20000);
    if (!err)
        err = run(plan, &t->seconds[rank]);
    t->stats[rank] = (rondo_plan_stats_t)RONDO_PLAN_STATS_INIT;
    if (!err)
        err = rondo_plan_stats(plan, &t->stats[rank]);
    if (err)
        fprintf(stderr, "# rank %d: %s\n", rank, rondo_last_error());
    rondo_plan_destroy(plan);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return err;
}

/* The largest total of the ranks, over the limit; a blocking engine is near 1.4. */
static double try_once(struct test *t)
{
    double total = 0, compute = 0, limit;

    *t = (struct test){ .seconds = { 0 } };
    if (run_ranks(RANKS, 0, 60, body, t))
        exit(1);
    for (int r = 0; r < RANKS; r++) {
        total = t->seconds[r] > total ? t->seconds[r] : total;
        compute = t->stats[r].compute_seconds > compute ? t->stats[r].compute_seconds : compute;
    }
    limit = 1.15 * (compute > TRANSFER_S ? compute : TRANSFER_S) + HOP_S;
    printf("# compute %.3f s, transfer %.3f s, one block %.3f s: total %.3f s, limit %.3f s, "
           "exposed %.3f s, blocking would take %.3f s\n",
           compute, TRANSFER_S, HOP_S, total, limit, t->stats[0].exposed_seconds,
           compute + TRANSFER_S);
    return total / limit;
}

int main(void)
{
    struct test *t = shared_memory(sizeof(*t));
    char bandwidth[32];
    double best = 1e9;

    snprintf(bandwidth, sizeof(bandwidth), "%.0f", (double)BLOCK_BYTES / HOP_S);
    setenv("RONDO_SELF_BANDWIDTH", bandwidth, 1);
    for (int i = 0; i < TRIES && best > 1; i++) { /* a busy machine disturbs a try, not the engine */
        double ratio = try_once(t);

        best = ratio < best ? ratio : best;
    }
    printf("%sok 1 - transfers hide behind the kernel (%.2f of the limit)\n1..1\n",
           best > 1 ? "not " : "", best);
    return best > 1;
}
