/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that concern one slot, one step or the turns of one rank. */
#include <stdlib.h>

#include "base/minmax.h"
#include "base/status.h"
#include "schedule/internal.h"

static int slot_fault(const struct ri_schedule *s, uint32_t slot, const char *reason)
{
    return ri_error(RONDO_ERR_ARGUMENT, "%s rank %d slot %u: %s", s->name, (int)s->rank,
                    (unsigned)slot, reason);
}

static int slot_rules(const struct ri_schedule *s, uint32_t i)
{
    const struct ri_slot *slot = &s->slots[i];
    int ours = ri_slot_is_ours(slot), ours_before = i > 0 && ri_slot_is_ours(&s->slots[i - 1]);

    if (slot->bundle >= RI_BUNDLES || slot->kind > RI_OWN)
        return slot_fault(s, i, "no such bundle or kind");
    if (ours_before && !ours)
        return slot_fault(s, i, "the caller's slots come first");
    if (slot->kind == RI_VIEW && ri_bundle_accumulates(slot->bundle))
        return slot_fault(s, i, "accumulated content cannot lie in a view");
    if (slot->kind == RI_IN && ri_bundle_accumulates(slot->bundle) && slot->bundle != RI_R)
        return slot_fault(s, i, "the caller gives no sums but R: what is in them nobody knows");
    if (slot->parts < 1 || slot->parts > ri_schedule_parts(s))
        return slot_fault(s, i, "has room for more parts than a block has, or for none");
    return 0;
}

static int header_rules(const struct ri_schedule *s)
{
    size_t places = 0;
    int err = 0;

    if (s->head_parts < 1 || s->head_parts > RI_MAX_PARTS || s->token_parts < 1 ||
        s->token_parts > RI_MAX_PARTS / s->head_parts)
        return ri_error(RONDO_ERR_ARGUMENT,
                        "%s: %d head parts of %d token parts, allowed are %d in all", s->name,
                        (int)s->head_parts, (int)s->token_parts, (int)RI_MAX_PARTS);
    for (int32_t b = 0; b < s->blocks; b++)
        if (s->owner[b] < 0 || s->owner[b] >= s->ranks)
            return ri_error(RONDO_ERR_ARGUMENT, "%s: rank %d owns block %d, there are %d ranks",
                            s->name, (int)s->owner[b], (int)b, (int)s->ranks);
    for (uint32_t i = 0; !err && i < s->slot_count; i++) {
        err = slot_rules(s, i);
        places += s->slots[i].parts;
    }
    if (!err && places > RI_MAX_PLACES)
        err = ri_error(RONDO_ERR_ARGUMENT, "%s: slots with room for %zu parts, allowed are %d",
                       s->name, places, (int)RI_MAX_PLACES);
    return err;
}

static int operand_rules(const struct ri_schedule *s, uint32_t step, const struct ri_operand *o)
{
    if (o->slot < 0)
        return 0;
    if (o->blocks < 1 || o->block < 0 || o->blocks > s->blocks || o->block > s->blocks - o->blocks)
        return ri_step_fault(s, step, "names block %d and %d in all, there are %d", (int)o->block,
                             o->blocks, (int)s->blocks);
    if (o->blocks > s->slot_count || (uint32_t)o->slot > s->slot_count - o->blocks)
        return ri_step_fault(s, step, "names slot %d and %d in all, there are %u", (int)o->slot,
                             o->blocks, (unsigned)s->slot_count);
    if (o->parts < 1 || o->first_part + o->parts > ri_schedule_parts(s))
        return ri_step_fault(s, step, "names parts %d to %d, a block has %d", o->first_part,
                             o->first_part + o->parts - 1, ri_schedule_parts(s));
    for (int b = 0; b < o->blocks; b++) {
        if (s->slots[o->slot + b].bundle != s->slots[o->slot].bundle)
            return ri_step_fault(s, step, "spans slots %d and %d of different bundles",
                                 (int)o->slot, (int)o->slot + b);
        if (s->slots[o->slot + b].parts < o->parts)
            return ri_step_fault(s, step, "names %d parts in slot %d, which has room for %d",
                                 o->parts, (int)o->slot + b, s->slots[o->slot + b].parts);
    }
    return 0;
}

/* Two runs of places round a slot. */
static int parts_overlap(const struct ri_operand *a, const struct ri_operand *b, int room)
{
    int ahead = ((b->first_part - a->first_part) % room + room) % room;

    return ahead < a->parts || (room - ahead) % room < b->parts;
}

