/* SPDX-License-Identifier: Apache-2.0 */
/* Flat rings: K,V go to the next rank of the group, one hop a turn. */
#include <stdlib.h>

#include "base/status.h"
#include "schedule/ring.h"

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
static struct ri_operand blocks_of_step(const struct ri_ring *ring, struct ri_operand like,
                                        int32_t slot, int t)
{
    like.slot = slot;
    like.block = ring->first_block[member_before(ring->group, t)];
    return like;
}

/* Where the keys of step t lie: at home, then in the two landing places in turn.  Two are enough:
 * what arrives in turn t replaces what was computed on, and sent on, in the turn before. */
static struct ri_operand key_of_step(const struct ri_ring *ring, int t)
{
    if (t == 0)
        return ring->key;
    return blocks_of_step(ring, ring->key, ring->landing + (t - 1) % 2 * ring->key.blocks, t);
}

/* Read-only hop t: the keys of step t leave, those of step t + 1 arrive. */
static void key_hop(struct ri_schedule *s, const struct ri_ring *ring, int t, int turn)
{
    if (t >= ring->group->size - 1)
        return;
    ri_schedule_send(s, key_of_step(ring, t), next_rank(ring->group), turn);
    ri_schedule_recv(s, key_of_step(ring, t + 1), prev_rank(ring->group), turn);
}

int ri_ring_forward(struct ri_schedule *s, const struct ri_ring *ring, int turn)
{
    int size = ring->group->size;

    for (int t = 0; t < size; t++) {
        key_hop(s, ring, t, turn + t);
        ri_schedule_compute(s, ring->query, key_of_step(ring, t), ring->query_side, ri_none);
    }
    return turn + size - 1;
}

/* The sum that we make at step t > 0; two places in turn, so that one leaves while the
 * other is made. */
static struct ri_operand sum_of_step(const struct ri_ring *ring, int t)
{
    return blocks_of_step(ring, ring->key_side, ring->sums + (t - 1) % 2 * ring->key.blocks, t);
}

/* Where the sum arrives that the ranks before us made of the blocks of step t. */
static struct ri_operand arrival_of_step(const struct ri_ring *ring, int t)
{
    return blocks_of_step(ring, ring->key_side, ring->sums + 2 * ring->key.blocks, t);
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

/* Turn t moves the keys of hop t and, one step behind, the sum of step t - 1, which was completed
 * by the sum that came in turn t - 1.  The merge of an arrived sum stands after the compute that
 * hides its way. */
int ri_ring_kv_grad(struct ri_schedule *s, const struct ri_ring *ring, int turn)
{
    int size = ring->group->size;

    for (int t = 0; t < size; t++) {
        key_hop(s, ring, t, turn + t);
        sum_hop(s, ring, t, turn + t);
        ri_schedule_compute(s, ring->query, key_of_step(ring, t), ring->query_side,
                            t ? sum_of_step(ring, t) : ring->key_side);
        if (t >= 2)
            ri_schedule_merge(s, RI_MERGE_SUM, arrival_of_step(ring, t), sum_of_step(ring, t));
    }
    if (size == 1)
        return turn;
    /* Step `size` would be our own block again: its sum comes home. */
    sum_hop(s, ring, size, turn + size);
    ri_schedule_merge(s, RI_MERGE_SUM, arrival_of_step(ring, size), ring->key_side);
    return turn + size + 1;
}

/* A ring over all ranks in order of their numbers; freed by everyone_release. */
struct everyone {
    struct ri_group group;
    int32_t *ranks;
};

static int everyone_init(struct everyone *all, const struct ri_schedule *s)
{
    all->ranks = calloc((size_t)s->ranks, sizeof(*all->ranks));
    if (!all->ranks)
        return ri_error(RONDO_ERR_MEMORY, "schedule %s: out of memory", s->name);
    for (int32_t r = 0; r < s->ranks; r++)
        all->ranks[r] = r;
    all->group = (struct ri_group){all->ranks, s->ranks, s->rank};
    return 0;
}

static void everyone_release(struct everyone *all)
{
    free(all->ranks);
}

/* Blocks have the numbers of their owners, so a group's ranks are its first blocks. */
static int end_with_ring(struct ri_schedule **schedule, struct ri_schedule *s, struct ri_ring *ring,
                         int (*append)(struct ri_schedule *, const struct ri_ring *, int))
{
    struct everyone all;
    int err = everyone_init(&all, s);

    if (err) {
        ri_schedule_destroy(s);
        return err;
    }
    ring->group = &all.group;
    ring->first_block = all.ranks;
    append(s, ring, 0);
    everyone_release(&all);
    err = ri_schedule_end(&s);
    if (!err)
        *schedule = s;
    return err;
}

static int32_t slots(struct ri_schedule *s, enum ri_bundle bundle, enum ri_slot_kind kind,
                     int count)
{
    int32_t first = ri_schedule_slot(s, bundle, kind, 1);

    for (int i = 1; i < count; i++)
        ri_schedule_slot(s, bundle, kind, 1);
    return first;
}

int ri_build_ring_forward(struct ri_schedule **schedule, const struct ri_build *build)
{
    struct ri_ring ring = {0};
    struct ri_schedule *s;
    int err = ri_schedule_begin(&s, "ring_forward", build->rank, build->ranks, build->host);

    if (err)
        return err;
    ring.query = ri_operand(s, slots(s, RI_Q, RI_IN, 1), build->rank);
    ring.key = ri_operand(s, slots(s, RI_K, RI_IN, 1), build->rank);
    ring.query_side = ri_operand(s, slots(s, RI_O, RI_OUT, 1), build->rank);
    ring.landing = slots(s, RI_K, RI_VIEW, 2);
    return end_with_ring(schedule, s, &ring, ri_ring_forward);
}

int ri_build_ring_kv_grad(struct ri_schedule **schedule, const struct ri_build *build)
{
    struct ri_ring ring = {0};
    struct ri_schedule *s;
    int err = ri_schedule_begin(&s, "ring_kv_grad", build->rank, build->ranks, build->host);

    if (err)
        return err;
    ring.query = ri_operand(s, slots(s, RI_Q, RI_IN, 1), build->rank);
    ring.key = ri_operand(s, slots(s, RI_K, RI_IN, 1), build->rank);
    ring.query_side = ri_operand(s, slots(s, RI_DQ, RI_OUT, 1), build->rank);
    ring.key_side = ri_operand(s, slots(s, RI_DK, RI_OUT, 1), build->rank);
    ring.landing = slots(s, RI_K, RI_VIEW, 2);
    ring.sums = slots(s, RI_DK, RI_OWN, 3);
    return end_with_ring(schedule, s, &ring, ri_ring_kv_grad);
}
