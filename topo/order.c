/* SPDX-License-Identifier: Apache-2.0 */
/* In which order ranks stand in rings, and with whom in groups. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/minmax.h"
#include "base/status.h"
#include "topo/puzzle.h"
#include "topo/topo.h"

static int32_t host_of(const struct ri_topo *topo, int r)
{
    return ri_topo_host_of(topo, topo->ranks[r].object);
}

/* Is r the first rank of its host? */
static int leads_host(const struct ri_topo *topo, int r)
{
    for (int before = 0; before < r; before++)
        if (host_of(topo, before) == host_of(topo, r))
            return 0;
    return 1;
}

/* ---- one host at a time ---- */

/* The ranks of a host, and what it is worth to have two of them side by side. */
struct crew {
    int32_t *host;   /* [ranks] of each rank */
    uint8_t *leads;  /* [ranks] 1: the first of its host */
    int32_t *ranks;  /* [count], rising */
    int32_t *answer; /* [count] */
    int64_t *weight; /* [count][count] */
    int count;
};

static void crew_release(struct crew *crew)
{
    free(crew->host);
    free(crew->leads);
    free(crew->ranks);
    free(crew->answer);
    free(crew->weight);
    *crew = (struct crew){ 0 };
}

/* A hop is worth its bandwidth in MB/s times WORTH_STEP; what latency takes off, in ns, is less than that step.
 * Descriptions may say anything, so both are capped well above what is inside hosts. */
enum { WORTH_STEP = 1000000, MOST_GBPS = 100000, MOST_LATENCY_US = 100 };

/* Puzzles add up a hop for every rank at most, and two more where they compare. */
_Static_assert((MOST_GBPS * INT64_C(1000) + 1) * WORTH_STEP < INT64_MAX / (RI_RANKS_MAX + 2),
               "sums of hops fit in 64 bits");

/* Bandwidth counts first; among equals, latency.  Whole numbers add up to the same on every machine. */
static int64_t worth_of_hop(const struct ri_topo *topo, int a, int b)
{
    struct ri_topo_path path;
    double gbps, latency_us;

    ri_topo_rank_path(topo, a, b, &path);
    gbps = path.gbps < MOST_GBPS ? path.gbps : MOST_GBPS;
    latency_us = path.latency_us < MOST_LATENCY_US ? path.latency_us : MOST_LATENCY_US;
    return (int64_t)(gbps * 1000 + 0.5) * WORTH_STEP + WORTH_STEP - (int64_t)(latency_us * 1000 + 0.5);
}

/* Which host each rank is on, which ranks are the first of theirs, and how many the most of one are. */
static int crew_hosts(struct crew *crew, const struct ri_topo *topo, size_t *most)
{
    int32_t *counts = calloc((size_t)topo->object_count + 1, sizeof(*counts));
    int good;

    crew->host = calloc((size_t)topo->rank_count + 1, sizeof(*crew->host));
    crew->leads = calloc((size_t)topo->rank_count + 1, sizeof(*crew->leads));
    *most = 1;
    good = counts && crew->host && crew->leads;
    for (int r = 0; good && r < topo->rank_count; r++) {
        crew->host[r] = host_of(topo, r);
        crew->leads[r] = counts[crew->host[r]]++ == 0;
        if ((size_t)counts[crew->host[r]] > *most)
            *most = (size_t)counts[crew->host[r]];
    }
    free(counts);
    return good;
}

/* Room for all ranks; filled host by host. */
static int crew_init(struct crew *crew, const struct ri_topo *topo)
{
    size_t most;

    *crew = (struct crew){ 0 };
    if (crew_hosts(crew, topo, &most)) {
        crew->ranks = calloc(most, sizeof(*crew->ranks));
        crew->answer = calloc(most, sizeof(*crew->answer));
        crew->weight = calloc(most * most, sizeof(*crew->weight));
        if (crew->ranks && crew->answer && crew->weight)
            return 0;
    }
    crew_release(crew);
    return ri_error(RONDO_ERR_MEMORY, "no memory to order %d ranks", (int)topo->rank_count);
}

static void crew_of_host(struct crew *crew, const struct ri_topo *topo, int first)
{
    crew->count = 0;
    for (int r = first; r < topo->rank_count; r++)
        if (crew->host[r] == crew->host[first])
            crew->ranks[crew->count++] = r;
    for (int a = 0; a < crew->count; a++)
        for (int b = 0; b < crew->count; b++)
            crew->weight[a * crew->count + b] = a == b ? 0 : worth_of_hop(topo, crew->ranks[a], crew->ranks[b]);
}

/* ---- rings ---- */

