/* SPDX-License-Identifier: Apache-2.0 */
/* Cycles and groups against trying out all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tests/topo/machines.h"
#include "topo/puzzle.h"

enum { MOST = 64 };

static uint64_t seed;

static int below(int limit)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)limit);
}

/* Few different weights make many ties. */
static void random_weights(int64_t *weight, int n, int kinds)
{
    for (int a = 0; a < n; a++)
        for (int b = 0; b <= a; b++)
            weight[a * n + b] = weight[b * n + a] = a == b ? 0 : 1 + below(kinds);
}

struct found {
    int64_t least, sum;
    int32_t answer[MOST];
};

static int is_more(const struct found *a, const struct found *b)
{
    return a->least != b->least ? a->least > b->least : a->sum > b->sum;
}

static struct found weigh_cycle(const int64_t *weight, int n, const int32_t *order)
{
    struct found found = { INT64_MAX, 0, { 0 } };

    memcpy(found.answer, order, sizeof(*order) * (size_t)n);
    for (int i = 0; i < n; i++) {
        int64_t hop = weight[order[i] * n + order[(i + 1) % n]];

        found.least = hop < found.least ? hop : found.least;
        found.sum += hop;
    }
    return found;
}

/* All orders in order of numbers, so that the first of the best is kept. */
static void try_cycles(const int64_t *weight, int n, int32_t *order, int at, struct found *best)
{
    struct found found;

    for (int32_t point = 1; point < n && at < n; point++) {
        int used = 0;

        for (int i = 0; i < at; i++)
            used |= order[i] == point;
        if (used)
            continue;
        order[at] = point;
        try_cycles(weight, n, order, at + 1, best);
    }
    if (at < n)
        return;
    found = weigh_cycle(weight, n, order);
    if (is_more(&found, best))
        *best = found;
}

static void cycles_are_the_best_of_all(void **state)
{
    for (seed = 1; seed < 400; seed++) {
        uint64_t kept = seed;
        int64_t weight[49];
        int32_t order[7] = { 0 }, got[7];
        struct found best = { -1, 0, { 0 } };
        int n = 1 + (int)(seed % 7);

        random_weights(weight, n, seed % 2 ? 4 : 1000);
        try_cycles(weight, n, order, 1, &best);
        assert_int_equal(ri_puzzle_cycle(weight, n, got), 0);
        assert_memory_equal(got, best.answer, sizeof(*got) * (size_t)n);
        seed = kept;
    }
}

static struct found weigh_groups(const int64_t *weight, int n, const int32_t *group)
{
    struct found found = { INT64_MAX, 0, { 0 } };

    memcpy(found.answer, group, sizeof(*group) * (size_t)n);
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++)
            if (group[a] >= 0 && group[a] == group[b]) {
                found.least = weight[a * n + b] < found.least ? weight[a * n + b] : found.least;
                found.sum += weight[a * n + b];
            }
    return found;
}

/* All ways to give points to groups numbered by their first points, or to none where some are left over. */
static void try_groups(const int64_t *weight, int n, int size, int32_t *group, int at, int groups, int left,
                       struct found *best)
{
    struct found found;

    for (int32_t g = 0; at < n && g <= groups && g < n / size; g++) {
        int members = 0;

        for (int i = 0; i < at; i++)
            members += group[i] == g;
        if (members == size)
            continue;
        group[at] = g;
        try_groups(weight, n, size, group, at + 1, groups + (g == groups), left, best);
    }
    if (at < n && left > 0) {
        group[at] = -1;
        try_groups(weight, n, size, group, at + 1, groups, left - 1, best);
    }
    if (at < n)
        return;
    found = weigh_groups(weight, n, group);
    if (is_more(&found, best))
        *best = found;
}

