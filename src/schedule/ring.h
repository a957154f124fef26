/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SCHEDULE_RING_H
#define RI_SCHEDULE_RING_H

#include "schedule/schedule.h"

/* Sub-builders: append one ring over a group to a schedule under way.  The caller has made the
 * slots; a ring over a host, over a rail or inside a hybrid is the same code over another group. */
struct ri_ring {
    const struct ri_group *group;
    const int32_t *first_block;   /* [group->size] first of the blocks that each member brings; each
                                   * brings as many as `key` spans */
    struct ri_operand query, key; /* at home: read */
    struct ri_operand query_side, key_side; /* at home: O, or dQ and dK */
    int32_t landing; /* first of 2 * key.blocks views: blocks that arrive, in turn */
    int32_t sums;    /* first of 3 * key.blocks own slots: two sums made in turn, one that arrives;
                      * key-value gradients only */
};

/* Both return the first turn after theirs, alike on all members. */
int ri_ring_forward(struct ri_schedule *s, const struct ri_ring *ring, int turn);
int ri_ring_kv_grad(struct ri_schedule *s, const struct ri_ring *ring, int turn);

#endif
