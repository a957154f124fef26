/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "topo/nic.h"

#define FOLDER "/sys/class/net"
#define MAX_ADDRESSES 2048 /* bytes of text */

/* Types as <linux/if_arp.h> counts them. */
enum { TYPE_ETHERNET = 1, TYPE_INFINIBAND = 32, TYPE_LOOPBACK = 772 };

/* ---- networks ---- */

/* Clears all bits of an address behind the prefix. */
static void mask(uint8_t *raw, int bytes, int prefix)
{
    for (int i = 0; i < bytes; i++) {
        int keep = prefix - 8 * i;

        raw[i] &= keep >= 8 ? 0xff : keep <= 0 ? 0 : (uint8_t)(0xff << (8 - keep));
    }
}

/* Good on one link or host only. */
static int is_local(int family, const uint8_t *raw)
{
    static const uint8_t none[16];

    if (family == AF_INET)
        return raw[0] == 127 || raw[0] == 0 || (raw[0] == 169 && raw[1] == 254);
    return (raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80) || memcmp(raw, none, 15) == 0;
}

/* The network of one "10.77.0.5/24".  Networks of one, two or four addresses lead to a router, and tell nothing
 * about who else can be reached. */
static int read_network(const char *line, int family, char subnet[48])
{
    char text[64], *slash, *end;
    int bits = family == AF_INET ? 32 : 128;
    uint8_t raw[16];
    long prefix;

    snprintf(text, sizeof(text), "%.*s", (int)strcspn(line, "\n"), line);
    slash = strchr(text, '/');
    if (!slash)
        return 0;
    *slash = 0;
    prefix = strtol(slash + 1, &end, 10);
    if (end == slash + 1 || *end || prefix < 1 || prefix > bits - 3)
        return 0;
    if (inet_pton(family, text, raw) != 1 || is_local(family, raw))
        return 0;
    mask(raw, bits / 8, (int)prefix);
    inet_ntop(family, raw, text, sizeof(text));
    snprintf(subnet, 48, "%.43s/%d", text, (int)prefix);
    return 1;
}

static const char *next_line(const char *text)
{
    text = strchr(text, '\n');
    return text ? text + 1 : "";
}

void ri_netdev_subnet(const char *addresses, char subnet[48])
{
    static const int families[] = { AF_INET, AF_INET6 };

    subnet[0] = 0;
    for (int f = 0; f < 2; f++)
        for (const char *line = addresses; *line; line = next_line(line))
            if (read_network(line, families[f], subnet))
                return;
}

static int prefix_of(const uint8_t *netmask, int bytes)
{
    int prefix = 0;

    for (int i = 0; i < bytes; i++)
        for (int bit = 7; bit >= 0 && (netmask[i] >> bit & 1); bit--)
            prefix++;
    return prefix;
}

static void append_address(char *text, size_t bytes, const struct ifaddrs *entry)
{
    const struct sockaddr *address = entry->ifa_addr, *netmask = entry->ifa_netmask;
    size_t had = strlen(text);
    char words[INET6_ADDRSTRLEN];

    if (!address || !netmask)
        return;
    if (address->sa_family == AF_INET) {
        const struct in_addr *raw = &((const struct sockaddr_in *)(const void *)address)->sin_addr;
        const struct in_addr *bits = &((const struct sockaddr_in *)(const void *)netmask)->sin_addr;

        if (inet_ntop(AF_INET, raw, words, sizeof(words)))
            snprintf(text + had, bytes - had, "%s/%d\n", words, prefix_of((const void *)bits, 4));
    } else if (address->sa_family == AF_INET6) {
        const struct in6_addr *raw = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        const struct in6_addr *bits = &((const struct sockaddr_in6 *)(const void *)netmask)->sin6_addr;

        if (inet_ntop(AF_INET6, raw, words, sizeof(words)))
            snprintf(text + had, bytes - had, "%s/%d\n", words, prefix_of((const void *)bits, 16));
    }
}

