/* SPDX-License-Identifier: Apache-2.0 */
/* Runs all ranks at once.  A message moves when both its ends are under way, and nothing is
 * buffered; a stream launches a turn when its last one is complete; work is done strictly in
 * program order.  That is the least that any engine does, so what ends here ends anywhere.  In the
 * binding model a step that writes memory which others read in place waits for them. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "schedule/check.h"

/* What the caller gave is there, all else is empty. */
static void fill_inputs(const struct ri_checker *c, struct ri_check_rank *r)
{
    const struct ri_schedule *s = r->s;

    memset(r->sets, 0, (size_t)r->first[s->slot_count] * c->words * sizeof(*r->sets));
    memset(r->seen, 0, c->words * sizeof(*r->seen));
    r->seen[s->rank / 64] |= (uint64_t)1 << s->rank % 64;
    for (uint32_t i = 0; i < s->slot_count; i++) {
        int whole = s->slots[i].parts == c->parts, in = s->slots[i].kind == RI_IN;
        int from_here = in && (s->slots[i].bundle == RI_R || s->slots[i].bundle == RI_X);

        for (uint32_t p = r->first[i]; p < r->first[i + 1]; p++) {
            r->held[p] = (struct ri_held){-1, whole ? (int32_t)(p - r->first[i]) : -1, -1,
                                          (uint8_t)in, (int64_t)s->rank << 32};
            if (from_here)
                ri_held_set(c, r, p)[s->rank / 64] |= (uint64_t)1 << s->rank % 64;
        }
    }
}

/* The transfers of one stream, in the order of their turns; program order within a turn. */
static void order_stream(struct ri_check_rank *r, int stream, int one_stream, uint32_t first)
{
    const struct ri_schedule *s = r->s;
    uint32_t count = first;

    for (uint32_t i = 0; i < s->step_count; i++) {
        uint32_t at = count;

        if (!ri_step_moves(&s->steps[i]) || (!one_stream && s->steps[i].lane != stream))
            continue;
        for (; at > first && s->steps[r->order[at - 1]].turn > s->steps[i].turn; at--)
            r->order[at] = r->order[at - 1];
        r->order[at] = i;
        count++;
    }
    r->next[stream] = first;
    r->end[stream] = count;
}

static void start(const struct ri_checker *c, struct ri_check_rank *r, int one_stream)
{
    fill_inputs(c, r);
    memset(r->launched, 0, r->s->step_count);
    memset(r->met, 0, r->s->step_count);
    memset(r->done, 0, r->s->step_count);
    order_stream(r, 0, one_stream, 0);
    r->next[1] = r->end[1] = r->end[0];
    if (!one_stream)
        order_stream(r, 1, 0, r->end[0]);
    r->next_work = 0;
    if (c->binding)
        ri_check_bind_start(r);
}

static int is_ready(const struct ri_checker *c, const struct ri_check_rank *r, uint32_t step)
{
    const struct ri_step *s = &r->s->steps[step];

    for (uint32_t d = 0; d < s->deps; d++)
        if (!r->done[r->s->deps[s->first_dep + d]])
            return 0;
    return !c->binding || ri_check_may_write(r, step);
}

static int finish(struct ri_checker *c, struct ri_check_rank *r, uint32_t step)
{
    r->done[step] = 1;
    return c->binding ? ri_check_bind_end(c, r, step) : 0;
}

/* Both ends are under way: the message moves. */
static int meet(struct ri_checker *c, struct ri_check_rank *r, uint32_t step)
{
    struct ri_check_rank *peer = &c->rank[r->s->steps[step].peer];
    struct ri_check_rank *sender = r->s->steps[step].op == RI_SEND ? r : peer;
    struct ri_check_rank *receiver = sender == r ? peer : r;
    uint32_t mate = r->mate[step], send = sender == r ? step : mate, recv = sender->mate[send];
    int err;

    if (!peer->launched[mate])
        return 0;
    r->met[step] = peer->met[mate] = 1;
    c->check->transfers++;
    err = ri_check_transfer(c, sender, send, receiver, recv);
    if (!err && c->binding && sender->s->steps[send].bind)
        err = ri_check_bind_meet(c, sender, send, receiver, recv);
    return err;
}

