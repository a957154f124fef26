/* SPDX-License-Identifier: Apache-2.0 */
/* What schedules take, beside what plans take them for. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/rondo.h>

#include "bench.h"
#include "measure.h"
#include "two_level_run.h"

static const char summary[] =
    "Times the communication of schedules, forward and both backwards, beside what plans take them for by the\n"
    "topology: attention of full mask in f32, with a kernel that does nothing.  Start 2 ranks or more with\n"
    "rondo-run, or with mpirun when built with MPI.  Exit status 1 when anything is wrong.";

static const char meaning[] =
    "size: bytes of one K+V block.  schedule, variant: as the plan makes it of the schedule asked for.\n"
    "predicted: the plan's price.  measured: median over repetitions of a start, from the end of the one before to\n"
    "the end of the last rank; min, max: of the repetitions.  ratio = measured / predicted.  host(B), local(B): what\n"
    "a rank sends in a start to other hosts and inside its own, the mean over ranks; bound(B): what it reads in\n"
    "place.  chosen: yes, a plan of which all is left open takes it; pass, when the gradients of the row are asked\n"
    "for.  #wrong: elements that differ from those of attention in fp64, of a small problem by the same schedule\n"
    "and a real kernel, and starts that did not compute all pairs.  What is wrong is not timed.\n";

/* ---- options ---- */

static int take_heads(void *own, const char *text)
{
    return perf_parse_number(text, '\0', 1, 1024, &((struct two_level_options *)own)->heads);
}

static int take_kv_heads(void *own, const char *text)
{
    return perf_parse_number(text, '\0', 1, 1024, &((struct two_level_options *)own)->kv_heads);
}

static int take_head_size(void *own, const char *text)
{
    return perf_parse_number(text, '\0', 1, 4096, &((struct two_level_options *)own)->head_size);
}

static int take_compute(void *own, const char *text)
{
    return perf_parse_number(text, '\0', 0, 1000000, &((struct two_level_options *)own)->compute_us);
}

/* A list, separated by commas, of names: [count].  Sets their bits. */
static int take_list(const char *text, const char *const *names, int count, unsigned *bits)
{
    for (*bits = 0;; text++) {
        size_t length = strcspn(text, ",");
        int i = 0;

        while (i < count && (strlen(names[i]) != length || strncmp(names[i], text, length) != 0))
            i++;
        if (i == count)
            return -1;
        *bits |= 1u << i;
        text += length;
        if (!*text)
            return 0;
    }
}

static int take_passes(void *own, const char *text)
{
    return take_list(text, two_level_passes, TWO_LEVEL_PASSES, &((struct two_level_options *)own)->passes);
}

static int take_schedules(void *own, const char *text)
{
    return take_list(text, two_level_schedules, TWO_LEVEL_SCHEDULES, &((struct two_level_options *)own)->schedules);
}

static const struct perf_extra extras[] = {
    {"compute-us", "N", "the kernel takes so long for the keys of one rank, forward, 2.5 times that backward [0]",
     "0 to 1000000", take_compute},
    {"head-size", "N", "of queries, keys and values [64]", "1 to 4096", take_head_size},
    {"heads", "N", "query heads [8]", "1 to 1024", take_heads},
    {"kv-heads", "N", "key heads [as --heads]", "a divisor of --heads", take_kv_heads},
    {"passes", "LIST", "of forward, kv-grad and q-grad [all]", "forward, kv-grad, q-grad, with commas", take_passes},
    {"schedules", "LIST", "of ring, two-level and direct [ring,two-level]", "ring, two-level, direct, with commas",
     take_schedules},
    {NULL, NULL, NULL, NULL, NULL},
};

/* Prices are to know what the kernel takes; settings of the caller win.  Before the library reads them. */
static void set_prices(const struct perf_options *options, const struct two_level_options *own)
{
    char flops[32] = "1048576G"; /* the most there is: what does nothing takes no time */

    if (own->compute_us)
        snprintf(flops, sizeof(flops), "%.0f",
                 fmax(1, two_level_flops(own, (int64_t)(options->min_bytes / two_level_token_bytes(own)))));
    setenv("RONDO_COST_FLOPS", flops, 0);
}

