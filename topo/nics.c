/* SPDX-License-Identifier: Apache-2.0 */
/* Which NICs of a host are worth using, told in one place for assignment, costs and explanations. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/topo.h"

/* What a port of unknown rate is taken for: 10 Gbit/s Ethernet. */
static const double unknown_nic_gbps = 1.25;

int ri_topo_compare_names(const char *a, const char *b)
{
    while (*a && *b) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            char *a_end = NULL, *b_end = NULL;
            unsigned long long x = strtoull(a, &a_end, 10), y = strtoull(b, &b_end, 10);

            if (x != y)
                return x < y ? -1 : 1;
            a = a_end;
            b = b_end;
        } else {
            if (*a != *b)
                return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
            a++;
            b++;
        }
    }
    return (*a != 0) - (*b != 0);
}

double ri_topo_nic_gbps(const struct ri_topo *topo, int32_t nic)
{
    double gbps = topo->objects[nic].nic.gbps;

    return gbps > 0 ? gbps : unknown_nic_gbps;
}

/* The next NIC of a host after object `at`; -1: none. */
static int32_t next_nic(const struct ri_topo *topo, int32_t at)
{
    while (++at < topo->object_count && topo->objects[at].kind != RI_TOPO_HOST)
        if (topo->objects[at].kind == RI_TOPO_NIC)
            return at;
    return -1;
}

/* The NIC that is the bond of this name; -1: none. */
static int32_t find_bond(const struct ri_topo *topo, int32_t host, const char *name)
{
    int32_t nic = next_nic(topo, host);

    while (nic >= 0 && strcmp(topo->objects[nic].nic.netdev, name) != 0)
        nic = next_nic(topo, nic);
    return nic;
}

/* A bond has hardware behind it: its members. */
static int has_members(const struct ri_topo *topo, int32_t host, const char *netdev)
{
    for (int32_t nic = next_nic(topo, host); *netdev && nic >= 0; nic = next_nic(topo, nic))
        if (strcmp(topo->objects[nic].nic.bond, netdev) == 0)
            return 1;
    return 0;
}

/* Higher is better; 0: never.  A container's virtual function with RDMA goes before the Ethernet of its host. */
enum { NEVER, VIRTUAL_ETHERNET, ETHERNET, VIRTUAL_RDMA, RDMA };

static int class_of(const struct ri_topo *topo, int32_t host, int32_t at)
{
    const struct ri_topo_nic *nic = &topo->objects[at].nic;
    int is_virtual = nic->is_virtual && !has_members(topo, host, nic->netdev);

    if (nic->unusable[0] || nic->is_loopback || (nic->bond[0] && find_bond(topo, host, nic->bond) >= 0))
        return NEVER;
    if (nic->port > 0)
        return is_virtual ? VIRTUAL_RDMA : RDMA;
    return is_virtual ? VIRTUAL_ETHERNET : ETHERNET;
}

/* Takes a NIC for the best where it is of a better class, or of the same and faster.  What could not be is not looked
 * at closely: hosts of containers have hundreds of virtual interfaces, each of which is looked for in bonds. */
static void take_better(const struct ri_topo *topo, int32_t host, int32_t nic, int32_t *best, int *best_class)
{
    int most = topo->objects[nic].nic.port > 0 ? RDMA : ETHERNET, class;
    int is_faster = *best < 0 || ri_topo_nic_gbps(topo, nic) > ri_topo_nic_gbps(topo, *best);

    if (most < *best_class || (most == *best_class && !is_faster))
        return;
    class = class_of(topo, host, nic);
    if (class > *best_class || (class == *best_class && class != NEVER && is_faster)) {
        *best = nic;
        *best_class = class;
    }
}

/* The best class of a host, and the fastest of its NICs; -1: none. */
static int32_t best_of(const struct ri_topo *topo, int32_t host, int *best_class)
{
    int32_t best = -1;

    *best_class = NEVER;
    for (int is_virtual = 0; is_virtual < 2; is_virtual++)
        for (int32_t nic = next_nic(topo, host); nic >= 0; nic = next_nic(topo, nic))
            if ((topo->objects[nic].nic.is_virtual != 0) == is_virtual)
                take_better(topo, host, nic, &best, best_class);
    return best;
}

