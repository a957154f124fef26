/* SPDX-License-Identifier: Apache-2.0 */
/* Where slots are bound inside a host, what memory is left, and what happens where they must not
 * be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <rondo/status.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/internal.h"
#include "tests/schedule/play.h"
#include "tests/schedule/ranks.h"

static void bind_all(struct ranks *all)
{
    if (ri_schedule_bind(all->s, all->count))
        fail_msg("%s", rondo_last_error());
}

/* Views that need memory of this rank. */
static int own_views(const struct ri_schedule *s)
{
    int count = 0;

    for (uint32_t i = 0; i < s->slot_count; i++)
        count += s->slots[i].kind == RI_VIEW && !ri_slot_is_bound(s, (int32_t)i);
    return count;
}

/* Receives of read-only content on the local lane that copy. */
static int local_copies(const struct ri_schedule *s)
{
    int count = 0;

    for (uint32_t i = 0; i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];

        count += step->op == RI_RECV && step->lane == RI_LANE_LOCAL && !step->bind &&
                 !ri_bundle_accumulates(s->slots[step->to[0].slot].bundle);
    }
    return count;
}

static void everything_is_bound(const struct ranks *all, int views)
{
    for (int r = 0; r < all->count; r++) {
        assert_int_equal(local_copies(all->s[r]), 0);
        if (views >= 0)
            assert_int_equal(own_views(all->s[r]), views);
    }
}

static void set_hosts(int32_t *host, int hosts, int local)
{
    for (int r = 0; r < hosts * local; r++)
        host[r] = r / local;
}

static void rings_on_one_host_need_no_keys(void **state)
{
    static ri_builder *const builders[] = {ri_build_ring_forward, ri_build_ring_kv_grad};

    for (int ranks = 1; ranks <= 9; ranks++) {
        for (int b = 0; b < 2; b++) {
            struct ranks all;

            ranks_build(&all, builders[b], ranks, NULL, 0);
            bind_all(&all);
            everything_is_bound(&all, 0);
            ranks_accept(&all, RI_GOAL_ATTENTION);
            ranks_release(&all);
        }
    }
}

/* With two landing slots what comes from other hosts must be copied on, and nothing hangs. */
static void rings_over_hosts_are_accepted(void **state)
{
    for (int hosts = 2; hosts <= 4; hosts++) {
        for (int local = 1; local <= 4; local++) {
            int32_t host[16];
            struct ranks all;

            set_hosts(host, hosts, local);
            ranks_build(&all, ri_build_ring_kv_grad, hosts * local, host, 0);
            bind_all(&all);
            ranks_accept(&all, RI_GOAL_ATTENTION);
            ranks_release(&all);
        }
    }
}

/* A flat ring with as many landing slots as one likes. */
static void ring_with_landing(struct ranks *all, int hosts, int local, int landing)
{
    int32_t host[16];
    int ranks = hosts * local;

    memset(all, 0, sizeof(*all));
    all->count = ranks;
    set_hosts(host, hosts, local);
    for (int r = 0; r < ranks; r++) {
        struct ri_schedule *s;

        assert_int_equal(ri_schedule_begin(&s, "landing", r, ranks, host), 0);
        ri_schedule_slot(s, RI_Q, RI_IN, 1);
        ri_schedule_slot(s, RI_K, RI_IN, 1);
        ri_schedule_slot(s, RI_O, RI_OUT, 1);
        for (int i = 0; i < landing; i++)
            ri_schedule_slot(s, RI_K, RI_VIEW, 1);
        for (int t = 0; t < ranks; t++) {
            int slot = t ? 3 + (t - 1) % landing : 1, block = (r - t + ranks) % ranks;

            if (t < ranks - 1) {
                ri_schedule_send(s, ri_operand(s, slot, block), (r + 1) % ranks, t);
                ri_schedule_recv(s, ri_operand(s, 3 + t % landing, (r - t - 1 + 2 * ranks) % ranks),
                                 (r + ranks - 1) % ranks, t);
            }
            ri_schedule_compute(s, ri_operand(s, 0, r), ri_operand(s, slot, block),
                                ri_operand(s, 2, r), ri_none);
        }
        assert_int_equal(ri_schedule_end(&s), 0);
        all->s[r] = s;
    }
}

static void bind_by_hand(struct ranks *all)
{
    for (int r = 0; r < all->count; r++)
        for (uint32_t i = 0; i < all->s[r]->step_count; i++)
            if (ri_step_moves(&all->s[r]->steps[i]))
                all->s[r]->steps[i].bind = all->s[r]->steps[i].lane == RI_LANE_LOCAL;
}