static int prepare(const struct perf_options *options)
{
    struct two_level_options *own = options->own;
    size_t multiple;

    own->kv_heads = own->kv_heads ? own->kv_heads : own->heads;
    multiple = two_level_token_bytes(own);
    if (own->heads % own->kv_heads)
        fprintf(stderr, "rondo_two_level: --kv-heads %lld is refused: give a divisor of --heads %lld\n",
                (long long)own->kv_heads, (long long)own->heads);
    else if (options->min_bytes % multiple)
        fprintf(stderr, "rondo_two_level: -m: size %zu is refused: give a multiple of %zu\n", options->min_bytes,
                multiple);
    else if (own->compute_us && options->max_bytes >= 2 * options->min_bytes)
        fprintf(stderr, "rondo_two_level: --compute-us %lld is of blocks of one size: give one, as -m %zu:%zu\n",
                (long long)own->compute_us, options->min_bytes, options->min_bytes);
    else {
        set_prices(options, own);
        return 0;
    }
    return 1;
}

/* ---- the table ---- */

enum { COL_SIZE, COL_SCHEDULE, COL_VARIANT, COL_PASS, COL_PREDICTED, COL_MEASURED, COL_LEAST, COL_MOST, COL_RATIO,
       COL_HOST, COL_LOCAL, COL_BOUND, COL_CHOSEN, COL_WRONG, COLS };

static const struct perf_column columns[] = {
    [COL_SIZE] = {"size(B)", "size_bytes", 9, 0, PERF_ALWAYS},
    [COL_SCHEDULE] = {"schedule", "schedule", 9, 0, PERF_ALWAYS},
    [COL_VARIANT] = {"variant", "variant", 9, 0, PERF_ALWAYS},
    [COL_PASS] = {"pass", "pass", 7, 0, PERF_ALWAYS},
    [COL_PREDICTED] = {"predicted(ms)", "predicted_ms", 13, 3, PERF_ALWAYS},
    [COL_MEASURED] = {"measured(ms)", "measured_ms", 12, 3, PERF_ALWAYS},
    [COL_LEAST] = {"min", "measured_min_ms", 9, 3, PERF_ALWAYS},
    [COL_MOST] = {"max", "measured_max_ms", 9, 3, PERF_ALWAYS},
    [COL_RATIO] = {"ratio", "ratio", 6, 3, PERF_ALWAYS},
    [COL_HOST] = {"host(B)", "host_bytes", 10, 0, PERF_ALWAYS},
    [COL_LOCAL] = {"local(B)", "local_bytes", 10, 0, PERF_FULL},
    [COL_BOUND] = {"bound(B)", "bound_bytes", 10, 0, PERF_FULL},
    [COL_CHOSEN] = {"chosen", "chosen", 6, 0, PERF_ALWAYS},
    [COL_WRONG] = {"#wrong", "wrong", 6, 0, PERF_ALWAYS},
    [COLS] = {NULL, NULL, 0, 0, PERF_ALWAYS},
};

static const char *const choices[] = {[TWO_LEVEL_NOT] = "-", [TWO_LEVEL_OF_PASS] = "pass",
                                      [TWO_LEVEL_CHOSEN] = "yes", [TWO_LEVEL_CHOICES] = NULL};

static void print_case(struct perf_bench *bench, const struct two_level_run *run, const struct two_level_case *it)
{
    const char *const variant[] = {it->scheme.variant, NULL};
    const char *const *const words[COLS] = {[COL_SCHEDULE] = two_level_schedules, [COL_VARIANT] = variant,
                                            [COL_PASS] = two_level_passes, [COL_CHOSEN] = choices};
    size_t repetitions = (size_t)bench->options.repetitions;
    double row[COLS], each = it->starts * bench->info.size;

    for (int c = 0; c < COLS; c++)
        row[c] = (double)NAN;
    row[COL_SIZE] = (double)run->bytes;
    row[COL_SCHEDULE] = it->schedule;
    row[COL_VARIANT] = 0;
    row[COL_PASS] = it->pass;
    row[COL_CHOSEN] = it->chosen;
    row[COL_WRONG] = it->wrong;
    if (it->predicted_ms >= 0)
        row[COL_PREDICTED] = it->predicted_ms;
    if (it->starts > 0) {
        row[COL_MEASURED] = perf_median(it->ms, repetitions);
        row[COL_LEAST] = it->ms[0];
        row[COL_MOST] = it->ms[repetitions - 1];
        row[COL_RATIO] = row[COL_MEASURED] / row[COL_PREDICTED];
        row[COL_LOCAL] = it->sent_bytes[0] / each;
        row[COL_HOST] = it->sent_bytes[1] / each;
        row[COL_BOUND] = it->bound_bytes / each;
    }
    bench->report.words = words;
    perf_report_row(&bench->report, row);
    bench->report.words = NULL;
}

/* ---- the header ---- */

