/* SPDX-License-Identifier: Apache-2.0 */
/* Times how far transfers hide behind a kernel that works as long as it is told, through the public
 * API, on blocks that are computed as they come and on whole ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/rondo.h>

#include "bench.h"
#include "measure.h"
#include "overlap_run.h"

static const char summary[] =
    "Times how far transfers hide behind a kernel: calls of a ring plan whose kernel works, all ranks at\n"
    "once, for a multiple of the time that the transfers take.  Start 2 ranks or more with rondo-run, or\n"
    "with mpirun when built with MPI.  Exit status 1 when anything is wrong.";

static const char meaning[] =
    "All times are of one call, by the slowest rank, medians over repetitions.  compute: the work alone,\n"
    "on all ranks at once.  transfer: calls without work, back to back.  step: calls with work, each\n"
    "started before the one before has ended.  call: calls with work, one by one.  whole: the same when\n"
    "work waits for whole blocks.  x = time / max(compute, transfer).  exposed = call - compute;\n"
    "overlap = 100 * (1 - exposed / transfer), not clipped; slow = 100 * (work within a call / compute -\n"
    "1).  Bars across hosts, 1 rank each, block of 30 bursts: x 1.08; at 300 Mbit/s and ratio 1 x 1.12.\n"
    "-i and -x count the calls of transfer and step, which follow each other: -i is even, as two are under\n"
    "way at once.  In a repetition one call is timed alone.  least x, most x: of call x, and spread: of\n"
    "compute, over repetitions.  A note below the table names rows with an x below 0.97 or a spread above\n"
    "20 %: other programs had the cores for a while.\n";

/* ---- options ---- */

static int take_dims(void *context, const char *text)
{
    struct overlap_options *own = context;

    return perf_parse_dims(text, &own->qk_dim, &own->v_dim);
}

static int take_pass(void *context, const char *text)
{
    struct overlap_options *own = context;

    for (int i = 0; i < PASSES; i++) {
        if (strcmp(text, overlap_pass_names[i]) == 0) {
            own->pass = (enum overlap_pass)i;
            return 0;
        }
    }
    return -1;
}

static int take_compute(void *context, const char *text)
{
    struct overlap_options *own = context;

    for (int i = 0; i < LOAD_KINDS; i++) {
        if (strcmp(text, load_name((enum load_kind)i)) == 0) {
            own->load = (enum load_kind)i;
            return 0;
        }
    }
    return -1;
}

static int take_chunk(void *context, const char *text)
{
    struct overlap_options *own = context;

    return perf_parse_number(text, '\0', 0, INT64_C(1) << 40, &own->chunk_bytes);
}

/* 0.5,1,2: numbers above 0, at most 1000. */
static int take_ratio(void *context, const char *text)
{
    struct overlap_options *own = context;

    own->ratios = 0;
    for (;;) {
        char *end;
        double ratio = strtod(text, &end);

        if (end == text || !(ratio > 0) || ratio > 1000 || own->ratios == RATIOS_MAX ||
            (*end && *end != ','))
            return -1;
        own->ratio[own->ratios++] = ratio;
        if (!*end)
            return 0;
        text = end + 1;
    }
}

static const struct perf_extra extras[] = {
    {"chunk", "BYTES", "of the chunks that blocks are sent in [0: the plan chooses]",
     "bytes, 0 to 2^40", take_chunk},
    {"compute", "KIND", "spin or matmul: what the kernel works with [spin]", "spin or matmul",
     take_compute},
    {"dims", "QK:V", "head sizes of the block; 4*(QK+V) divides the size [32:32]",
     "QK:V, two whole numbers from 1 to 65536", take_dims},
    {"pass", "NAME", "forward, or backward by kv-grad or q-grad [forward]",
     "forward, kv-grad or q-grad", take_pass},
    {"ratio", "LIST", "of compute to transfer [0.5,1,2,4]", "numbers above 0, as 0.5,1,2", take_ratio},
    {NULL, NULL, NULL, NULL, NULL}};

/* ---- the table ---- */

