/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "peer.h"

int perf_failed(const struct perf_bench *bench, const char *what, rondo_status_t status)
{
    char rank[24] = "";

    if (bench->info.rank >= 0)
        snprintf(rank, sizeof(rank), "rank %d: ", bench->info.rank);
    if (status)
        fprintf(stderr, "%s: %s%s: %s: %s\n", bench->program->about.name, rank, what,
                rondo_strerror(status), rondo_last_error());
    return status;
}

int perf_allowed_cores(void)
{
    cpu_set_t cores;

    return sched_getaffinity(0, sizeof(cores), &cores) ? 0 : CPU_COUNT(&cores);
}

/* The lines below "transport:" in a plan's description, which are indented: how messages move between
 * rank 0 and the others. */
static void print_ways(struct perf_bench *bench, const char *text)
{
    const char *line = strstr(text, "\ntransport:");

    line = line ? strchr(line + 1, '\n') : NULL;
    for (; line && line[1] == ' '; line = strchr(line + 1, '\n')) {
        const char *words = line + 1 + strspn(line + 1, " ");

        perf_report_header(&bench->report, "way", "%.*s", (int)strcspn(words, "\n"), words);
    }
}

void perf_print_plan(struct perf_bench *bench, rondo_plan_t plan)
{
    char text[8192];

    if (bench->info.rank > 0 || rondo_plan_describe(plan, text, sizeof(text), NULL))
        return;
    print_ways(bench, text);
    if (bench->options.full)
        perf_report_text(&bench->report, "plan", text);
}

/* ---- ranks come together ---- */

/* As the launcher numbers it, for what fails before there is a communicator; -1: nobody says. */
static int launched_rank(void)
{
    static const char *const names[] = {"RONDO_RANK", "RANK", "OMPI_COMM_WORLD_RANK"};
    int64_t rank;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *text = getenv(names[i]);

        if (text && perf_parse_number(text, '\0', 0, INT_MAX, &rank) == 0)
            return (int)rank;
    }
    return -1;
}

/* Rank 0's id reaches the others even when it could not be made, so that nobody waits for it. */
static rondo_status_t join_by_mpi(struct perf_bench *bench, const rondo_config_t *config)
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

static rondo_status_t join(struct perf_bench *bench)
{
    rondo_config_t config = RONDO_CONFIG_INIT;
    rondo_status_t status;

    config.timeout_ms = bench->options.timeout_ms;
    bench->mpi = perf_peer_launched();
    status =
        bench->mpi ? join_by_mpi(bench, &config) : rondo_comm_create_env(&config, &bench->comm);
    if (!status)
        status = rondo_comm_query(bench->comm, &bench->info);
    return perf_failed(bench, "the communicator", status);
}

/* ---- the header ---- */

static void print_iterations(struct perf_bench *bench)
{
    const struct perf_options *options = &bench->options;
    char timed[48] = "1000 to 8 KiB, 100 to 8 MiB, then 20", before[24] = "a tenth of them";

    if (options->iterations)
        snprintf(timed, sizeof(timed), "%d", options->iterations);
    if (options->warmup >= 0)
        snprintf(before, sizeof(before), "%d", options->warmup);
    perf_report_header(&bench->report, "iterations", "%s, warm-up %s", timed, before);
}

static void print_header(struct perf_bench *bench, const double *hosts)
{
    struct perf_report *report = &bench->report;
    const rondo_comm_info_t *info = &bench->info;
    const char *spin = getenv("RONDO_SPIN"), *yield = getenv("RONDO_YIELD");
    char map[400];
    size_t used = 0;
    int cores = perf_allowed_cores();

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
    perf_report_header(report, "clock", "CLOCK_MONOTONIC, median of %d repetitions",
                       bench->options.repetitions);
    if (!bench->program->about.sizeless)
        print_iterations(bench);
    if (bench->program->header)
        bench->program->header(bench);
    if (bench->options.peer)
        perf_report_header(report, "peer", "%s, %s", bench->program->peer, perf_peer_version());
}

