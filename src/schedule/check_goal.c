/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold when all steps are done. */
#include "base/status.h"
#include "schedule/check.h"

/* Faults name the step that wrote the place last, since that is where the reader will look. */
static int place_fault(const struct ri_check_rank *r, uint32_t place, int bundle, int block,
                       int part, const char *reason)
{
    int32_t writer = r->held[place].writer;

    if (writer >= 0)
        return ri_step_fault(r->s, (uint32_t)writer, "leaves %s%d.%d, which %s",
                             ri_bundle_names[bundle], block, part, reason);
    return ri_error(RONDO_ERR_MISMATCH, "%s rank %d: no step writes %s%d.%d, which %s", r->s->name,
                    (int)r->s->rank, ri_bundle_names[bundle], block, part, reason);
}

static int nothing_left(const struct ri_check_rank *r)
{
    const struct ri_schedule *s = r->s;

    for (uint32_t i = 0; i < s->slot_count; i++) {
        for (uint32_t p = r->first[i]; p < r->first[i + 1]; p++) {
            const struct ri_held *held = &r->held[p];

            if (s->slots[i].kind == RI_IN && (!held->full || held->writer >= 0))
                return place_fault(r, p, s->slots[i].bundle, held->block, held->part,
                                   "was the caller's input");
            if (s->slots[i].kind == RI_OWN && ri_bundle_accumulates(s->slots[i].bundle) &&
                held->full)
                return place_fault(r, p, s->slots[i].bundle, held->block, held->part,
                                   "nobody takes home");
        }
    }
    return 0;
}

/* Where rank r's `out` slots of a bundle hold a part of a block; -1: nowhere. */
static int64_t find_out(const struct ri_check_rank *r, int bundle, int block, int part)
{
    const struct ri_schedule *s = r->s;

    for (uint32_t i = 0; i < s->slot_count; i++) {
        if (s->slots[i].kind != RI_OUT || s->slots[i].bundle != bundle)
            continue;
        for (uint32_t p = r->first[i]; p < r->first[i + 1]; p++)
            if (r->held[p].full && r->held[p].block == block && r->held[p].part == part)
                return p;
    }
    return -1;
}

static int has_out(const struct ri_check_rank *r, int bundle)
{
    for (uint32_t i = 0; i < r->s->slot_count; i++)
        if (r->s->slots[i].kind == RI_OUT && r->s->slots[i].bundle == bundle)
            return 1;
    return 0;
}

/* Is the pair of (block, part) with run `run` of block `other` live?  query: (block, part) is a
 * query. */
static int is_live(const struct ri_checker *c, int query, int block, int part, int other, int run)
{
    int other_part = part / c->token_parts * c->token_parts + run;

    if (!c->live)
        return 1;
    if (query)
        return c->live(c->context, block, part, other, other_part);
    return c->live(c->context, other, other_part, block, part);
}

static int check_home_part(const struct ri_checker *c, const struct ri_check_rank *r, int bundle,
                           int block, int part)
{
    int64_t place = find_out(r, bundle, block, part);
    const uint64_t *set = place < 0 ? NULL : ri_held_set(c, r, (uint32_t)place);

    for (int other = 0; other < c->blocks; other++) {
        for (int run = 0; run < c->token_parts; run++) {
            size_t bit = (size_t)other * (size_t)c->token_parts + (size_t)run;

            if ((set && set[bit / 64] >> bit % 64 & 1) ||
                !is_live(c, bundle != RI_DK, block, part, other, run))
                continue;
            if (!set)
                return ri_error(RONDO_ERR_MISMATCH, "%s rank %d: no step leaves %s%d.%d at home",
                                r->s->name, (int)r->s->rank, ri_bundle_names[bundle], block, part);
            return ri_step_fault(r->s, (uint32_t)r->held[place].writer,
                                 "leaves %s%d.%d without the contribution of %s%d.%d",
                                 ri_bundle_names[bundle], block, part, bundle == RI_DK ? "Q" : "K",
                                 other, part / c->token_parts * c->token_parts + run);
        }
    }
    return 0;
}

/* What lies in an `out` slot is the rank's own. */
static int check_outs_own(const struct ri_check_rank *r)
{
    for (uint32_t i = 0; i < r->s->slot_count; i++) {
        if (r->s->slots[i].kind != RI_OUT)
            continue;
        for (uint32_t p = r->first[i]; p < r->first[i + 1]; p++)
            if (r->held[p].full && r->s->owner[r->held[p].block] != r->s->rank)
                return place_fault(r, p, r->s->slots[i].bundle, r->held[p].block, r->held[p].part,
                                   "is another rank's");
    }
    return 0;
}

