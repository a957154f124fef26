/* SPDX-License-Identifier: Apache-2.0 */
/* Every fault is caught twice: by whoever sees it first when all is derived again, and by the
 * checker alone when nothing before it had a rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <rondo/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/internal.h"
#include "tests/schedule/faults.h"

static const struct fault *const tables[] = {faults, bundle_faults};

static int is_read_only(const struct ri_schedule *s, const struct ri_step *step, int operand)
{
    const struct ri_operand *o = operand < 2 ? &step->from[operand] : &step->to[operand - 2];

    return operand < 2 && (step->op == RI_COMPUTE || s->slots[o->slot].kind == RI_IN ||
                           s->slots[o->slot].bundle < RI_O);
}

/* Place by place, with no arithmetic shared with the library. */
static int touch(const struct ri_schedule *s, const struct ri_operand *a,
                 const struct ri_operand *b)
{
    for (int i = 0; a->slot >= 0 && i < a->blocks; i++)
        for (int p = 0; p < a->parts; p++)
            for (int k = 0; b->slot >= 0 && k < b->blocks; k++)
                for (int q = 0; q < b->parts; q++)
                    if (a->slot + i == b->slot + k &&
                        (a->first_part + p) % s->slots[a->slot + i].parts ==
                            (b->first_part + q) % s->slots[a->slot + i].parts)
                        return 1;
    return 0;
}

static int must_wait(const struct ri_schedule *s, const struct ri_step *first,
                     const struct ri_step *then)
{
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            const struct ri_operand *a = i < 2 ? &first->from[i] : &first->to[i - 2];
            const struct ri_operand *b = k < 2 ? &then->from[k] : &then->to[k - 2];

            if (touch(s, a, b) && !(is_read_only(s, first, i) && is_read_only(s, then, k)))
                return 1;
        }
    return 0;
}

static int all_full(const struct ri_schedule *s, uint8_t *const *full, const struct ri_operand *o)
{
    int count = 0;

    for (int b = 0; b < o->blocks; b++)
        for (int p = 0; p < o->parts; p++)
            count += full[o->slot + b][(o->first_part + p) % s->slots[o->slot + b].parts];
    return count > 0;
}

static void fill(const struct ri_schedule *s, uint8_t *const *full, const struct ri_operand *o,
                 uint8_t to)
{
    for (int b = 0; b < o->blocks; b++)
        for (int p = 0; p < o->parts; p++)
            full[o->slot + b][(o->first_part + p) % s->slots[o->slot + b].parts] = to;
}

static void derive_stores(struct ri_schedule *s)
{
    uint8_t *full[256];

    assert_true(s->slot_count <= 256);
    for (uint32_t i = 0; i < s->slot_count; i++) {
        full[i] = malloc(s->slots[i].parts);
        assert_non_null(full[i]);
        memset(full[i], s->slots[i].kind == RI_IN, s->slots[i].parts);
    }
    for (uint32_t i = 0; i < s->step_count; i++) {
        struct ri_step *step = &s->steps[i];

        step->stores = 0;
        if (step->from[0].slot >= 0 && !is_read_only(s, step, 0))
            fill(s, full, &step->from[0], 0);
        for (int k = 0; k < 2; k++) {
            if (step->to[k].slot < 0)
                continue;
            if (s->slots[step->to[k].slot].bundle < RI_O || !all_full(s, full, &step->to[k]))
                step->stores |= 1u << k;
            fill(s, full, &step->to[k], 1);
        }
    }
    for (uint32_t i = 0; i < s->slot_count; i++)
        free(full[i]);
}

void derive_loosely(struct ri_schedule *s)
{
    uint32_t *deps = calloc((size_t)s->step_count * s->step_count + 1, sizeof(*deps));

    assert_non_null(deps);
    free(s->deps);
    s->deps = deps;
    s->dep_count = 0;
    for (uint32_t i = 0; i < s->step_count; i++) {
        s->steps[i].first_dep = s->dep_count;
        for (uint32_t k = 0; k < i; k++)
            if (must_wait(s, &s->steps[k], &s->steps[i]))
                deps[s->dep_count++] = k;
        s->steps[i].deps = s->dep_count - s->steps[i].first_dep;
    }
    derive_stores(s);
}

