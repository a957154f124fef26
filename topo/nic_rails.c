/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "topo/nic.h"

/* 0: never; else the more the better. */
static int worth(const struct ri_topo_nic *nic)
{
    if (nic->is_loopback || nic->unusable[0])
        return 0;
    return 1 + 2 * !nic->is_virtual + (nic->port > 0);
}

static double fastest(const struct ri_topo *topo, int32_t host)
{
    double most = 0;

    for (int32_t i = host + 1; i < topo->object_count && topo->objects[i].kind != RI_TOPO_HOST; i++)
        if (topo->objects[i].kind == RI_TOPO_NIC && worth(&topo->objects[i].nic) >= 3 &&
            topo->objects[i].nic.gbps > most)
            most = topo->objects[i].nic.gbps;
    return most;
}

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

/* The best NIC beside those chosen that is as good as the first; -1: there is none.  One that is known to be much
 * slower than others, for management, would only hold them up. */
static int32_t next_rail(const struct ri_topo *topo, int32_t host, const int32_t *nics, int count)
{
    int32_t best = -1;
    double least = fastest(topo, host) / 2;
    int best_same = 0;

    for (int32_t i = host + 1; i < topo->object_count && topo->objects[i].kind != RI_TOPO_HOST; i++) {
        const struct ri_topo_nic *nic = &topo->objects[i].nic;
        int same, better;

        if (topo->objects[i].kind != RI_TOPO_NIC || worth(nic) == 0 || is_among(nics, count, i))
            continue;
        if (count > 0 && worth(nic) != worth(&topo->objects[nics[0]].nic))
            continue;
        if (nic->gbps > 0 && nic->gbps < least)
            continue;
        same = same_card(topo, nics, count, nic);
        better = best < 0 || worth(nic) > worth(&topo->objects[best].nic) ||
                 (worth(nic) == worth(&topo->objects[best].nic) &&
                  (same < best_same || (same == best_same && nic->gbps > topo->objects[best].nic.gbps)));
        if (better) {
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
