/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SCHEDULE_SIDES_H
#define RI_SCHEDULE_SIDES_H

#include "schedule/schedule.h"

/* The sides of attention, as its builders see them: a read-only side travels and meets
 * what stays at home.  What is added up for the side that travels follows it, home to its owner.
 *
 *                 travels     is added up on the way     stays       is added up at home
 *     forward     K           -                          Q           O
 *     KV-grad     K           dK                         Q           dQ
 *     Q-grad      Q           dQ                         K           dK
 */
enum ri_way { RI_WAY_FORWARD, RI_WAY_KV_GRAD, RI_WAY_Q_GRAD };

/* The home operands. */
struct ri_sides {
    struct ri_operand query, key;           /* read */
    struct ri_operand query_side, key_side; /* O and none; or dQ and dK */
    int query_travels;
};

static inline const struct ri_operand *ri_sides_visitor(const struct ri_sides *sides)
{
    return sides->query_travels ? &sides->query : &sides->key;
}

/* The sum of the side that travels; none in the forward. */
static inline const struct ri_operand *ri_sides_sum(const struct ri_sides *sides)
{
    return sides->query_travels ? &sides->query_side : &sides->key_side;
}

/* Computes a visitor, or the own block, with what stays at home; adds to `sum` on its side. */
static inline void ri_sides_compute(struct ri_schedule *s, const struct ri_sides *sides,
                                    struct ri_operand visitor, struct ri_operand sum)
{
    if (sides->query_travels)
        ri_schedule_compute(s, visitor, sides->key, sum, sides->key_side);
    else
        ri_schedule_compute(s, sides->query, visitor, sides->query_side, sum);
}

/* For top-level builders (sides.c). */

/* Makes the caller's slots 0.., in the order Q, K, O or Q, K, dQ, dK, for whole blocks. */
struct ri_sides ri_sides_home(struct ri_schedule *s, enum ri_way way);
/* `count` slots for what arrives of the side that travels, or for its sums, with room for `parts`;
 * returns the first.  ri_schedule_end removes those that no step uses. */
int32_t ri_sides_landing_slots(struct ri_schedule *s, const struct ri_sides *sides, int count,
                               int parts);
int32_t ri_sides_sum_slots(struct ri_schedule *s, const struct ri_sides *sides, int count,
                           int parts);
/* How many landing slots, used in turn, a schedule of `ranks` ranks has: what was asked for, 2 where
 * that is 0, but no more than blocks arrive, and one at least.  A negative status when what was
 * asked for is too few. */
int ri_sides_landings(const char *name, int asked, int ranks);
/* ri_schedule_end, and *schedule only on success. */
int ri_sides_end(struct ri_schedule **schedule, struct ri_schedule *s);

#endif
