/* SPDX-License-Identifier: Apache-2.0 */
/* Prices that can be told by hand.  How long schemes take is a sum of hops and kernels. */
#include <math.h>
#include <rondo/status.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/schedule/machine.h"
#include "tests/schedule/ranks.h"

static const int32_t two_by_four[] = {0, 0, 0, 0, 1, 1, 1, 1};

static void assert_near(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 1e-9 * fabs(wanted) + 1e-12))
        fail_msg("%.12g, not %.12g", value, wanted);
}

static void simulate(const struct ranks *all, const struct ri_cost *cost, struct ri_simulation *out)
{
    if (ri_simulate(all->s, all->count, cost, 1, out))
        fail_msg("%s", rondo_last_error());
}

static double price(const struct ranks *all, struct ri_cost cost)
{
    struct ri_simulation out;
    double seconds;

    simulate(all, &cost, &out);
    seconds = out.seconds;
    ri_simulation_release(&out);
    return seconds;
}

static struct ri_cost launched(struct ri_cost cost, enum ri_launch launch)
{
    cost.launch = launch;
    return cost;
}

static struct ri_cost with_shared_nic(struct ri_cost cost, int sharing)
{
    cost.shared_nic = sharing;
    return cost;
}

/* 7 blocks cross the slowest link one after the other, and the last one is computed on. */
static void ring_forward_goes_at_the_pace_of_the_host_link(void **state)
{
    struct ranks all;

    ranks_build(&all, ri_build_ring_forward, 8, two_by_four, 0);
    for (int launch = 0; launch < RI_LAUNCHES; launch++) {
        assert_near(price(&all, launched(table_cost(0), launch)), 7 * 10.1);
        assert_near(price(&all, launched(table_cost(1.5), launch)), 7 * 10.1 + 1.5);
        assert_near(price(&all, launched(table_cost(6), launch)), 7 * 10.1 + 6);
    }
    assert_near(price(&all, with_shared_nic(table_cost(1.5), 1)), 7 * 10.1 + 1.5);
    ranks_release(&all);
}

/* 7 blocks of K and 7 of dK: own contributions stay at home. */
static void ring_kv_grad_hides_its_work(void **state)
{
    struct ranks all;

    ranks_build(&all, ri_build_ring_kv_grad, 8, two_by_four, 0);
    assert_near(price(&all, table_cost_backward(0)), 7 * 10.1 + 7 * 20.1);
    assert_near(price(&all, table_cost_backward(6)), 7 * 10.1 + 7 * 20.1);
    ranks_release(&all);
}

static void one_host_hides_the_ring_behind_the_work(void **state)
{
    struct ranks all;

    for (int ranks = 1; ranks <= 9; ranks++) {
        ranks_build(&all, ri_build_ring_forward, ranks, NULL, 0);
        assert_near(price(&all, table_cost(1.5)), 1.5 * ranks);
        assert_near(price(&all, table_cost(.5)), ranks > 1 ? 1.02 * (ranks - 1) + .5 : .5);
        ranks_release(&all);
    }
}

/* Blocks of the other host are on their way, 10.1, while the first round runs; then three local
 * hops, or four kernels. */
static void two_levels_work_while_the_host_link_is_busy(void **state)
{
    struct ranks all;

    ranks_parse(&all, 8, text_two_level_fwd);
    assert_near(price(&all, table_cost(0)), 10.1 + 3 * 1.02);
    assert_near(price(&all, table_cost(1.5)), 10.1 + 4 * 1.5);
    assert_near(price(&all, table_cost(6)), 8 * 6);
    assert_near(price(&all, launched(table_cost(1.5), RI_LAUNCH_LANES)), 10.1 + 4 * 1.5);
    /* On one stream the local ring waits for the host, and work waits in order. */
    assert_near(price(&all, launched(table_cost(0), RI_LAUNCH_ONE)), 10.1 + 6 * 1.02);
    assert_near(price(&all, launched(table_cost(1.5), RI_LAUNCH_ONE)), 10.1 + 1.02 + 7 * 1.5);
    /* Four blocks leave through one link, or two through each of two. */
    assert_near(price(&all, with_shared_nic(table_cost(1.5), 1)), 4 * 10.1 + 4 * 1.5);
    assert_near(price(&all, with_shared_nic(table_cost(1.5), 2)), 2 * 10.1 + 4 * 1.5);
    assert_near(price(&all, with_shared_nic(table_cost(1.5), 4)), 4 * 10.1 + 4 * 1.5);
    ranks_release(&all);
}

/* A third of a block moves between hosts in each of three groups; the last block of the first round
 * comes with the last third, and is seen no sooner.  Host-driven it is there after its own hop. */