static int check_bundle_home(const struct ri_checker *c, int bundle)
{
    const int32_t *owner = c->rank[0].s->owner;
    int err = 0;

    for (int b = 0; b < c->blocks; b++)
        for (int p = 0; !err && p < c->parts; p++)
            err = check_home_part(c, &c->rank[owner[b]], bundle, b, p);
    return err;
}

static int check_attention(const struct ri_checker *c)
{
    int forward = 0, query = 0, key = 0, err = 0;

    for (int r = 0; !err && r < c->ranks; r++) {
        forward |= has_out(&c->rank[r], RI_O);
        query |= has_out(&c->rank[r], RI_DQ);
        key |= has_out(&c->rank[r], RI_DK);
        err = check_outs_own(&c->rank[r]);
    }
    if (!err && !forward && !(query && key))
        err = ri_error(RONDO_ERR_MISMATCH,
                       "%s rank 0: there is neither O nor both dQ and dK to write",
                       c->rank[0].s->name);
    if (!err && forward)
        err = check_bundle_home(c, RI_O);
    if (!err && query)
        err = check_bundle_home(c, RI_DQ);
    if (!err && key)
        err = check_bundle_home(c, RI_DK);
    return err;
}

static int holds_all_ranks(const struct ri_checker *c, const uint64_t *set)
{
    for (int r = 0; r < c->ranks; r++)
        if (!(set[r / 64] >> r % 64 & 1))
            return 0;
    return 1;
}

/* Every rank has the very same sum of each part: made once, of everyone's, and copied. */
static int check_all_reduce(const struct ri_checker *c)
{
    for (int r = 0; r < c->ranks; r++) {
        for (int part = 0; part < c->parts; part++) {
            const struct ri_check_rank *rank = &c->rank[r];
            int64_t place = find_out(rank, RI_X, 0, part),
                    first = find_out(&c->rank[0], RI_X, 0, part);

            if (place < 0)
                return ri_error(RONDO_ERR_MISMATCH, "%s rank %d: no step leaves the sum of part %d",
                                rank->s->name, r, part);
            if (!holds_all_ranks(c, ri_held_set(c, rank, (uint32_t)place)))
                return place_fault(rank, (uint32_t)place, RI_X, 0, part,
                                   "lacks a rank's contribution");
            if (rank->held[place].origin != c->rank[0].held[first].origin)
                return place_fault(rank, (uint32_t)place, RI_X, 0, part,
                                   "was summed elsewhere than rank 0's");
        }
    }
    return 0;
}

/* Just what the root gave, and nothing added to it. */
static int is_roots_alone(const struct ri_checker *c, const uint64_t *set, int root)
{
    for (size_t w = 0; w < c->words; w++)
        if (set[w] != (w == (size_t)root / 64 ? (uint64_t)1 << root % 64 : 0))
            return 0;
    return 1;
}

static int check_broadcast(const struct ri_checker *c)
{
    int root = c->rank[0].s->owner[0];

    for (int r = 0; r < c->ranks; r++) {
        for (int part = 0; r != root && part < c->parts; part++) {
            int64_t place = find_out(&c->rank[r], RI_X, 0, part);

            if (place < 0)
                return ri_error(RONDO_ERR_MISMATCH, "%s rank %d: no step brings X0.%d",
                                c->rank[r].s->name, r, part);
            if (!is_roots_alone(c, ri_held_set(c, &c->rank[r], (uint32_t)place), root))
                return place_fault(&c->rank[r], (uint32_t)place, RI_X, 0, part,
                                   "is not the root's");
        }
    }
    return 0;
}

static int check_barrier(const struct ri_checker *c)
{
    for (int r = 0; r < c->ranks; r++)
        for (int from = 0; from < c->ranks; from++)
            if (!(c->rank[r].seen[from / 64] >> from % 64 & 1))
                return ri_error(RONDO_ERR_MISMATCH, "%s rank %d: no step brings word of rank %d",
                                c->rank[r].s->name, r, from);
    return 0;
}

int ri_check_goal(struct ri_checker *c)
{
    static int (*const goals[])(const struct ri_checker *) = {
        [RI_GOAL_ATTENTION] = check_attention,
        [RI_GOAL_ALL_REDUCE] = check_all_reduce,
        [RI_GOAL_BROADCAST] = check_broadcast,
        [RI_GOAL_BARRIER] = check_barrier,
    };
    int err = 0;

    for (int r = 0; !err && r < c->ranks; r++)
        err = nothing_left(&c->rank[r]);
    return err ? err : goals[c->goal](c);
}
