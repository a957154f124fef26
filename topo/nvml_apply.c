/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/nvml.h"
#include "topo/pci.h"

enum { MAX_GPUS = 64 };
enum { TO_GPU, TO_PROCESSOR, TO_SWITCH };

#define C2C_GBPS 450 /* of NVLink-C2C between a Grace processor and a Hopper or Blackwell GPU, one way */

/* Bundles of links, as they are counted from the lines: to other GPUs, and into what is no GPU. */
struct bundle {
    int count;
    double gbps;
};

struct links {
    int32_t objects[MAX_GPUS]; /* by index of the library; -1: none */
    struct bundle direct[MAX_GPUS][MAX_GPUS];
    struct bundle switches[MAX_GPUS], processors[MAX_GPUS];
    uint8_t is_coherent[MAX_GPUS];
};

static const char *next_line(const char *line)
{
    line += strcspn(line, "\n");
    return line + (*line == '\n');
}

static void add_to(struct bundle *bundle, double gbps)
{
    bundle->count++;
    bundle->gbps += gbps;
}

/* ---- GPUs ---- */

static int32_t find_or_append(struct ri_topo *topo, int32_t host, struct ri_source *source, const char *id)
{
    int32_t at = ri_pci_find(topo, host, RI_TOPO_GPU, id);
    struct ri_pci pci;
    char link[64];

    if (at >= 0)
        return at;
    snprintf(link, sizeof(link), "/sys/bus/pci/devices/%s", id);
    ri_pci_read(source, link, &pci);
    at = ri_topo_add(topo, RI_TOPO_GPU, ri_pci_parent(topo, host, &pci), -1);
    if (at >= 0)
        snprintf(topo->objects[at].pci, sizeof(topo->objects[at].pci), "%s", id);
    return at;
}

static void apply_gpu(const char *line, struct ri_topo *topo, int32_t host, struct ri_source *source,
                      struct links *links)
{
    char id[24], uuid[64], model[64] = "";
    long long memory;
    struct ri_topo_object *gpu;
    unsigned index;
    int32_t at;

    if (sscanf(line, "gpu %u %23s %lld %63s %63[^\n]", &index, id, &memory, uuid, model) < 4 || index >= MAX_GPUS ||
        links->objects[index] >= 0)
        return;
    at = find_or_append(topo, host, source, id);
    if (at < 0)
        return;
    links->objects[index] = at;
    gpu = &topo->objects[at];
    gpu->number = (int32_t)index;
    snprintf(gpu->name, sizeof(gpu->name), "gpu %u", index);
    if (model[0])
        snprintf(gpu->model, sizeof(gpu->model), "%s", model);
    if (strcmp(uuid, "-") != 0)
        snprintf(gpu->id, sizeof(gpu->id), "%s", uuid);
    if (memory > 0)
        gpu->memory_bytes = memory;
}

/* ---- links ---- */

/* The index of the GPU at a place on PCI; -1: it is none of ours. */
static int index_of(const struct ri_topo *topo, const struct links *links, const char *id)
{
    for (int i = 0; i < MAX_GPUS; i++)
        if (links->objects[i] >= 0 && strcmp(topo->objects[links->objects[i]].pci, id) == 0)
            return i;
    return -1;
}

/* What the other end is where the library does not say: a GPU of ours, or by its PCI class a switch. */
static int guess_type(struct ri_source *source, const char *id, int other)
{
    char path[96];

    if (other >= 0)
        return TO_GPU;
    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/class", id);
    return ri_source_number(source, path, 0) >> 8 == 0x0680 ? TO_SWITCH : -1;
}

static void count_link(const char *line, const struct ri_topo *topo, struct ri_source *source, struct links *links)
{
    unsigned index;
    double gbps;
    int type, other;
    char id[24];

    if (sscanf(line, "c2c %u", &index) == 1 && index < MAX_GPUS)
        links->is_coherent[index] = 1;
    if (sscanf(line, "link %u %d %23s %lf", &index, &type, id, &gbps) != 4 || index >= MAX_GPUS ||
        links->objects[index] < 0 || !(gbps >= 0 && gbps < 1e4))
        return;
    other = index_of(topo, links, id);
    if (type != TO_GPU && type != TO_PROCESSOR && type != TO_SWITCH)
        type = guess_type(source, id, other);
    if (type == TO_SWITCH)
        add_to(&links->switches[index], gbps);
    else if (type == TO_PROCESSOR)
        add_to(&links->processors[index], gbps);
    else if (type == TO_GPU && other >= 0 && other != (int)index)
        add_to(&links->direct[index][other], gbps);
}

static struct bundle smaller(struct bundle a, struct bundle b)
{
    return a.gbps < b.gbps ? a : b;
}

static void link_pair(struct ri_topo *topo, const struct links *links, int i, int j)
{
    /* Both ends tell of one link, if both are asked. */
    struct bundle direct = links->direct[i][j].count > links->direct[j][i].count ? links->direct[i][j]
                                                                                 : links->direct[j][i];
    struct bundle through = smaller(links->switches[i], links->switches[j]);
    int count = direct.count + through.count;

    if (links->objects[i] >= 0 && links->objects[j] >= 0 && links->objects[i] != links->objects[j] && count > 0)
        ri_topo_link(topo, links->objects[i], links->objects[j], RI_TOPO_NVLINK, count, direct.gbps + through.gbps);
}

static void link_processor(struct ri_topo *topo, const struct links *links, int i)
{
    int32_t numa = links->objects[i] < 0 ? -1 : ri_topo_above(topo, links->objects[i], RI_TOPO_NUMA);

    if (numa < 0)
        return;
    if (links->processors[i].count > 0)
        ri_topo_link(topo, numa, links->objects[i], RI_TOPO_NVLINK, links->processors[i].count,
                     links->processors[i].gbps);
    if (links->is_coherent[i])
        ri_topo_link(topo, numa, links->objects[i], RI_TOPO_C2C, 1, C2C_GBPS);
}

/* Whether some other library told of links already: they are not counted twice. */
static int has_links(const struct ri_topo *topo, int32_t host)
{
    for (int32_t i = 0; i < topo->link_count; i++)
        if (topo->links[i].kind == RI_TOPO_NVLINK && ri_topo_host_of(topo, topo->links[i].a) == host)
            return 1;
    return 0;
}

static void add_links(struct ri_topo *topo, const struct links *links)
{
    for (int i = 0; i < MAX_GPUS; i++) {
        for (int j = i + 1; j < MAX_GPUS; j++)
            link_pair(topo, links, i, j);
        link_processor(topo, links, i);
    }
}

int ri_nvml_apply(const char *text, struct ri_topo *topo, int32_t host, struct ri_source *source)
{
    struct links *links;

    if (strncmp(text, "nvml ", 5) != 0)
        return 0;
    links = calloc(1, sizeof(*links));
    if (!links)
        return 0;
    for (int i = 0; i < MAX_GPUS; i++)
        links->objects[i] = -1;
    for (const char *line = text; *line; line = next_line(line))
        apply_gpu(line, topo, host, source, links);
    for (const char *line = text; *line; line = next_line(line))
        count_link(line, topo, source, links);
    if (!has_links(topo, host))
        add_links(topo, links);
    free(links);
    return 1;
}