int ri_topo_ring(const struct ri_topo *topo, int32_t *order)
{
    struct crew crew;
    int err = crew_init(&crew, topo), at = 0;

    for (int r = 0; r < topo->rank_count && !err; r++) {
        if (!crew.leads[r])
            continue;
        crew_of_host(&crew, topo, r);
        err = ri_puzzle_cycle(crew.weight, crew.count, crew.answer);
        for (int i = 0; i < crew.count && !err; i++)
            order[at++] = crew.ranks[crew.answer[i]];
    }
    crew_release(&crew);
    return err;
}

/* ---- rails ---- */

static const char *subnet_of(const struct ri_topo *topo, int r)
{
    return topo->ranks[r].nic < 0 ? "" : topo->objects[topo->ranks[r].nic].nic.subnet;
}

/* How many subnets ranks of a host are in; 0 where one of them is in none. */
static int subnets_of_host(const struct ri_topo *topo, int first, const int32_t *leader)
{
    int count = 0;

    for (int r = first; r < topo->rank_count; r++) {
        int is_new = host_of(topo, r) == host_of(topo, first);

        if (is_new && !subnet_of(topo, r)[0])
            return 0;
        for (int before = first; before < r && is_new; before++)
            is_new = leader[before] != leader[r] || host_of(topo, before) != host_of(topo, first);
        count += is_new;
    }
    return count;
}

/* 0 where subnets do not tell rails: hosts have different ones, or only one. */
static int rails_by_subnet(const struct ri_topo *topo, int32_t *rail)
{
    int subnets = 0, rails = 0;

    for (int r = 0; r < topo->rank_count; r++) {
        rail[r] = 0;
        while (strcmp(subnet_of(topo, rail[r]), subnet_of(topo, r)) != 0)
            rail[r]++;
        subnets += rail[r] == r;
    }
    for (int r = 0; r < topo->rank_count; r++)
        if (leads_host(topo, r) && subnets_of_host(topo, r, rail) != subnets)
            return 0;
    if (subnets < 2)
        return 0;
    /* From the first rank of each subnet to numbers in order of these. */
    for (int r = 0; r < topo->rank_count; r++)
        rail[r] = rail[r] == r ? rails++ : rail[rail[r]];
    return rails;
}

static int is_in_use(const struct ri_topo *topo, int32_t nic)
{
    for (int r = 0; r < topo->rank_count; r++)
        if (topo->ranks[r].nic == nic)
            return 1;
    return 0;
}

/* How many NICs of a host are in use; with a name, of those before it. */
static int nics_in_use(const struct ri_topo *topo, int32_t host, const char *name)
{
    int count = 0;

    for (int32_t i = host + 1; i < topo->object_count && topo->objects[i].kind != RI_TOPO_HOST; i++)
        count += topo->objects[i].kind == RI_TOPO_NIC && is_in_use(topo, i) &&
                 (!name || ri_topo_compare_names(topo->objects[i].name, name) < 0);
    return count;
}

static int rails_by_place(const struct ri_topo *topo, int32_t *rail)
{
    int rails = 0;

    for (int r = 0; r < topo->rank_count; r++)
        if (leads_host(topo, r)) {
            int nics = ri_max(nics_in_use(topo, host_of(topo, r), NULL), 1);

            rails = rails ? ri_min(rails, nics) : nics;
        }
    for (int r = 0; r < topo->rank_count; r++) {
        int32_t nic = topo->ranks[r].nic;

        rail[r] = nic < 0 ? 0 : nics_in_use(topo, host_of(topo, r), topo->objects[nic].name) % rails;
    }
    return rails;
}

int ri_topo_rails(const struct ri_topo *topo, int32_t *rail)
{
    int rails = rails_by_subnet(topo, rail);

    return rails ? rails : rails_by_place(topo, rail);
}

/* ---- head groups ---- */

/* Numbers groups in order of their first ranks, from numbers that are equal within a group. */
static void number_groups(const struct ri_topo *topo, const int32_t *first, int32_t *group)
{
    int32_t groups = 0;

    for (int r = 0; r < topo->rank_count; r++)
        group[r] = first[r] == r ? groups++ : group[first[r]];
}

/* Marks groups of a crew by their first ranks; those who are left over get -1. */
static void mark_first(const struct crew *crew, int32_t *first)
{
    for (int i = 0; i < crew->count; i++) {
        int leader = 0;

        while (crew->answer[leader] != crew->answer[i])
            leader++;
        first[crew->ranks[i]] = crew->answer[i] < 0 ? -1 : crew->ranks[leader];
    }
}

static void close_group(const int32_t *members, int size, int32_t *first)
{
    int32_t lead = members[0];

    for (int i = 1; i < size; i++)
        lead = ri_min(lead, members[i]);
    for (int i = 0; i < size; i++)
        first[members[i]] = lead;
}

