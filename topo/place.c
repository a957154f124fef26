/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks are, and which NIC is whose.  All of it follows from the tree and the hosts of the ranks, so
 * that every rank that has them comes to the same. */
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"
#include "base/status.h"
#include "topo/topo.h"

/* ---- places ---- */

/* Where ranks of a host go: its GPUs or NUMA nodes, in order of their numbers. */
struct seats {
    int32_t host;
    int32_t *gpus, *numas; /* [gpu_count], [numa_count] */
    int gpu_count, numa_count;
    int ranks, placed; /* of the host; those that have a place so far */
};

static void release_seats(struct seats *seats, int hosts)
{
    for (int h = 0; seats && h < hosts; h++)
        free(seats[h].gpus);
    free(seats);
}

/* Keeps objects in order of their numbers, then of their indices. */
static void insert(const struct ri_topo *topo, int32_t *list, int count, int32_t object)
{
    while (count > 0 && topo->objects[list[count - 1]].number > topo->objects[object].number) {
        list[count] = list[count - 1];
        count--;
    }
    list[count] = object;
}

/* Nodes of memory alone are nobody's place where others have processors. */
static int is_seat(const struct ri_topo_object *object, int some_have_processors)
{
    return object->kind == RI_TOPO_NUMA && (object->cpu_count > 0 || !some_have_processors);
}

static int32_t end_of_host(const struct ri_topo *topo, int32_t host)
{
    int32_t end = host + 1;

    while (end < topo->object_count && topo->objects[end].kind != RI_TOPO_HOST)
        end++;
    return end;
}

static int fill_seats(const struct ri_topo *topo, struct seats *seats)
{
    int32_t end = end_of_host(topo, seats->host);
    int have_processors = 0;

    seats->gpus = calloc(2 * (size_t)(end - seats->host), sizeof(*seats->gpus));
    if (!seats->gpus)
        return ri_error(RONDO_ERR_MEMORY, "no memory for the places of %s", topo->objects[seats->host].name);
    seats->numas = seats->gpus + (end - seats->host);
    for (int32_t i = seats->host + 1; i < end; i++)
        have_processors |= topo->objects[i].kind == RI_TOPO_NUMA && topo->objects[i].cpu_count > 0;
    for (int32_t i = seats->host + 1; i < end; i++) {
        if (topo->objects[i].kind == RI_TOPO_GPU)
            insert(topo, seats->gpus, seats->gpu_count++, i);
        else if (is_seat(&topo->objects[i], have_processors))
            insert(topo, seats->numas, seats->numa_count++, i);
    }
    return 0;
}

static int find_seats(const struct ri_topo *topo, int hosts, struct seats **seats_p)
{
    struct seats *seats = calloc((size_t)hosts, sizeof(*seats));
    int h = 0, err = 0;

    if (!seats)
        return ri_error(RONDO_ERR_MEMORY, "no memory for the places of %d hosts", hosts);
    for (int32_t i = 0; i < topo->object_count && !err; i++)
        if (topo->objects[i].kind == RI_TOPO_HOST) {
            seats[h].host = i;
            err = fill_seats(topo, &seats[h++]);
        }
    if (err)
        release_seats(seats, hosts);
    else
        *seats_p = seats;
    return err;
}

static int seats_of(const struct seats *seats)
{
    if (seats->gpu_count)
        return seats->gpu_count;
    return seats->numa_count ? seats->numa_count : 1;
}

static int all_seats(const struct seats *seats, int hosts)
{
    int all = 0;

    for (int h = 0; h < hosts; h++)
        all += seats_of(&seats[h]);
    return all;
}

/* The host of rank r where nobody says it. */
static int host_by_host(const struct seats *seats, int hosts, int ranks, int r)
{
    int all = all_seats(seats, hosts), times = (ranks + all - 1) / all, h = 0;

    while (r >= times * seats_of(&seats[h]))
        r -= times * seats_of(&seats[h++]);
    return h;
}

static int32_t seat_of(const struct seats *seats, int k)
{
    if (seats->gpu_count >= seats->ranks)
        return seats->gpus[k];
    if (seats->numa_count)
        return seats->numas[(int64_t)k * seats->numa_count / seats->ranks];
    return seats->host;
}

