/* SPDX-License-Identifier: Apache-2.0 */
/* Whether ranks may be held to the NICs that they were assigned. */
#include <stdlib.h>
#include <string.h>

#include "topo/topo.h"

enum { NETWORKS_MAX = 64 };

/* The networks of the NICs that are used. */
struct networks {
    const char *subnet[NETWORKS_MAX];
    int count;
};

/* Its number; -1: there are too many. */
static int number_of(struct networks *networks, const char *subnet)
{
    int n = 0;

    while (n < networks->count && strcmp(networks->subnet[n], subnet) != 0)
        n++;
    if (n == NETWORKS_MAX)
        return -1;
    if (n == networks->count)
        networks->subnet[networks->count++] = subnet;
    return n;
}

/* Is everybody's NIC of one kind: RDMA of one link layer, or not RDMA? */
static int are_of_one_kind(const struct ri_topo *topo)
{
    const struct ri_topo_nic *first = NULL;

    for (int r = 0; r < topo->rank_count; r++) {
        const struct ri_topo_nic *nic = topo->ranks[r].nic < 0 ? NULL : &topo->objects[topo->ranks[r].nic].nic;

        first = first ? first : nic;
        if (!nic || !nic->device[0] != !first->device[0] || (nic->device[0] && nic->layer != first->layer))
            return 0;
    }
    return topo->rank_count > 0;
}

/* on: [objects] of each host a bit for each network that its ranks use. */
static int note_networks(const struct ri_topo *topo, struct networks *networks, uint64_t *on)
{
    for (int r = 0; r < topo->rank_count; r++) {
        int n = number_of(networks, topo->objects[topo->ranks[r].nic].nic.subnet);

        if (n < 0)
            return 0;
        on[ri_topo_host_of(topo, topo->ranks[r].object)] |= (uint64_t)1 << n;
    }
    return 1;
}

/* Packets leave by the interface of their destination's network, so hosts have to be on all that are used. */
static int hosts_are_on_all(const struct ri_topo *topo, const struct networks *networks, const uint64_t *on)
{
    uint64_t all = 0;

    for (int n = 0; n < networks->count; n++) {
        if (!networks->subnet[n][0])
            return 0;
        all |= (uint64_t)1 << n;
    }
    for (int32_t i = 0; i < topo->object_count; i++)
        if (on[i] && on[i] != all)
            return 0;
    return 1;
}

int ri_topo_nics_reach(const struct ri_topo *topo)
{
    struct networks networks = { .count = 0 };
    uint64_t *on;
    int reach;

    if (!are_of_one_kind(topo))
        return 0;
    on = calloc((size_t)topo->object_count, sizeof(*on));
    if (!on)
        return 0;
    reach = note_networks(topo, &networks, on);
    if (reach && topo->objects[topo->ranks[0].nic].nic.device[0])
        reach = networks.count == 1;
    else if (reach)
        reach = hosts_are_on_all(topo, &networks, on);
    free(on);
    return reach;
}
