/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/gid.h"
#include "topo/nic.h"

#define FOLDER "/sys/class/infiniband"
#define MAX_GIDS 256
#define MAX_HOLE 16 /* so many empty entries of a GID table, and the rest is empty, too */

/* ---- words of sysfs ---- */

double ri_rdma_rate(const char *text)
{
    char *end;
    double rate = strtod(text, &end);

    return end != text && strncmp(end, " Gb/sec", 7) == 0 && rate > 0 && rate < 1e5 ? rate / 8 : 0;
}

/* "4: ACTIVE"; 5 is active, and defers. */
static enum ri_topo_state read_state(const char *text)
{
    switch (atoi(text)) {
    case 1:
        return RI_TOPO_DOWN;
    case 2:
        return RI_TOPO_INIT;
    case 3:
        return RI_TOPO_ARMED;
    case 4:
    case 5:
        return RI_TOPO_ACTIVE;
    default:
        return RI_TOPO_STATE_UNKNOWN;
    }
}

static enum ri_topo_layer read_layer(const char *text)
{
    if (strcmp(text, "InfiniBand") == 0)
        return RI_TOPO_INFINIBAND;
    return strcmp(text, "Ethernet") == 0 ? RI_TOPO_ETHERNET : RI_TOPO_LAYER_UNKNOWN;
}

/* ---- ports ---- */

void ri_rdma_judge(struct ri_topo_nic *nic, const char *phys_state)
{
    char *why = nic->unusable;
    size_t bytes = sizeof(nic->unusable);

    why[0] = 0;
    if (nic->state == RI_TOPO_DOWN && strstr(phys_state, "Disabled"))
        snprintf(why, bytes, "port is down: it is disabled");
    else if (nic->state == RI_TOPO_DOWN && strstr(phys_state, "Polling"))
        snprintf(why, bytes, "port is down: no partner at the other end of the cable");
    else if (nic->state == RI_TOPO_DOWN)
        snprintf(why, bytes, "port is down");
    else if (nic->state == RI_TOPO_INIT && nic->layer == RI_TOPO_INFINIBAND)
        snprintf(why, bytes, "port is in state INIT: is a subnet manager running?");
    else if (nic->state == RI_TOPO_INIT)
        snprintf(why, bytes, "port is in state INIT");
    else if (nic->state == RI_TOPO_ARMED)
        snprintf(why, bytes, "port is in state ARMED: the subnet manager has not activated it yet");
    else if (nic->state == RI_TOPO_STATE_UNKNOWN)
        snprintf(why, bytes, "state of the port is unknown");
    else if (nic->layer == RI_TOPO_INFINIBAND && nic->lid == 0)
        snprintf(why, bytes, "no LID yet: is a subnet manager running?");
}

static int read_gid(struct ri_nics *nics, const char *folder, int32_t index, struct ri_gid *gid)
{
    char text[64], type[32];

    memset(gid, 0, sizeof(*gid));
    gid->index = index;
    if (ri_nics_text(nics, text, sizeof(text), "%s/gids/%d", folder, (int)index))
        return -1;
    if (!ri_gid_read(text, gid->raw))
        return 0;
    if (strspn(text, "0:") < strlen(text) &&
        ri_nics_text(nics, type, sizeof(type), "%s/gid_attrs/types/%d", folder, (int)index) == 0)
        gid->is_v2 = strstr(type, "RoCE v2") != NULL;
    return 0;
}

/* The GID that RoCE uses, and the interface that it belongs to. */
static void read_gids(struct ri_nics *nics, const char *folder, struct ri_nic_port *port)
{
    struct ri_gid *gids = calloc(MAX_GIDS, sizeof(*gids));
    int count = 0, hole = 0;

    if (!gids) {
        nics->no_memory = 1;
        return;
    }
    while (count < MAX_GIDS && hole < MAX_HOLE && read_gid(nics, folder, count, &gids[count]) == 0) {
        static const uint8_t none[16];

        hole = memcmp(gids[count].raw, none, sizeof(none)) ? 0 : hole + 1;
        count++;
    }
    ri_gid_pick(gids, count, port->name, -1, &port->nic.gid_index);
    free(gids);
    if (port->nic.gid_index >= 0)
        ri_nics_text(nics, port->gid_netdev, sizeof(port->gid_netdev), "%s/gid_attrs/ndevs/%d", folder,
                     (int)port->nic.gid_index);
}

