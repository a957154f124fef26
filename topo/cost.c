/* SPDX-License-Identifier: Apache-2.0 */
/* What it costs two objects, or two ranks, to talk: how far apart they are, the narrowest place on the way,
 * and the latency.
 *
 * A way goes up from both ends to the object that is above both.  It is as wide as the narrowest link that
 * it climbs, and as what it crosses at the top.  Where nothing is known, the figures of the tables below
 * are taken.  They are of classes of machines, from public data sheets, and are there to rank ways and to
 * be replaced by what was found or measured. */
#include <stdio.h>

#include "topo/topo.h"

const char *const ri_topo_level_names[] = { "X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS", "NET" };

/* Microseconds for a small message by level: what is usual for GPU peers and, NET, for a fabric with its two
 * adapters and a switch. */
static const double latency_us[RI_TOPO_LEVELS] = {
    [RI_TOPO_SELF] = 0.5, [RI_TOPO_NVL] = 1.0,  [RI_TOPO_PIX] = 1.5, [RI_TOPO_PXB] = 2.0,
    [RI_TOPO_PHB] = 2.0,  [RI_TOPO_NODE] = 2.5, [RI_TOPO_SYS] = 3.0, [RI_TOPO_NET] = 5.0,
};

/* GB/s of one link of a bundle whose rate is not known.  NVLink 2 to 4: 25 each way (V100: 6 links, 300 both
 * ways; A100: 12, 600; H100: 18, 900).  Infinity Fabric between MI200: 50 each way.  Grace Hopper: 900 both
 * ways for all of its C2C. */
static const double link_gbps[RI_TOPO_LINK_KINDS] = {
    [RI_TOPO_NVLINK] = 25, [RI_TOPO_XGMI] = 50, [RI_TOPO_C2C] = 450,
};

static const double unlimited_gbps = 1e6;
/* A GPU whose PCIe link is not known: Gen3 x16 is 8 GT/s on 16 lanes, 15.75 GB/s, of which headers of packets
 * leave about 12.  A NIC's is as wide at least as the NIC; those of bridges are as wide as what comes from
 * below. */
static const double pcie_gbps = 12;
/* Peers below two host bridges of one NUMA node, or two nodes of one package: over the mesh of the die. */
static const double node_gbps = 20;
/* Between packages: one UPI link of 10.4 GT/s carries 20.8 GB/s each way, about 16 of them data. */
static const double socket_gbps = 16;
/* Two ranks on one GPU: a copy reads and writes its memory, of 900 GB/s on V100; others need a part, too. */
static const double gpu_copy_gbps = 300;
/* CPU ranks: what one core copies from one process's memory to another's; near, in the other NUMA node of its
 * package, in another package. */
static const double copy_gbps = 8, copy_node_gbps = 7, copy_socket_gbps = 6;
/* Between hosts through no known NIC: 10 Gbit/s Ethernet. */
static const double unknown_net_gbps = 1.25;

/* How wide a place is, and whether nothing tells so. */
struct width {
    double gbps;
    int is_usual;
};

static struct width known(double gbps)
{
    return (struct width){ gbps, 0 };
}

static struct width usual(double gbps)
{
    return (struct width){ gbps, 1 };
}

/* Of equal ones that which is known. */
static struct width narrower(struct width a, struct width b)
{
    return a.gbps < b.gbps || (a.gbps == b.gbps && !a.is_usual) ? a : b;
}

static double wider(double a, double b)
{
    return a > b ? a : b;
}

void ri_topo_level_text(const struct ri_topo_path *path, char text[12])
{
    if (path->level == RI_TOPO_NVL)
        snprintf(text, 12, "NV%d", path->links);
    else
        snprintf(text, 12, "%s", ri_topo_level_names[path->level]);
}

static struct width width_of_link(const struct ri_topo_link *link)
{
    return link->gbps > 0 ? known(link->gbps) : usual(link_gbps[link->kind] * (link->count > 0 ? link->count : 1));
}