static void say_never(const struct ri_topo_nic *nic, char why[96])
{
    if (nic->unusable[0])
        snprintf(why, 96, "%s", nic->unusable);
    else if (nic->is_loopback)
        snprintf(why, 96, "loopback");
    else
        snprintf(why, 96, "a member of %s", nic->bond);
}

static void say_other(const struct ri_topo *topo, int class, int32_t nic, int32_t best, int best_class, char why[96])
{
    const char *name = topo->objects[best].name;

    if (class == best_class)
        snprintf(why, 96, "%.4g GB/s, less than half of %.40s", ri_topo_nic_gbps(topo, nic), name);
    else if (class == VIRTUAL_RDMA || (class == VIRTUAL_ETHERNET && best_class != VIRTUAL_RDMA))
        snprintf(why, 96, "virtual, while %.40s is hardware", name);
    else
        snprintf(why, 96, "%sEthernet, while %.40s has RDMA", class == ETHERNET ? "plain " : "virtual ", name);
}

/* What all NICs of a host are measured by. */
struct bar {
    int32_t host, best;
    int best_class;
};

static struct bar bar_of(const struct ri_topo *topo, int32_t host)
{
    struct bar bar = { .host = host };

    bar.best = best_of(topo, host, &bar.best_class);
    return bar;
}

static int reaches(const struct ri_topo *topo, const struct bar *bar, int32_t nic, int class)
{
    return class != NEVER && class == bar->best_class &&
           2 * ri_topo_nic_gbps(topo, nic) >= ri_topo_nic_gbps(topo, bar->best);
}

int ri_topo_nic_is_used(const struct ri_topo *topo, int32_t nic, char why[96])
{
    char nowhere[96];
    struct bar bar = bar_of(topo, ri_topo_host_of(topo, nic));
    int class = class_of(topo, bar.host, nic);

    why = why ? why : nowhere;
    why[0] = 0;
    if (reaches(topo, &bar, nic, class))
        return 1;
    if (class == NEVER)
        say_never(&topo->objects[nic].nic, why);
    else
        say_other(topo, class, nic, bar.best, bar.best_class, why);
    return 0;
}

int ri_topo_used_nics(const struct ri_topo *topo, int32_t host, uint8_t *used)
{
    struct bar bar = bar_of(topo, host);
    int count = 0;

    for (int32_t nic = next_nic(topo, host); nic >= 0; nic = next_nic(topo, nic)) {
        if (!reaches(topo, &bar, nic, class_of(topo, host, nic)))
            continue;
        count++;
        if (used)
            used[nic] = 1;
    }
    return count;
}

/* Is path a, over a NIC of this rate, better than b? */
static int is_nearer(const struct ri_topo *topo, int32_t a, const struct ri_topo_path *a_path, int32_t b,
                     const struct ri_topo_path *b_path)
{
    double a_gbps = ri_topo_nic_gbps(topo, a), b_gbps = ri_topo_nic_gbps(topo, b);

    a_gbps = a_gbps < a_path->gbps ? a_gbps : a_path->gbps;
    b_gbps = b_gbps < b_path->gbps ? b_gbps : b_path->gbps;
    if (a_path->level != b_path->level)
        return a_path->level < b_path->level;
    if (a_gbps != b_gbps)
        return a_gbps > b_gbps;
    return ri_topo_compare_names(topo->objects[a].name, topo->objects[b].name) < 0;
}

int32_t ri_topo_nearest_nic(const struct ri_topo *topo, int32_t object)
{
    struct bar bar = bar_of(topo, ri_topo_host_of(topo, object));
    struct ri_topo_path best_path = { .level = RI_TOPO_NET }, path;
    int32_t best = -1;

    for (int32_t nic = next_nic(topo, bar.host); nic >= 0; nic = next_nic(topo, nic)) {
        if (!reaches(topo, &bar, nic, class_of(topo, bar.host, nic)))
            continue;
        ri_topo_path(topo, object, nic, &path);
        if (best < 0 || is_nearer(topo, nic, &path, best, &best_path)) {
            best = nic;
            best_path = path;
        }
    }
    return best;
}
