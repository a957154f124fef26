/* SPDX-License-Identifier: Apache-2.0 */
/* Small random changes of schedules. */
#include "tests/schedule/mutate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const char *const field_names[] = {
    "op",    "merge",  "lane",       "bind",  "peer",   "turn",      "slot",
    "block", "blocks", "first part", "parts", "delete", "duplicate", "swap",
    "kind",  "bundle", "room",       "owner", "host",
};

uint32_t random_below(uint64_t *random, uint32_t end)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33) % end;
}

/* How many steps before `step` are of the same op with the same peer. */
static int order_in_pair(const struct ri_schedule *s, uint32_t step)
{
    int order = 0;

    for (uint32_t i = 0; i < step; i++)
        order += s->steps[i].op == s->steps[step].op && s->steps[i].peer == s->steps[step].peer;
    return order;
}

int mate_of(const struct ranks *all, int *rank, uint32_t step)
{
    const struct ri_step *mine = &all->s[*rank]->steps[step];
    const struct ri_schedule *peer;
    int order;

    if (!ri_step_moves(mine))
        return -1;
    order = order_in_pair(all->s[*rank], step);
    peer = all->s[mine->peer];
    for (uint32_t i = 0; i < peer->step_count; i++) {
        if (!ri_step_moves(&peer->steps[i]) || peer->steps[i].op == mine->op ||
            peer->steps[i].peer != *rank || order-- > 0)
            continue;
        *rank = mine->peer;
        return (int)i;
    }
    return -1;
}

static struct ri_operand *operand(struct ri_step *step, int k)
{
    return k < 2 ? &step->from[k] : &step->to[k - 2];
}

/* Values that the field may have, and some beyond. */
static int some_value(const struct ri_schedule *s, enum field field, uint64_t *random)
{
    int parts = s->head_parts * s->token_parts;
    const int from[FIELDS] = {
        [F_PEER] = -1, [F_TURN] = -1, [F_SLOT] = -1, [F_BLOCK] = -1, [F_OWNER] = -1};
    const int end[FIELDS] = {[F_OP] = 6,
                             [F_MERGE] = 3,
                             [F_LANE] = 3,
                             [F_BIND] = 3,
                             [F_PEER] = s->ranks + 1,
                             [F_TURN] = (int)s->turns + 2,
                             [F_SLOT] = (int)s->slot_count + 1,
                             [F_BLOCK] = s->blocks + 1,
                             [F_BLOCKS] = 4,
                             [F_FIRST_PART] = parts + 1,
                             [F_PARTS] = parts + 2,
                             [F_KIND] = RI_OWN + 2,
                             [F_BUNDLE] = RI_BUNDLES + 1,
                             [F_ROOM] = parts + 2,
                             [F_OWNER] = s->ranks + 1,
                             [F_HOST] = 4};

    if (field >= F_DELETE && !is_of_table(field))
        return 0;
    return from[field] + (int)random_below(random, (uint32_t)(end[field] - from[field]));
}

static int get(struct ri_step *step, enum field field, int k)
{
    const struct ri_operand *o = operand(step, k);
    const int values[F_DELETE] = {step->op,   step->merge,   step->lane, step->bind,
                                  step->peer, step->turn,    o->slot,    o->block,
                                  o->blocks,  o->first_part, o->parts};

    return values[field];
}

static void set(struct ri_step *step, enum field field, int k, int value)
{
    struct ri_operand *o = operand(step, k);

    switch (field) {
    case F_OP:
        step->op = (uint8_t)value;
        break;
    case F_MERGE:
        step->merge = (uint8_t)value;
        break;
    case F_LANE:
        step->lane = (uint8_t)value;
        break;
    case F_BIND:
        step->bind = (uint8_t)value;
        break;
    case F_PEER:
        step->peer = value;
        break;
    case F_TURN:
        step->turn = value;
        break;
    case F_SLOT:
        o->slot = value;
        break;
    case F_BLOCK:
        o->block = value;
        break;
    case F_BLOCKS:
        o->blocks = (uint16_t)value;
        break;
    case F_FIRST_PART:
        o->first_part = (uint16_t)value;
        break;
    default:
        o->parts = (uint16_t)value;
        break;
    }
}

