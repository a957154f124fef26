/* SPDX-License-Identifier: Apache-2.0 */
/* What the topology lets expect of the messages that are measured: those between the memories of ranks, which
 * is where they lie, also when a rank computes on a GPU. */
#include <stdlib.h>
#include <string.h>

#include <rondo/topo.h>

#include "base/status.h"
#include "tools/topo_measure.h"

/* The tree of a communicator, through the text of it. */
static int read_tree(rondo_topo_t topo, struct ri_topo **tree)
{
    size_t bytes = 0;
    char *text;
    int err = rondo_topo_print(topo, NULL, 0, &bytes);

    if (err)
        return err;
    text = malloc(bytes);
    err = text ? rondo_topo_print(topo, text, bytes, NULL) : ri_error(RONDO_ERR_MEMORY, "no memory for a topology");
    if (!err)
        err = ri_topo_unpack(text, tree);
    free(text);
    return err;
}

/* The object of a kind and number on a host; -1: none. */
static int32_t find_number(const struct ri_topo *topo, int32_t host, enum ri_topo_kind kind, int number)
{
    int32_t at = -1;

    for (int k = 0; number >= 0 && (at = ri_topo_find(topo, host, kind, k)) >= 0; k++)
        if (topo->objects[at].number == number)
            return at;
    return -1;
}

static int32_t find_nic(const struct ri_topo *topo, int32_t host, const char *name)
{
    int32_t at;

    for (int k = 0; (at = ri_topo_find(topo, host, RI_TOPO_NIC, k)) >= 0; k++)
        if (strcmp(topo->objects[at].name, name) == 0)
            return at;
    return -1;
}

/* One pair at a time has its NICs for itself. */
static int place_rank(struct measure *m, rondo_topo_t topo, int r)
{
    rondo_topo_rank_info_t info = RONDO_TOPO_RANK_INFO_INIT;
    int err = rondo_topo_query_rank(topo, r, &info);
    int32_t host, gpu, memory;

    if (err)
        return err;
    host = ri_topo_find(m->topo, -1, RI_TOPO_HOST, info.host);
    gpu = find_number(m->topo, host, RI_TOPO_GPU, info.gpu);
    memory = gpu >= 0 ? ri_topo_above(m->topo, gpu, RI_TOPO_NUMA) : find_number(m->topo, host, RI_TOPO_NUMA, info.numa);
    m->host_of[r] = info.host;
    m->topo->ranks[r] = (struct ri_topo_rank){ .object = memory >= 0 ? memory : host,
                                               .nic = find_nic(m->topo, host, info.nic),
                                               .nic_shares = m->options.together ? info.nic_shares : 1 };
    return 0;
}

int measure_learn(struct measure *m)
{
    size_t ranks = (size_t)m->info.size;
    rondo_topo_t topo = NULL;
    int err = rondo_topo_of_comm(m->comm, &topo);

    if (!err)
        err = read_tree(topo, &m->topo);
    if (!err) {
        m->gbps = calloc(2 * ranks * ranks, sizeof(*m->gbps));
        m->host_of = calloc(ranks, sizeof(*m->host_of));
        m->topo->ranks = calloc(ranks, sizeof(*m->topo->ranks));
        if (!m->gbps || !m->host_of || !m->topo->ranks)
            err = ri_error(RONDO_ERR_MEMORY, "no memory for the pairs of %d ranks", m->info.size);
    }
    if (!err) {
        m->latency_us = m->gbps + ranks * ranks;
        m->topo->rank_count = m->info.size;
    }
    for (int r = 0; r < m->info.size && !err; r++)
        err = place_rank(m, topo, r);
    rondo_topo_destroy(topo);
    return err;
}

void measure_expect(const struct measure *m, int a, int b, struct ri_topo_path *path)
{
    ri_topo_rank_path(m->topo, a, b, path);
}

int measure_is_known(const struct measure *m, int a, int b)
{
    const struct ri_topo_rank *from = &m->topo->ranks[a], *to = &m->topo->ranks[b];
    int32_t top = ri_topo_common(m->topo, from->object, to->object);

    if (top >= 0)
        return m->topo->objects[top].copy_gbps > 0;
    return from->nic >= 0 && to->nic >= 0 && m->topo->objects[from->nic].nic.gbps > 0 &&
           m->topo->objects[to->nic].nic.gbps > 0;
}

int measure_is_short(const struct measure *m, int a, int b)
{
    double gbps = m->gbps[a * m->info.size + b];
    struct ri_topo_path path;

    measure_expect(m, a, b, &path);
    return a != b && gbps > 0 && measure_is_known(m, a, b) && gbps < m->options.least_share * path.gbps;
}

int measure_count_short(const struct measure *m)
{
    int count = 0;

    for (int a = 0; a < m->info.size; a++)
        for (int b = 0; b < m->info.size; b++)
            count += measure_is_short(m, a, b);
    return count;
}

/* ---- levels ---- */

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

double measure_median(double *values, int count)
{
    if (count <= 0)
        return 0;
    qsort(values, (size_t)count, sizeof(*values), compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

enum { GBPS, EXPECTED, LATENCY, EXPECTED_LATENCY, COLUMNS };

/* Columns of values [pairs]. */
static int collect(const struct measure *m, enum ri_topo_level which, double *columns[COLUMNS], int *known)
{
    int pairs = 0, ranks = m->info.size;

    for (int a = 0; a < ranks; a++)
        for (int b = 0; b < ranks; b++) {
            struct ri_topo_path path;

            if (a == b || !(m->gbps[a * ranks + b] > 0))
                continue;
            measure_expect(m, a, b, &path);
            if (path.level != which)
                continue;
            *known += measure_is_known(m, a, b);
            columns[GBPS][pairs] = m->gbps[a * ranks + b];
            columns[EXPECTED][pairs] = path.gbps;
            columns[LATENCY][pairs] = m->latency_us[a * ranks + b];
            columns[EXPECTED_LATENCY][pairs++] = path.latency_us;
        }
    return pairs;
}

void measure_level(const struct measure *m, enum ri_topo_level which, struct measure_level *level)
{
    size_t room = (size_t)m->info.size * (size_t)m->info.size;
    double *values = malloc(COLUMNS * room * sizeof(*values)), *columns[COLUMNS];

    *level = (struct measure_level){ 0 };
    if (!values)
        return;
    for (size_t i = 0; i < COLUMNS; i++)
        columns[i] = values + i * room;
    level->pairs = collect(m, which, columns, &level->known);
    level->median_gbps = measure_median(columns[GBPS], level->pairs);
    if (level->pairs) {
        level->least_gbps = columns[GBPS][0];
        level->most_gbps = columns[GBPS][level->pairs - 1];
    }
    level->expected_gbps = measure_median(columns[EXPECTED], level->pairs);
    level->latency_us = measure_median(columns[LATENCY], level->pairs);
    level->expected_latency_us = measure_median(columns[EXPECTED_LATENCY], level->pairs);
    free(values);
}