/* InfiniBand: ports with one prefix are on one subnet. */
static void read_prefix(struct ri_nics *nics, const char *folder, struct ri_topo_nic *nic)
{
    char text[64];
    uint8_t raw[16];

    if (ri_nics_text(nics, text, sizeof(text), "%s/gids/0", folder) == 0 && ri_gid_read(text, raw))
        snprintf(nic->subnet, sizeof(nic->subnet), "%.19s", text);
}

/* Of names in a folder, one of an interface below: "lower_eth0". */
static int stands_on_another(struct ri_nics *nics, const char *name)
{
    char path[128], *names;
    int found;

    snprintf(path, sizeof(path), "/sys/class/net/%s", name);
    names = ri_source_list(nics->source, path);
    found = names && strstr(names, "lower_") != NULL;
    free(names);
    return found;
}

/* Whether an interface that a port names is its own.  In a container the name may be one of another network namespace:
 * then there is none here, or one that has nothing to do with the port.  Bonds have no device, but members. */
static int is_own_netdev(struct ri_nics *nics, const char *name, const struct ri_nic_port *port)
{
    char path[128], text[16];
    struct ri_pci pci;

    if (ri_nics_text(nics, text, sizeof(text), "/sys/class/net/%s/type", name))
        return 0;
    snprintf(path, sizeof(path), "/sys/class/net/%s/device", name);
    if (!port->pci.id[0])
        return 1;
    if (ri_pci_read(nics->source, path, &pci) == 0)
        return strcmp(pci.card, port->pci.card) == 0;
    return ri_nics_text(nics, text, sizeof(text), "/sys/class/net/%s/bonding/slaves", name) == 0 ||
           stands_on_another(nics, name);
}

/* The interface of a port: that of its GIDs, else of its device the one with this port's number. */
static void find_netdev(struct ri_nics *nics, const char *folder, const char *device, int several,
                        struct ri_nic_port *port)
{
    char path[128], *names, *rest, *name;

    if (port->nic.layer == RI_TOPO_ETHERNET)
        ri_nics_text(nics, port->nic.netdev, sizeof(port->nic.netdev), "%s/gid_attrs/ndevs/0", folder);
    if (port->nic.netdev[0] && is_own_netdev(nics, port->nic.netdev, port))
        return;
    port->nic.netdev[0] = 0;
    snprintf(path, sizeof(path), FOLDER "/%s/device/net", device);
    names = ri_source_list(nics->source, path);
    for (name = names ? strtok_r(names, "\n", &rest) : NULL; name; name = strtok_r(NULL, "\n", &rest)) {
        long long number = ri_nics_number(nics, 0, "/sys/class/net/%s/dev_port", name);

        if (number == 0)
            number = ri_nics_number(nics, 0, "/sys/class/net/%s/dev_id", name);
        /* Those with a dot are children: VLANs and partitions. */
        if (strlen(name) < sizeof(port->nic.netdev) && !strchr(name, '.') &&
            (!several || number == port->nic.port - 1)) {
            snprintf(port->nic.netdev, sizeof(port->nic.netdev), "%s", name);
            break;
        }
    }
    free(names);
}

static void read_port(struct ri_nics *nics, const struct ri_nic_port *device, int number, int several)
{
    struct ri_nic_port *port = ri_nics_add(nics);
    char folder[128], text[64], phys_state[64];
    long long lid;

    if (!port)
        return;
    *port = *device;
    port->nic.port = number;
    if (number > 1 && several)
        snprintf(port->name, sizeof(port->name), "%s:%d", device->nic.device, number);
    snprintf(folder, sizeof(folder), FOLDER "/%s/ports/%d", device->nic.device, number);
    ri_nics_text(nics, text, sizeof(text), "%s/link_layer", folder);
    port->nic.layer = read_layer(text);
    ri_nics_text(nics, text, sizeof(text), "%s/state", folder);
    port->nic.state = read_state(text);
    /* A port that is down has the rate of its last or slowest training. */
    ri_nics_text(nics, text, sizeof(text), "%s/rate", folder);
    port->nic.gbps = port->nic.state == RI_TOPO_DOWN ? 0 : ri_rdma_rate(text);
    lid = ri_nics_number(nics, -1, "%s/lid", folder);
    port->nic.lid = lid < 0 ? -1 : (int32_t)(lid & 0xffff);
    ri_nics_text(nics, phys_state, sizeof(phys_state), "%s/phys_state", folder);
    if (port->nic.layer == RI_TOPO_ETHERNET)
        read_gids(nics, folder, port);
    else
        read_prefix(nics, folder, &port->nic);
    find_netdev(nics, folder, device->nic.device, several, port);
    ri_rdma_judge(&port->nic, phys_state);
}

