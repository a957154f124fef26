/* SPDX-License-Identifier: Apache-2.0 */
/* Times the hops of a ring of keys and values: a forward plan whose kernel does nothing, through
 * the public API.  It verifies each size before it times it, and can time MPI_Sendrecv beside it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/rondo.h>

#include "bench.h"
#include "measure.h"
#include "options.h"
#include "print.h"
#include "ring_rewrite.h"
#include "ring_run.h"

static const char summary[] =
    "Times one hop of a ring of K+V blocks: a rotation divided by ranks - 1.  Start 2 ranks or more\n"
    "with rondo-run, or with mpirun when built with MPI.  Exit status 1 when anything is wrong.";

static const char meaning[] =
    "size: bytes of one K+V block, as sent per hop per rank.  hop: median over repetitions of the mean\n"
    "on the slowest rank.  algbw = ranks * size / rotation.  moved, bound: bytes that a rank sends in a\n"
    "rotation, and that it reads in place instead, as the plan counts them; busbw = both / rotation, which\n"
    "is algbw * (ranks - 1) / ranks.  exposed: a transfer was under way and nothing computed, per hop.\n"
    "--rewrite: times of one iteration, in which the owner writes its block, the block goes round, every\n"
    "rank reads (sums) every block that arrived once, where it lies, and all have ended before it is\n"
    "written again.  peer: the same by MPI: write, ranks - 1 times MPI_Sendrecv and a read.  alloc x = peer / alloc,\n"
    "caller x = peer / caller.  Bars inside a host at 4 and 16 MiB: alloc x 3; caller x 1.2 with 2\n"
    "ranks, 2 with 4.  rest: without the time in which the rank itself wrote: hand-over, reads, and the wait\n"
    "until the block may be written again, beside Sendrecv and reads; it has no bar.\n"
    "moved: bytes that a rank sends in an iteration, as the transport counts them.\n";

static int take_dims(void *context, const char *text)
{
    struct ring_options *own = context;

    return perf_parse_dims(text, &own->qk_dim, &own->v_dim);
}

static int take_memory(void *context, const char *text)
{
    struct ring_options *own = context;

    if (strcmp(text, "alloc") == 0)
        own->memories = 1u << RING_ALLOC;
    else if (strcmp(text, "caller") == 0)
        own->memories = 1u << RING_CALLER;
    else if (strcmp(text, "both") == 0)
        own->memories = 1u << RING_ALLOC | 1u << RING_CALLER;
    else
        return -1;
    return 0;
}

static int take_reads(void *context, const char *text)
{
    struct ring_options *own = context;

    own->reads_own = strcmp(text, "all") == 0;
    return own->reads_own || strcmp(text, "arrived") == 0 ? 0 : -1;
}

static int take_rewrite(void *context, const char *text)
{
    struct ring_options *own = context;

    own->rewrite = 1;
    return 0;
}

static const struct perf_extra extras[] = {
    {"dims", "QK:V", "head sizes of the block; 4*(QK+V) divides the size [by size]",
     "QK:V, two whole numbers from 1 to 65536", take_dims},
    {"memory", "KIND", "with --rewrite: alloc (rondo_mem_alloc), caller (malloc), both [both]",
     "alloc, caller or both", take_memory},
    {"reads", "WHICH", "with --rewrite, on both sides: blocks that arrived, or all, one's own too [arrived]",
     "arrived or all", take_reads},
    {"rewrite", NULL, "blocks are written anew and read by every rank in each iteration", NULL,
     take_rewrite},
    {NULL, NULL, NULL, NULL, NULL}};

enum column {
    COL_SIZE,
    COL_SEQLEN,
    COL_STEPS,
    COL_HOP,
    COL_MIN,
    COL_MAX,
    COL_P99,
    COL_ALGBW,
    COL_BUSBW,
    COL_MOVED,
    COL_BOUND,
    COL_EXPOSED,
    COL_ITERATIONS,
    COL_PEER,
    COL_RATIO,
    COL_WRONG,
    COLUMNS
};

static const struct perf_column columns[] = {
    [COL_SIZE] = {"size(B)", "size_bytes", 10, 0, PERF_ALWAYS},
    [COL_SEQLEN] = {"seqlen", "sequence_tokens", 9, 0, PERF_ALWAYS},
    [COL_STEPS] = {"steps", "steps", 5, 0, PERF_ALWAYS},
    [COL_HOP] = {"hop(us)", "hop_us", 10, 2, PERF_ALWAYS},
    [COL_MIN] = {"min", "hop_min_us", 10, 2, PERF_FULL},
    [COL_MAX] = {"max", "hop_max_us", 10, 2, PERF_FULL},
    [COL_P99] = {"p99", "hop_p99_us", 10, 2, PERF_FULL},
    [COL_ALGBW] = {"algbw", "algbw_gb_per_s", 8, 3, PERF_FULL},
    [COL_BUSBW] = {"busbw(GB/s)", "busbw_gb_per_s", 11, 3, PERF_ALWAYS},
    [COL_MOVED] = {"moved(B)", "moved_bytes", 10, 0, PERF_FULL},
    [COL_BOUND] = {"bound(B)", "bound_bytes", 10, 0, PERF_FULL},
    [COL_EXPOSED] = {"exposed(us)", "exposed_us", 11, 2, PERF_FULL},
    [COL_ITERATIONS] = {"iterations", "iterations", 10, 0, PERF_FULL},
    [COL_PEER] = {"peer(us)", "peer_hop_us", 10, 2, PERF_PEER},
    [COL_RATIO] = {"ratio", "ratio", 6, 3, PERF_PEER},
    [COL_WRONG] = {"#wrong", "wrong", 6, 0, PERF_ALWAYS},
    [COLUMNS] = {NULL, NULL, 0, 0, PERF_ALWAYS},
};

/* ---- one size ---- */