static void groups_are_the_best_of_all(void **state)
{
    for (seed = 1; seed < 400; seed++) {
        uint64_t kept = seed;
        int64_t weight[49];
        int32_t group[7] = { 0 }, got[7];
        struct found best = { -1, 0, { 0 } }, mine;
        int n = 1 + (int)(seed % 7), size = 1 + (int)(seed / 7 % 4);

        random_weights(weight, n, seed % 2 ? 4 : 1000);
        try_groups(weight, n, size, group, 0, 0, n % size, &best);
        assert_int_equal(ri_puzzle_groups(weight, n, size, got), 0);
        mine = weigh_groups(weight, n, got);
        assert_true(mine.least == best.least && mine.sum == best.sum);
        /* Where none is left over, the first in order of numbers is one answer only. */
        if (n % size == 0)
            assert_memory_equal(got, best.answer, sizeof(*got) * (size_t)n);
        seed = kept;
    }
}

static void assert_permutation(const int32_t *order, int n)
{
    uint64_t seen = 0;

    for (int i = 0; i < n; i++)
        seen |= (uint64_t)1 << order[i];
    assert_true(seen == (n == 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1));
    assert_int_equal(order[0], 0);
    assert_true(n < 3 || order[1] < order[n - 1]);
}

/* The search by steps seldom misses the slowest hop's best on few points; it is never far off. */
static void steps_come_near(void **state)
{
    int missed = 0;

    for (seed = 1; seed <= 200; seed++) {
        uint64_t kept = seed;
        int64_t weight[64];
        int32_t exact[8], steps[8];
        struct found best, near;

        random_weights(weight, 8, 100);
        assert_int_equal(ri_puzzle_cycle(weight, 8, exact), 0);
        ri_puzzle_cycle_by_steps(weight, 8, steps);
        assert_permutation(steps, 8);
        best = weigh_cycle(weight, 8, exact);
        near = weigh_cycle(weight, 8, steps);
        assert_true(best.least >= near.least);
        missed += near.least < best.least;
        seed = kept;
    }
    assert_true(missed <= 20);
}

static void equal_hops_keep_the_natural_order(void **state)
{
    static int64_t weight[MOST * MOST];
    int32_t order[MOST];

    for (int n = 1; n <= MOST; n += n < 20 ? 1 : 11) {
        for (int i = 0; i < n * n; i++)
            weight[i] = 5;
        assert_int_equal(ri_puzzle_cycle(weight, n, order), 0);
        for (int i = 0; i < n; i++)
            assert_int_equal(order[i], i);
    }
}

/* Points dealt over clusters, which a cycle should enter and leave once each. */
static void many_points_go_cluster_by_cluster(void **state)
{
    static int64_t weight[MOST * MOST];
    int32_t order[MOST], group[MOST];

    for (int clusters = 2; clusters <= 16; clusters *= 2) {
        int crossed = 0;

        for (int i = 0; i < MOST * MOST; i++)
            weight[i] = i / MOST % clusters == i % MOST % clusters ? 10 : 1;
        assert_int_equal(ri_puzzle_cycle(weight, MOST, order), 0);
        assert_permutation(order, MOST);
        for (int i = 0; i < MOST; i++)
            crossed += order[i] % clusters != order[(i + 1) % MOST] % clusters;
        assert_int_equal(crossed, clusters);
        assert_int_equal(ri_puzzle_groups(weight, MOST, MOST / clusters, group), 0);
        for (int i = 0; i < MOST; i++)
            assert_int_equal(group[i], i % clusters);
    }
}

static void twelve_and_sixty_four_points_have_answers(void **state)
{
    static int64_t weight[MOST * MOST];
    int32_t order[MOST], group[MOST];

    seed = 7;
    for (int n = 12; n <= MOST; n += 26) {
        random_weights(weight, n, 1000);
        assert_int_equal(ri_puzzle_cycle(weight, n, order), 0);
        assert_permutation(order, n);
        assert_int_equal(ri_puzzle_groups(weight, n, 4, group), 0);
        for (int g = 0; g < n / 4; g++) {
            int members = 0;

            for (int i = 0; i < n; i++)
                members += group[i] == g;
            assert_int_equal(members, 4);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cycles_are_the_best_of_all),
        cmocka_unit_test(groups_are_the_best_of_all),
        cmocka_unit_test(steps_come_near),
        cmocka_unit_test(equal_hops_keep_the_natural_order),
        cmocka_unit_test(many_points_go_cluster_by_cluster),
        cmocka_unit_test(twelve_and_sixty_four_points_have_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
