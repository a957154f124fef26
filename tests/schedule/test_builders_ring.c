/* SPDX-License-Identifier: Apache-2.0 */
/* Flat rings, for all ranks of many sizes: proved, and counted against the closed formulas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <rondo/status.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/ring.h"
#include "tests/schedule/counts.h"
#include "tests/schedule/ranks.h"

static const int sizes[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17,
                            18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 64};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

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

static void gradients_are_proved(ri_builder *build, enum ri_bundle visitor, enum ri_bundle sum)
{
    for (int i = 0; i < SIZES; i++) {
        struct ranks all;
        int size = sizes[i];

        ranks_build(&all, build, size, NULL, 0);
        ranks_accept(&all, RI_GOAL_ATTENTION);
        for (int r = 0; r < all.count; r++) {
            assert_int_equal(sent(all.s[r], visitor), size - 1);
            assert_int_equal(sent(all.s[r], sum), size - 1);
            assert_int_equal(own_slots(all.s[r], visitor), least(2, size - 1));
            assert_int_equal(own_slots(all.s[r], sum), size == 1 ? 0 : least(3, size));
            assert_int_equal(all.s[r]->turns, size == 1 ? 0 : size == 2 ? 2 : size + 1);
        }
        ranks_release(&all);
    }
}

static void ring_kv_grad_is_proved(void **state)
{
    gradients_are_proved(ri_build_ring_kv_grad, RI_K, RI_DK);
}

static void ring_q_grad_is_proved(void **state)
{
    gradients_are_proved(ri_build_ring_q_grad, RI_Q, RI_DQ);
}

/* Elements sent by a rank that holds n tokens, with Hq and Hk heads of size d: forward
 * (P-1) n Hk 2d; with the own contribution at home KV-grad (4P-4) n Hk d, and Q-grad, whose bundle
 * is Q, dO, LSE and delta, (P-1) n Hq (3d+2).  Were the own part to travel, Q-grad would be n Hq d
 * more: 5312 and 2897920. */
static void ring_volumes_are_the_formulas(void **state)
{
    static const struct {
        int ranks, tokens, q_heads, kv_heads, dim;
        int64_t forward, kv_grad, q_grad;
    } rows[] = {{4, 4, 8, 8, 16, 3072, 6144, 4800},
                {4, 4, 8, 2, 16, 768, 1536, 4800},
                {8, 32, 32, 32, 128, 1835008, 3670016, 2766848},
                {8, 32, 32, 8, 128, 458752, 917504, 2766848}};

    for (int i = 0; i < 4; i++) {
        int64_t key = (int64_t)rows[i].tokens * rows[i].kv_heads * 2 * rows[i].dim;
        int64_t dq = (int64_t)rows[i].tokens * rows[i].q_heads * rows[i].dim;
        int64_t query = (int64_t)rows[i].tokens * rows[i].q_heads * (2 * rows[i].dim + 2);
        struct ranks forward, kv_grad, q_grad;

        ranks_build(&forward, ri_build_ring_forward, rows[i].ranks, NULL, 0);
        ranks_build(&kv_grad, ri_build_ring_kv_grad, rows[i].ranks, NULL, 0);
        ranks_build(&q_grad, ri_build_ring_q_grad, rows[i].ranks, NULL, 0);
        for (int r = 0; r < rows[i].ranks; r++) {
            assert_int_equal(sent(forward.s[r], RI_K) * key, rows[i].forward);
            assert_int_equal((sent(kv_grad.s[r], RI_K) + sent(kv_grad.s[r], RI_DK)) * key,
                             rows[i].kv_grad);
            assert_int_equal(sent(q_grad.s[r], RI_Q) * query + sent(q_grad.s[r], RI_DQ) * dq,
                             rows[i].q_grad);
        }
        ranks_release(&forward);
        ranks_release(&kv_grad);
        ranks_release(&q_grad);
    }
}

static ri_builder *const builders[] = {ri_build_ring_forward, ri_build_ring_kv_grad,
                                       ri_build_ring_q_grad};

/* Landing slots are used in turn: step t lands in slot (t - 1) mod landing. */
static void rings_take_any_landing_from_two(void **state)
{
    for (int landing = 2; landing <= 9; landing++) {
        for (int i = 0; i < 3; i++) {
            struct ranks all;

            ranks_build_as(&all, builders[i], &(struct ri_build){.ranks = 7, .landing = landing});
            ranks_accept(&all, RI_GOAL_ATTENTION);
            for (int r = 0; r < all.count; r++) {
                const struct ri_schedule *s = all.s[r];
                int first = i ? 4 : 3, arrived = 0;

                assert_int_equal(own_slots(s, i == 2 ? RI_Q : RI_K), least(landing, 6));
                for (uint32_t k = 0; k < s->step_count; k++)
                    if (s->steps[k].op == RI_RECV &&
                        s->slots[s->steps[k].to[0].slot].kind == RI_VIEW)
                        assert_int_equal(s->steps[k].to[0].slot, first + arrived++ % landing);
                assert_int_equal(arrived, 6);
            }
            ranks_release(&all);
        }
    }
}

