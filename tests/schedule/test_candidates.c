/* SPDX-License-Identifier: Apache-2.0 */
/* Which schemes are priced on which machine, and which wins. */
#include <math.h>
#include <rondo/status.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schedule/candidates.h"
#include "tests/schedule/machine.h"

enum { ROOM = 1024 };

static int32_t host[ROOM];

/* Hosts of the given sizes, ended by 0. */
static int machine(const int *sizes)
{
    int ranks = 0;

    for (int h = 0; sizes[h]; h++)
        for (int i = 0; i < sizes[h]; i++)
            host[ranks++] = h;
    return ranks;
}

static int ask(int ranks, const struct ri_cost *cost, int backward, const char *schedule,
               const char *gradients, struct ri_candidate *list)
{
    struct ri_candidate_query query = {ranks, host, NULL, cost, backward, schedule, gradients, 0};
    int count = -1;

    if (ri_candidates(&query, list, &count))
        fail_msg("%s", rondo_last_error());
    return count;
}

static void assert_price(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 1e-9 * wanted))
        fail_msg("%.12g, not %.12g", value, wanted);
}

static void two_levels_win_on_two_hosts(void **state)
{
    struct ri_candidate list[RI_MAX_CANDIDATES];
    struct ri_cost cost = table_cost(1.5);
    int ranks = machine((const int[]){4, 4, 0}), count = ask(ranks, &cost, 0, NULL, NULL, list);

    assert_int_equal(count, 4); /* ring, two-level in two ways, direct */
    assert_string_equal(list[0].schedule, "two-level");
    assert_string_equal(list[0].variant, "own-turns");
    assert_null(list[0].gradients);
    assert_price(list[0].seconds, 10.1 + 4 * 1.5);
    assert_price(list[0].sent[RI_LANE_HOST], 1);
    assert_price(list[0].own_blocks[RI_K], 3);
    assert_price(list[0].compute_seconds, 8 * 1.5);
    assert_int_equal(list[0].priced_ranks, 8);
    for (int i = 1; i < count; i++)
        assert_true(list[i - 1].seconds <= list[i].seconds * (1 + 1e-9));
}

static void the_flat_ring_wins_on_one_host_and_where_a_host_has_one_rank(void **state)
{
    struct ri_candidate list[RI_MAX_CANDIDATES];
    struct ri_cost cost = table_cost(0), backward = table_cost_backward(0);
    int ranks = machine((const int[]){5, 0});

    assert_int_equal(ask(ranks, &cost, 0, "auto", NULL, list), 2); /* two levels gain nothing */
    assert_string_equal(list[0].schedule, "ring");
    ranks = machine((const int[]){4, 2, 1, 0});
    ask(ranks, &cost, 0, NULL, NULL, list);
    assert_string_equal(list[0].schedule, "ring");
    assert_price(list[0].seconds, 6 * 10.1);
    ask(ranks, &backward, 1, NULL, "kv-grad", list); /* sums cross less often than on the flat ring */
    assert_string_equal(list[0].gradients, "kv-grad");
    assert_true(list[0].seconds < 6 * 10.1 + 6 * 20.1);
}

static void uneven_hosts_are_tried_in_pieces(void **state)
{
    struct ri_candidate list[RI_MAX_CANDIDATES];
    struct ri_cost cost = table_cost_backward(0);
    int ranks = machine((const int[]){3, 2, 0}), pieces = 0;
    int count = ask(ranks, &cost, 1, "two-level", "q-grad", list);

    for (int i = 0; i < count; i++) {
        assert_string_equal(list[i].schedule, "two-level");
        assert_string_equal(list[i].gradients, "q-grad");
        pieces |= 1 << list[i].build.pieces;
    }
    assert_int_equal(pieces, 1 << 0 | 1 << 2 | 1 << 3 | 1 << 4);
    ranks = machine((const int[]){8, 4, 0});
    count = ask(ranks, &cost, 1, "two-level", "q-grad", list);
    for (int i = 0; i < count; i++)
        assert_int_equal(list[i].build.pieces, 0);
}

/* Grouped heads make K,V cheap to move, and leave the queries as they are. */
static void grouped_heads_choose_the_gradients(void **state)
{
    struct ri_candidate list[RI_MAX_CANDIDATES];
    struct ri_cost cost = table_cost_backward(0);
    int ranks = machine((const int[]){4, 4, 0});

    ask(ranks, &cost, 1, "ring", NULL, list);
    assert_string_equal(list[0].gradients, "q-grad");
    assert_price(list[0].seconds, 14 * 10.1);
    cost.block[RI_K] /= 8;
    cost.block[RI_DK] /= 8;
    ask(ranks, &cost, 1, "ring", NULL, list);
    assert_string_equal(list[0].gradients, "kv-grad");
    assert_price(list[1].seconds, 14 * 10.1);
}

