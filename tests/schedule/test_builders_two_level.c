/* SPDX-License-Identifier: Apache-2.0 */
/* Two-level rings, for all ranks of all small shapes and of uneven ones: proved, and counted
 * against closed formulas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <rondo/status.h>
#include <stdlib.h>
#include <string.h>

#include "tests/schedule/counts.h"
#include "tests/schedule/ranks.h"

/* A builder, what travels, and what is added up for it. */
struct scheme {
    ri_builder *build;
    enum ri_bundle visitor, sum;
    int backward;
};

static const struct scheme schemes[] = {
    {ri_build_two_level_forward, RI_K, RI_O, 0},
    {ri_build_two_level_kv_grad, RI_K, RI_DK, 1},
    {ri_build_two_level_q_grad, RI_Q, RI_DQ, 1},
};
enum { SCHEMES = 3, EQUAL_RANKS = 16, MAX_HOSTS = 16 };

/* Hosts as the test sees them: G[a] ranks, rank[a][i]; host[r] as a builder gets it. */
struct machine {
    int hosts, ranks, largest;
    int size[MAX_HOSTS];
    int rank[MAX_HOSTS][EQUAL_RANKS];
    int32_t host[MAX_RANKS];
};

/* sizes: ends with 0. */
static struct machine machine_of(const int *sizes)
{
    struct machine m = {0};

    for (; sizes[m.hosts]; m.hosts++) {
        m.size[m.hosts] = sizes[m.hosts];
        m.largest = m.largest > sizes[m.hosts] ? m.largest : sizes[m.hosts];
        for (int i = 0; i < sizes[m.hosts]; i++, m.ranks++) {
            m.rank[m.hosts][i] = m.ranks;
            m.host[m.ranks] = m.hosts;
        }
    }
    return m;
}

static struct machine equal_hosts(int hosts, int size)
{
    int sizes[MAX_HOSTS + 1] = {0};

    for (int a = 0; a < hosts; a++)
        sizes[a] = size;
    return machine_of(sizes);
}

static const int uneven[][5] = {
    {3, 2},    {2, 3},    {1, 4},    {4, 1},    {7, 8},       {8, 7},    {4, 2, 1}, {1, 2, 4},
    {1, 1, 6}, {6, 1, 1}, {4, 3},    {8, 4},    {5, 1, 1, 4}, {2, 1, 2}, {1, 2},    {2, 1},
    {3, 3, 2}, {2, 3, 3}, {3, 5, 7}, {1, 5, 1}, {5, 3},       {2, 7},
};
enum { UNEVEN = sizeof(uneven) / sizeof(uneven[0]) };

static struct ranks build(const struct scheme *scheme, const struct machine *m, struct ri_build how)
{
    struct ranks all;

    how.ranks = m->ranks;
    how.host = m->host;
    ranks_build_as(&all, scheme->build, &how);
    ranks_accept(&all, RI_GOAL_ATTENTION);
    return all;
}

/* Visits of whole blocks to host a that enter at place e in round j. */
static int entries(const struct machine *m, int a, int j, int e)
{
    int from = ((a - j) % m->hosts + m->hosts) % m->hosts, count = 0;

    for (int i = 0; i < m->size[from]; i++)
        count += (j == 0 ? i : i % m->size[a]) == e;
    return count;
}

/* What must be sent by a rank, in whole blocks. */
struct volume {
    int visitors_local, visitors_host, sums_local, sums_host;
};

/* On its host a rank passes on every visitor but those that end their walk there, the same of sums
 * but for its own part of its own block, which stays, and brings one home.  To the next host go the
 * visitors that entered here, except in the last round, and the totals of walks that end here. */
static struct volume volume_of(const struct machine *m, int a, int place)
{
    struct volume v = {0};
    int size = m->size[a];

    for (int j = 0; j < m->hosts; j++) {
        int visits = m->size[(a - j + m->hosts) % m->hosts];
        int ending = entries(m, a, j, (place + 1) % size);

        v.visitors_local += visits - ending;
        v.visitors_host += j < m->hosts - 1 ? entries(m, a, j, place) : 0;
        v.sums_local += visits - ending;
        v.sums_host += m->hosts > 1 && (j > 0 || size > 1) ? ending : 0;
    }
    return v;
}