static void groups_are_seen_as_a_whole(void **state)
{
    struct ranks all;

    ranks_build_as(&all, ri_build_two_level_forward,
                   &(struct ri_build){.ranks = 8, .host = two_by_four, .chunked = 1});
    assert_near(price(&all, launched(table_cost(1.5), RI_LAUNCH_ONE)),
                3 * (.1 + 10. / 3) + 5 * 1.5);
    assert_near(price(&all, table_cost(1.5)), 3 * (.1 + 10. / 3) + 4 * 1.5);
    ranks_release(&all);
}

static void volumes_and_memory_are_counted(void **state)
{
    struct ri_cost cost = table_cost_backward(1);
    struct ri_simulation out;
    struct ranks all;

    ranks_build(&all, ri_build_ring_kv_grad, 8, two_by_four, 0);
    simulate(&all, &cost, &out);
    assert_near(out.sent[RI_LANE_LOCAL], 7 + 14);
    assert_near(out.sent[RI_LANE_HOST], 7 + 14);
    assert_near(out.rank[3].sent[RI_LANE_HOST][RI_DK], 14);
    assert_near(out.rank[3].sent[RI_LANE_LOCAL][RI_DK], 0);
    assert_near(out.rank[2].sent[RI_LANE_LOCAL][RI_K], 7);
    assert_near(out.own_blocks[RI_K], 2);
    assert_near(out.own_blocks[RI_DK], 3);
    assert_near(out.own_units, 2 + 3 * 2);
    ri_simulation_release(&out);
    ranks_release(&all);

    ranks_parse(&all, 8, text_two_level_fwd);
    simulate(&all, &cost, &out);
    assert_near(out.sent[RI_LANE_LOCAL], 6);
    assert_near(out.sent[RI_LANE_HOST], 1);
    assert_near(out.own_blocks[RI_K], 3); /* not the one that the text does not use */
    ri_simulation_release(&out);
    ranks_release(&all);
}

/* Each of two ranks gets half of the other's queries and keys, and computes on all blocks in one
 * head group of two. */
static void parts_are_fractions(void **state)
{
    struct ri_cost cost = table_cost(1);
    struct ri_simulation out;
    struct ranks all;

    ranks_parse(&all, 2, text_all_to_all);
    simulate(&all, &cost, &out);
    assert_near(out.sent[RI_LANE_LOCAL], .25 + .5 + .25);
    assert_near(out.rank[1].compute_seconds, 2);
    assert_near(out.seconds, .27 + .52 + 2 + .27);
    assert_near(out.rank[1].exposed_seconds, .27 + .52 + .27);
    assert_near(out.own_units, 2 * (.25 + .5 + .25));
    ri_simulation_release(&out);
    ranks_release(&all);
}

/* A hop is cut in two, so each half may be computed on while the other moves. */
static void chunks_pass_one_another_by(void **state)
{
    struct ri_cost cost = table_cost(20);
    struct ri_simulation out;
    struct ranks all;

    ranks_parse(&all, 2, text_chunked);
    simulate(&all, &cost, &out);
    assert_near(out.seconds, 40);
    ri_simulation_release(&out);
    cost.compute_seconds = 2;
    simulate(&all, &cost, &out);
    assert_near(out.seconds, 2 * 5.1 + 1);
    ri_simulation_release(&out);
    ranks_release(&all);
}

static void moves_cost_by_their_content(void **state)
{
    struct ri_cost cost = table_cost_backward(0);
    struct ri_simulation out;
    struct ranks all;

    cost.seconds_per_unit = 50;
    ranks_build(&all, ri_build_ring_kv_grad, 2, NULL, 0);
    simulate(&all, &cost, &out); /* K, then dK, then the merge of it at home */
    assert_near(out.seconds, 1.02 + 2.02 + 2 * 50);
    assert_near(out.rank[0].compute_seconds, 0);
    assert_near(out.rank[0].exposed_seconds, 1.02 + 2.02);
    ri_simulation_release(&out);
    ranks_release(&all);
}

static void bind_local_messages(struct ranks *all)
{
    for (int r = 0; r < all->count; r++)
        for (uint32_t i = 0; i < all->s[r]->step_count; i++) {
            struct ri_step *step = &all->s[r]->steps[i];

            step->bind = ri_step_moves(step) && step->lane == RI_LANE_LOCAL;
        }
}

