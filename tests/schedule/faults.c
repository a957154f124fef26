/* SPDX-License-Identifier: Apache-2.0 */
/* The faults, each a small edit of a correct schedule. */
#include "tests/schedule/faults.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/schedule/edits.h"

/* ---- what is damaged ---- */

static void forward4(struct ranks *all)
{
    ranks_build(all, ri_build_ring_forward, 4, NULL, 0);
}

static void kv_grad4(struct ranks *all)
{
    ranks_build(all, ri_build_ring_kv_grad, 4, NULL, 0);
}

static void all_reduce4(struct ranks *all)
{
    ranks_build(all, ri_build_all_reduce, 4, NULL, 0);
}

static void broadcast5(struct ranks *all)
{
    ranks_build(all, ri_build_broadcast, 5, NULL, 1);
}

static void barrier5(struct ranks *all)
{
    ranks_build(all, ri_build_barrier, 5, NULL, 0);
}

static void two_level_fwd(struct ranks *all)
{
    ranks_parse(all, 8, text_two_level_fwd);
}

static void two_level_q(struct ranks *all)
{
    ranks_parse(all, 4, text_two_level_q);
}

static void mesh(struct ranks *all)
{
    ranks_parse(all, 4, text_mesh2x2);
}

static void all_to_all3(struct ranks *all)
{
    ranks_parse(all, 3, text_all_to_all);
}

static void chunked3(struct ranks *all)
{
    ranks_parse(all, 3, text_chunked);
}

/* ---- how ---- */

static void use_slot_instead(struct ranks *all, int32_t slot, int32_t instead)
{
    for (int r = 0; r < all->count; r++)
        for (uint32_t i = 0; i < all->s[r]->step_count; i++)
            for (int k = 0; k < 4; k++)
                if (operand(&all->s[r]->steps[i], k)->slot == slot)
                    operand(&all->s[r]->steps[i], k)->slot = instead;
}

/* Forgets what steps of `op` wait for; only steps of `only`, unless that is -1. */
static void forget(struct ri_schedule *s, enum ri_op op, int only)
{
    for (uint32_t i = 0; i < s->step_count; i++) {
        struct ri_step *step = &s->steps[i];
        uint32_t kept = 0, *deps = s->deps + step->first_dep;

        for (uint32_t d = 0; step->op == op && d < step->deps; d++)
            if (only >= 0 && s->steps[deps[d]].op != only)
                deps[kept++] = deps[d];
        if (step->op == op)
            step->deps = kept;
    }
}

/* ---- ends that disagree ---- */

static void wrong_peer(struct ranks *all)
{
    nth(all->s[1], RI_SEND, 0)->peer = 3;
}

static void wrong_block_both_ends(struct ranks *all)
{
    nth(all->s[0], RI_SEND, 1)->from[0].block = 0;
    nth(all->s[1], RI_RECV, 1)->to[0].block = 0;
}

static void wrong_block_one_end(struct ranks *all)
{
    nth(all->s[1], RI_RECV, 2)->to[0].block = 3;
}

static void swapped_q_and_k(struct ranks *all)
{
    uint32_t first = (uint32_t)(nth(all->s[0], RI_SEND, 0) - all->s[0]->steps);

    swap_steps(all->s[0], first, first + 1);
}

static void turn_differs(struct ranks *all)
{
    nth(all->s[2], RI_RECV, 2)->turn = 3;
}

static void turns_counted_alone(struct ranks *all)
{
    for (uint32_t i = 0; i < all->s[1]->step_count; i++)
        if (all->s[1]->steps[i].turn >= 0)
            all->s[1]->steps[i].turn++;
}

static void one_rank_drops(struct ranks *all)
{
    remove_step(all->s[1], nth(all->s[1], RI_RECV, 2));
    remove_step(all->s[1], nth(all->s[1], RI_COMPUTE, 3));
}

static void host_hop_wrong_owner(struct ranks *all)
{
    for (uint32_t i = 0; i < all->s[5]->step_count; i++)
        for (int k = 0; k < 4; k++)
            if (operand(&all->s[5]->steps[i], k)->slot == 6)
                operand(&all->s[5]->steps[i], k)->block = 2;
}

static void wrong_head_group(struct ranks *all)
{
    nth(all->s[1], RI_SEND, 0)->from[0].first_part = 2;
}

