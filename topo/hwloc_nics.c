/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/hwloc_build.h"

/* An adapter may have RDMA ports and network devices, which may belong together: each port is one NIC. */
enum { MOST_PORTS = 8, MOST_NETDEVS = 16 };

static int is_of_type(hwloc_obj_t part, hwloc_obj_osdev_type_t type)
{
#if HWLOC_API_VERSION >= 0x00030000
    return (part->attr->osdev.types & type) != 0;
#else
    return part->attr->osdev.type == type;
#endif
}

static int is_rdma(hwloc_obj_t part)
{
    return is_of_type(part, HWLOC_OBJ_OSDEV_OPENFABRICS);
}

static int is_netdev(hwloc_obj_t part)
{
    return is_of_type(part, HWLOC_OBJ_OSDEV_NETWORK);
}

int ri_hwloc_is_nic(hwloc_obj_t device)
{
    hwloc_obj_t part;

    for (int k = 0; (part = ri_hwloc_part(device, k)); k++)
        if (part->name && (is_rdma(part) || is_netdev(part)))
            return 1;
    return 0;
}

/* ---- network devices of one adapter ---- */

struct netdev {
    hwloc_obj_t part;
    int port; /* from 1; 0: hwloc does not say */
    enum ri_topo_layer layer;
    int is_taken;
};

/* By the length of its hardware address: 20 bytes on InfiniBand, 6 on Ethernet. */
static enum ri_topo_layer layer_of(hwloc_obj_t part)
{
    size_t length = strlen(ri_hwloc_info(part, "Address"));

    return length == 3 * 20 - 1 ? RI_TOPO_INFINIBAND : length == 3 * 6 - 1 ? RI_TOPO_ETHERNET : RI_TOPO_LAYER_UNKNOWN;
}

static int collect_netdevs(hwloc_obj_t device, struct netdev *netdevs)
{
    hwloc_obj_t part;
    int count = 0;

    for (int k = 0; (part = ri_hwloc_part(device, k)) && count < MOST_NETDEVS; k++)
        if (part->name && is_netdev(part))
            netdevs[count++] = (struct netdev){ part, atoi(ri_hwloc_info(part, "Port")), layer_of(part), 0 };
    return count;
}

/* That of a port; where hwloc does not say, one of InfiniBand before others. */
static struct netdev *netdev_of_port(struct netdev *netdevs, int count, int port)
{
    struct netdev *found = NULL;

    for (int i = 0; i < count; i++)
        if (netdevs[i].port == port && !netdevs[i].is_taken)
            return &netdevs[i];
    for (int i = 0; i < count; i++)
        if (netdevs[i].port == 0 && !netdevs[i].is_taken && (!found || netdevs[i].layer > found->layer))
            found = &netdevs[i];
    return found;
}

/* ---- RDMA ports ---- */

static const char *port_info(hwloc_obj_t rdma, int port, const char *what)
{
    char name[32];

    snprintf(name, sizeof(name), "Port%d%s", port, what);
    return ri_hwloc_info(rdma, name);
}

/* Ports that have a state or a network device; at least the first. */
static int ports_of(hwloc_obj_t rdma, const struct netdev *netdevs, int count)
{
    int ports = 1;

    for (int port = 2; port <= MOST_PORTS; port++) {
        if (*port_info(rdma, port, "State"))
            ports = port;
        for (int i = 0; i < count; i++)
            if (netdevs[i].port == port)
                ports = port;
    }
    return ports;
}

static enum ri_topo_state state_of(const char *text)
{
    static const enum ri_topo_state states[] = { RI_TOPO_STATE_UNKNOWN, RI_TOPO_DOWN, RI_TOPO_INIT, RI_TOPO_ARMED,
                                                 RI_TOPO_ACTIVE };
    int state = atoi(text);

    return state >= 0 && state < (int)(sizeof(states) / sizeof(*states)) ? states[state] : RI_TOPO_STATE_UNKNOWN;
}