/* What prices take the links for, and the order of ranks: of the plan's description the lines from "links:" on. */
static void print_links(struct perf_bench *bench, rondo_plan_t plan)
{
    size_t bytes = 0;
    rondo_status_t status = rondo_plan_describe(plan, NULL, 0, &bytes);
    char *text = status ? NULL : malloc(bytes), *line, *end;

    if (!text || rondo_plan_describe(plan, text, bytes, NULL)) {
        free(text);
        return;
    }
    line = strstr(text, "\nlinks: ");
    end = line ? strstr(line, "\ntransport:") : NULL;
    if (end) {
        *end = '\0';
        perf_report_text(&bench->report, "links", line + strlen("\nlinks: "));
    }
    free(text);
}

/* Its first lines: where ranks are, and why. */
static void print_topology(struct perf_bench *bench)
{
    enum { LINES = 12 };
    rondo_topo_t topo = NULL;
    size_t bytes = 0;
    char *text = NULL, *end;
    rondo_status_t status = rondo_topo_of_comm(bench->comm, &topo);

    if (!status)
        status = rondo_topo_explain(topo, NULL, 0, &bytes);
    if (!status)
        text = malloc(bytes);
    if (text && !rondo_topo_explain(topo, text, bytes, NULL)) {
        end = text;
        for (int i = 0; i < LINES && end; i++)
            end = strchr(end + (i > 0), '\n');
        if (end)
            *end = '\0';
        perf_report_text(&bench->report, "topology", text);
    } else {
        perf_report_header(&bench->report, "topology", "none: %s", rondo_last_error());
    }
    free(text);
    rondo_topo_destroy(topo);
}

static void print_problem(struct perf_bench *bench)
{
    const struct two_level_options *own = bench->options.own;

    perf_report_header(&bench->report, "problem", "%lld query and %lld key heads of %lld, full mask, f32",
                       (long long)own->heads, (long long)own->kv_heads, (long long)own->head_size);
    if (own->compute_us)
        perf_report_header(&bench->report, "kernel", "sleeps %lld us forward, 2.5 times that backward, for a block",
                           (long long)own->compute_us);
    else
        perf_report_header(&bench->report, "kernel", "does nothing");
    print_topology(bench);
}

/* ---- one size ---- */

/* What a plan takes may have no row. */
static void note_others(struct perf_bench *bench, const struct two_level_run *run)
{
    for (int pass = 0; pass < TWO_LEVEL_PASSES; pass++) {
        int has_row = !(run->own->passes >> pass & 1);

        for (int i = 0; i < run->count; i++)
            has_row |= (int)run->cases[i].pass == pass && run->cases[i].chosen != TWO_LEVEL_NOT;
        if (!has_row)
            perf_report_note(&bench->report, "size %zu, %s: a plan takes %s, which is not among --schedules",
                             run->bytes, two_level_passes[pass], run->taken[pass].schedule);
    }
}

static rondo_status_t measure(struct two_level_run *run)
{
    struct perf_bench *bench = run->bench;
    int starts = bench->options.check ? perf_iterations(&bench->options, run->bytes) : 2;
    rondo_status_t status = two_level_verify(run, starts);

    if (!status)
        status = two_level_measure(run);
    for (int i = 0; i < run->count && !status; i++) {
        bench->wrong += run->cases[i].wrong;
        if (bench->info.rank == 0)
            print_case(bench, run, &run->cases[i]);
    }
    if (!status && bench->info.rank == 0)
        note_others(bench, run);
    return status;
}

static int run_size(struct perf_bench *bench, size_t bytes, int first)
{
    struct two_level_run run;
    rondo_status_t status = two_level_init(&run, bench, bytes);

    if (!status && first && bench->info.rank == 0)
        print_links(bench, run.cases[0].plan);
    if (!status && first)
        perf_print_plan(bench, run.cases[0].plan);
    if (!status)
        status = measure(&run);
    two_level_release(&run);
    return perf_failed(bench, "a schedule", status);
}

int main(int argc, char **argv)
{
    static struct two_level_options own = {.heads = 8, .head_size = 64, .passes = (1u << TWO_LEVEL_PASSES) - 1,
                                           .schedules = 1u << TWO_LEVEL_RING | 1u << TWO_LEVEL_TWO_LEVEL};
    static const struct perf_program program = {
        .about = {.name = "rondo_two_level",
                  .summary = summary,
                  .columns = meaning,
                  .extras = extras,
                  .min_bytes = 1048576,
                  .max_bytes = 1048576,
                  .iterations = 1,
                  .warmup = 1,
                  .peerless = 1},
        .own = &own,
        .min_ranks = 2,
        .fewer = "1 rank moves nothing",
        .refuse = prepare,
        .table = columns,
        .header = print_problem,
        .size = run_size};

    return perf_main(&program, argc, argv);
}
