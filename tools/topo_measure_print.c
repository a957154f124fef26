/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured, for people: matrices, a line for each level, and the pairs that fall short. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/topo_measure.h"
#include "tools/topo_text.h"

enum { CELL = 19, NAME = 14, MATRIX_RANKS = 16, SHORT_LINES = 20, NUMBER = 16 };

void measure_progress(int done, int steps)
{
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r%d of %d ", done, steps);
    if (done + 1 >= steps)
        fprintf(stderr, "\r            \r");
}

static const char *number(double value, char text[NUMBER])
{
    if (!(value > 0))
        snprintf(text, NUMBER, "-");
    else
        snprintf(text, NUMBER, value >= 999.5 ? "%.0f" : "%.3g", value);
    return text;
}

static const char *host_name(const struct measure *m, int rank)
{
    return m->topo->objects[ri_topo_host_of(m->topo, m->topo->ranks[rank].object)].name;
}

/* ---- matrices ---- */

/* Ranks host by host, also where they are dealt in turn. */
static int *by_host(const struct measure *m)
{
    int *order = calloc((size_t)m->info.size, sizeof(*order)), count = 0;

    for (int h = 0; order && h < m->info.hosts; h++)
        for (int r = 0; r < m->info.size; r++)
            if (m->host_of[r] == h)
                order[count++] = r;
    return order;
}

static int starts_host(const struct measure *m, const int *order, int i)
{
    return i > 0 && m->host_of[order[i]] != m->host_of[order[i - 1]];
}

/* At most NAME - 1 characters of a name. */
static void print_name(FILE *to, const char *name)
{
    char text[NAME];
    int length = snprintf(text, sizeof(text), "%s", name);

    topo_plain_string(to, text);
    for (int i = length; i < NAME; i++)
        fputc(' ', to);
}

static void print_head(FILE *to, const struct measure *m, const int *order)
{
    fprintf(to, "%*s", NAME + 5, "");
    for (int i = 0; i < m->info.size; i++) {
        if (starts_host(m, order, i))
            fprintf(to, " |");
        fprintf(to, "%*d", CELL, order[i]);
    }
    fprintf(to, "\n");
}

static void print_rule(FILE *to, const struct measure *m, const int *order)
{
    for (int i = 0; i < NAME + 5; i++)
        fputc('-', to);
    for (int i = 0; i < m->info.size; i++) {
        fputs(starts_host(m, order, i) ? "-+" : "", to);
        for (int k = 0; k < CELL; k++)
            fputc('-', to);
    }
    fprintf(to, "\n");
}

/* "5.2 (8)"; ~: it is only what is usual; !: it falls short. */
static void print_cell(FILE *to, const struct measure *m, int a, int b, int is_latency)
{
    struct ri_topo_path path;
    double value = is_latency ? m->latency_us[a * m->info.size + b] : m->gbps[a * m->info.size + b];
    char measured[NUMBER], expected[NUMBER], text[2 * NUMBER + 8];
    int is_guess = !is_latency && !measure_is_known(m, a, b), is_short = !is_latency && measure_is_short(m, a, b);

    if (a == b) {
        fprintf(to, "%*s", CELL, ".");
        return;
    }
    measure_expect(m, a, b, &path);
    snprintf(text, sizeof(text), "%s%s (%s%s)", is_short ? "! " : "", number(value, measured), is_guess ? "~" : "",
             number(is_latency ? path.latency_us : path.gbps, expected));
    fprintf(to, "%*s", CELL, text);
}

static void print_matrix(FILE *to, const struct measure *m, const int *order, int is_latency)
{
    fprintf(to, "%s, measured (expected):\n", is_latency ? "Microseconds" : "GB/s from row to column");
    print_head(to, m, order);
    for (int i = 0; i < m->info.size; i++) {
        if (starts_host(m, order, i))
            print_rule(to, m, order);
        print_name(to, i == 0 || starts_host(m, order, i) ? host_name(m, order[i]) : "");
        fprintf(to, "%5d", order[i]);
        for (int k = 0; k < m->info.size; k++) {
            fputs(starts_host(m, order, k) ? " |" : "", to);
            print_cell(to, m, order[i], order[k], is_latency);
        }
        fprintf(to, "\n");
    }
    fprintf(to, "\n");
}

static void print_matrices(FILE *to, const struct measure *m)
{
    int *order = m->info.size <= MATRIX_RANKS ? by_host(m) : NULL;

    if (m->info.size > MATRIX_RANKS)
        fprintf(to, "Pairs of more than %d ranks one by one: --json\n\n", MATRIX_RANKS);
    if (!order)
        return;
    print_matrix(to, m, order, 0);
    print_matrix(to, m, order, 1);
    free(order);
}

/* ---- levels ---- */

