/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/schedule.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/status.h"
#include "schedule/internal.h"

const char *const ri_op_names[] = {
    [RI_COMPUTE] = "compute", [RI_SEND] = "send",   [RI_RECV] = "recv",
    [RI_COPY] = "copy",       [RI_MERGE] = "merge",
};
const char *const ri_lane_names[] = {[RI_LANE_LOCAL] = "local", [RI_LANE_HOST] = "host"};
const char *const ri_bundle_names[] = {
    [RI_Q] = "Q",   [RI_K] = "K",   [RI_X] = "X", [RI_O] = "O",
    [RI_DQ] = "dQ", [RI_DK] = "dK", [RI_R] = "R",
};
const char *const ri_kind_names[] = {
    [RI_IN] = "in", [RI_OUT] = "out", [RI_SAVED] = "saved", [RI_VIEW] = "view", [RI_OWN] = "buf",
};

const struct ri_operand ri_none = {-1, 0, 0, 0, 0};

void *ri_grow(void *array, uint32_t *room, uint32_t count, size_t element_bytes)
{
    uint32_t more = *room ? *room * 2 : 16;
    void *moved;

    if (count < *room)
        return array;
    moved = realloc(array, more * element_bytes);
    if (moved)
        *room = more;
    return moved;
}

int ri_step_fault(const struct ri_schedule *s, uint32_t index, const char *format, ...)
{
    const struct ri_step *step = &s->steps[index];
    char turn[24] = "", reason[512];
    va_list args;

    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    if (ri_step_moves(step))
        snprintf(turn, sizeof(turn), " turn %d", (int)step->turn);
    return ri_error(RONDO_ERR_ARGUMENT, "%s rank %d step %u %s%s: %s", s->name, (int)s->rank,
                    (unsigned)index, step->op <= RI_MERGE ? ri_op_names[step->op] : "?", turn,
                    reason);
}

static int begin_refuses(const char *name, int rank, int ranks)
{
    if (ranks < 1 || ranks > RI_RANKS_MAX)
        return ri_error(RONDO_ERR_ARGUMENT, "schedule %s: %d ranks, allowed are 1 to %d", name,
                        ranks, (int)RI_RANKS_MAX);
    if (rank < 0 || rank >= ranks)
        return ri_error(RONDO_ERR_ARGUMENT, "schedule %s: rank %d of %d ranks", name, rank, ranks);
    return 0;
}

int ri_schedule_begin(struct ri_schedule **schedule, const char *name, int rank, int ranks,
                      const int32_t *host)
{
    int err = begin_refuses(name, rank, ranks);
    struct ri_schedule *s;
    struct ri_schedule_room *room;

    if (err)
        return err;
    s = calloc(1, sizeof(*s));
    room = calloc(1, sizeof(*room) + strlen(name) + 1);
    if (!s || !room) {
        free(s);
        free(room);
        return ri_error(RONDO_ERR_MEMORY, "schedule %s: out of memory", name);
    }
    strcpy(room->name, name);
    *s = (struct ri_schedule){.name = room->name,
                              .rank = rank,
                              .ranks = ranks,
                              .head_parts = 1,
                              .token_parts = 1,
                              .blocks = ranks,
                              .builder = room};
    s->owner = calloc((size_t)ranks, sizeof(*s->owner));
    s->host = calloc((size_t)ranks, sizeof(*s->host));
    if (!s->owner || !s->host) {
        ri_schedule_destroy(s);
        return ri_error(RONDO_ERR_MEMORY, "schedule %s: out of memory", name);
    }
    for (int r = 0; r < ranks; r++) {
        s->owner[r] = r;
        s->host[r] = host ? host[r] : 0;
    }
    *schedule = s;
    return 0;
}

void ri_schedule_destroy(struct ri_schedule *schedule)
{
    if (!schedule)
        return;
    free(schedule->owner);
    free(schedule->host);
    free(schedule->slots);
    free(schedule->steps);
    free(schedule->deps);
    free(schedule->builder);
    free(schedule);
}

static int is_callers(const struct ri_slot *slot)
{
    return slot->kind == RI_IN || slot->kind == RI_OUT || slot->kind == RI_SAVED;
}

int32_t ri_schedule_slot(struct ri_schedule *s, enum ri_bundle bundle, enum ri_slot_kind kind,
                         int parts)
{
    struct ri_schedule_room *room = s->builder;
    struct ri_slot *slots;

    if (s->error)
        return -1;
    if (parts < 1 || parts > RI_MAX_PARTS) {
        s->error = ri_error(RONDO_ERR_ARGUMENT, "schedule %s: slot %u with room for %d parts",
                            s->name, (unsigned)s->slot_count, parts);
        return -1;
    }
    slots = ri_grow(s->slots, &room->slots, s->slot_count, sizeof(*slots));
    if (!slots) {
        s->error = ri_error(RONDO_ERR_MEMORY, "schedule %s: out of memory", s->name);
        return -1;
    }
    s->slots = slots;
    slots[s->slot_count] = (struct ri_slot){(uint8_t)bundle, (uint8_t)kind, (uint16_t)parts};
    return (int32_t)s->slot_count++;
}