static void says(struct ranks *all, const char *words)
{
    struct ri_check check;

    assert_int_equal(ri_schedule_check(all->s, all->count, RI_GOAL_ATTENTION, &check),
                     RONDO_ERR_MISMATCH);
    if (!strstr(check.message, words))
        fail_msg("'%s' lacks '%s'", check.message, words);
}

/* The entry rank of a host may not write its landing slot again before the last rank of the host
 * has sent the block on, in the turn in which that happens. */
static void rings_over_hosts_bind_with_one_slot_more_than_ranks(void **state)
{
    for (int hosts = 2; hosts <= 4; hosts++) {
        for (int local = 2; local <= 4; local++) {
            struct ranks all;

            ring_with_landing(&all, hosts, local, local + 1);
            bind_all(&all);
            everything_is_bound(&all, -1);
            for (int r = 0; r < all.count; r++)
                if (hosts > 2 || local > 2)
                    assert_int_equal(own_views(all.s[r]), r % local ? 0 : local + 1);
            ranks_accept(&all, RI_GOAL_ATTENTION);
            bind_by_hand(&all);
            ranks_accept(&all, RI_GOAL_ATTENTION);
            ranks_release(&all);
        }
    }
}

static void too_few_landing_slots_deadlock(void **state)
{
    for (int hosts = 2; hosts <= 4; hosts++) {
        for (int local = 2; local <= 4; local++) {
            for (int landing = 2; landing <= local; landing++) {
                struct ranks all;

                ring_with_landing(&all, hosts, local, landing);
                bind_by_hand(&all);
                assert_int_equal(ri_schedule_bind_rules(all.s, all.count), RONDO_ERR_ARGUMENT);
                assert_non_null(strstr(rondo_last_error(), "writes the slot again in turn"));
                says(&all, "deadlock");
                bind_all(&all);
                ranks_accept(&all, RI_GOAL_ATTENTION);
                ranks_release(&all);
            }
        }
    }
}

static void two_level_needs_what_comes_from_other_hosts(void **state)
{
    struct ranks all;

    ranks_parse(&all, 8, text_two_level_fwd);
    bind_all(&all);
    everything_is_bound(&all, 1);
    ranks_accept(&all, RI_GOAL_ATTENTION);
    ranks_release(&all);
    ranks_parse(&all, 4, text_two_level_q);
    bind_all(&all);
    everything_is_bound(&all, 1);
    ranks_accept(&all, RI_GOAL_ATTENTION);
    ranks_release(&all);
}

/* The blocks of other hosts, one under way and one that is read when there are more than two. */
static void builders_need_what_the_table_says(void **state)
{
    static ri_builder *const two_level[] = {ri_build_two_level_forward, ri_build_two_level_kv_grad,
                                            ri_build_two_level_q_grad};
    static ri_builder *const direct[] = {ri_build_direct_forward, ri_build_direct_kv_grad,
                                         ri_build_direct_q_grad};
    int32_t host[16];
    struct ranks all;

    for (int hosts = 1; hosts <= 4; hosts++) {
        for (int local = 2; local <= 4; local++) {
            set_hosts(host, hosts, local);
            for (int b = 0; b < 3; b++) {
                ranks_build(&all, two_level[b], hosts * local, host, 0);
                bind_all(&all);
                everything_is_bound(&all, hosts < 3 ? hosts - 1 : 2);
                ranks_release(&all);
            }
        }
    }
    for (int b = 0; b < 3; b++) {
        ranks_build(&all, direct[b], 7, NULL, 0);
        bind_all(&all);
        everything_is_bound(&all, 0);
        ranks_release(&all);
    }
}

static void meshes_read_both_sides_in_place(void **state)
{
    struct ranks all;

    ranks_parse(&all, 4, text_mesh2x2);
    bind_all(&all);
    everything_is_bound(&all, 0);
    ranks_accept(&all, RI_GOAL_ATTENTION);
    ranks_release(&all);
}

/* One head group of a block is no run of memory. */
static void head_groups_are_copied(void **state)
{
    struct ranks all;

    ranks_parse(&all, 3, text_all_to_all);
    bind_all(&all);
    for (int r = 0; r < 3; r++)
        assert_int_equal(local_copies(all.s[r]), 4);
    ranks_accept(&all, RI_GOAL_ATTENTION);
    ranks_release(&all);
}

