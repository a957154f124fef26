/* SPDX-License-Identifier: Apache-2.0 */
/* One pass of a plan: a schedule, its pieces of work and its messages. */
#include <stdlib.h>

#include "base/status.h"
#include "plan/plan.h"

int64_t ri_block_tokens(const struct ri_plan *plan, const struct ri_schedule *schedule, int32_t block)
{
    return ri_layout_tokens(&plan->layout, schedule->owner[block]);
}

const enum ri_tensor *ri_pass_tensors(const struct ri_pass *pass, enum ri_bundle bundle)
{
    return ri_bundle_tensors(pass->kind, bundle, pass->plan->kernel.flags & RONDO_KERNEL_NEEDS_O);
}

/* ---- messages ---- */

/* One message per block and tensor of the bundle, in bundle order.  counts: [2][ranks] messages so far to and
 * from each rank, so that both ends number them alike. */
static uint32_t list_step_messages(struct ri_pass *pass, uint32_t index, uint32_t *counts, uint32_t next)
{
    const struct ri_step *step = &pass->schedule->steps[index];
    const struct ri_operand *moved = ri_step_moved(step);
    enum ri_bundle bundle = pass->schedule->slots[moved->slot].bundle;
    uint32_t *count = &counts[(step->op == RI_SEND) * pass->plan->place.ranks + step->peer];
    const enum ri_tensor *t;

    for (int b = 0; b < moved->blocks; b++)
        for (t = ri_pass_tensors(pass, bundle); *t != RI_TENSORS; t++, next++)
            if (pass->messages)
                pass->messages[next] = (struct ri_message){ (*count)++, (uint16_t)b, (uint8_t)*t };
    return next;
}

static uint32_t walk_messages(struct ri_pass *pass, uint32_t *counts)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < pass->schedule->step_count; i++) {
        pass->first_message[i] = next;
        if (ri_step_moves(&pass->schedule->steps[i]))
            next = list_step_messages(pass, i, counts, next);
    }
    pass->first_message[pass->schedule->step_count] = next;
    return next;
}

static int list_messages(struct ri_pass *pass)
{
    uint32_t *counts = calloc(2 * (size_t)pass->plan->place.ranks, sizeof(*counts));
    uint32_t count;

    pass->first_message = calloc((size_t)pass->schedule->step_count + 1, sizeof(uint32_t));
    if (!counts || !pass->first_message)
        goto no_memory;
    count = walk_messages(pass, counts);
    if (count > RI_TAG_MESSAGES) {
        free(counts);
        return ri_error(RONDO_ERR_UNSUPPORTED, "schedule %s has %u messages on one rank; %d can be numbered",
                        pass->schedule->name, count, RI_TAG_MESSAGES);
    }
    pass->messages = calloc((size_t)count + 1, sizeof(*pass->messages));
    if (!pass->messages)
        goto no_memory;
    walk_messages(pass, counts);
    free(counts);
    return 0;

no_memory:
    free(counts);
    return ri_error(RONDO_ERR_MEMORY, "out of memory for messages");
}

/* ---- a pass ---- */

int ri_pass_init(struct ri_pass *pass, const struct ri_plan *plan, enum ri_pass_kind kind,
                 ri_builder *build)
{
    int err;

    pass->plan = plan;
    pass->kind = kind;
    err = build(&pass->schedule, &(struct ri_build){ .rank = plan->place.rank,
                                                     .ranks = plan->place.ranks,
                                                     .host = plan->place.host });
    if (!err)
        err = ri_parts_check(pass->schedule);
    if (err)
        return err;
    pass->slots_bytes = ri_run_place(pass, NULL, NULL);
    err = ri_pieces_init(pass);
    return err ? err : list_messages(pass);
}

void ri_pass_release(struct ri_pass *pass)
{
    ri_schedule_destroy(pass->schedule);
    free(pass->tiles);
    free(pass->work);
    free(pass->first_piece);
    free(pass->pieces);
    free(pass->messages);
    free(pass->first_message);
}
