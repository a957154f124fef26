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

static int conflict(const struct ri_schedule *s, uint32_t first, uint32_t then)
{
    const struct ri_step *x = &s->steps[first], *y = &s->steps[then];

    for (int i = 0; i < RI_OPERANDS; i++) {
        for (int k = 0; k < RI_OPERANDS; k++) {
            int slot = ri_shared_slot(s, ri_step_operand(x, i), ri_step_operand(y, k));

            if (slot >= 0 && (changes(s, x, i) || changes(s, y, k)))
                return slot;
        }
    }
    return -1;
}

static int check_pairs(const struct ri_schedule *s, const struct before *before)
{
    for (uint32_t i = 0; i < s->step_count; i++) {
        for (uint32_t k = 0; k < i; k++) {
            int slot = is_before(before, k, i) ? -1 : conflict(s, k, i);

            if (slot >= 0)
                return ri_step_fault(s, i, "uses slot %d without waiting for step %u", slot,
                                     (unsigned)k);
        }
    }
    return 0;
}

int ri_check_order(const struct ri_schedule *s)
{
    struct before before = {0};
    int err = close_dependencies(s, &before);

    if (!err)
        err = ri_schedule_turn_rules(s);
    if (!err)
        err = check_pairs(s, &before);
    free(before.bits);
    return err;
}