static void set_port(struct ri_topo_nic *nic, hwloc_obj_t rdma, int port)
{
    snprintf(nic->device, sizeof(nic->device), "%s", rdma->name);
    nic->port = port;
    nic->state = state_of(port_info(rdma, port, "State"));
    nic->lid = (int32_t)strtol(port_info(rdma, port, "LID"), NULL, 0);
    if (nic->lid < 0 || nic->lid > 0xffff)
        nic->lid = 0;
    if (nic->lid) /* Ethernet has none */
        nic->layer = RI_TOPO_INFINIBAND;
    if (nic->state == RI_TOPO_DOWN)
        snprintf(nic->unusable, sizeof(nic->unusable), "port is down");
    else if (nic->state == RI_TOPO_INIT || nic->state == RI_TOPO_ARMED)
        snprintf(nic->unusable, sizeof(nic->unusable), "port is not active yet: %s", ri_topo_state_names[nic->state]);
}

/* ---- adapters ---- */

/* Equal for all ports of an adapter: by GUID, else by PCI slot. */
static void set_card(char card[40], hwloc_obj_t device, hwloc_obj_t rdma)
{
    char id[24];
    const char *guid = ri_hwloc_info(rdma, "SysImageGUID");

    if (!*guid)
        guid = ri_hwloc_info(rdma, "NodeGUID");
    ri_hwloc_pci_id(device, id);
    snprintf(card, 40, "%s", *guid ? guid : id);
    if (!*guid && strchr(card, '.'))
        *strchr(card, '.') = 0;
}

static int is_virtual_function(hwloc_obj_t device)
{
    return strstr(ri_hwloc_info(device, "PCIDevice"), "Virtual Function") != NULL;
}

static void add_nic(struct ri_hwloc_build *build, const struct ri_hwloc_device *device, hwloc_obj_t rdma, int port,
                    struct netdev *netdev)
{
    int32_t at = ri_topo_add(build->topo, RI_TOPO_NIC, device->parent, -1);
    struct ri_topo_object *object;

    if (at < 0)
        return;
    object = &build->topo->objects[at];
    if (rdma)
        set_port(&object->nic, rdma, port);
    if (netdev) {
        netdev->is_taken = 1;
        snprintf(object->nic.netdev, sizeof(object->nic.netdev), "%s", netdev->part->name);
        if (!object->nic.layer)
            object->nic.layer = netdev->layer;
    }
    if (rdma && port > 1)
        snprintf(object->name, sizeof(object->name), "%s:%d", rdma->name, port);
    else
        snprintf(object->name, sizeof(object->name), "%s", rdma ? rdma->name : netdev ? netdev->part->name : "nic");
    set_card(object->nic.card, device->object, rdma);
    object->nic.is_virtual = (uint8_t)is_virtual_function(device->object);
    ri_hwloc_pci_id(device->object, object->pci);
    snprintf(object->model, sizeof(object->model), "%s", ri_hwloc_info(device->object, "PCIDevice"));
    if (device->object->type == HWLOC_OBJ_PCI_DEVICE)
        object->link_gbps = device->object->attr->pcidev.linkspeed;
}

static void add_adapter(struct ri_hwloc_build *build, const struct ri_hwloc_device *device)
{
    struct netdev netdevs[MOST_NETDEVS];
    int count = collect_netdevs(device->object, netdevs);
    hwloc_obj_t part, first = NULL;

    for (int k = 0; (part = ri_hwloc_part(device->object, k)); k++) {
        int ports;

        if (!part->name || !is_rdma(part))
            continue;
        first = first ? first : part;
        ports = ports_of(part, netdevs, count);
        for (int port = 1; port <= ports; port++)
            add_nic(build, device, part, port, netdev_of_port(netdevs, count, port));
    }
    for (int i = 0; i < count; i++) {
        int32_t at = build->topo->object_count;

        if (netdevs[i].is_taken)
            continue;
        add_nic(build, device, NULL, 0, &netdevs[i]);
        if (first && at < build->topo->object_count)
            set_card(build->topo->objects[at].nic.card, device->object, first);
    }
}

void ri_hwloc_nics(struct ri_hwloc_build *build)
{
    for (int i = 0; i < build->device_count; i++)
        if (ri_hwloc_is_nic(build->devices[i].object))
            add_adapter(build, &build->devices[i]);
}
