/* SPDX-License-Identifier: Apache-2.0 */
/* One run of a pass: its memory, its messages and the engine that drives it. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "kernels/convert.h"
#include "plan/chunks.h"

/* ---- memory of our own slots ---- */

/* Of a tensor of `tokens` tokens. */
static size_t room_of(const struct ri_pass *pass, enum ri_tensor tensor, rondo_dtype_t type, int64_t tokens)
{
    return (ri_tensor_elements(&pass->plan->desc, tensor, tokens) * ri_convert_bytes(type) + 63) & ~(size_t)63;
}

static size_t tensor_room(const struct ri_pass *pass, enum ri_tensor tensor, int64_t tokens)
{
    return room_of(pass, tensor, ri_pass_type(pass, tensor), tokens);
}

/* Sums that the caller wants in another type. */
static size_t place_sums(const struct ri_pass *pass, struct ri_run *run, char *memory)
{
    size_t used = 0;

    for (int t = 0; t < RI_TENSORS; t++) {
        enum ri_tensor tensor = (enum ri_tensor)t;

        if (!ri_pass_rounds(pass, tensor))
            continue;
        if (run)
            run->sums[t] = (float *)(void *)(memory + used);
        used += tensor_room(pass, tensor, pass->plan->max_tokens[ri_tensor_side(tensor)]);
    }
    return used;
}

/* Of slots that move, in the type that travels. */
static size_t place_shadows(const struct ri_pass *pass, struct ri_run *run, char *memory)
{
    size_t used = 0;

    for (uint32_t i = 0; i < pass->schedule->slot_count; i++) {
        enum ri_bundle bundle = (enum ri_bundle)pass->schedule->slots[i].bundle;
        int64_t tokens = ri_slot_tokens(pass->schedule, i, pass->plan->max_tokens[ri_bundle_side(bundle)]);
        const enum ri_tensor *t;

        for (t = ri_pass_tensors(pass, bundle); *t != RI_TENSORS && pass->moved[i]; t++) {
            if (!ri_pass_narrows(pass, *t))
                continue;
            if (run)
                run->shadows[i][*t] = memory + used;
            used += room_of(pass, *t, ri_pass_wire(pass, *t), tokens);
        }
    }
    return used;
}

size_t ri_run_place(const struct ri_pass *pass, struct ri_run *run, char *memory)
{
    size_t used = place_sums(pass, run, memory);

    if (pass->kind == RI_BACKWARD && !(pass->plan->kernel.flags & RONDO_KERNEL_NEEDS_O)) {
        if (run)
            run->delta = (float *)(void *)(memory + used);
        used += tensor_room(pass, RI_T_DELTA, pass->plan->max_tokens[RI_QUERIES]);
    }
    for (uint32_t i = 0; i < pass->schedule->slot_count; i++) {
        const struct ri_slot *slot = &pass->schedule->slots[i];
        int64_t most = pass->plan->max_tokens[ri_bundle_side(slot->bundle)];
        const enum ri_tensor *t;

        if (!ri_slot_is_ours(slot) || pass->in_place[i])
            continue;
        for (t = ri_pass_tensors(pass, slot->bundle); *t != RI_TENSORS; t++) {
            if (run)
                run->home[i][*t] = memory + used;
            used += tensor_room(pass, *t, ri_slot_tokens(pass->schedule, i, most));
        }
    }
    return used + place_shadows(pass, run, memory + used);
}

/* ---- messages ---- */

/* What never changes from start to start. */
static void fill_xfers(struct ri_run *run)
{
    const struct ri_pass *pass = run->pass;

    for (uint32_t i = 0; i < pass->schedule->step_count; i++) {
        const struct ri_step *step = &pass->schedule->steps[i];

        for (uint32_t m = pass->first_message[i]; m < pass->first_message[i + 1]; m++)
            run->xfers[m] = (struct ri_xfer){ .peer = step->peer, .send = pass->messages[m].send,
                                              .lane = step->lane, .kind = pass->messages[m].tensor };
    }
}

uint64_t ri_run_tag(const struct ri_pass *pass, uint32_t number)
{
    return ri_message_tag((2 * pass->plan->number + pass->kind) % RI_TAG_COLLECTIVES, number, 0);
}

/* Rows without a gap are one run of bytes. */
static void place_message(struct ri_xfer *xfer, const struct ri_rows *rows)
{
    int whole = rows->row_stride == rows->row_bytes;

    xfer->base = rows->base;
    xfer->rows = whole ? rows->rows > 0 : rows->rows;
    xfer->row_bytes = whole ? rows->rows * rows->row_bytes : rows->row_bytes;
    xfer->row_stride = whole ? xfer->row_bytes : rows->row_stride;
}

