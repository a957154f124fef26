/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_rewrite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"
#include "pattern.h"
#include "peer.h"

enum column {
    COL_SIZE,
    COL_SEQLEN,
    COL_STEPS,
    COL_ALLOC,
    COL_CALLER,
    COL_ALLOC_MIN,
    COL_CALLER_MIN,
    COL_ALLOC_MOVED,
    COL_CALLER_MOVED,
    COL_ITERATIONS,
    COL_PEER,
    COL_ALLOC_FASTER,
    COL_CALLER_FASTER,
    COL_ALLOC_REST,
    COL_CALLER_REST,
    COL_PEER_REST,
    COL_ALLOC_REST_FASTER,
    COL_CALLER_REST_FASTER,
    COL_WRONG,
    COLUMNS
};

const struct perf_column ring_rewrite_columns[] = {
    [COL_SIZE] = {"size(B)", "size_bytes", 10, 0, PERF_ALWAYS},
    [COL_SEQLEN] = {"seqlen", "sequence_tokens", 7, 0, PERF_FULL},
    [COL_STEPS] = {"steps", "steps", 5, 0, PERF_ALWAYS},
    [COL_ALLOC] = {"alloc(us)", "alloc_us", 10, 2, PERF_ALWAYS},
    [COL_CALLER] = {"caller(us)", "caller_us", 10, 2, PERF_ALWAYS},
    [COL_ALLOC_MIN] = {"alloc min", "alloc_min_us", 10, 2, PERF_FULL},
    [COL_CALLER_MIN] = {"caller min", "caller_min_us", 10, 2, PERF_FULL},
    [COL_ALLOC_MOVED] = {"alloc moved", "alloc_moved_bytes", 11, 0, PERF_FULL},
    [COL_CALLER_MOVED] = {"caller moved", "caller_moved_bytes", 12, 0, PERF_FULL},
    [COL_ITERATIONS] = {"iterations", "iterations", 10, 0, PERF_FULL},
    [COL_PEER] = {"peer(us)", "peer_us", 10, 2, PERF_PEER},
    [COL_ALLOC_FASTER] = {"alloc x", "alloc_times_faster", 7, 2, PERF_PEER},
    [COL_CALLER_FASTER] = {"caller x", "caller_times_faster", 8, 2, PERF_PEER},
    [COL_ALLOC_REST] = {"alloc rest", "alloc_rest_us", 10, 2, PERF_FULL},
    [COL_CALLER_REST] = {"caller rest", "caller_rest_us", 11, 2, PERF_FULL},
    [COL_PEER_REST] = {"peer rest", "peer_rest_us", 10, 2, PERF_FULL},
    [COL_ALLOC_REST_FASTER] = {"alloc rest x", "alloc_rest_times_faster", 12, 2, PERF_PEER},
    [COL_CALLER_REST_FASTER] = {"caller rest x", "caller_rest_times_faster", 13, 2, PERF_PEER},
    [COL_WRONG] = {"#wrong", "wrong", 6, 0, PERF_ALWAYS},
    [COLUMNS] = {NULL, NULL, 0, 0, PERF_ALWAYS},
};

/* Of an iteration, [repetitions]: all of it, and what is left of it without the writing. */
struct times {
    double *mean_us, *rest_us;
};

/* Where the blocks of an iteration lie, and what became of them. */
struct variant {
    float *k, *v;
    struct times times;
    double moved_bytes;
};

struct rewrite {
    struct perf_bench *bench;
    size_t bytes, k_bytes;    /* of a block, and of the keys in it */
    struct ring_shape shape;
    int iterations;
    rondo_kernel_t kernel;
    rondo_layout_t layout;
    rondo_plan_t plan;
    rondo_attention_fwd_t tensors;
    float *q, *o;
    struct variant memory[RING_MEMORIES];
    struct times peer_times;
    char *peer[3];            /* own block, and two that come in turn */
    uint32_t *sums;           /* [iterations][ranks] of the blocks read, by owner */
    uint32_t *row;            /* of the iteration under way */
    uint64_t wrong;
};

/* ---- the kernel ---- */

/* One head and one batch row, so rows follow each other without a gap. */
static uint32_t sum_rows(const rondo_tensor_t *tensor, int64_t first, int64_t count, int dims)
{
    const float *rows = (const float *)tensor->data + first * tensor->token_stride;

    return pattern_sum(rows, (size_t)count * (size_t)dims * sizeof(float));
}

static int reads(const struct rewrite *run, int64_t owner)
{
    const struct ring_options *own = run->bench->options.own;

    return own->reads_own || owner != run->shape.rank;
}

/* Tiles of one block are cut by queries, and perhaps by keys: those of the first query meet each key
 * once. */