/* Asks the system once, and keeps for a recording what each interface has. */
static void note_addresses(struct ri_nics *nics, const struct ifaddrs *all, const char *name)
{
    char text[MAX_ADDRESSES] = "", note[64];

    for (const struct ifaddrs *at = all; at; at = at->ifa_next)
        /* An address with a label is named "eth0:1". */
        if (strncmp(at->ifa_name, name, strlen(name)) == 0 && strchr(":", at->ifa_name[strlen(name)]))
            append_address(text, sizeof(text), at);
    snprintf(note, sizeof(note), "addresses/%s", name);
    ri_source_note(nics->source, note, text);
}

static void read_subnet(struct ri_nics *nics, const char *name, char subnet[48])
{
    char note[64], *text;

    snprintf(note, sizeof(note), "addresses/%s", name);
    text = ri_source_ask(nics->source, note);
    if (text)
        ri_netdev_subnet(text, subnet);
    free(text);
}

/* ---- interfaces ---- */

/* The bond or bridge that an interface is part of.  A bond of IPoIB interfaces takes nothing from the ports below. */
static void read_master(struct ri_nics *nics, const char *name, struct ri_nic_port *port)
{
    char path[128], target[512], text[128];
    const char *master;

    if (port->nic.device[0] && port->nic.layer == RI_TOPO_INFINIBAND)
        return;
    snprintf(path, sizeof(path), FOLDER "/%s/master", name);
    if (ri_source_link(nics->source, path, target, sizeof(target)))
        return;
    master = strrchr(target, '/');
    master = master ? master + 1 : target;
    if (strlen(master) >= sizeof(port->nic.bond))
        return;
    if (ri_nics_text(nics, text, sizeof(text), FOLDER "/%s/bonding/slaves", master) == 0) {
        snprintf(port->nic.bond, sizeof(port->nic.bond), "%s", master);
        if (!port->nic.device[0])
            snprintf(port->nic.unusable, sizeof(port->nic.unusable), "member of %s", master);
    } else if (ri_nics_text(nics, text, sizeof(text), FOLDER "/%s/bridge/bridge_id", master) == 0 &&
               !port->nic.device[0]) {
        snprintf(port->nic.unusable, sizeof(port->nic.unusable), "port of the bridge %s", master);
    }
}

static void judge(struct ri_nics *nics, const char *name, struct ri_topo_nic *nic)
{
    char state[32];

    ri_nics_text(nics, state, sizeof(state), FOLDER "/%s/operstate", name);
    if (strcmp(state, "up") == 0 || strcmp(state, "unknown") == 0 || strcmp(state, "") == 0)
        nic->state = ri_nics_number(nics, 1, FOLDER "/%s/carrier", name) == 0 ? RI_TOPO_DOWN : RI_TOPO_ACTIVE;
    else
        nic->state = RI_TOPO_DOWN;
    if (nic->state != RI_TOPO_DOWN)
        return;
    if (strcmp(state, "lowerlayerdown") == 0)
        snprintf(nic->unusable, sizeof(nic->unusable), "what the interface stands on is down");
    else if (strcmp(state, "down") == 0)
        snprintf(nic->unusable, sizeof(nic->unusable), "interface is down");
    else
        snprintf(nic->unusable, sizeof(nic->unusable), "interface has no carrier");
}

/* In GB/s; 0: unknown.  Virtual ones claim what they like. */
static double read_speed(struct ri_nics *nics, const char *name)
{
    long long mbps = ri_nics_number(nics, -1, FOLDER "/%s/speed", name);

    return mbps > 0 && mbps < 100000000 ? (double)mbps / 8000 : 0;
}

/* What an interface knows that its RDMA port does not. */
static void merge(struct ri_nics *nics, const char *name, struct ri_nic_port *port)
{
    long long mtu = ri_nics_number(nics, 0, FOLDER "/%s/mtu", name);

    port->nic.mtu = mtu > 0 && mtu < INT32_MAX ? (int32_t)mtu : 0;
    if (port->nic.gbps == 0 && port->nic.state != RI_TOPO_DOWN)
        port->nic.gbps = read_speed(nics, name);
    read_master(nics, name, port);
    if (port->nic.layer == RI_TOPO_ETHERNET)
        read_subnet(nics, port->gid_netdev[0] ? port->gid_netdev : name, port->nic.subnet);
}

