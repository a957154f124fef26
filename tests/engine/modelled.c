/* SPDX-License-Identifier: Apache-2.0 */
/* The engine takes as long as the simulator says.  Prints TAP: results, bytes, and that no run is
 * faster than it can be, which holds on a busy machine too.  --table: simulated and measured times,
 * and their difference; one over 5 % is a failure.  Where equal messages meet, microseconds decide
 * which is first: such a line is simulated in many orders, and right near their range. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/status.h>

#include "tests/engine/modelled.h"
#include "tests/schedule/machine.h"
#include "tests/schedule/prices.h"

/* Bytes of what weighs 1 in the published tables: its eighth is still cut into 2, 3, 5 and 7. */
enum { UNIT_BYTES = 13440, MAX_RUNS = 3, ORDERS = 32 };

static const double bar = .05, repeat_over = .025; /* of the simulated time */
static const double one_time = .01; /* orders that differ by less are not told apart */

struct shape {
    const char *name;
    int hosts, size[4];
};

static const struct shape shapes[] = {
    {"2x4", 2, {4, 4}}, {"4x8", 4, {8, 8, 8, 8}}, {"3+2", 2, {3, 2}}};
enum { SHAPES = sizeof(shapes) / sizeof(*shapes) };

struct pass {
    const char *name;
    ri_builder *ring, *two_level;
    int backward;
};

static const struct pass passes[] = {
    {"forward", ri_build_ring_forward, ri_build_two_level_forward, 0},
    {"KV-grad", ri_build_ring_kv_grad, ri_build_two_level_kv_grad, 1},
    {"Q-grad", ri_build_ring_q_grad, ri_build_two_level_q_grad, 1},
};
enum { PASSES = sizeof(passes) / sizeof(*passes) };

struct scheme {
    const char *name;
    int two_level;
    struct ri_build build;
};

/* On two hosts three landing slots keep nothing waiting, and a fourth is never used. */
static const struct scheme schemes[] = {
    {"ring", 0, {0}},
    {"two-level, 4 slots", 1, {.landing = 4}},
    {"two-level, 3 slots", 1, {.landing = 3}},
    {"two-level, chunked", 1, {.chunked = 1}},
};
enum { SCHEMES = sizeof(schemes) / sizeof(*schemes), FOUR_SLOTS = 1 };

/* One line of the table. */
struct line {
    const struct shape *shape;
    const struct pass *pass;
    const struct scheme *scheme;
    double key_share,
        compute; /* K and DK against plain heads; a pair of blocks, in units of time */
    int shared_nic;
    char name[96];
};

static struct options {
    int table;
    double seconds; /* of a run, about */
    const char *only, *trace;
} options = {0, .15, "", NULL};

static int lines_seen, lines_wrong, lines_ordered;

/* Simulated seconds; both the same unless the order of equals decides. */
struct range {
    double least, most;
};

/* ---- schedules and prices ---- */

static int32_t host[MODELLED_RANKS];
static struct ri_schedule *schedules[MODELLED_RANKS];

static void fail(const struct line *line)
{
    fprintf(stderr, "%s: %s\n", line->name, rondo_last_error());
    exit(1);
}

static int build_all(const struct line *line)
{
    ri_builder *builder = line->scheme->two_level ? line->pass->two_level : line->pass->ring;
    struct ri_build build = line->scheme->build;

    build.host = host;
    for (int h = 0; h < line->shape->hosts; h++)
        for (int i = 0; i < line->shape->size[h]; i++)
            host[build.ranks++] = h;
    for (build.rank = 0; build.rank < build.ranks; build.rank++)
        if (builder(&schedules[build.rank], &build))
            fail(line);
    return build.ranks;
}

static void release_all(int ranks)
{
    for (int r = 0; r < ranks; r++)
        ri_schedule_destroy(schedules[r]);
}

/* The machine of the tables, with bytes for its units of content and `unit` seconds for that of
 * time. */
static struct ri_cost cost_of(const struct line *line, double unit)
{
    struct ri_cost cost = line->pass->backward ? table_cost_backward(line->compute * unit)
                                               : table_cost(line->compute * unit);

    cost.shared_nic = line->shared_nic;
    cost.block[RI_K] *= line->key_share;
    cost.block[RI_DK] *= line->key_share;
    for (int b = 0; b < RI_BUNDLES; b++)
        cost.block[b] *= UNIT_BYTES;
    for (int lane = 0; lane < RI_LANES; lane++) {
        cost.lane[lane].latency_seconds *= unit;
        cost.lane[lane].bandwidth = floor(cost.lane[lane].bandwidth * UNIT_BYTES / unit);
    }
    return cost;
}

static void simulate(const struct line *line, int ranks, const struct ri_cost *cost,
                     struct ri_simulation *simulation)
{
    if (ri_simulate(schedules, ranks, cost, 0, simulation))
        fail(line);
}

