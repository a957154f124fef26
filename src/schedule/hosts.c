/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/hosts.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

struct resident {
    int32_t host, place, rank; /* place: in the order of rings */
};

int ri_order_copy(const struct ri_schedule *s, const int32_t *order, int32_t *ranks)
{
    for (int32_t r = 0; r < s->ranks; r++)
        ranks[r] = order ? -1 : r;
    for (int32_t i = 0; order && i < s->ranks; i++) {
        if (order[i] < 0 || order[i] >= s->ranks || ranks[order[i]] >= 0)
            return ri_error(RONDO_ERR_ARGUMENT, "schedule %s: order[%d] is rank %d; it names each of %d ranks once",
                            s->name, (int)i, (int)order[i], (int)s->ranks);
        ranks[order[i]] = i;
    }
    if (order)
        memcpy(ranks, order, (size_t)s->ranks * sizeof(*ranks));
    return 0;
}

static int by_host(const void *a, const void *b)
{
    const struct resident *x = a, *y = b;

    if (x->host != y->host)
        return x->host < y->host ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

static int by_place(const void *a, const void *b)
{
    const struct resident *x = a, *y = b;

    return (x->place > y->place) - (x->place < y->place);
}

/* residents: sorted by host.  Appends those of one host. */
static void add_host(struct ri_hosts *hosts, const struct resident *residents, int ranks,
                     int32_t host, int this_rank)
{
    int low = 0, high = ranks, size = 0, start = hosts->first[hosts->count];

    while (low < high) {
        int middle = (low + high) / 2;

        if (residents[middle].host < host)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < ranks && residents[low].host == host; low++, size++) {
        hosts->ranks[start + size] = residents[low].rank;
        if (residents[low].rank == this_rank) {
            hosts->host = hosts->count;
            hosts->place = size;
        }
    }
    hosts->first[++hosts->count] = start + size;
    if (size > hosts->largest)
        hosts->largest = size;
    if (size < hosts->smallest)
        hosts->smallest = size;
}

/* Keeps the first rank of each host, these in order of their places; returns how many. */
static int first_ranks(struct resident *firsts, const struct resident *residents, int ranks)
{
    int count = 0;

    for (int i = 0; i < ranks; i++)
        if (i == 0 || residents[i].host != residents[i - 1].host)
            firsts[count++] = residents[i];
    qsort(firsts, (size_t)count, sizeof(*firsts), by_place);
    return count;
}

int ri_hosts_init(struct ri_hosts *hosts, const struct ri_schedule *s, const int32_t *order)
{
    size_t ranks = (size_t)s->ranks;
    struct resident *residents = calloc(2 * ranks, sizeof(*residents)), *firsts;
    int count, err;

    *hosts = (struct ri_hosts){.smallest = s->ranks};
    hosts->first = calloc(ranks + 1, sizeof(*hosts->first));
    hosts->ranks = calloc(ranks, sizeof(*hosts->ranks));
    if (!residents || !hosts->first || !hosts->ranks) {
        free(residents);
        return ri_error(RONDO_ERR_MEMORY, "schedule %s: out of memory", s->name);
    }
    err = ri_order_copy(s, order, hosts->ranks); /* until the ranks of hosts are there */
    if (err) {
        free(residents);
        return err;
    }
    firsts = residents + ranks;
    for (int32_t i = 0; i < s->ranks; i++)
        residents[i] = (struct resident){s->host[hosts->ranks[i]], i, hosts->ranks[i]};
    qsort(residents, ranks, sizeof(*residents), by_host);
    count = first_ranks(firsts, residents, s->ranks);
    for (int i = 0; i < count; i++)
        add_host(hosts, residents, s->ranks, firsts[i].host, s->rank);
    free(residents);
    return 0;
}

void ri_hosts_release(struct ri_hosts *hosts)
{
    free(hosts->first);
    free(hosts->ranks);
    *hosts = (struct ri_hosts){0};
}
