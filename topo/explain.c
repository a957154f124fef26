/* SPDX-License-Identifier: Apache-2.0 */
/* Why ranks stand in this order and use these NICs: a sentence a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/puzzle.h"
#include "topo/topo.h"

/* A run of the ring: the ranks of one host. */
struct part {
    const int32_t *ranks; /* [count] in the order of the ring */
    int count;
    int32_t host;
};

static int32_t host_of(const struct ri_topo *topo, int r)
{
    return ri_topo_host_of(topo, topo->ranks[r].object);
}

static const char *name_of(const struct ri_topo *topo, int32_t object)
{
    return topo->objects[object].name;
}

/* The part of the ring that starts at place `at`. */
static struct part part_at(const struct ri_topo *topo, const int32_t *order, int at)
{
    struct part part = { order + at, 1, host_of(topo, order[at]) };

    while (at + part.count < topo->rank_count && host_of(topo, order[at + part.count]) == part.host)
        part.count++;
    return part;
}

/* ---- hosts ---- */

/* How often a ring crosses hosts; order NULL: that of numbers. */
static int crossings(const struct ri_topo *topo, const int32_t *order)
{
    int n = topo->rank_count, count = 0;

    for (int i = 0; i < n; i++) {
        int next = (i + 1) % n;

        count += host_of(topo, order ? order[i] : i) != host_of(topo, order ? order[next] : next);
    }
    return count;
}

static void say_sizes(const struct ri_topo *topo, const int32_t *order, FILE *out)
{
    struct part part;

    fprintf(out, "hosts are uneven:");
    for (int at = 0; at < topo->rank_count; at += part.count) {
        part = part_at(topo, order, at);
        fprintf(out, "%s %s has %d", at ? "," : "", name_of(topo, part.host), part.count);
    }
    fprintf(out, "\n");
}

static void say_hosts(const struct ri_topo *topo, const int32_t *order, FILE *out)
{
    int hosts = 0, least = topo->rank_count, most = 0;
    struct part part;

    for (int at = 0; at < topo->rank_count; at += part.count) {
        part = part_at(topo, order, at);
        least = part.count < least ? part.count : least;
        most = part.count > most ? part.count : most;
        hosts++;
    }
    if (hosts == 1)
        fprintf(out, "all ranks are on %s: no hop crosses hosts\n", name_of(topo, host_of(topo, 0)));
    else if (most == 1)
        fprintf(out, "one rank on each of %d hosts: every hop crosses hosts, there are no rings inside them\n", hosts);
    else
        fprintf(out, "%d ranks on %d hosts: the ring crosses hosts %d times\n", topo->rank_count, hosts,
                crossings(topo, order));
    if (hosts > 1 && crossings(topo, NULL) > crossings(topo, order))
        fprintf(out, "ranks are dealt over hosts: in order of numbers a ring would cross them %d times\n",
                crossings(topo, NULL));
    if (least < most)
        say_sizes(topo, order, out);
}

/* ---- rings ---- */

struct ring_worth {
    int a, b; /* ends of the slowest hop */
    struct ri_topo_path path;
    double sum_gbps, sum_us;
};

static int is_slower(const struct ri_topo_path *a, const struct ri_topo_path *b)
{
    return a->gbps != b->gbps ? a->gbps < b->gbps : a->latency_us > b->latency_us;
}

static struct ring_worth weigh(const struct ri_topo *topo, const int32_t *ranks, int count)
{
    struct ring_worth worth = { 0 };

    for (int i = 0; i < count; i++) {
        int a = ranks[i], b = ranks[(i + 1) % count];
        struct ri_topo_path path;

        ri_topo_rank_path(topo, a, b, &path);
        worth.sum_gbps += path.gbps;
        worth.sum_us += path.latency_us;
        if (i == 0 || is_slower(&path, &worth.path)) {
            worth.path = path;
            worth.a = a < b ? a : b;
            worth.b = a < b ? b : a;
        }
    }
    return worth;
}