/* `seconds`: of the order by numbers. */
static struct range simulate_orders(const struct line *line, int ranks, struct ri_cost cost,
                                    double seconds)
{
    struct range range = {seconds, seconds};
    struct ri_simulation simulation;

    for (cost.tie_seed = 1; cost.tie_seed < ORDERS; cost.tie_seed++) {
        simulate(line, ranks, &cost, &simulation);
        range.least = fmin(range.least, simulation.seconds);
        range.most = fmax(range.most, simulation.seconds);
        ri_simulation_release(&simulation);
    }
    return range.most > range.least * (1 + one_time) ? range : (struct range){seconds, seconds};
}

/* By which fraction a time is outside: of the nearest end. */
static double outside(const struct range *range, double seconds)
{
    if (seconds < range->least)
        return seconds / range->least - 1;
    return seconds > range->most ? seconds / range->most - 1 : 0;
}

/* Seconds for the unit of time, so that a run takes as long as it shall.  Latencies, .02 of it, are
 * whole microseconds. */
static double choose_unit(const struct line *line, int ranks)
{
    struct ri_cost cost = cost_of(line, 1);
    struct ri_simulation simulation;
    double unit;

    simulate(line, ranks, &cost, &simulation);
    unit = ceil(options.seconds / simulation.seconds / 50e-6) * 50e-6;
    ri_simulation_release(&simulation);
    return unit;
}

static int same_build(const struct ri_build *a, const struct ri_build *b, int several_hosts)
{
    int landing = several_hosts ? 4 : 3; /* the default */

    return (a->landing ? a->landing : landing) == (b->landing ? b->landing : landing) &&
           a->chunked == b->chunked && a->pieces == b->pieces;
}

static int has_price(const struct line *line, const struct price_row *row)
{
    double share = row->key_share > 0 ? row->key_share : 1;
    ri_builder *builder = line->scheme->two_level ? line->pass->two_level : line->pass->ring;

    return strcmp(row->machine, line->shape->name) == 0 && row->builder == builder &&
           share == line->key_share &&
           (!line->scheme->two_level ||
            same_build(&row->build, &line->scheme->build, line->shape->hosts > 2));
}

/* NAN: none was published. */
static double published(const struct line *line)
{
    for (const struct price_row *row = price_rows; row->name; row++)
        for (int i = 0; has_price(line, row) && i < PRICE_COLUMNS && row->columns[i].name; i++) {
            const struct price *price = &row->columns[i];

            if (price->what == PRICE_TIME && price->launch == RI_LAUNCH_HOST &&
                price->compute_seconds == line->compute && price->shared_nic == line->shared_nic &&
                !isnan(row->theirs[i]))
                return row->theirs[i];
        }
    return NAN;
}

/* ---- one line ---- */

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Measures once, or three times where the first is not near, and then the median counts. */
static double measure(const struct modelled *modelled, const struct range *wanted, int *runs,
                      struct modelled_result *result)
{
    double seconds[MAX_RUNS];
    int wrong = 0;

    for (*runs = 0; *runs < MAX_RUNS; ++*runs) {
        if (*runs == 1 && (!options.table || fabs(outside(wanted, seconds[0])) <= repeat_over))
            break;
        modelled_run(modelled, result);
        seconds[*runs] = result->seconds;
        wrong += result->wrong_ranks;
    }
    result->wrong_ranks = wrong;
    qsort(seconds, (size_t)*runs, sizeof(*seconds), compare);
    return seconds[*runs / 2];
}

static void show(const struct line *line, double unit, const struct range *simulated,
                 double measured, int runs)
{
    double theirs = published(line);
    char text[16] = "-", most[16] = "";

    if (simulated->most > simulated->least)
        snprintf(most, sizeof(most), "%.2f", simulated->most / unit);
    if (!isnan(theirs))
        snprintf(text, sizeof(text), "%.1f", theirs);
    printf("%-5s %-20s %-8s %5s %4.1f %6s %7.1f %9.2f %7s %9.2f %+6.1f %% %4d %9s%s\n",
           line->shape->name, line->scheme->name, line->pass->name,
           line->key_share < 1 ? "8:1" : "1:1", line->compute, line->shared_nic ? "shared" : "own",
           unit * 1e3, simulated->least / unit, most, measured / unit,
           outside(simulated, measured) * 100, runs, text, *most ? "  order decides" : "");
    fflush(stdout);
}

static int judge(const struct line *line, const struct ri_simulation *simulation,
                 const struct range *simulated, double measured,
                 const struct modelled_result *result)
{
    double off = outside(simulated, measured);
    int good = off >= -bar && (!options.table || off <= bar);

    if (!good)
        printf("# %s: %.4f s measured, %.4f .. %.4f s simulated\n", line->name, measured,
               simulated->least, simulated->most);
    for (int lane = 0; lane < RI_LANES; lane++)
        if ((double)result->sent_bytes[lane] != simulation->sent[lane]) {
            printf("# %s: %llu bytes on lane %s, not %.0f\n", line->name,
                   (unsigned long long)result->sent_bytes[lane], lane ? "host" : "local",
                   simulation->sent[lane]);
            good = 0;
        }
    if (result->wrong_ranks)
        printf("# %s: results of %d ranks are wrong\n", line->name, result->wrong_ranks);
    return good && !result->wrong_ranks;
}