static void bound_messages_cost_their_latency(void **state)
{
    struct ri_cost cost = table_cost(0);
    struct ri_simulation out;
    struct ranks all;

    ranks_parse(&all, 8, text_two_level_fwd);
    bind_local_messages(&all);
    simulate(&all, &cost, &out);
    assert_near(out.seconds, 10.1 + 3 * .02);
    assert_near(out.sent[RI_LANE_LOCAL], 0);
    assert_near(out.own_blocks[RI_K], 1); /* where the host's block lands */
    ri_simulation_release(&out);
    ranks_release(&all);
}

/* Keys come over the slow link, at 10.1, and are told of before the queries that are there at .52. */
static void work_passes_a_compute_that_waits(void **state)
{
    struct ri_cost cost = table_cost(1.5);
    struct ranks all;

    ranks_parse(&all, 4, text_mesh2x2);
    for (int r = 0; r < 4; r++)
        for (uint32_t i = 0; i < all.s[r]->step_count; i++)
            if (ri_step_moves(&all.s[r]->steps[i]) && all.s[r]->steps[i].turn == 0)
                all.s[r]->steps[i].lane = RI_LANE_HOST;
    assert_near(price(&all, cost), 10.1 + 2 * 1.5 + .52);
    assert_near(price(&all, launched(cost, RI_LAUNCH_LANES)), 10.1 + 3 * 1.5 + .52);
    cost.in_order = 1;
    assert_near(price(&all, cost), 10.1 + 3 * 1.5 + .52);
    ranks_release(&all);
}

/* Ranks 1 and 2 send to rank 0 at once, and what comes from rank 2 goes on to the other host. */
static char *text_tie(int rank, int ranks)
{
    struct draft d = {0};

    draft_line(&d, "schedule tie ranks %d rank %d heads 1 tokens 1", ranks, rank);
    draft_line(&d, "hosts 0 0 0 1\nslot 0 Q in\nslot 1 K in\nslot 2 O out");
    draft_line(&d, "slot 3 K view\nslot 4 K view");
    if (rank == 0) {
        draft_step(&d, 0, 0, "recv s3:K1 from 1");
        draft_step(&d, 0, 0, "recv s4:K2 from 2");
        draft_step(&d, 1, 1, "send s4:K2 to 3");
    } else if (rank < 3) {
        draft_step(&d, 0, 0, "send s1:K%d to 0", rank);
    } else {
        draft_step(&d, 1, 1, "recv s3:K2 from 0");
    }
    return d.text;
}

enum { SEEDS = 32 };

static struct ri_cost seeded(struct ri_cost cost, uint32_t seed)
{
    cost.tie_seed = seed;
    return cost;
}

static void a_seed_chooses_among_equals(void **state)
{
    double early = 1.02 + 10.1, late = 2 * 1.02 + 10.1;
    struct ranks all;
    int earlies = 0;

    ranks_parse(&all, 4, text_tie);
    assert_near(price(&all, table_cost(0)), late);
    for (uint32_t seed = 1; seed < SEEDS; seed++) {
        double seconds = price(&all, seeded(table_cost(0), seed));

        assert_near(seconds, seconds < (early + late) / 2 ? early : late);
        earlies += seconds < (early + late) / 2;
        assert_true(price(&all, seeded(table_cost(0), seed)) == seconds);
    }
    assert_in_range(earlies, SEEDS / 4, SEEDS * 3 / 4);
    ranks_release(&all);
}

/* No link is met by two on hosts of one size, so no order can matter. */
static void equal_hosts_have_one_price(void **state)
{
    static ri_builder *const builders[] = {ri_build_two_level_forward, ri_build_two_level_kv_grad,
                                           ri_build_two_level_q_grad};
    struct ranks all;

    for (int i = 0; i < 6; i++) {
        struct ri_cost cost = i / 2 ? table_cost_backward(1.5) : table_cost(1.5);
        double seconds;

        ranks_build_as(&all, builders[i / 2],
                       &(struct ri_build){.ranks = 8, .host = two_by_four, .chunked = i % 2});
        seconds = price(&all, cost);
        for (uint32_t seed = 1; seed < SEEDS; seed++)
            assert_near(price(&all, seeded(cost, seed)), seconds);
        ranks_release(&all);
    }
}

