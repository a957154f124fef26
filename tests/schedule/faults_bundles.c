/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of what the caller gives, and of which bundle becomes which. */
#include <stddef.h>

#include "tests/schedule/edits.h"
#include "tests/schedule/faults.h"

static void forward4(struct ranks *all)
{
    ranks_build(all, ri_build_ring_forward, 4, NULL, 0);
}

static void kv_grad4(struct ranks *all)
{
    ranks_build(all, ri_build_ring_kv_grad, 4, NULL, 0);
}

/* A last step adds the caller's slot `from`, its block of rank 1, to slot `to`. */
static void merge_input(struct ri_schedule *s, enum ri_merge merge, int32_t from, int32_t to)
{
    struct ri_step step = {.op = RI_MERGE,
                           .merge = (uint8_t)merge,
                           .peer = -1,
                           .turn = -1,
                           .from = {ri_operand(s, from, 1), ri_none},
                           .to = {ri_operand(s, to, 1), ri_none}};

    insert_step(s, s->step_count, step);
}

static void key_sum_of_the_caller(struct ranks *all)
{
    insert_slot(all->s[1], 4, RI_DK, RI_IN);
    merge_input(all->s[1], RI_MERGE_SUM, 4, 3);
}

static void output_of_the_caller(struct ranks *all)
{
    insert_slot(all->s[1], 3, RI_O, RI_IN);
    merge_input(all->s[1], RI_MERGE_LSE, 3, 2);
}

/* Rank 0 sends a vector on as its keys. */
static void vector_for_keys(struct ranks *all)
{
    struct ri_schedule *s = all->s[0];
    int32_t view = (int32_t)s->slot_count + 1;
    struct ri_step step = {.op = RI_COPY,
                           .peer = -1,
                           .turn = -1,
                           .from = {ri_none, ri_none},
                           .to = {ri_none, ri_none}};

    insert_slot(s, 3, RI_R, RI_IN);
    insert_slot(s, view, RI_K, RI_VIEW);
    step.from[0] = ri_operand(s, 3, 0);
    step.to[0] = ri_operand(s, view, 0);
    nth(s, RI_SEND, 0)->from[0].slot = view;
    insert_step(s, 0, step);
}

/* Both of rank 0's K are called K0: one is computed with, the other is sent. */
static void two_slots_for_a_block(struct ranks *all)
{
    insert_slot(all->s[0], 3, RI_K, RI_IN);
    nth(all->s[0], RI_SEND, 0)->from[0].slot = 3;
}

static void output_and_key_side(struct ranks *all)
{
    for (int r = 0; r < all->count; r++)
        all->s[r]->slots[2].bundle = RI_O;
}

const struct fault bundle_faults[] = {
    {"the caller's dK is added", kv_grad4, key_sum_of_the_caller, NULL,
     "rank 1 slot 4: the caller gives no sums", RI_GOAL_ATTENTION},
    {"the caller's O is merged", forward4, output_of_the_caller, NULL,
     "rank 1 slot 3: the caller gives no sums", RI_GOAL_ATTENTION},
    {"a sum is read as keys", forward4, vector_for_keys, NULL, "copies R to K", RI_GOAL_ATTENTION},
    {"O and dK of one step", kv_grad4, output_and_key_side, NULL, "writes O and dK",
     RI_GOAL_ATTENTION},
    {"two slots for one block", forward4, two_slots_for_a_block, NULL, "of the caller's holds it",
     RI_GOAL_ATTENTION},
    {NULL, NULL, NULL, NULL, NULL, RI_GOAL_ATTENTION},
};
