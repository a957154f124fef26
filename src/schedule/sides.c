/* SPDX-License-Identifier: Apache-2.0 */
/* What the top-level builders of attention share: the caller's slots, and slots of ours. */
#include "schedule/sides.h"

#include "base/minmax.h"
#include "base/status.h"

static int32_t slots(struct ri_schedule *s, enum ri_bundle bundle, enum ri_slot_kind kind,
                     int count, int parts)
{
    int32_t first = ri_schedule_slot(s, bundle, kind, parts);

    for (int i = 1; i < count; i++)
        ri_schedule_slot(s, bundle, kind, parts);
    return first;
}

static struct ri_operand home(struct ri_schedule *s, enum ri_bundle bundle, enum ri_slot_kind kind)
{
    int parts = s->head_parts * s->token_parts;

    return ri_operand(s, slots(s, bundle, kind, 1, parts), s->rank);
}

struct ri_sides ri_sides_home(struct ri_schedule *s, enum ri_way way)
{
    struct ri_sides sides = {.query_travels = way == RI_WAY_Q_GRAD, .key_side = ri_none};

    sides.query = home(s, RI_Q, RI_IN);
    sides.key = home(s, RI_K, RI_IN);
    sides.query_side = home(s, way == RI_WAY_FORWARD ? RI_O : RI_DQ, RI_OUT);
    if (way != RI_WAY_FORWARD)
        sides.key_side = home(s, RI_DK, RI_OUT);
    return sides;
}

int32_t ri_sides_landing_slots(struct ri_schedule *s, const struct ri_sides *sides, int count,
                               int parts)
{
    return slots(s, sides->query_travels ? RI_Q : RI_K, RI_VIEW, count, parts);
}

int32_t ri_sides_sum_slots(struct ri_schedule *s, const struct ri_sides *sides, int count,
                           int parts)
{
    return slots(s, sides->query_travels ? RI_DQ : RI_DK, RI_OWN, count, parts);
}

int ri_sides_landings(const char *name, int asked, int ranks)
{
    int arrivals = ranks > 2 ? ranks - 1 : 1;
    int landings = asked ? asked : 2;

    if (asked < 0 || (asked == 1 && arrivals > 1))
        return ri_error(RONDO_ERR_ARGUMENT,
                        "%s: landing %d: over %d ranks a block arrives while another is in use; "
                        "give 2 or more, or 0 for the default",
                        name, asked, ranks);
    return ri_min(landings, arrivals);
}

int ri_sides_end(struct ri_schedule **schedule, struct ri_schedule *s)
{
    int err = ri_schedule_end(&s);

    if (!err)
        *schedule = s;
    return err;
}