/* ---- devices ---- */

/* What all ports of a device have in common. */
static void read_device(struct ri_nics *nics, const char *name, struct ri_nic_port *device)
{
    char path[128], type[24], firmware[24];

    memset(device, 0, sizeof(*device));
    device->object = -1;
    device->nic.gid_index = -1;
    snprintf(device->nic.device, sizeof(device->nic.device), "%s", name);
    snprintf(device->name, sizeof(device->name), "%s", name);
    snprintf(path, sizeof(path), FOLDER "/%s/device", name);
    ri_pci_read(nics->source, path, &device->pci);
    device->nic.is_virtual = device->pci.is_virtual != 0;
    /* Two functions of one adapter have one system image; some firmware has it zero. */
    ri_nics_text(nics, device->nic.card, sizeof(device->nic.card), FOLDER "/%s/sys_image_guid", name);
    if (strspn(device->nic.card, "0:") == strlen(device->nic.card))
        snprintf(device->nic.card, sizeof(device->nic.card), "%s",
                 device->pci.id[0] ? device->pci.card : name);
    ri_nics_text(nics, type, sizeof(type), FOLDER "/%s/hca_type", name);
    ri_nics_text(nics, firmware, sizeof(firmware), FOLDER "/%s/fw_ver", name);
    snprintf(device->model, sizeof(device->model), "%s%s%s", type, firmware[0] ? " fw " : "", firmware);
}

enum node_type { CHANNEL_ADAPTER = 1, RNIC = 4 };

/* As "1: CA" tells; what cannot be read is taken for a channel adapter. */
static int read_node_type(struct ri_nics *nics, const char *name)
{
    char type[32];

    return ri_nics_text(nics, type, sizeof(type), FOLDER "/%s/node_type", name) ? CHANNEL_ADAPTER : atoi(type);
}

/* iWARP (RNIC) and those above it (usNIC; EFA, which is of no type) connect in other ways.  They are told of, as other
 * libraries would show them as RDMA. */
static void add_other(struct ri_nics *nics, const char *name, int type)
{
    struct ri_nic_port *port = ri_nics_add(nics);

    if (!port)
        return;
    read_device(nics, name, port);
    snprintf(port->nic.unusable, sizeof(port->nic.unusable), "%s, which is not used: it is neither InfiniBand nor RoCE",
             type == RNIC ? "iWARP" : "usNIC or EFA");
}

static void read_ports(struct ri_nics *nics, const char *name)
{
    struct ri_nic_port device;
    char path[128], *names, *rest, *port;
    int count = 0;

    snprintf(path, sizeof(path), FOLDER "/%s/ports", name);
    names = ri_source_list(nics->source, path);
    if (!names)
        return;
    read_device(nics, name, &device);
    for (const char *at = names; *at; at++)
        count += *at == '\n';
    for (port = strtok_r(names, "\n", &rest); port; port = strtok_r(NULL, "\n", &rest)) {
        int number = atoi(port);

        if (number >= 1 && number <= 255)
            read_port(nics, &device, number, count > 1);
    }
    free(names);
}

static void read_one(struct ri_nics *nics, const char *name)
{
    int type = read_node_type(nics, name);

    if (type == CHANNEL_ADAPTER)
        read_ports(nics, name);
    else if (type >= RNIC) /* below it, switches and routers */
        add_other(nics, name, type);
}

void ri_rdma_read(struct ri_nics *nics)
{
    char *names = ri_source_list(nics->source, FOLDER), *rest, *name;

    for (name = names ? strtok_r(names, "\n", &rest) : NULL; name; name = strtok_r(NULL, "\n", &rest))
        if (strlen(name) < sizeof(nics->ports->nic.device))
            read_one(nics, name);
    free(names);
}
