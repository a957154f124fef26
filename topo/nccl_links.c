/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "topo/nccl_links.h"

/* What a link can do by its signalling rate, one way, not what a copy reaches (which is some 80 to 90 %): NVLink 1 of
 * P100 20 GB/s; NVLink 2 and 3 of V100 and A100 25; of GA102 14.0625; NVLink 4 of H100 25; NVLink 5 of B200 50.  Of
 * a generation that is not here, the one before it. */
static const struct rate {
    int64_t from;
    double gbps;
} nvlink_rates[] = { { 60, 20 }, { 70, 25 }, { 86, 14.0625 }, { 90, 25 }, { 100, 50 } };

/* Infinity Fabric links of 16 lanes: MI50, MI60 and MI100 46 GB/s; MI200 50; MI300 64; MI350 76.8. */
static const struct rate xgmi_rates[] = { { 906, 46 }, { 910, 50 }, { 940, 64 }, { 950, 76.8 } };

static double rate_of(const struct rate *rates, int n, int64_t generation)
{
    double gbps = 0;

    for (int i = 0; i < n; i++)
        if (generation >= rates[i].from)
            gbps = rates[i].gbps;
    return gbps;
}

double ri_nccl_nvlink_gbps(int64_t sm)
{
    return rate_of(nvlink_rates, sizeof(nvlink_rates) / sizeof(nvlink_rates[0]), sm);
}

double ri_nccl_xgmi_gbps(int64_t gfx)
{
    return rate_of(xgmi_rates, sizeof(xgmi_rates) / sizeof(xgmi_rates[0]), gfx);
}

/* A link as one end of it tells. */
struct edge {
    int32_t a, b; /* a < b */
    int kind, told_by_b, count;
    double gbps;
};

static int compare_edges(const void *x, const void *y)
{
    const struct edge *a = x, *b = y;

    if (a->a != b->a)
        return a->a < b->a ? -1 : 1;
    if (a->b != b->b)
        return a->b < b->b ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->told_by_b - b->told_by_b;
}

struct gpus {
    int32_t at[RI_NCCL_MAX_GPUS];
    int count;
};

static void list_gpus(const struct ri_topo *topo, struct gpus *gpus)
{
    gpus->count = 0;
    for (int32_t i = 0; i < topo->object_count && gpus->count < RI_NCCL_MAX_GPUS; i++)
        if (topo->objects[i].kind == RI_TOPO_GPU)
            gpus->at[gpus->count++] = i;
}

/* The object at the other end; -1: there is none. */
static int32_t find_end(const struct ri_topo *topo, const struct gpus *gpus, const struct ri_nccl_link *link)
{
    int32_t numa = ri_topo_above(topo, link->gpu, RI_TOPO_NUMA);

    if (link->end != RI_NCCL_TO_GPU)
        return numa >= 0 ? numa : 0;
    for (int i = 0; i < gpus->count; i++)
        if (gpus->at[i] != link->gpu && strcmp(topo->objects[gpus->at[i]].pci, link->target) == 0)
            return gpus->at[i];
    return -1;
}

static struct edge edge_of(const struct ri_nccl_link *link, int32_t other)
{
    int is_b = link->gpu > other;

    return (struct edge){ is_b ? other : link->gpu, is_b ? link->gpu : other, link->kind, is_b, link->count,
                          link->gbps };
}

/* Rows of one end add up; both ends tell of the same links, so the fuller account counts.  Returns the next pair. */
static int add_pair(struct ri_topo *topo, const struct edge *edges, int i, int n)
{
    const struct edge *pair = &edges[i];
    int count[2] = { 0, 0 };
    double gbps[2] = { 0, 0 };
    int fuller;

    for (; i < n && edges[i].a == pair->a && edges[i].b == pair->b && edges[i].kind == pair->kind; i++) {
        count[edges[i].told_by_b] += edges[i].count;
        gbps[edges[i].told_by_b] += edges[i].gbps;
    }
    fuller = gbps[1] > gbps[0] || (gbps[1] == gbps[0] && count[1] > count[0]);
    ri_topo_link(topo, pair->a, pair->b, (enum ri_topo_link_kind)pair->kind, count[fuller], gbps[fuller]);
    return i;
}

/* What each GPU has to the switches, which join all of them: a pair has what the lesser has. */
static void add_switched(struct ri_topo *topo, const struct ri_nccl_link *per_gpu, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) {
            const struct ri_nccl_link *less = per_gpu[i].count < per_gpu[j].count ? &per_gpu[i] : &per_gpu[j];

            ri_topo_link(topo, per_gpu[i].gpu, per_gpu[j].gpu, less->kind, less->count, less->gbps);
        }
}

static void sum_switched(struct ri_nccl_link *per_gpu, int *n, const struct ri_nccl_link *link)
{
    /* The rows of one GPU follow each other. */
    if (*n == 0 || per_gpu[*n - 1].gpu != link->gpu) {
        per_gpu[(*n)++] = *link;
        return;
    }
    per_gpu[*n - 1].count += link->count;
    per_gpu[*n - 1].gbps += link->gbps;
}

/* Splits links into edges between two objects, and what GPUs have to switches. */
static void sort_out(struct ri_topo *topo, const struct ri_nccl_link *links, int count, struct edge *edges,
                     int *edge_count, struct ri_nccl_link *per_gpu, int *switched)
{
    struct gpus gpus;
    int lost = 0;

    list_gpus(topo, &gpus);
    for (int i = 0; i < count; i++) {
        int32_t other = find_end(topo, &gpus, &links[i]);

        if (links[i].end == RI_NCCL_TO_SWITCH)
            sum_switched(per_gpu, switched, &links[i]);
        else if (other >= 0)
            edges[(*edge_count)++] = edge_of(&links[i], other);
        else if (lost++ == 0)
            ri_topo_notice(topo, "%s has a link to %s, which is no GPU of its host (and there may be more of these)",
                           topo->objects[links[i].gpu].name, links[i].target);
    }
}

int ri_nccl_links_resolve(struct ri_topo *topo, const struct ri_nccl_link *links, int count)
{
    struct ri_nccl_link *per_gpu = calloc((size_t)count + 1, sizeof(*per_gpu));
    struct edge *edges = calloc((size_t)count + 1, sizeof(*edges));
    int edge_count = 0, switched = 0, err = 0;

    if (per_gpu && edges) {
        sort_out(topo, links, count, edges, &edge_count, per_gpu, &switched);
        qsort(edges, (size_t)edge_count, sizeof(*edges), compare_edges);
        for (int i = 0; i < edge_count;)
            i = add_pair(topo, edges, i, edge_count);
        add_switched(topo, per_gpu, switched);
        err = topo->error;
    } else {
        err = ri_error(RONDO_ERR_MEMORY, "no memory for %d links", count);
    }
    free(per_gpu);
    free(edges);
    return err;
}
