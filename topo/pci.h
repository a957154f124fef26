/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_PCI_H
#define RI_PCI_H

#include "topo/source.h"
#include "topo/topo.h"

/* PCI functions as sysfs shows them, and where they hang in a tree. */

struct ri_pci {
    char id[24];    /* "0000:17:00.0" */
    char card[24];  /* "0000:17:00": of the physical function, where this is a virtual one */
    char path[512]; /* its folder: "/sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0" */
    int32_t numa;   /* as the system counts; -1: unknown */
    int is_virtual; /* a virtual function */
    double link_gbps, full_gbps; /* as it runs, and what the function could do; 0: unknown */
};

/* The function that the device at the end of a link is, or is part of ("/sys/class/net/eth0/device").  0, or a
 * negative errno where there is no such link; without a PCI function on the way, id is "". */
int ri_pci_read(struct ri_source *source, const char *link, struct ri_pci *pci);

/* Of a GPU, whose link sleeps at its lowest speed: what it and the port above could do with the lanes that it
 * has, and with all that it could have.  0: unknown. */
void ri_pci_busy_link(struct ri_source *source, const char *folder, double *link_gbps, double *full_gbps);

/* GB/s one way of "16.0 GT/s PCIe" and "8" lanes; 0: one of them is unknown. */
double ri_pci_gbps(const char *speed, const char *width);

/* The object of a kind with this id on a host; -1: none. */
int32_t ri_pci_find(const struct ri_topo *topo, int32_t host, enum ri_topo_kind kind, const char *id);

/* What the function hangs below: its bridges, which are appended where the host has none of that id, below
 * their root, below the NUMA node if the host has that one, else below the host. */
int32_t ri_pci_parent(struct ri_topo *topo, int32_t host, const struct ri_pci *pci);

#endif