/* Does a rank there work with the host's memory? */
static int is_memory(const struct ri_topo *topo, int32_t object)
{
    return topo->objects[object].kind <= RI_TOPO_NUMA;
}

/* The memory that is nearest to an object: its NUMA node's, or its host's where that is not known. */
static int32_t memory_of(const struct ri_topo *topo, int32_t object)
{
    int32_t numa = ri_topo_above(topo, object, RI_TOPO_NUMA);

    return numa < 0 ? ri_topo_host_of(topo, object) : numa;
}

/* The link by which a GPU goes straight to that, where it lies at or below `top`. */
static const struct ri_topo_link *link_to_memory(const struct ri_topo *topo, int32_t object, int32_t top)
{
    int32_t memory = memory_of(topo, object);

    if (topo->objects[object].kind != RI_TOPO_GPU || memory < top)
        return NULL;
    return ri_topo_link_between(topo, object, memory);
}

/* The narrowest link from an object up to `top`. */
static struct width climb(const struct ri_topo *topo, int32_t object, int32_t top)
{
    const struct ri_topo_link *link = link_to_memory(topo, object, top);
    struct width width = known(unlimited_gbps);

    if (link) {
        width = width_of_link(link);
        object = memory_of(topo, object);
    }
    for (; object != top; object = topo->objects[object].parent) {
        const struct ri_topo_object *at = &topo->objects[object];

        if (at->link_gbps > 0)
            width = narrower(width, known(at->link_gbps));
        else if (at->kind == RI_TOPO_GPU)
            width = narrower(width, usual(pcie_gbps));
        else if (at->kind == RI_TOPO_NIC)
            width = narrower(width, usual(wider(pcie_gbps, ri_topo_nic_gbps(topo, object))));
    }
    return width;
}

/* By what is above both: see nvidia-smi topo -m.  A NUMA node and what lies below it have a host bridge
 * between them; what lies at a host may be anywhere in it. */
static enum ri_topo_level level_at(const struct ri_topo *topo, int32_t a, int32_t b, int32_t top)
{
    switch (topo->objects[top].kind) {
    case RI_TOPO_BRIDGE:
        return (a == top || topo->objects[a].parent == top) && (b == top || topo->objects[b].parent == top)
                   ? RI_TOPO_PIX
                   : RI_TOPO_PXB;
    case RI_TOPO_ROOT:
        return RI_TOPO_PHB;
    case RI_TOPO_NUMA:
        return a == top || b == top ? RI_TOPO_PHB : RI_TOPO_NODE;
    default:
        return RI_TOPO_SYS;
    }
}

/* Is anything known of a host that ways could have to cross? */
static int has_sockets(const struct ri_topo *topo, int32_t host)
{
    return ri_topo_find(topo, host, RI_TOPO_NUMA, 1) >= 0 || ri_topo_find(topo, host, RI_TOPO_PACKAGE, 1) >= 0;
}

/* What a way crosses at the top. */
static struct width crossing(const struct ri_topo *topo, int32_t a, int32_t b, int32_t top)
{
    enum ri_topo_kind kind = topo->objects[top].kind;

    if (kind == RI_TOPO_HOST)
        return has_sockets(topo, top) ? usual(socket_gbps) : known(unlimited_gbps);
    if (kind == RI_TOPO_PACKAGE)
        return usual(node_gbps);
    if (kind != RI_TOPO_NUMA || a == top || b == top || link_to_memory(topo, a, top) || link_to_memory(topo, b, top))
        return known(unlimited_gbps);
    return usual(node_gbps);
}

