/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SCHEDULE_COUNTS_H
#define TEST_SCHEDULE_COUNTS_H

#include "schedule/schedule.h"

/* What a rank's schedule sends and holds. */

/* Parts of a bundle that a rank sends in a lane. */
static inline int64_t sent_in(const struct ri_schedule *s, enum ri_bundle bundle, enum ri_lane lane)
{
    int64_t parts = 0;

    for (uint32_t i = 0; i < s->step_count; i++)
        if (s->steps[i].op == RI_SEND && s->steps[i].lane == lane &&
            s->slots[s->steps[i].from[0].slot].bundle == bundle)
            parts += (int64_t)s->steps[i].from[0].blocks * s->steps[i].from[0].parts;
    return parts;
}

static inline int64_t sent(const struct ri_schedule *s, enum ri_bundle bundle)
{
    return sent_in(s, bundle, RI_LANE_LOCAL) + sent_in(s, bundle, RI_LANE_HOST);
}

/* Slots that are ours, not the caller's. */
static inline int own_slots(const struct ri_schedule *s, enum ri_bundle bundle)
{
    int count = 0;

    for (uint32_t i = 0; i < s->slot_count; i++)
        count += s->slots[i].bundle == bundle &&
                 (s->slots[i].kind == RI_VIEW || s->slots[i].kind == RI_OWN);
    return count;
}

static inline int least(int a, int b)
{
    return a < b ? a : b;
}

#endif
