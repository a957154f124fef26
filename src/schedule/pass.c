/* SPDX-License-Identifier: Apache-2.0 */
/* What the top-level builders of attention share: the caller's slots, and slots of ours. */
#include "schedule/pass.h"

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

struct ri_pass ri_pass_home(struct ri_schedule *s, enum ri_way way)
{
    struct ri_pass pass = {.query_travels = way == RI_Q_GRAD, .key_side = ri_none};

    pass.query = home(s, RI_Q, RI_IN);
    pass.key = home(s, RI_K, RI_IN);
    pass.query_side = home(s, way == RI_FORWARD ? RI_O : RI_DQ, RI_OUT);
    if (way != RI_FORWARD)
        pass.key_side = home(s, RI_DK, RI_OUT);
    return pass;
}

int32_t ri_pass_landing_slots(struct ri_schedule *s, const struct ri_pass *pass, int count,
                              int parts)
{
    return slots(s, pass->query_travels ? RI_Q : RI_K, RI_VIEW, count, parts);
}

int32_t ri_pass_sum_slots(struct ri_schedule *s, const struct ri_pass *pass, int count, int parts)
{
    return slots(s, pass->query_travels ? RI_DQ : RI_DK, RI_OWN, count, parts);
}

int ri_pass_landings(const char *name, int asked, int ranks)
{
    int arrivals = ranks > 2 ? ranks - 1 : 1;
    int landings = asked ? asked : 2;

    if (asked < 0 || (asked == 1 && arrivals > 1))
        return ri_error(RONDO_ERR_ARGUMENT,
                        "%s: landing %d: over %d ranks a block arrives while another is in use; "
                        "give 2 or more, or 0 for the default",
                        name, asked, ranks);
    return landings < arrivals ? landings : arrivals;
}

int ri_pass_end(struct ri_schedule **schedule, struct ri_schedule *s)
{
    int err = ri_schedule_end(&s);

    if (!err)
        *schedule = s;
    return err;
}
