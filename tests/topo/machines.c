/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "tests/topo/machines.h"

static int32_t link_of(struct ri_topo *topo, int32_t object, double gbps)
{
    topo->objects[object].link_gbps = gbps;
    return object;
}

int32_t machine_nic(struct ri_topo *topo, int32_t parent)
{
    int k = ri_topo_count(topo, ri_topo_host_of(topo, parent), RI_TOPO_NIC);
    int32_t nic = link_of(topo, ri_topo_add(topo, RI_TOPO_NIC, parent, k), 24);
    struct ri_topo_object *object = &topo->objects[nic];

    snprintf(object->name, sizeof(object->name), "mlx5_%d", k);
    snprintf(object->nic.device, sizeof(object->nic.device), "mlx5_%d", k);
    snprintf(object->nic.card, sizeof(object->nic.card), "card%d", k);
    object->nic.port = 1;
    object->nic.gbps = 25;
    return nic;
}

struct ri_topo *machine_add(struct ri_topo *topo, int numas, int switches, int gpus, int nics, int32_t *host_p)
{
    int32_t host;
    int gpu = 0;

    topo = topo ? topo : ri_topo_create();
    host = ri_topo_add(topo, RI_TOPO_HOST, -1, ri_topo_hosts(topo));
    snprintf(topo->objects[host].name, sizeof(topo->objects[host].name), "node%d", (int)topo->objects[host].number);
    for (int n = 0; n < numas; n++) {
        int32_t package = ri_topo_add(topo, RI_TOPO_PACKAGE, host, n);
        int32_t numa = ri_topo_add(topo, RI_TOPO_NUMA, package, n);

        for (int s = 0; s < switches; s++) {
            int32_t root = ri_topo_add(topo, RI_TOPO_ROOT, numa, n * switches + s);
            int32_t bridge = link_of(topo, ri_topo_add(topo, RI_TOPO_BRIDGE, root, -1), 24);

            for (int g = 0; g < gpus; g++)
                link_of(topo, ri_topo_add(topo, RI_TOPO_GPU, bridge, gpu++), 24);
            for (int k = 0; k < nics; k++)
                machine_nic(topo, bridge);
        }
    }
    if (host_p)
        *host_p = host;
    return topo;
}

void machine_nvlinks(struct ri_topo *topo, int32_t host, int count)
{
    int gpus = ri_topo_count(topo, host, RI_TOPO_GPU);

    for (int a = 0; a < gpus; a++)
        for (int b = a + 1; b < gpus; b++)
            ri_topo_link(topo, ri_topo_find(topo, host, RI_TOPO_GPU, a), ri_topo_find(topo, host, RI_TOPO_GPU, b),
                         RI_TOPO_NVLINK, count, 25.0 * count);
}

const char *machine_nics_text(const struct ri_topo *topo)
{
    static char text[4096];
    size_t at = 0;

    text[0] = 0;
    for (int r = 0; r < topo->rank_count && at < sizeof(text) - 80; r++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", r ? " " : "",
                               topo->ranks[r].nic < 0 ? "-" : topo->objects[topo->ranks[r].nic].name);
    return text;
}

const char *machine_numbers_text(const int32_t *numbers, int count)
{
    static char text[4096];
    size_t at = 0;

    text[0] = 0;
    for (int i = 0; i < count && at < sizeof(text) - 16; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%d", i ? " " : "", (int)numbers[i]);
    return text;
}
