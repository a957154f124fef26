/* SPDX-License-Identifier: Apache-2.0 */
/* Times how a block is handed to the next rank, at the transport's own level: to one that polls, and
 * to one that sleeps, beside a bare wake of the kernel. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/rondo.h>

#include "base/status.h"
#include "bench.h"
#include "futex.h"
#include "hand.h"
#include "measure.h"
#include "peer.h"

static const char summary[] =
    "Times what it costs to hand a block to the next rank so that it can read it: a token goes round\n"
    "the ring of ranks, with 2 ranks to and fro.  Start 2 ranks or more with rondo-run, or with mpirun\n"
    "when built with MPI.  Exit status 1 when anything is wrong.";

static const char meaning[] =
    "All times are of one hand-over: a round divided by ranks.  awake: the next rank polls; median and\n"
    "p99 over the rounds of all repetitions.  asleep: it sleeps on the event descriptor, and is handed\n"
    "the block after --pause; median.  futex: a bare wake of another process after the same pause;\n"
    "over = asleep - futex.  moved: bytes that were copied for it, as the transport counts them: 0 when\n"
    "the block is read in place.  Bars inside a host: awake 2 us with 2 ranks, 10 us with 4; over 5 us.\n";

struct latency_options {
    double pause_us;
};

static int take_pause(void *context, const char *text)
{
    struct latency_options *own = context;
    int64_t us;

    if (perf_parse_number(text, '\0', 1, 1000000, &us))
        return -1;
    own->pause_us = (double)us;
    return 0;
}

static const struct perf_extra extras[] = {
    {"pause", "US", "how long a rank sleeps before it is handed a block [200]",
     "microseconds, 1 to 1000000", take_pause},
    {NULL, NULL, NULL, NULL, NULL}};

enum column {
    COL_SIZE,
    COL_AWAKE,
    COL_MIN,
    COL_MAX,
    COL_P99,
    COL_ASLEEP,
    COL_ASLEEP_P99,
    COL_FUTEX,
    COL_OVER,
    COL_MOVED,
    COL_ITERATIONS,
    COL_PEER,
    COL_RATIO,
    COL_WRONG,
    COLUMNS
};

static const struct perf_column columns[] = {
    [COL_SIZE] = {"size(B)", "size_bytes", 10, 0, PERF_ALWAYS},
    [COL_AWAKE] = {"awake(us)", "awake_us", 10, 2, PERF_ALWAYS},
    [COL_MIN] = {"min", "awake_min_us", 10, 2, PERF_FULL},
    [COL_MAX] = {"max", "awake_max_us", 10, 2, PERF_FULL},
    [COL_P99] = {"p99", "awake_p99_us", 10, 2, PERF_ALWAYS},
    [COL_ASLEEP] = {"asleep(us)", "asleep_us", 10, 2, PERF_ALWAYS},
    [COL_ASLEEP_P99] = {"p99", "asleep_p99_us", 10, 2, PERF_FULL},
    [COL_FUTEX] = {"futex(us)", "futex_us", 9, 2, PERF_ALWAYS},
    [COL_OVER] = {"over(us)", "over_us", 8, 2, PERF_ALWAYS},
    [COL_MOVED] = {"moved(B)", "moved_bytes", 10, 0, PERF_ALWAYS},
    [COL_ITERATIONS] = {"iterations", "iterations", 10, 0, PERF_FULL},
    [COL_PEER] = {"peer(us)", "peer_us", 10, 2, PERF_PEER},
    [COL_RATIO] = {"ratio", "ratio", 6, 3, PERF_PEER},
    [COL_WRONG] = {"#wrong", "wrong", 6, 0, PERF_ALWAYS},
    [COLUMNS] = {NULL, NULL, 0, 0, PERF_ALWAYS},
};

/* Rounds of the sleeping kind last a pause for each rank, so there are fewer. */
enum { ASLEEP_MAX = 50 };

/* One size; times are in us and, on rank 0, those of rounds. */
struct latency {
    struct perf_bench *bench;
    struct hand hand;
    struct perf_futex futex;
    int sleeps;                 /* the transport has a descriptor to sleep on */
    size_t awake, asleep;       /* rounds of one repetition */
    double *awake_us;           /* [repetitions][awake] */
    double *asleep_us;          /* [repetitions][asleep], without the pauses */
    double *paused_us;          /* [repetitions][asleep], summed over ranks in the end */
    double *futex_us;           /* [repetitions][asleep] single wakes */
    double *peer_us;            /* [repetitions] means */
    double *unused_us;          /* [awake] */
    char *peer[2];
    double moved_bytes;         /* of all awake rounds, over all ranks */
};

