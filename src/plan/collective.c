/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/collective.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "device/device.h"
#include "kernels/table.h"

struct ri_collective {
    struct ri_place place;
    struct ri_schedule *schedule;
    struct ri_engine *engine;
    struct ri_program program;
    struct ri_xfer *xfers;
    uint32_t *first_xfer, *pieces;
    char **slots;         /* [slot_count] memory of each slot */
    char *memory;         /* of our own slots */
    size_t memory_bytes;
    int reserved;         /* messages of the transport */
    size_t count, element_bytes; /* of the vector of this run */
    rondo_dtype_t dtype;
};

/* Part p of m holds count div m + (p < count mod m) elements. */
static size_t part_start(size_t count, size_t parts, size_t part)
{
    size_t extra = count % parts;

    return part * (count / parts) + (part < extra ? part : extra);
}

static size_t block_parts(const struct ri_collective *c)
{
    return (size_t)c->schedule->head_parts * (size_t)c->schedule->token_parts;
}

struct span {
    char *base;
    size_t bytes;
};

/* Memory of an operand.  A slot with room for all parts holds the vector as it is; one with less room
 * has places of equal size, that of the largest part. */
static struct span operand_memory(const struct ri_collective *c, const struct ri_operand *operand)
{
    const struct ri_slot *slot = &c->schedule->slots[operand->slot];
    size_t parts = block_parts(c), first = operand->first_part;
    size_t start = part_start(c->count, parts, first);
    size_t end = part_start(c->count, parts, first + operand->parts);
    size_t at = start;

    if (slot->parts < parts)
        at = (first % slot->parts) * part_start(c->count, parts, 1);
    return (struct span){ c->slots[operand->slot] + at * c->element_bytes,
                          (end - start) * c->element_bytes };
}

static size_t slot_bytes(const struct ri_collective *c, const struct ri_slot *slot)
{
    size_t parts = block_parts(c), elements = c->count;

    if (slot->parts < parts)
        elements = slot->parts * part_start(c->count, parts, 1);
    return (elements * c->element_bytes + 63) & ~(size_t)63;
}

/* ---- making ---- */

static int list_messages(struct ri_collective *c)
{
    const struct ri_schedule *s = c->schedule;
    uint32_t *counts = calloc(2 * (size_t)c->place.ranks, sizeof(*counts));
    uint32_t next = 0;

    if (!counts)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for messages");
    for (uint32_t i = 0; i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];
        int send = step->op == RI_SEND;

        c->first_xfer[i] = next;
        c->pieces[i] = !ri_step_moves(step);
        if (c->pieces[i] == 0)
            c->xfers[next++] = (struct ri_xfer){
                .tag = counts[send * c->place.ranks + step->peer]++, .peer = step->peer,
                .send = (uint8_t)send, .lane = step->lane,
            };
    }
    c->first_xfer[s->step_count] = next;
    free(counts);
    return 0;
}

static int run_step(void *owner, uint32_t index, uint32_t piece)
{
    struct ri_collective *c = owner;
    const struct ri_step *step = &c->schedule->steps[index];
    struct span from = operand_memory(c, &step->from[0]), to = operand_memory(c, &step->to[0]);

    (void)piece;
    if (from.bytes == 0 || from.base == to.base)
        return 0;
    if (step->op != RI_MERGE || (step->stores & 1))
        ri_device_host.copy(to.base, from.base, from.bytes);
    else if (c->dtype == RONDO_F64)
        ri_merge_sum_f64((double *)(void *)to.base, (const double *)(const void *)from.base,
                         from.bytes / sizeof(double));
    else
        ri_merge_sum_f32((float *)(void *)to.base, (const float *)(const void *)from.base,
                         from.bytes / sizeof(float));
    return 0;
}

/* All its messages may be under way at once, when a peer is slow. */
static int reserve(struct ri_collective *c)
{
    struct ri_transport *transport = c->place.transport;
    int messages = (int)c->first_xfer[c->schedule->step_count];
    int err = transport->ops->reserve ? transport->ops->reserve(transport, messages) : 0;

    if (!err && transport->ops->reserve)
        c->reserved = messages;
    return err;
}