static int read_block(void *context, const rondo_kernel_forward_t *args)
{
    struct rewrite *run = context;

    for (int i = 0; i < args->tile_count; i++) {
        const rondo_tile_t *tile = &args->tiles[i];
        int64_t owner = tile->k_start / run->shape.tokens;

        if (tile->q_start % run->shape.tokens > 0 || !reads(run, owner))
            continue;
        run->row[owner] +=
            sum_rows(&args->k, tile->k_first, tile->k_count, run->shape.qk_dim) +
            sum_rows(&args->v, tile->k_first, tile->k_count, run->shape.v_dim);
    }
    return 0;
}

/* ---- made and released ---- */

/* So that a block is one call of the kernel. */
enum { BLOCK_TOKENS = 16 };

int ring_rewrite_shape(struct ring_shape *shape, const struct ring_options *own, size_t bytes,
                       size_t *multiple)
{
    if (own->qk_dim > 0)
        return ring_shape_init(shape, bytes, own->qk_dim, own->v_dim, multiple);
    return ring_shape_init_wide(shape, bytes, BLOCK_TOKENS, multiple);
}

static int times_init(struct times *times, size_t repetitions)
{
    times->mean_us = perf_touched(repetitions * sizeof(double));
    times->rest_us = perf_touched(repetitions * sizeof(double));
    return times->mean_us && times->rest_us;
}

static rondo_status_t allocate(struct rewrite *run)
{
    const struct ring_shape *shape = &run->shape;
    size_t tokens = (size_t)shape->tokens, ranks = (size_t)shape->ranks;
    size_t repetitions = (size_t)run->bench->options.repetitions;
    size_t v_bytes = run->bytes - run->k_bytes;
    int ok;

    run->q = perf_touched(run->k_bytes);
    run->o = perf_touched(v_bytes);
    run->tensors.lse = perf_touched(tokens * sizeof(float));
    run->sums = perf_touched((size_t)run->iterations * ranks * sizeof(uint32_t));
    ok = times_init(&run->peer_times, repetitions);
    ok = ok && run->q && run->o && run->tensors.lse && run->sums;
    for (int i = 0; i < 3 && run->bench->options.peer; i++) {
        run->peer[i] = perf_touched(run->bytes);
        ok = ok && run->peer[i];
    }
    for (int m = 0; m < RING_MEMORIES && ok; m++) {
        const struct ring_options *own = run->bench->options.own;
        struct variant *memory = &run->memory[m];

        ok = times_init(&memory->times, repetitions);
        if (!(own->memories & 1u << m))
            continue;
        memory->k = ring_memory_alloc(run->bench->comm, m, run->k_bytes);
        memory->v = ring_memory_alloc(run->bench->comm, m, v_bytes);
        ok = ok && memory->k && memory->v;
    }
    run->tensors.q = run->q;
    run->tensors.o = run->o;
    return ok ? RONDO_OK : RONDO_ERR_MEMORY;
}

static void release(struct rewrite *run)
{
    rondo_plan_destroy(run->plan);
    rondo_layout_destroy(run->layout);
    free(run->q);
    free(run->o);
    free(run->tensors.lse);
    free(run->sums);
    free(run->peer_times.mean_us);
    free(run->peer_times.rest_us);
    for (int i = 0; i < 3; i++)
        free(run->peer[i]);
    for (int m = 0; m < RING_MEMORIES; m++) {
        free(run->memory[m].times.mean_us);
        free(run->memory[m].times.rest_us);
        ring_memory_free(run->bench->comm, m, run->memory[m].k);
        ring_memory_free(run->bench->comm, m, run->memory[m].v);
    }
}

static rondo_status_t init(struct rewrite *run, struct perf_bench *bench, size_t bytes)
{
    const struct ring_options *own = bench->options.own;
    struct ring_shape *shape = &run->shape;
    rondo_status_t status;
    size_t multiple;

    *run = (struct rewrite){.bench = bench, .bytes = bytes,
                            .tensors = RONDO_ATTENTION_FWD_INIT,
                            .iterations = perf_iterations(&bench->options, bytes)};
    shape->rank = bench->info.rank;
    shape->ranks = bench->info.size;
    if (ring_rewrite_shape(shape, own, bytes, &multiple))
        return RONDO_ERR_ARGUMENT;
    run->k_bytes = (size_t)shape->tokens * (size_t)shape->qk_dim * sizeof(float);
    run->kernel = (rondo_kernel_t){.struct_bytes = sizeof(run->kernel),
                                   .name = "rondo_ring",
                                   .flags = RONDO_KERNEL_MERGES,
                                   .context = run,
                                   .forward = read_block};
    status = allocate(run);
    return status ? status
                  : ring_plan(bench->comm, shape, &run->kernel, &run->layout, &run->plan);
}