/* What is expected of a level; with ~ where it is known of no pair. */
static const char *usual(const struct measure_level *level, char text[NUMBER])
{
    char expected[NUMBER];

    snprintf(text, NUMBER, "%s%.12s", level->known ? "" : "~", number(level->expected_gbps, expected));
    return text;
}

static void print_levels(FILE *to, const struct measure *m)
{
    fprintf(to, "%-6s %6s | %10s %8s %8s %9s %6s | %9s %9s\n", "level", "pairs", "least GB/s", "median", "most",
            "expected", "share", "median us", "expected");
    for (int which = 0; which < RI_TOPO_LEVELS; which++) {
        struct measure_level level;
        char text[6][NUMBER];

        measure_level(m, (enum ri_topo_level)which, &level);
        if (!level.pairs)
            continue;
        fprintf(to, "%-6s %6d | %10s %8s %8s %9s %5.0f%% | %9s %9s\n", ri_topo_level_names[which], level.pairs,
                number(level.least_gbps, text[0]), number(level.median_gbps, text[1]), number(level.most_gbps, text[2]),
                usual(&level, text[3]), 100 * level.median_gbps / level.expected_gbps,
                number(level.latency_us, text[4]), number(level.expected_latency_us, text[5]));
    }
}

/* ---- pairs that fall short ---- */

static const char *nic_name(const struct measure *m, int rank)
{
    int32_t nic = m->topo->ranks[rank].nic;

    return nic < 0 ? "?" : m->topo->objects[nic].name;
}

static void print_end(FILE *to, const struct measure *m, int rank, int crosses)
{
    fprintf(to, "rank %d (", rank);
    topo_plain_string(to, host_name(m, rank));
    if (crosses) {
        fputs(", ", to);
        topo_plain_string(to, nic_name(m, rank));
    }
    fputs(")", to);
}

/* What the tree says against a NIC and the way of a rank to it; "": nothing. */
static void blame_nic(const struct measure *m, int rank, char text[160])
{
    int32_t nic = m->topo->ranks[rank].nic;
    const struct ri_topo_object *at = &m->topo->objects[nic];
    struct ri_topo_path path;

    text[0] = 0;
    ri_topo_path(m->topo, m->topo->ranks[rank].object, nic, &path);
    if (at->full_gbps > at->link_gbps && at->link_gbps > 0)
        snprintf(text, 160, "the PCIe link of %.40s runs at %.3g GB/s and could at %.3g", at->name, at->link_gbps,
                 at->full_gbps);
    else if (path.level == RI_TOPO_SYS && m->topo->objects[m->topo->ranks[rank].object].kind == RI_TOPO_NUMA &&
             ri_topo_above(m->topo, nic, RI_TOPO_NUMA) >= 0)
        snprintf(text, 160, "%.40s is on the far socket of rank %d", at->name, rank);
}

/* Where to look first. */
static void blame_pair(const struct measure *m, int a, int b, char text[160])
{
    const struct ri_topo_object *objects = m->topo->objects, *from, *at;

    text[0] = 0;
    if (m->host_of[a] == m->host_of[b]) {
        snprintf(text, 160, "the cores of both, and what else runs there; may a process read another's memory (CMA)?");
        return;
    }
    from = &objects[m->topo->ranks[a].nic];
    at = &objects[m->topo->ranks[b].nic];
    if (from->nic.mtu != at->nic.mtu)
        snprintf(text, 160, "the MTU of %.30s is %d, of %.30s %d", from->name, (int)from->nic.mtu, at->name,
                 (int)at->nic.mtu);
    if (!text[0])
        blame_nic(m, a, text);
    if (!text[0])
        blame_nic(m, b, text);
    if (!text[0])
        snprintf(text, 160, "the wire between both NICs; do messages take these?");
}

/* last: what was said of the pair before, and need not be said again. */
static void print_pair(FILE *to, const struct measure *m, int a, int b, char last[160])
{
    int crosses = m->host_of[a] != m->host_of[b];
    double gbps = m->gbps[a * m->info.size + b];
    struct ri_topo_path path;
    char measured[NUMBER], expected[NUMBER], text[160];

    measure_expect(m, a, b, &path);
    fputs("  ", to);
    print_end(to, m, a, crosses);
    fputs(" to ", to);
    print_end(to, m, b, crosses);
    fprintf(to, ": %s of %s GB/s, %.0f%%\n", number(gbps, measured), number(path.gbps, expected),
            100 * gbps / path.gbps);
    blame_pair(m, a, b, text);
    if (strcmp(text, last) == 0)
        return;
    memcpy(last, text, sizeof(text));
    fputs("    look at: ", to);
    topo_plain_string(to, text);
    fputs("\n", to);
}

/* Pairs through a NIC. */
struct traffic {
    int leaving, leaving_short, reaching, reaching_short;
    int first; /* the lowest rank that uses it */
};

