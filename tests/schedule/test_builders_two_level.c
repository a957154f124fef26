/* SPDX-License-Identifier: Apache-2.0 */
/* Two-level rings, for all ranks of all small shapes and of uneven ones: proved, and counted
 * against closed formulas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/schedule/counts.h"
#include "tests/schedule/machines.h"

/* Pieces of blocks that visit host a in round j and enter at place e. */
static int entries(const struct machine *m, int pieces, int a, int j, int e)
{
    int from = ((a - j) % m->hosts + m->hosts) % m->hosts, count = 0;

    for (int u = 0; u < m->size[from] * pieces; u++)
        count += u % m->size[a] == e;
    return count;
}

/* What must be sent by a rank, in pieces of blocks. */
struct volume {
    int visitors_local, visitors_host, sums_local, sums_host;
};

/* On its host a rank passes on every visitor but those that end their walk there, and the same of
 * sums: in round 0 its own stay instead, and those that end their walk there go home.  Totals of
 * several hosts go home once more.  To the next host go the visitors that entered here, except in
 * the last round, and the totals of walks that end here, except in the first. */
static struct volume volume_of(const struct machine *m, int pieces, int a, int place)
{
    struct volume v = {0};
    int size = m->size[a];

    for (int j = 0; j < m->hosts; j++) {
        int visits = pieces * m->size[(a - j + m->hosts) % m->hosts];
        int ending = entries(m, pieces, a, j, (place + 1) % size);

        v.visitors_local += visits - ending;
        v.visitors_host += j < m->hosts - 1 ? entries(m, pieces, a, j, place) : 0;
        v.sums_local += visits - ending;
        v.sums_host += j > 0 ? ending : 0;
    }
    v.sums_local += m->hosts > 1 && size > 1 ? pieces : 0;
    return v;
}

/* parts: of a piece. */
static void counts_are(const struct scheme *scheme, const struct ri_schedule *s, struct volume v,
                       int parts)
{
    assert_int_equal(sent_in(s, scheme->visitor, RI_LANE_LOCAL), v.visitors_local * parts);
    assert_int_equal(sent_in(s, scheme->visitor, RI_LANE_HOST), v.visitors_host * parts);
    if (!scheme->backward)
        return;
    assert_int_equal(sent_in(s, scheme->sum, RI_LANE_LOCAL), v.sums_local * parts);
    assert_int_equal(sent_in(s, scheme->sum, RI_LANE_HOST), v.sums_host * parts);
}

/* M(G-1) hops on the host and M-1 across; the sums, with what a block's owner and host add at
 * home, M(G-1) and one from the total's end to the owner, and M-1 across. */
static struct volume equal_volume(int hosts, int size)
{
    int home = hosts > 1 && size > 1;

    return (struct volume){hosts * (size - 1), hosts - 1, hosts * (size - 1) + home, hosts - 1};
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
        return scheme->backward && size > 1 ? size + (size > 2) : size - 1;
    if (scheme->backward)
        return hosts * (size > 1 ? round : 3) + 1 + (size > 1);
    return size > 1 ? hosts * round : hosts - 1;
}

static void equal_hosts_are_proved(void **state)
{
    for (int hosts = 1; hosts <= PROVED_RANKS; hosts++) {
        for (int size = 1; hosts * size <= PROVED_RANKS; size++) {
            struct machine m = machine_equal(hosts, size);

            for (int i = 0; i < SCHEMES; i++) {
                struct ranks all = ranks_prove(&two_level_schemes[i], &m, (struct ri_build){0});

                for (int r = 0; r < all.count; r++) {
                    assert_int_equal(all.s[r]->token_parts, 1);
                    counts_are(&two_level_schemes[i], all.s[r], equal_volume(hosts, size), 1);
                    assert_int_equal(own_slots(all.s[r], two_level_schemes[i].visitor),
                                     least(2, hosts - 1) + least(2, size - 1));
                    assert_int_equal(own_slots(all.s[r], two_level_schemes[i].sum),
                                     two_level_schemes[i].backward ? sum_slots(hosts, size) : 0);
                    assert_int_equal(all.s[r]->turns, turns_of(&two_level_schemes[i], hosts, size));
                }
                ranks_release(&all);
            }
        }
    }
}

/* Chunks of a host transfer: the local hops of the largest host, one at least. */
static int chunks_of(const struct machine *m, const struct ri_build *how)
{
    return m->hosts > 1 && how->chunked && m->largest > 2 ? m->largest - 1 : 1;
}

