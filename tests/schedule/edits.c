/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/schedule/edits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct ri_step *nth(struct ri_schedule *s, enum ri_op op, int n)
{
    for (uint32_t i = 0; i < s->step_count; i++)
        if (s->steps[i].op == op && n-- == 0)
            return &s->steps[i];
    fail_msg("%s rank %d has no such step", s->name, (int)s->rank);
    return NULL;
}

void remove_step(struct ri_schedule *s, struct ri_step *step)
{
    uint32_t i = (uint32_t)(step - s->steps);

    memmove(step, step + 1, (s->step_count - i - 1) * sizeof(*step));
    s->step_count--;
}

void insert_step(struct ri_schedule *s, uint32_t at, struct ri_step step)
{
    s->steps = realloc(s->steps, (s->step_count + 1) * sizeof(step));
    assert_non_null(s->steps);
    memmove(s->steps + at + 1, s->steps + at, (s->step_count - at) * sizeof(step));
    s->steps[at] = step;
    s->step_count++;
}

void move_step(struct ri_schedule *s, struct ri_step *step, uint32_t to)
{
    struct ri_step moved = *step;

    remove_step(s, step);
    insert_step(s, to, moved);
}

void swap_steps(struct ri_schedule *s, uint32_t a, uint32_t b)
{
    struct ri_step kept = s->steps[a];

    s->steps[a] = s->steps[b];
    s->steps[b] = kept;
}

void insert_slot(struct ri_schedule *s, int32_t at, enum ri_bundle bundle, enum ri_slot_kind kind)
{
    s->slots = realloc(s->slots, (s->slot_count + 1) * sizeof(*s->slots));
    assert_non_null(s->slots);
    memmove(s->slots + at + 1, s->slots + at, (s->slot_count++ - (size_t)at) * sizeof(*s->slots));
    s->slots[at] = (struct ri_slot){(uint8_t)bundle, (uint8_t)kind,
                                    (uint16_t)(s->head_parts * s->token_parts)};
    for (uint32_t i = 0; i < s->step_count; i++) {
        for (int k = 0; k < 2; k++) {
            s->steps[i].from[k].slot += s->steps[i].from[k].slot >= at;
            s->steps[i].to[k].slot += s->steps[i].to[k].slot >= at;
        }
    }
}

struct ri_operand *operand(struct ri_step *step, int i)
{
    return i < 2 ? &step->from[i] : &step->to[i - 2];
}
