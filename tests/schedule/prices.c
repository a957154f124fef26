/* SPDX-License-Identifier: Apache-2.0 */
/* The published prices of the schemes beside ours.  Prints TAP, or with --table all numbers:
 * theirs, ours, the difference in per cent, and the reason where it is over 2 %. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/status.h>

#include "tests/schedule/machine.h"
#include "tests/schedule/prices.h"

enum { MAX_RANKS = 64 };

static int show_table, rows_seen, values_seen, row_faults, faults;

/* "4x8" or "3+2" */
static int read_machine(const char *text, int32_t *host)
{
    int ranks = 0, hosts = 0, first, more;

    if (sscanf(text, "%dx%d", &first, &more) == 2) {
        for (int r = 0; r < first * more; r++)
            host[ranks++] = r / more;
        return ranks;
    }
    while (*text) {
        for (int i = (int)strtol(text, (char **)&text, 10); i > 0; i--)
            host[ranks++] = hosts;
        hosts++;
        text += *text == '+';
    }
    return ranks;
}

static void fail(const char *row, const char *why)
{
    fprintf(stderr, "%s: %s\n", row, why);
    exit(1);
}

static void simulate(const struct price_row *row, const struct ri_cost *cost,
                     struct ri_simulation *out)
{
    struct ri_schedule *schedules[MAX_RANKS];
    int32_t host[MAX_RANKS];
    struct ri_build build = row->build;

    build.ranks = read_machine(row->machine, host);
    build.host = host;
    for (build.rank = 0; build.rank < build.ranks; build.rank++)
        if (row->builder(&schedules[build.rank], &build))
            fail(row->name, rondo_last_error());
    if (ri_simulate(schedules, build.ranks, cost, 0, out))
        fail(row->name, rondo_last_error());
    for (int r = 0; r < build.ranks; r++)
        ri_schedule_destroy(schedules[r]);
}

static double value_of(const struct price_row *row, const struct price *price)
{
    struct ri_cost cost = row->backward ? table_cost_backward(price->compute_seconds)
                                        : table_cost(price->compute_seconds);
    struct ri_simulation out;
    double value;

    cost.launch = price->launch;
    cost.shared_nic = price->shared_nic;
    cost.in_order = price->in_order;
    if (row->key_share > 0) {
        cost.block[RI_K] *= row->key_share;
        cost.block[RI_DK] *= row->key_share;
    }
    simulate(row, &cost, &out);
    value = price->what == PRICE_TIME    ? out.seconds
            : price->what == PRICE_LOCAL ? out.sent[RI_LANE_LOCAL]
            : price->what == PRICE_HOST  ? out.sent[RI_LANE_HOST]
                                         : out.own_units;
    ri_simulation_release(&out);
    return value;
}

/* Half of the last digit that was published, where that is more than 2 %. */
static int is_near(double ours, double theirs, double digit)
{
    double bar = .02 * fabs(theirs);

    return fabs(ours - theirs) <= (bar > digit / 2 ? bar : digit / 2) + 1e-9;
}

static void compare(const struct price_row *row, const struct price *price, double theirs,
                    const struct price_reason *reason)
{
    double ours = value_of(row, price), wanted = reason ? reason->ours : theirs;
    double per_cent = theirs ? (ours / theirs - 1) * 100 : 0;
    int good = is_near(ours, wanted, price->digit);

    values_seen++;
    row_faults += !good;
    if (show_table)
        printf("%-7s %-22s %-22s %9.2f %9.2f %+7.1f %%  %s%s\n", row->machine, row->name,
               price->name, theirs, ours, per_cent, good ? "" : "WRONG ",
               reason ? reason->why : "");
    else if (!good)
        printf("# %s %s %s: %.2f, not %.2f\n", row->machine, row->name, price->name, ours, wanted);
}

static void end_row(const struct price_row *row)
{
    rows_seen++;
    faults += row_faults > 0;
    if (!show_table)
        printf("%sok %d - %s %s\n", row_faults ? "not " : "", rows_seen, row->machine, row->name);
    row_faults = 0;
}

static int begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

int main(int argc, char **argv)
{
    show_table = argc > 1 && strcmp(argv[1], "--table") == 0;
    if (show_table)
        printf("%-7s %-22s %-22s %9s %9s %9s\n", "machine", "scheme", "price", "theirs", "ours",
               "");
    for (const struct price_row *row = price_rows; row->name; row++) {
        for (int i = 0; i < PRICE_COLUMNS && row->columns[i].name; i++) {
            const struct price_reason *reason = row->reasons;

            while (reason && reason->why && !begins(row->columns[i].name, reason->price))
                reason++;
            if (!isnan(row->theirs[i]))
                compare(row, &row->columns[i], row->theirs[i],
                        reason && reason->why ? reason : NULL);
        }
        end_row(row);
    }
    if (!show_table)
        printf("1..%d\n", rows_seen);
    else
        printf("%d prices of %d rows, %d rows wrong\n", values_seen, rows_seen, faults);
    return faults > 0;
}