static void fill_row(const struct perf_options *options, struct ring_run *run, double *row)
{
    size_t repetitions = (size_t)options->repetitions;
    size_t rotations = repetitions * (size_t)run->iterations;
    double ranks = run->check.shape.ranks, hops = ranks - 1;
    double rotation_us = perf_median(run->ours_us, repetitions);

    qsort(run->rotation_us, rotations, sizeof(double), perf_ascending);
    row[COL_SEQLEN] = (double)run->check.shape.tokens * ranks;
    row[COL_STEPS] = hops;
    row[COL_HOP] = rotation_us / hops;
    row[COL_MIN] = run->rotation_us[0] / hops;
    row[COL_MAX] = run->rotation_us[rotations - 1] / hops;
    row[COL_P99] = perf_quantile(run->rotation_us, rotations, 0.99) / hops;
    row[COL_ALGBW] = perf_algbw(ranks, (double)run->bytes, rotation_us);
    row[COL_MOVED] = run->moved_bytes / (double)rotations / ranks;
    row[COL_BOUND] = run->bound_bytes / (double)rotations / ranks;
    row[COL_BUSBW] = (row[COL_MOVED] + row[COL_BOUND]) / rotation_us / 1e3;
    row[COL_EXPOSED] = run->exposed_seconds * 1e6 / (double)rotations / hops / ranks;
    row[COL_ITERATIONS] = run->iterations;
    if (options->peer) {
        row[COL_PEER] = perf_median(run->peer_us, repetitions) / hops;
        row[COL_RATIO] = row[COL_HOP] / row[COL_PEER];
    }
}

/* Of verified rotations, over all sizes: no fill comes twice. */
static uint32_t iteration;

/* A size that was wrong is not timed: its times would say nothing. */
static int measure(struct perf_bench *bench, struct ring_run *run)
{
    int rotations = bench->options.check ? run->iterations : 2;
    double row[COLUMNS];
    rondo_status_t status;

    for (int i = 0; i < COLUMNS; i++)
        row[i] = NAN;
    row[COL_SIZE] = (double)run->bytes;
    status = ring_run_verify(run, iteration, rotations, &row[COL_WRONG]);
    if (status)
        return perf_failed(bench, "a verified rotation", status);
    iteration += (uint32_t)rotations;
    bench->wrong += row[COL_WRONG];
    if (row[COL_WRONG] == 0) {
        status = ring_run_time(run);
        if (status)
            return perf_failed(bench, "a timed rotation", status);
        fill_row(&bench->options, run, row);
    }
    if (bench->info.rank == 0)
        perf_report_row(&bench->report, row);
    return RONDO_OK;
}

static int run_size(struct perf_bench *bench, size_t bytes, int first)
{
    const struct ring_options *own = bench->options.own;
    struct ring_run run;
    int status;

    if (own->rewrite)
        return ring_rewrite_size(bench, bytes, first);
    status =
        perf_failed(bench, "the plan", ring_run_init(&run, bench->comm, &bench->options, bytes));

    if (!status && first)
        perf_print_plan(bench, run.plan);
    if (!status)
        status = measure(bench, &run);
    ring_run_release(&run);
    return status;
}

/* ---- the program ---- */

static void print_algorithm(struct perf_bench *bench)
{
    const struct ring_options *own = bench->options.own;

    perf_report_header(&bench->report, "algorithm",
                       "ring, forward, mask full, f32, one K+V block per hop, slowest rank");
    if (!own->rewrite)
        return;
    perf_report_header(&bench->report, "iteration",
                       "owner writes its block, every rank reads each once%s, all have ended",
                       own->reads_own ? ", its own too" : " that arrived");
    perf_report_header(&bench->report, "bars",
                       "inside a host at 4 and 16 MiB: alloc x 3; caller x 1.2 with 2 ranks, 2 with 4");
}

/* Sizes double, so that all are multiples when the first one is. */
static int refuse_sizes(const struct perf_options *options)
{
    const struct ring_options *own = options->own;
    struct ring_shape shape;
    size_t multiple;
    int bad = own->rewrite ? ring_rewrite_shape(&shape, own, options->min_bytes, &multiple)
                           : ring_shape_init(&shape, options->min_bytes, own->qk_dim, own->v_dim,
                                             &multiple);

    if (!bad)
        return 0;
    fprintf(stderr, "rondo_ring: -m: size %zu is refused: give a multiple of %zu\n",
            options->min_bytes, multiple);
    return 1;
}

static const struct perf_column *choose_columns(const struct perf_options *options)
{
    const struct ring_options *own = options->own;

    return own->rewrite ? ring_rewrite_columns : columns;
}

int main(int argc, char **argv)
{
    static struct ring_options own = {.memories = 1u << RING_ALLOC | 1u << RING_CALLER};
    static const struct perf_program program = {
        .about = {.name = "rondo_ring",
                  .summary = summary,
                  .columns = meaning,
                  .extras = extras,
                  .min_bytes = 65536,
                  .max_bytes = 4194304},
        .own = &own,
        .min_ranks = 2,
        .fewer = "1 rank has no hop",
        .peer = "MPI_Sendrecv",
        .refuse = refuse_sizes,
        .columns = choose_columns,
        .header = print_algorithm,
        .size = run_size};

    return perf_main(&program, argc, argv);
}