/* Or the slot, where it is wrong whatever the steps are. */
static void names_rank_and_step(const char *message)
{
    if (!strstr(message, "rank ") || !(strstr(message, "step ") || strstr(message, " slot ")))
        fail_msg("'%s' does not name rank and step", message);
}

static void is_caught_by_someone(void **state)
{
    const struct fault *fault = *state;
    struct ri_check check;
    struct ranks all;
    int err = 0;

    fault->make(&all);
    ranks_accept(&all, fault->goal);
    if (fault->damage)
        fault->damage(&all);
    for (int r = 0; !err && r < all.count; r++)
        err = ri_schedule_derive(all.s[r]);
    if (!err && fault->damage_after)
        fault->damage_after(&all);
    if (!err)
        err = ri_schedule_check(all.s, all.count, fault->goal, &check);
    assert_true(err == RONDO_ERR_ARGUMENT || err == RONDO_ERR_MISMATCH);
    names_rank_and_step(rondo_last_error());
    ranks_release(&all);
}

static void is_caught_by_the_checker(void **state)
{
    const struct fault *fault = *state;
    struct ri_check check;
    struct ranks all;

    fault->make(&all);
    if (fault->damage)
        fault->damage(&all);
    for (int r = 0; r < all.count; r++)
        derive_loosely(all.s[r]);
    if (fault->damage_after)
        fault->damage_after(&all);
    assert_int_equal(ri_schedule_check(all.s, all.count, fault->goal, &check), RONDO_ERR_MISMATCH);
    names_rank_and_step(check.message);
    if (!strstr(check.message, fault->words))
        fail_msg("'%s' lacks '%s'", check.message, fault->words);
    if (getenv("RONDO_TEST_SHOW"))
        print_message("%-36s %s\n", fault->name, check.message);
    ranks_release(&all);
}

/* The other half of the proof: what is not damaged passes the same way. */
static void nothing_is_caught_in_vain(void **state)
{
    for (int t = 0; t < 2; t++) {
        for (const struct fault *fault = tables[t]; fault->name; fault++) {
            struct ranks all;

            fault->make(&all);
            for (int r = 0; r < all.count; r++)
                derive_loosely(all.s[r]);
            ranks_accept(&all, fault->goal);
            ranks_release(&all);
        }
    }
}

/* Turn rule and pairs are in order, yet rank 0's copies run in program order, and the first waits
 * for a later turn than the one that needs the second. */
static void deadlock_by_order_of_work_is_caught(void **state)
{
    static const char *const texts[] = {
        "schedule d ranks 3 rank 0 heads 1 tokens 1\nhosts 0 0 1\n"
        "slot 0 X in\nslot 1 X buf\nslot 2 X buf\nslot 3 X buf\n"
        "0 5 host recv s1:X2 from 2\n1 . . copy s1:X2 -> s2:X2\n2 . . copy s0:X0 -> s3:X0\n"
        "3 3 local send s3:X0 to 1\n",
        "schedule d ranks 3 rank 1 heads 1 tokens 1\nhosts 0 0 1\nslot 0 X in\nslot 1 X buf\n"
        "0 3 local recv s1:X0 from 0\n",
        "schedule d ranks 3 rank 2 heads 1 tokens 1\nhosts 0 0 1\nslot 0 X in\n"
        "0 5 host send s0:X2 to 0\n",
    };
    struct ranks all = {.count = 3};
    struct ri_check check;

    for (int r = 0; r < 3; r++)
        assert_int_equal(ri_schedule_parse(texts[r], &all.s[r], NULL), 0);
    assert_int_equal(ri_schedule_check(all.s, 3, RI_GOAL_BARRIER, &check), RONDO_ERR_MISMATCH);
    names_rank_and_step(check.message);
    if (!strstr(check.message, "deadlock"))
        fail_msg("%s", check.message);
    ranks_release(&all);
}

/* Both ranks add the other's vector to their own: equal only if adding is commutative to the last
 * bit, and with more ranks not even then.  A sum is to be made once and copied. */
