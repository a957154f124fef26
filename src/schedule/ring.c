/* SPDX-License-Identifier: Apache-2.0 */
/* Flat rings: one side goes to the next rank of the group, one hop a turn. */
#include "schedule/ring.h"

#include <stdlib.h>

#include "base/status.h"
#include "schedule/hosts.h"

/* The member `steps` places before us; what it brought reaches us after as many hops. */
static int member_before(const struct ri_group *group, int steps)
{
    return ((group->index - steps) % group->size + group->size) % group->size;
}

static int32_t next_rank(const struct ri_group *group)
{
    return group->ranks[member_before(group, -1)];
}

static int32_t prev_rank(const struct ri_group *group)
{
    return group->ranks[member_before(group, 1)];
}

/* The shape of `like`, for the blocks of step t: those of the member t before us. */
static struct ri_operand blocks_of_step(const struct ri_ring *ring, const struct ri_operand *like,
                                        int32_t slot, int t)
{
    struct ri_operand blocks = *like;

    blocks.slot = slot;
    blocks.block = ring->first_block[member_before(ring->group, t)];
    return blocks;
}

/* Where the visitors of step t lie: at home, then in the landing places in turn.  Two are enough:
 * what arrives in turn t replaces what was computed on, and sent on, in the turn before. */
static struct ri_operand visitor_of_step(const struct ri_ring *ring, int t)
{
    const struct ri_operand *home = ri_sides_visitor(&ring->sides);

    if (t == 0)
        return *home;
    return blocks_of_step(ring, home, ring->landing + (t - 1) % ring->landings * home->blocks, t);
}

/* Read-only hop t: the visitors of step t leave, those of step t + 1 arrive. */
static void visitor_hop(struct ri_schedule *s, const struct ri_ring *ring, int t, int turn)
{
    if (t >= ring->group->size - 1)
        return;
    ri_schedule_send(s, visitor_of_step(ring, t), next_rank(ring->group), turn);
    ri_schedule_recv(s, visitor_of_step(ring, t + 1), prev_rank(ring->group), turn);
}

int ri_ring_forward(struct ri_schedule *s, const struct ri_ring *ring, int turn)
{
    int size = ring->group->size;

    for (int t = 0; t < size; t++) {
        visitor_hop(s, ring, t, turn + t);
        ri_sides_compute(s, &ring->sides, visitor_of_step(ring, t), ri_none);
    }
    return turn + size - 1;
}

/* The sum that we make at step t > 0; two places in turn, so that one leaves while the
 * other is made.  At step 0 it is our own, which stays home. */
static struct ri_operand sum_of_step(const struct ri_ring *ring, int t)
{
    const struct ri_operand *home = ri_sides_sum(&ring->sides);

    if (t == 0)
        return *home;
    return blocks_of_step(ring, home, ring->sums + (t - 1) % 2 * home->blocks, t);
}

/* Where the sum arrives that the ranks before us made of the blocks of step t. */
static struct ri_operand arrival_of_step(const struct ri_ring *ring, int t)
{
    const struct ri_operand *home = ri_sides_sum(&ring->sides);

    return blocks_of_step(ring, home, ring->sums + 2 * home->blocks, t);
}

/* Accumulated hop of step t - 1.  Step 0 is our own block, whose contribution stays at home: the
 * sum of a block starts at the rank after its owner, so nothing is sent of step 0 nor received for
 * step 1. */
static void sum_hop(struct ri_schedule *s, const struct ri_ring *ring, int t, int turn)
{
    if (t >= 2) {
        ri_schedule_send(s, sum_of_step(ring, t - 1), next_rank(ring->group), turn);
        ri_schedule_recv(s, arrival_of_step(ring, t), prev_rank(ring->group), turn);
    }
}

/* Turn t moves the visitors of hop t and, one step behind, the sum of step t - 1, which was
 * completed by the sum that came in turn t - 1.  The merge of an arrived sum stands after the
 * compute that hides its way. */
int ri_ring_grad(struct ri_schedule *s, const struct ri_ring *ring, int turn)
{
    int size = ring->group->size, last;

    for (int t = 0; t < size; t++) {
        visitor_hop(s, ring, t, turn + t);
        sum_hop(s, ring, t, turn + t);
        ri_sides_compute(s, &ring->sides, visitor_of_step(ring, t), sum_of_step(ring, t));
        if (t >= 2)
            ri_schedule_merge(s, RI_MERGE_SUM, arrival_of_step(ring, t), sum_of_step(ring, t));
    }
    if (size == 1)
        return turn;
    /* Step `size` would be our own block again: its sum comes home.  Of two ranks in turn 1, in which no
     * visitor moves: an empty turn would keep its receive from being posted before the block has come. */
    last = size == 2 ? turn + 1 : turn + size;
    sum_hop(s, ring, size, last);
    ri_schedule_merge(s, RI_MERGE_SUM, arrival_of_step(ring, size), *ri_sides_sum(&ring->sides));
    return last + 1;
}

/* Over all ranks in order.  Blocks have the numbers of their owners, so the ranks are the first blocks too. */
static int append_over_all(struct ri_schedule *s, struct ri_ring *ring, const int32_t *order, enum ri_way way)
{
    int32_t *ranks = calloc((size_t)s->ranks, sizeof(*ranks));
    struct ri_group all = {ranks, s->ranks, 0};
    int err;

    if (!ranks)
        return ri_error(RONDO_ERR_MEMORY, "schedule %s: out of memory", s->name);
    err = ri_order_copy(s, order, ranks);
    while (!err && ranks[all.index] != s->rank)
        all.index++;
    ring->group = &all;
    ring->first_block = ranks;
    if (!err && way == RI_WAY_FORWARD)
        ri_ring_forward(s, ring, 0);
    else if (!err)
        ri_ring_grad(s, ring, 0);
    free(ranks);
    return err;
}

static int build_ring(struct ri_schedule **schedule, const struct ri_build *build, const char *name,
                      enum ri_way way)
{
    struct ri_ring ring = {0};
    struct ri_schedule *s;
    int err = ri_schedule_begin(&s, name, build->rank, build->ranks, build->host);

    if (err)
        return err;
    ring.landings = ri_sides_landings(name, build->landing, build->ranks);
    err = ring.landings < 0 ? ring.landings : 0;
    if (!err) {
        ring.sides = ri_sides_home(s, way);
        ring.landing = ri_sides_landing_slots(s, &ring.sides, ring.landings, 1);
        ring.sums = way == RI_WAY_FORWARD ? -1 : ri_sides_sum_slots(s, &ring.sides, 3, 1);
        err = append_over_all(s, &ring, build->order, way);
    }
    if (err) {
        ri_schedule_destroy(s);
        return err;
    }
    return ri_sides_end(schedule, s);
}

int ri_build_ring_forward(struct ri_schedule **schedule, const struct ri_build *build)
{
    return build_ring(schedule, build, "ring_forward", RI_WAY_FORWARD);
}

int ri_build_ring_kv_grad(struct ri_schedule **schedule, const struct ri_build *build)
{
    return build_ring(schedule, build, "ring_kv_grad", RI_WAY_KV_GRAD);
}

int ri_build_ring_q_grad(struct ri_schedule **schedule, const struct ri_build *build)
{
    return build_ring(schedule, build, "ring_q_grad", RI_WAY_Q_GRAD);
}
