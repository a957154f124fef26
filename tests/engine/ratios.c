/* SPDX-License-Identifier: Apache-2.0 */
/* What chunks are for: ranks on hosts of their own, on `self` with modelled links, and a kernel that takes
 * a time and no core.  Prints TAP: calls end, and in any order of arrival with the same bits.  --table: the
 * time of a call over the larger of compute and transfer, in chunks and in whole blocks, and the same of
 * one more step of a ring. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/clock.h"
#include "tests/ranks.h"

enum { MAX_RANKS = 6, SHARD = 1024, HEADS = 8, DIM = 64, TRIES = 3, SEEDS = 4 };

#define WHOLE ((int64_t)1 << 40) /* bytes of a chunk: never cut */

static const double transfer_s = .4;
static const int64_t late_ns = 500000; /* a host that is later than this lets its device wait */

struct pass {
    const char *name, *backward;
    double bytes; /* that a rank of two sends, in blocks of K and V */
};

static const struct pass passes[] = {
    { "forward", "none", 1 }, { "KV-grad", "kv-grad", 2 }, { "Q-grad", "q-grad", 1.508 },
};
enum { PASSES = sizeof(passes) / sizeof(*passes) };

struct test {
    struct meeting meeting;
    const struct pass *pass;
    int64_t chunk_bytes;
    double pair_s;            /* a pair of blocks in the kernel; 0: the bundled kernel, and real data */
    double seconds[MAX_RANKS];
    uint64_t hash[MAX_RANKS]; /* of the outputs */
};

/* ---- a kernel like a device ---- */

static _Thread_local int64_t device_ns; /* when it has done all that it was given */
static _Thread_local double pair_s;

static void work(const rondo_tile_t *tiles, int count, int64_t q_tokens, int64_t k_tokens)
{
    int64_t now = ri_now_ns();
    double share = 0;

    for (int i = 0; i < count; i++)
        share += (double)(tiles[i].q_count * tiles[i].k_count) / (double)(q_tokens * k_tokens);
    device_ns = (now - device_ns > late_ns ? now : device_ns) + (int64_t)(share * pair_s * 1e9);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME,
                    &(struct timespec){ device_ns / 1000000000, device_ns % 1000000000 }, NULL);
}

static int slow_forward(void *context, const rondo_kernel_forward_t *args)
{
    (void)context;
    work(args->tiles, args->tile_count, args->q_tokens, args->k_tokens);
    return 0;
}

static int slow_backward(void *context, const rondo_kernel_backward_t *args)
{
    (void)context;
    work(args->tiles, args->tile_count, args->q_tokens, args->k_tokens);
    return 0;
}

static const rondo_kernel_t slow = { .struct_bytes = sizeof(slow), .name = "sleeps",
                                     .flags = RONDO_KERNEL_MERGES, .forward = slow_forward,
                                     .backward = slow_backward };

/* ---- a rank ---- */

enum { TENSORS = 9, LSE_ROW = HEADS };

struct shard {
    float *memory, *at[TENSORS]; /* q k v d_o o dq dk dv, all alike, and lse */
    size_t floats;
};

static int make_shard(struct shard *s, int rank, size_t tokens)
{
    size_t row = (size_t)HEADS * DIM;

    s->floats = tokens * row;
    s->memory = calloc((TENSORS - 1) * s->floats + tokens * LSE_ROW, sizeof(float));
    if (!s->memory)
        return RONDO_ERR_MEMORY;
    for (int i = 0; i < TENSORS; i++)
        s->at[i] = s->memory + (size_t)i * s->floats;
    for (size_t i = 0; i < 4 * s->floats; i++)
        s->memory[i] = (float)((i * 2654435761u + (size_t)rank * 40503u) >> 7 & 1023) / 1024 - .5f;
    return 0;
}