static int by_row(const void *a, const void *b)
{
    const struct ri_event *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

static void rows_carry_one_thing_at_a_time(void **state)
{
    struct ri_cost cost = table_cost(1.5);
    struct ri_simulation out;
    struct ranks all;
    uint32_t steps = 0;

    cost.shared_nic = 1;
    ranks_parse(&all, 8, text_two_level_fwd);
    simulate(&all, &cost, &out);
    for (int r = 0; r < 8; r++)
        steps += all.s[r]->step_count;
    assert_int_equal(out.event_count, steps);
    for (uint32_t i = 1; i < out.event_count; i++)
        assert_true(out.events[i - 1].start <= out.events[i].start);
    qsort(out.events, out.event_count, sizeof(*out.events), by_row);
    for (uint32_t i = 0; i < out.event_count; i++) {
        const struct ri_event *one = &out.events[i], *last = one - 1;

        assert_true(one->start <= one->end && one->end <= out.seconds);
        assert_int_equal(one->row == RI_ROW_WORK,
                         !ri_step_moves(&all.s[one->rank]->steps[one->step]));
        if (i && last->rank == one->rank && last->row == one->row)
            assert_true(last->end <= one->start + 1e-9);
    }
    ri_simulation_release(&out);
    ranks_release(&all);
}

/* The schedule's own check forbids a circle, so one is made: the send waits for the receive. */
static void waiting_in_a_circle_is_an_error(void **state)
{
    struct ri_cost cost = table_cost(1);
    struct ri_simulation out = {.seconds = 7};
    struct ranks all;

    for (int launch = 0; launch < RI_LAUNCHES; launch++) {
        ranks_build(&all, ri_build_ring_forward, 2, NULL, 0);
        for (int r = 0; r < 2; r++) {
            struct ri_schedule *s = all.s[r];

            s->steps[0].deps = 1;
            while (s->deps[s->steps[0].first_dep] != 1)
                s->steps[0].first_dep++;
        }
        cost.launch = (enum ri_launch)launch;
        assert_int_equal(ri_simulate(all.s, 2, &cost, 1, &out), RONDO_ERR_ARGUMENT);
        assert_non_null(strstr(rondo_last_error(), "rank 0 step 0 send turn 0: never ends"));
        assert_near(out.seconds, 7);
        ranks_release(&all);
    }
}

static void refuses(struct ranks *all, const struct ri_cost *cost, const char *words)
{
    struct ri_simulation out;

    assert_int_equal(ri_simulate(all->s, all->count, cost, 0, &out), RONDO_ERR_ARGUMENT);
    if (!strstr(rondo_last_error(), words))
        fail_msg("'%s' does not say '%s'", rondo_last_error(), words);
}

static void refuses_what_cannot_be_priced(void **state)
{
    struct ri_cost cost = table_cost(1);
    struct ri_schedule *kept;
    struct ranks all;

    ranks_build(&all, ri_build_ring_forward, 3, NULL, 0);
    all.s[1]->steps[0].peer = 0;
    refuses(&all, &cost, "rank 1 step 0 send turn 0: nobody meets it");
    all.s[1]->steps[0].peer = 2;
    all.s[2]->steps[1].turn = 5;
    refuses(&all, &cost, "rank 2: a turn is not below its 2 turns");
    all.s[2]->turns = 6;
    refuses(&all, &cost, "rank 1 step 0 send turn 0: nobody meets it");
    all.s[2]->turns = 2;
    all.s[2]->steps[1].turn = 0;
    kept = all.s[0];
    all.s[0] = all.s[1];
    refuses(&all, &cost, "rank 1 of 3");
    all.s[0] = kept;
    cost.lane[RI_LANE_HOST].bandwidth = 0;
    refuses(&all, &cost, "host lane");
    cost = table_cost(-1);
    refuses(&all, &cost, "compute -1");
    cost = table_cost(1);
    cost.block[RI_O] = NAN;
    refuses(&all, &cost, "block of O");
    cost = table_cost(1);
    cost.launch = RI_LAUNCHES;
    refuses(&all, &cost, "launch");
    ranks_release(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_forward_goes_at_the_pace_of_the_host_link),
        cmocka_unit_test(ring_kv_grad_hides_its_work),
        cmocka_unit_test(one_host_hides_the_ring_behind_the_work),
        cmocka_unit_test(two_levels_work_while_the_host_link_is_busy),
        cmocka_unit_test(groups_are_seen_as_a_whole),
        cmocka_unit_test(volumes_and_memory_are_counted),
        cmocka_unit_test(parts_are_fractions),
        cmocka_unit_test(chunks_pass_one_another_by),
        cmocka_unit_test(moves_cost_by_their_content),
        cmocka_unit_test(bound_messages_cost_their_latency),
        cmocka_unit_test(work_passes_a_compute_that_waits),
        cmocka_unit_test(a_seed_chooses_among_equals),
        cmocka_unit_test(equal_hosts_have_one_price),
        cmocka_unit_test(rows_carry_one_thing_at_a_time),
        cmocka_unit_test(waiting_in_a_circle_is_an_error),
        cmocka_unit_test(refuses_what_cannot_be_priced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
