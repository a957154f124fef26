/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_NCCL_LINKS_H
#define RI_NCCL_LINKS_H

#include "topo/topo.h"

/* Links of the GPUs of one host as NCCL tells them: by the PCI id of the other end, which may come later in the
 * file, and once by each end. */

enum { RI_NCCL_MAX_GPUS = 256 };

enum ri_nccl_end { RI_NCCL_TO_GPU, RI_NCCL_TO_SWITCH, RI_NCCL_TO_CPU };

struct ri_nccl_link {
    int32_t gpu;
    enum ri_nccl_end end;
    char target[24]; /* of a GPU */
    enum ri_topo_link_kind kind;
    int count;
    double gbps; /* of all of them; 0: unknown */
};

/* Adds them to the tree of the host.  Those that lead to nobody are a notice.  RONDO_ERR_MEMORY. */
int ri_nccl_links_resolve(struct ri_topo *topo, const struct ri_nccl_link *links, int count);

/* GB/s one way of one NVLink of a GPU of this compute capability (80), of one Infinity Fabric link of a GPU of this
 * gfx number (908; 910 for 90a); 0: unknown. */
double ri_nccl_nvlink_gbps(int64_t sm);
double ri_nccl_xgmi_gbps(int64_t gfx);

#endif