/* ---- iterations ---- */

/* Over all sizes: no fill comes twice. */
static uint32_t next_fill;

/* The first fill of these iterations. */
static uint32_t begin(struct rewrite *run, int iterations)
{
    size_t count = (size_t)iterations * (size_t)run->shape.ranks;
    uint32_t first = next_fill;

    for (size_t i = 0; i < count; i++)
        run->sums[i] = 0;
    next_fill += (uint32_t)iterations;
    return first;
}

/* Blocks of which the sum that was read is not that of what their owners wrote. */
static void judge(struct rewrite *run, const char *whose, uint32_t first, int iterations)
{
    for (int i = 0; i < iterations; i++)
        for (int owner = 0; owner < run->shape.ranks; owner++) {
            uint32_t sum = run->sums[i * run->shape.ranks + owner];
            uint32_t expected = pattern_expected(run->bytes, owner, first + (uint32_t)i, 0);

            if (!reads(run, owner) || sum == expected)
                continue;
            if (run->wrong++ == 0)
                fprintf(stderr, "rank %d: %s, size %zu: block of rank %d has sum %08x instead of %08x\n",
                        run->shape.rank, whose, run->bytes, owner, sum, expected);
        }
}

/* Both of mean times, from the sums over iterations. */
static void set_times(const struct times *times, int repetition, double all_us, double written_us, int iterations)
{
    times->mean_us[repetition] = all_us / iterations;
    times->rest_us[repetition] = (all_us - written_us) / iterations;
}

static rondo_status_t iterate_ours(struct rewrite *run, int m, int iterations, int repetition)
{
    uint32_t first = begin(run, iterations);
    const struct variant *memory = &run->memory[m];
    rondo_status_t status = perf_barrier(run->bench->comm);
    double start = perf_now_us(), written_us = 0;

    run->tensors.k = memory->k;
    run->tensors.v = memory->v;
    for (int i = 0; i < iterations && !status; i++) {
        rondo_request_t request = NULL;
        double begin_us = perf_now_us();

        run->row = run->sums + i * run->shape.ranks;
        pattern_fill(memory->k, run->k_bytes, run->shape.rank, first + (uint32_t)i, 0);
        pattern_fill(memory->v, run->bytes - run->k_bytes, run->shape.rank, first + (uint32_t)i,
                     run->k_bytes / sizeof(float));
        written_us += perf_now_us() - begin_us;
        status = perf_wait(rondo_attention_forward(run->plan, &run->tensors, NULL, &request),
                           &request);
    }
    set_times(&memory->times, repetition, perf_now_us() - start, written_us, iterations);
    if (!status)
        judge(run, ring_memory_name(m), first, iterations);
    return status;
}

static void iterate_peer(struct rewrite *run, int iterations, int repetition)
{
    uint32_t first = begin(run, iterations);
    const struct ring_shape *shape = &run->shape;
    double start, written_us = 0;

    perf_peer_barrier();
    start = perf_now_us();
    for (int i = 0; i < iterations; i++) {
        uint32_t *row = run->sums + i * shape->ranks;
        char *from = run->peer[0];
        double begin_us = perf_now_us();

        pattern_fill(from, run->bytes, shape->rank, first + (uint32_t)i, 0);
        written_us += perf_now_us() - begin_us;
        if (reads(run, shape->rank))
            row[shape->rank] = pattern_sum(from, run->bytes);
        for (int hop = 1; hop < shape->ranks; hop++) {
            char *to = run->peer[1 + hop % 2];

            perf_peer_hop(from, to, run->bytes);
            row[(shape->rank + shape->ranks - hop) % shape->ranks] = pattern_sum(to, run->bytes);
            from = to;
        }
    }
    set_times(&run->peer_times, repetition, perf_now_us() - start, written_us, iterations);
    judge(run, "the peer", first, iterations);
}

static rondo_status_t sent_bytes(struct rewrite *run, double *bytes)
{
    rondo_plan_stats_t stats = RONDO_PLAN_STATS_INIT;
    rondo_status_t status = rondo_plan_stats(run->plan, &stats);

    *bytes = (double)(stats.sent_bytes[0] + stats.sent_bytes[1]);
    return status;
}

/* One turn of each that is asked for: memory of the transport, the caller's, the peer. */
static rondo_status_t take_turns(struct rewrite *run, int iterations, int repetition)
{
    const struct ring_options *own = run->bench->options.own;
    rondo_status_t status = RONDO_OK;

    for (int m = 0; m < RING_MEMORIES && !status; m++) {
        struct variant *memory = &run->memory[m];
        double before = 0, after = 0;

        if (!(own->memories & 1u << m))
            continue;
        status = sent_bytes(run, &before);
        if (!status)
            status = iterate_ours(run, m, iterations, repetition);
        if (!status)
            status = sent_bytes(run, &after);
        memory->moved_bytes = (after - before) / iterations;
    }
    if (!status && run->bench->options.peer)
        iterate_peer(run, iterations, repetition);
    return status;
}