enum column {
    COL_SIZE,
    COL_SEQLEN,
    COL_RATIO,
    COL_COMPUTE,
    COL_TRANSFER,
    COL_STEP,
    COL_STEP_X,
    COL_CALL,
    COL_CALL_X,
    COL_CALL_LEAST,
    COL_CALL_MOST,
    COL_WHOLE_STEP_X,
    COL_WHOLE,
    COL_WHOLE_X,
    COL_EXPOSED,
    COL_OVERLAP,
    COL_SLOW,
    COL_PEER,
    COL_PEER_X,
    COL_SPREAD,
    COL_BUSY,
    COL_WRONG,
    COLUMNS
};

static const struct perf_column columns[] = {
    [COL_SIZE] = {"size(B)", "size_bytes", 10, 0, PERF_ALWAYS},
    [COL_SEQLEN] = {"seqlen", "sequence_tokens", 8, 0, PERF_FULL},
    [COL_RATIO] = {"ratio", "compute_ratio", 6, 2, PERF_ALWAYS},
    [COL_COMPUTE] = {"compute(us)", "compute_us", 11, 1, PERF_ALWAYS},
    [COL_TRANSFER] = {"transfer(us)", "comm_pure_us", 12, 1, PERF_ALWAYS},
    [COL_STEP] = {"step(us)", "step_us", 11, 1, PERF_FULL},
    [COL_STEP_X] = {"step x", "step_over_max", 6, 3, PERF_ALWAYS},
    [COL_CALL] = {"call(us)", "call_us", 11, 1, PERF_FULL},
    [COL_CALL_X] = {"call x", "call_over_max", 6, 3, PERF_ALWAYS},
    [COL_CALL_LEAST] = {"least x", "call_over_max_least", 7, 3, PERF_FULL},
    [COL_CALL_MOST] = {"most x", "call_over_max_most", 6, 3, PERF_FULL},
    [COL_WHOLE_STEP_X] = {"whole step x", "whole_step_over_max", 12, 3, PERF_FULL},
    [COL_WHOLE] = {"whole(us)", "whole_call_us", 11, 1, PERF_FULL},
    [COL_WHOLE_X] = {"whole x", "whole_call_over_max", 7, 3, PERF_ALWAYS},
    [COL_EXPOSED] = {"exposed(us)", "exposed_us", 11, 1, PERF_ALWAYS},
    [COL_OVERLAP] = {"overlap(%)", "overlap_percent", 10, 1, PERF_ALWAYS},
    [COL_SLOW] = {"slow(%)", "comp_slowdown_percent", 7, 1, PERF_ALWAYS},
    [COL_PEER] = {"peer(us)", "peer_us", 11, 1, PERF_PEER},
    [COL_PEER_X] = {"peer x", "peer_over_max", 6, 3, PERF_PEER},
    [COL_SPREAD] = {"spread(%)", "compute_spread_percent", 9, 1, PERF_FULL},
    [COL_BUSY] = {"busy", "machine_busy", 4, 0, PERF_NEVER},
    [COL_WRONG] = {"#wrong", "wrong", 6, 0, PERF_ALWAYS},
    [COLUMNS] = {NULL, NULL, 0, 0, PERF_ALWAYS},
};

/* ---- one size ---- */

/* A row is in doubt when a total is this much below what it cannot be below, or work alone differs so
 * much between the fastest repetition and the slowest. */
#define LEAST_X 0.97
#define SPREAD_PERCENT 20.0

/* Of one repetition. */
static void fill_row(const struct overlap_times *times, double *row)
{
    double most = fmax(times->compute_us, times->transfer_us);

    row[COL_COMPUTE] = times->compute_us;
    row[COL_TRANSFER] = times->transfer_us;
    row[COL_STEP] = times->step_us[OVERLAP_CHUNKS];
    row[COL_STEP_X] = row[COL_STEP] / most;
    row[COL_CALL] = times->call_us[OVERLAP_CHUNKS];
    row[COL_CALL_X] = row[COL_CALL] / most;
    row[COL_WHOLE_STEP_X] = times->step_us[OVERLAP_WHOLE] / most;
    row[COL_WHOLE] = times->call_us[OVERLAP_WHOLE];
    row[COL_WHOLE_X] = row[COL_WHOLE] / most;
    row[COL_EXPOSED] = row[COL_CALL] - times->compute_us;
    row[COL_OVERLAP] = 100 * (1 - row[COL_EXPOSED] / times->transfer_us);
    row[COL_SLOW] = 100 * (times->worked_us[OVERLAP_CHUNKS] / times->compute_us - 1);
    row[COL_PEER] = times->peer_us;
    row[COL_PEER_X] = times->peer_us / most;
}

