/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_NIC_H
#define RI_NIC_H

#include "topo/pci.h"
#include "topo/source.h"
#include "topo/topo.h"

/* The ports of network adapters, as they are collected before they go into a tree: rdma.c reads those of
 * InfiniBand and RoCE, netdev.c adds what their network interfaces say and the interfaces without RDMA, nic.c
 * places all. */

struct ri_nic_port {
    struct ri_topo_nic nic;
    struct ri_pci pci;  /* id "": no PCI function is known */
    char name[64];      /* "mlx5_0", "mlx5_0:2", "eth0" */
    char model[64];
    char gid_netdev[16]; /* the interface of the chosen GID, where it is another than nic.netdev (a VLAN) */
    char members[128];   /* of a bond: "eth0 eth1" */
    int is_spare;        /* of a bond: one member is used at a time */
    int32_t object;      /* -1: not in the tree yet */
};

struct ri_nics {
    struct ri_source *source;
    struct ri_nic_port *ports;
    int count;
    int no_memory;
    int unreadable;       /* how many files exist and could not be read */
    int why;              /* and the negative errno of the first of them */
    char first[256];
};

/* One more port, all unknown; NULL: no memory, which is kept.  Good until the next. */
struct ri_nic_port *ri_nics_add(struct ri_nics *nics);
/* A file; "" and a negative errno when it cannot be read, which is counted unless it is not there or has
 * nothing to say as things are. */
int ri_nics_text(struct ri_nics *nics, char *text, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
long long ri_nics_number(struct ri_nics *nics, long long fallback, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- rdma.c ---- */

void ri_rdma_read(struct ri_nics *nics);
/* "200 Gb/sec (4X HDR)" in GB/s; 0: it is none. */
double ri_rdma_rate(const char *text);
/* Says in nic->unusable why a port cannot be used, if so, by state, layer and LID.  phys_state as sysfs has it:
 * "2: Polling"; "": unknown. */
void ri_rdma_judge(struct ri_topo_nic *nic, const char *phys_state);

/* ---- netdev.c ---- */

void ri_netdev_read(struct ri_nics *nics);
/* The network of the first address that others can reach in "10.77.0.5/24\nfd00::1/64\n", IPv4 before IPv6:
 * "10.77.0.0/24"; "": there is none. */
void ri_netdev_subnet(const char *addresses, char subnet[48]);

/* ---- nic_rails.c ---- */

/* Up to `most` NICs of a host that are worth using (ri_topo_nic_is_used), for as many rails: one of every adapter
 * before the second port of any, and of those the fast before the slow, then in order of the tree.  Returns
 * how many. */
int ri_topo_pick_rails(const struct ri_topo *topo, int32_t host, int most, int32_t *nics);

/* What a limit on locked memory means for those who ask for a fabric, with the remedy; "" where it is no
 * trouble, or nobody asked.  limit_bytes -1: unlimited. */
void ri_topo_memlock_text(int64_t limit_bytes, int fabric_is_asked, char *text, size_t bytes);

#endif