/* Memory to memory, which a core copies: as was measured for where both meet, else by class. */
static void path_of_copy(const struct ri_topo *topo, int32_t a, int32_t b, int32_t top, struct ri_topo_path *path)
{
    const struct ri_topo_object *at = &topo->objects[top];

    path->is_usual = at->copy_gbps <= 0;
    path->level = a == b ? RI_TOPO_SELF : RI_TOPO_SYS;
    path->latency_us = at->copy_latency_us > 0 ? at->copy_latency_us : latency_us[path->level];
    if (at->copy_gbps > 0)
        path->gbps = at->copy_gbps;
    else if (a == b)
        path->gbps = copy_gbps;
    else
        path->gbps = at->kind == RI_TOPO_PACKAGE ? copy_node_gbps : copy_socket_gbps;
}

static void set_width(struct ri_topo_path *path, struct width width)
{
    path->gbps = width.gbps;
    path->is_usual = width.is_usual;
}

/* Up from both, over what is crossed. */
static struct width width_across(const struct ri_topo *topo, int32_t a, int32_t b, int32_t top)
{
    struct width width = narrower(narrower(climb(topo, a, top), climb(topo, b, top)), crossing(topo, a, b, top));

    return width.gbps >= unlimited_gbps ? usual(pcie_gbps) : width;
}

static void path_in_host(const struct ri_topo *topo, int32_t a, int32_t b, int32_t top, struct ri_topo_path *path)
{
    const struct ri_topo_link *link = ri_topo_link_between(topo, a, b);

    path->links = 0;
    if (!link && is_memory(topo, a) && is_memory(topo, b)) {
        path_of_copy(topo, a, b, top, path);
        return;
    }
    if (a == b) {
        path->level = RI_TOPO_SELF;
        set_width(path, usual(topo->objects[a].kind == RI_TOPO_GPU ? gpu_copy_gbps : copy_gbps));
    } else if (link) {
        path->level = RI_TOPO_NVL;
        path->links = link->count;
        set_width(path, width_of_link(link));
    } else {
        path->level = level_at(topo, a, b, top);
        set_width(path, width_across(topo, a, b, top));
    }
    path->latency_us = latency_us[path->level];
}

/* From an object out to the network by a NIC; -1: one that is not known. */
static struct width width_out(const struct ri_topo *topo, int32_t object, int32_t nic, int shares)
{
    struct width width = usual(unknown_net_gbps);
    struct ri_topo_path path;

    if (nic >= 0) {
        width.gbps = ri_topo_nic_gbps(topo, nic) / (shares > 1 ? shares : 1);
        width.is_usual = topo->objects[nic].nic.gbps <= 0;
    }
    if (nic < 0 || nic == object)
        return width;
    ri_topo_path(topo, object, nic, &path);
    return narrower(width, (struct width){ path.gbps, path.is_usual });
}

static void path_of_net(const struct ri_topo *topo, struct width a, struct width b, struct ri_topo_path *path)
{
    path->level = RI_TOPO_NET;
    path->links = 0;
    set_width(path, narrower(a, b));
    path->latency_us = topo->net_latency_us > 0 ? topo->net_latency_us : latency_us[RI_TOPO_NET];
}

static int32_t way_out(const struct ri_topo *topo, int32_t object)
{
    return topo->objects[object].kind == RI_TOPO_NIC ? object : ri_topo_nearest_nic(topo, object);
}

void ri_topo_path(const struct ri_topo *topo, int32_t a, int32_t b, struct ri_topo_path *path)
{
    int32_t top = ri_topo_common(topo, a, b);

    if (top >= 0)
        path_in_host(topo, a, b, top, path);
    else
        path_of_net(topo, width_out(topo, a, way_out(topo, a), 1), width_out(topo, b, way_out(topo, b), 1), path);
}

void ri_topo_rank_path(const struct ri_topo *topo, int a, int b, struct ri_topo_path *path)
{
    const struct ri_topo_rank *from = &topo->ranks[a], *to = &topo->ranks[b];
    int32_t top = ri_topo_common(topo, from->object, to->object);

    if (top >= 0)
        path_in_host(topo, from->object, to->object, top, path);
    else
        path_of_net(topo, width_out(topo, from->object, from->nic, from->nic_shares),
                    width_out(topo, to->object, to->nic, to->nic_shares), path);
}
