/* SPDX-License-Identifier: Apache-2.0 */
/* Direct exchange: each block is fetched from its owner, and what is added up for it goes straight
 * back.  More bytes cross slow links than in a ring, but a pair that a mask makes dead costs
 * nothing either way. */
#include "schedule/sides.h"

struct direct {
    struct ri_schedule *s;
    struct ri_sides sides;
    int ranks, rank;
    int landings;
    int32_t landing, sums; /* as in struct ri_ring, for one block */
};

/* The rank `steps` before us. */
static int rank_before(const struct direct *d, int steps)
{
    return ((d->rank - steps) % d->ranks + d->ranks) % d->ranks;
}

static struct ri_operand visitor_of_step(const struct direct *d, int t)
{
    if (t == 0)
        return *ri_sides_visitor(&d->sides);
    return ri_operand(d->s, d->landing + (t - 1) % d->landings, rank_before(d, t));
}

/* Two places in turn, so that one leaves while the other is made. */
static struct ri_operand sum_of_step(const struct direct *d, int t)
{
    if (t == 0 || ri_sides_sum(&d->sides)->slot < 0)
        return *ri_sides_sum(&d->sides);
    return ri_operand(d->s, d->sums + (t - 1) % 2, rank_before(d, t));
}

/* What others add up for our own block arrives here. */
static struct ri_operand arrival(const struct direct *d)
{
    return ri_operand(d->s, d->sums + 2, d->rank);
}

/* The block of the rank t before us comes here, ours goes to the rank t behind us. */
static void fetch(const struct direct *d, int t)
{
    if (t < 1 || t >= d->ranks)
        return;
    ri_schedule_send(d->s, *ri_sides_visitor(&d->sides), rank_before(d, -t), 2 * t);
    ri_schedule_recv(d->s, visitor_of_step(d, t), rank_before(d, t), 2 * t);
}

static int returns(const struct direct *d, int t)
{
    return t >= 1 && t < d->ranks && ri_sides_sum(&d->sides)->slot >= 0;
}

/* The way back of step t, while step t + 1 computes. */
static void give_back(const struct direct *d, int t)
{
    if (!returns(d, t))
        return;
    ri_schedule_send(d->s, sum_of_step(d, t), rank_before(d, t), 2 * t + 3);
    ri_schedule_recv(d->s, arrival(d), rank_before(d, -t), 2 * t + 3);
}

/* Turns: the fetch of step t has 2t, its return 2t + 3, between the fetches of t + 1 and t + 2. */
static void append_direct(const struct direct *d)
{
    for (int t = 0; t <= d->ranks; t++) {
        give_back(d, t - 1);
        fetch(d, t + 1);
        if (t < d->ranks)
            ri_sides_compute(d->s, &d->sides, visitor_of_step(d, t), sum_of_step(d, t));
        if (returns(d, t - 1))
            ri_schedule_merge(d->s, RI_MERGE_SUM, arrival(d), *ri_sides_sum(&d->sides));
    }
}

static int build_direct(struct ri_schedule **schedule, const struct ri_build *build,
                        const char *name, enum ri_way way)
{
    struct direct d = {.ranks = build->ranks, .rank = build->rank};
    int err = ri_schedule_begin(&d.s, name, build->rank, build->ranks, build->host);

    if (err)
        return err;
    d.landings = ri_sides_landings(name, build->landing, build->ranks);
    if (d.landings < 0) {
        ri_schedule_destroy(d.s);
        return d.landings;
    }
    d.sides = ri_sides_home(d.s, way);
    d.landing = ri_sides_landing_slots(d.s, &d.sides, d.landings, 1);
    d.sums = way == RI_WAY_FORWARD ? -1 : ri_sides_sum_slots(d.s, &d.sides, 3, 1);
    append_direct(&d);
    return ri_sides_end(schedule, d.s);
}

int ri_build_direct_forward(struct ri_schedule **schedule, const struct ri_build *build)
{
    return build_direct(schedule, build, "direct_forward", RI_WAY_FORWARD);
}

int ri_build_direct_kv_grad(struct ri_schedule **schedule, const struct ri_build *build)
{
    return build_direct(schedule, build, "direct_kv_grad", RI_WAY_KV_GRAD);
}

int ri_build_direct_q_grad(struct ri_schedule **schedule, const struct ri_build *build)
{
    return build_direct(schedule, build, "direct_q_grad", RI_WAY_Q_GRAD);
}