static void counts_are(const struct scheme *scheme, const struct ri_schedule *s, struct volume v)
{
    int parts = s->token_parts;

    assert_int_equal(sent_in(s, scheme->visitor, RI_LANE_LOCAL), v.visitors_local * parts);
    assert_int_equal(sent_in(s, scheme->visitor, RI_LANE_HOST), v.visitors_host * parts);
    if (!scheme->backward)
        return;
    assert_int_equal(sent_in(s, scheme->sum, RI_LANE_LOCAL), v.sums_local * parts);
    assert_int_equal(sent_in(s, scheme->sum, RI_LANE_HOST), v.sums_host * parts);
}

/* M(G-1) hops on the host and M-1 across; the sums, with the own contribution at home, M(G-1) and
 * M, or M-1 with one rank per host, where the first round adds up nothing. */
static struct volume equal_volume(int hosts, int size)
{
    int across = hosts == 1 ? 0 : size == 1 ? hosts - 1 : hosts;

    return (struct volume){hosts * (size - 1), hosts - 1, hosts * (size - 1), across};
}

/* Slots for sums: two made in turn, one arriving; two totals. */
static int sum_slots(int hosts, int size)
{
    if (hosts == 1)
        return size == 1 ? 0 : least(3, size);
    return size == 1 ? least(3, hosts) : 5;
}

/* The last turn in use, plus one. */
static int turns_of(const struct scheme *scheme, int hosts, int size)
{
    int round = scheme->backward ? size + 2 : size;

    if (hosts == 1)
        return scheme->backward && size > 1 ? size + 1 : size - 1;
    if (scheme->backward)
        return hosts * (size > 1 ? round : 3) + 1 + (size > 1);
    return size > 1 ? hosts * round : hosts - 1;
}

static void equal_hosts_are_proved(void **state)
{
    for (int hosts = 1; hosts <= EQUAL_RANKS; hosts++) {
        for (int size = 1; hosts * size <= EQUAL_RANKS; size++) {
            struct machine m = equal_hosts(hosts, size);

            for (int i = 0; i < SCHEMES; i++) {
                struct ranks all = build(&schemes[i], &m, (struct ri_build){0});

                for (int r = 0; r < all.count; r++) {
                    counts_are(&schemes[i], all.s[r], equal_volume(hosts, size));
                    assert_int_equal(own_slots(all.s[r], schemes[i].visitor),
                                     least(2, hosts - 1) + least(2, size - 1));
                    assert_int_equal(own_slots(all.s[r], schemes[i].sum),
                                     schemes[i].backward ? sum_slots(hosts, size) : 0);
                    assert_int_equal(all.s[r]->turns, turns_of(&schemes[i], hosts, size));
                }
                ranks_release(&all);
            }
        }
    }
}

/* The k-th block that rank l of host a computes on, k from 0, is that of rank (l - k mod G) mod G
 * of host (a - k div G) mod M. */
static void equal_hosts_visit_in_order(void **state)
{
    for (int hosts = 1; hosts <= 5; hosts++) {
        for (int size = 1; hosts * size <= EQUAL_RANKS; size++) {
            struct machine m = equal_hosts(hosts, size);
            struct ranks all = build(&schemes[0], &m, (struct ri_build){0});

            for (int r = 0; r < all.count; r++) {
                const struct ri_schedule *s = all.s[r];
                int k = 0;

                for (uint32_t i = 0; i < s->step_count; i++) {
                    int a = (r / size - k / size + hosts) % hosts;
                    int l = (r % size - k % size + size) % size;

                    if (s->steps[i].op != RI_COMPUTE)
                        continue;
                    assert_int_equal(s->steps[i].from[1].block, a * size + l);
                    k++;
                }
                assert_int_equal(k, hosts * size);
            }
            ranks_release(&all);
        }
    }
}

static void volumes_are_right(const struct scheme *scheme, const struct machine *m,
                              const struct ranks *all)
{
    for (int a = 0; a < m->hosts; a++)
        for (int i = 0; i < m->size[a]; i++)
            counts_are(scheme, all->s[m->rank[a][i]], volume_of(m, a, i));
}

static void uneven_hosts_are_proved(void **state)
{
    for (int u = 0; u < UNEVEN; u++) {
        struct machine m = machine_of(uneven[u]);

        for (int i = 0; i < SCHEMES; i++) {
            for (int chunked = 0; chunked <= 1; chunked++) {
                struct ranks all = build(&schemes[i], &m, (struct ri_build){.chunked = chunked});

                volumes_are_right(&schemes[i], &m, &all);
                ranks_release(&all);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_hosts_are_proved),
        cmocka_unit_test(equal_hosts_visit_in_order),
        cmocka_unit_test(uneven_hosts_are_proved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