struct ri_operand ri_operand(const struct ri_schedule *s, int32_t slot, int32_t block)
{
    return (struct ri_operand){slot, block, 1, 0, (uint16_t)ri_schedule_parts(s)};
}

struct ri_operand ri_operand_parts(int32_t slot, int32_t block, int first_part, int parts)
{
    return (struct ri_operand){slot, block, 1, (uint16_t)first_part, (uint16_t)parts};
}

static void append(struct ri_schedule *s, struct ri_step step)
{
    struct ri_schedule_room *room = s->builder;
    struct ri_step *steps;

    if (s->error)
        return;
    steps = ri_grow(s->steps, &room->steps, s->step_count, sizeof(*steps));
    if (!steps) {
        s->error = ri_error(RONDO_ERR_MEMORY, "schedule %s: out of memory", s->name);
        return;
    }
    s->steps = steps;
    steps[s->step_count++] = step;
}

/* The lane is a property of the pair; a peer out of range gets any, and is refused at the end. */
static uint8_t lane_to(const struct ri_schedule *s, int peer)
{
    if (peer < 0 || peer >= s->ranks)
        return RI_LANE_LOCAL;
    return s->host[peer] == s->host[s->rank] ? RI_LANE_LOCAL : RI_LANE_HOST;
}

void ri_schedule_send(struct ri_schedule *s, struct ri_operand from, int peer, int turn)
{
    append(s, (struct ri_step){.op = RI_SEND,
                               .lane = lane_to(s, peer),
                               .peer = peer,
                               .turn = turn,
                               .from = {from, ri_none},
                               .to = {ri_none, ri_none}});
}

void ri_schedule_recv(struct ri_schedule *s, struct ri_operand to, int peer, int turn)
{
    append(s, (struct ri_step){.op = RI_RECV,
                               .lane = lane_to(s, peer),
                               .peer = peer,
                               .turn = turn,
                               .from = {ri_none, ri_none},
                               .to = {to, ri_none}});
}

void ri_schedule_compute(struct ri_schedule *s, struct ri_operand query, struct ri_operand key,
                         struct ri_operand query_side, struct ri_operand key_side)
{
    append(s, (struct ri_step){.op = RI_COMPUTE,
                               .peer = -1,
                               .turn = -1,
                               .from = {query, key},
                               .to = {query_side, key_side}});
}

void ri_schedule_copy(struct ri_schedule *s, struct ri_operand from, struct ri_operand to)
{
    append(
        s,
        (struct ri_step){
            .op = RI_COPY, .peer = -1, .turn = -1, .from = {from, ri_none}, .to = {to, ri_none}});
}

void ri_schedule_merge(struct ri_schedule *s, enum ri_merge merge, struct ri_operand from,
                       struct ri_operand to)
{
    append(s, (struct ri_step){.op = RI_MERGE,
                               .merge = (uint8_t)merge,
                               .peer = -1,
                               .turn = -1,
                               .from = {from, ri_none},
                               .to = {to, ri_none}});
}

/* Marks in number[] the slots that steps use, and the caller's, which keep their numbers. */
static void mark_used(const struct ri_schedule *s, int32_t *number)
{
    for (uint32_t i = 0; i < s->slot_count; i++)
        number[i] = is_callers(&s->slots[i]);
    for (uint32_t i = 0; i < s->step_count; i++) {
        for (int k = 0; k < RI_OPERANDS; k++) {
            const struct ri_operand *o = ri_step_operand(&s->steps[i], k);

            for (int b = 0; o->slot >= 0 && b < o->blocks; b++)
                number[o->slot + b] = 1;
        }
    }
}

static void renumber(struct ri_schedule *s, const int32_t *number)
{
    for (uint32_t i = 0; i < s->step_count; i++) {
        struct ri_step *step = &s->steps[i];

        for (int k = 0; k < 2; k++) {
            if (step->from[k].slot >= 0)
                step->from[k].slot = number[step->from[k].slot];
            if (step->to[k].slot >= 0)
                step->to[k].slot = number[step->to[k].slot];
        }
    }
}

/* Operands are in range here.  Slots that one operand spans are all used: they stay neighbours. */
static int remove_unused_slots(struct ri_schedule *s)
{
    int32_t *number = calloc(s->slot_count + 1, sizeof(*number));
    uint32_t kept = 0;

    if (!number)
        return ri_error(RONDO_ERR_MEMORY, "schedule %s: out of memory", s->name);
    mark_used(s, number);
    for (uint32_t i = 0; i < s->slot_count; i++) {
        int used = number[i];

        number[i] = (int32_t)kept;
        if (used)
            s->slots[kept++] = s->slots[i];
    }
    s->slot_count = kept;
    renumber(s, number);
    free(number);
    return 0;
}

static int finish(struct ri_schedule *s)
{
    int err = s->error;

    if (!err)
        err = ri_schedule_rules(s);
    if (!err)
        err = remove_unused_slots(s);
    return err ? err : ri_schedule_derive(s);
}

int ri_schedule_end(struct ri_schedule **schedule)
{
    int err = finish(*schedule);

    if (err) {
        ri_schedule_destroy(*schedule);
        *schedule = NULL;
    }
    return err;
}
