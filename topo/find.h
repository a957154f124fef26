/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_FIND_H
#define RI_FIND_H

#include <stdint.h>

/* The steps of a discovery, which live.c calls: hwloc or /sys gives one host with its packages, NUMA nodes,
 * bridges and the devices that hwloc knows; then the NICs and the GPUs are filled in, and bridges folded.  Each
 * matches what is there by PCI id and name before it appends; what cannot be read is a notice. */

struct ri_topo;
struct ri_source;

/* hwloc.c: a tree of one host as hwloc sees it.  RONDO_ERR_UNSUPPORTED without hwloc, or where the recording has
 * nothing of it; RONDO_ERR_SYSTEM when hwloc fails. */
int ri_topo_from_hwloc(struct ri_source *source, struct ri_topo **topo);
/* sys.c: the same with what /sys tells without any library: packages, NUMA nodes and processors. */
int ri_topo_from_sys(struct ri_source *source, struct ri_topo **topo);
/* limits.c: which processors of the host are allowed to us, and notices of what cgroups take away.  Keeps for
 * others, as notes: "limits/cpus" (a list), "limits/shm", "limits/shm_free" (bytes of /dev/shm) and
 * "limits/memlock" (bytes; -1: no limit). */
void ri_topo_add_limits(struct ri_source *source, struct ri_topo *topo, int32_t host);
/* What cgroups leave of processors and bytes of memory, 0: all of them; and what the machine has, 0: unknown. */
struct ri_topo_group_limits {
    double processors, memory_bytes, machine_bytes;
};
void ri_topo_read_group_limits(struct ri_source *source, struct ri_topo_group_limits *out);
/* fold.c: takes out bridges that one device or none is below of, root ports and ports of switches, so that what
 * is left of a PCIe switch is one bridge.  What is below takes the narrower of both links. */
int ri_topo_fold_bridges(struct ri_topo *topo);

/* nic.c: ports of RDMA and network devices: state, rate, link layer, addresses. */
void ri_topo_add_nics(struct ri_source *source, struct ri_topo *topo, int32_t host);
/* gpu.c: models, UUIDs, memory and links of GPUs. */
void ri_topo_add_gpus(struct ri_source *source, struct ri_topo *topo, int32_t host);

#endif
