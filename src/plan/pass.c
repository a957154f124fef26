/* SPDX-License-Identifier: Apache-2.0 */
/* One pass of a plan: a schedule, its pieces of work and its messages. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "plan/chunks.h"

int64_t ri_block_tokens(const struct ri_plan *plan, const struct ri_schedule *schedule, enum ri_side side,
                        int32_t block)
{
    return ri_layout_tokens(plan->layout[side], schedule->owner[block]);
}

const enum ri_tensor *ri_pass_tensors(const struct ri_pass *pass, enum ri_bundle bundle)
{
    return ri_bundle_tensors(pass->kind, bundle, pass->plan->kernel.flags & RONDO_KERNEL_NEEDS_O);
}

rondo_dtype_t ri_pass_type(const struct ri_pass *pass, enum ri_tensor tensor)
{
    return ri_lying_type(&pass->plan->desc, pass->kind, tensor);
}

int ri_pass_rounds(const struct ri_pass *pass, enum ri_tensor tensor)
{
    return ri_tensor_is_sum(pass->kind, tensor) && ri_tensor_type(&pass->plan->desc, tensor) != RONDO_F32;
}

/* ---- messages ---- */

/* Messages of a rank with all others: more would take gigabytes. */
#define MESSAGES_MAX (1u << 24)

struct listing {
    struct ri_pass *pass;
    uint32_t *counts; /* [2][ranks] numbers given out so far, from and to each rank: equal at both ends */
    uint32_t next, next_chunk;
    int full;         /* there are more than can be numbered: the list has ended */
};

static void add_message(struct listing *l, struct ri_message message)
{
    if (l->pass->messages)
        l->pass->messages[l->next] = message;
    l->next++;
}

static void add_stamp(struct listing *l, uint32_t number, int send)
{
    add_message(l, (struct ri_message){ .number = number, .tensor = RI_STAMP, .send = (uint8_t)send });
}

static void end_chunk(struct listing *l)
{
    if (l->pass->chunk_end)
        l->pass->chunk_end[l->next_chunk] = l->next;
    l->next_chunk++;
}

/* One message per chunk, block and tensor of the bundle, in bundle order; before the first with a peer the
 * stamp of who sends, and behind it the answer.  That may leave behind all that this rank sends, so that no
 * chunk waits for it. */
static void list_step_messages(struct listing *l, const struct ri_step *step)
{
    const struct ri_operand *moved = ri_step_moved(step);
    enum ri_bundle bundle = l->pass->schedule->slots[moved->slot].bundle;
    int send = step->op == RI_SEND;
    uint32_t *count = &l->counts[send * l->pass->plan->place.ranks + step->peer];
    uint32_t chunks = ri_chunks_wanted(l->pass, step);
    int first = *count == 0;
    const enum ri_tensor *t;

    if (first) {
        add_stamp(l, RI_NUMBER_STAMP, send);
        *count = RI_NUMBER_FIRST;
    }
    for (uint32_t c = 0; c < chunks && !l->full; c++) {
        for (int b = 0; b < moved->blocks; b++)
            for (t = ri_pass_tensors(l->pass, bundle); *t != RI_TENSORS; t++)
                add_message(l, (struct ri_message){ .number = (*count)++, .chunk = c, .block = (uint16_t)b,
                                                    .tensor = (uint8_t)*t, .send = (uint8_t)send });
        if (chunks > 1)
            end_chunk(l);
        l->full = *count > RI_TAG_MESSAGES || l->next > MESSAGES_MAX;
    }
    if (first)
        add_stamp(l, RI_NUMBER_ANSWER, !send);
    if (first || chunks == 1)
        end_chunk(l);
}

/* 0: they cannot be numbered. */
static int walk_messages(struct ri_pass *pass, uint32_t *counts)
{
    struct listing l = { pass, counts, 0, 0, 0 };

    memset(counts, 0, 2 * (size_t)pass->plan->place.ranks * sizeof(*counts));
    for (uint32_t i = 0; i < pass->schedule->step_count && !l.full; i++) {
        pass->first_message[i] = l.next;
        pass->first_chunk[i] = l.next_chunk;
        if (ri_step_moves(&pass->schedule->steps[i]))
            list_step_messages(&l, &pass->schedule->steps[i]);
    }
    pass->first_message[pass->schedule->step_count] = l.next;
    pass->first_chunk[pass->schedule->step_count] = l.next_chunk;
    return !l.full;
}

static int list_messages(struct ri_pass *pass)
{
    uint32_t *counts = calloc(2 * (size_t)pass->plan->place.ranks, sizeof(*counts));
    uint32_t steps = pass->schedule->step_count;

    pass->first_message = calloc((size_t)steps + 1, sizeof(uint32_t));
    pass->first_chunk = calloc((size_t)steps + 1, sizeof(uint32_t));
    if (!counts || !pass->first_message || !pass->first_chunk)
        goto no_memory;
    if (!walk_messages(pass, counts)) {
        free(counts);
        return ri_error(RONDO_ERR_UNSUPPORTED, "schedule %s has more messages than can be numbered (%d from one "
                        "rank to another); use a larger chunk_bytes (or RONDO_CHUNK)", pass->schedule->name,
                        RI_TAG_MESSAGES);
    }
    pass->messages = calloc((size_t)pass->first_message[steps] + 1, sizeof(*pass->messages));
    pass->chunk_end = calloc((size_t)pass->first_chunk[steps] + 1, sizeof(uint32_t));
    if (!pass->messages || !pass->chunk_end)
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
    pass->moved = calloc((size_t)s->slot_count + 1, 1);
    if (!pass->in_place || !pass->moved)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %u slots", s->slot_count);
    for (uint32_t i = 0; i < s->slot_count; i++)
        pass->in_place[i] = (uint8_t)ri_slot_is_bound(s, (int32_t)i);
    for (uint32_t i = 0; i < s->step_count; i++)
        if (ri_step_moves(&s->steps[i]))
            memset(pass->moved + ri_step_moved(&s->steps[i])->slot, 1, ri_step_moved(&s->steps[i])->blocks);
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
    ri_chunks_choose(pass);
    err = list_messages(pass);
    return err ? err : ri_pieces_init(pass);
}

void ri_pass_release(struct ri_pass *pass)
{
    ri_schedule_destroy(pass->schedule);
    free(pass->in_place);
    free(pass->moved);
    free(pass->tiles);
    free(pass->work);
    free(pass->first_piece);
    free(pass->pieces);
    free(pass->messages);
    free(pass->first_message);
    free(pass->first_chunk);
    free(pass->chunk_end);
    free(pass->need);
    free(pass->needs);
    free(pass->first_need);
}
