/* SPDX-License-Identifier: Apache-2.0 */
/* Every builder, for all ranks of many sizes: proved, and counted against the closed formulas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <rondo/status.h>

#include "tests/schedule/ranks.h"

static const int sizes[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17,
                            18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 64};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* Blocks of a bundle that a rank sends, in parts. */
static int64_t sent(const struct ri_schedule *s, enum ri_bundle bundle)
{
    int64_t parts = 0;

    for (uint32_t i = 0; i < s->step_count; i++)
        if (s->steps[i].op == RI_SEND && s->slots[s->steps[i].from[0].slot].bundle == bundle)
            parts += (int64_t)s->steps[i].from[0].blocks * s->steps[i].from[0].parts;
    return parts;
}

static int own_slots(const struct ri_schedule *s, enum ri_bundle bundle)
{
    int count = 0;

    for (uint32_t i = 0; i < s->slot_count; i++)
        count += s->slots[i].bundle == bundle &&
                 (s->slots[i].kind == RI_VIEW || s->slots[i].kind == RI_OWN);
    return count;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int log2_up(int n)
{
    int log = 0;

    while (1 << log < n)
        log++;
    return log;
}

static void ring_forward_is_proved(void **state)
{
    for (int i = 0; i < SIZES; i++) {
        struct ranks all;

        ranks_build(&all, ri_build_ring_forward, sizes[i], NULL, 0);
        ranks_accept(&all, RI_GOAL_ATTENTION);
        for (int r = 0; r < all.count; r++) {
            assert_int_equal(sent(all.s[r], RI_K), sizes[i] - 1);
            assert_int_equal(own_slots(all.s[r], RI_K), least(2, sizes[i] - 1));
            assert_int_equal(all.s[r]->turns, sizes[i] - 1);
        }
        ranks_release(&all);
    }
}

static void ring_kv_grad_is_proved(void **state)
{
    for (int i = 0; i < SIZES; i++) {
        struct ranks all;
        int size = sizes[i];

        ranks_build(&all, ri_build_ring_kv_grad, size, NULL, 0);
        ranks_accept(&all, RI_GOAL_ATTENTION);
        for (int r = 0; r < all.count; r++) {
            assert_int_equal(sent(all.s[r], RI_K), size - 1);
            assert_int_equal(sent(all.s[r], RI_DK), size - 1);
            assert_int_equal(own_slots(all.s[r], RI_K), least(2, size - 1));
            assert_int_equal(own_slots(all.s[r], RI_DK), size == 1 ? 0 : least(3, size));
            assert_int_equal(all.s[r]->turns, size == 1 ? 0 : size + 1);
        }
        ranks_release(&all);
    }
}

/* Elements of K and V of n tokens, `heads` heads of size d each: forward (P-1) n Hk 2d, and with
 * the own contribution at home (4P-4) n Hk d backward. */
static void ring_volumes_are_the_formulas(void **state)
{
    static const struct {
        int ranks, tokens, heads, dim;
        int64_t forward;
    } rows[] = {{4, 4, 8, 16, 3072},
                {4, 4, 2, 16, 768},
                {8, 32, 32, 128, 1835008},
                {8, 32, 8, 128, 458752}};

    for (int i = 0; i < 4; i++) {
        int64_t block = (int64_t)rows[i].tokens * rows[i].heads * 2 * rows[i].dim;
        struct ranks forward, backward;

        ranks_build(&forward, ri_build_ring_forward, rows[i].ranks, NULL, 0);
        ranks_build(&backward, ri_build_ring_kv_grad, rows[i].ranks, NULL, 0);
        for (int r = 0; r < rows[i].ranks; r++) {
            assert_int_equal(sent(forward.s[r], RI_K) * block, rows[i].forward);
            assert_int_equal((sent(backward.s[r], RI_K) + sent(backward.s[r], RI_DK)) * block,
                             (int64_t)(4 * rows[i].ranks - 4) * block / 2);
        }
        ranks_release(&forward);
        ranks_release(&backward);
    }
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

static void lanes_follow_hosts(void **state)
{
    static const int32_t host[] = {0, 0, 1, 1, 1};
    struct ranks all;

    ranks_build(&all, ri_build_ring_kv_grad, 5, host, 0);
    ranks_accept(&all, RI_GOAL_ATTENTION);
    for (int r = 0; r < 5; r++)
        for (uint32_t i = 0; i < all.s[r]->step_count; i++)
            if (all.s[r]->steps[i].peer >= 0)
                assert_int_equal(all.s[r]->steps[i].lane, host[r] == host[all.s[r]->steps[i].peer]
                                                              ? RI_LANE_LOCAL
                                                              : RI_LANE_HOST);
    ranks_release(&all);
}

static void table_names_every_builder(void **state)
{
    int count = 0;

    for (const struct ri_builder_entry *entry = ri_builders; entry->name; entry++, count++) {
        struct ri_schedule *s;

        assert_int_equal(entry->build(&s, 1, 3, NULL, 0), 0);
        assert_string_equal(s->name, entry->name);
        ri_schedule_destroy(s);
    }
    assert_int_equal(count, 5);
}

static void refuses_ranks_out_of_range(void **state)
{
    struct ri_schedule *s = NULL;

    for (const struct ri_builder_entry *entry = ri_builders; entry->name; entry++) {
        assert_int_equal(entry->build(&s, 3, 3, NULL, 0), RONDO_ERR_ARGUMENT);
        assert_int_equal(entry->build(&s, -1, 3, NULL, 0), RONDO_ERR_ARGUMENT);
        assert_int_equal(entry->build(&s, 0, 0, NULL, 0), RONDO_ERR_ARGUMENT);
        assert_int_equal(entry->build(&s, 0, 65536, NULL, 0), RONDO_ERR_ARGUMENT);
    }
    assert_int_equal(ri_build_broadcast(&s, 0, 3, NULL, 3), RONDO_ERR_ARGUMENT);
    assert_int_equal(ri_build_broadcast(&s, 0, 3, NULL, -1), RONDO_ERR_ARGUMENT);
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_forward_is_proved),
        cmocka_unit_test(ring_kv_grad_is_proved),
        cmocka_unit_test(ring_volumes_are_the_formulas),
        cmocka_unit_test(all_reduce_is_proved),
        cmocka_unit_test(all_reduce_reads_before_it_writes),
        cmocka_unit_test(broadcast_is_proved_from_every_root),
        cmocka_unit_test(barrier_is_proved),
        cmocka_unit_test(lanes_follow_hosts),
        cmocka_unit_test(table_names_every_builder),
        cmocka_unit_test(refuses_ranks_out_of_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