static void sums_made_twice_are_caught(void **state)
{
    static const char *const texts[] = {
        "schedule d ranks 2 rank 0 heads 1 tokens 1\nhosts 0 0\nowners 0\nslot 0 R in\nslot 1 X "
        "out\n"
        "slot 2 R buf\n0 0 local send s0:R0 to 1\n1 0 local recv s2:R0 from 1\n"
        "2 . . merge sum s0:R0 -> s2:R0+\n3 . . copy s2:R0 -> s1:X0\n",
        "schedule d ranks 2 rank 1 heads 1 tokens 1\nhosts 0 0\nowners 0\nslot 0 R in\nslot 1 X "
        "out\n"
        "slot 2 R buf\n0 0 local send s0:R0 to 0\n1 0 local recv s2:R0 from 0\n"
        "2 . . merge sum s0:R0 -> s2:R0+\n3 . . copy s2:R0 -> s1:X0\n",
    };
    struct ranks all = {.count = 2};
    struct ri_check check;

    for (int r = 0; r < 2; r++)
        assert_int_equal(ri_schedule_parse(texts[r], &all.s[r], NULL), 0);
    assert_int_equal(ri_schedule_check(all.s, 2, RI_GOAL_ALL_REDUCE, &check), RONDO_ERR_MISMATCH);
    names_rank_and_step(check.message);
    if (!strstr(check.message, "summed elsewhere"))
        fail_msg("%s", check.message);
    ranks_release(&all);
}

/* The sum has the root's part in it, but is not what the root gave. */
static void sums_are_no_broadcast(void **state)
{
    struct ri_check check;
    struct ranks all;

    ranks_build(&all, ri_build_all_reduce, 4, NULL, 0);
    ranks_accept(&all, RI_GOAL_ALL_REDUCE);
    assert_int_equal(ri_schedule_check(all.s, 4, RI_GOAL_BROADCAST, &check), RONDO_ERR_MISMATCH);
    names_rank_and_step(check.message);
    if (!strstr(check.message, "is not the root's"))
        fail_msg("%s", check.message);
    ranks_release(&all);
}

static void ranks_out_of_place_are_caught(void **state)
{
    struct ri_schedule *kept;
    struct ri_check check;
    struct ranks all;

    ranks_build(&all, ri_build_ring_forward, 3, NULL, 0);
    kept = all.s[0];
    all.s[0] = all.s[1];
    assert_int_equal(ri_schedule_check(all.s, 3, RI_GOAL_ATTENTION, &check), RONDO_ERR_MISMATCH);
    all.s[0] = NULL;
    assert_int_equal(ri_schedule_check(all.s, 3, RI_GOAL_ATTENTION, &check), RONDO_ERR_MISMATCH);
    all.s[0] = kept;
    assert_int_equal(ri_schedule_check(all.s, 2, RI_GOAL_ATTENTION, &check), RONDO_ERR_MISMATCH);
    assert_int_equal(ri_schedule_check(all.s, 0, RI_GOAL_ATTENTION, &check), RONDO_ERR_ARGUMENT);
    assert_int_equal(ri_schedule_check(all.s, 3, RI_GOAL_BROADCAST, &check), RONDO_ERR_MISMATCH);
    ranks_release(&all);
}

/* Both ways; returns how many tests there are then. */
static int add_fault(const struct fault *fault, struct CMUnitTest *tests, char (*names)[96], int n)
{
    void *state = (void *)(uintptr_t)fault;

    snprintf(names[n], sizeof(names[0]), "%s", fault->name);
    tests[n] = (struct CMUnitTest){names[n], is_caught_by_someone, NULL, NULL, state};
    snprintf(names[n + 1], sizeof(names[0]), "%s, checker alone", fault->name);
    tests[n + 1] = (struct CMUnitTest){names[n + 1], is_caught_by_the_checker, NULL, NULL, state};
    return n + 2;
}

int main(void)
{
    static struct CMUnitTest tests[256];
    static char names[256][96];
    int n = 0;

    tests[n++] = (struct CMUnitTest)cmocka_unit_test(nothing_is_caught_in_vain);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(deadlock_by_order_of_work_is_caught);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(sums_made_twice_are_caught);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(sums_are_no_broadcast);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(ranks_out_of_place_are_caught);
    for (int t = 0; t < 2; t++)
        for (const struct fault *fault = tables[t]; fault->name; fault++)
            n = add_fault(fault, tests, names, n);
    return _cmocka_run_group_tests("faults", tests, (size_t)n, NULL, NULL);
}