/* The group at the head of a stream: its transfers of one turn end before order[*end]. */
static uint32_t group_end(const struct ri_check_rank *r, int stream)
{
    uint32_t end = r->next[stream];

    while (end < r->end[stream] &&
           r->s->steps[r->order[end]].turn == r->s->steps[r->order[r->next[stream]]].turn)
        end++;
    return end;
}

static int launch(struct ri_checker *c, struct ri_check_rank *r, int stream, uint32_t end,
                  int *moved)
{
    int err = 0;

    for (uint32_t i = r->next[stream]; i < end; i++)
        if (!is_ready(c, r, r->order[i]))
            return 0;
    for (uint32_t i = r->next[stream]; !err && i < end; i++) {
        r->launched[r->order[i]] = 1;
        if (c->binding)
            err = ri_check_bind_begin(c, r, r->order[i]);
        if (!err)
            err = meet(c, r, r->order[i]);
    }
    *moved = 1;
    return err;
}

/* Launches the next group, or completes it when all of it has met. */
static int advance_stream(struct ri_checker *c, struct ri_check_rank *r, int stream, int *moved)
{
    uint32_t end = group_end(r, stream);
    int err = 0;

    if (r->next[stream] == end)
        return 0;
    if (!r->launched[r->order[r->next[stream]]])
        return launch(c, r, stream, end, moved);
    for (uint32_t i = r->next[stream]; i < end; i++)
        if (!r->met[r->order[i]])
            return 0;
    for (uint32_t i = r->next[stream]; !err && i < end; i++)
        err = finish(c, r, r->order[i]);
    r->next[stream] = end;
    *moved = 1;
    return err;
}

static int advance_work(struct ri_checker *c, struct ri_check_rank *r, int *moved)
{
    uint32_t step = r->next_work;
    int err = 0;

    while (step < r->s->step_count && ri_step_moves(&r->s->steps[step]))
        step++;
    r->next_work = step;
    if (step == r->s->step_count || !is_ready(c, r, step))
        return 0;
    if (c->binding)
        err = ri_check_bind_begin(c, r, step);
    if (!err)
        err = ri_check_work(c, r, step);
    if (!err)
        err = finish(c, r, step);
    r->next_work++;
    *moved = 1;
    return err;
}

/* As far as this rank gets alone. */
static int advance(struct ri_checker *c, struct ri_check_rank *r, int *any)
{
    int moved = 1, err = 0;

    while (moved && !err) {
        moved = 0;
        err = advance_work(c, r, &moved);
        for (int stream = 0; !err && stream < RI_LANES; stream++)
            err = advance_stream(c, r, stream, &moved);
        *any |= moved;
    }
    return err;
}

/* Nothing moves any more: all is done, or nobody can go on. */
static int check_all_done(const struct ri_checker *c)
{
    for (int r = 0; r < c->ranks; r++)
        for (uint32_t i = 0; i < c->rank[r].s->step_count; i++)
            if (!c->rank[r].done[i])
                return ri_step_fault(c->rank[r].s, i, "deadlock: it waits for ever");
    return 0;
}

int ri_check_run(struct ri_checker *c, int one_stream)
{
    int any = 1, err = 0;

    c->check->computes = c->check->transfers = c->check->turns = 0;
    if (c->goal == RI_GOAL_ATTENTION)
        memset(c->computed, 0,
               ((size_t)c->blocks * (size_t)c->token_parts * (size_t)c->blocks * (size_t)c->parts /
                    64 +
                1) *
                   sizeof(*c->computed));
    for (int r = 0; r < c->ranks; r++) {
        start(c, &c->rank[r], one_stream);
        if (c->rank[r].s->turns > c->check->turns)
            c->check->turns = c->rank[r].s->turns;
    }
    while (any && !err) {
        any = 0;
        for (int r = 0; !err && r < c->ranks; r++)
            err = advance(c, &c->rank[r], &any);
    }
    return err ? err : check_all_done(c);
}
