/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SCHEDULE_INTERNAL_H
#define RI_SCHEDULE_INTERNAL_H

#include "schedule/schedule.h"

/* Shared by the files of src/schedule only. */

/* Limits that keep every count in its type and hostile texts from taking the memory. */
enum {
    RI_MAX_BLOCKS = 65535,
    RI_MAX_PARTS = 65535, /* head_parts * token_parts, and room of a slot */
    RI_MAX_TURN = 1 << 30,
    RI_MAX_PLACES = 1 << 22 /* over all slots of a schedule */
};

/* What ri_schedule.builder points to: room of the growing arrays, and our copy of the name. */
struct ri_schedule_room {
    uint32_t slots, steps, deps;
    char name[];
};

extern const char *const ri_lane_names[]; /* [enum ri_lane] */
extern const char *const ri_kind_names[]; /* [enum ri_slot_kind] */

/* Makes room for one element more; returns the array, moved or not, or NULL (the old one stays). */
void *ri_grow(void *array, uint32_t *room, uint32_t count, size_t element_bytes);

/* Operands of a step in the order from[0], from[1], to[0], to[1]; the first two are read. */
enum { RI_OPERANDS = 4, RI_FIRST_WRITE = 2 };

static inline const struct ri_operand *ri_step_operand(const struct ri_step *step, int i)
{
    return i < RI_FIRST_WRITE ? &step->from[i] : &step->to[i - RI_FIRST_WRITE];
}

/* The same parts of the same blocks, whatever slots they are in. */
static inline int ri_same_content(const struct ri_operand *a, const struct ri_operand *b)
{
    return a->block == b->block && a->blocks == b->blocks && a->first_part == b->first_part &&
           a->parts == b->parts;
}

static inline int ri_operand_equal(const struct ri_operand *a, const struct ri_operand *b)
{
    return a->slot == b->slot && ri_same_content(a, b);
}

static inline int ri_schedule_parts(const struct ri_schedule *s)
{
    return s->head_parts * s->token_parts;
}

/* The first of all places that belong to each slot, in one numbering; first[slot_count] is how
 * many there are.  Allocated; NULL when out of memory. */
uint32_t *ri_places_create(const struct ri_schedule *s);

/* The place of part `part` (0 .. parts-1, counted in the operand) of its block `block`. */
static inline uint32_t ri_place(const struct ri_schedule *s, const uint32_t *first,
                                const struct ri_operand *o, int block, int part)
{
    int32_t slot = o->slot + block;

    return first[slot] + (uint32_t)(o->first_part + part) % s->slots[slot].parts;
}

/* True when reading the operand in this step takes its content away: SEND, COPY and MERGE empty an
 * accumulated source, but never an `in` slot. */
int ri_step_empties(const struct ri_schedule *s, const struct ri_step *step);

/* Says what is wrong at a step, "name rank 1 step 4 recv turn 2: ...".  RONDO_ERR_ARGUMENT. */
int ri_step_fault(const struct ri_schedule *s, uint32_t step, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* rules.c: what can be said of each slot and step alone. */
int ri_schedule_rules(const struct ri_schedule *s);
/* rules.c: the first slot in which two operands share a place, or -1. */
int ri_shared_slot(const struct ri_schedule *s, const struct ri_operand *a,
                   const struct ri_operand *b);
/* rules.c: turns do not fall within a lane, and no transfer depends, through any chain of this
 * rank's steps, on a transfer of the same or a later turn.  Needs deps. */
int ri_schedule_turn_rules(const struct ri_schedule *s);

/* bind.c: may this transfer bind, as far as this end of it can tell?  On the local lane, a whole
 * block, since a reference is one run of memory; read-only content, received into a view or sent
 * from where no step writes over it unasked. */
int ri_step_can_bind(const struct ri_schedule *s, const struct ri_step *step);
/* bind.c: the binding rule, for bits that are set in the schedules of all ranks: memory that
 * others read in place is written over only in a turn later than all their reads, as said there. */
int ri_schedule_bind_rules(struct ri_schedule *const *schedules, int ranks);

/* derive.c: deps, stores and turns from the slots and steps; refuses what breaks a rule that one
 * rank can see.  May be called again after steps were changed. */
int ri_schedule_derive(struct ri_schedule *s);

#endif
