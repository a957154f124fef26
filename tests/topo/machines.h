/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_TOPO_MACHINES_H
#define TESTS_TOPO_MACHINES_H

#include "topo/topo.h"

/* Trees made by hand, for tests of costs and orders. */

/* A host with `numas` NUMA nodes, each a package of its own, and below each `switches` PCI switches, each with
 * `gpus` GPUs and `nics` RDMA ports of 25 GB/s on a card each.  Links are PCIe Gen4 x16, 24 GB/s.  Appended
 * to topo, or a new one for NULL.  Returns the host in *host where that is wanted. */
struct ri_topo *machine_add(struct ri_topo *topo, int numas, int switches, int gpus, int nics, int32_t *host);

/* All GPUs of a host with all others of it, `count` links of 25 GB/s. */
void machine_nvlinks(struct ri_topo *topo, int32_t host, int count);

/* An RDMA port mlx5_K of 25 GB/s, the K-th NIC of its host, on a card of its own. */
int32_t machine_nic(struct ri_topo *topo, int32_t parent);

/* Names of NICs by rank, "mlx5_0 mlx5_0 mlx5_1"; "-" for none. */
const char *machine_nics_text(const struct ri_topo *topo);
/* Numbers, "0 1 2". */
const char *machine_numbers_text(const int32_t *numbers, int count);

#endif
