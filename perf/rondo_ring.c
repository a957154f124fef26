/* SPDX-License-Identifier: Apache-2.0 */
/* Times the hops of a ring of keys and values: a forward plan whose kernel does nothing, through
 * the public API.  It verifies each size before it times it, and can time MPI_Sendrecv beside it. */
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rondo/rondo.h>

#include "measure.h"
#include "options.h"
#include "peer.h"
#include "print.h"
#include "ring_run.h"

static const struct perf_about about = {
    "rondo_ring",
    "Times one hop of a ring of K+V blocks: a rotation divided by ranks - 1.  Start 2 ranks or more\n"
    "with rondo-run, or with mpirun when built with MPI.  Exit status 1 when anything is wrong.",
    "size: bytes of one K+V block, as sent per hop per rank.  hop: median over repetitions of the mean\n"
    "on the slowest rank.  algbw = ranks * size / rotation; busbw = (ranks - 1) * size / rotation, what\n"
    "a rank sends.  exposed: a transfer was under way and nothing computed, per hop.\n"};

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
    [COL_EXPOSED] = {"exposed(us)", "exposed_us", 11, 2, PERF_FULL},
    [COL_ITERATIONS] = {"iterations", "iterations", 10, 0, PERF_FULL},
    [COL_PEER] = {"peer(us)", "peer_hop_us", 10, 2, PERF_PEER},
    [COL_RATIO] = {"ratio", "ratio", 6, 3, PERF_PEER},
    [COL_WRONG] = {"#wrong", "wrong", 6, 0, PERF_ALWAYS},
    [COLUMNS] = {NULL, NULL, 0, 0, PERF_ALWAYS},
};

struct bench {
    struct perf_options options;
    struct perf_report report; /* rank 0's */
    int mpi;                   /* started by MPI: it carries the id, and is finished at the end */
    rondo_comm_t comm;
    rondo_comm_info_t info;
    uint32_t iteration; /* of verified rotations, over all sizes: no fill comes twice */
    double wrong;       /* over all ranks and sizes */
};

/* Says once per rank what failed, and passes the status on. */
static int failed(const struct bench *bench, const char *what, rondo_status_t status)
{
    if (status)
        fprintf(stderr, "%s: rank %d: %s: %s: %s\n", about.name, bench->info.rank, what,
                rondo_strerror(status), rondo_last_error());
    return status;
}

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
    row[COL_ALGBW] = (double)run->bytes * ranks / rotation_us / 1e3;
    row[COL_BUSBW] = (double)run->bytes * hops / rotation_us / 1e3;
    row[COL_EXPOSED] = run->exposed_seconds * 1e6 / (double)rotations / hops / ranks;
    row[COL_ITERATIONS] = run->iterations;
    if (options->peer) {
        row[COL_PEER] = perf_median(run->peer_us, repetitions) / hops;
        row[COL_RATIO] = row[COL_HOP] / row[COL_PEER];
    }
}

/* A size that was wrong is not timed: its times would say nothing. */
static int measure(struct bench *bench, struct ring_run *run)
{
    int rotations = bench->options.check ? run->iterations : 2;
    double row[COLUMNS];
    rondo_status_t status;

    for (int i = 0; i < COLUMNS; i++)
        row[i] = NAN;
    row[COL_SIZE] = (double)run->bytes;
    status = ring_run_verify(run, bench->iteration, rotations, &row[COL_WRONG]);
    if (status)
        return failed(bench, "a verified rotation", status);
    bench->iteration += (uint32_t)rotations;
    bench->wrong += row[COL_WRONG];
    if (row[COL_WRONG] == 0) {
        status = ring_run_time(run);
        if (status)
            return failed(bench, "a timed rotation", status);
        fill_row(&bench->options, run, row);
    }
    if (bench->info.rank == 0)
        perf_report_row(&bench->report, row);
    return RONDO_OK;
}

static void print_plan(struct bench *bench, const struct ring_run *run)
{
    char text[8192];

    if (bench->options.full && !rondo_plan_describe(run->plan, text, sizeof(text), NULL))
        perf_report_text(&bench->report, "plan", text);
}

static int run_size(struct bench *bench, size_t bytes, int first)
{
    struct ring_run run;
    int status =
        failed(bench, "the plan", ring_run_init(&run, bench->comm, &bench->options, bytes));

    if (!status && first && bench->info.rank == 0)
        print_plan(bench, &run);
    if (!status)
        status = measure(bench, &run);
    ring_run_release(&run);
    return status;
}

/* ---- the program ---- */

/* Rank 0's id reaches the others even when it could not be made, so that nobody waits for it. */
static rondo_status_t join_by_mpi(struct bench *bench, const rondo_config_t *config)
{
    struct {
        rondo_status_t status;
        rondo_unique_id_t id;
    } token = {0};
    int rank, size;

    perf_peer_start(&rank, &size);
    bench->info.rank = rank;
    if (rank == 0)
        token.status = rondo_unique_id_get(&token.id);
    perf_peer_broadcast(&token, sizeof(token));
    if (token.status)
        return token.status;
    return rondo_comm_create(&token.id, rank, size, config, &bench->comm);
}

static rondo_status_t join(struct bench *bench)
{
    rondo_config_t config = RONDO_CONFIG_INIT;
    rondo_status_t status;

    config.timeout_ms = bench->options.timeout_ms;
    bench->mpi = perf_peer_launched();
    status =
        bench->mpi ? join_by_mpi(bench, &config) : rondo_comm_create_env(&config, &bench->comm);
    if (!status)
        status = rondo_comm_query(bench->comm, &bench->info);
    return failed(bench, "the communicator", status);
}

