/* SPDX-License-Identifier: Apache-2.0 */
/* A topology whose speeds are those that were measured, so that plans are priced with them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/status.h>

#include "base/status.h"
#include "tools/topo_measure.h"

/* Times as fast, which may be chance. */
static const double nearly = 1.2;

/* Where ranks a and b copy; -1: they are on two hosts, or were not measured. */
static int32_t meeting_place(const struct measure *m, int a, int b)
{
    if (a == b || !(m->gbps[a * m->info.size + b] > 0))
        return -1;
    return ri_topo_common(m->topo, m->topo->ranks[a].object, m->topo->ranks[b].object);
}

static int crosses(const struct measure *m, int a, int b)
{
    return m->host_of[a] != m->host_of[b] && m->gbps[a * m->info.size + b] > 0;
}

/* values: [ranks * ranks] room. */
static void record_copies(const struct measure *m, struct ri_topo *topo, double *values)
{
    int ranks = m->info.size;

    for (int32_t at = 0; at < topo->object_count; at++) {
        const double *from[] = { m->gbps, m->latency_us };
        double *to[] = { &topo->objects[at].copy_gbps, &topo->objects[at].copy_latency_us };

        for (int what = 0; what < 2 && topo->objects[at].kind <= RI_TOPO_NUMA; what++) {
            int count = 0;

            for (int i = 0; i < ranks * ranks; i++)
                if (meeting_place(m, i / ranks, i % ranks) == at)
                    values[count++] = from[what][i];
            if (count)
                *to[what] = measure_median(values, count);
        }
    }
}

/* A pair is as fast as the slower NIC of the two, so a NIC is as fast as the best pair that it is of.
 * 0: no pair. */
static double best_of(const struct measure *m, int32_t nic)
{
    int ranks = m->info.size;
    double best = 0;

    for (int a = 0; a < ranks; a++)
        for (int b = 0; b < ranks; b++)
            if (crosses(m, a, b) && (m->topo->ranks[a].nic == nic || m->topo->ranks[b].nic == nic) &&
                m->gbps[a * ranks + b] > best)
                best = m->gbps[a * ranks + b];
    return best;
}

/* NICs of one rate that were nearly as fast become as fast: ranks get the faster of NICs that are alike else, and
 * chance must not decide that.  Takes those near the slowest of the ones that are left; 0: none are left. */
static int even_out(const struct measure *m, double *best, uint8_t *done, double *values)
{
    int32_t slowest = -1;
    int count = 0;
    double limit, median;

    for (int32_t nic = 0; nic < m->topo->object_count; nic++)
        if (!done[nic] && best[nic] > 0 && (slowest < 0 || best[nic] < best[slowest]))
            slowest = nic;
    if (slowest < 0)
        return 0;
    limit = nearly * best[slowest];
    for (int32_t nic = 0; nic < m->topo->object_count; nic++)
        if (!done[nic] && best[nic] > 0 && best[nic] <= limit &&
            m->topo->objects[nic].nic.gbps == m->topo->objects[slowest].nic.gbps) {
            values[count++] = best[nic];
            done[nic] = 2;
        }
    median = measure_median(values, count);
    for (int32_t nic = 0; nic < m->topo->object_count; nic++)
        if (done[nic] == 2) {
            best[nic] = median;
            done[nic] = 1;
        }
    return 1;
}

/* NICs of a host that no rank used are taken to fall short as much as its best one that was: else they would
 * look fast beside those that were measured, and be chosen for that. */
static void record_host(const struct measure *m, struct ri_topo *topo, int32_t host, const double *best)
{
    double share = 0;
    int32_t nic;

    for (int k = 0; (nic = ri_topo_find(topo, host, RI_TOPO_NIC, k)) >= 0; k++)
        if (best[nic] / ri_topo_nic_gbps(m->topo, nic) > share)
            share = best[nic] / ri_topo_nic_gbps(m->topo, nic);
    for (int k = 0; share > 0 && (nic = ri_topo_find(topo, host, RI_TOPO_NIC, k)) >= 0; k++) {
        if (best[nic] > 0)
            topo->objects[nic].nic.gbps = best[nic];
        else if (ri_topo_nic_is_used(m->topo, nic, NULL))
            topo->objects[nic].nic.gbps = share * ri_topo_nic_gbps(m->topo, nic);
    }
}

static int record_nics(const struct measure *m, struct ri_topo *topo)
{
    size_t objects = (size_t)topo->object_count;
    double *best = calloc(2 * objects, sizeof(*best));
    uint8_t *done = calloc(objects, sizeof(*done));
    int err = best && done ? 0 : ri_error(RONDO_ERR_MEMORY, "no memory for the rates of NICs");
    int32_t at;

    for (int k = 0; !err && (at = ri_topo_find(topo, -1, RI_TOPO_NIC, k)) >= 0; k++)
        best[at] = best_of(m, at);
    while (!err && even_out(m, best, done, best + objects))
        continue;
    for (int k = 0; !err && (at = ri_topo_find(topo, -1, RI_TOPO_HOST, k)) >= 0; k++)
        record_host(m, topo, at, best);
    free(best);
    free(done);
    return err;
}

static void record_latency(const struct measure *m, struct ri_topo *topo, double *values)
{
    int ranks = m->info.size, count = 0;

    for (int i = 0; i < ranks * ranks; i++)
        if (crosses(m, i / ranks, i % ranks))
            values[count++] = m->latency_us[i];
    if (count)
        topo->net_latency_us = measure_median(values, count);
}

static int write_tree(const char *name, const struct ri_topo *topo)
{
    char *text = ri_topo_pack(topo);
    FILE *to = text ? fopen(name, "w") : NULL;
    int failed = !to;

    if (to) {
        failed = fputs(text, to) < 0;
        failed |= fclose(to) != 0;
    }
    free(text);
    if (!text)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a topology");
    return failed ? ri_error(RONDO_ERR_SYSTEM, "%s", strerror(errno)) : 0;
}

int measure_record(const struct measure *m)
{
    struct ri_topo *topo = ri_topo_create();
    double *values = malloc((size_t)m->info.size * (size_t)m->info.size * sizeof(*values));
    int err = topo && values ? 0 : ri_error(RONDO_ERR_MEMORY, "no memory for a topology");

    if (!err) {
        ri_topo_append(topo, m->topo);
        err = topo->error;
    }
    if (!err) {
        record_copies(m, topo, values);
        record_latency(m, topo, values);
        ri_topo_notice(topo, "speeds were measured between %d ranks", m->info.size);
        err = topo->error;
    }
    if (!err)
        err = record_nics(m, topo);
    if (!err)
        err = write_tree(m->options.record, topo);
    free(values);
    ri_topo_destroy(topo);
    return err;
}
