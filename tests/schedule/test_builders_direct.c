/* SPDX-License-Identifier: Apache-2.0 */
/* Direct exchange, for all ranks of many sizes: proved, and counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <rondo/status.h>

#include "tests/schedule/counts.h"
#include "tests/schedule/ranks.h"

enum { MOST_RANKS = 20 };

static void direct_forward_is_proved(void **state)
{
    for (int size = 1; size <= MOST_RANKS; size++) {
        struct ranks all;

        ranks_build(&all, ri_build_direct_forward, size, NULL, 0);
        ranks_accept(&all, RI_GOAL_ATTENTION);
        for (int r = 0; r < size; r++) {
            assert_int_equal(sent(all.s[r], RI_K), size - 1);
            assert_int_equal(own_slots(all.s[r], RI_K), least(2, size - 1));
        }
        ranks_release(&all);
    }
}

/* Three hosts, ranks dealt out to them. */
static void direct_is_proved_over_hosts(void **state)
{
    ri_builder *const builders[] = {ri_build_direct_forward, ri_build_direct_kv_grad,
                                    ri_build_direct_q_grad};
    int32_t host[MOST_RANKS];

    for (int r = 0; r < MOST_RANKS; r++)
        host[r] = r % 3;
    for (int size = 2; size <= MOST_RANKS; size++) {
        for (int i = 0; i < 3; i++) {
            struct ranks all;

            ranks_build(&all, builders[i], size, host, 0);
            ranks_accept(&all, RI_GOAL_ATTENTION);
            ranks_release(&all);
        }
    }
}

static void gradients_are_proved(ri_builder *build, enum ri_bundle visitor, enum ri_bundle sum)
{
    for (int size = 1; size <= MOST_RANKS; size++) {
        struct ranks all;

        ranks_build(&all, build, size, NULL, 0);
        ranks_accept(&all, RI_GOAL_ATTENTION);
        for (int r = 0; r < size; r++) {
            assert_int_equal(sent(all.s[r], visitor), size - 1);
            assert_int_equal(sent(all.s[r], sum), size - 1);
            assert_int_equal(own_slots(all.s[r], visitor), least(2, size - 1));
            assert_int_equal(own_slots(all.s[r], sum), size == 1 ? 0 : least(3, size));
        }
        ranks_release(&all);
    }
}

static void direct_kv_grad_is_proved(void **state)
{
    gradients_are_proved(ri_build_direct_kv_grad, RI_K, RI_DK);
}

static void direct_q_grad_is_proved(void **state)
{
    gradients_are_proved(ri_build_direct_q_grad, RI_Q, RI_DQ);
}

/* At step t the block of rank r - t comes from there in turn 2t, and what was added up for it goes
 * back there in turn 2t + 3. */
static void a_block_comes_from_its_owner_and_its_sum_returns(void **state)
{
    struct ranks all;

    ranks_build(&all, ri_build_direct_kv_grad, 7, NULL, 0);
    for (int r = 0; r < 7; r++) {
        const struct ri_schedule *s = all.s[r];

        for (uint32_t i = 0; i < s->step_count; i++) {
            const struct ri_step *step = &s->steps[i];
            int received = step->op == RI_RECV && s->slots[step->to[0].slot].bundle == RI_K;
            int returned = step->op == RI_SEND && s->slots[step->from[0].slot].bundle == RI_DK;

            if (received)
                assert_int_equal(step->peer, step->to[0].block);
            if (received)
                assert_int_equal(step->turn, 2 * ((r - step->peer + 7) % 7));
            if (returned)
                assert_int_equal(step->peer, step->from[0].block);
            if (returned)
                assert_int_equal(step->turn, 2 * ((r - step->peer + 7) % 7) + 3);
        }
    }
    ranks_release(&all);
}

static void takes_any_landing_from_two(void **state)
{
    for (int landing = 2; landing <= 8; landing++) {
        struct ranks all;

        ranks_build_as(&all, ri_build_direct_q_grad,
                       &(struct ri_build){.ranks = 6, .landing = landing});
        ranks_accept(&all, RI_GOAL_ATTENTION);
        for (int r = 0; r < 6; r++)
            assert_int_equal(own_slots(all.s[r], RI_Q), least(landing, 5));
        ranks_release(&all);
    }
}

static void refuses_one_landing(void **state)
{
    struct ri_schedule *s = NULL;
    struct ri_build build = {.ranks = 3, .landing = 1};

    assert_int_equal(ri_build_direct_forward(&s, &build), RONDO_ERR_ARGUMENT);
    assert_null(s);
    build.ranks = 2;
    assert_int_equal(ri_build_direct_forward(&s, &build), 0);
    ri_schedule_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(direct_forward_is_proved),
        cmocka_unit_test(direct_kv_grad_is_proved),
        cmocka_unit_test(direct_q_grad_is_proved),
        cmocka_unit_test(direct_is_proved_over_hosts),
        cmocka_unit_test(a_block_comes_from_its_owner_and_its_sum_returns),
        cmocka_unit_test(takes_any_landing_from_two),
        cmocka_unit_test(refuses_one_landing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
