/* SPDX-License-Identifier: Apache-2.0 */
/* One pass of a plan: a schedule, its pieces of work and its messages. */
#include <stdlib.h>
#include <string.h>

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

struct listing {
    struct ri_pass *pass;
    uint32_t *counts; /* [2][ranks] numbers given out so far, from and to each rank: equal at both ends */
    uint32_t next;
};

static void add_message(struct listing *l, uint32_t number, int block, int tensor, int send)
{
    if (l->pass->messages)
        l->pass->messages[l->next] =
            (struct ri_message){ number, (uint16_t)block, (uint8_t)tensor, (uint8_t)send };
    l->next++;
}

/* One message per block and tensor of the bundle, in bundle order; stamps before the first. */
static void list_step_messages(struct listing *l, const struct ri_step *step)
{
    const struct ri_operand *moved = ri_step_moved(step);
    enum ri_bundle bundle = l->pass->schedule->slots[moved->slot].bundle;
    int send = step->op == RI_SEND;
    uint32_t *count = &l->counts[send * l->pass->plan->place.ranks + step->peer];
    const enum ri_tensor *t;

    if (*count == 0) {
        add_message(l, send ? RI_NUMBER_ANSWER : RI_NUMBER_STAMP, 0, RI_STAMP, 0);
        add_message(l, send ? RI_NUMBER_STAMP : RI_NUMBER_ANSWER, 0, RI_STAMP, 1);
        *count = RI_NUMBER_FIRST;
    }
    for (int b = 0; b < moved->blocks; b++)
        for (t = ri_pass_tensors(l->pass, bundle); *t != RI_TENSORS; t++)
            add_message(l, (*count)++, b, *t, send);
}

static uint32_t walk_messages(struct ri_pass *pass, uint32_t *counts)
{
    struct listing l = { pass, counts, 0 };

    memset(counts, 0, 2 * (size_t)pass->plan->place.ranks * sizeof(*counts));
    for (uint32_t i = 0; i < pass->schedule->step_count; i++) {
        pass->first_message[i] = l.next;
        if (ri_step_moves(&pass->schedule->steps[i]))
            list_step_messages(&l, &pass->schedule->steps[i]);
    }
    pass->first_message[pass->schedule->step_count] = l.next;
    return l.next;
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

static int find_in_place(struct ri_pass *pass)
{
    const struct ri_schedule *s = pass->schedule;

    pass->in_place = calloc((size_t)s->slot_count + 1, 1);
    if (!pass->in_place)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %u slots", s->slot_count);
    for (uint32_t i = 0; i < s->slot_count; i++)
        pass->in_place[i] = (uint8_t)ri_slot_is_bound(s, (int32_t)i);
    return 0;
}

int ri_pass_init(struct ri_pass *pass, const struct ri_plan *plan, enum ri_pass_kind kind)
{
    int err;

    pass->plan = plan;
    pass->kind = kind;
    err = ri_scheme_build(&plan->choice.pass[kind], plan->place.rank, plan->choice.binds,
                          &pass->schedule);
    if (!err)
        err = ri_parts_check(pass->schedule);
    if (err)
        return err;
    err = find_in_place(pass);
    if (err)
        return err;
    pass->slots_bytes = ri_run_place(pass, NULL, NULL);
    err = ri_pieces_init(pass);
    return err ? err : list_messages(pass);
}

void ri_pass_release(struct ri_pass *pass)
{
    ri_schedule_destroy(pass->schedule);
    free(pass->in_place);
    free(pass->tiles);
    free(pass->work);
    free(pass->first_piece);
    free(pass->pieces);
    free(pass->messages);
    free(pass->first_message);
}