static int allowed_cores(void)
{
    cpu_set_t cores;

    return sched_getaffinity(0, sizeof(cores), &cores) ? 0 : CPU_COUNT(&cores);
}

static void print_header(struct bench *bench, const double *hosts)
{
    struct perf_report *report = &bench->report;
    const rondo_comm_info_t *info = &bench->info;
    const char *spin = getenv("RONDO_SPIN"), *yield = getenv("RONDO_YIELD");
    char map[400];
    size_t used = 0;
    int cores = allowed_cores();

    map[0] = '\0';
    for (int r = 0; r < info->size && used < sizeof(map) - 16; r++)
        used += (size_t)snprintf(map + used, sizeof(map) - used, "%s%d@%d", r ? " " : "", r,
                                 (int)hosts[r]);
    perf_report_header(report, "rondo", "%s", rondo_version());
    perf_report_header(report, "ranks", "%d on %d host(s), rank@host: %s%s", info->size,
                       info->hosts, map, used >= sizeof(map) - 16 ? " ..." : "");
    perf_report_header(report, "transport", "%s", info->transport);
    perf_report_header(report, "cores", "%d allowed, %d ranks on host 0: oversubscribed %s", cores,
                       info->local_size, info->local_size > cores ? "yes" : "no");
    perf_report_header(report, "wait", "spins %s, yields %s%s", spin ? spin : "default",
                       yield ? yield : "default",
                       bench->options.spin ? " (--no-yield: spins only)" : "");
    perf_report_header(report, "algorithm", "ring, forward, mask full, f32, one K+V block per hop");
    perf_report_header(report, "clock", "CLOCK_MONOTONIC, slowest rank, median of %d repetitions",
                       bench->options.repetitions);
    if (bench->options.peer)
        perf_report_header(report, "peer", "MPI_Sendrecv, %s", perf_peer_version());
}

/* Collective: what rank 0 prints of the others. */
static rondo_status_t open_report(struct bench *bench)
{
    double *hosts = calloc((size_t)bench->info.size, sizeof(*hosts));
    double unwritable = 0;
    rondo_status_t status;

    if (!hosts)
        return RONDO_ERR_MEMORY;
    if (bench->info.rank == 0)
        unwritable = perf_report_open(&bench->report, &bench->options, &about, columns) != 0;
    hosts[bench->info.rank] = bench->info.host;
    status = perf_sum_over_ranks(bench->comm, hosts, (size_t)bench->info.size);
    if (!status)
        status = perf_sum_over_ranks(bench->comm, &unwritable, 1);
    failed(bench, "an all-reduce", status);
    if (!status && !unwritable && bench->info.rank == 0)
        print_header(bench, hosts);
    free(hosts);
    return status ? status : unwritable ? RONDO_ERR_SYSTEM : RONDO_OK;
}

static int run_sizes(struct bench *bench)
{
    const struct perf_options *options = &bench->options;
    int status = open_report(bench);

    for (size_t bytes = options->min_bytes; bytes <= options->max_bytes && !status; bytes *= 2)
        status = run_size(bench, bytes, bytes == options->min_bytes);
    if (bench->info.rank == 0 && perf_report_close(&bench->report) && !status)
        status = RONDO_ERR_SYSTEM;
    return status;
}

/* Sizes double, so that all are multiples when the first one is. */
static int refuse_sizes(const struct perf_options *options)
{
    struct ring_shape shape;
    size_t multiple;

    if (ring_shape_init(&shape, options->min_bytes, options->qk_dim, options->v_dim, &multiple) ==
        0)
        return 0;
    fprintf(stderr, "%s: -m: size %zu is refused: give a multiple of %zu\n", about.name,
            options->min_bytes, multiple);
    return 1;
}

static int refuse_peer(const struct perf_options *options)
{
    if (!options->peer)
        return 0;
    if (!perf_peer_launched()) {
        fprintf(stderr, "%s: --peer mpi: start the ranks with mpirun\n", about.name);
        return 1;
    }
    if (options->max_bytes > INT_MAX) {
        fprintf(stderr, "%s: --peer mpi: size %zu is refused: MPI_Sendrecv takes at most %d\n",
                about.name, options->max_bytes, INT_MAX);
        return 1;
    }
    return 0;
}

static int refuse_ranks(const struct bench *bench)
{
    if (bench->info.size > 1)
        return 0;
    fprintf(stderr, "%s: 1 rank has no hop: start 2 or more, with rondo-run -n 2%s\n", about.name,
            perf_peer_built() ? " or mpirun -n 2" : "");
    return 1;
}

int main(int argc, char **argv)
{
    struct bench bench = {.info = RONDO_COMM_INFO_INIT};
    enum perf_parsed parsed = perf_options_parse(&bench.options, &about, argc, argv);
    int status;

    if (parsed != PERF_RUN)
        return parsed == PERF_REFUSED ? 2 : 0;
    if (refuse_sizes(&bench.options) || refuse_peer(&bench.options))
        return 2;
    if (bench.options.spin) { /* before the library reads them */
        setenv("RONDO_SPIN", "1000000000", 1);
        setenv("RONDO_YIELD", "-1", 1);
    }
    status = join(&bench);
    if (status)
        return 1; /* without MPI_Finalize, so that mpirun ends the others */
    if (refuse_ranks(&bench)) {
        status = 2;
    } else if (run_sizes(&bench)) {
        rondo_comm_abort(bench.comm);
        rondo_comm_destroy(bench.comm);
        return 1;
    }
    rondo_comm_destroy(bench.comm);
    if (bench.mpi)
        perf_peer_finish();
    return status ? status : bench.wrong > 0;
}
