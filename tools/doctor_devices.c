/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of network adapters and GPUs, by the tree. */
#include <string.h>

#include "tools/doctor.h"

/* A link is as fast as it should be within so much: rates are rounded. */
static const double even = 1.02;
/* Below it RoCE sends 1024 bytes in a packet, which keeps adapters of 100 Gbit/s and more from their rate. */
enum { LEAST_ROCE_MTU = 2048 };

static int is_rdma(const struct ri_topo_object *object)
{
    return object->kind == RI_TOPO_NIC && object->nic.port > 0;
}

static int is_usable_rdma(const struct ri_topo_object *object)
{
    return is_rdma(object) && !object->nic.unusable[0];
}

static int is_usable_roce(const struct ri_topo_object *object)
{
    return is_usable_rdma(object) && object->nic.layer == RI_TOPO_ETHERNET;
}

static int count_of(const struct ri_topo *topo, int (*is_it)(const struct ri_topo_object *object))
{
    int count = 0;

    for (int32_t i = 0; i < topo->object_count; i++)
        count += is_it(&topo->objects[i]);
    return count;
}

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

static int speaks_unknown(const struct ri_topo_object *object)
{
    return object->kind == RI_TOPO_NIC && object->nic.layer == RI_TOPO_LAYER_UNKNOWN;
}

/* ---- ports ---- */

void doctor_fabric(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    int ports = count_of(facts->topo, is_rdma), usable = count_of(facts->topo, is_usable_rdma);

    if (facts->fabric == DOCTOR_FABRIC_NO) {
        doctor_say(finding, DOCTOR_PASS, "no fabric is asked for");
    } else if (usable) {
        doctor_say(finding, DOCTOR_PASS, "%d of %d RDMA port%s can be used", usable, ports, plural(ports));
    } else if (ports) {
        doctor_say(finding, facts->fabric == DOCTOR_FABRIC_YES ? DOCTOR_FAIL : DOCTOR_WARN,
                   "none of %d RDMA port%s can be used: hosts talk over TCP", ports, plural(ports));
        doctor_remedy(finding, "see ports below; in a container: give it the devices (docker --device=/dev/infiniband)");
    } else if (facts->fabric == DOCTOR_FABRIC_YES) {
        doctor_say(finding, DOCTOR_FAIL, "there is no RDMA adapter: hosts talk over TCP");
        doctor_remedy(finding, "load its driver (lspci, modprobe mlx5_ib); in a container: --device=/dev/infiniband and "
                      "the network namespace of the host; or ask with --fabric no");
    } else if (!facts->is_looked_at && count_of(facts->topo, speaks_unknown)) {
        doctor_say(finding, DOCTOR_SKIP, "a description says nothing of what the NICs speak (layer:infiniband, roce)");
    } else {
        doctor_say(finding, DOCTOR_PASS, "there is no RDMA adapter, and none is asked for: hosts talk over TCP");
    }
}

/* What to do about a port, by its state. */
static const char *remedy_of(const struct ri_topo_nic *nic)
{
    if (nic->state == RI_TOPO_DOWN)
        return "plug in the cable or replace it, look at the port of the switch (ibstat, mlxlink; ip link set up)";
    if (nic->state == RI_TOPO_INIT || nic->state == RI_TOPO_ARMED ||
        (nic->layer == RI_TOPO_INFINIBAND && nic->lid == 0))
        return "start a subnet manager: opensm, or that of the switch (sminfo tells whether there is one)";
    return "let this process open /dev/infiniband/uverbs* (docker --device=/dev/infiniband)";
}

void doctor_ports(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    const struct ri_topo *topo = facts->topo;
    char name[160];

    if (facts->fabric == DOCTOR_FABRIC_NO || count_of(topo, is_rdma) == 0) {
        doctor_say(finding, DOCTOR_SKIP, facts->fabric == DOCTOR_FABRIC_NO ? "no fabric is asked for"
                                                                          : "there is no RDMA port");
        return;
    }
    for (int32_t i = 0; i < topo->object_count; i++) {
        const struct ri_topo_nic *nic = &topo->objects[i].nic;

        if (!is_rdma(&topo->objects[i]) || !nic->unusable[0])
            continue;
        if (!finding->items)
            doctor_remedy(finding, "%s", remedy_of(nic));
        doctor_item(finding, DOCTOR_WARN, "%s: %s", doctor_name(topo, i, name), nic->unusable);
    }
    if (!finding->items)
        doctor_say(finding, DOCTOR_PASS, "%d RDMA port%s, all active", count_of(topo, is_rdma),
                   plural(count_of(topo, is_rdma)));
}