static void name_line(struct line *line)
{
    snprintf(line->name, sizeof(line->name), "%s %s %s %s tc %.1f %s NIC", line->shape->name,
             line->scheme->name, line->pass->name, line->key_share < 1 ? "8:1" : "1:1",
             line->compute, line->shared_nic ? "shared" : "own");
}

static void try_line(struct line *line)
{
    struct ri_simulation simulation;
    struct modelled_result result;
    struct ri_cost cost;
    struct range simulated;
    double unit, measured;
    int ranks, runs, good;

    name_line(line);
    if (!strstr(line->name, options.only))
        return;
    ranks = build_all(line);
    unit = choose_unit(line, ranks);
    cost = cost_of(line, unit);
    simulate(line, ranks, &cost, &simulation);
    simulated = simulate_orders(line, ranks, cost, simulation.seconds);
    measured = measure(&(struct modelled){.schedules = schedules,
                                          .ranks = ranks,
                                          .cost = &cost,
                                          .backward = line->pass->backward,
                                          .trace = options.trace},
                       &simulated, &runs, &result);
    if (options.table)
        show(line, unit, &simulated, measured, runs);
    good = judge(line, &simulation, &simulated, measured, &result);
    lines_seen++;
    lines_ordered += simulated.most > simulated.least;
    lines_wrong += !good;
    if (!options.table)
        printf("%sok %d - %s\n", good ? "" : "not ", lines_seen, line->name);
    ri_simulation_release(&simulation);
    release_all(ranks);
}

/* ---- all lines ---- */

static int is_idle_slot(const struct shape *shape, int scheme)
{
    return scheme == FOUR_SLOTS && shape->hosts < 3;
}

static void try_costs(struct line line)
{
    static const double shares[] = {1, .125}, computes[] = {0, 1.5};

    for (int share = 0; share < 2; share++)
        for (int compute = 0; compute < 2; compute++) {
            line.key_share = shares[share], line.compute = computes[compute];
            try_line(&line);
        }
}

static void try_table(void)
{
    for (int shape = 0; shape < SHAPES; shape++)
        for (int pass = 0; pass < PASSES; pass++)
            for (int scheme = 0; scheme < SCHEMES; scheme++)
                if (!is_idle_slot(&shapes[shape], scheme))
                    try_costs((struct line){.shape = &shapes[shape],
                                            .pass = &passes[pass],
                                            .scheme = &schemes[scheme]});
    for (int shape = 0; shape < SHAPES; shape++)
        for (int scheme = 0; scheme < SCHEMES; scheme++)
            if (!is_idle_slot(&shapes[shape], scheme))
                try_line(&(struct line){.shape = &shapes[shape],
                                        .pass = &passes[0],
                                        .scheme = &schemes[scheme],
                                        .key_share = 1,
                                        .compute = 1.5,
                                        .shared_nic = 1});
}

static void try_few(void)
{
    for (int pass = 0; pass < PASSES; pass++)
        for (int scheme = 0; scheme < SCHEMES; scheme++)
            if (!is_idle_slot(&shapes[0], scheme))
                try_line(&(struct line){.shape = &shapes[0],
                                        .pass = &passes[pass],
                                        .scheme = &schemes[scheme],
                                        .key_share = 1,
                                        .compute = 1.5});
}

static void show_load(void)
{
    double load[3];

    if (getloadavg(load, 3) == 3)
        printf("load average %.2f %.2f %.2f\n", load[0], load[1], load[2]);
}

/* --table [--seconds S] [--only TEXT] [--trace FILE] */
static void read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--table") == 0)
            options.table = 1, options.seconds = 1.2;
        else if (i + 1 < argc && strcmp(argv[i], "--seconds") == 0)
            options.seconds = strtod(argv[++i], NULL);
        else if (i + 1 < argc && strcmp(argv[i], "--only") == 0)
            options.only = argv[++i];
        else if (i + 1 < argc && strcmp(argv[i], "--trace") == 0)
            options.trace = argv[++i];
    }
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    if (!options.table) {
        try_few();
        printf("1..%d\n", lines_seen);
        return lines_wrong > 0;
    }
    show_load();
    printf("%-5s %-20s %-8s %5s %4s %6s %7s %9s %7s %9s %8s %4s %9s\n", "shape", "schedule", "pass",
           "heads", "tc", "NIC", "unit ms", "simulated", "most", "measured", "", "runs",
           "published");
    try_table();
    printf("%d lines, %d wrong; in %d the order of equal messages decides\n", lines_seen,
           lines_wrong, lines_ordered);
    show_load();
    return lines_wrong > 0;
}
