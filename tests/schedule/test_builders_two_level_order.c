/* SPDX-License-Identifier: Apache-2.0 */
/* Two-level rings: which block comes when, which transfer has which turn, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <rondo/status.h>
#include <string.h>

#include "tests/schedule/machines.h"

/* The k-th block that rank l of host a computes on, k from 0, is that of rank (l - k mod G) mod G
 * of host (a - k div G) mod M. */
static void equal_hosts_visit_in_order(void **state)
{
    for (int hosts = 1; hosts <= 5; hosts++) {
        for (int size = 1; hosts * size <= PROVED_RANKS; size++) {
            struct machine m = machine_equal(hosts, size);
            struct ranks all = ranks_prove(&two_level_schemes[0], &m, (struct ri_build){0});

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

/* Of 3 blocks that enter a host of 2 ranks one rank takes 2; cut in 2 pieces each takes 1.5. */
static void pieces_even_out_the_entries(void **state)
{
    struct machine m = machine_of((int[]){3, 2, 0});

    for (int pieces = 1; pieces <= 2; pieces++) {
        struct ranks all =
            ranks_prove(&two_level_schemes[0], &m, (struct ri_build){.pieces = pieces});

        for (int r = 3; r < 5; r++) {
            const struct ri_schedule *s = all.s[r];
            int entered = 0;

            for (uint32_t i = 0; i < s->step_count; i++)
                if (s->steps[i].op == RI_RECV && s->steps[i].lane == RI_LANE_HOST)
                    entered += s->steps[i].to[0].parts;
            assert_int_equal(entered, pieces == 2 ? 3 : r == 3 ? 2 : 1);
        }
        ranks_release(&all);
    }
}

/* Turn t of a round of G turns has hop t, chunk t of what goes to the next host, and chunk t - 1 of
 * the totals.  These go home whole. */
static void chunks_spread_over_the_local_turns(void **state)
{
    for (int size = 3; size <= 5; size++) {
        struct machine m = machine_equal(3, size);

        for (int i = 0; i < SCHEMES; i++) {
            struct ranks all =
                ranks_prove(&two_level_schemes[i], &m, (struct ri_build){.chunked = 1});
            int round = two_level_schemes[i].backward ? size : size - 1;

            for (int r = 0; r < all.count; r++) {
                const struct ri_schedule *s = all.s[r];

                assert_int_equal(s->turns,
                                 two_level_schemes[i].backward ? 3 * size + 2 : 3 * round);
                for (uint32_t k = 0; k < s->step_count; k++) {
                    const struct ri_step *step = &s->steps[k];
                    int total;

                    if (step->op != RI_SEND || step->lane != RI_LANE_HOST)
                        continue;
                    total = s->slots[step->from[0].slot].bundle != two_level_schemes[i].visitor;
                    if (step->turn < 3 * round)
                        assert_int_equal(step->turn % round, step->from[0].first_part + total);
                    assert_int_equal(step->from[0].parts, step->turn < 3 * round ? 1 : size - 1);
                }
            }
            ranks_release(&all);
        }
    }
}

/* Turn 0 of a round is the visitors' to the next host, turn 2 that of the totals. */
static void host_transfers_have_turns_of_their_own(void **state)
{
    struct machine m = machine_of((int[]){4, 2, 3, 0});

    for (int i = 0; i < SCHEMES; i++) {
        struct ranks all = ranks_prove(&two_level_schemes[i], &m, (struct ri_build){0});
        int round = two_level_schemes[i].backward ? 6 : 4;

        for (int r = 0; r < all.count; r++) {
            const struct ri_schedule *s = all.s[r];

            for (uint32_t k = 0; k < s->step_count; k++) {
                const struct ri_step *step = &s->steps[k];
                int in_round = step->turn % round;

                if (!ri_step_moves(step) || step->turn >= 3 * round)
                    continue;
                assert_int_equal(step->lane == RI_LANE_HOST,
                                 in_round == 0 || (two_level_schemes[i].backward && in_round == 2));
            }
        }
        ranks_release(&all);
    }
}

/* Steps alike but for the numbers of ranks and blocks, which `as` translates. */
static void steps_are_alike(const struct ri_schedule *a, const struct ri_schedule *b, const int *as)
{
    assert_int_equal(a->step_count, b->step_count);
    for (uint32_t i = 0; i < a->step_count; i++) {
        const struct ri_step *x = &a->steps[i], *y = &b->steps[i];

        assert_int_equal(x->op, y->op);
        assert_int_equal(x->lane, y->lane);
        assert_int_equal(x->turn, y->turn);
        assert_int_equal(x->peer < 0 ? -1 : as[x->peer], y->peer);
        for (int k = 0; k < 2; k++) {
            const struct ri_operand *from = &x->from[k], *to = &x->to[k];

            assert_int_equal(from->slot, y->from[k].slot);
            assert_int_equal(to->slot, y->to[k].slot);
            if (from->slot >= 0)
                assert_int_equal(as[from->block], y->from[k].block);
            if (to->slot >= 0)
                assert_int_equal(as[to->block], y->to[k].block);
        }
    }
}

/* Hosts may have any numbers, and their ranks any: they count in the order of their first ranks. */
static void hosts_may_be_numbered_and_spread_in_any_way(void **state)
{
    static const struct {
        int sizes[4];
        int32_t host[6];
        int as[6]; /* rank 0, 1.. of hosts in blocks is which rank here */
    } rows[] = {
        {{2, 2}, {0, 1, 0, 1}, {0, 2, 1, 3}},
        {{1, 2}, {1, 0, 0}, {0, 1, 2}},
        {{2, 2, 1}, {5, -3, 5, -3, 7}, {0, 2, 1, 3, 4}},
        {{1, 3, 2}, {9, 4, 2, 4, 4, 2}, {0, 1, 3, 4, 2, 5}},
        {{3, 2}, {INT32_MAX, INT32_MAX, INT32_MIN, INT32_MIN, INT32_MAX}, {0, 1, 4, 2, 3}},
    };

    for (int row = 0; row < 5; row++) {
        struct machine plain = machine_of(rows[row].sizes), spread = plain;

        memcpy(spread.host, rows[row].host, sizeof(rows[row].host));
        for (int i = 0; i < SCHEMES; i++) {
            struct ranks a = ranks_prove(&two_level_schemes[i], &plain, (struct ri_build){0});
            struct ranks b = ranks_prove(&two_level_schemes[i], &spread, (struct ri_build){0});

            for (int r = 0; r < plain.ranks; r++)
                steps_are_alike(a.s[r], b.s[rows[row].as[r]], rows[row].as);
            ranks_release(&a);
            ranks_release(&b);
        }
    }
}

/* Step by step, also where pieces and chunks are asked for: nothing crosses hosts. */
static void one_host_is_the_flat_ring(void **state)
{
    static ri_builder *const rings[] = {ri_build_ring_forward, ri_build_ring_kv_grad,
                                        ri_build_ring_q_grad};
    int same[PROVED_RANKS];

    for (int r = 0; r < PROVED_RANKS; r++)
        same[r] = r;
    for (int size = 1; size <= 9; size++) {
        for (int i = 0; i < SCHEMES; i++) {
            struct machine m = machine_equal(1, size);
            struct ranks flat, two = ranks_prove(&two_level_schemes[i], &m,
                                                 (struct ri_build){.pieces = 2, .chunked = 1});

            ranks_build(&flat, rings[i], size, NULL, 0);
            for (int r = 0; r < size; r++)
                steps_are_alike(flat.s[r], two.s[r], same);
            ranks_release(&flat);
            ranks_release(&two);
        }
    }
}

static void refuses(int hosts, int size, struct ri_build how, const char *words)
{
    struct machine m = machine_equal(hosts, size);

    how.ranks = m.ranks;
    how.host = m.host;
    for (int i = 0; i < SCHEMES; i++) {
        struct ri_schedule *s = NULL;

        assert_int_equal(two_level_schemes[i].build(&s, &how), RONDO_ERR_ARGUMENT);
        assert_null(s);
        if (!strstr(rondo_last_error(), words))
            fail_msg("'%s' lacks '%s'", rondo_last_error(), words);
    }
}

static void refuses_what_cannot_be_built(void **state)
{
    refuses(3, 3, (struct ri_build){.landing = 2}, "landing 2: 3 hosts of up to 3 ranks need 3");
    refuses(3, 3, (struct ri_build){.landing = 3, .chunked = 1},
            "landing 3: 3 hosts of up to 3 ranks with chunks need 4");
    refuses(2, 3, (struct ri_build){.landing = 2}, "need 3");
    refuses(3, 2, (struct ri_build){.landing = 2}, "need 3");
    refuses(2, 2, (struct ri_build){.landing = 1}, "need 2");
    refuses(1, 3, (struct ri_build){.landing = 1}, "need 2");
    refuses(1, 2, (struct ri_build){.landing = -1}, "landing -1");
    refuses(2, 2, (struct ri_build){.pieces = -1}, "-1 pieces");
    refuses(2, 2, (struct ri_build){.pieces = 65536}, "65536 pieces");
    refuses(2, 4, (struct ri_build){.pieces = 65535, .chunked = 1}, "65535 pieces in 3 chunks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_hosts_visit_in_order),
        cmocka_unit_test(pieces_even_out_the_entries),
        cmocka_unit_test(chunks_spread_over_the_local_turns),
        cmocka_unit_test(host_transfers_have_turns_of_their_own),
        cmocka_unit_test(hosts_may_be_numbered_and_spread_in_any_way),
        cmocka_unit_test(one_host_is_the_flat_ring),
        cmocka_unit_test(refuses_what_cannot_be_built),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