static double *zeroed(size_t count)
{
    return calloc(count + 1, sizeof(double));
}

static int allocate(struct latency *run)
{
    size_t repetitions = (size_t)run->bench->options.repetitions;
    int ok = 1;

    run->awake_us = zeroed(repetitions * run->awake);
    run->asleep_us = zeroed(repetitions * run->asleep);
    run->paused_us = zeroed(repetitions * run->asleep);
    run->futex_us = zeroed(repetitions * run->asleep);
    run->peer_us = zeroed(repetitions);
    run->unused_us = zeroed(run->awake);
    for (int i = 0; i < 2 && run->bench->options.peer; i++) {
        run->peer[i] = perf_touched(run->hand.bytes);
        ok = ok && run->peer[i];
    }
    return ok && run->awake_us && run->asleep_us && run->paused_us && run->futex_us &&
                   run->peer_us && run->unused_us
               ? RONDO_OK
               : RONDO_ERR_MEMORY;
}

static void release(struct latency *run)
{
    hand_release(&run->hand);
    free(run->awake_us);
    free(run->asleep_us);
    free(run->paused_us);
    free(run->futex_us);
    free(run->peer_us);
    free(run->unused_us);
    free(run->peer[0]);
    free(run->peer[1]);
}

static uint64_t moved_bytes(const struct latency *run)
{
    const struct ri_transport *transport = run->hand.link.transport;

    return transport->sent_bytes[RI_TRANSPORT_LOCAL] + transport->sent_bytes[RI_TRANSPORT_HOST];
}

/* ---- timing ---- */

static int time_awake(struct latency *run, size_t repetition)
{
    int status = perf_barrier(run->bench->comm);
    uint64_t before = moved_bytes(run);

    if (!status)
        status = hand_rounds(&run->hand, (int)run->awake, PERF_AWAKE, 0,
                             run->awake_us + repetition * run->awake, run->unused_us);
    run->moved_bytes += (double)(moved_bytes(run) - before);
    return status;
}

static int time_asleep(struct latency *run, size_t repetition)
{
    const struct latency_options *own = run->bench->options.own;
    size_t at = repetition * run->asleep;
    int status = perf_barrier(run->bench->comm);

    if (!status && run->sleeps)
        status = hand_rounds(&run->hand, (int)run->asleep, PERF_ASLEEP, own->pause_us,
                             run->asleep_us + at, run->paused_us + at);
    return status;
}

/* The others are in the next barrier meanwhile, and soon asleep. */
static int time_futex(struct latency *run, size_t repetition)
{
    const struct latency_options *own = run->bench->options.own;
    double *us = run->futex_us + repetition * run->asleep;

    for (size_t i = 0; i < run->asleep && run->bench->info.rank == 0; i++)
        if (perf_futex_wake(&run->futex, own->pause_us, &us[i]))
            return ri_error(RONDO_ERR_SYSTEM, "the process that was to be woken is silent");
    return RONDO_OK;
}

static void time_peer(struct latency *run, size_t repetition)
{
    int rounds = (int)run->awake;
    double begin;

    perf_peer_barrier();
    begin = perf_now_us();
    perf_peer_token(run->peer[0], run->peer[1], run->hand.bytes, rounds);
    run->peer_us[repetition] = (perf_now_us() - begin) / rounds;
}

static int time_all(struct latency *run)
{
    const struct perf_options *options = &run->bench->options;
    size_t repetitions = (size_t)options->repetitions;
    int warmup = perf_warmup(options, run->hand.bytes), status = 0;

    for (int i = 0; i < warmup && !status; i++)
        status = hand_rounds(&run->hand, 1, PERF_AWAKE, 0, run->unused_us, run->unused_us);
    if (options->peer)
        perf_peer_token(run->peer[0], run->peer[1], run->hand.bytes, warmup);
    for (size_t i = 0; i < repetitions && !status; i++) {
        status = time_awake(run, i);
        if (!status && options->peer)
            time_peer(run, i);
        if (!status)
            status = time_asleep(run, i);
        if (!status)
            status = time_futex(run, i);
    }
    if (!status)
        status = perf_sum_over_ranks(run->bench->comm, run->paused_us, repetitions * run->asleep);
    return status ? status : perf_sum_over_ranks(run->bench->comm, &run->moved_bytes, 1);
}

/* ---- one size ---- */