static void extra_send(struct ranks *all)
{
    insert_step(all->s[0], all->s[0]->step_count, *nth(all->s[0], RI_SEND, 2));
}

static void wrong_lane(struct ranks *all)
{
    nth(all->s[1], RI_SEND, 0)->lane = RI_LANE_LOCAL;
}

/* ---- turns ---- */

static void one_landing_slot(struct ranks *all)
{
    use_slot_instead(all, 4, 3);
}

static void sums_too_early(struct ranks *all, int turns)
{
    for (int r = 0; r < all->count; r++)
        for (uint32_t i = 0; i < all->s[r]->step_count; i++) {
            struct ri_step *step = &all->s[r]->steps[i];
            int32_t slot = step->op == RI_SEND ? step->from[0].slot : step->to[0].slot;

            if (step->turn >= 0 && all->s[r]->slots[slot].bundle == RI_DK)
                step->turn -= turns;
        }
}

static void sums_a_turn_early(struct ranks *all)
{
    sums_too_early(all, 1);
}

static void sums_two_turns_early(struct ranks *all)
{
    sums_too_early(all, 2);
}

static void order_against_turns(struct ranks *all)
{
    for (uint32_t i = 0; i < 2; i++)
        swap_steps(all->s[1], i, i + 2);
}

static void total_received_after_its_merge(struct ranks *all)
{
    struct ri_schedule *s = all->s[1];

    move_step(s, nth(s, RI_RECV, 4), (uint32_t)(nth(s, RI_MERGE, 3) - s->steps));
}

/* ---- contributions ---- */

static void merge_missing(struct ranks *all)
{
    remove_step(all->s[1], nth(all->s[1], RI_MERGE, 0));
}

static void mesh_merge_missing(struct ranks *all)
{
    remove_step(all->s[3], nth(all->s[3], RI_MERGE, 0));
}

static void compute_twice(struct ranks *all)
{
    insert_step(all->s[1], all->s[1]->step_count, *nth(all->s[1], RI_COMPUTE, 3));
}

static void compute_missing(struct ranks *all)
{
    remove_step(all->s[1], nth(all->s[1], RI_COMPUTE, 1));
}

static void short_part_range(struct ranks *all)
{
    struct ri_step *step = nth(all->s[1], RI_COMPUTE, 3);

    step->from[0].parts = step->to[0].parts = 1;
}

static void half_not_sent(struct ranks *all)
{
    remove_step(all->s[0], nth(all->s[0], RI_SEND, 1));
    remove_step(all->s[1], nth(all->s[1], RI_RECV, 1));
}

static void receives_into_input(struct ranks *all)
{
    nth(all->s[1], RI_RECV, 0)->to[0].slot = 1;
}

static void sum_sent_twice(struct ranks *all)
{
    struct ri_step *step = nth(all->s[1], RI_SEND, 3);

    insert_step(all->s[1], (uint32_t)(step - all->s[1]->steps), *step);
}

static void copy_for_merge(struct ranks *all)
{
    nth(all->s[1], RI_MERGE, 0)->op = RI_COPY;
}

static void total_merged_backwards(struct ranks *all)
{
    struct ri_step *step = nth(all->s[1], RI_MERGE, 1);
    struct ri_operand from = step->from[0];

    step->from[0] = step->to[0];
    step->to[0] = from;
}

static void key_side_lost(struct ranks *all)
{
    nth(all->s[1], RI_COMPUTE, 2)->to[1] = ri_none;
}

static void reads_other_slot(struct ranks *all)
{
    nth(all->s[1], RI_COMPUTE, 2)->from[1].slot = 3;
}

static void sum_stays_in_buffer(struct ranks *all)
{
    remove_step(all->s[1], nth(all->s[1], RI_MERGE, 2));
}

static void merge_twice(struct ranks *all)
{
    struct ri_step *step = nth(all->s[1], RI_MERGE, 1);

    insert_step(all->s[1], (uint32_t)(step - all->s[1]->steps), *step);
}

/* Q1 and O1 are called Q2 and O2 throughout. */
static void takes_anothers_queries(struct ranks *all)
{
    for (uint32_t i = 0; i < all->s[1]->step_count; i++)
        if (all->s[1]->steps[i].op == RI_COMPUTE)
            all->s[1]->steps[i].from[0].block = all->s[1]->steps[i].to[0].block = 2;
}