/* By hand neither. */
static void head_groups_bound_by_hand_are_refused(void **state)
{
    struct ranks all;

    ranks_parse(&all, 3, text_all_to_all);
    for (int r = 0; r < all.count; r++)
        for (uint32_t i = 0; i < all.s[r]->step_count; i++)
            if (all.s[r]->steps[i].turn == 0)
                all.s[r]->steps[i].bind = 1;
    says(&all, "binds other than a whole block");
    assert_int_equal(ri_schedule_derive(all.s[0]), RONDO_ERR_ARGUMENT);
    ranks_release(&all);
}

/* Two ranks, blocks of `heads` x `tokens` parts, of which rank 0 sends parts 1 and 2 from its keys,
 * and rank 1 receives them in a view with room for two. */
static void parts_one_and_two(struct ranks *all, int heads, int tokens)
{
    *all = (struct ranks){.count = 2};
    for (int r = 0; r < 2; r++) {
        struct ri_schedule *s;

        assert_int_equal(ri_schedule_begin(&s, "parts", r, 2, NULL), 0);
        s->head_parts = heads;
        s->token_parts = tokens;
        ri_schedule_slot(s, RI_K, RI_IN, heads * tokens);
        ri_schedule_slot(s, RI_K, RI_VIEW, 2);
        if (r)
            ri_schedule_recv(s, ri_operand_parts(1, 0, 1, 2), 0, 0);
        else
            ri_schedule_send(s, ri_operand_parts(0, 0, 1, 2), 1, 0);
        assert_int_equal(ri_schedule_end(&s), 0);
        all->s[r] = s;
    }
}

/* Neither the end of one head group and the start of the next, nor what lies in the view in
 * another order, is a run of memory. */
static void what_is_no_run_of_memory_is_copied(void **state)
{
    for (int heads = 1; heads <= 2; heads++) {
        struct ranks all;

        parts_one_and_two(&all, heads, heads == 1 ? 4 : 2);
        bind_all(&all);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(all.s[r]->steps[0].bind, 0);
            all.s[r]->steps[0].bind = 1;
            assert_int_equal(ri_schedule_rules(all.s[r]), RONDO_ERR_ARGUMENT);
        }
        ranks_release(&all);
    }
}

static void fill_padding(struct ri_operand *o)
{
    size_t named = offsetof(struct ri_operand, parts) + sizeof(o->parts);

    memset((unsigned char *)o + named, 0xa5, sizeof(*o) - named);
}

/* What a struct has between its fields says nothing. */
static void padding_is_not_compared(void **state)
{
    struct ranks all;

    ranks_build(&all, ri_build_ring_forward, 4, NULL, 0);
    for (int r = 0; r < all.count; r++)
        for (uint32_t i = 0; i < all.s[r]->step_count; i++)
            if (all.s[r]->steps[i].op == RI_SEND)
                fill_padding(&all.s[r]->steps[i].from[0]);
    bind_all(&all);
    everything_is_bound(&all, 0);
    ranks_accept(&all, RI_GOAL_ATTENTION);
    ranks_release(&all);
}

static void a_part_of_a_slot_is_copied(void **state)
{
    struct ranks all;

    ranks_parse(&all, 3, text_zigzag_half);
    bind_all(&all);
    for (int r = 0; r < all.count; r++)
        for (uint32_t i = 0; i < all.s[r]->step_count; i++)
            if (ri_step_moves(&all.s[r]->steps[i]))
                assert_int_equal(all.s[r]->steps[i].bind,
                                 ri_step_moved(&all.s[r]->steps[i])->parts == 2);
    assert_int_equal(ri_schedule_bind_rules(all.s, all.count), 0);
    ranks_release(&all);
}

/* Each host alone finds the same bits. */
static void hosts_need_not_see_each_other(void **state)
{
    int32_t host[9];
    struct ranks all, some;

    set_hosts(host, 3, 3);
    ranks_build(&all, ri_build_ring_forward, 9, host, 0);
    ranks_build(&some, ri_build_ring_forward, 9, host, 0);
    bind_all(&all);
    for (int h = 0; h < 3; h++) {
        struct ri_schedule *one[9];

        for (int r = 0; r < 9; r++)
            one[r] = host[r] == h ? some.s[r] : NULL;
        assert_int_equal(ri_schedule_bind(one, 9), 0);
    }
    for (int r = 0; r < 9; r++)
        assert_true(ri_schedule_hash(all.s[r]) == ri_schedule_hash(some.s[r]));
    ranks_release(&some);
    ranks_release(&all);
}

