/* SPDX-License-Identifier: Apache-2.0 */
/* Times streams of messages between pairs of ranks, at the transport's own level and by the clock of
 * the receiver. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/rondo.h>

#include "bench.h"
#include "measure.h"
#include "peer.h"
#include "stream.h"

static const char summary[] =
    "Times streams of messages between pairs of ranks: rank r and rank r + ranks / 2.  Start 2 ranks or\n"
    "more with rondo-run, or with mpirun when built with MPI.  Exit status 1 when anything is wrong.";

static const char meaning[] =
    "A window is that many messages posted at once, and ends when the receiver has them all and has said\n"
    "so.  time: of one message, by the receiver: windows / (window * iterations).  total: received bytes,\n"
    "as the transport counts them, by the receivers' time, summed over pairs (and both ways); busbw: of\n"
    "the slowest one alone, what that rank sends.  sender: total by the senders' clocks; differ: how far\n"
    "apart the two are.  moved: bytes received per message.  GB/s are 1e9 bytes in a second.\n";

struct bw_options {
    int window, both, neighbours;
    double delay_us;
};

static int take_window(void *context, const char *text)
{
    struct bw_options *own = context;
    int64_t window;

    if (perf_parse_number(text, '\0', 1, 4096, &window))
        return -1;
    own->window = (int)window;
    return 0;
}

static int take_delay(void *context, const char *text)
{
    struct bw_options *own = context;
    int64_t ms;

    if (perf_parse_number(text, '\0', 0, 10000, &ms))
        return -1;
    own->delay_us = (double)ms * 1000;
    return 0;
}

static int take_both(void *context, const char *text)
{
    struct bw_options *own = context;

    own->both = 1;
    return 0;
}

static int take_pairs(void *context, const char *text)
{
    struct bw_options *own = context;

    own->neighbours = strcmp(text, "neighbours") == 0;
    return own->neighbours || strcmp(text, "halves") == 0 ? 0 : -1;
}

static const struct perf_extra extras[] = {
    {"both", NULL, "both ranks of a pair send and receive", NULL, take_both},
    {"delay", "MS", "receivers start so much later, by both clocks [0]", "milliseconds, 0 to 10000",
     take_delay},
    {"pairs", "HOW", "halves: r and r + ranks / 2; neighbours: 2r and 2r + 1 [halves]",
     "halves or neighbours", take_pairs},
    {"window", "N", "messages posted at once [64]", "a whole number from 1 to 4096", take_window},
    {NULL, NULL, NULL, NULL, NULL}};

enum column {
    COL_SIZE,
    COL_WINDOW,
    COL_PAIRS,
    COL_TIME,
    COL_TOTAL,
    COL_BUSBW,
    COL_SENDER,
    COL_DIFFER,
    COL_MOVED,
    COL_ITERATIONS,
    COL_PEER,
    COL_RATIO,
    COL_WRONG,
    COLUMNS
};

static const struct perf_column columns[] = {
    [COL_SIZE] = {"size(B)", "size_bytes", 10, 0, PERF_ALWAYS},
    [COL_WINDOW] = {"window", "window", 6, 0, PERF_ALWAYS},
    [COL_PAIRS] = {"pairs", "pairs", 5, 0, PERF_FULL},
    [COL_TIME] = {"time(us)", "message_us", 10, 2, PERF_ALWAYS},
    [COL_TOTAL] = {"total(GB/s)", "total_gb_per_s", 11, 4, PERF_ALWAYS},
    [COL_BUSBW] = {"busbw(GB/s)", "busbw_gb_per_s", 11, 4, PERF_ALWAYS},
    [COL_SENDER] = {"sender(GB/s)", "sender_gb_per_s", 12, 4, PERF_ALWAYS},
    [COL_DIFFER] = {"differ(%)", "differ_percent", 9, 2, PERF_FULL},
    [COL_MOVED] = {"moved(B)", "moved_bytes", 10, 0, PERF_ALWAYS},
    [COL_ITERATIONS] = {"iterations", "iterations", 10, 0, PERF_FULL},
    [COL_PEER] = {"peer(GB/s)", "peer_gb_per_s", 10, 4, PERF_PEER},
    [COL_RATIO] = {"ratio", "ratio", 6, 3, PERF_PEER},
    [COL_WRONG] = {"#wrong", "wrong", 6, 0, PERF_ALWAYS},
    [COLUMNS] = {NULL, NULL, 0, 0, PERF_ALWAYS},
};

/* What every rank saw in a repetition. */
enum { SEEN_RECEIVE_US, SEEN_SEND_US, SEEN_MOVED, SEEN_PEER_US, SEEN };

