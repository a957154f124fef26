/* SPDX-License-Identifier: Apache-2.0 */
/* The binding model: a bound RECV makes its view refer to the holder's memory, where its readers
 * are counted until the last of them is done.  Whoever writes that memory waits for none to be
 * left.  That nobody reads what was written since is seen apart from the counters. */
#include <string.h>

#include "schedule/check.h"

static uint32_t place_of(const struct ri_check_rank *r, const struct ri_operand *o, int n)
{
    return ri_place(r->s, r->first, o, n / o->parts, n % o->parts);
}

static int place_count(const struct ri_operand *o)
{
    return o->slot < 0 ? 0 : o->blocks * o->parts;
}

/* Of each bound RECV: how many reads there are of what it brought, and itself. */
static void count_reads(struct ri_check_rank *r)
{
    memset(r->reads, 0, r->s->step_count * sizeof(*r->reads));
    for (uint32_t p = 0; p < r->first[r->s->slot_count]; p++)
        r->bound[p] = (struct ri_bound){.by = -1};
    for (uint32_t i = 0; i < r->s->step_count; i++) {
        for (int k = 0; k < RI_OPERANDS; k++) {
            const struct ri_operand *o = ri_step_operand(&r->s->steps[i], k);

            for (int n = 0; n < place_count(o); n++) {
                struct ri_bound *bound = &r->bound[place_of(r, o, n)];

                if (k >= RI_FIRST_WRITE)
                    bound->by = r->s->steps[i].bind ? (int32_t)i : -1;
                else if (bound->by >= 0)
                    r->reads[bound->by]++;
            }
        }
        r->reads[i] += r->s->steps[i].bind;
    }
}

void ri_check_bind_start(struct ri_check_rank *r)
{
    uint32_t places = r->first[r->s->slot_count];

    count_reads(r);
    memset(r->readers, 0, places * sizeof(*r->readers));
    memset(r->version, 0, places * sizeof(*r->version));
    for (uint32_t p = 0; p < places; p++)
        r->bound[p] = (struct ri_bound){.by = -1};
}

int ri_check_may_write(const struct ri_check_rank *r, uint32_t step)
{
    for (int k = 0; k < 2 && !r->s->steps[step].bind; k++) {
        const struct ri_operand *o = &r->s->steps[step].to[k];

        for (int n = 0; n < place_count(o); n++)
            if (r->readers[place_of(r, o, n)])
                return 0;
    }
    return 1;
}

/* Everything that the step reads in other memory must be what it was when it was bound. */
static int reads_hold(const struct ri_checker *c, const struct ri_check_rank *r, uint32_t step)
{
    for (int k = 0; k < RI_FIRST_WRITE; k++) {
        const struct ri_operand *o = &r->s->steps[step].from[k];

        for (int n = 0; n < place_count(o); n++) {
            const struct ri_bound *bound = &r->bound[place_of(r, o, n)];

            if (bound->by >= 0 && c->rank[bound->holder].version[bound->place] != bound->version)
                return ri_step_fault(r->s, step,
                                     "reads slot %d in the memory of rank %d, which was written "
                                     "again",
                                     (int)o->slot + n / o->parts, (int)bound->holder);
        }
    }
    return 0;
}

int ri_check_bind_begin(struct ri_checker *c, struct ri_check_rank *r, uint32_t step)
{
    for (int k = 0; k < 2 && !r->s->steps[step].bind; k++) {
        const struct ri_operand *o = &r->s->steps[step].to[k];

        for (int n = 0; n < place_count(o); n++) {
            uint32_t place = place_of(r, o, n);

            r->version[place]++;
            r->bound[place].by = -1;
        }
    }
    return reads_hold(c, r, step);
}

int ri_check_bind_meet(struct ri_checker *c, struct ri_check_rank *sender, uint32_t send,
                       struct ri_check_rank *receiver, uint32_t recv)
{
    const struct ri_operand *from = &sender->s->steps[send].from[0];
    const struct ri_operand *to = &receiver->s->steps[recv].to[0];
    int32_t by = sender->bound[place_of(sender, from, 0)].by;

    if (by >= 0 && !ri_operand_equal(&sender->s->steps[by].to[0], from))
        return ri_step_fault(sender->s, send, "passes on other parts than step %d bound", (int)by);
    for (int n = 0; n < place_count(from); n++) {
        uint32_t place = place_of(sender, from, n);
        struct ri_bound bound = sender->bound[place];

        if (bound.by != by)
            return ri_step_fault(sender->s, send, "binds what came here in parts");
        if (by < 0)
            bound = (struct ri_bound){0, sender->s->rank, place, sender->version[place]};
        bound.by = (int32_t)recv;
        receiver->bound[place_of(receiver, to, n)] = bound;
        c->rank[bound.holder].readers[bound.place]++;
    }
    return 0;
}

/* One read less of what a RECV has bound; after the last one the holder hears of it. */
static void release(struct ri_checker *c, struct ri_check_rank *r, uint32_t recv)
{
    const struct ri_operand *o = &r->s->steps[recv].to[0];

    if (--r->reads[recv])
        return;
    for (int n = 0; n < place_count(o); n++) {
        const struct ri_bound *bound = &r->bound[place_of(r, o, n)];

        c->rank[bound->holder].readers[bound->place]--;
    }
}

int ri_check_bind_end(struct ri_checker *c, struct ri_check_rank *r, uint32_t step)
{
    int err = reads_hold(c, r, step);

    for (int k = 0; k < RI_FIRST_WRITE; k++) {
        const struct ri_operand *o = &r->s->steps[step].from[k];

        for (int n = 0; n < place_count(o); n++) {
            int32_t by = r->bound[place_of(r, o, n)].by;

            if (by >= 0)
                release(c, r, (uint32_t)by);
        }
    }
    if (r->s->steps[step].bind && r->s->steps[step].op == RI_RECV)
        release(c, r, step);
    return err;
}

int ri_check_bind_goal(const struct ri_checker *c)
{
    for (int r = 0; r < c->ranks; r++) {
        const struct ri_check_rank *rank = &c->rank[r];

        for (uint32_t p = 0; p < rank->first[rank->s->slot_count]; p++)
            if (rank->readers[p])
                return ri_step_fault(rank->s, rank->s->step_count - 1,
                                     "ends while %u readers of this rank's memory are left",
                                     (unsigned)rank->readers[p]);
    }
    return 0;
}