static uint64_t hash_of(const struct shard *s, size_t tokens)
{
    const unsigned char *bytes = (const unsigned char *)s->at[4];
    size_t count = ((TENSORS - 5) * s->floats + tokens * LSE_ROW) * sizeof(float);
    uint64_t hash = 14695981039346656037u;

    for (size_t i = 0; i < count; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}

static int finish(int err, rondo_request_t *request)
{
    return err ? err : rondo_wait(request, 30000);
}

static int call(rondo_comm_t comm, rondo_plan_t plan, const struct test *t, const struct shard *s,
                double *seconds)
{
    rondo_attention_fwd_t fwd = RONDO_ATTENTION_FWD_INIT;
    rondo_attention_bwd_t bwd = RONDO_ATTENTION_BWD_INIT;
    rondo_request_t request = NULL;
    int backward = t->pass != &passes[0];
    int64_t start_ns;
    int err = 0;

    fwd.q = bwd.q = s->at[0], fwd.k = bwd.k = s->at[1], fwd.v = bwd.v = s->at[2];
    fwd.o = s->at[4], bwd.o = s->at[4], fwd.lse = s->at[8], bwd.lse = s->at[8];
    bwd.d_o = s->at[3], bwd.dq = s->at[5], bwd.dk = s->at[6], bwd.dv = s->at[7];
    if (backward && t->pair_s <= 0)
        err = finish(rondo_attention_forward(plan, &fwd, NULL, &request), &request);
    if (!err)
        err = finish(rondo_barrier(comm, NULL, &request), &request);
    start_ns = ri_now_ns();
    if (!err)
        err = finish(backward ? rondo_attention_backward(plan, &bwd, NULL, &request)
                              : rondo_attention_forward(plan, &fwd, NULL, &request), &request);
    *seconds = (double)(ri_now_ns() - start_ns) * 1e-9;
    return err;
}

static int body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    size_t tokens = t->pair_s > 0 ? SHARD : 48;
    rondo_config_t config = RONDO_CONFIG_INIT;
    rondo_layout_desc_t ld = RONDO_LAYOUT_DESC_INIT;
    rondo_attention_desc_t ad = RONDO_ATTENTION_DESC_INIT;
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    struct shard s = { .memory = NULL };
    rondo_comm_t comm = NULL;
    rondo_layout_t layout = NULL;
    rondo_plan_t plan = NULL;
    char host[16];
    int err;

    prctl(PR_SET_TIMERSLACK, 1UL); /* a sleep ends 50 us late otherwise */
    snprintf(host, sizeof(host), "host%d", rank);
    pair_s = t->pair_s;
    config.transport = "self", config.host_id = host;
    ld.tokens = (int64_t)tokens * ranks, ld.ranks = ranks;
    ad.mask = RONDO_MASK_FULL, ad.q_heads = ad.kv_heads = HEADS, ad.qk_dim = DIM;
    options.schedule = "ring", options.backward = t->pass->backward, options.chunk_bytes = t->chunk_bytes;
    options.kernel = t->pair_s > 0 ? &slow : NULL;
    err = meet(&t->meeting, rank, ranks, &config, &comm);
    if (!err)
        err = rondo_layout_create(&ld, &layout);
    if (!err)
        err = rondo_attention_plan(comm, layout, &ad, &options, &plan);
    if (!err)
        err = make_shard(&s, rank, tokens);
    if (!err)
        err = call(comm, plan, t, &s, &t->seconds[rank]);
    if (err)
        fprintf(stderr, "# rank %d: %s\n", rank, rondo_last_error());
    else
        t->hash[rank] = hash_of(&s, tokens);
    rondo_plan_destroy(plan);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    free(s.memory);
    return err;
}

/* ---- bits ---- */

/* A rank's outputs in orders of arrival drawn from seeds; chunks of a token, of some, and as they come. */
static int same_bits(struct test *t, const struct pass *pass, int ranks)
{
    static const int64_t sizes[] = { 1, 7 * HEADS * DIM * 8, 20 * HEADS * DIM * 8 };
    int wrong = 0;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        uint64_t first[MAX_RANKS] = { 0 };

        for (int seed = 0; seed < SEEDS; seed++) {
            char text[16];

            snprintf(text, sizeof(text), "%d", seed);
            setenv("RONDO_SELF_SEED", text, 1);
            *t = (struct test){ .pass = pass, .chunk_bytes = sizes[i] };
            wrong += run_ranks(ranks, 0, 60, body, t);
            for (int r = 0; r < ranks; r++)
                wrong += seed > 0 && t->hash[r] != first[r];
            memcpy(first, t->hash, sizeof(first));
        }
    }
    unsetenv("RONDO_SELF_SEED");
    return wrong;
}