static void volumes_are_right(const struct scheme *scheme, const struct machine *m,
                              const struct ri_build *how, const struct ranks *all)
{
    int pieces = m->hosts > 1 && how->pieces ? how->pieces : 1, chunks = chunks_of(m, how);

    for (int a = 0; a < m->hosts; a++) {
        for (int i = 0; i < m->size[a]; i++) {
            const struct ri_schedule *s = all->s[m->rank[a][i]];

            assert_int_equal(s->token_parts, pieces * chunks);
            counts_are(scheme, s, volume_of(m, pieces, a, i), chunks);
        }
    }
}

/* For each walk as many slots as equal hosts have. */
static void slots_are_few(const struct scheme *scheme, const struct machine *m,
                          const struct ri_build *how, const struct ranks *all)
{
    int pieces = how->pieces ? how->pieces : 1, walks = pieces;
    int landings = least(2, m->hosts - 1) + least(2, m->largest - 1);

    if (how->landing)
        landings = least(landings, how->landing);
    for (int a = 0; a < m->hosts; a++)
        for (int j = 1; j < m->hosts; j++)
            for (int i = 0; i < m->size[a]; i++)
                if (entries(m, pieces, a, j, i) > walks)
                    walks = entries(m, pieces, a, j, i);
    for (int r = 0; r < m->ranks; r++) {
        assert_true(own_slots(all->s[r], scheme->visitor) <= walks * landings);
        assert_true(own_slots(all->s[r], scheme->sum) <= walks * 5);
    }
}

static void proved_on(const struct machine *m, struct ri_build how)
{
    for (int i = 0; i < SCHEMES; i++) {
        struct ranks all = ranks_prove(&two_level_schemes[i], m, how);

        volumes_are_right(&two_level_schemes[i], m, &how, &all);
        slots_are_few(&two_level_schemes[i], m, &how, &all);
        ranks_release(&all);
    }
}

static void uneven_hosts_are_proved(void **state)
{
    for (int u = 0; u < UNEVEN; u++) {
        struct machine m = machine_of(uneven_hosts[u]);

        proved_on(&m, (struct ri_build){0});
    }
}

static void chunks_are_proved(void **state)
{
    for (int u = 0; u < UNEVEN; u++) {
        struct machine m = machine_of(uneven_hosts[u]);

        proved_on(&m, (struct ri_build){.chunked = 1});
    }
    for (int hosts = 1; hosts <= PROVED_RANKS; hosts++) {
        for (int size = 1; hosts * size <= PROVED_RANKS; size++) {
            struct machine m = machine_equal(hosts, size);

            proved_on(&m, (struct ri_build){.chunked = 1});
        }
    }
}

static void pieces_are_proved(void **state)
{
    for (int pieces = 2; pieces <= 3; pieces++) {
        for (int u = 0; u < UNEVEN; u++) {
            struct machine m = machine_of(uneven_hosts[u]);

            proved_on(&m, (struct ri_build){.pieces = pieces});
        }
        for (int hosts = 1; hosts <= 4; hosts++) {
            for (int size = 1; size <= 3; size++) {
                struct machine m = machine_equal(hosts, size);

                proved_on(&m, (struct ri_build){.pieces = pieces});
            }
        }
    }
}

static void pieces_in_chunks_are_proved(void **state)
{
    for (int u = 0; u < UNEVEN; u++) {
        struct machine m = machine_of(uneven_hosts[u]);

        if (m.ranks <= 8)
            proved_on(&m, (struct ri_build){.pieces = 2, .chunked = 1});
    }
}

/* Three do where four are the default, and more change nothing. */
static void any_landing_from_three_is_proved(void **state)
{
    for (int landing = 3; landing <= 5; landing++) {
        for (int u = 0; u < UNEVEN; u++) {
            struct machine m = machine_of(uneven_hosts[u]);

            proved_on(&m, (struct ri_build){.landing = landing});
            proved_on(&m, (struct ri_build){.landing = landing, .pieces = 2});
        }
        for (int hosts = 1; hosts <= 5; hosts++) {
            for (int size = 1; hosts * size <= PROVED_RANKS; size++) {
                struct machine m = machine_equal(hosts, size);

                proved_on(&m, (struct ri_build){.landing = landing});
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_hosts_are_proved),
        cmocka_unit_test(uneven_hosts_are_proved),
        cmocka_unit_test(chunks_are_proved),
        cmocka_unit_test(pieces_are_proved),
        cmocka_unit_test(pieces_in_chunks_are_proved),
        cmocka_unit_test(any_landing_from_three_is_proved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
