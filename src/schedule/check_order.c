/* SPDX-License-Identifier: Apache-2.0 */
/* Dependencies suffice: whatever order they leave open gives the same result. */
#include <stdlib.h>

#include "base/status.h"
#include "schedule/check.h"

/* Row i: the steps that are done before step i starts, as bits. */
struct before {
    uint64_t *bits;
    size_t words;
};

static int is_before(const struct before *before, uint32_t first, uint32_t then)
{
    return before->bits[then * before->words + first / 64] >> first % 64 & 1;
}

static int close_dependencies(const struct ri_schedule *s, struct before *before)
{
    before->words = ((size_t)s->step_count + 63) / 64;
    before->bits = calloc(s->step_count * before->words + 1, sizeof(*before->bits));
    if (!before->bits)
        return ri_error(RONDO_ERR_MEMORY, "schedule check: out of memory");
    for (uint32_t i = 0; i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];
        uint64_t *row = before->bits + i * before->words;

        if (step->first_dep > s->dep_count || step->deps > s->dep_count - step->first_dep)
            return ri_step_fault(s, i, "has dependencies out of range");
        for (uint32_t d = 0; d < step->deps; d++) {
            uint32_t on = s->deps[step->first_dep + d];

            if (on >= i)
                return ri_step_fault(s, i, "depends on step %u, which is not before it",
                                     (unsigned)on);
            for (size_t w = 0; w < before->words; w++)
                row[w] |= before->bits[on * before->words + w];
            row[on / 64] |= (uint64_t)1 << on % 64;
        }
    }
    return 0;
}

/* Taking content away changes the place as a write does. */
static int changes(const struct ri_schedule *s, const struct ri_step *step, int operand)
{
    return operand >= RI_FIRST_WRITE || ri_step_empties(s, step);
}

/* Who touched a place so far.  What was touched before the last change is done before that. */
struct touched {
    uint32_t changer; /* a step plus one; 0: none */
    uint32_t reader;  /* the last since then: index into touches.list; 0: none */
};

struct reader {
    uint32_t step, before; /* before: the reader before this one, as in touched */
};

struct touches {
    uint32_t *first;     /* see ri_places_create */
    struct touched *at;  /* [places] */
    struct reader *list; /* list[0] is unused */
    uint32_t count, room;
};

static int waits_not(const struct ri_schedule *s, uint32_t step, uint32_t other, int slot)
{
    return ri_step_fault(s, step, "uses slot %d without waiting for step %u", slot,
                         (unsigned)other);
}

/* Step i touches a place of `slot`: it must wait for the last change, and to change it for all who
 * read since.  Through these it waits for everybody else who matters. */
static int touch(const struct ri_schedule *s, const struct before *before, struct touches *all,
                 uint32_t i, uint32_t place, int slot, int change)
{
    struct touched *at = &all->at[place];
    struct reader *list;

    if (at->changer && at->changer - 1 != i && !is_before(before, at->changer - 1, i))
        return waits_not(s, i, at->changer - 1, slot);
    for (uint32_t r = at->reader; change && r; r = all->list[r].before)
        if (all->list[r].step != i && !is_before(before, all->list[r].step, i))
            return waits_not(s, i, all->list[r].step, slot);
    if (change) {
        *at = (struct touched){i + 1, 0};
        return 0;
    }
    list = ri_grow(all->list, &all->room, all->count, sizeof(*list));
    if (!list)
        return ri_error(RONDO_ERR_MEMORY, "schedule check: out of memory");
    all->list = list;
    list[all->count] = (struct reader){i, at->reader};
    at->reader = all->count++;
    return 0;
}

static int touch_all(const struct ri_schedule *s, const struct before *before, struct touches *all,
                     uint32_t i)
{
    const struct ri_step *step = &s->steps[i];
    int err = 0;

    for (int k = 0; k < RI_OPERANDS; k++) {
        const struct ri_operand *o = ri_step_operand(step, k);
        int places = o->slot < 0 ? 0 : o->blocks * o->parts;

        for (int n = 0; !err && n < places; n++)
            err = touch(s, before, all, i,
                        ri_place(s, all->first, o, n / o->parts, n % o->parts),
                        o->slot + n / o->parts, changes(s, step, k));
    }
    return err;
}

static int check_touches(const struct ri_schedule *s, const struct before *before)
{
    struct touches all = {.first = ri_places_create(s), .count = 1};
    int err = 0;

    if (all.first)
        all.at = calloc((size_t)all.first[s->slot_count] + 1, sizeof(*all.at));
    if (!all.at)
        err = ri_error(RONDO_ERR_MEMORY, "schedule check: out of memory");
    for (uint32_t i = 0; !err && i < s->step_count; i++)
        err = touch_all(s, before, &all, i);
    free(all.first);
    free(all.at);
    free(all.list);
    return err;
}

int ri_check_order(const struct ri_schedule *s)
{
    struct before before = {0};
    int err = close_dependencies(s, &before);

    if (!err)
        err = ri_schedule_turn_rules(s);
    if (!err)
        err = check_touches(s, &before);
    free(before.bits);
    return err;
}