/* ---- times ---- */

/* Of the slowest rank, the best of some tries: a busy machine disturbs a try. */
static double seconds_of(struct test *t, const struct pass *pass, int ranks, int64_t chunk_bytes, double pair)
{
    double best = 1e9;

    for (int i = 0; i < TRIES; i++) {
        double slowest = 0;

        *t = (struct test){ .pass = pass, .chunk_bytes = chunk_bytes, .pair_s = pair };
        if (run_ranks(ranks, 0, 60, body, t))
            exit(1);
        for (int r = 0; r < ranks; r++)
            slowest = t->seconds[r] > slowest ? t->seconds[r] : slowest;
        best = slowest < best ? slowest : best;
    }
    return best;
}

static void set_bandwidth(double blocks)
{
    char text[32];

    snprintf(text, sizeof(text), "%.0f", blocks * SHARD * HEADS * DIM * 2 * sizeof(float) / transfer_s);
    setenv("RONDO_SELF_BANDWIDTH", text, 1);
}

static double over(double seconds, double compute_s, double moving_s)
{
    return seconds / (compute_s > moving_s ? compute_s : moving_s);
}

/* Two ranks compute two pairs each, and move what the pass moves in transfer_s. */
static void print_call(struct test *t, const struct pass *pass, double ratio)
{
    double compute_s = ratio * transfer_s, chunks, whole;

    set_bandwidth(pass->bytes);
    chunks = seconds_of(t, pass, 2, 0, compute_s / 2);
    whole = seconds_of(t, pass, 2, WHOLE, compute_s / 2);
    printf("%-8s call of 2 ranks  %9.2f %8.3f %8.3f\n", pass->name, ratio,
           over(chunks, compute_s, transfer_s), over(whole, compute_s, transfer_s));
    fflush(stdout);
}

/* A rank more makes one pair and one hop more, or one of K and one of dK. */
static void print_step(struct test *t, const struct pass *pass, double ratio)
{
    double step_s = transfer_s / 2, pair = ratio * step_s, grown[2];

    set_bandwidth(2 * pass->bytes);
    for (int whole = 0; whole < 2; whole++)
        grown[whole] = (seconds_of(t, pass, 6, whole ? WHOLE : 0, pair) -
                        seconds_of(t, pass, 3, whole ? WHOLE : 0, pair)) / 3;
    printf("%-8s step of a ring   %9.2f %8.3f %8.3f\n", pass->name, ratio, over(grown[0], pair, step_s),
           over(grown[1], pair, step_s));
    fflush(stdout);
}

static void print_table(struct test *t)
{
    static const double ratios[] = { .5, 1, 2, 4 };

    printf("time over the larger of compute and transfer\n%-8s %-16s %9s %8s %8s\n", "pass", "", "c / t",
           "chunks", "whole");
    for (int step = 0; step < 2; step++)
        for (int p = 0; p < PASSES; p++)
            for (int i = 0; i < 4; i++)
                (step ? print_step : print_call)(t, &passes[p], ratios[i]);
}

int main(int argc, char **argv)
{
    struct test *t = shared_memory(sizeof(*t));
    int wrong = 0, count = 0;

    if (argc > 1 && strcmp(argv[1], "--table") == 0) {
        print_table(t);
        return 0;
    }
    for (int p = 0; p < PASSES; p++)
        for (int ranks = 2; ranks <= 5; ranks += ranks - 1) {
            int bad = same_bits(t, &passes[p], ranks);

            printf("%sok %d - %s over %d ranks has the same bits in any order of arrival\n",
                   bad ? "not " : "", ++count, passes[p].name, ranks);
            wrong += bad;
        }
    printf("1..%d\n", count);
    return wrong > 0;
}