static void fill_row(struct latency *run, double *row)
{
    size_t repetitions = (size_t)run->bench->options.repetitions;
    size_t awake = repetitions * run->awake, asleep = repetitions * run->asleep;
    double ranks = run->bench->info.size;

    qsort(run->awake_us, awake, sizeof(double), perf_ascending);
    row[COL_AWAKE] = perf_quantile(run->awake_us, awake, 0.5) / ranks;
    row[COL_MIN] = run->awake_us[0] / ranks;
    row[COL_MAX] = run->awake_us[awake - 1] / ranks;
    row[COL_P99] = perf_quantile(run->awake_us, awake, 0.99) / ranks;
    row[COL_MOVED] = run->moved_bytes / (double)awake / ranks;
    row[COL_ITERATIONS] = (double)run->awake;
    row[COL_FUTEX] = perf_median(run->futex_us, asleep);
    for (size_t i = 0; i < asleep; i++)
        run->asleep_us[i] = (run->asleep_us[i] - run->paused_us[i]) / ranks;
    if (run->sleeps) {
        row[COL_ASLEEP] = perf_median(run->asleep_us, asleep);
        row[COL_ASLEEP_P99] = perf_quantile(run->asleep_us, asleep, 0.99);
        row[COL_OVER] = row[COL_ASLEEP] - row[COL_FUTEX];
    }
    if (run->bench->options.peer) {
        row[COL_PEER] = perf_median(run->peer_us, repetitions) / ranks;
        row[COL_RATIO] = row[COL_AWAKE] / row[COL_PEER];
    }
}

static int wrong_over_ranks(struct latency *run, double *wrong)
{
    *wrong = (double)run->hand.wrong;
    return perf_sum_over_ranks(run->bench->comm, wrong, 1);
}

/* A size that was wrong is not timed: its times would say nothing. */
static int measure(struct latency *run, double *row)
{
    static uint32_t iteration; /* over all sizes: no fill comes twice */
    struct perf_bench *bench = run->bench;
    int rounds = bench->options.check ? (int)run->awake : 2;
    int status = hand_verify(&run->hand, iteration, rounds);

    iteration += (uint32_t)rounds;
    if (!status)
        status = wrong_over_ranks(run, &row[COL_WRONG]);
    if (!status && row[COL_WRONG] == 0) {
        status = allocate(run);
        if (!status)
            status = time_all(run);
        if (!status)
            status = wrong_over_ranks(run, &row[COL_WRONG]);
        if (!status && bench->info.rank == 0)
            fill_row(run, row);
    }
    return status;
}

static int run_size(struct perf_bench *bench, size_t bytes, int first)
{
    struct latency run = {.bench = bench, .futex = {.child = -1}};
    double row[COLUMNS];
    int status = hand_init(&run.hand, bench->comm, bytes);

    for (int i = 0; i < COLUMNS; i++)
        row[i] = NAN;
    row[COL_SIZE] = (double)bytes;
    run.awake = (size_t)perf_iterations(&bench->options, bytes);
    run.asleep = run.awake < ASLEEP_MAX ? run.awake : ASLEEP_MAX;
    run.sleeps = perf_link_sleeps(&run.hand.link);
    if (!status && bench->info.rank == 0 && perf_futex_open(&run.futex))
        status = ri_error(RONDO_ERR_SYSTEM, "no process that can be woken: %s", strerror(errno));
    if (!status && first && bench->info.rank == 0)
        perf_report_header(&bench->report, "way", "rank 0 to rank %d: %s", run.hand.next,
                           perf_link_way(&run.hand.link, run.hand.next));
    if (!status)
        status = measure(&run, row);
    perf_failed(bench, "a hand-over", status);
    if (!status) {
        bench->wrong += row[COL_WRONG];
        if (bench->info.rank == 0)
            perf_report_row(&bench->report, row);
    }
    perf_futex_close(&run.futex);
    release(&run);
    return status;
}

/* ---- the program ---- */

static void print_pause(struct perf_bench *bench)
{
    const struct latency_options *own = bench->options.own;

    perf_report_header(&bench->report, "pattern",
                       "a token round the ring, one rank active at a time; asleep after %.0f us",
                       own->pause_us);
    perf_report_header(&bench->report, "bars",
                       "inside a host: awake 2 us with 2 ranks, 10 us with 4; over 5 us");
}

int main(int argc, char **argv)
{
    static struct latency_options own = {.pause_us = 200};
    static const struct perf_program program = {
        .about = {.name = "rondo_latency",
                  .summary = summary,
                  .columns = meaning,
                  .extras = extras,
                  .min_bytes = 65536,
                  .max_bytes = 67108864},
        .own = &own,
        .min_ranks = 2,
        .fewer = "1 rank has nobody to hand to",
        .peer = "MPI_Send and MPI_Recv",
        .table = columns,
        .header = print_pause,
        .size = run_size};

    return perf_main(&program, argc, argv);
}