static void say_hop(const struct ring_worth *worth, FILE *out)
{
    char level[12];

    ri_topo_level_text(&worth->path, level);
    fprintf(out, "%d-%d over %s, %s%.4g GB/s", worth->a, worth->b, level, worth->path.is_usual ? "~" : "",
            worth->path.gbps);
}

/* How the order of numbers compares with the one that was taken; sorted: room for the ranks. */
static void say_instead(const struct ri_topo *topo, const struct part *part, const struct ring_worth *taken,
                        int32_t *sorted, FILE *out)
{
    struct ring_worth natural;
    int count = 0;

    for (int r = 0; r < topo->rank_count; r++)
        if (host_of(topo, r) == part->host)
            sorted[count++] = r;
    if (memcmp(sorted, part->ranks, (size_t)count * sizeof(*sorted)) == 0) {
        fprintf(out, "; %s\n", count > RI_PUZZLE_EXACT ? "no better order was found" : "no other order is better");
        return;
    }
    natural = weigh(topo, sorted, count);
    if (is_slower(&natural.path, &taken->path)) {
        fprintf(out, "; in order of numbers it would be ");
        say_hop(&natural, out);
    } else if (natural.sum_gbps != taken->sum_gbps) {
        fprintf(out, "; in order of numbers it is the same, but all hops have %.4g GB/s together, not %.4g",
                natural.sum_gbps, taken->sum_gbps);
    } else {
        fprintf(out, "; in order of numbers it is the same, but all hops take %.4g us together, not %.4g",
                natural.sum_us, taken->sum_us);
    }
    fprintf(out, "\n");
}

static void say_ring(const struct ri_topo *topo, const struct part *part, int32_t *sorted, FILE *out)
{
    struct ring_worth worth = weigh(topo, part->ranks, part->count);

    fprintf(out, "ring of %s:", name_of(topo, part->host));
    for (int i = 0; i < part->count; i++)
        fprintf(out, " %d", (int)part->ranks[i]);
    if (part->count == 1) {
        fprintf(out, ", alone\n");
        return;
    }
    fprintf(out, part->count == 2 ? ", hop " : ", slowest hop ");
    say_hop(&worth, out);
    if (part->count > 3)
        say_instead(topo, part, &worth, sorted, out);
    else
        fprintf(out, "\n");
}

/* ---- NICs ---- */

static int ranks_on(const struct ri_topo *topo, int32_t nic)
{
    int count = 0;

    for (int r = 0; r < topo->rank_count; r++)
        count += topo->ranks[r].nic == nic;
    return count;
}

/* Those that are as near as the one that rank r has. */
static void say_others(const struct ri_topo *topo, const uint8_t *used, int r, const struct ri_topo_path *taken,
                       FILE *out)
{
    int32_t host = host_of(topo, r);
    int others = 0, users;

    for (int32_t i = host + 1; i < topo->object_count && topo->objects[i].kind != RI_TOPO_HOST; i++) {
        struct ri_topo_path path;

        if (!used[i] || i == topo->ranks[r].nic)
            continue;
        ri_topo_path(topo, topo->ranks[r].object, i, &path);
        if (path.level != taken->level)
            continue;
        users = ranks_on(topo, i);
        fprintf(out, "%s%s (%d rank%s)", others++ ? ", " : "; as near: ", name_of(topo, i), users,
                users == 1 ? "" : "s");
    }
    if (!others)
        fprintf(out, "; no other is as near");
}

static void say_nic(const struct ri_topo *topo, const uint8_t *used, int r, FILE *out)
{
    const struct ri_topo_rank *rank = &topo->ranks[r];
    struct ri_topo_path path;
    double gbps;
    int is_usual;
    char level[12];

    fprintf(out, "rank %d on %s: ", r, name_of(topo, rank->object));
    if (rank->nic < 0) {
        fprintf(out, "no NIC, as %s has none that can be used\n", name_of(topo, host_of(topo, r)));
        return;
    }
    ri_topo_path(topo, rank->object, rank->nic, &path);
    ri_topo_level_text(&path, level);
    gbps = ri_topo_nic_gbps(topo, rank->nic);
    is_usual = path.gbps < gbps ? path.is_usual : topo->objects[rank->nic].nic.gbps <= 0;
    fprintf(out, "%s, %s, %s%.4g GB/s", name_of(topo, rank->nic), level, is_usual ? "~" : "",
            path.gbps < gbps ? path.gbps : gbps);
    if (rank->nic_shares > 1)
        fprintf(out, ", shared by %d ranks", (int)rank->nic_shares);
    say_others(topo, used, r, &path, out);
    fprintf(out, "\n");
}

