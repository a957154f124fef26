/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_KFD_H
#define RI_KFD_H

#include "topo/source.h"
#include "topo/topo.h"

/* Links between AMD's GPUs, XGMI, as the driver shows them in /sys/class/kfd/kfd/topology. */
void ri_kfd_add(struct ri_source *source, struct ri_topo *topo, int32_t host);

#endif