static void published_too_early(struct ranks *all)
{
    struct ri_schedule *s = all->s[1];
    struct ri_step *merge = nth(s, RI_MERGE, 2);

    move_step(s, nth(s, RI_COPY, 0), (uint32_t)(merge - s->steps));
}

static void block_not_passed_on(struct ranks *all)
{
    remove_step(all->s[1], nth(all->s[1], RI_SEND, 1));
    remove_step(all->s[3], nth(all->s[3], RI_RECV, 0));
}

static void word_not_passed_on(struct ranks *all)
{
    remove_step(all->s[1], nth(all->s[1], RI_SEND, 2));
    remove_step(all->s[0], nth(all->s[0], RI_RECV, 2));
}

static void result_at_another_rank(struct ranks *all)
{
    all->s[0]->slots[2].kind = RI_OWN;
}

/* ---- what is derived ---- */

static void recv_waits_for_nobody(struct ranks *all)
{
    forget(all->s[0], RI_RECV, -1);
}

static void send_waits_for_nobody(struct ranks *all)
{
    forget(all->s[0], RI_SEND, -1);
}

static void merge_waits_for_no_arrival(struct ranks *all)
{
    forget(all->s[2], RI_MERGE, RI_RECV);
}

static void depends_on_later_step(struct ranks *all)
{
    all->s[1]->deps[nth(all->s[1], RI_COMPUTE, 1)->first_dep] = 9;
}

static void depends_out_of_range(struct ranks *all)
{
    nth(all->s[1], RI_COMPUTE, 1)->first_dep = 1000;
}

static void stores_for_adds(struct ranks *all)
{
    nth(all->s[1], RI_COMPUTE, 2)->stores ^= 1;
}

static void other_host(struct ranks *all)
{
    all->s[2]->host[0] = 1;
}