static int check_places(const struct ri_topo *topo, const struct seats *seats, int hosts, int ranks,
                        const int32_t *host_of, const int32_t *where)
{
    for (int r = 0; r < ranks; r++) {
        int h = host_of ? host_of[r] : host_by_host(seats, hosts, ranks, r);

        if (h < 0 || h >= hosts)
            return ri_error(RONDO_ERR_ARGUMENT, "rank %d is on host %d, but the topology has hosts 0 to %d", r, h,
                            hosts - 1);
        if (where && where[r] >= 0 &&
            (where[r] >= topo->object_count || ri_topo_host_of(topo, where[r]) != seats[h].host))
            return ri_error(RONDO_ERR_ARGUMENT, "rank %d is at object %d, which is not of its host %s", r,
                            (int)where[r], topo->objects[seats[h].host].name);
    }
    return 0;
}

static void put(struct ri_topo_rank *places, struct seats *seats, int hosts, int ranks, const int32_t *host_of,
                const int32_t *where)
{
    for (int r = 0; r < ranks; r++)
        seats[host_of ? host_of[r] : host_by_host(seats, hosts, ranks, r)].ranks++;
    for (int r = 0; r < ranks; r++) {
        struct seats *on = &seats[host_of ? host_of[r] : host_by_host(seats, hosts, ranks, r)];
        int32_t seat = seat_of(on, on->placed++);

        places[r].object = where && where[r] >= 0 ? where[r] : seat;
        places[r].nic = -1;
        places[r].nic_shares = 0;
    }
}

/* Takes places over; those before come back when it fails. */
static int take_places(struct ri_topo *topo, struct ri_topo_rank *places, int ranks)
{
    struct ri_topo_rank *old = topo->ranks;
    int32_t old_count = topo->rank_count;
    int err;

    topo->ranks = places;
    topo->rank_count = ranks;
    err = ri_topo_assign_nics(topo);
    if (err) {
        topo->ranks = old;
        topo->rank_count = old_count;
    }
    free(err ? places : old);
    return err;
}

int ri_topo_place(struct ri_topo *topo, int ranks, const int32_t *host_of, const int32_t *where)
{
    int hosts = ri_topo_hosts(topo), err;
    struct ri_topo_rank *places = NULL;
    struct seats *seats = NULL;

    if (hosts == 0 || ranks < 0)
        return ri_error(RONDO_ERR_ARGUMENT, "%d ranks cannot be placed on %d hosts", ranks, hosts);
    err = find_seats(topo, hosts, &seats);
    if (err)
        return err;
    if (ranks == 0)
        ranks = all_seats(seats, hosts);
    err = check_places(topo, seats, hosts, ranks, host_of, where);
    if (err)
        goto free_seats;
    places = calloc((size_t)ri_max(ranks, 1), sizeof(*places));
    if (!places) {
        err = ri_error(RONDO_ERR_MEMORY, "no memory for the places of %d ranks", ranks);
        goto free_seats;
    }
    put(places, seats, hosts, ranks, host_of, where);
    err = take_places(topo, places, ranks);

free_seats:
    release_seats(seats, hosts);
    return err;
}

/* ---- NICs ---- */

/* How good a NIC is for a rank, as others are assigned by now; compared field by field. */
struct offer {
    int32_t nic;
    enum ri_topo_level level;
    int card_ranks, port_ranks;
    double gbps;
};

static int is_better(const struct ri_topo *topo, const struct offer *a, const struct offer *b)
{
    if (a->level != b->level)
        return a->level < b->level;
    if (a->card_ranks != b->card_ranks)
        return a->card_ranks < b->card_ranks;
    if (a->port_ranks != b->port_ranks)
        return a->port_ranks < b->port_ranks;
    if (a->gbps != b->gbps)
        return a->gbps > b->gbps;
    return ri_topo_compare_names(topo->objects[a->nic].name, topo->objects[b->nic].name) < 0;
}

static int on_one_card(const struct ri_topo *topo, int32_t a, int32_t b)
{
    const char *card = topo->objects[a].nic.card;

    return a == b || (card[0] && strcmp(card, topo->objects[b].nic.card) == 0);
}

