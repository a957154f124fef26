/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SCHEDULE_HOSTS_H
#define RI_SCHEDULE_HOSTS_H

#include "schedule/schedule.h"

/* Ranks by host: hosts in order of their first rank, the ranks of a host in order, however hosts are
 * numbered and spread.  host 0 1 0 1 gives ranks 0 2 | 1 3.  The order is that of rings, or of numbers. */
struct ri_hosts {
    int count, largest, smallest; /* ranks of a host */
    int32_t *first;               /* [count + 1] where each host's ranks begin in `ranks` */
    int32_t *ranks;               /* [first[count]] */
    int host, place;              /* this rank is ranks[first[host] + place] */
};

/* All ranks of a schedule under way.  To be released, also after a failure. */
int ri_hosts_init(struct ri_hosts *hosts, const struct ri_schedule *s, const int32_t *order);
void ri_hosts_release(struct ri_hosts *hosts);

/* Fills ranks[0 .. s->ranks) with the order, or with numbers where it is NULL.  RONDO_ERR_ARGUMENT when a rank is
 * missing. */
int ri_order_copy(const struct ri_schedule *s, const int32_t *order, int32_t *ranks);

static inline int ri_hosts_size(const struct ri_hosts *hosts, int host)
{
    return hosts->first[host + 1] - hosts->first[host];
}

static inline int32_t ri_hosts_rank(const struct ri_hosts *hosts, int host, int place)
{
    return hosts->ranks[hosts->first[host] + place];
}

/* The host `steps` after (before, if negative) this rank's, round all hosts. */
static inline int ri_hosts_after(const struct ri_hosts *hosts, int steps)
{
    return ((hosts->host + steps) % hosts->count + hosts->count) % hosts->count;
}

#endif