/* Those left over join up, host after host; members: room for a group. */
static void join_rest(const struct ri_topo *topo, int size, int32_t *first, int32_t *members)
{
    int count = 0;

    for (int lead = 0; lead < topo->rank_count; lead++) {
        if (!leads_host(topo, lead))
            continue;
        for (int r = lead; r < topo->rank_count; r++) {
            if (first[r] >= 0 || host_of(topo, r) != host_of(topo, lead))
                continue;
            members[count++] = r;
            if (count < size)
                continue;
            close_group(members, size, first);
            count = 0;
        }
    }
}

static int find_groups(const struct ri_topo *topo, int size, struct crew *crew, int32_t *first)
{
    int err = 0;

    for (int r = 0; r < topo->rank_count && !err; r++) {
        if (!leads_host(topo, r))
            continue;
        crew_of_host(crew, topo, r);
        err = ri_puzzle_groups(crew->weight, crew->count, size, crew->answer);
        if (!err)
            mark_first(crew, first);
    }
    return err;
}

int ri_topo_head_groups(const struct ri_topo *topo, int size, int32_t *group)
{
    struct crew crew;
    int32_t *first;
    int err;

    if (size < 1 || topo->rank_count % size)
        return ri_error(RONDO_ERR_ARGUMENT, "groups of %d do not divide %d ranks", size, (int)topo->rank_count);
    err = crew_init(&crew, topo);
    if (err)
        return err;
    first = calloc((size_t)topo->rank_count + (size_t)size, sizeof(*first));
    if (!first)
        err = ri_error(RONDO_ERR_MEMORY, "no memory to group %d ranks", (int)topo->rank_count);
    else
        err = find_groups(topo, size, &crew, first);
    if (!err) {
        join_rest(topo, size, first, first + topo->rank_count);
        number_groups(topo, first, group);
    }
    free(first);
    crew_release(&crew);
    return err ? err : topo->rank_count / size;
}

/* ---- lanes ---- */

/* The hops of a ring inside a host, which starts at order[at] and has `count` ranks. */
static void take_local(const struct ri_topo *topo, const int32_t *order, int at, int count,
                       struct ri_topo_lanes *lanes)
{
    for (int i = 0; i < count && count > 1; i++) {
        struct ri_topo_path path;

        ri_topo_rank_path(topo, order[at + i], order[at + (i + 1) % count], &path);
        if (lanes->local_gbps == 0 || path.gbps < lanes->local_gbps)
            lanes->local_gbps = path.gbps;
        if (path.latency_us > lanes->local_latency_us)
            lanes->local_latency_us = path.latency_us;
    }
}

/* What a rank could send to other hosts if its NIC were its own; 0: unknown. */
static double gbps_alone(const struct ri_topo *topo, int r)
{
    int32_t nic = topo->ranks[r].nic;
    struct ri_topo_path path;

    if (nic < 0 || topo->objects[nic].nic.gbps <= 0)
        return 0;
    ri_topo_path(topo, topo->ranks[r].object, nic, &path);
    return path.gbps < topo->objects[nic].nic.gbps ? path.gbps : topo->objects[nic].nic.gbps;
}

static void take_hosts(const struct ri_topo *topo, const int32_t *order, struct ri_topo_lanes *lanes)
{
    struct ri_topo_path path;

    ri_topo_rank_path(topo, order[0], order[topo->rank_count - 1], &path);
    lanes->host_latency_us = path.latency_us;
    lanes->host_gbps = gbps_alone(topo, 0);
    for (int r = 1; r < topo->rank_count; r++) {
        double gbps = gbps_alone(topo, r);

        lanes->host_gbps = gbps < lanes->host_gbps ? gbps : lanes->host_gbps;
    }
}

static void take_all(const struct ri_topo *topo, const int32_t *order, struct ri_topo_lanes *lanes)
{
    int count;

    *lanes = (struct ri_topo_lanes){ .ranks_per_nic = 1 };
    for (int r = 0; r < topo->rank_count; r++)
        lanes->ranks_per_nic = ri_max(lanes->ranks_per_nic, topo->ranks[r].nic_shares);
    for (int at = 0; at < topo->rank_count; at += count) {
        count = 1;
        while (at + count < topo->rank_count && host_of(topo, order[at + count]) == host_of(topo, order[at]))
            count++;
        take_local(topo, order, at, count, lanes);
    }
    if (topo->rank_count && host_of(topo, order[0]) != host_of(topo, order[topo->rank_count - 1]))
        take_hosts(topo, order, lanes);
}

int ri_topo_lanes(const struct ri_topo *topo, const int32_t *order, struct ri_topo_lanes *lanes)
{
    int32_t *made = NULL;
    int err = 0;

    if (!order) {
        made = calloc((size_t)topo->rank_count + 1, sizeof(*made));
        err = made ? ri_topo_ring(topo, made)
                   : ri_error(RONDO_ERR_MEMORY, "no memory to order %d ranks", (int)topo->rank_count);
        order = made;
    }
    if (!err)
        take_all(topo, order, lanes);
    free(made);
    return err;
}
