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

/* The caller gives a block once: another slot of its bundle that was named so is another block. */
static int check_given_once(const struct ri_check_rank *r, uint32_t step, const struct named *n)
{
    const struct ri_slot *slots = r->s->slots;

    for (uint32_t i = 0; i < r->s->slot_count; i++)
        if (slots[i].kind == RI_IN && slots[i].bundle == slots[n->slot].bundle &&
            r->held[r->first[i]].block == n->block)
            return ri_step_fault(r->s, step,
                                 "reads %s%d from slot %d, but slot %u of the caller's "
                                 "holds it",
                                 n->bundle, (int)n->block, (int)n->slot, (unsigned)i);
    return 0;
}

/* The caller's input is whatever block its first reader names, all of it the same. */
static int adopt(struct ri_check_rank *r, uint32_t step, const struct named *n)
{
    uint32_t first = r->first[n->slot], end = r->first[n->slot + 1];
    int err = n->held->block < 0 ? check_given_once(r, step, n) : 0;

    if (err)
        return err;
    if (n->held->block < 0)
        for (uint32_t p = first; p < end; p++)
            r->held[p].block = n->block;
    if (n->held->part < 0)
        n->held->part = n->part;
    return 0;
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
    int err;

    if (!n->held->full)
        return ri_step_fault(r->s, step, "reads %s%d.%d from slot %d, which is empty", n->bundle,
                             (int)n->block, (int)n->part, (int)n->slot);
    err = adopt(r, step, n);
    if (err)
        return err;
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

/* Sets `count` bits from `first` on.  Returns how many were clear before one that was set. */
static int set_bits(uint64_t *set, size_t first, int count)
{
    for (int n = 0; n < count;) {
        size_t bit = (first + (size_t)n) % 64, word = (first + (size_t)n) / 64;
        int here = count - n < (int)(64 - bit) ? count - n : (int)(64 - bit);
        uint64_t mask = (here == 64 ? ~(uint64_t)0 : ((uint64_t)1 << here) - 1) << bit;

        if (set[word] & mask)
            return n + __builtin_ctzll((set[word] & mask) >> bit);
        set[word] |= mask;
        n += here;
    }
    return count;
}

/* Adds contributions; a second time is a fault. */
static int contribute(const struct ri_check_rank *r, uint32_t step, const struct named *n,
                      size_t first, int count)
{
    if (set_bits(n->set, first, count) == count)
        return 0;
    return ri_step_fault(r->s, step, "%s%d.%d gets a contribution twice", n->bundle, (int)n->block,
                         (int)n->part);
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

/* Bit of run `run` of a block, in the set of a place of the other side. */
static size_t run_bit(const struct ri_checker *c, int block, int run)
{
    return (size_t)block * (size_t)c->token_parts + (size_t)run;
}

/* The runs of head group `head` that an operand has in each of its blocks. */
struct runs {
    int first, count;
};

static struct runs runs_of(const struct ri_checker *c, const struct ri_operand *o, int head)
{
    int start = head * c->token_parts, end = start + c->token_parts;

    if (start < o->first_part)
        start = o->first_part;
    if (end > o->first_part + o->parts)
        end = o->first_part + o->parts;
    return (struct runs){start - head * c->token_parts, end > start ? end - start : 0};
}

/* One run of queries against the keys of one block that are of the same head group. */
static int compute_pairs(struct ri_checker *c, struct ri_check_rank *r, uint32_t step,
                         const struct named *q, int key_block)
{
    size_t keys = (size_t)c->blocks * (size_t)c->token_parts;
    int head = q->part / c->token_parts, new;
    struct runs runs = runs_of(c, &r->s->steps[step].from[1], head);

    new = set_bits(c->computed,
                   ((size_t)q->block * (size_t)c->parts + (size_t)q->part) * keys +
                       run_bit(c, key_block, runs.first),
                   runs.count);
    if (new == runs.count)
        return 0;
    return ri_step_fault(r->s, step, "computes Q%d.%d with K%d.%d a second time", (int)q->block,
                         (int)q->part, key_block, head * c->token_parts + runs.first + new);
}

/* Each place of side k, 0: the query's, gets what all of the other side gives. */
static int compute_side(struct ri_checker *c, struct ri_check_rank *r, uint32_t step, int k)
{
    const struct ri_operand *to = &r->s->steps[step].to[k];
    const struct ri_operand *others = &r->s->steps[step].from[1 - k];
    int places = to->slot < 0 ? 0 : to->blocks * to->parts, err = 0;

    for (int n = 0; n < places; n++) {
        struct named side = name_of(c, r, to, n / to->parts, n % to->parts);
        struct runs runs = runs_of(c, others, side.part / c->token_parts);

        for (int b = 0; !err && b < others->blocks; b++)
            err = contribute(r, step, &side, run_bit(c, others->block + b, runs.first), runs.count);
    }
    return err;
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
    const struct ri_operand *key = &r->s->steps[step].from[1];
    int err = 0;

    if (c->goal != RI_GOAL_ATTENTION)
        return ri_step_fault(r->s, step, "there is nothing to compute in this collective");
    for (int i = 0; !err && i < RI_OPERANDS; i++)
        err = open_operand(c, r, step, i);
    for (int n = 0; !err && n < query->blocks * query->parts; n++) {
        struct named q = name_of(c, r, query, n / query->parts, n % query->parts);

        for (int b = 0; !err && b < key->blocks; b++)
            err = compute_pairs(c, r, step, &q, key->block + b);
    }
    for (int k = 0; !err && k < 2; k++)
        err = compute_side(c, r, step, k);
    return err;
}

int ri_check_work(struct ri_checker *c, struct ri_check_rank *r, uint32_t step)
{
    if (r->s->steps[step].op != RI_COMPUTE)
        return copy_or_merge(c, r, step);
    c->check->computes++;
    return compute(c, r, step);
}