static rondo_status_t wrong_over_ranks(struct rewrite *run, double *wrong)
{
    *wrong = (double)run->wrong;
    return perf_sum_over_ranks(run->bench->comm, wrong, 1);
}

/* ---- one size ---- */

/* Times become those of the slowest rank, in order. */
static rondo_status_t gather(struct rewrite *run)
{
    size_t repetitions = (size_t)run->bench->options.repetitions;
    const struct times *all[RING_MEMORIES + 1] = { &run->peer_times };
    rondo_status_t status = RONDO_OK;

    for (int m = 0; m < RING_MEMORIES; m++)
        all[1 + m] = &run->memory[m].times;
    for (int i = 0; i <= RING_MEMORIES && !status; i++) {
        status = perf_max_over_ranks(run->bench->comm, all[i]->mean_us, repetitions);
        if (!status)
            status = perf_max_over_ranks(run->bench->comm, all[i]->rest_us, repetitions);
    }
    return status;
}

static void fill_row(struct rewrite *run, double *row)
{
    static const int mean[] = {COL_ALLOC, COL_CALLER}, least[] = {COL_ALLOC_MIN, COL_CALLER_MIN};
    static const int moved[] = {COL_ALLOC_MOVED, COL_CALLER_MOVED};
    static const int faster[] = {COL_ALLOC_FASTER, COL_CALLER_FASTER};
    static const int rest[] = {COL_ALLOC_REST, COL_CALLER_REST};
    static const int rest_faster[] = {COL_ALLOC_REST_FASTER, COL_CALLER_REST_FASTER};
    const struct ring_options *own = run->bench->options.own;
    size_t repetitions = (size_t)run->bench->options.repetitions;

    row[COL_SEQLEN] = (double)run->shape.tokens * run->shape.ranks;
    row[COL_STEPS] = run->shape.ranks - 1;
    row[COL_ITERATIONS] = run->iterations;
    if (run->bench->options.peer) {
        row[COL_PEER] = perf_median(run->peer_times.mean_us, repetitions);
        row[COL_PEER_REST] = perf_median(run->peer_times.rest_us, repetitions);
    }
    for (int m = 0; m < RING_MEMORIES; m++) {
        if (!(own->memories & 1u << m))
            continue;
        row[mean[m]] = perf_median(run->memory[m].times.mean_us, repetitions);
        row[least[m]] = run->memory[m].times.mean_us[0];
        row[rest[m]] = perf_median(run->memory[m].times.rest_us, repetitions);
        row[moved[m]] = run->memory[m].moved_bytes;
        row[faster[m]] = row[COL_PEER] / row[mean[m]];
        row[rest_faster[m]] = row[COL_PEER_REST] / row[rest[m]];
    }
}

/* The first iterations are checked before any is timed; what was timed is checked too. */
static rondo_status_t measure(struct rewrite *run, double *row)
{
    const struct perf_options *options = &run->bench->options;
    int checked = options->check ? run->iterations : 2, warmup = perf_warmup(options, run->bytes);
    rondo_status_t status;

    checked = checked < run->iterations ? checked : run->iterations;
    warmup = warmup < run->iterations ? warmup : run->iterations;
    status = take_turns(run, checked, 0);
    if (!status)
        status = wrong_over_ranks(run, &row[COL_WRONG]);
    if (status || row[COL_WRONG] > 0)
        return status;
    if (warmup > 0)
        status = take_turns(run, warmup, 0);
    for (int i = 0; i < options->repetitions && !status; i++)
        status = take_turns(run, run->iterations, i);
    if (!status)
        status = gather(run);
    if (!status)
        status = wrong_over_ranks(run, &row[COL_WRONG]);
    if (!status)
        fill_row(run, row);
    return status;
}

int ring_rewrite_size(struct perf_bench *bench, size_t bytes, int first)
{
    struct rewrite run;
    double row[COLUMNS];
    int status = init(&run, bench, bytes);

    for (int i = 0; i < COLUMNS; i++)
        row[i] = NAN;
    row[COL_SIZE] = (double)bytes;
    if (!status && first)
        perf_print_plan(bench, run.plan);
    if (!status)
        status = measure(&run, row);
    perf_failed(bench, "an iteration", status);
    if (!status) {
        bench->wrong += row[COL_WRONG];
        if (bench->info.rank == 0)
            perf_report_row(&bench->report, row);
    }
    release(&run);
    return status;
}