int ri_shared_slot(const struct ri_schedule *s, const struct ri_operand *a,
                   const struct ri_operand *b)
{
    int start = ri_max(a->slot, b->slot);
    int a_end = a->slot + a->blocks, b_end = b->slot + b->blocks;
    int end = ri_min(a_end, b_end);

    if (a->slot < 0 || b->slot < 0)
        return -1;
    for (int slot = start; slot < end; slot++)
        if (parts_overlap(a, b, s->slots[slot].parts))
            return slot;
    return -1;
}

static int bundle_of(const struct ri_schedule *s, const struct ri_operand *o)
{
    return o->slot < 0 ? -1 : s->slots[o->slot].bundle;
}

static int compute_rules(const struct ri_schedule *s, uint32_t i)
{
    const struct ri_step *step = &s->steps[i];
    int query_side = bundle_of(s, &step->to[0]), key_side = bundle_of(s, &step->to[1]);

    if (bundle_of(s, &step->from[0]) != RI_Q || bundle_of(s, &step->from[1]) != RI_K)
        return ri_step_fault(s, i, "reads other than a Q and a K");
    if (query_side < 0 && key_side < 0)
        return ri_step_fault(s, i, "writes nothing");
    if (query_side >= 0 && query_side != RI_O && query_side != RI_DQ)
        return ri_step_fault(s, i, "query side goes to %s", ri_bundle_names[query_side]);
    if (key_side >= 0 && key_side != RI_DK)
        return ri_step_fault(s, i, "key side goes to %s", ri_bundle_names[key_side]);
    if (query_side == RI_O && key_side >= 0)
        return ri_step_fault(s, i, "writes O and dK: forward and backward are steps of their own");
    if ((query_side >= 0 && !ri_same_content(&step->from[0], &step->to[0])) ||
        (key_side >= 0 && !ri_same_content(&step->from[1], &step->to[1])))
        return ri_step_fault(s, i, "writes another block or other parts than it reads");
    return 0;
}

static int move_rules(const struct ri_schedule *s, uint32_t i)
{
    const struct ri_step *step = &s->steps[i];
    int from = bundle_of(s, &step->from[0]), to = bundle_of(s, &step->to[0]);

    if (from < 0 || to < 0)
        return ri_step_fault(s, i, "lacks source or target");
    if (!ri_same_content(&step->from[0], &step->to[0]))
        return ri_step_fault(s, i, "writes another block or other parts than it reads");
    if (step->op == RI_MERGE && (from != to || !ri_bundle_accumulates(to)))
        return ri_step_fault(s, i, "merges %s into %s", ri_bundle_names[from], ri_bundle_names[to]);
    if (step->op == RI_COPY && from != to && !(from == RI_R && to == RI_X))
        return ri_step_fault(s, i, "copies %s to %s", ri_bundle_names[from], ri_bundle_names[to]);
    if (step->op == RI_MERGE && step->merge != (to == RI_O ? RI_MERGE_LSE : RI_MERGE_SUM))
        return ri_step_fault(s, i, "O is merged by lse, and sums are added");
    return 0;
}

static int bind_rules(const struct ri_schedule *s, uint32_t i)
{
    const struct ri_step *step = &s->steps[i];

    if (step->bind > 1 || step->lane != RI_LANE_LOCAL)
        return ri_step_fault(s, i, "only the local lane binds");
    if (!ri_step_can_bind(s, step))
        return ri_step_fault(s, i,
                             "binds other than a whole block of read-only content, received "
                             "into a view or sent from no `out` slot");
    return 0;
}

static int transfer_rules(const struct ri_schedule *s, uint32_t i)
{
    const struct ri_step *step = &s->steps[i];
    const struct ri_operand *moved = ri_step_moved(step);
    int same_host;

    if (moved->slot < 0)
        return ri_step_fault(s, i, "has no operand");
    if (step->peer < 0 || step->peer >= s->ranks || step->peer == s->rank)
        return ri_step_fault(s, i, "peer %d is no other rank of %d", (int)step->peer,
                             (int)s->ranks);
    if (step->turn < 0 || step->turn > RI_MAX_TURN)
        return ri_step_fault(s, i, "turn is out of range");
    same_host = s->host[step->peer] == s->host[s->rank];
    if (step->lane != (same_host ? RI_LANE_LOCAL : RI_LANE_HOST))
        return ri_step_fault(s, i, "rank %d is on host %d and this one on %d, so the lane is %s",
                             (int)step->peer, (int)s->host[step->peer], (int)s->host[s->rank],
                             ri_lane_names[same_host ? RI_LANE_LOCAL : RI_LANE_HOST]);
    return step->bind ? bind_rules(s, i) : 0;
}

