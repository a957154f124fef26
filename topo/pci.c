/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/pci.h"

#define MAX_BRIDGES 32

static const char hex[] = "0123456789abcdef";

/* How long the "0000:17" or, with a function, "0000:17:00.0" is that text begins with; 0: it does not. */
static size_t id_length(const char *text, int with_function)
{
    size_t domain = strspn(text, hex);

    if (domain < 4 || domain > 8 || text[domain] != ':' || strspn(text + domain + 1, hex) != 2)
        return 0;
    if (!with_function)
        return domain + 3;
    text += domain + 3;
    return text[0] == ':' && strspn(text + 1, hex) == 2 && text[3] == '.' && strspn(text + 4, hex) == 1
               ? domain + 8
               : 0;
}

/* Is the part of a path that begins here, up to its "/", a PCI function? */
static int is_function(const char *part)
{
    size_t length = id_length(part, 1);

    return length > 0 && length == strcspn(part, "/");
}

static int is_root(const char *part)
{
    return strncmp(part, "pci", 3) == 0 && id_length(part + 3, 0) > 0 &&
           3 + id_length(part + 3, 0) == strcspn(part, "/");
}

/* The part after the one that begins here; NULL: it was the last. */
static const char *next_part(const char *part)
{
    part = strchr(part, '/');
    return part ? part + 1 : NULL;
}

static void join(char *to, size_t bytes, const char *path, const char *name)
{
    snprintf(to, bytes, "%s/%s", path, name);
}

/* Cuts the path of a device behind its PCI function: "/sys/devices/.../0000:17:00.0/net/eth0". */
static const char *cut_at_function(char *path)
{
    const char *last = NULL;

    for (const char *part = path; part; part = next_part(part))
        if (is_function(part))
            last = part;
    if (last)
        path[last - path + (ptrdiff_t)id_length(last, 1)] = 0;
    return last;
}

double ri_pci_gbps(const char *speed, const char *width)
{
    double rate = strtod(speed, NULL), lanes = strtod(width, NULL);

    if (!(rate >= 2 && rate <= 1000 && lanes >= 1 && lanes <= 64))
        return 0;
    /* 8 of 10 bits carry data up to 5 GT/s, 128 of 130 from 8 GT/s on, 242 of 256 from 64 GT/s on. */
    return rate * lanes / 8 * (rate < 8 ? 0.8 : rate < 64 ? 128.0 / 130 : 242.0 / 256);
}

static double read_link(struct ri_source *source, const char *folder, const char *which)
{
    char path[640], speed[32], width[16], name[32];

    snprintf(name, sizeof(name), "%s_link_speed", which);
    join(path, sizeof(path), folder, name);
    if (ri_source_text(source, path, speed, sizeof(speed)))
        return 0;
    snprintf(name, sizeof(name), "%s_link_width", which);
    join(path, sizeof(path), folder, name);
    return ri_source_text(source, path, width, sizeof(width)) ? 0 : ri_pci_gbps(speed, width);
}

static void read_file(struct ri_source *source, const char *folder, const char *name, char text[32])
{
    char path[640];

    join(path, sizeof(path), folder, name);
    if (ri_source_text(source, path, text, 32))
        text[0] = 0;
}

void ri_pci_busy_link(struct ri_source *source, const char *folder, double *link_gbps, double *full_gbps)
{
    char path[512], speed[32], width[32], max_width[32], above[32], *slash;
    double port;

    *link_gbps = *full_gbps = 0;
    read_file(source, folder, "max_link_speed", speed);
    read_file(source, folder, "current_link_width", width);
    read_file(source, folder, "max_link_width", max_width);
    *full_gbps = ri_pci_gbps(speed, max_width);
    *link_gbps = ri_pci_gbps(speed, width);
    if (ri_source_link(source, folder, path, sizeof(path)) || !(slash = strrchr(path, '/')))
        return;
    *slash = 0;
    read_file(source, path, "max_link_speed", above);
    port = ri_pci_gbps(above, width);
    if (port > 0 && port < *link_gbps)
        *link_gbps = port;
}