/* One column over repetitions, which `sorted` then has in order; rows: [count][COLUMNS]. */
static double median_of(const double *rows, size_t count, enum column c, double *sorted)
{
    for (size_t i = 0; i < count; i++)
        sorted[i] = rows[i * COLUMNS + (size_t)c];
    return perf_median(sorted, count);
}

/* Each column by itself. */
static void sum_up(const double *rows, size_t count, double *sorted, double *row)
{
    for (int c = COL_COMPUTE; c <= COL_PEER_X; c++)
        row[c] = median_of(rows, count, (enum column)c, sorted);
    median_of(rows, count, COL_CALL_X, sorted);
    row[COL_CALL_LEAST] = sorted[0];
    row[COL_CALL_MOST] = sorted[count - 1];
    median_of(rows, count, COL_COMPUTE, sorted);
    row[COL_SPREAD] = 100 * (sorted[count - 1] / sorted[0] - 1);
}

/* Why the times of a row cannot be those of the machine alone; NULL: they can. */
static const char *find_doubt(const double *row)
{
    static const enum column totals[] = {COL_STEP_X, COL_CALL_X, COL_WHOLE_STEP_X, COL_WHOLE_X,
                                         COL_PEER_X};

    for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++)
        if (row[totals[i]] < LEAST_X)
            return "total below max(compute, transfer)";
    return row[COL_SPREAD] > SPREAD_PERCENT ? "compute differs between repetitions" : NULL;
}

static void report_row(struct perf_bench *bench, double *row)
{
    const char *doubt = find_doubt(row);

    row[COL_BUSY] = doubt != NULL;
    if (doubt)
        perf_report_note(&bench->report, "size %.0f, ratio %.2f: %s: the machine was busy; run again",
                         row[COL_SIZE], row[COL_RATIO], doubt);
    perf_report_row(&bench->report, row);
}

static rondo_status_t measure_ratio(struct overlap_run *run, double compute_us, double *row)
{
    size_t count = (size_t)run->bench->options.repetitions;
    double *rows = calloc(count * (COLUMNS + 1), sizeof(*rows));
    rondo_status_t status = rows ? RONDO_OK : RONDO_ERR_MEMORY;

    for (size_t i = 0; i < count && !status; i++) {
        struct overlap_times times = {0};

        status = overlap_measure(run, compute_us, &times);
        if (!status)
            status = perf_max_over_ranks(run->bench->comm, (double *)&times,
                                         sizeof(times) / sizeof(double));
        fill_row(&times, rows + i * COLUMNS);
    }
    if (!status)
        sum_up(rows, count, rows + count * COLUMNS, row);
    free(rows);
    if (!run->bench->options.peer)
        row[COL_PEER] = row[COL_PEER_X] = NAN;
    return status;
}

/* What the ratios are of: the first is a warm-up. */
static rondo_status_t find_transfer(struct overlap_run *run, double *transfer_us)
{
    double us[4];
    rondo_status_t status = RONDO_OK;

    for (int i = 0; i < 4 && !status; i++)
        status = overlap_transfer(run, &us[i]);
    if (!status)
        status = perf_max_over_ranks(run->bench->comm, us, 4);
    if (!status)
        *transfer_us = perf_median(us + 1, 3);
    return status;
}

static rondo_status_t measure_all(struct overlap_run *run, double *row)
{
    struct perf_bench *bench = run->bench;
    double transfer_us = 0;
    rondo_status_t status = find_transfer(run, &transfer_us);

    if (!status)
        status = perf_barrier(bench->comm); /* ranks work at once from here on */
    load_calibrate(&run->load, run->own->load);
    for (int i = 0; i < run->own->ratios && !status; i++) {
        row[COL_RATIO] = run->own->ratio[i];
        status = measure_ratio(run, run->own->ratio[i] * transfer_us, row);
        if (!status && bench->info.rank == 0)
            report_row(bench, row);
    }
    return status;
}