static void rings_refuse_too_few_landings(void **state)
{
    for (int i = 0; i < 3; i++) {
        struct ri_schedule *s = NULL;
        struct ri_build build = {.ranks = 3, .landing = 1};

        assert_int_equal(builders[i](&s, &build), RONDO_ERR_ARGUMENT);
        assert_non_null(strstr(rondo_last_error(), "landing 1"));
        build.landing = -1;
        assert_int_equal(builders[i](&s, &build), RONDO_ERR_ARGUMENT);
        assert_non_null(strstr(rondo_last_error(), "landing -1"));
        assert_null(s);
    }
}

static void one_landing_serves_two_ranks(void **state)
{
    for (int i = 0; i < 3; i++) {
        for (int ranks = 1; ranks <= 2; ranks++) {
            struct ranks all;

            ranks_build_as(&all, builders[i], &(struct ri_build){.ranks = ranks, .landing = 1});
            ranks_accept(&all, RI_GOAL_ATTENTION);
            ranks_release(&all);
        }
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

/* `each` slots that hold as many blocks of this rank. */
static struct ri_operand home_slots(struct ri_schedule *s, enum ri_bundle bundle,
                                    enum ri_slot_kind kind, int each)
{
    int32_t first = ri_schedule_slot(s, bundle, kind, 1);

    for (int i = 1; i < each; i++)
        ri_schedule_slot(s, bundle, kind, 1);
    return (struct ri_operand){first, s->rank * each, (uint16_t)each, 0, 1};
}

/* A ring of its own, over another order of the ranks, of members that bring `each` blocks, from a
 * turn later than 0. */
static struct ri_schedule *ring_over(int32_t *order, int index, int ranks, int each,
                                     enum ri_way way)
{
    struct ri_group group = {order, ranks, index};
    struct ri_ring ring = {.group = &group, .landings = 2};
    enum ri_bundle sides[] = {way == RI_WAY_FORWARD ? RI_O : RI_DQ, RI_DK};
    int backward = way != RI_WAY_FORWARD, turn, rank = order[index];
    int32_t first_block[MAX_RANKS];
    struct ri_schedule *s;

    assert_int_equal(ri_schedule_begin(&s, "ring_over", rank, ranks, NULL), 0);
    s->owner = realloc(s->owner, (size_t)(ranks * each) * sizeof(*s->owner));
    assert_non_null(s->owner);
    s->blocks = ranks * each;
    for (int b = 0; b < ranks * each; b++)
        s->owner[b] = b / each;
    for (int i = 0; i < ranks; i++)
        first_block[i] = order[i] * each;
    ring.first_block = first_block;
    ring.sides =
        (struct ri_sides){home_slots(s, RI_Q, RI_IN, each), home_slots(s, RI_K, RI_IN, each),
                          home_slots(s, sides[0], RI_OUT, each), ri_none, way == RI_WAY_Q_GRAD};
    if (backward)
        ring.sides.key_side = home_slots(s, sides[1], RI_OUT, each);
    ring.landing = ri_sides_landing_slots(s, &ring.sides, 2 * each, 1);
    ring.sums = backward ? ri_sides_sum_slots(s, &ring.sides, 3 * each, 1) : -1;
    turn = backward ? ri_ring_grad(s, &ring, 7) : ri_ring_forward(s, &ring, 7);
    assert_int_equal(ri_schedule_end(&s), 0);
    assert_true(ranks == 1 || (int)s->turns == turn);
    return s;
}

static void rings_run_over_any_group(void **state)
{
    for (int ranks = 1; ranks <= 9; ranks++) {
        for (int each = 1; each <= 2; each++) {
            for (int way = RI_WAY_FORWARD; way <= RI_WAY_Q_GRAD; way++) {
                struct ranks all = {.count = ranks};
                int32_t order[MAX_RANKS];

                order_ranks(order, ranks);
                for (int i = 0; i < ranks; i++)
                    all.s[order[i]] = ring_over(order, i, ranks, each, way);
                ranks_accept(&all, RI_GOAL_ATTENTION);
                ranks_release(&all);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_forward_is_proved),
        cmocka_unit_test(ring_kv_grad_is_proved),
        cmocka_unit_test(ring_q_grad_is_proved),
        cmocka_unit_test(rings_take_any_landing_from_two),
        cmocka_unit_test(rings_refuse_too_few_landings),
        cmocka_unit_test(one_landing_serves_two_ranks),
        cmocka_unit_test(ring_volumes_are_the_formulas),
        cmocka_unit_test(lanes_follow_hosts),
        cmocka_unit_test(rings_run_over_any_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