static void count_traffic(const struct measure *m, int32_t nic, struct traffic *t)
{
    *t = (struct traffic){ .first = -1 };
    for (int a = 0; a < m->info.size; a++) {
        int is_ours = m->topo->ranks[a].nic == nic;

        if (is_ours && t->first < 0)
            t->first = a;
        for (int b = 0; b < m->info.size; b++) {
            int crosses = m->host_of[a] != m->host_of[b] && m->gbps[a * m->info.size + b] > 0;
            int leaves = crosses && is_ours, reaches = crosses && m->topo->ranks[b].nic == nic;

            t->leaving += leaves;
            t->leaving_short += leaves && measure_is_short(m, a, b);
            t->reaching += reaches;
            t->reaching_short += reaches && measure_is_short(m, a, b);
        }
    }
}

/* All pairs of one NIC are short, at least one way, while others are not: it is to blame, and not its partners. */
static void print_culprits(FILE *to, const struct measure *m, int all_short, int all_crossing)
{
    for (int r = 0; r < m->info.size && all_short < all_crossing; r++) {
        struct traffic t;
        int leaving, reaching;

        count_traffic(m, m->topo->ranks[r].nic, &t);
        leaving = t.leaving > 1 && t.leaving_short == t.leaving;
        reaching = t.reaching > 1 && t.reaching_short == t.reaching;
        if (t.first != r || (!leaving && !reaching))
            continue;
        fputs("  begin with ", to);
        topo_plain_string(to, nic_name(m, r));
        fputs(" of ", to);
        topo_plain_string(to, host_name(m, r));
        fprintf(to, ": all that %s it falls short\n",
                leaving && reaching ? "leaves and reaches" : leaving ? "leaves" : "reaches");
    }
}

static void print_short(FILE *to, const struct measure *m)
{
    int count = measure_count_short(m), shown = 0, crossing = 0, crossing_short = 0;
    char last[160] = "";

    if (!count) {
        fprintf(to, "\nNo pair falls short of %g of what is known of it.\n", m->options.least_share);
        return;
    }
    fprintf(to, "\n%d of %d pairs fall short of %g of what is expected:\n", count, m->info.size * (m->info.size - 1),
            m->options.least_share);
    for (int a = 0; a < m->info.size; a++)
        for (int b = 0; b < m->info.size; b++) {
            crossing += m->host_of[a] != m->host_of[b];
            crossing_short += m->host_of[a] != m->host_of[b] && measure_is_short(m, a, b);
            if (measure_is_short(m, a, b) && shown++ < SHORT_LINES)
                print_pair(to, m, a, b, last);
        }
    if (shown > SHORT_LINES)
        fprintf(to, "  and %d more, which --json names\n", shown - SHORT_LINES);
    print_culprits(to, m, crossing_short, crossing);
    fprintf(to, "  rondo-topo doctor on these hosts says more.\n");
}

/* ---- all ---- */

/* Latency between ranks that wait for a processor is that of the scheduler. */
static void print_crowded(FILE *to, const struct measure *m)
{
    for (int h = 0; h < m->info.hosts; h++) {
        const struct ri_topo_object *host = &m->topo->objects[ri_topo_find(m->topo, -1, RI_TOPO_HOST, h)];
        int ranks = 0;

        for (int r = 0; r < m->info.size; r++)
            ranks += m->host_of[r] == h;
        if (host->cpu_count <= 0 || ranks <= host->cpu_count)
            continue;
        topo_plain_string(to, host->name);
        fprintf(to, " has %d ranks on %d processors: they wait for each other, and figures say so\n", ranks,
                (int)host->cpu_count);
        return;
    }
}

static void print_title(FILE *to, const struct measure *m)
{
    int ranks = m->info.size, all = ranks * (ranks - 1), measured = 0, guesses = 0;

    for (int i = 0; i < ranks * ranks; i++) {
        measured += m->gbps[i] > 0;
        guesses += i / ranks != i % ranks && !measure_is_known(m, i / ranks, i % ranks);
    }
    fprintf(to, "%d ranks on %d host%s, transport %s, %s, %.1f s\n", ranks, m->info.hosts,
            m->info.hosts == 1 ? "" : "s", m->info.transport,
            m->options.together ? "disjoint pairs at once" : "one pair at a time", m->took_seconds);
    print_crowded(to, m);
    if (measured < all)
        fprintf(to, "%d of %d pairs were measured in this time: --seconds gives more\n", measured, all);
    if (guesses)
        fprintf(to, "~: only what is usual; no pair falls short of that.  --record keeps what was measured.\n");
    fprintf(to, "\n");
}

void measure_print(FILE *to, const struct measure *m)
{
    print_title(to, m);
    print_matrices(to, m);
    print_levels(to, m);
    print_short(to, m);
}