/* A size that was wrong is not timed: its times would say nothing. */
static rondo_status_t measure(struct overlap_run *run)
{
    struct perf_bench *bench = run->bench;
    double row[COLUMNS];
    rondo_status_t status = overlap_verify(run, bench->options.check ? bench->options.iterations : 2);

    for (int i = 0; i < COLUMNS; i++)
        row[i] = NAN;
    row[COL_SIZE] = (double)run->bytes;
    row[COL_SEQLEN] = (double)run->shape.tokens * run->shape.ranks;
    row[COL_WRONG] = (double)run->wrong;
    if (!status)
        status = perf_sum_over_ranks(bench->comm, &row[COL_WRONG], 1);
    if (status)
        return status;
    bench->wrong += row[COL_WRONG];
    if (row[COL_WRONG] == 0)
        return measure_all(run, row);
    if (bench->info.rank == 0)
        perf_report_row(&bench->report, row);
    return RONDO_OK;
}

static int run_size(struct perf_bench *bench, size_t bytes, int first)
{
    struct overlap_run run;
    rondo_status_t status = overlap_init(&run, bench, bytes);

    if (!status && first)
        perf_print_plan(bench, run.plan[OVERLAP_CHUNKS]);
    if (!status)
        status = measure(&run);
    overlap_release(&run);
    return perf_failed(bench, "a call", status);
}

/* ---- the program ---- */

static void print_load(struct perf_bench *bench)
{
    const struct overlap_options *own = bench->options.own;

    perf_report_header(&bench->report, "algorithm", "ring, %s, mask full, f32, chunks of %lld bytes%s",
                       overlap_pass_names[own->pass], (long long)own->chunk_bytes,
                       own->chunk_bytes ? "" : " (the plan chooses)");
    perf_report_header(&bench->report, "compute", "%s on all ranks at once, calibrated",
                       load_name(own->load));
    perf_report_header(&bench->report, "bars",
                       "across hosts, 1 rank each, block of 30 bursts: x 1.08; at 300 Mbit/s and ratio 1 1.12");
}

static int refuse_calls(const struct perf_options *options)
{
    if (options->iterations % 2) {
        fprintf(stderr, "rondo_overlap: -i %d is refused: give an even number: two calls are under way"
                        " at once, and may end together\n", options->iterations);
        return 1;
    }
    if (options->warmup < 1) {
        fprintf(stderr, "rondo_overlap: -x 0 is refused: give 1 or more: calls are timed from the end of"
                        " the one before\n");
        return 1;
    }
    return 0;
}

/* Sizes double, so that all are multiples when the first one is. */
static int refuse(const struct perf_options *options)
{
    const struct overlap_options *own = options->own;
    struct ring_shape shape;
    size_t multiple;

    if (refuse_calls(options))
        return 1;
    if (options->peer && own->pass != PASS_FORWARD) {
        fprintf(stderr, "rondo_overlap: --peer mpi goes with --pass forward alone\n");
        return 1;
    }
    if (!ring_shape_init(&shape, options->min_bytes, own->qk_dim, own->v_dim, &multiple))
        return 0;
    fprintf(stderr, "rondo_overlap: -m: size %zu is refused: give a multiple of %zu, by --dims %d:%d\n",
            options->min_bytes, multiple, own->qk_dim, own->v_dim);
    return 1;
}

int main(int argc, char **argv)
{
    static struct overlap_options own = {
        .qk_dim = 32, .v_dim = 32, .ratio = {0.5, 1, 2, 4}, .ratios = 4};
    static const struct perf_program program = {
        .about = {.name = "rondo_overlap",
                  .summary = summary,
                  .columns = meaning,
                  .extras = extras,
                  .min_bytes = 4194304,
                  .max_bytes = 4194304,
                  .iterations = 4,
                  .warmup = 1},
        .own = &own,
        .min_ranks = 2,
        .fewer = "1 rank has nothing to transfer",
        .peer = "MPI_Isend and MPI_Irecv, MPI_Testall between portions of 0.2 ms",
        .refuse = refuse,
        .table = columns,
        .header = print_load,
        .size = run_size};

    return perf_main(&program, argc, argv);
}