/* The other end of a virtual function, within the switch of an adapter: "pf0vf1". */
static int is_representor(struct ri_nics *nics, const char *name)
{
    char port[32];

    ri_nics_text(nics, port, sizeof(port), FOLDER "/%s/phys_port_name", name);
    return strstr(port, "pf") && (strstr(port, "vf") || strstr(port, "sf"));
}

static void read_bond(struct ri_nics *nics, const char *name, struct ri_nic_port *port)
{
    char mode[32];

    ri_nics_text(nics, port->members, sizeof(port->members), FOLDER "/%s/bonding/slaves", name);
    ri_nics_text(nics, mode, sizeof(mode), FOLDER "/%s/bonding/mode", name);
    port->is_spare = strncmp(mode, "active-backup", 13) == 0;
}

static void set_layer(struct ri_topo_nic *nic, long long type)
{
    nic->layer = type == TYPE_ETHERNET     ? RI_TOPO_ETHERNET
                 : type == TYPE_INFINIBAND ? RI_TOPO_INFINIBAND
                                           : RI_TOPO_LAYER_UNKNOWN;
    nic->is_loopback = type == TYPE_LOOPBACK;
}

/* A port without RDMA. */
static void read_interface(struct ri_nics *nics, const char *name, long long type)
{
    struct ri_nic_port made, *port = &made;
    char path[128];

    memset(port, 0, sizeof(*port));
    port->object = -1;
    port->nic.gid_index = -1;
    snprintf(port->name, sizeof(port->name), "%s", name);
    snprintf(port->nic.netdev, sizeof(port->nic.netdev), "%s", name);
    set_layer(&port->nic, type);
    snprintf(path, sizeof(path), FOLDER "/%s/device", name);
    port->nic.is_virtual = ri_pci_read(nics->source, path, &port->pci) != 0 || port->pci.is_virtual ||
                           (type != TYPE_ETHERNET && type != TYPE_INFINIBAND) || strchr(name, '.') ||
                           is_representor(nics, name);
    snprintf(port->nic.card, sizeof(port->nic.card), "%.39s", port->pci.card[0] ? port->pci.card : name);
    read_bond(nics, name, port);
    judge(nics, name, &port->nic);
    /* One without any device, and down, is nobody's. */
    if (!port->pci.path[0] && port->nic.state == RI_TOPO_DOWN && !port->members[0])
        return;
    merge(nics, name, port);
    if (port->nic.is_virtual && !port->members[0] && !port->pci.is_virtual)
        port->nic.gbps = 0;
    port = ri_nics_add(nics);
    if (port)
        *port = made;
}

/* Adds what an interface says to the RDMA ports that it is of, else it is a port of its own. */
static void read_one(struct ri_nics *nics, const char *name)
{
    long long type = ri_nics_number(nics, -1, FOLDER "/%s/type", name);
    int with_rdma = 0;

    if (type < 0) /* no interface: bonding_masters */
        return;
    for (int i = 0; i < nics->count; i++)
        if (nics->ports[i].nic.device[0] && strcmp(nics->ports[i].nic.netdev, name) == 0) {
            merge(nics, name, &nics->ports[i]);
            with_rdma = 1;
        }
    if (!with_rdma)
        read_interface(nics, name, type);
}

/* Of all interfaces first: the addresses of an RDMA port may be those of a VLAN that comes later. */
static void note_all_addresses(struct ri_nics *nics, const char *names)
{
    struct ifaddrs *all = NULL;
    char name[IF_NAMESIZE];

    if (!ri_source_is_live(nics->source) || getifaddrs(&all))
        return;
    for (; *names; names += strcspn(names, "\n"), names += *names == '\n')
        if (strcspn(names, "\n") < sizeof(name)) {
            snprintf(name, sizeof(name), "%.*s", (int)strcspn(names, "\n"), names);
            note_addresses(nics, all, name);
        }
    freeifaddrs(all);
}

void ri_netdev_read(struct ri_nics *nics)
{
    char *names = ri_source_list(nics->source, FOLDER), *rest, *name;

    if (names)
        note_all_addresses(nics, names);
    for (name = names ? strtok_r(names, "\n", &rest) : NULL; name; name = strtok_r(NULL, "\n", &rest))
        if (strlen(name) < IF_NAMESIZE)
            read_one(nics, name);
    free(names);
}
