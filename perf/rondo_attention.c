/* SPDX-License-Identifier: Apache-2.0 */
/* How much of P cores a plan on P ranks makes use of, beside what the machine lets a kernel make of them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/rondo.h>

#include "attention_run.h"
#include "bench.h"
#include "measure.h"

static const char summary[] =
    "Parallel efficiency of causal attention, forward and backward: the kernel in one call on one rank, a\n"
    "plan on all P ranks, and the kernel on each rank's share in P processes that are connected to nobody,\n"
    "in turn.  Start the ranks with rondo-run, at most one for each core.  Exit status 1 when anything is wrong.";

static const char meaning[] =
    "single: one call of the kernel for the whole sequence, by rank 0, while the others sleep.  plan: from a\n"
    "barrier to the last rank's end.  shares: each share's queries against all keys that they see, at once.\n"
    "effic = single / (P * plan); ceiling = single / (P * shares), what the machine lets pass; of it = shares\n"
    "/ plan: medians of what they are in each repetition, the least and the most of the last.  GFLOP/s: of\n"
    "the plan.  exposed: time in which transfers were under way and nothing was computed, in both passes of\n"
    "the slowest rank.  spreads of each time: 100 * (most / least - 1), over repetitions.  #wrong: elements\n"
    "of the plan that differ from those of the single call.\n";

/* ---- options ---- */

static int take_number(const char *text, int64_t most, int64_t *value)
{
    return perf_parse_number(text, '\0', 1, most, value);
}

static int take_tokens(void *own, const char *text)
{
    return take_number(text, 1 << 24, &((struct attention_options *)own)->tokens);
}

static int take_heads(void *own, const char *text)
{
    return take_number(text, 1024, &((struct attention_options *)own)->heads);
}

static int take_kv_heads(void *own, const char *text)
{
    return take_number(text, 1024, &((struct attention_options *)own)->kv_heads);
}

static int take_head_size(void *own, const char *text)
{
    return take_number(text, 4096, &((struct attention_options *)own)->head_size);
}

static int take_layout(void *own, const char *text)
{
    return rondo_layout_kind_parse(text, &((struct attention_options *)own)->layout) ? -1 : 0;
}

static int take_word(const char *const *words, const char *text, const char **value)
{
    *value = text;
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return 0;
    return -1;
}

static int take_schedule(void *own, const char *text)
{
    static const char *const words[] = {"auto", "ring", "two-level", "direct", NULL};

    return take_word(words, text, &((struct attention_options *)own)->schedule);
}

static int take_backward(void *own, const char *text)
{
    static const char *const words[] = {"auto", "kv-grad", "q-grad", NULL};

    return take_word(words, text, &((struct attention_options *)own)->backward);
}

