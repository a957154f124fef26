/* SPDX-License-Identifier: Apache-2.0 */
/* What steps do to what is held, on sets of contributions. */
#include <string.h>

#include "schedule/check.h"

/* One place that an operand names, with its name. */
struct named {
    uint32_t place;
    struct ri_held *held;
    uint64_t *set;
    const char *bundle;
    int32_t slot, block, part;
};

static struct named name_of(const struct ri_checker *c, const struct ri_check_rank *r,
                            const struct ri_operand *o, int b, int p)
{
    uint32_t place = ri_place(r->s, r->first, o, b, p);

    return (struct named){place,
                          &r->held[place],
                          ri_held_set(c, r, place),
                          ri_bundle_names[r->s->slots[o->slot].bundle],
                          o->slot + b,
                          o->block + b,
                          o->first_part + p};
}

/* The caller's input is whatever block its first reader names, all of it the same. */
static void adopt(struct ri_check_rank *r, const struct named *n)
{
    uint32_t first = r->first[n->slot], end = r->first[n->slot + 1];

    if (n->held->block < 0)
        for (uint32_t p = first; p < end; p++)
            r->held[p].block = n->block;
    if (n->held->part < 0)
        n->held->part = n->part;
}

/* Q, K and X in the caller's input are the rank's own; R is everyone's. */
static int check_owner(const struct ri_check_rank *r, uint32_t step, const struct named *n)
{
    const struct ri_slot *slot = &r->s->slots[n->slot];

    if (slot->kind != RI_IN || slot->bundle == RI_R || r->s->owner[n->block] == r->s->rank)
        return 0;
    return ri_step_fault(r->s, step, "reads %s%d from slot %d, the caller's, but rank %d owns it",
                         n->bundle, (int)n->block, (int)n->slot, (int)r->s->owner[n->block]);
}

static int read(struct ri_check_rank *r, uint32_t step, const struct named *n)
{
    if (!n->held->full)
        return ri_step_fault(r->s, step, "reads %s%d.%d from slot %d, which is empty", n->bundle,
                             (int)n->block, (int)n->part, (int)n->slot);
    adopt(r, n);
    if (n->held->block != n->block || n->held->part != n->part)
        return ri_step_fault(r->s, step, "slot %d holds %s%d.%d, the step names %s%d.%d",
                             (int)n->slot, n->bundle, (int)n->held->block, (int)n->held->part,
                             n->bundle, (int)n->block, (int)n->part);
    return check_owner(r, step, n);
}

/* Prepares a place for a write of target k; an empty or read-only one starts from nothing. */
static int write(const struct ri_checker *c, struct ri_check_rank *r, uint32_t step, int k,
                 const struct named *n)
{
    const struct ri_step *s = &r->s->steps[step];
    int adds = n->held->full && ri_bundle_accumulates(r->s->slots[n->slot].bundle);

    if (adds && (s->op == RI_RECV || s->op == RI_COPY))
        return ri_step_fault(r->s, step, "writes slot %d over %s%d.%d, which nobody took",
                             (int)n->slot, n->bundle, (int)n->held->block, (int)n->held->part);
    if (adds && (n->held->block != n->block || n->held->part != n->part))
        return ri_step_fault(r->s, step, "adds %s%d.%d to slot %d, which holds %s%d.%d", n->bundle,
                             (int)n->block, (int)n->part, (int)n->slot, n->bundle,
                             (int)n->held->block, (int)n->held->part);
    if (adds == (int)(s->stores >> k & 1))
        return ri_step_fault(r->s, step, "%s slot %d, which is %s",
                             adds ? "stores into" : "adds to", (int)n->slot,
                             adds ? "full" : "empty");
    if (!adds)
        memset(n->set, 0, c->words * sizeof(*n->set));
    *n->held = (struct ri_held){n->block, n->part, (int32_t)step, 1, -1};
    return 0;
}

/* Adds one contribution; a second time is a fault. */
static int contribute(const struct ri_check_rank *r, uint32_t step, const struct named *n,
                      size_t bit)
{
    uint64_t mask = (uint64_t)1 << bit % 64;

    if (n->set[bit / 64] & mask)
        return ri_step_fault(r->s, step, "%s%d.%d gets a contribution twice", n->bundle,
                             (int)n->block, (int)n->part);
    n->set[bit / 64] |= mask;
    return 0;
}

static int add_set(const struct ri_checker *c, struct ri_check_rank *r, uint32_t step,
                   const struct named *to, const uint64_t *set)
{
    for (size_t w = 0; w < c->words; w++) {
        if (to->set[w] & set[w])
            return ri_step_fault(r->s, step, "%s%d.%d gets a contribution twice", to->bundle,
                                 (int)to->block, (int)to->part);
        to->set[w] |= set[w];
        if (r->s->slots[to->slot].bundle == RI_X)
            r->seen[w] |= set[w];
    }
    return 0;
}

/* Moves or copies one part, from a rank to itself or another. */
static int move(struct ri_checker *c, struct ri_check_rank *from_rank, uint32_t from_step,
                const struct named *from, struct ri_check_rank *to_rank, uint32_t to_step,
                const struct named *to)
{
    int publishes = ri_bundle_accumulates(from_rank->s->slots[from->slot].bundle) &&
                    !ri_bundle_accumulates(to_rank->s->slots[to->slot].bundle);
    int64_t origin;
    int err = read(from_rank, from_step, from);

    origin = publishes ? ((int64_t)to_rank->s->rank << 32) + to_step : from->held->origin;
    if (!err)
        err = write(c, to_rank, to_step, 0, to);
    if (!err)
        err = add_set(c, to_rank, to_step, to, from->set);
    if (err)
        return err;
    to->held->origin = origin;
    if (ri_step_empties(from_rank->s, &from_rank->s->steps[from_step]))
        from->held->full = 0;
    return 0;
}

