/* SPDX-License-Identifier: Apache-2.0 */
/* Where the content of a slot lies while a run goes on: in memory of its own, or in place, in the memory
 * of another rank of this host. */
#include "plan/plan.h"

static const struct ri_slot *moved_slot(const struct ri_run *run, uint32_t step, int32_t *slot)
{
    const struct ri_schedule *s = run->pass->schedule;

    *slot = ri_step_moved(&s->steps[step])->slot;
    return &s->slots[*slot];
}

void ri_in_place_start(struct ri_run *run)
{
    const struct ri_schedule *s = run->pass->schedule;

    for (uint32_t i = 0; i < s->slot_count; i++)
        for (int t = 0; t < RI_TENSORS; t++) {
            run->references[i][t].counter = NULL;
            if (ri_slot_is_ours(&s->slots[i]))
                run->slots[i][t] = run->home[i][t];
        }
}

/* What is received by copy lies at home again; what was read in place is sent from there, or passed on. */
void ri_in_place_prepare(struct ri_run *run, uint32_t step)
{
    const struct ri_pass *pass = run->pass;
    const struct ri_step *it = &pass->schedule->steps[step];

    for (uint32_t m = pass->first_message[step]; m < pass->first_message[step + 1]; m++) {
        const struct ri_message *message = &pass->messages[m];
        struct ri_xfer *xfer = &run->xfers[m];
        int32_t slot;
        int ours = ri_slot_is_ours(moved_slot(run, step, &slot));

        slot += message->block;
        if (message->tensor == RI_STAMP || !ours)
            continue;
        if (it->op == RI_RECV && !xfer->bind) {
            run->slots[slot][message->tensor] = run->home[slot][message->tensor];
            run->references[slot][message->tensor].counter = NULL;
        }
        if (it->op == RI_RECV)
            continue;
        ri_run_place_message(run, step, m);
        xfer->reference = run->references[slot][message->tensor];
    }
}

void ri_in_place_arrived(struct ri_run *run, uint32_t step, uint32_t first, uint32_t end)
{
    const struct ri_pass *pass = run->pass;

    for (uint32_t m = first; m < end; m++) {
        const struct ri_xfer *xfer = &run->xfers[m];
        int32_t slot;

        moved_slot(run, step, &slot);
        slot += pass->messages[m].block;
        if (xfer->send || !xfer->bind || xfer->state != RI_XFER_DONE)
            continue;
        run->slots[slot][pass->messages[m].tensor] = xfer->base;
        run->references[slot][pass->messages[m].tensor] = xfer->reference;
    }
}