static uint32_t entries(const struct ri_schedule *s, enum field field)
{
    return field == F_OWNER  ? (uint32_t)s->blocks
           : field == F_HOST ? (uint32_t)s->ranks
                             : s->slot_count;
}

static int get_entry(const struct ri_schedule *s, enum field field, uint32_t at)
{
    if (field == F_OWNER)
        return s->owner[at];
    if (field == F_HOST)
        return s->host[at];
    return field == F_KIND     ? s->slots[at].kind
           : field == F_BUNDLE ? s->slots[at].bundle
                               : s->slots[at].parts;
}

static void set_entry(struct ri_schedule *s, enum field field, uint32_t at, int value)
{
    if (at >= entries(s, field))
        return;
    if (field == F_OWNER)
        s->owner[at] = value;
    else if (field == F_HOST)
        s->host[at] = value;
    else if (field == F_KIND)
        s->slots[at].kind = (uint8_t)value;
    else if (field == F_BUNDLE)
        s->slots[at].bundle = (uint8_t)value;
    else
        s->slots[at].parts = (uint16_t)value;
}

static void choose_entry(struct mutation *m, const struct ri_schedule *s, uint64_t *random)
{
    m->step = random_below(random, entries(s, m->field));
    m->both = (int)random_below(random, 2);
    do
        m->value = some_value(s, m->field, random);
    while (m->value == get_entry(s, m->field, m->step));
}

struct mutation choose_mutation(const struct ranks *all, uint64_t *random)
{
    struct mutation m = {.field = (enum field)random_below(random, FIELDS),
                         .rank = (int)random_below(random, (uint32_t)all->count)};
    struct ri_schedule *s = all->s[m.rank];
    struct ri_step *step;
    int rank = m.rank;

    if (is_of_table(m.field)) {
        choose_entry(&m, s, random);
        return m;
    }
    m.step = random_below(random, s->step_count);
    step = &s->steps[m.step];
    do
        m.operand = (int)random_below(random, 4);
    while (operand(step, m.operand)->slot < 0);
    m.both = mate_of(all, &rank, m.step) >= 0 && random_below(random, 2);
    do
        m.value = some_value(s, m.field, random);
    while (m.field < F_DELETE && m.value == get(step, m.field, m.operand));
    return m;
}

static void insert_copy(struct ri_schedule *s, uint32_t at)
{
    s->steps = realloc(s->steps, (s->step_count + 1) * sizeof(*s->steps));
    assert_non_null(s->steps);
    memmove(s->steps + at + 1, s->steps + at, (s->step_count - at) * sizeof(*s->steps));
    s->step_count++;
}

static void change(struct ri_schedule *s, const struct mutation *m, uint32_t at, int k)
{
    uint32_t next = at + 1 < s->step_count ? at + 1 : 0;
    struct ri_step kept = s->steps[at];

    if (m->field < F_DELETE) {
        set(&s->steps[at], m->field, k, m->value);
    } else if (m->field == F_DELETE) {
        memmove(s->steps + at, s->steps + at + 1, (s->step_count - at - 1) * sizeof(kept));
        s->step_count--;
    } else if (m->field == F_DUPLICATE) {
        insert_copy(s, at);
    } else {
        s->steps[at] = s->steps[next];
        s->steps[next] = kept;
    }
}

static void mutate_table(struct ranks *all, const struct mutation *m)
{
    for (int r = 0; r < all->count; r++)
        if (m->both || r == m->rank)
            set_entry(all->s[r], m->field, m->step, m->value);
}

static void mutate_step(struct ranks *all, const struct mutation *m)
{
    int rank = m->rank, mate = m->both ? mate_of(all, &rank, m->step) : -1;
    struct ri_step *other = mate < 0 ? NULL : &all->s[rank]->steps[mate];

    change(all->s[m->rank], m, m->step, m->operand);
    if (other)
        change(all->s[rank], m, (uint32_t)mate, other->op == RI_SEND ? 0 : 2);
}

void mutate(struct ranks *all, const struct mutation *m)
{
    if (is_of_table(m->field))
        mutate_table(all, m);
    else
        mutate_step(all, m);
}