void doctor_gid(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    const struct ri_topo *topo = facts->topo;
    int ports = count_of(topo, is_usable_roce);
    char name[160];

    if (!ports || !facts->is_looked_at) {
        doctor_say(finding, DOCTOR_SKIP, ports ? "a description says nothing of GIDs" : "there is no RoCE port in use");
        return;
    }
    for (int32_t i = 0; i < topo->object_count; i++)
        if (is_usable_roce(&topo->objects[i]) && topo->objects[i].nic.gid_index < 0)
            doctor_item(finding, DOCTOR_WARN, "%s has no GID: nobody can be reached over it",
                        doctor_name(topo, i, name));
    if (finding->items)
        doctor_remedy(finding, "give its interface an address (ip address add), and the container the network "
                      "namespace of that interface");
    else
        doctor_say(finding, DOCTOR_PASS, "%d RoCE port%s, each with a GID", ports, plural(ports));
}

/* ---- MTU ---- */

static int is_same_network(const struct ri_topo_nic *a, const struct ri_topo_nic *b)
{
    return a->layer == b->layer && a->subnet[0] && strcmp(a->subnet, b->subnet) == 0;
}

/* The first one before it that is on its network and has another MTU; -1: none. */
static int32_t differing(const struct ri_topo *topo, int32_t at)
{
    const struct ri_topo_nic *nic = &topo->objects[at].nic;

    for (int32_t i = 0; i < at; i++) {
        const struct ri_topo_nic *other = &topo->objects[i].nic;

        if (topo->objects[i].kind == RI_TOPO_NIC && other->mtu > 0 && other->mtu != nic->mtu &&
            is_same_network(nic, other) && ri_topo_nic_is_used(topo, i, NULL))
            return i;
    }
    return -1;
}

static void judge_mtu(const struct ri_topo *topo, int32_t at, struct doctor_finding *finding)
{
    const struct ri_topo_nic *nic = &topo->objects[at].nic;
    int32_t other = differing(topo, at);
    char name[160], other_name[160];

    if (other >= 0)
        doctor_item(finding, DOCTOR_WARN, "%s has %d, %s on %s has %d", doctor_name(topo, at, name), (int)nic->mtu,
                    doctor_name(topo, other, other_name), nic->subnet, (int)topo->objects[other].nic.mtu);
    else if (is_usable_roce(&topo->objects[at]) && nic->mtu < LEAST_ROCE_MTU)
        doctor_item(finding, DOCTOR_WARN, "%s has %d: RoCE sends small packets", doctor_name(topo, at, name),
                    (int)nic->mtu);
}

void doctor_mtu(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    const struct ri_topo *topo = facts->topo;
    int known = 0;

    for (int32_t i = 0; i < topo->object_count; i++) {
        if (topo->objects[i].kind != RI_TOPO_NIC || topo->objects[i].nic.mtu <= 0 ||
            !ri_topo_nic_is_used(topo, i, NULL))
            continue;
        known++;
        judge_mtu(topo, i, finding);
    }
    if (finding->items)
        doctor_remedy(finding, "one MTU for all ports of a network and for its switches; for RoCE 9000: ip link set "
                      "dev NAME mtu 9000");
    else if (known)
        doctor_say(finding, DOCTOR_PASS, "%d port%s, no network with two MTUs", known, plural(known));
    else
        doctor_say(finding, DOCTOR_SKIP, "no port in use says its MTU");
}

/* ---- places ---- */

/* Is it known where on its host an object is?  With one NUMA node there is no other place. */
static int is_placed(const struct ri_topo *topo, int32_t object)
{
    return ri_topo_above(topo, object, RI_TOPO_NUMA) >= 0 ||
           ri_topo_count(topo, ri_topo_host_of(topo, object), RI_TOPO_NUMA) == 1;
}

static int is_far(const struct ri_topo *topo, const struct ri_topo_rank *rank)
{
    int32_t package = ri_topo_above(topo, rank->object, RI_TOPO_PACKAGE);
    struct ri_topo_path path;

    if (ri_topo_above(topo, rank->object, RI_TOPO_NUMA) < 0 || ri_topo_above(topo, rank->nic, RI_TOPO_NUMA) < 0)
        return 0;
    if (package >= 0 && package == ri_topo_above(topo, rank->nic, RI_TOPO_PACKAGE)) /* which may have several nodes */
        return 0;
    ri_topo_path(topo, rank->object, rank->nic, &path);
    return path.level == RI_TOPO_SYS;
}

void doctor_distance(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    const struct ri_topo *topo = facts->topo;
    int known = 0, have_nics = 0;
    char name[160], nic_name[160];

    for (int r = 0; r < topo->rank_count; r++) {
        const struct ri_topo_rank *rank = &topo->ranks[r];

        if (rank->nic < 0)
            continue;
        have_nics++;
        known += is_placed(topo, rank->object) && is_placed(topo, rank->nic);
        if (is_far(topo, rank))
            doctor_item(finding, DOCTOR_WARN, "rank %d at %s has no NIC nearer than %s, on another socket", r,
                        doctor_name(topo, rank->object, name), doctor_name(topo, rank->nic, nic_name));
    }
    if (finding->items)
        doctor_remedy(finding, "move an adapter to a slot of that socket, or start ranks only at those that have one; "
                      "see rondo-topo --explain");
    else if (known)
        doctor_say(finding, DOCTOR_PASS, "%d rank%s, none with a NIC on a far socket", known, plural(known));
    else
        doctor_say(finding, DOCTOR_SKIP, have_nics ? "nothing tells at which NUMA node ranks and their NICs are"
                                                   : "no rank has a NIC");
}

