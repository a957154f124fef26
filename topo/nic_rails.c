/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "topo/nic.h"

/* How many of those chosen are of the same adapter. */
static int same_card(const struct ri_topo *topo, const int32_t *nics, int count, const struct ri_topo_nic *nic)
{
    int same = 0;

    for (int i = 0; i < count; i++)
        same += nic->card[0] && strcmp(topo->objects[nics[i]].nic.card, nic->card) == 0;
    return same;
}

static int is_among(const int32_t *nics, int count, int32_t object)
{
    for (int i = 0; i < count; i++)
        if (nics[i] == object)
            return 1;
    return 0;
}

/* The best NIC beside those chosen; -1: there is none. */
static int32_t next_rail(const struct ri_topo *topo, int32_t host, const int32_t *nics, int count)
{
    int32_t best = -1;
    int best_same = 0;

    for (int32_t i = host + 1; i < topo->object_count && topo->objects[i].kind != RI_TOPO_HOST; i++) {
        int same;

        if (topo->objects[i].kind != RI_TOPO_NIC || is_among(nics, count, i) || !ri_topo_nic_is_used(topo, i, NULL))
            continue;
        same = same_card(topo, nics, count, &topo->objects[i].nic);
        if (best < 0 || same < best_same ||
            (same == best_same && ri_topo_nic_gbps(topo, i) > ri_topo_nic_gbps(topo, best))) {
            best = i;
            best_same = same;
        }
    }
    return best;
}

int ri_topo_pick_rails(const struct ri_topo *topo, int32_t host, int most, int32_t *nics)
{
    int count = 0;

    while (count < most) {
        int32_t next = next_rail(topo, host, nics, count);

        if (next < 0)
            break;
        nics[count++] = next;
    }
    return count;
}

#define LEAST_MEMLOCK (64LL << 20) /* below it, no adapter registers buffers of use */

void ri_topo_memlock_text(int64_t limit_bytes, int fabric_is_asked, char *text, size_t bytes)
{
    text[0] = 0;
    if (!fabric_is_asked || limit_bytes < 0 || limit_bytes >= LEAST_MEMLOCK)
        return;
    snprintf(text, bytes,
             "limit of locked memory (ulimit -l) is %lld KiB: adapters cannot register buffers; set it to unlimited "
             "(/etc/security/limits.conf: * - memlock unlimited; a container: --ulimit memlock=-1)",
             (long long)(limit_bytes / 1024));
}