const struct fault faults[] = {
    {"wrong peer", forward4, wrong_peer, NULL, "meets K1.0+1", RI_GOAL_ATTENTION},
    {"wrong block, both ends agree", forward4, wrong_block_both_ends, NULL,
     "slot 3 holds K3.0, the step names K0.0", RI_GOAL_ATTENTION},
    {"wrong block, one end", forward4, wrong_block_one_end, NULL, "meets K3.0+1",
     RI_GOAL_ATTENTION},
    {"Q and K to one peer swapped", all_to_all3, swapped_q_and_k, NULL, "meets Q0.1+1",
     RI_GOAL_ATTENTION},
    {"turn differs at the two ends", forward4, turn_differs, NULL, "turn 3", RI_GOAL_ATTENTION},
    {"turns counted by one rank alone", forward4, turns_counted_alone, NULL, "meets K0.0+1",
     RI_GOAL_ATTENTION},
    {"one rank drops, the others do not", forward4, one_rank_drops, NULL, "receives it nowhere",
     RI_GOAL_ATTENTION},
    {"host hop named by the wrong owner", two_level_fwd, host_hop_wrong_owner, NULL, "meets K2.0+1",
     RI_GOAL_ATTENTION},
    {"wrong head group to one peer", all_to_all3, wrong_head_group, NULL, "Q1.2+1",
     RI_GOAL_ATTENTION},
    {"extra send", forward4, extra_send, NULL, "receives it nowhere", RI_GOAL_ATTENTION},
    {"wrong lane", chunked3, wrong_lane, NULL, "lane is host", RI_GOAL_ATTENTION},
    {"one landing slot", forward4, one_landing_slot, NULL, "step 3 of turn 1", RI_GOAL_ATTENTION},
    {"two-level, one landing slot", two_level_fwd, one_landing_slot, NULL, "step 5 of turn 3",
     RI_GOAL_ATTENTION},
    {"sums leave a turn too early", kv_grad4, sums_a_turn_early, NULL, "comes after turn 2",
     RI_GOAL_ATTENTION},
    {"sums leave two turns too early", kv_grad4, sums_two_turns_early, NULL, "comes after turn 2",
     RI_GOAL_ATTENTION},
    {"program order against turns", chunked3, order_against_turns, NULL, "comes after turn 1",
     RI_GOAL_ATTENTION},
    {"total received after its merge", two_level_q, total_received_after_its_merge, NULL,
     "step 15 of turn 10", RI_GOAL_ATTENTION},
    {"merge missing", kv_grad4, merge_missing, NULL, "over dK3.0, which nobody took",
     RI_GOAL_ATTENTION},
    {"merge missing, two-level", two_level_q, merge_missing, NULL, "over dQ0.0, which nobody took",
     RI_GOAL_ATTENTION},
    {"merge missing, mesh", mesh, mesh_merge_missing, NULL, "O3.0, which nobody takes home",
     RI_GOAL_ATTENTION},
    {"compute twice", forward4, compute_twice, NULL, "a second time", RI_GOAL_ATTENTION},
    {"compute missing", forward4, compute_missing, NULL, "without the contribution of K0.0",
     RI_GOAL_ATTENTION},
    {"part range too short", chunked3, short_part_range, NULL, "without the contribution of K0.1",
     RI_GOAL_ATTENTION},
    {"half of a block not sent", chunked3, half_not_sent, NULL, "slot 3, which is empty",
     RI_GOAL_ATTENTION},
    {"receives into the caller's input", forward4, receives_into_input, NULL, "the caller's input",
     RI_GOAL_ATTENTION},
    {"sum sent twice", kv_grad4, sum_sent_twice, NULL, "step 8 of turn 2", RI_GOAL_ATTENTION},
    {"copy in place of merge", kv_grad4, copy_for_merge, NULL, "over dK3.0, which nobody took",
     RI_GOAL_ATTENTION},
    {"running total merged backwards", two_level_q, total_merged_backwards, NULL,
     "slot 11, which is empty", RI_GOAL_ATTENTION},
    {"contribution to dK lost", kv_grad4, key_side_lost, NULL, "without the contribution of Q1.0",
     RI_GOAL_ATTENTION},
    {"compute reads the other slot", forward4, reads_other_slot, NULL, "slot 3 holds K2.0",
     RI_GOAL_ATTENTION},
    {"sum stays in a buffer", kv_grad4, sum_stays_in_buffer, NULL, "dK1.0, which nobody takes home",
     RI_GOAL_ATTENTION},
    {"all-reduce, contribution lost", all_reduce4, merge_missing, NULL,
     "lacks a rank's contribution", RI_GOAL_ALL_REDUCE},
    {"all-reduce, contribution twice", all_reduce4, merge_twice, NULL, "a contribution twice",
     RI_GOAL_ALL_REDUCE},
    {"queries of another rank", forward4, takes_anothers_queries, NULL, "rank 2 owns it",
     RI_GOAL_ATTENTION},
    {"all-reduce, published too early", all_reduce4, published_too_early, NULL,
     "R0.2, which nobody takes home", RI_GOAL_ALL_REDUCE},
    {"broadcast, block not passed on", broadcast5, block_not_passed_on, NULL, "no step brings X0.0",
     RI_GOAL_BROADCAST},
    {"barrier, word not passed on", barrier5, word_not_passed_on, NULL, "word of rank 1",
     RI_GOAL_BARRIER},
    {"no place for the result", forward4, result_at_another_rank, NULL, "O0.0", RI_GOAL_ATTENTION},
    {"receives do not wait for readers", forward4, NULL, recv_waits_for_nobody, "without waiting",
     RI_GOAL_ATTENTION},
    {"sends do not wait for arrival", forward4, NULL, send_waits_for_nobody,
     "without waiting for step 1", RI_GOAL_ATTENTION},
    {"merge does not wait for arrival", kv_grad4, NULL, merge_waits_for_no_arrival,
     "without waiting for step 9", RI_GOAL_ATTENTION},
    {"depends on a later step", forward4, NULL, depends_on_later_step, "not before it",
     RI_GOAL_ATTENTION},
    {"dependencies out of range", forward4, NULL, depends_out_of_range, "out of range",
     RI_GOAL_ATTENTION},
    {"stores where it adds", forward4, NULL, stores_for_adds, "which is full", RI_GOAL_ATTENTION},
    {"ranks disagree about hosts", forward4, NULL, other_host, "another host", RI_GOAL_ATTENTION},
    {NULL, NULL, NULL, NULL, NULL, RI_GOAL_ATTENTION},
};