int ri_check_transfer(struct ri_checker *c, struct ri_check_rank *sender, uint32_t send,
                      struct ri_check_rank *receiver, uint32_t recv)
{
    const struct ri_operand *from = &sender->s->steps[send].from[0];
    const struct ri_operand *to = &receiver->s->steps[recv].to[0];

    for (int b = 0; b < from->blocks; b++) {
        for (int p = 0; p < from->parts; p++) {
            struct named source = name_of(c, sender, from, b, p),
                         target = name_of(c, receiver, to, b, p);
            int err = move(c, sender, send, &source, receiver, recv, &target);

            if (err)
                return err;
        }
    }
    return 0;
}

static int copy_or_merge(struct ri_checker *c, struct ri_check_rank *r, uint32_t step)
{
    const struct ri_step *s = &r->s->steps[step];

    for (int b = 0; b < s->from[0].blocks; b++) {
        for (int p = 0; p < s->from[0].parts; p++) {
            struct named from = name_of(c, r, &s->from[0], b, p),
                         to = name_of(c, r, &s->to[0], b, p);
            int err = move(c, r, step, &from, r, step, &to);

            if (err)
                return err;
        }
    }
    return 0;
}

/* Bit of a pair of runs in the table of those that were computed. */
static size_t pair_bit(const struct ri_checker *c, const struct named *q, const struct named *k)
{
    size_t keys = (size_t)c->blocks * (size_t)c->token_parts;
    size_t key = (size_t)k->block * (size_t)c->token_parts + (size_t)(k->part % c->token_parts);

    return ((size_t)q->block * (size_t)c->parts + (size_t)q->part) * keys + key;
}

static size_t run_bit(const struct ri_checker *c, const struct named *n)
{
    return (size_t)n->block * (size_t)c->token_parts + (size_t)(n->part % c->token_parts);
}

/* One run of queries against one run of keys of the same head group. */
static int compute_pair(struct ri_checker *c, struct ri_check_rank *r, uint32_t step,
                        const struct named *q, const struct named *k,
                        const struct named *query_side, const struct named *key_side)
{
    size_t bit = pair_bit(c, q, k);
    int err = 0;

    if (c->computed[bit / 64] >> bit % 64 & 1)
        return ri_step_fault(r->s, step, "computes Q%d.%d with K%d.%d a second time", (int)q->block,
                             (int)q->part, (int)k->block, (int)k->part);
    c->computed[bit / 64] |= (uint64_t)1 << bit % 64;
    if (query_side)
        err = contribute(r, step, query_side, run_bit(c, k));
    if (!err && key_side)
        err = contribute(r, step, key_side, run_bit(c, q));
    return err;
}

static int compute_pairs(struct ri_checker *c, struct ri_check_rank *r, uint32_t step, int bq,
                         int pq)
{
    const struct ri_step *s = &r->s->steps[step];
    struct named q = name_of(c, r, &s->from[0], bq, pq), query_side = q;

    if (s->to[0].slot >= 0)
        query_side = name_of(c, r, &s->to[0], bq, pq);
    for (int bk = 0; bk < s->from[1].blocks; bk++) {
        for (int pk = 0; pk < s->from[1].parts; pk++) {
            struct named k = name_of(c, r, &s->from[1], bk, pk), key_side = k;
            int err;

            if (q.part / c->token_parts != k.part / c->token_parts)
                continue;
            if (s->to[1].slot >= 0)
                key_side = name_of(c, r, &s->to[1], bk, pk);
            err = compute_pair(c, r, step, &q, &k, s->to[0].slot < 0 ? NULL : &query_side,
                               s->to[1].slot < 0 ? NULL : &key_side);
            if (err)
                return err;
        }
    }
    return 0;
}

static int open_operand(struct ri_checker *c, struct ri_check_rank *r, uint32_t step, int i)
{
    const struct ri_operand *o = ri_step_operand(&r->s->steps[step], i);

    for (int b = 0; o->slot >= 0 && b < o->blocks; b++) {
        for (int p = 0; p < o->parts; p++) {
            struct named n = name_of(c, r, o, b, p);
            int err =
                i < RI_FIRST_WRITE ? read(r, step, &n) : write(c, r, step, i - RI_FIRST_WRITE, &n);

            if (err)
                return err;
        }
    }
    return 0;
}

static int compute(struct ri_checker *c, struct ri_check_rank *r, uint32_t step)
{
    const struct ri_operand *query = &r->s->steps[step].from[0];
    int err = 0;

    if (c->goal != RI_GOAL_ATTENTION)
        return ri_step_fault(r->s, step, "there is nothing to compute in this collective");
    for (int i = 0; !err && i < RI_OPERANDS; i++)
        err = open_operand(c, r, step, i);
    for (int b = 0; b < query->blocks; b++)
        for (int p = 0; !err && p < query->parts; p++)
            err = compute_pairs(c, r, step, b, p);
    return err;
}

int ri_check_work(struct ri_checker *c, struct ri_check_rank *r, uint32_t step)
{
    if (r->s->steps[step].op != RI_COMPUTE)
        return copy_or_merge(c, r, step);
    c->check->computes++;
    return compute(c, r, step);
}
