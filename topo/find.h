/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_FIND_H
#define RI_FIND_H

#include <stdint.h>

/* The steps of a discovery, called by live.c in this order: hwloc or /sys gives one host with its packages,
 * NUMA nodes, bridges and the devices that hwloc knows; then the NICs and the GPUs are filled in.  Each
 * matches what is there by PCI id and name before it appends; what cannot be read is a notice. */

struct ri_topo;
struct ri_source;

/* nic.c: ports of RDMA and network devices: state, rate, link layer, addresses. */
void ri_topo_add_nics(struct ri_source *source, struct ri_topo *topo, int32_t host);
/* gpu.c: models, UUIDs, memory and links of GPUs. */
void ri_topo_add_gpus(struct ri_source *source, struct ri_topo *topo, int32_t host);

#endif
