/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SCHEDULE_RING_H
#define RI_SCHEDULE_RING_H

#include "schedule/sides.h"

/* Sub-builders: append one ring over a group to a schedule under way.  The caller has made the
 * slots; a ring over a host, over a rail or inside a hybrid is the same code over another group. */
struct ri_ring {
    const struct ri_group *group;
    const int32_t *first_block; /* [group->size] first of the blocks that each member brings; each
                                 * brings as many, n, as the travelling operand at home spans */
    struct ri_sides sides;      /* what is at home */
    int landings;    /* 2 or more, used in turn; 1 is enough for 2 members, which take one block */
    int32_t landing; /* first of landings * n views: blocks that arrive */
    int32_t sums;    /* first of 3 * n own slots: two sums made in turn, one that arrives; gradients
                      * only */
};

/* Both return the first turn after theirs, alike on all members. */
int ri_ring_forward(struct ri_schedule *s, const struct ri_ring *ring, int turn);
/* KV-grad or Q-grad, as the sides say.  The own contribution stays home. */
int ri_ring_grad(struct ri_schedule *s, const struct ri_ring *ring, int turn);

#endif
