/* SPDX-License-Identifier: Apache-2.0 */
/* Every builder, for all ranks of many sizes: proved, and counted against the closed formulas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <rondo/status.h>
#include <stdlib.h>

#include "tests/schedule/counts.h"
#include "tests/schedule/ranks.h"

static const int sizes[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17,
                            18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 64};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static int log2_up(int n)
{
    int log = 0;

    while (1 << log < n)
        log++;
    return log;
}

static void all_reduce_is_proved(void **state)
{
    for (int i = 0; i < SIZES; i++) {
        struct ranks all;

        ranks_build(&all, ri_build_all_reduce, sizes[i], NULL, 0);
        ranks_accept(&all, RI_GOAL_ALL_REDUCE);
        for (int r = 0; r < all.count; r++) {
            assert_int_equal(sent(all.s[r], RI_R) + sent(all.s[r], RI_X), 2 * (sizes[i] - 1));
            assert_int_equal(all.s[r]->slots[0].kind, RI_IN);
            assert_int_equal(all.s[r]->slots[1].kind, RI_OUT);
        }
        ranks_release(&all);
    }
}

/* When both are one memory, a part of the input is read for the last time before the step that
 * writes the same part of the output: on this rank, or on the way of the sum that is written. */
static void all_reduce_reads_before_it_writes(void **state)
{
    for (int size = 1; size <= 9; size++) {
        struct ranks all;

        ranks_build(&all, ri_build_all_reduce, size, NULL, 0);
        for (int r = 0; r < size; r++) {
            const struct ri_schedule *s = all.s[r];
            int last_read[9], first_write[9];

            for (int p = 0; p < size; p++)
                last_read[p] = -1, first_write[p] = -1;
            for (uint32_t i = 0; i < s->step_count; i++) {
                if (s->steps[i].from[0].slot == 0)
                    last_read[s->steps[i].from[0].first_part] = (int)i;
                if (s->steps[i].to[0].slot == 1)
                    first_write[s->steps[i].to[0].first_part] = (int)i;
            }
            for (int p = 0; p < size; p++)
                assert_true(last_read[p] >= 0 && last_read[p] <= first_write[p]);
        }
        ranks_release(&all);
    }
}

static void broadcast_is_proved_from_every_root(void **state)
{
    for (int i = 0; i < SIZES; i++) {
        for (int root = 0; root < sizes[i]; root++) {
            struct ranks all;
            int64_t messages = 0;

            ranks_build(&all, ri_build_broadcast, sizes[i], NULL, root);
            ranks_accept(&all, RI_GOAL_BROADCAST);
            for (int r = 0; r < all.count; r++) {
                messages += sent(all.s[r], RI_X);
                assert_true((int)all.s[r]->turns <= log2_up(sizes[i]));
                assert_int_equal(all.s[r]->slots[0].kind, r == root ? RI_IN : RI_OUT);
            }
            assert_int_equal(messages, sizes[i] - 1);
            ranks_release(&all);
        }
    }
}

static void barrier_is_proved(void **state)
{
    for (int i = 0; i < SIZES; i++) {
        struct ranks all;

        ranks_build(&all, ri_build_barrier, sizes[i], NULL, 0);
        ranks_accept(&all, RI_GOAL_BARRIER);
        for (int r = 0; r < all.count; r++) {
            assert_int_equal(all.s[r]->turns, log2_up(sizes[i]));
            assert_int_equal(sent(all.s[r], RI_X), sizes[i] - 1);
        }
        ranks_release(&all);
    }
}

/* The first error while building is the one that end returns, and nothing is left. */
static void building_errors_come_at_the_end(void **state)
{
    struct ri_schedule *s;

    assert_int_equal(ri_schedule_begin(&s, "bad", 0, 2, NULL), 0);
    assert_int_equal(ri_schedule_slot(s, RI_K, RI_IN, 0), -1);
    assert_int_equal(ri_schedule_slot(s, RI_K, RI_IN, 1), -1);
    ri_schedule_send(s, ri_operand(s, 0, 0), 1, 0);
    assert_int_equal(ri_schedule_end(&s), RONDO_ERR_ARGUMENT);
    assert_null(s);
    ri_schedule_destroy(NULL);
}

/* Slots of ours that no step uses go, and the others move up; the caller's keep their numbers. */
static void unused_slots_are_dropped(void **state)
{
    struct ri_schedule *s;

    assert_int_equal(ri_schedule_begin(&s, "gaps", 0, 2, NULL), 0);
    assert_int_equal(ri_schedule_slot(s, RI_Q, RI_IN, 1), 0);
    assert_int_equal(ri_schedule_slot(s, RI_K, RI_IN, 1), 1);
    for (int i = 2; i < 6; i++)
        assert_int_equal(ri_schedule_slot(s, RI_K, RI_VIEW, 1), i);
    ri_schedule_recv(s, ri_operand(s, 5, 1), 1, 0);
    ri_schedule_recv(s, ri_operand(s, 3, 1), 1, 0);
    ri_schedule_send(s, ri_operand(s, 1, 0), 1, 0);
    assert_int_equal(ri_schedule_end(&s), 0);
    assert_int_equal(s->slot_count, 4);
    assert_int_equal(s->steps[0].to[0].slot, 3);
    assert_int_equal(s->steps[1].to[0].slot, 2);
    assert_int_equal(s->steps[2].from[0].slot, 1);
    assert_int_equal(s->slots[0].bundle, RI_Q);
    ri_schedule_destroy(s);
}

static void table_names_every_builder(void **state)
{
    int count = 0;

    for (const struct ri_builder_entry *entry = ri_builders; entry->name; entry++, count++) {
        struct ri_schedule *s;

        assert_int_equal(entry->build(&s, &(struct ri_build){.rank = 1, .ranks = 3}), 0);
        assert_string_equal(s->name, entry->name);
        ri_schedule_destroy(s);
    }
    assert_int_equal(count, 12);
}

static void refuses_ranks_out_of_range(void **state)
{
    struct ri_schedule *s = NULL;

    for (const struct ri_builder_entry *entry = ri_builders; entry->name; entry++) {
        assert_int_equal(entry->build(&s, &(struct ri_build){.rank = 3, .ranks = 3}), RONDO_ERR_ARGUMENT);
        assert_int_equal(entry->build(&s, &(struct ri_build){.rank = -1, .ranks = 3}), RONDO_ERR_ARGUMENT);
        assert_int_equal(entry->build(&s, &(struct ri_build){.rank = 0, .ranks = 0}), RONDO_ERR_ARGUMENT);
        assert_int_equal(entry->build(&s, &(struct ri_build){.rank = 0, .ranks = 32769}), RONDO_ERR_ARGUMENT);
    }
    assert_int_equal(ri_build_broadcast(&s, &(struct ri_build){.ranks = 3, .root = 3}), RONDO_ERR_ARGUMENT);
    assert_int_equal(ri_build_broadcast(&s, &(struct ri_build){.ranks = 3, .root = -1}), RONDO_ERR_ARGUMENT);
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_reduce_is_proved),
        cmocka_unit_test(all_reduce_reads_before_it_writes),
        cmocka_unit_test(broadcast_is_proved_from_every_root),
        cmocka_unit_test(barrier_is_proved),
        cmocka_unit_test(building_errors_come_at_the_end),
        cmocka_unit_test(unused_slots_are_dropped),
        cmocka_unit_test(table_names_every_builder),
        cmocka_unit_test(refuses_ranks_out_of_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
