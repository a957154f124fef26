/* SPDX-License-Identifier: Apache-2.0 */
/* What builders never write by hand: dependencies, and whether a write stores or adds. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "schedule/internal.h"

/* One part's room of a slot, as the steps so far leave it. */
struct place {
    int32_t writer;      /* last step that wrote it, or -1 */
    uint32_t readers;    /* steps that read it since: index into derivation.readers, 0: none */
    int32_t block, part; /* what it holds; -1: the caller's, not yet named by a reader */
    uint8_t full;
};

struct reader {
    uint32_t step, next;
};

struct derivation {
    struct ri_schedule *s;
    uint32_t *first;      /* [slot_count + 1] see ri_places_create */
    struct place *places; /* [first[slot_count]] */
    struct reader *readers;
    uint32_t reader_count, reader_room; /* readers[0] is unused */
    uint32_t *seen;                     /* [step_count] i + 1: step i depends on it already */
};

uint32_t *ri_places_create(const struct ri_schedule *s)
{
    uint32_t *first = calloc((size_t)s->slot_count + 1, sizeof(*first));

    for (uint32_t i = 0; first && i < s->slot_count; i++)
        first[i + 1] = first[i] + s->slots[i].parts;
    return first;
}

int ri_step_empties(const struct ri_schedule *s, const struct ri_step *step)
{
    const struct ri_operand *from = &step->from[0];

    return step->op != RI_COMPUTE && from->slot >= 0 && s->slots[from->slot].kind != RI_IN &&
           ri_bundle_accumulates(s->slots[from->slot].bundle);
}

static int no_memory(const struct ri_schedule *s)
{
    return ri_error(RONDO_ERR_MEMORY, "schedule %s: out of memory", s->name);
}

static void release(struct derivation *d)
{
    free(d->first);
    free(d->places);
    free(d->readers);
    free(d->seen);
}

static int init(struct derivation *d, struct ri_schedule *s)
{
    *d = (struct derivation){.s = s, .reader_count = 1, .first = ri_places_create(s)};
    d->seen = calloc((size_t)s->step_count + 1, sizeof(*d->seen));
    if (d->first)
        d->places = calloc((size_t)d->first[s->slot_count] + 1, sizeof(*d->places));
    if (!d->first || !d->seen || !d->places)
        return no_memory(s);
    for (uint32_t i = 0; i < s->slot_count; i++)
        for (uint32_t p = d->first[i]; p < d->first[i + 1]; p++)
            d->places[p] = (struct place){-1, 0, -1, -1, s->slots[i].kind == RI_IN};
    return 0;
}

static int depend(struct derivation *d, uint32_t step, int32_t on)
{
    struct ri_schedule *s = d->s;
    struct ri_schedule_room *room = s->builder;
    uint32_t *deps;

    if (on < 0 || (uint32_t)on == step || d->seen[on] == step + 1)
        return 0;
    deps = ri_grow(s->deps, &room->deps, s->dep_count, sizeof(*deps));
    if (!deps)
        return no_memory(s);
    s->deps = deps;
    d->seen[on] = step + 1;
    deps[s->dep_count++] = (uint32_t)on;
    s->steps[step].deps++;
    return 0;
}

static int add_reader(struct derivation *d, struct place *place, uint32_t step)
{
    struct reader *readers =
        ri_grow(d->readers, &d->reader_room, d->reader_count, sizeof(*readers));

    if (!readers)
        return no_memory(d->s);
    d->readers = readers;
    readers[d->reader_count] = (struct reader){step, place->readers};
    place->readers = d->reader_count++;
    return 0;
}

/* Read after write.  Content that the step takes away counts as read: nothing can read it again,
 * and whoever writes the place next waits for the readers. */
static int read_place(struct derivation *d, uint32_t step, const struct ri_operand *o, int b, int p)
{
    struct place *place = &d->places[ri_place(d->s, d->first, o, b, p)];
    const char *bundle = ri_bundle_names[d->s->slots[o->slot].bundle];
    int32_t block = o->block + b, part = o->first_part + p;
    int err;

    if (!place->full)
        return ri_step_fault(d->s, step, "reads %s%d.%d from slot %d, which is empty", bundle,
                             (int)block, (int)part, (int)o->slot + b);
    if (place->block < 0) {
        place->block = block;
        place->part = part;
    }
    if (place->block != block || place->part != part)
        return ri_step_fault(d->s, step, "slot %d holds %s%d.%d, the step names %s%d.%d",
                             (int)o->slot + b, bundle, (int)place->block, (int)place->part, bundle,
                             (int)block, (int)part);
    err = depend(d, step, place->writer);
    if (!err)
        err = add_reader(d, place, step);
    if (!err && ri_step_empties(d->s, &d->s->steps[step]))
        place->full = 0;
    return err;
}