/* A candidate can be built as it is, for every rank. */
static void candidates_are_proved(void **state)
{
    static const int shapes[][4] = {{1, 0}, {2, 2, 0}, {3, 2, 0}, {2, 1, 1, 0}};
    struct ri_candidate list[RI_MAX_CANDIDATES];
    struct ri_cost cost = table_cost_backward(1);

    for (int i = 0; i < 8; i++) {
        int ranks = machine(shapes[i / 2]), count = ask(ranks, &cost, i % 2, NULL, NULL, list);

        for (int c = 0; c < count; c++) {
            struct ri_schedule *all[8];
            struct ri_check check;

            for (int r = 0; r < ranks; r++) {
                list[c].build.rank = r;
                assert_int_equal(list[c].builder(&all[r], &list[c].build), 0);
            }
            if (ri_schedule_check(all, ranks, RI_GOAL_ATTENTION, &check))
                fail_msg("%s %s: %s", list[c].schedule, list[c].variant, check.message);
            for (int r = 0; r < ranks; r++)
                ri_schedule_destroy(all[r]);
        }
    }
}

/* 32 hosts of 32 are priced as 4 of them. */
static void large_machines_are_priced_by_a_part(void **state)
{
    struct ri_candidate list[RI_MAX_CANDIDATES];
    struct ri_cost cost = table_cost(0);

    for (int r = 0; r < ROOM; r++)
        host[r] = r / 32;
    assert_int_equal(ask(ROOM, &cost, 0, "ring", NULL, list), 1);
    assert_int_equal(list[0].priced_ranks, RI_MAX_PRICED_RANKS);
    assert_price(list[0].seconds, (ROOM - 1) * 10.1);
    assert_int_equal(list[0].build.ranks, ROOM);
    for (int r = 0; r < ROOM; r++)
        host[r] = r % 2; /* hosts too large for two of them, in any order */
    ask(ROOM, &cost, 0, "ring", NULL, list);
    assert_int_equal(list[0].priced_ranks, RI_MAX_PRICED_RANKS);
}

/* The schedules of all ranks of a candidate, run in full. */
static void simulate_all(struct ri_candidate *one, int bind, const struct ri_cost *cost,
                         struct ri_simulation *result)
{
    int ranks = one->build.ranks;
    struct ri_schedule **all = calloc((size_t)ranks, sizeof(*all));

    assert_non_null(all);
    for (int r = 0; r < ranks; r++) {
        one->build.rank = r;
        assert_int_equal(one->builder(&all[r], &one->build), 0);
    }
    if (bind && ri_build_can_bind(&one->build))
        assert_int_equal(ri_schedule_bind(all, ranks), 0);
    if (ri_simulate(all, ranks, cost, 0, result))
        fail_msg("%s", rondo_last_error());
    for (int r = 0; r < ranks; r++)
        ri_schedule_destroy(all[r]);
    free(all);
}

static void compare(struct ri_candidate *one, int bind, const struct ri_cost *cost, double bar,
                    const char *where)
{
    struct ri_simulation full;

    simulate_all(one, bind, cost, &full);
    if (fabs(one->seconds - full.seconds) > bar * full.seconds)
        fail_msg("%s %s %s %s: %g s, really %g", where, one->schedule,
                 one->gradients ? one->gradients : "", one->variant, one->seconds, full.seconds);
    for (int lane = 0; lane < RI_LANES; lane++)
        if (fabs(one->sent[lane] - full.sent[lane]) > 1e-9 * full.sent[lane])
            fail_msg("%s %s %s: sends %g on lane %d, really %g", where, one->schedule,
                     one->variant, one->sent[lane], lane, full.sent[lane]);
    for (int b = 0; b < RI_BUNDLES; b++)
        assert_true(fabs(one->own_blocks[b] - full.own_blocks[b]) < 1e-9);
    assert_true(fabs(one->own_units - full.own_units) <= 1e-9 * full.own_units);
    ri_simulation_release(&full);
}

