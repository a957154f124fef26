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

static double narrower(double a, double b)
{
    return a < b ? a : b;
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

static double gbps_of_link(const struct ri_topo_link *link)
{
    return link->gbps > 0 ? link->gbps : link_gbps[link->kind] * (link->count > 0 ? link->count : 1);
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
static double climb(const struct ri_topo *topo, int32_t object, int32_t top)
{
    const struct ri_topo_link *link = link_to_memory(topo, object, top);
    double gbps = unlimited_gbps;

    if (link) {
        gbps = gbps_of_link(link);
        object = memory_of(topo, object);
    }
    for (; object != top; object = topo->objects[object].parent) {
        const struct ri_topo_object *at = &topo->objects[object];

        if (at->link_gbps > 0)
            gbps = narrower(gbps, at->link_gbps);
        else if (at->kind == RI_TOPO_GPU)
            gbps = narrower(gbps, pcie_gbps);
        else if (at->kind == RI_TOPO_NIC)
            gbps = narrower(gbps, wider(pcie_gbps, ri_topo_nic_gbps(topo, object)));
    }
    return gbps;
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
static double crossing(const struct ri_topo *topo, int32_t a, int32_t b, int32_t top)
{
    enum ri_topo_kind kind = topo->objects[top].kind;

    if (kind == RI_TOPO_HOST)
        return has_sockets(topo, top) ? socket_gbps : unlimited_gbps;
    if (kind == RI_TOPO_PACKAGE)
        return node_gbps;
    if (kind != RI_TOPO_NUMA || a == top || b == top || link_to_memory(topo, a, top) || link_to_memory(topo, b, top))
        return unlimited_gbps;
    return node_gbps;
}

/* Memory to memory, which a core copies: as was measured for where both meet, else by class. */
static void path_of_copy(const struct ri_topo *topo, int32_t a, int32_t b, int32_t top, struct ri_topo_path *path)
{
    const struct ri_topo_object *at = &topo->objects[top];

    path->level = a == b ? RI_TOPO_SELF : RI_TOPO_SYS;
    path->latency_us = at->copy_latency_us > 0 ? at->copy_latency_us : latency_us[path->level];
    if (at->copy_gbps > 0)
        path->gbps = at->copy_gbps;
    else if (a == b)
        path->gbps = copy_gbps;
    else
        path->gbps = at->kind == RI_TOPO_PACKAGE ? copy_node_gbps : copy_socket_gbps;
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
        path->gbps = topo->objects[a].kind == RI_TOPO_GPU ? gpu_copy_gbps : copy_gbps;
    } else if (link) {
        path->level = RI_TOPO_NVL;
        path->links = link->count;
        path->gbps = gbps_of_link(link);
    } else {
        path->level = level_at(topo, a, b, top);
        path->gbps = narrower(narrower(climb(topo, a, top), climb(topo, b, top)), crossing(topo, a, b, top));
        if (path->gbps >= unlimited_gbps)
            path->gbps = pcie_gbps;
    }
    path->latency_us = latency_us[path->level];
}

/* From an object out to the network by a NIC; -1: one that is not known. */
static double gbps_out(const struct ri_topo *topo, int32_t object, int32_t nic, int shares)
{
    struct ri_topo_path path;
    double gbps = unknown_net_gbps;

    if (nic >= 0)
        gbps = ri_topo_nic_gbps(topo, nic) / (shares > 1 ? shares : 1);
    if (nic < 0 || nic == object)
        return gbps;
    ri_topo_path(topo, object, nic, &path);
    return narrower(path.gbps, gbps);
}

static void path_of_net(const struct ri_topo *topo, double a_gbps, double b_gbps, struct ri_topo_path *path)
{
    path->level = RI_TOPO_NET;
    path->links = 0;
    path->gbps = narrower(a_gbps, b_gbps);
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
        path_of_net(topo, gbps_out(topo, a, way_out(topo, a), 1), gbps_out(topo, b, way_out(topo, b), 1), path);
}

void ri_topo_rank_path(const struct ri_topo *topo, int a, int b, struct ri_topo_path *path)
{
    const struct ri_topo_rank *from = &topo->ranks[a], *to = &topo->ranks[b];
    int32_t top = ri_topo_common(topo, from->object, to->object);

    if (top >= 0)
        path_in_host(topo, from->object, to->object, top, path);
    else
        path_of_net(topo, gbps_out(topo, from->object, from->nic, from->nic_shares),
                    gbps_out(topo, to->object, to->nic, to->nic_shares), path);
}