/* NICs of all hosts as they are given out, and the host at hand: objects from it up to end. */
struct supply {
    uint8_t *used;  /* [objects] a NIC that ranks may have */
    int32_t *ranks; /* [objects] that have a NIC by now */
    int32_t host, end;
};

static int is_here(const struct supply *supply, int32_t object)
{
    return object >= supply->host && object < supply->end;
}

static int ranks_on_card(const struct ri_topo *topo, const struct supply *supply, int32_t nic)
{
    int ranks = 0;

    for (int32_t other = supply->host; other < supply->end; other++)
        if (supply->ranks[other] && on_one_card(topo, other, nic))
            ranks += supply->ranks[other];
    return ranks;
}

static struct offer make_offer(const struct ri_topo *topo, const struct supply *supply, int r, int32_t nic)
{
    struct offer offer = { nic, RI_TOPO_NET, 0, 0, 0 };
    struct ri_topo_path path;

    ri_topo_path(topo, topo->ranks[r].object, nic, &path);
    offer.level = path.level;
    offer.gbps = ri_topo_nic_gbps(topo, nic);
    if (path.gbps < offer.gbps)
        offer.gbps = path.gbps;
    offer.port_ranks = supply->ranks[nic];
    offer.card_ranks = ranks_on_card(topo, supply, nic);
    return offer;
}

/* The best NIC for a rank, -1: none; choices: how many are as near as that. */
static int32_t pick(const struct ri_topo *topo, const struct supply *supply, int r, int32_t *choices)
{
    struct offer best = { -1, RI_TOPO_LEVELS, 0, 0, 0 };

    *choices = 0;
    for (int32_t nic = supply->host; nic < supply->end; nic++) {
        struct offer offer;

        if (!supply->used[nic])
            continue;
        offer = make_offer(topo, supply, r, nic);
        *choices = offer.level < best.level ? 1 : *choices + (offer.level == best.level);
        if (best.nic < 0 || is_better(topo, &offer, &best))
            best = offer;
    }
    return best.nic;
}

/* Those with fewest NICs to choose from go first, so that they find these free.  Until shares are counted,
 * nic_shares says how many that is. */
static void assign_host(struct ri_topo *topo, struct supply *supply)
{
    int32_t most = 0;

    for (int r = 0; r < topo->rank_count; r++) {
        struct ri_topo_rank *rank = &topo->ranks[r];

        if (!is_here(supply, rank->object))
            continue;
        pick(topo, supply, r, &rank->nic_shares);
        most = rank->nic_shares > most ? rank->nic_shares : most;
    }
    for (int32_t choices = 1; choices <= most; choices++)
        for (int r = 0; r < topo->rank_count; r++) {
            struct ri_topo_rank *rank = &topo->ranks[r];
            int32_t same;

            if (!is_here(supply, rank->object) || rank->nic_shares != choices)
                continue;
            rank->nic = pick(topo, supply, r, &same);
            supply->ranks[rank->nic]++;
        }
}

static void assign_all(struct ri_topo *topo, struct supply *supply)
{
    for (int r = 0; r < topo->rank_count; r++)
        topo->ranks[r].nic = -1;
    for (int32_t i = 0; i < topo->object_count; i = supply->end) {
        supply->host = i;
        supply->end = end_of_host(topo, i);
        ri_topo_used_nics(topo, i, supply->used);
        assign_host(topo, supply);
    }
    for (int r = 0; r < topo->rank_count; r++) {
        struct ri_topo_rank *rank = &topo->ranks[r];

        rank->nic_shares = rank->nic < 0 ? 0 : supply->ranks[rank->nic];
    }
}

int ri_topo_assign_nics(struct ri_topo *topo)
{
    size_t objects = (size_t)topo->object_count + 1;
    struct supply supply = { .used = calloc(objects, 1), .ranks = calloc(objects, sizeof(*supply.ranks)) };
    int err = 0;

    if (supply.used && supply.ranks)
        assign_all(topo, &supply);
    else
        err = ri_error(RONDO_ERR_MEMORY, "no memory to assign NICs to %d ranks", (int)topo->rank_count);
    free(supply.used);
    free(supply.ranks);
    return err;
}