/* NICs of a host that serve nobody, and why. */
static void say_idle(const struct ri_topo *topo, int32_t host, FILE *out)
{
    char why[96];

    for (int32_t i = host + 1; i < topo->object_count && topo->objects[i].kind != RI_TOPO_HOST; i++) {
        if (topo->objects[i].kind != RI_TOPO_NIC || ranks_on(topo, i))
            continue;
        if (ri_topo_nic_is_used(topo, i, why))
            fprintf(out, "%s of %s is spare: each rank has one that is nearer, or less used\n", name_of(topo, i),
                    name_of(topo, host));
        else
            fprintf(out, "%s of %s is left out: %s\n", name_of(topo, i), name_of(topo, host), why);
    }
}

/* ---- rails ---- */

static int is_one_subnet(const struct ri_topo *topo, const int32_t *rail, int wanted)
{
    const char *subnet = NULL;

    for (int r = 0; r < topo->rank_count; r++) {
        const char *mine = topo->ranks[r].nic < 0 ? "" : topo->objects[topo->ranks[r].nic].nic.subnet;

        if (rail[r] != wanted)
            continue;
        if (!mine[0] || (subnet && strcmp(mine, subnet) != 0))
            return 0;
        subnet = mine;
    }
    return 1;
}

/* rail: room for the ranks. */
static void say_rails(const struct ri_topo *topo, int32_t *rail, FILE *out)
{
    int rails = ri_topo_rails(topo, rail), by_subnet = rails > 1;

    for (int k = 0; k < rails; k++)
        by_subnet = by_subnet && is_one_subnet(topo, rail, k);
    fprintf(out, "%d rail%s between hosts, by %s:", rails, rails == 1 ? "" : "s",
            by_subnet ? "subnet" : "the place of a NIC on its host");
    for (int k = 0; k < rails; k++) {
        fprintf(out, k ? " |" : "");
        for (int r = 0; r < topo->rank_count; r++)
            if (rail[r] == k)
                fprintf(out, " %d", r);
    }
    fprintf(out, "\n");
}

/* ---- all ---- */

/* room: [2][ranks]; used: [objects] NICs. */
static void say_all(const struct ri_topo *topo, int32_t *room, uint8_t *used, FILE *out)
{
    int32_t *order = room, *rest = room + topo->rank_count;
    struct part part;

    if (topo->rank_count == 0) {
        fprintf(out, "no ranks are placed\n");
        return;
    }
    say_hosts(topo, order, out);
    for (int at = 0; at < topo->rank_count; at += part.count) {
        part = part_at(topo, order, at);
        say_ring(topo, &part, rest, out);
        ri_topo_used_nics(topo, part.host, used);
        for (int r = 0; r < topo->rank_count; r++)
            if (host_of(topo, r) == part.host)
                say_nic(topo, used, r, out);
        say_idle(topo, part.host, out);
    }
    if (crossings(topo, order))
        say_rails(topo, rest, out);
}

char *ri_topo_explain(const struct ri_topo *topo)
{
    int32_t *room = calloc(2 * (size_t)topo->rank_count + 1, sizeof(*room));
    uint8_t *used = calloc((size_t)topo->object_count + 1, sizeof(*used));
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = room && used && !ri_topo_ring(topo, room) ? open_memstream(&text, &bytes) : NULL;
    int failed;

    if (out) {
        say_all(topo, room, used, out);
        if (topo->notices)
            fputs(topo->notices, out); /* each line ends */
        failed = ferror(out);
        if (fclose(out) || failed) {
            free(text);
            text = NULL;
        }
    }
    free(used);
    free(room);
    return text;
}
