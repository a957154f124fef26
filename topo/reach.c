/* SPDX-License-Identifier: Apache-2.0 */
/* Whether ranks may be held to the NICs that they were assigned. */
#include <string.h>

#include "topo/topo.h"

static const struct ri_topo_nic *nic_of(const struct ri_topo *topo, int rank)
{
    return topo->ranks[rank].nic < 0 ? NULL : &topo->objects[topo->ranks[rank].nic].nic;
}

static int is_rdma(const struct ri_topo_nic *nic)
{
    return nic->device[0] != '\0';
}

/* Does a rank of this host use a NIC of this network? */
static int host_is_on(const struct ri_topo *topo, int32_t host, const struct ri_topo_nic *like)
{
    for (int r = 0; r < topo->rank_count; r++) {
        const struct ri_topo_nic *nic = nic_of(topo, r);

        if (ri_topo_host_of(topo, topo->ranks[r].object) == host && nic &&
            strcmp(nic->subnet, like->subnet) == 0)
            return 1;
    }
    return 0;
}

int ri_topo_nics_reach(const struct ri_topo *topo)
{
    int32_t host;

    for (int r = 0; r < topo->rank_count; r++) {
        const struct ri_topo_nic *nic = nic_of(topo, r), *first = nic_of(topo, 0);

        if (!nic || is_rdma(nic) != is_rdma(first) || (is_rdma(nic) && nic->layer != first->layer))
            return 0;
        if (is_rdma(nic))
            continue;
        if (!nic->subnet[0])
            return 0;
        for (int h = 0; (host = ri_topo_find(topo, -1, RI_TOPO_HOST, h)) >= 0; h++)
            if (!host_is_on(topo, host, nic))
                return 0;
    }
    return topo->rank_count > 0;
}