/* Where message m of a step lies. */
static struct ri_rows message_rows(struct ri_run *run, uint32_t index, const struct ri_message *message)
{
    const struct ri_step *step = &run->pass->schedule->steps[index];
    const struct ri_plan *plan = run->pass->plan;
    int32_t slot = ri_step_moved(step)->slot + message->block;
    struct ri_region region;
    void *memory = &run->stamp;

    if (message->tensor == RI_STAMP) {
        if (!message->send)
            memory = &run->stamps[(message->number == RI_NUMBER_ANSWER) * plan->place.ranks + step->peer];
        return (struct ri_rows){ memory, 1, sizeof(struct ri_stamp), sizeof(struct ri_stamp) };
    }
    region = ri_message_region(run->pass, index, message);
    if (run->shadows[slot][message->tensor])
        memory = run->shadows[slot][message->tensor];
    else
        memory = run->slots[slot][message->tensor];
    return ri_region_rows(&plan->desc, (enum ri_tensor)message->tensor,
                          ri_pass_wire(run->pass, (enum ri_tensor)message->tensor), memory, &region);
}

void ri_run_place_message(struct ri_run *run, uint32_t step, uint32_t m)
{
    struct ri_rows rows = message_rows(run, step, &run->pass->messages[m]);

    place_message(&run->xfers[m], &rows);
}

/* Gives every message its memory. */
static void bind_messages(struct ri_run *run)
{
    const struct ri_pass *pass = run->pass;
    uint64_t tag = ri_run_tag(pass, run->number);

    for (uint32_t i = 0; i < pass->schedule->step_count; i++) {
        for (uint32_t m = pass->first_message[i]; m < pass->first_message[i + 1]; m++) {
            ri_run_place_message(run, i, m);
            run->xfers[m].tag = tag + pass->messages[m].number;
        }
    }
}

/* ---- a run ---- */

int ri_run_init(struct ri_run *run, const struct ri_pass *pass)
{
    const struct ri_schedule *s = pass->schedule;
    uint32_t messages = pass->first_message[s->step_count];

    run->pass = pass;
    run->slots = calloc((size_t)s->slot_count + 1, sizeof(*run->slots));
    run->home = calloc((size_t)s->slot_count + 1, sizeof(*run->home));
    run->shadows = calloc((size_t)s->slot_count + 1, sizeof(*run->shadows));
    run->references = calloc((size_t)s->slot_count + 1, sizeof(*run->references));
    run->xfers = calloc((size_t)messages + 1, sizeof(*run->xfers));
    run->stamps = calloc(2 * (size_t)pass->plan->place.ranks, sizeof(*run->stamps));
    if (!run->slots || !run->home || !run->shadows || !run->references || !run->xfers || !run->stamps)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for a run of %u messages", messages);
    fill_xfers(run);
    run->program = (struct ri_program){
        .schedule = s, .transport = pass->plan->place.transport, .xfers = run->xfers,
        .first_xfer = pass->first_message, .first_chunk = pass->first_chunk, .chunk_end = pass->chunk_end,
        .need = pass->need, .pieces = pass->pieces, .run = ri_run_work,
        .prepare = ri_run_prepare, .leaving = ri_wire_leaving, .arrived = ri_run_arrived, .owner = run,
        .untold_kinds = 1u << RI_STAMP,
    };
    return ri_engine_create(s, &run->engine);
}

void ri_run_release(struct ri_run *run)
{
    ri_engine_destroy(run->engine);
    if (run->arena)
        ri_plan_give(run);
    free(run->slots);
    free(run->home);
    free(run->shadows);
    free(run->references);
    free(run->xfers);
    free(run->stamps);
}

void ri_run_bind(struct ri_run *run, enum ri_tensor tensor, const void *data)
{
    const struct ri_schedule *s = run->pass->schedule;

    if (run->sums[tensor]) {
        run->outputs[tensor] = (void *)(uintptr_t)data;
        data = run->sums[tensor];
    }
    for (uint32_t i = 0; i < s->slot_count; i++)
        if (!ri_slot_is_ours(&s->slots[i]))
            run->slots[i][tensor] = (void *)(uintptr_t)data;
}

int ri_run_start(struct ri_run *run, void *stream)
{
    run->stream = stream;
    run->stamp = ri_stamp_of(run);
    memset(run->stamps, 0, 2 * (size_t)run->pass->plan->place.ranks * sizeof(*run->stamps));
    ri_in_place_start(run);
    ri_wire_start(run);
    bind_messages(run);
    return ri_engine_start(run->engine, &run->program);
}