/* "0000:17:00" of "0000:17:00.0". */
static void set_card(char *card, size_t bytes, const char *id)
{
    snprintf(card, bytes, "%.*s", (int)strcspn(id, "."), id);
}

int ri_pci_read(struct ri_source *source, const char *link, struct ri_pci *pci)
{
    char path[640], physical[512];
    const char *id;
    long long numa;
    int err;

    memset(pci, 0, sizeof(*pci));
    pci->numa = -1;
    err = ri_source_link(source, link, pci->path, sizeof(pci->path));
    if (err)
        return err;
    id = cut_at_function(pci->path);
    join(path, sizeof(path), pci->path, "numa_node");
    numa = ri_source_number(source, path, -1);
    pci->numa = numa >= 0 && numa < INT32_MAX ? (int32_t)numa : -1;
    if (!id)
        return 0;
    snprintf(pci->id, sizeof(pci->id), "%s", id);
    set_card(pci->card, sizeof(pci->card), id);
    join(path, sizeof(path), pci->path, "physfn");
    if (ri_source_link(source, path, physical, sizeof(physical)) == 0) {
        pci->is_virtual = 1;
        id = cut_at_function(physical);
        if (id)
            set_card(pci->card, sizeof(pci->card), id);
    }
    pci->link_gbps = read_link(source, pci->path, "current");
    pci->full_gbps = read_link(source, pci->path, "max");
    return 0;
}

int32_t ri_pci_find(const struct ri_topo *topo, int32_t host, enum ri_topo_kind kind, const char *id)
{
    for (int32_t i = host + 1; i < topo->object_count && topo->objects[i].kind != RI_TOPO_HOST; i++)
        if (topo->objects[i].kind == kind && strcmp(topo->objects[i].pci, id) == 0)
            return i;
    return -1;
}

/* Never a node by guess: one that is unknown or is not there is the host itself. */
static int32_t numa_of(const struct ri_topo *topo, int32_t host, int32_t number)
{
    for (int32_t i = host + 1; i < topo->object_count && topo->objects[i].kind != RI_TOPO_HOST; i++)
        if (topo->objects[i].kind == RI_TOPO_NUMA && topo->objects[i].number == number && number >= 0)
            return i;
    return host;
}

/* Where a function hangs: its root and bridges from above, by their ids. */
struct chain {
    enum ri_topo_kind kinds[MAX_BRIDGES];
    char ids[MAX_BRIDGES][24];
    int count;
};

static void read_chain(const char *path, struct chain *chain)
{
    chain->count = 0;
    for (const char *part = path; part && chain->count < MAX_BRIDGES; part = next_part(part)) {
        char *id = chain->ids[chain->count];

        if (is_root(part))
            chain->kinds[chain->count] = RI_TOPO_ROOT;
        else if (is_function(part) && next_part(part))
            chain->kinds[chain->count] = RI_TOPO_BRIDGE;
        else
            continue;
        part += is_root(part) ? 3 : 0;
        snprintf(id, sizeof(chain->ids[0]), "%.*s", (int)strcspn(part, "/"), part);
        chain->count++;
    }
}

int32_t ri_pci_parent(struct ri_topo *topo, int32_t host, const struct ri_pci *pci)
{
    struct chain chain;
    int32_t at = -1;
    int next = 0;

    read_chain(pci->path, &chain);
    for (next = chain.count; next > 0 && at < 0; next--)
        at = ri_pci_find(topo, host, chain.kinds[next - 1], chain.ids[next - 1]);
    next += at >= 0;
    if (at < 0)
        at = numa_of(topo, host, pci->numa);
    for (; next < chain.count && at >= 0; next++) {
        at = ri_topo_add(topo, chain.kinds[next], at, -1);
        if (at >= 0)
            snprintf(topo->objects[at].pci, sizeof(topo->objects[at].pci), "%s", chain.ids[next]);
    }
    return at;
}