static const struct perf_extra extras[] = {
    {"tokens", "N", "of the whole sequence [16384]", "a whole number, 1 to 2^24", take_tokens},
    {"heads", "N", "query heads [2]", "1 to 1024", take_heads},
    {"kv-heads", "N", "key heads [as --heads]", "a divisor of --heads", take_kv_heads},
    {"head-size", "N", "of queries, keys and values [64]", "1 to 4096", take_head_size},
    {"layout", "L", "contiguous, zigzag, striped or balanced [zigzag]", "contiguous, zigzag, striped or balanced",
     take_layout},
    {"schedule", "S", "ring, two-level or direct [the plan chooses]", "auto, ring, two-level or direct", take_schedule},
    {"backward", "B", "kv-grad or q-grad [the plan chooses]", "auto, kv-grad or q-grad", take_backward},
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- the table ---- */

enum { COL_TOKENS, COL_SINGLE, COL_PLAN, COL_SHARES, COL_EFFICIENCY, COL_CEILING, COL_OF_IT, COL_LEAST, COL_MOST,
       COL_GFLOPS, COL_EXPOSED, COL_SPREADS, COL_WRONG = COL_SPREADS + 3, COLS };

static const struct perf_column columns[] = {
    {"tokens", "tokens", 7, 0, PERF_ALWAYS},
    {"single(ms)", "single_ms", 10, 2, PERF_ALWAYS},
    {"plan(ms)", "plan_ms", 9, 2, PERF_ALWAYS},
    {"shares(ms)", "shares_ms", 10, 2, PERF_ALWAYS},
    {"effic", "efficiency", 6, 3, PERF_ALWAYS},
    {"ceiling", "ceiling", 7, 3, PERF_ALWAYS},
    {"of it", "of_ceiling", 6, 3, PERF_ALWAYS},
    {"least", "of_ceiling_least", 6, 3, PERF_ALWAYS},
    {"most", "of_ceiling_most", 6, 3, PERF_ALWAYS},
    {"GFLOP/s", "gflops", 8, 2, PERF_ALWAYS},
    {"exposed(ms)", "exposed_ms", 11, 3, PERF_ALWAYS},
    {"single +%", "single_spread_percent", 9, 1, PERF_FULL},
    {"plan +%", "plan_spread_percent", 7, 1, PERF_FULL},
    {"shares +%", "shares_spread_percent", 9, 1, PERF_FULL},
    {"#wrong", "wrong", 6, 0, PERF_ALWAYS},
    {NULL, NULL, 0, 0, PERF_NEVER},
};

/* ---- measured ---- */

/* Of one repetition. */
static void fill_row(const struct attention_times *times, double ranks, double operations, double *row)
{
    row[COL_SINGLE] = times->single_us / 1e3;
    row[COL_PLAN] = times->plan_us / 1e3;
    row[COL_SHARES] = times->shares_us / 1e3;
    row[COL_EFFICIENCY] = times->single_us / ranks / times->plan_us;
    row[COL_CEILING] = times->single_us / ranks / times->shares_us;
    row[COL_OF_IT] = times->shares_us / times->plan_us;
    row[COL_GFLOPS] = operations / times->plan_us / 1e3;
    row[COL_EXPOSED] = times->exposed_us / 1e3;
}

/* One column over repetitions, which `sorted` then has in order; rows: [count][COLS]. */
static double median_of(const double *rows, size_t count, int c, double *sorted)
{
    for (size_t i = 0; i < count; i++)
        sorted[i] = rows[i * COLS + (size_t)c];
    return perf_median(sorted, count);
}

static void sum_up(const double *rows, size_t count, double *sorted, double *row)
{
    for (int c = COL_SINGLE; c <= COL_EXPOSED; c++)
        if (c != COL_LEAST && c != COL_MOST)
            row[c] = median_of(rows, count, c, sorted);
    median_of(rows, count, COL_OF_IT, sorted);
    row[COL_LEAST] = sorted[0];
    row[COL_MOST] = sorted[count - 1];
    for (int i = 0; i < 3; i++) {
        median_of(rows, count, COL_SINGLE + i, sorted);
        row[COL_SPREADS + i] = 100 * (sorted[count - 1] / sorted[0] - 1);
    }
}

static rondo_status_t measure(struct attention_run *run, double *row)
{
    size_t count = (size_t)run->bench->options.repetitions;
    double *rows = calloc(count * (COLS + 1), sizeof(*rows));
    rondo_status_t status = rows ? RONDO_OK : RONDO_ERR_MEMORY;

    for (size_t i = 0; i < count && !status; i++) {
        struct attention_times times;

        status = attention_measure(run, &times);
        if (!status)
            fill_row(&times, run->bench->info.size, attention_operations(run), rows + i * COLS);
    }
    if (!status)
        sum_up(rows, count, rows + count * COLS, row);
    free(rows);
    return status;
}

/* What is wrong is not timed: its times would say nothing. */
static rondo_status_t verify_and_measure(struct attention_run *run)
{
    struct perf_bench *bench = run->bench;
    double row[COLS];
    rondo_status_t status = attention_verify(run);

    for (int c = 0; c < COLS; c++)
        row[c] = (double)NAN;
    row[COL_TOKENS] = (double)run->own->tokens;
    row[COL_WRONG] = run->wrong;
    if (!status)
        status = perf_sum_over_ranks(bench->comm, &row[COL_WRONG], 1);
    if (status)
        return status;
    bench->wrong += row[COL_WRONG];
    if (row[COL_WRONG] == 0)
        status = measure(run, row);
    if (!status && bench->info.rank == 0)
        perf_report_row(&bench->report, row);
    return status;
}

static int run_problem(struct perf_bench *bench, size_t bytes, int first)
{
    struct attention_run run;
    rondo_status_t status = attention_init(&run, bench);

    if (!status && run.idle_rank >= 0) {
        bench->wrong++;
        if (bench->info.rank == 0)
            fprintf(stderr, "rondo_attention: --tokens %lld leaves rank %d without any: give more\n",
                    (long long)run.own->tokens, run.idle_rank);
    } else if (!status) {
        perf_print_plan(bench, run.plan);
        status = verify_and_measure(&run);
    }
    attention_release(&run);
    return perf_failed(bench, "attention", status);
}

/* ---- the program ---- */

/* The problem that Rondo is to do well, by rondo_attention(1). */
static int has_bars(const struct attention_options *own, int ranks)
{
    return ranks == 2 && own->tokens == 16384 && own->head_size == 64 && own->layout == RONDO_LAYOUT_ZIGZAG;
}

static void print_problem(struct perf_bench *bench)
{
    const struct attention_options *own = bench->options.own;

    perf_report_header(&bench->report, "problem", "%lld tokens, %lld query and %lld key heads of %lld, causal, %s, f32",
                       (long long)own->tokens, (long long)own->heads, (long long)own->kv_heads,
                       (long long)own->head_size, rondo_layout_kind_name(own->layout));
    perf_report_header(&bench->report, "kernel", "flash, 1 thread a rank");
    if (has_bars(own, bench->info.size))
        perf_report_header(&bench->report, "bars", "on 2 cores: effic 0.93, of it 0.97");
}

/* The last that is done before ranks come together: the process of this rank's share knows nothing of them. */
static int prepare(const struct perf_options *options)
{
    struct attention_options *own = options->own;

    own->kv_heads = own->kv_heads ? own->kv_heads : own->heads;
    if (own->heads % own->kv_heads) {
        fprintf(stderr, "rondo_attention: --kv-heads %lld is refused: give a divisor of --heads %lld\n",
                (long long)own->kv_heads, (long long)own->heads);
        return 1;
    }
    if (share_start(&own->share)) {
        perror("rondo_attention: a process for a share");
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct attention_options own = {.tokens = 16384, .heads = 2, .head_size = 64,
                                           .layout = RONDO_LAYOUT_ZIGZAG, .share = {.way = -1}};
    static const struct perf_program program = {
        .about = {.name = "rondo_attention",
                  .summary = summary,
                  .columns = meaning,
                  .extras = extras,
                  .min_bytes = 1,
                  .max_bytes = 1,
                  .sizeless = 1,
                  .repetitions = 15},
        .own = &own,
        .min_ranks = 1,
        .fewer = "no ranks",
        .refuse = prepare,
        .table = columns,
        .header = print_problem,
        .size = run_problem};
    int status = perf_main(&program, argc, argv);

    share_stop(&own.share);
    return status;
}
