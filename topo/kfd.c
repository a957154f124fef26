/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/kfd.h"
#include "topo/pci.h"

#define NODES "/sys/class/kfd/kfd/topology/nodes"

enum { MAX_NODES = 256, XGMI = 11 };

/* The value of a line "max_bandwidth 50000"; fallback where there is none. */
static long long property(const char *text, const char *key, long long fallback)
{
    size_t length = strlen(key);

    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        if (strncmp(text, key, length) == 0 && text[length] == ' ')
            return strtoll(text + length, NULL, 10);
    return fallback;
}

/* The GPU of a node of theirs; -1: it is a processor, or none of ours.  Its place on PCI is one number: bus,
 * device and function. */
static int32_t object_of(struct ri_source *source, const struct ri_topo *topo, int32_t host, int node)
{
    char path[128], text[4096], id[24];
    long long domain, location;

    snprintf(path, sizeof(path), NODES "/%d/gpu_id", node);
    if (ri_source_number(source, path, 0) == 0)
        return -1;
    snprintf(path, sizeof(path), NODES "/%d/properties", node);
    if (ri_source_text(source, path, text, sizeof(text)))
        return -1;
    location = property(text, "location_id", -1);
    domain = property(text, "domain", 0);
    if (location < 0)
        return -1;
    snprintf(id, sizeof(id), "%04x:%02x:%02x.%x", (unsigned)domain & 0xffffffff, (unsigned)(location >> 8 & 0xff),
             (unsigned)(location >> 3 & 0x1f), (unsigned)(location & 7));
    return ri_pci_find(topo, host, RI_TOPO_GPU, id);
}

/* Each link is told at both ends; the lower node tells for both. */
static void read_link(struct ri_source *source, struct ri_topo *topo, const int32_t *objects, int node,
                      const char *name)
{
    char path[128], text[1024];
    long long to, mbps;

    snprintf(path, sizeof(path), NODES "/%d/io_links/%.20s/properties", node, name);
    if (ri_source_text(source, path, text, sizeof(text)) || property(text, "type", 0) != XGMI)
        return;
    to = property(text, "node_to", -1);
    mbps = property(text, "max_bandwidth", 0);
    if (to <= node || to >= MAX_NODES || objects[to] < 0 || objects[to] == objects[node] ||
        ri_topo_link_between(topo, objects[node], objects[to]))
        return;
    ri_topo_link(topo, objects[node], objects[to], RI_TOPO_XGMI, 1,
                 mbps > 0 && mbps < 10000000 ? (double)mbps / 1000 : 0);
}

static void read_links(struct ri_source *source, struct ri_topo *topo, const int32_t *objects, int node)
{
    char path[128], *names, *rest, *name;

    snprintf(path, sizeof(path), NODES "/%d/io_links", node);
    names = ri_source_list(source, path);
    for (name = names ? strtok_r(names, "\n", &rest) : NULL; name; name = strtok_r(NULL, "\n", &rest))
        read_link(source, topo, objects, node, name);
    free(names);
}

void ri_kfd_add(struct ri_source *source, struct ri_topo *topo, int32_t host)
{
    char *names = ri_source_list(source, NODES), *rest, *name;
    int32_t objects[MAX_NODES];

    for (int i = 0; i < MAX_NODES; i++)
        objects[i] = -1;
    for (name = names ? strtok_r(names, "\n", &rest) : NULL; name; name = strtok_r(NULL, "\n", &rest)) {
        int node = atoi(name);

        if (node >= 0 && node < MAX_NODES)
            objects[node] = object_of(source, topo, host, node);
    }
    free(names);
    for (int i = 0; i < MAX_NODES; i++)
        if (objects[i] >= 0)
            read_links(source, topo, objects, i);
}