/* Collective: what rank 0 prints of the others.  *writable, on all ranks: its files could be opened. */
static rondo_status_t open_report(struct perf_bench *bench, int *writable)
{
    const struct perf_program *program = bench->program;
    double *hosts = calloc((size_t)bench->info.size, sizeof(*hosts));
    const struct perf_column *table =
        program->table ? program->table : program->columns(&bench->options);
    double unwritable = 0;
    rondo_status_t status;

    if (!hosts)
        return RONDO_ERR_MEMORY;
    if (bench->info.rank == 0)
        unwritable =
            perf_report_open(&bench->report, &bench->options, &program->about, table) != 0;
    hosts[bench->info.rank] = bench->info.host;
    status = perf_sum_over_ranks(bench->comm, hosts, (size_t)bench->info.size);
    if (!status)
        status = perf_sum_over_ranks(bench->comm, &unwritable, 1);
    perf_failed(bench, "an all-reduce", status);
    if (!status && !unwritable && bench->info.rank == 0)
        print_header(bench, hosts);
    free(hosts);
    *writable = !unwritable;
    return status;
}

/* ---- the program ---- */

/* *writable becomes 0 when rank 0 could not write all of the report; the sizes are done then. */
static int run_sizes(struct perf_bench *bench, int *writable)
{
    const struct perf_options *options = &bench->options;
    int status = RONDO_OK;

    for (size_t bytes = options->min_bytes; bytes <= options->max_bytes && !status; bytes *= 2)
        status = bench->program->size(bench, bytes, bytes == options->min_bytes);
    if (bench->info.rank == 0 && perf_report_close(&bench->report))
        *writable = 0;
    return status;
}

static int refuse_peer(const struct perf_options *options, const char *name)
{
    if (!options->peer)
        return 0;
    if (!perf_peer_launched()) {
        fprintf(stderr, "%s: --peer mpi: start the ranks with mpirun\n", name);
        return 1;
    }
    if (options->max_bytes > INT_MAX) {
        fprintf(stderr, "%s: --peer mpi: size %zu is refused: an MPI count is at most %d\n", name,
                options->max_bytes, INT_MAX);
        return 1;
    }
    return 0;
}

static int refuse_ranks(const struct perf_bench *bench)
{
    const struct perf_program *program = bench->program;

    if (bench->info.size >= program->min_ranks)
        return 0;
    fprintf(stderr, "%s: %s: start %d or more, with rondo-run -n %d%s\n", program->about.name,
            program->fewer, program->min_ranks, program->min_ranks,
            perf_peer_built() ? " or mpirun -n 2" : "; ranks of mpirun are alone, built without MPI");
    return 1;
}

static int run(struct perf_bench *bench)
{
    int refused, writable = 1, status = RONDO_OK;

    if (join(bench))
        return 1; /* without MPI_Finalize, so that mpirun ends the others */
    refused = refuse_ranks(bench);
    if (!refused)
        status = open_report(bench, &writable);
    if (!refused && !status && writable)
        status = run_sizes(bench, &writable);
    if (status)
        rondo_comm_abort(bench->comm);
    rondo_comm_destroy(bench->comm);
    if (status)
        return 1;
    if (bench->mpi)
        perf_peer_finish();
    return refused ? 2 : !writable || bench->wrong > 0;
}

int perf_main(const struct perf_program *program, int argc, char **argv)
{
    struct perf_bench bench = {.program = program, .info = RONDO_COMM_INFO_INIT};
    enum perf_parsed parsed =
        perf_options_parse(&bench.options, program->own, &program->about, argc, argv);

    if (parsed != PERF_RUN)
        return parsed == PERF_REFUSED ? 2 : 0;
    if ((program->refuse && program->refuse(&bench.options)) ||
        refuse_peer(&bench.options, program->about.name))
        return 2;
    bench.info.rank = launched_rank();
    if (bench.options.spin) { /* before the library reads them */
        setenv("RONDO_SPIN", "1000000000", 1);
        setenv("RONDO_YIELD", "-1", 1);
    }
    return run(&bench);
}
