/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of rondo-plan, taken from a topology. */
#include <rondo/status.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plan_options.h"
#include "topo/topo.h"

/* Evenly, host by host. */
static int place(struct plan_options *o, struct ri_topo *topo)
{
    int hosts = ri_topo_hosts(topo);

    for (int r = 0; r < o->asked_ranks; r++)
        o->host[r] = (int32_t)((int64_t)r * hosts / o->asked_ranks);
    return ri_topo_place(topo, o->asked_ranks, o->asked_ranks ? o->host : NULL, NULL);
}

/* What the command line gives stays. */
static void set(double *value, double found)
{
    if (*value < 0 && found > 0)
        *value = found;
}

static int take_links(struct plan_options *o, const struct ri_topo *topo)
{
    struct ri_topo_lanes lanes;

    if (ri_topo_lanes(topo, o->order, &lanes)) {
        plan_say("--topo: %s", rondo_last_error());
        return -1;
    }
    set(&o->bandwidth[RI_LANE_LOCAL], lanes.local_gbps * 1e9);
    set(&o->latency[RI_LANE_LOCAL], lanes.local_latency_us * 1e-6);
    set(&o->bandwidth[RI_LANE_HOST], lanes.host_gbps * 1e9);
    set(&o->latency[RI_LANE_HOST], lanes.host_latency_us * 1e-6);
    if (o->shared_nic < 0)
        o->shared_nic = lanes.ranks_per_nic > 1 ? lanes.ranks_per_nic : 0;
    return 0;
}

static int take_ranks(struct plan_options *o, const struct ri_topo *topo)
{
    if (topo->rank_count > PLAN_MAX_RANKS) {
        plan_say("--topo: %d ranks, at most %d can be priced; give --ranks", (int)topo->rank_count, PLAN_MAX_RANKS);
        return -1;
    }
    o->ranks = topo->rank_count;
    o->hosts = 0;
    for (int32_t h = 0, at; (at = ri_topo_find(topo, -1, RI_TOPO_HOST, h)) >= 0; h++) {
        int used = 0;

        for (int r = 0; r < o->ranks; r++)
            if (ri_topo_host_of(topo, topo->ranks[r].object) == at) {
                o->host[r] = o->hosts;
                used = 1;
            }
        o->hosts += used;
    }
    o->order = calloc((size_t)o->ranks + 1, sizeof(*o->order));
    if (o->order && ri_topo_ring(topo, o->order) == 0)
        return 0;
    plan_say("--topo: %s", o->order ? rondo_last_error() : "out of memory");
    return -1;
}

/* What could not be found out is beside the list, which may be JSON. */
static void tell_notices(const char *at)
{
    while (at && *at) {
        int length = (int)strcspn(at, "\n");

        plan_say("--topo: %.*s", length, at);
        at += length + (at[length] == '\n');
    }
}

int plan_topo_apply(struct plan_options *o)
{
    struct ri_topo *topo;
    int err;

    if (o->machine) {
        plan_say("--machine and --topo: one machine at a time");
        return -1;
    }
    o->machine = o->topo;
    err = ri_topo_read(o->topo, &topo);
    if (err) {
        plan_say("--topo: %s", rondo_last_error());
        return -1;
    }
    err = place(o, topo);
    if (err)
        plan_say("--ranks %d: %s", o->asked_ranks, rondo_last_error());
    else
        err = take_ranks(o, topo);
    if (!err)
        err = take_links(o, topo);
    if (!err)
        tell_notices(topo->notices);
    ri_topo_destroy(topo);
    return err ? -1 : 0;
}
