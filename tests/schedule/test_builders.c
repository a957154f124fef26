/* SPDX-License-Identifier: Apache-2.0 */
/* Every builder, for all ranks of many sizes: proved, and counted against the closed formulas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <rondo/status.h>
#include <stdlib.h>

#include "schedule/ring.h"
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

/* Any order of ranks is a group; here the odd ones going up, then the even ones going down. */
static void order_ranks(int32_t *order, int ranks)
{
    int n = 0;

    for (int r = 1; r < ranks; r += 2)
        order[n++] = r;
    for (int r = (ranks - 1) / 2 * 2; r >= 0; r -= 2)
        order[n++] = r;
}

struct slot_kind {
    enum ri_bundle bundle;
    enum ri_slot_kind kind;
};

static const struct slot_kind forward_slots[] = {
    {RI_Q, RI_IN}, {RI_K, RI_IN}, {RI_O, RI_OUT}, {RI_K, RI_VIEW}, {RI_K, RI_VIEW},
};
static const struct slot_kind backward_slots[] = {
    {RI_Q, RI_IN},   {RI_K, RI_IN},   {RI_DQ, RI_OUT}, {RI_DK, RI_OUT}, {RI_K, RI_VIEW},
    {RI_K, RI_VIEW}, {RI_DK, RI_OWN}, {RI_DK, RI_OWN}, {RI_DK, RI_OWN},
};

/* A ring of its own, over another order of the ranks, of members that bring `each` blocks, from a turn
 * later than 0. */
static struct ri_schedule *ring_over(int32_t *order, int index, int ranks, int each, int backward)
{
    struct ri_group group = {order, ranks, index};
    struct ri_ring ring = {.group = &group};
    int32_t first_block[MAX_RANKS];
    const struct slot_kind *table = backward ? backward_slots : forward_slots;
    struct ri_schedule *s;
    int turn, rank = order[index];

    assert_int_equal(ri_schedule_begin(&s, "ring_over", rank, ranks, NULL), 0);
    s->owner = realloc(s->owner, (size_t)(ranks * each) * sizeof(*s->owner));
    assert_non_null(s->owner);
    s->blocks = ranks * each;
    for (int b = 0; b < ranks * each; b++)
        s->owner[b] = b / each;
    for (int i = 0; i < ranks; i++)
        first_block[i] = order[i] * each;
    ring.first_block = first_block;
    ring.query = (struct ri_operand){0, rank * each, (uint16_t)each, 0, 1};
    ring.key = (struct ri_operand){each, rank * each, (uint16_t)each, 0, 1};
    ring.query_side = (struct ri_operand){2 * each, rank * each, (uint16_t)each, 0, 1};
    ring.key_side = (struct ri_operand){3 * each, rank * each, (uint16_t)each, 0, 1};
    ring.landing = (backward ? 4 : 3) * each;
    ring.sums = 6 * each;
    for (int i = 0; i < (backward ? 9 : 5) * each; i++)
        ri_schedule_slot(s, table[i / each].bundle, table[i / each].kind, 1);
    turn = backward ? ri_ring_kv_grad(s, &ring, 7) : ri_ring_forward(s, &ring, 7);
    assert_int_equal(ri_schedule_end(&s), 0);
    assert_true(ranks == 1 || (int)s->turns == turn);
    return s;
}

static void rings_run_over_any_group(void **state)
{
    for (int ranks = 1; ranks <= 9; ranks++) {
        for (int each = 1; each <= 2; each++) {
            for (int backward = 0; backward <= 1; backward++) {
                struct ranks all = {.count = ranks};
                int32_t order[MAX_RANKS];

                order_ranks(order, ranks);
                for (int i = 0; i < ranks; i++)
                    all.s[order[i]] = ring_over(order, i, ranks, each, backward);
                ranks_accept(&all, RI_GOAL_ATTENTION);
                ranks_release(&all);
            }
        }
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
    assert_int_equal(count, 5);
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
        cmocka_unit_test(ring_forward_is_proved),
        cmocka_unit_test(ring_kv_grad_is_proved),
        cmocka_unit_test(ring_volumes_are_the_formulas),
        cmocka_unit_test(all_reduce_is_proved),
        cmocka_unit_test(all_reduce_reads_before_it_writes),
        cmocka_unit_test(broadcast_is_proved_from_every_root),
        cmocka_unit_test(barrier_is_proved),
        cmocka_unit_test(lanes_follow_hosts),
        cmocka_unit_test(rings_run_over_any_group),
        cmocka_unit_test(building_errors_come_at_the_end),
        cmocka_unit_test(unused_slots_are_dropped),
        cmocka_unit_test(table_names_every_builder),
        cmocka_unit_test(refuses_ranks_out_of_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