struct bw {
    struct perf_bench *bench;
    struct stream stream;
    int windows;
    double *seen; /* [repetitions][ranks][SEEN] */
};

/* Over all sizes: no fill comes twice. */
static uint32_t iteration;

/* ---- who streams to whom ---- */

static int pairs_of(const struct perf_bench *bench)
{
    return bench->info.size / 2;
}

/* -1: a rank that is left over.  *first: it is the first of its pair, who sends. */
static int partner_of(const struct perf_bench *bench, int rank, int *first)
{
    const struct bw_options *own = bench->options.own;
    int pairs = pairs_of(bench);

    *first = own->neighbours ? rank % 2 == 0 : rank < pairs;
    if (rank >= 2 * pairs)
        return -1;
    if (own->neighbours)
        return rank ^ 1;
    return *first ? rank + pairs : rank - pairs;
}

/* ---- timing ---- */

static double *seen_by(const struct bw *run, size_t repetition, int rank)
{
    size_t ranks = (size_t)run->bench->info.size;

    return run->seen + (repetition * ranks + (size_t)rank) * SEEN;
}

static int time_ours(struct bw *run, int windows, double *seen)
{
    const struct bw_options *own = run->bench->options.own;
    struct stream_times times;
    int status;

    stream_fill(&run->stream, iteration);
    status = perf_barrier(run->bench->comm);
    if (!status)
        status = stream_run(&run->stream, iteration, windows, own->delay_us, &times);
    iteration++;
    if (status)
        return status;
    seen[SEEN_RECEIVE_US] = times.receive_us;
    seen[SEEN_SEND_US] = times.send_us;
    seen[SEEN_MOVED] = times.moved_bytes;
    return RONDO_OK;
}

static void time_peer(struct bw *run, int windows, double *seen)
{
    const struct bw_options *own = run->bench->options.own;
    struct stream *stream = &run->stream;
    double begin;

    perf_peer_barrier();
    begin = perf_now_us();
    if (stream->receives)
        perf_pause(own->delay_us);
    if (stream->partner >= 0)
        perf_peer_windows(stream->sends ? stream->out : NULL, stream->receives ? stream->in : NULL,
                          stream->partner, stream->bytes, own->window, windows);
    seen[SEEN_PEER_US] = stream->receives ? perf_now_us() - begin : 0;
}

static int time_all(struct bw *run)
{
    const struct perf_options *options = &run->bench->options;
    int rank = run->bench->info.rank, status = RONDO_OK;
    int warmup = perf_warmup(options, run->stream.bytes);
    double unused[SEEN];

    if (warmup > 0)
        status = time_ours(run, warmup, unused);
    if (warmup > 0 && options->peer)
        time_peer(run, warmup, unused);
    for (size_t i = 0; i < (size_t)options->repetitions && !status; i++) {
        status = time_ours(run, run->windows, seen_by(run, i, rank));
        if (!status && options->peer)
            time_peer(run, run->windows, seen_by(run, i, rank));
    }
    if (status)
        return status;
    return perf_sum_over_ranks(run->bench->comm, run->seen,
                               (size_t)options->repetitions * (size_t)run->bench->info.size * SEEN);
}

/* ---- one size ---- */

/* Median over repetitions of what a rank saw. */
static double median_of(const struct bw *run, int rank, int what)
{
    size_t repetitions = (size_t)run->bench->options.repetitions;
    double *all = calloc(repetitions, sizeof(*all)), median = NAN;

    for (size_t i = 0; i < repetitions && all; i++)
        all[i] = seen_by(run, i, rank)[what];
    if (all)
        median = perf_median(all, repetitions);
    free(all);
    return median;
}

/* A rank that receives, and the partner that sends to it. */
static void add_direction(const struct bw *run, int rank, int partner, double *row)
{
    double moved = median_of(run, rank, SEEN_MOVED);
    double us = median_of(run, rank, SEEN_RECEIVE_US), rate = moved / us / 1e3;
    double messages = (double)run->windows * run->stream.window;

    row[COL_TOTAL] += rate;
    row[COL_SENDER] += moved / median_of(run, partner, SEEN_SEND_US) / 1e3;
    row[COL_BUSBW] = fmin(row[COL_BUSBW], rate);
    row[COL_TIME] = fmax(row[COL_TIME], us / messages);
    row[COL_MOVED] = fmax(row[COL_MOVED], moved / messages);
    if (run->bench->options.peer)
        row[COL_PEER] += (double)run->stream.bytes * messages /
                         median_of(run, rank, SEEN_PEER_US) / 1e3;
}

