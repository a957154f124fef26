/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks may stand in rings in any order: schedules stay right, and the order is that which was given. */
#include <rondo/status.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "schedule/candidates.h"
#include "tests/schedule/machine.h"
#include "tests/schedule/ranks.h"

static ri_builder *const builders[] = {
    ri_build_ring_forward,     ri_build_ring_kv_grad,      ri_build_ring_q_grad,
    ri_build_two_level_forward, ri_build_two_level_kv_grad, ri_build_two_level_q_grad,
};
enum { BUILDERS = sizeof(builders) / sizeof(builders[0]) };

/* Deals ranks out over hosts, and shuffles them, by a seed. */
static void deal(uint32_t seed, int ranks, int hosts, int32_t *host, int32_t *order)
{
    for (int r = 0; r < ranks; r++) {
        int at;

        seed = seed * 1664525 + 1013904223;
        host[r] = r < hosts ? r : (int32_t)(seed >> 16) % hosts;
        seed = seed * 1664525 + 1013904223;
        at = (int)((seed >> 16) % (unsigned)(r + 1));
        order[r] = order[at];
        order[at] = r;
    }
}

static void any_order_is_right(void **state)
{
    for (uint32_t seed = 0; seed < 120; seed++) {
        int ranks = 1 + (int)(seed % 11), hosts = 1 + (int)(seed / 11) % (ranks < 4 ? ranks : 4);
        int32_t host[MAX_RANKS], order[MAX_RANKS];
        struct ri_build how = { .ranks = ranks, .host = host, .order = order, .chunked = seed % 3 == 1,
                                .pieces = seed % 3 == 2 ? 2 : 0 };

        deal(seed, ranks, hosts, host, order);
        for (int b = 0; b < BUILDERS; b++) {
            struct ranks all;

            ranks_build_as(&all, builders[b], &how);
            ranks_accept(&all, RI_GOAL_ATTENTION);
            if (ri_build_can_bind(&how)) {
                assert_int_equal(ri_schedule_bind(all.s, ranks), 0);
                ranks_accept(&all, RI_GOAL_ATTENTION);
            }
            ranks_release(&all);
        }
    }
}

static int32_t next_of(const struct ri_schedule *s)
{
    for (uint32_t i = 0; i < s->step_count; i++)
        if (s->steps[i].op == RI_SEND)
            return s->steps[i].peer;
    return -1;
}

static void a_ring_goes_as_it_is_told(void **state)
{
    static const int32_t order[] = { 3, 0, 4, 1, 2 };
    struct ri_build how = { .ranks = 5, .order = order };
    struct ranks all;

    ranks_build_as(&all, ri_build_ring_forward, &how);
    for (int i = 0; i < 5; i++)
        assert_int_equal(next_of(all.s[order[i]]), order[(i + 1) % 5]);
    ranks_release(&all);
}

static int crossings(const struct ranks *all)
{
    int count = 0;

    for (int r = 0; r < all->count; r++)
        for (uint32_t i = 0; i < all->s[r]->step_count; i++)
            count += all->s[r]->steps[i].op == RI_SEND && all->s[r]->steps[i].lane == RI_LANE_HOST;
    return count;
}

/* 8 ranks dealt round-robin over two hosts: each of 8 x 7 hops crosses, or those of two ranks. */
static void host_after_host_crosses_at_two_ranks(void **state)
{
    static const int32_t host[] = { 0, 1, 0, 1, 0, 1, 0, 1 }, order[] = { 0, 2, 4, 6, 1, 3, 5, 7 };
    struct ri_build how = { .ranks = 8, .host = host };
    struct ranks all;

    ranks_build_as(&all, ri_build_ring_forward, &how);
    assert_int_equal(crossings(&all), 8 * 7);
    ranks_release(&all);
    how.order = order;
    ranks_build_as(&all, ri_build_ring_forward, &how);
    assert_int_equal(crossings(&all), 2 * 7);
    ranks_release(&all);
}

/* A host's ranks stand in its ring as in the order, its blocks come in from the same place of the host before. */
static void two_levels_follow_it_too(void **state)
{
    static const int32_t host[] = { 0, 0, 0, 1, 1, 1 }, order[] = { 2, 0, 1, 5, 4, 3 };
    struct ri_build how = { .ranks = 6, .host = host, .order = order };
    struct ranks all;

    ranks_build_as(&all, ri_build_two_level_forward, &how);
    for (int place = 0; place < 3; place++) {
        const struct ri_schedule *s = all.s[order[place]];

        for (uint32_t i = 0; i < s->step_count; i++)
            if (s->steps[i].op == RI_SEND)
                assert_int_equal(s->steps[i].peer, s->steps[i].lane == RI_LANE_HOST ? order[3 + place]
                                                                                   : order[(place + 1) % 3]);
    }
    ranks_release(&all);
}

static void refuse(const int32_t *order, const char *words)
{
    struct ri_build how = { .ranks = 3, .order = order };
    struct ri_schedule *s = NULL;

    for (int b = 0; b < BUILDERS; b++) {
        assert_int_equal(builders[b](&s, &how), RONDO_ERR_ARGUMENT);
        assert_null(s);
        assert_non_null(strstr(rondo_last_error(), words));
    }
}

static void an_order_names_each_rank_once(void **state)
{
    refuse((const int32_t[]){ 0, 1, 1 }, "order[2] is rank 1");
    refuse((const int32_t[]){ 0, 3, 1 }, "order[1] is rank 3");
    refuse((const int32_t[]){ -1, 0, 1 }, "order[0] is rank -1");
}

static double ring_seconds(const int32_t *host, const int32_t *order, int ranks, const struct ri_cost *cost)
{
    struct ri_candidate list[RI_MAX_CANDIDATES];
    struct ri_candidate_query query = { .ranks = ranks, .host = host, .order = order, .cost = cost,
                                        .schedule = "ring" };
    int count;

    assert_int_equal(ri_candidates(&query, list, &count), 0);
    assert_int_equal(count, 1);
    assert_ptr_equal(list[0].build.order, order);
    return list[0].seconds;
}

/* One NIC a host: four ranks of each send through it in every hop, or one. */
static void prices_know_the_order(void **state)
{
    enum { MANY = 96 };
    struct ri_cost cost = table_cost(0);
    int32_t host[MANY], order[MANY];

    cost.shared_nic = 1;
    for (int r = 0; r < MANY; r++) {
        host[r] = r % 2;
        order[r] = r < MANY / 2 ? 2 * r : 2 * (r - MANY / 2) + 1;
    }
    assert_true(ring_seconds(host, NULL, MANY, &cost) > 20 * ring_seconds(host, order, MANY, &cost));
    for (int r = 0; r < 8; r++)
        order[r] = r < 4 ? 2 * r : 2 * (r - 4) + 1;
    assert_true(ring_seconds(host, NULL, 8, &cost) > 3.9 * ring_seconds(host, order, 8, &cost));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_is_right),
        cmocka_unit_test(a_ring_goes_as_it_is_told),
        cmocka_unit_test(host_after_host_crosses_at_two_ranks),
        cmocka_unit_test(two_levels_follow_it_too),
        cmocka_unit_test(an_order_names_each_rank_once),
        cmocka_unit_test(prices_know_the_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