int ri_collective_create(const struct ri_place *place, ri_builder *build, int root,
                         struct ri_collective **collective)
{
    struct ri_collective *c = calloc(1, sizeof(*c));
    size_t steps;
    int err;

    if (!c)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for a collective");
    c->place = *place;
    err = build(&c->schedule, &(struct ri_build){ .rank = place->rank, .ranks = place->ranks,
                                                  .host = place->host, .root = root });
    if (err)
        goto destroy;
    steps = (size_t)c->schedule->step_count + 1;
    c->xfers = calloc(steps, sizeof(*c->xfers));
    c->first_xfer = calloc(steps, sizeof(uint32_t));
    c->pieces = calloc(steps, sizeof(uint32_t));
    c->slots = calloc((size_t)c->schedule->slot_count + 1, sizeof(*c->slots));
    err = RONDO_ERR_MEMORY;
    if (!c->xfers || !c->first_xfer || !c->pieces || !c->slots) {
        ri_error(err, "out of memory for a collective of %zu steps", steps);
        goto destroy;
    }
    err = list_messages(c);
    if (!err)
        err = ri_engine_create(c->schedule, &c->engine);
    if (!err)
        err = reserve(c);
    if (err)
        goto destroy;
    c->program = (struct ri_program){
        .schedule = c->schedule, .transport = place->transport, .xfers = c->xfers,
        .first_xfer = c->first_xfer, .pieces = c->pieces, .run = run_step, .owner = c,
    };
    *collective = c;
    return 0;

destroy:
    ri_collective_destroy(c);
    return err;
}

void ri_collective_destroy(struct ri_collective *c)
{
    if (!c)
        return;
    ri_engine_destroy(c->engine);
    if (c->reserved)
        c->place.transport->ops->reserve(c->place.transport, -c->reserved);
    ri_schedule_destroy(c->schedule);
    ri_device_host.release(c->memory);
    free(c->xfers);
    free(c->first_xfer);
    free(c->pieces);
    free(c->slots);
    free(c);
}

/* ---- one run ---- */

/* Gives each slot its memory; ours grows when it is too small. */
static int place_slots(struct ri_collective *c, const void *input, void *output)
{
    size_t used = 0;

    for (uint32_t i = 0; i < c->schedule->slot_count; i++)
        if (ri_slot_is_ours(&c->schedule->slots[i]))
            used += slot_bytes(c, &c->schedule->slots[i]);
    if (used > c->memory_bytes) {
        char *memory = ri_device_host.alloc(used);

        if (!memory)
            return ri_error(RONDO_ERR_MEMORY, "out of memory for %zu bytes of parts in flight", used);
        ri_device_host.release(c->memory);
        c->memory = memory;
        c->memory_bytes = used;
    }
    used = 0;
    for (uint32_t i = 0; i < c->schedule->slot_count; i++) {
        const struct ri_slot *slot = &c->schedule->slots[i];

        if (ri_slot_is_ours(slot)) {
            c->slots[i] = c->memory + used;
            used += slot_bytes(c, slot);
        } else {
            c->slots[i] = slot->kind == RI_OUT ? output : (char *)(uintptr_t)input;
        }
    }
    return 0;
}

int ri_collective_start(struct ri_collective *c, const void *input, void *output, size_t count,
                        rondo_dtype_t dtype, size_t element_bytes, uint32_t run)
{
    const struct ri_schedule *s = c->schedule;
    int err;

    c->count = count;
    c->dtype = dtype;
    c->element_bytes = element_bytes;
    err = place_slots(c, input, output);
    if (err)
        return err;
    for (uint32_t i = 0; i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];
        struct ri_xfer *xfer = &c->xfers[c->first_xfer[i]];
        struct span span;

        if (c->pieces[i] > 0)
            continue;
        span = operand_memory(c, ri_step_moved(step));
        xfer->base = span.base;
        xfer->row_bytes = xfer->row_stride = span.bytes;
        xfer->rows = span.bytes > 0;
        xfer->tag = ri_message_tag(RI_TAG_COLLECTIVES, run, (uint32_t)(xfer->tag & (RI_TAG_MESSAGES - 1)));
    }
    return ri_engine_start(c->engine, &c->program);
}

struct ri_engine *ri_collective_engine(struct ri_collective *c)
{
    return c->engine;
}