/* May this step write over what the place holds?  stores: it was empty, or its content is dead. */
static int write_stores(struct derivation *d, uint32_t step, const struct ri_operand *o, int b,
                        int p, int *stores)
{
    const struct place *place = &d->places[ri_place(d->s, d->first, o, b, p)];
    int32_t block = o->block + b, part = o->first_part + p;
    int bundle = d->s->slots[o->slot].bundle, op = d->s->steps[step].op;

    *stores = !place->full || !ri_bundle_accumulates(bundle);
    if (*stores)
        return 0;
    if (op == RI_RECV || op == RI_COPY)
        return ri_step_fault(d->s, step, "writes slot %d over %s%d.%d, which nobody took",
                             (int)o->slot + b, ri_bundle_names[bundle], (int)place->block,
                             (int)place->part);
    if (place->block != block || place->part != part)
        return ri_step_fault(d->s, step, "adds %s%d.%d to slot %d, which holds %s%d.%d",
                             ri_bundle_names[bundle], (int)block, (int)part, (int)o->slot + b,
                             ri_bundle_names[bundle], (int)place->block, (int)place->part);
    return 0;
}

/* Write after write and write after read. */
static int write_place(struct derivation *d, uint32_t step, const struct ri_operand *o, int b,
                       int p)
{
    struct place *place = &d->places[ri_place(d->s, d->first, o, b, p)];
    int err = depend(d, step, place->writer);

    for (uint32_t r = place->readers; !err && r; r = d->readers[r].next)
        err = depend(d, step, (int32_t)d->readers[r].step);
    *place = (struct place){(int32_t)step, 0, o->block + b, o->first_part + p, 1};
    return err;
}

static int write_operand(struct derivation *d, uint32_t step, int k)
{
    const struct ri_operand *o = &d->s->steps[step].to[k];
    int all = -1, err = 0;

    if (o->slot < 0)
        return 0;
    for (int b = 0; b < o->blocks; b++) {
        for (int p = 0; p < o->parts; p++) {
            int stores;

            err = write_stores(d, step, o, b, p, &stores);
            if (!err && all >= 0 && stores != all)
                err = ri_step_fault(d->s, step,
                                    "stores some parts of slot %d and adds to others: split it",
                                    (int)o->slot + b);
            if (!err)
                err = write_place(d, step, o, b, p);
            if (err)
                return err;
            all = stores;
        }
    }
    if (all)
        d->s->steps[step].stores |= 1u << k;
    return 0;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static int derive_step(struct derivation *d, uint32_t i)
{
    struct ri_step *step = &d->s->steps[i];
    int err = 0;

    step->first_dep = d->s->dep_count;
    step->deps = step->stores = 0;
    for (int k = 0; k < RI_FIRST_WRITE; k++) {
        const struct ri_operand *o = &step->from[k];

        for (int b = 0; o->slot >= 0 && b < o->blocks; b++)
            for (int p = 0; !err && p < o->parts; p++)
                err = read_place(d, i, o, b, p);
    }
    for (int k = 0; !err && k < 2; k++)
        err = write_operand(d, i, k);
    if (!err && step->deps > 1)
        qsort(d->s->deps + step->first_dep, step->deps, sizeof(*d->s->deps), by_number);
    if (ri_step_moves(step) && (uint32_t)step->turn >= d->s->turns)
        d->s->turns = (uint32_t)step->turn + 1;
    return err;
}

/* A sum left in a buffer of ours has lost its way home. */
static int nothing_left(const struct derivation *d)
{
    const struct ri_schedule *s = d->s;

    for (uint32_t i = 0; i < s->slot_count; i++) {
        if (s->slots[i].kind != RI_OWN || !ri_bundle_accumulates(s->slots[i].bundle))
            continue;
        for (uint32_t p = d->first[i]; p < d->first[i + 1]; p++)
            if (d->places[p].full)
                return ri_step_fault(s, (uint32_t)d->places[p].writer,
                                     "leaves %s%d.%d in slot %u for good",
                                     ri_bundle_names[s->slots[i].bundle], (int)d->places[p].block,
                                     (int)d->places[p].part, (unsigned)i);
    }
    return 0;
}

int ri_schedule_derive(struct ri_schedule *s)
{
    struct derivation d;
    int err = ri_schedule_rules(s);

    if (err)
        return err;
    s->dep_count = s->turns = 0;
    err = init(&d, s);
    for (uint32_t i = 0; !err && i < s->step_count; i++)
        err = derive_step(&d, i);
    if (!err)
        err = nothing_left(&d);
    if (!err)
        err = ri_schedule_turn_rules(s);
    release(&d);
    return err;
}