void doctor_pci(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    const struct ri_topo *topo = facts->topo;
    int known = 0, gpus = 0;
    char name[160];

    for (int32_t i = 0; i < topo->object_count; i++) {
        const struct ri_topo_object *it = &topo->objects[i];

        if ((it->kind != RI_TOPO_NIC && it->kind != RI_TOPO_GPU && it->kind != RI_TOPO_BRIDGE) || it->link_gbps <= 0)
            continue;
        known++;
        gpus += it->kind == RI_TOPO_GPU && it->full_gbps > it->link_gbps * even;
        if (it->full_gbps > it->link_gbps * even)
            doctor_item(finding, DOCTOR_WARN, "%s runs at %.3g of %.3g GB/s", doctor_name(topo, i, name),
                        it->link_gbps, it->full_gbps);
        else if (it->kind == RI_TOPO_NIC && it->nic.gbps > it->link_gbps * even)
            doctor_item(finding, DOCTOR_WARN, "%s has a port of %.3g GB/s behind a link of %.3g",
                        doctor_name(topo, i, name), it->nic.gbps, it->link_gbps);
    }
    if (finding->items)
        doctor_remedy(finding, "seat the card anew, in a slot with all its lanes; look at lspci -vv (LnkSta) and the "
                      "BIOS%s", gpus ? "; a GPU at rest may have slowed down: look again under load" : "");
    else if (known)
        doctor_say(finding, DOCTOR_PASS, "%d link%s, none slower than it could be", known, plural(known));
    else
        doctor_say(finding, DOCTOR_SKIP, "no PCI link tells its speed");
}

/* Devices of hardware that stand nowhere, on hosts where that matters. */
void doctor_numa(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    const struct ri_topo *topo = facts->topo;
    int several = 0, known = 0;
    char name[160];

    for (int32_t i = 0; i < topo->object_count; i++) {
        const struct ri_topo_object *it = &topo->objects[i];
        int is_device = it->kind == RI_TOPO_GPU || (it->kind == RI_TOPO_NIC && !it->nic.is_virtual &&
                                                    !it->nic.is_loopback && ri_topo_nic_is_used(topo, i, NULL));

        if (it->kind == RI_TOPO_HOST) {
            several |= ri_topo_count(topo, i, RI_TOPO_NUMA) > 1;
            known |= ri_topo_count(topo, i, RI_TOPO_NUMA) > 0;
        }
        if (is_device && ri_topo_count(topo, ri_topo_host_of(topo, i), RI_TOPO_NUMA) > 1 &&
            ri_topo_above(topo, i, RI_TOPO_NUMA) < 0)
            doctor_item(finding, DOCTOR_WARN, "%s: nobody knows at which NUMA node", doctor_name(topo, i, name));
    }
    if (finding->items)
        doctor_remedy(finding, "in a virtual machine: pass on the NUMA node of devices (a PCI bridge for each), or "
                      "describe the machine by hand, see rondo-topo-text(5)");
    else if (!known)
        doctor_say(finding, DOCTOR_SKIP, "nothing tells which NUMA nodes there are");
    else
        doctor_say(finding, DOCTOR_PASS, several ? "every device has its NUMA node" : "one node: all places are near");
}

/* What discovery says of links it could not see; NULL: nothing. */
static const char *lost_links(const struct ri_topo *topo)
{
    return topo->notices ? strstr(topo->notices, DOCTOR_LOST_LINKS) : NULL;
}

void doctor_gpus(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    const struct ri_topo *topo = facts->topo;
    const char *lost = lost_links(topo);
    int gpus = 0, nameless = 0;

    for (int32_t i = 0; i < topo->object_count; i++) {
        gpus += topo->objects[i].kind == RI_TOPO_GPU;
        nameless += topo->objects[i].kind == RI_TOPO_GPU && !topo->objects[i].id[0];
    }
    if (gpus == 0 || !facts->is_looked_at) {
        doctor_say(finding, DOCTOR_SKIP, gpus ? "a description says nothing of drivers" : "there are no GPUs");
    } else if (lost || nameless) {
        if (lost)
            doctor_item(finding, DOCTOR_WARN, "%.*s", (int)strcspn(lost, "\n"), lost);
        if (nameless)
            doctor_item(finding, DOCTOR_WARN, "the driver knows nothing of %d of %d GPU%s", nameless, gpus, plural(gpus));
        doctor_remedy(finding, "install the driver with its libnvidia-ml.so.1 (NVML); docker --gpus all, with utility in "
                      "the capabilities of the driver");
    } else {
        doctor_say(finding, DOCTOR_PASS, "%d GPU%s known to the driver", gpus, plural(gpus));
    }
}