static int write_rules(const struct ri_schedule *s, uint32_t i)
{
    for (int k = 0; k < 2; k++) {
        const struct ri_operand *to = &s->steps[i].to[k];

        for (int b = 0; to->slot >= 0 && b < to->blocks; b++)
            if (s->slots[to->slot + b].kind == RI_IN)
                return ri_step_fault(s, i, "writes slot %d, the caller's input", (int)to->slot + b);
    }
    return 0;
}

/* What a step writes shares no place with what it reads, nor with its other target. */
static int overlap_rules(const struct ri_schedule *s, uint32_t i)
{
    const struct ri_step *step = &s->steps[i];

    for (int a = 0; a < RI_OPERANDS; a++)
        for (int b = a < RI_FIRST_WRITE ? RI_FIRST_WRITE : a + 1; b < RI_OPERANDS; b++)
            if (ri_shared_slot(s, ri_step_operand(step, a), ri_step_operand(step, b)) >= 0)
                return ri_step_fault(s, i, "writes what it reads");
    return 0;
}

/* Operands that the operation does not have must be none, so that everyone may walk all four. */
static int shape_rules(const struct ri_schedule *s, uint32_t i)
{
    static const uint8_t may_have[] = {
        [RI_COMPUTE] = 15, [RI_SEND] = 1, [RI_RECV] = 4, [RI_COPY] = 5, [RI_MERGE] = 5};
    const struct ri_step *step = &s->steps[i];

    if (step->op > RI_MERGE)
        return ri_step_fault(s, i, "operation %d is unknown", step->op);
    for (int k = 0; k < RI_OPERANDS; k++)
        if (ri_step_operand(step, k)->slot >= 0 && !(may_have[step->op] >> k & 1))
            return ri_step_fault(s, i, "has an operand too many");
    return 0;
}

/* Fields that say nothing are as the builders leave them: equal schedules have equal hashes. */
static int unused_field_rules(const struct ri_schedule *s, uint32_t i)
{
    const struct ri_step *step = &s->steps[i];

    if (step->merge && step->op != RI_MERGE)
        return ri_step_fault(s, i, "merges nothing, but says how");
    if (!ri_step_moves(step) && (step->lane || step->bind || step->peer != -1 || step->turn != -1))
        return ri_step_fault(s, i, "is no transfer, but has a lane, a peer, a turn or binds");
    return 0;
}

static int step_rules(const struct ri_schedule *s, uint32_t i)
{
    const struct ri_step *step = &s->steps[i];
    int err = shape_rules(s, i);

    if (!err)
        err = unused_field_rules(s, i);
    for (int k = 0; !err && k < RI_OPERANDS; k++)
        err = operand_rules(s, i, ri_step_operand(step, k));
    if (!err)
        err = write_rules(s, i);
    if (!err)
        err = overlap_rules(s, i);
    if (err)
        return err;
    if (ri_step_moves(step))
        return transfer_rules(s, i);
    return step->op == RI_COMPUTE ? compute_rules(s, i) : move_rules(s, i);
}

int ri_schedule_rules(const struct ri_schedule *s)
{
    int err = header_rules(s);

    for (uint32_t i = 0; !err && i < s->step_count; i++)
        err = step_rules(s, i);
    return err;
}

static int lane_order(const struct ri_schedule *s)
{
    int64_t last[RI_LANES] = {-1, -1};

    for (uint32_t i = 0; i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];

        if (!ri_step_moves(step))
            continue;
        if (step->turn < last[step->lane])
            return ri_step_fault(s, i, "comes after turn %d in lane %s", (int)last[step->lane],
                                 ri_lane_names[step->lane]);
        last[step->lane] = step->turn;
    }
    return 0;
}

int ri_schedule_turn_rules(const struct ri_schedule *s)
{
    /* after[i]: the latest transfer, by turn, of those that must be done before step i may start,
     * plus one; 0: none. */
    uint32_t *after = calloc((size_t)s->step_count + 1, sizeof(*after));
    int err = lane_order(s);

    if (!after)
        return ri_error(RONDO_ERR_MEMORY, "schedule %s: out of memory", s->name);
    for (uint32_t i = 0; !err && i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];

        for (uint32_t d = 0; d < step->deps; d++) {
            uint32_t before = s->deps[step->first_dep + d];
            uint32_t last = ri_step_moves(&s->steps[before]) ? before + 1 : after[before];

            if (last && (!after[i] || s->steps[last - 1].turn > s->steps[after[i] - 1].turn))
                after[i] = last;
        }
        if (after[i] && ri_step_moves(step) && s->steps[after[i] - 1].turn >= step->turn)
            err = ri_step_fault(s, i, "depends on step %u of turn %d", (unsigned)after[i] - 1,
                                (int)s->steps[after[i] - 1].turn);
    }
    free(after);
    return err;
}