static void ends_must_agree(void **state)
{
    struct ranks all;

    ranks_build(&all, ri_build_ring_forward, 4, NULL, 0);
    bind_all(&all);
    for (uint32_t i = 0; i < all.s[2]->step_count; i++)
        if (all.s[2]->steps[i].op == RI_RECV)
            all.s[2]->steps[i].bind = 0;
    says(&all, "lane local bind meets");
    ranks_release(&all);
}

static void refuses_where_nothing_can_bind(void **state)
{
    struct ri_schedule *kept;
    struct ranks all;

    ranks_build(&all, ri_build_ring_kv_grad, 3, NULL, 0);
    for (uint32_t i = 0; i < all.s[1]->step_count; i++) {
        struct ri_step *step = &all.s[1]->steps[i];
        int bundle = ri_step_moves(step) ? all.s[1]->slots[ri_step_moved(step)->slot].bundle : -1;

        step->bind = 1;
        assert_int_equal(ri_schedule_derive(all.s[1]), bundle == RI_K ? 0 : RONDO_ERR_ARGUMENT);
        step->bind = 2;
        assert_int_equal(ri_schedule_derive(all.s[1]), RONDO_ERR_ARGUMENT);
        step->bind = 0;
    }
    assert_int_equal(ri_schedule_derive(all.s[1]), 0);
    kept = all.s[1];
    all.s[1] = NULL;
    assert_int_equal(ri_schedule_bind(all.s, 3), RONDO_ERR_ARGUMENT);
    all.s[1] = kept;
    ranks_release(&all);
}

/* How many of a hundred orders per kind of stream go wrong. */
static int played_wrong(const struct ranks *all, struct play how, const char *words)
{
    int wrong = 0;

    for (int streams = 0; streams < PLAY_STREAMS; streams++) {
        for (how.seed = 0; how.seed < 100; how.seed++) {
            const char *why;

            how.streams = (enum play_streams)streams;
            why = play(all, &how);
            if (why && (!words || !strstr(words, why)))
                fail_msg("seed %d: %s", (int)how.seed, why);
            wrong += why != NULL;
        }
    }
    return wrong;
}

/* The rings run over all orders; an engine that lets the holder write too early is found out,
 * one that waits where it must not hangs. */
static void engines_that_break_the_rule_are_caught(void **state)
{
    static const char seen[] =
        "writes what is in use, reads what is being written, computes on what it does not name";
    struct play early = {.binding = 1}, hasty = {.binding = 1};
    struct ranks all;

    ring_with_landing(&all, 3, 3, 4);
    bind_all(&all);
    assert_int_equal(played_wrong(&all, (struct play){.binding = 0}, NULL), 0);
    assert_int_equal(played_wrong(&all, (struct play){.binding = 1}, NULL), 0);
    early.releases_when_bound = hasty.waits_for_no_reader = 1;
    assert_true(played_wrong(&all, early, seen) > 0);
    assert_true(played_wrong(&all, hasty, seen) > 0);
    ranks_release(&all);
    ring_with_landing(&all, 3, 3, 2);
    bind_by_hand(&all);
    assert_int_equal(played_wrong(&all, (struct play){.binding = 0}, NULL), 0);
    assert_int_equal(played_wrong(&all, (struct play){.binding = 1}, "deadlock"), 300);
    ranks_release(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_on_one_host_need_no_keys),
        cmocka_unit_test(rings_over_hosts_are_accepted),
        cmocka_unit_test(rings_over_hosts_bind_with_one_slot_more_than_ranks),
        cmocka_unit_test(too_few_landing_slots_deadlock),
        cmocka_unit_test(two_level_needs_what_comes_from_other_hosts),
        cmocka_unit_test(builders_need_what_the_table_says),
        cmocka_unit_test(meshes_read_both_sides_in_place),
        cmocka_unit_test(head_groups_are_copied),
        cmocka_unit_test(head_groups_bound_by_hand_are_refused),
        cmocka_unit_test(what_is_no_run_of_memory_is_copied),
        cmocka_unit_test(padding_is_not_compared),
        cmocka_unit_test(a_part_of_a_slot_is_copied),
        cmocka_unit_test(hosts_need_not_see_each_other),
        cmocka_unit_test(ends_must_agree),
        cmocka_unit_test(refuses_where_nothing_can_bind),
        cmocka_unit_test(engines_that_break_the_rule_are_caught),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