static void fill_row(const struct bw *run, double *row)
{
    const struct bw_options *own = run->bench->options.own;

    row[COL_TOTAL] = row[COL_SENDER] = row[COL_TIME] = row[COL_MOVED] = 0;
    row[COL_BUSBW] = INFINITY;
    row[COL_PEER] = run->bench->options.peer ? 0 : NAN;
    for (int rank = 0; rank < run->bench->info.size; rank++) {
        int first, partner = partner_of(run->bench, rank, &first);

        if (partner >= 0 && (own->both || !first))
            add_direction(run, rank, partner, row);
    }
    row[COL_PAIRS] = pairs_of(run->bench);
    row[COL_DIFFER] = fabs(row[COL_SENDER] / row[COL_TOTAL] - 1) * 100;
    row[COL_ITERATIONS] = run->windows;
    row[COL_RATIO] = row[COL_PEER] / row[COL_TOTAL];
}

static int wrong_over_ranks(struct bw *run, double *wrong)
{
    *wrong = (double)run->stream.wrong;
    return perf_sum_over_ranks(run->bench->comm, wrong, 1);
}

/* A size that was wrong is not timed: its times would say nothing. */
static int measure(struct bw *run, double *row)
{
    int messages = run->bench->options.check ? run->windows : 2;
    int status = stream_verify(&run->stream, iteration, messages);

    iteration += (uint32_t)messages;
    if (!status)
        status = wrong_over_ranks(run, &row[COL_WRONG]);
    if (status || row[COL_WRONG] > 0)
        return status;
    status = time_all(run);
    if (!status)
        status = wrong_over_ranks(run, &row[COL_WRONG]);
    if (!status)
        fill_row(run, row);
    return status;
}

static void print_way(struct bw *run)
{
    struct perf_bench *bench = run->bench;

    perf_report_header(&bench->report, "way", "rank 0 to rank %d: %s", run->stream.partner,
                       perf_link_way(&run->stream.link, run->stream.partner));
}

static int run_size(struct perf_bench *bench, size_t bytes, int first)
{
    const struct bw_options *own = bench->options.own;
    struct bw run = {.bench = bench, .windows = perf_iterations(&bench->options, bytes)};
    size_t ranks = (size_t)bench->info.size, repetitions = (size_t)bench->options.repetitions;
    double row[COLUMNS];
    int sends, partner = partner_of(bench, bench->info.rank, &sends);
    int status = stream_init(&run.stream, bench->comm, partner, sends || own->both,
                             !sends || own->both, own->window, bytes);

    for (int i = 0; i < COLUMNS; i++)
        row[i] = NAN;
    row[COL_SIZE] = (double)bytes;
    row[COL_WINDOW] = own->window;
    run.seen = calloc(repetitions * ranks * SEEN, sizeof(*run.seen));
    if (!status && !run.seen)
        status = RONDO_ERR_MEMORY;
    if (!status && first && bench->info.rank == 0)
        print_way(&run);
    if (!status)
        status = measure(&run, row);
    perf_failed(bench, "a stream", status);
    if (!status) {
        bench->wrong += row[COL_WRONG];
        if (bench->info.rank == 0)
            perf_report_row(&bench->report, row);
    }
    free(run.seen);
    stream_release(&run.stream);
    return status;
}

/* ---- the program ---- */

static void print_pairs(struct perf_bench *bench)
{
    const struct bw_options *own = bench->options.own;
    int odd = bench->info.size % 2;

    perf_report_header(&bench->report, "pattern", "%d pairs, %s, %s, window %d%s", pairs_of(bench),
                       own->neighbours ? "neighbours 2r and 2r + 1" : "halves r and r + ranks / 2",
                       own->both ? "both ways" : "one way", own->window,
                       odd ? "; the last rank looks on" : "");
    if (own->delay_us > 0)
        perf_report_header(&bench->report, "delay", "receivers start %.0f ms later",
                           own->delay_us / 1000);
}

int main(int argc, char **argv)
{
    static struct bw_options own = {.window = 64};
    static const struct perf_program program = {
        .about = {.name = "rondo_bw",
                  .summary = summary,
                  .columns = meaning,
                  .extras = extras,
                  .min_bytes = 4096,
                  .max_bytes = 4194304},
        .own = &own,
        .min_ranks = 2,
        .fewer = "1 rank has no pair",
        .peer = "MPI_Isend and MPI_Irecv",
        .table = columns,
        .header = print_pairs,
        .size = run_size};

    return perf_main(&program, argc, argv);
}