static void compare_machine(const int *sizes, int backward, int bind, double compute, double bar)
{
    struct ri_candidate list[RI_MAX_CANDIDATES];
    struct ri_cost cost = backward ? table_cost_backward(compute) : table_cost(compute);
    struct ri_candidate_query query = {machine(sizes), host, NULL, &cost, backward, NULL, NULL, bind};
    char where[64];
    int count;

    assert_int_equal(ri_candidates(&query, list, &count), 0);
    snprintf(where, sizeof(where), "hosts of %d, backward %d, bind %d, compute %g:", sizes[0],
             backward, bind, compute);
    for (int i = 0; i < count; i++) {
        int collides = backward && strcmp(list[i].schedule, "direct") == 0;

        compare(&list[i], bind, &cost, collides ? 2 * bar : bar, where);
    }
}

/* Where messages hide the work, where work hides them, and between.  Gradients of the direct exchange
 * collide at their receivers, and what that costs follows no rule: their bar is twice as wide. */
static void scaled_prices_are_near_and_volumes_exact(void **state)
{
    static const int by_16[] = {16, 16, 16, 16, 16, 16, 16, 16, 0}, by_40[] = {40, 40, 40, 40, 0};
    static const double compute[] = {0, 1.5, 5};

    for (int i = 0; i < 3; i++) {
        compare_machine(by_16, 0, i == 1, compute[i], .1);
        compare_machine(by_16, 1, i == 2, 2 * compute[i], .1);
        compare_machine(by_40, 0, i == 2, compute[i], .1);
    }
    compare_machine(by_40, 1, 0, 3, .1);
}

/* The odd host decides: pieces are tried, and it is where many visitors share one rank. */
static void an_odd_host_is_not_lost(void **state)
{
    static const int odd[] = {8, 8, 8, 8, 8, 8, 8, 8, 5, 0};

    compare_machine(odd, 0, 0, 1, .2);
    compare_machine(odd, 1, 1, 1, .2);
}

/* 73 buffers are no way to save a copy; prices, which know no memory, would say so. */
static void large_hosts_keep_few_buffers(void **state)
{
    struct ri_candidate list[RI_MAX_CANDIDATES];
    struct ri_cost cost = table_cost(1);
    struct ri_candidate_query query = {288, host, NULL, &cost, 0, "ring", NULL, 1};
    int count;

    for (int size = 12; size <= 72; size += 60) {
        for (int r = 0; r < 288; r++)
            host[r] = r / size;
        assert_int_equal(ri_candidates(&query, list, &count), 0);
        assert_int_equal(count, 1);
        assert_int_equal(list[0].build.landing, size > 16 ? 0 : size + 1);
        compare(&list[0], 1, &cost, .1, "hosts of ring");
    }
}

static void refuses(struct ri_candidate_query query, const char *words)
{
    struct ri_candidate list[RI_MAX_CANDIDATES] = {{.schedule = "untouched"}};
    int count = 77;

    assert_int_equal(ri_candidates(&query, list, &count), RONDO_ERR_ARGUMENT);
    assert_int_equal(count, 77);
    assert_string_equal(list[0].schedule, "untouched");
    if (!strstr(rondo_last_error(), words))
        fail_msg("'%s' does not say '%s'", rondo_last_error(), words);
}

static void refuses_what_is_not_known(void **state)
{
    static const int32_t strange[] = {0, 2};
    struct ri_cost cost = table_cost(1), no_price = table_cost(-1);

    refuses((struct ri_candidate_query){2, NULL, NULL, &cost, 0, "mesh", NULL, 0}, "schedule \"mesh\"");
    refuses((struct ri_candidate_query){2, NULL, NULL, &cost, 1, NULL, "o-grad", 0}, "backward \"o-grad\"");
    refuses((struct ri_candidate_query){0, NULL, NULL, &cost, 0, NULL, NULL, 0}, "ranks 0");
    refuses((struct ri_candidate_query){2, strange, NULL, &cost, 0, NULL, NULL, 0}, "host 2 of rank 1");
    refuses((struct ri_candidate_query){2, NULL, NULL, &no_price, 0, NULL, NULL, 0}, "compute -1");
    refuses((struct ri_candidate_query){2, NULL, NULL, NULL, 0, NULL, NULL, 0}, "cost is NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_levels_win_on_two_hosts),
        cmocka_unit_test(the_flat_ring_wins_on_one_host_and_where_a_host_has_one_rank),
        cmocka_unit_test(uneven_hosts_are_tried_in_pieces),
        cmocka_unit_test(grouped_heads_choose_the_gradients),
        cmocka_unit_test(candidates_are_proved),
        cmocka_unit_test(large_machines_are_priced_by_a_part),
        cmocka_unit_test(scaled_prices_are_near_and_volumes_exact),
        cmocka_unit_test(an_odd_host_is_not_lost),
        cmocka_unit_test(large_hosts_keep_few_buffers),
        cmocka_unit_test(refuses_what_is_not_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
