/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_HWLOC_BUILD_H
#define RI_HWLOC_BUILD_H

#include <hwloc.h>

#include "topo/topo.h"

/* One host out of what hwloc has loaded, in steps that hwloc.c calls in this order. */

/* A PCI function of interest, or a device of the operating system that hwloc knows no PCI function of. */
struct ri_hwloc_device {
    hwloc_obj_t object;
    int32_t parent; /* in the tree */
};

struct ri_hwloc_build {
    hwloc_topology_t hwloc; /* userdata of its objects: index in topo, plus 1 */
    struct ri_topo *topo;
    int32_t host;
    int is_flat; /* its packages and NUMA nodes contradict each other, and are left out */
    struct ri_hwloc_device *devices; /* [device_count], in order of hwloc */
    int device_count;
};

/* hwloc_places.c: the host with packages and NUMA nodes. */
void ri_hwloc_places(struct ri_hwloc_build *build);
/* hwloc_places.c: roots and bridges above GPUs and NICs, which are collected in devices. */
void ri_hwloc_bridges(struct ri_hwloc_build *build);
/* hwloc_gpus.c: GPUs, each card once, and the links between them. */
void ri_hwloc_gpus(struct ri_hwloc_build *build);
/* hwloc_nics.c */
void ri_hwloc_nics(struct ri_hwloc_build *build);

/* Is a device below which these hang, or which is this itself, a GPU, a NIC? */
int ri_hwloc_is_gpu(hwloc_obj_t device);
int ri_hwloc_is_nic(hwloc_obj_t device);

/* The k-th operating system device that belongs to a device; one without PCI function is its own.  NULL:
 * there are not so many. */
hwloc_obj_t ri_hwloc_part(hwloc_obj_t device, int k);
/* "0000:17:00.0"; "" without a PCI function. */
void ri_hwloc_pci_id(hwloc_obj_t device, char id[24]);
/* Of an object or "" */
const char *ri_hwloc_info(hwloc_obj_t object, const char *name);
/* Index in the tree; -1: it is not there. */
int32_t ri_hwloc_index(hwloc_obj_t object);
void ri_hwloc_set_index(hwloc_obj_t object, int32_t index);

#endif
