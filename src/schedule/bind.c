/* SPDX-License-Identifier: Apache-2.0 */
/* Which transfers inside a host move nothing: the receiver reads the holder's memory in place.
 *
 * The holder may write over that memory only when nobody reads it any more, so it waits for ranks
 * that wait for others, and for itself in the end.  A time is given to every step: 2 * turn to a
 * transfer; to work one more than the latest transfer that it, or work before it, waits for.  What
 * a step waits for in its own rank has an earlier time, or the same and a place before it.  A
 * reader may be waited for when its time is earlier than the writer's: then the step of the
 * earliest time that is not done can always go on.
 *
 * Work that runs in strict program order also waits for work before it, whether or not it depends
 * on it, so the time of work never falls: that is why the latest transfer before it counts, too.
 * Transfers wait for work by dependencies only, and the checker's run of one stream, in which work
 * is strictly in program order and turns one after the other, shows that none depends on work whose
 * time is later than its own: it would never start. */
#include <stdlib.h>
#include <string.h>

#include "base/analyzer.h"
#include "base/status.h"
#include "schedule/internal.h"

enum { OWN = -1, MIXED = -2 };

/* One rank's steps as far as binding is concerned. */
struct times {
    int64_t *time;      /* [steps] */
    int64_t *last;      /* [steps] RECV: the latest of it and of all that read what it brought */
    int64_t *rewritten; /* [steps] SEND: when what it sends is written over in this rank's memory */
    int64_t *limit;     /* [steps] bound RECV: the holder's `rewritten` */
    int32_t *brought;   /* [steps] SEND: the RECV that brought just this; OWN: memory of ours holds
                           it; MIXED: RECVs that may bind brought parts of it */
};

/* A transfer inside a host. */
struct pair {
    int32_t turn, sender, receiver;
    uint32_t send, recv;
};

struct binder {
    struct ri_schedule *const *schedules; /* [ranks] NULL: no rank of a host that is looked at */
    int ranks;
    struct times *times; /* [ranks] */
    struct pair *pairs;  /* in the order of turns */
    uint32_t pair_count, pair_room;
};

static int no_memory(void)
{
    return ri_error(RONDO_ERR_MEMORY, "binding of a schedule: out of memory");
}

int ri_step_can_bind(const struct ri_schedule *s, const struct ri_step *step)
{
    const struct ri_operand *o = ri_step_moved(step);
    const struct ri_slot *slot = &s->slots[o->slot];

    if (step->lane != RI_LANE_LOCAL || o->blocks != 1 || o->parts != ri_schedule_parts(s) ||
        ri_bundle_accumulates(slot->bundle))
        return 0;
    return step->op == RI_RECV ? slot->kind == RI_VIEW : slot->kind != RI_OUT;
}

int ri_slot_is_bound(const struct ri_schedule *s, int32_t slot)
{
    for (uint32_t i = 0; i < s->step_count; i++) {
        for (int k = 0; k < 2; k++) {
            const struct ri_operand *to = &s->steps[i].to[k];

            if (to->slot >= 0 && slot >= to->slot && slot < to->slot + to->blocks &&
                !s->steps[i].bind)
                return 0;
        }
    }
    return s->slots[slot].kind == RI_VIEW;
}

static void find_times(const struct ri_schedule *s, int64_t *time)
{
    int64_t work = -1;

    for (uint32_t i = 0; i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];

        time[i] = 2 * (int64_t)step->turn;
        if (ri_step_moves(step))
            continue;
        for (uint32_t d = 0; d < step->deps; d++) {
            int64_t before = time[s->deps[step->first_dep + d]];

            /* Work has odd times. */
            if (before >= 0 && (before | 1) > work)
                work = before | 1;
        }
        time[i] = work;
    }
}

static int may_bind(const struct ri_schedule *s, int32_t step)
{
    return step >= 0 && s->steps[step].op == RI_RECV && ri_step_can_bind(s, &s->steps[step]);
}

/* writer: the last step that wrote each place, or -1. */
static int32_t who_brought(const struct ri_schedule *s, const uint32_t *first,
                           const int32_t *writer, const struct ri_operand *o)
{
    int32_t one = writer[ri_place(s, first, o, 0, 0)];
    int same = may_bind(s, one) && ri_operand_equal(&s->steps[one].to[0], o), any = 0;

    for (int b = 0; b < o->blocks; b++) {
        for (int p = 0; p < o->parts; p++) {
            int32_t by = writer[ri_place(s, first, o, b, p)];

            same = same && by == one;
            any = any || may_bind(s, by);
        }
    }
    if (same)
        return one;
    return any ? MIXED : OWN;
}

/* Forwards: who reads what which step has written. */
static void find_readers(const struct ri_schedule *s, const uint32_t *first, struct times *t,
                         int32_t *writer)
{
    for (uint32_t i = 0; i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];

        t->last[i] = t->time[i];
        if (step->op == RI_SEND)
            t->brought[i] = who_brought(s, first, writer, &step->from[0]);
        for (int k = 0; k < RI_OPERANDS; k++) {
            const struct ri_operand *o = ri_step_operand(step, k);
            int places = o->slot < 0 ? 0 : o->blocks * o->parts;

            for (int n = 0; n < places; n++) {
                int32_t *by = &writer[ri_place(s, first, o, n / o->parts, n % o->parts)];

                if (k >= RI_FIRST_WRITE)
                    *by = (int32_t)i;
                else if (*by >= 0 && t->last[*by] < t->time[i])
                    t->last[*by] = t->time[i];
            }
        }
    }
}

/* Backwards: when a place is written next.  A RECV that binds leaves the memory as it is. */
static void find_writers(const struct ri_schedule *s, const uint32_t *first, struct times *t,
                         int64_t *next)
{
    for (uint32_t i = s->step_count; i-- > 0;) {
        const struct ri_step *step = &s->steps[i];

        t->rewritten[i] = INT64_MAX;
        for (int k = 0; k < RI_OPERANDS; k++) {
            const struct ri_operand *o = ri_step_operand(step, k);
            int places = o->slot < 0 ? 0 : o->blocks * o->parts;

            for (int n = 0; n < places; n++) {
                int64_t *at = &next[ri_place(s, first, o, n / o->parts, n % o->parts)];

                if (k >= RI_FIRST_WRITE && !step->bind)
                    *at = t->time[i];
                else if (step->op == RI_SEND && *at < t->rewritten[i])
                    t->rewritten[i] = *at;
            }
        }
    }
}

/* It loses sight of what stays with `t`, which release frees. */
RI_ANALYZER_IGNORE("-Wanalyzer-malloc-leak")
static int scan(const struct ri_schedule *s, struct times *t)
{
    size_t steps = (size_t)s->step_count + 1, places;
    uint32_t *first = ri_places_create(s);
    int32_t *writer = NULL;
    int64_t *next = NULL;
    int err = 0;

    places = first ? (size_t)first[s->slot_count] + 1 : 1;
    writer = malloc(places * sizeof(*writer));
    next = malloc(places * sizeof(*next));
    t->time = calloc(steps, sizeof(*t->time));
    t->last = calloc(steps, sizeof(*t->last));
    t->rewritten = calloc(steps, sizeof(*t->rewritten));
    t->limit = calloc(steps, sizeof(*t->limit));
    t->brought = calloc(steps, sizeof(*t->brought));
    if (first && writer && next && t->time && t->last && t->rewritten && t->limit && t->brought) {
        for (size_t p = 0; p < places; p++) {
            writer[p] = -1;
            next[p] = INT64_MAX;
        }
        find_times(s, t->time);
        find_readers(s, first, t, writer);
        find_writers(s, first, t, next);
    } else {
        err = no_memory();
    }
    free(first);
    free(writer);
    free(next);
    return err;
}
RI_ANALYZER_RESUME

static int add_pair(struct binder *b, struct pair pair)
{
    struct pair *pairs = ri_grow(b->pairs, &b->pair_room, b->pair_count, sizeof(*pairs));

    if (!pairs)
        return no_memory();
    b->pairs = pairs;
    pairs[b->pair_count++] = pair;
    return 0;
}

/* The k-th RECV from a rank meets its k-th SEND to us.  at[rank]: where its next SEND to us is
 * looked for. */
static int match(struct binder *b, int receiver, uint32_t *at)
{
    const struct ri_schedule *s = b->schedules[receiver];
    int err = 0;

    memset(at, 0, (size_t)b->ranks * sizeof(*at));
    for (uint32_t i = 0; !err && i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];
        const struct ri_schedule *from;

        if (step->op != RI_RECV || step->lane != RI_LANE_LOCAL)
            continue;
        from = b->schedules[step->peer];
        while (from && at[step->peer] < from->step_count &&
               (from->steps[at[step->peer]].op != RI_SEND ||
                from->steps[at[step->peer]].peer != receiver))
            at[step->peer]++;
        if (!from || at[step->peer] == from->step_count)
            return ri_step_fault(s, i, "no SEND of rank %d meets it", (int)step->peer);
        err = add_pair(b, (struct pair){step->turn, step->peer, receiver, at[step->peer]++, i});
    }
    return err;
}

static int by_turn(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;

    if (x->turn != y->turn)
        return x->turn < y->turn ? -1 : 1;
    if (x->receiver != y->receiver)
        return x->receiver < y->receiver ? -1 : 1;
    return (x->recv > y->recv) - (x->recv < y->recv);
}

static void release(struct binder *b)
{
    for (int r = 0; b->times && r < b->ranks; r++) {
        free(b->times[r].time);
        free(b->times[r].last);
        free(b->times[r].rewritten);
        free(b->times[r].limit);
        free(b->times[r].brought);
    }
    free(b->times);
    free(b->pairs);
}

static int init(struct binder *b)
{
    uint32_t *at = calloc((size_t)b->ranks + 1, sizeof(*at));
    int err = 0;

    b->times = calloc((size_t)b->ranks + 1, sizeof(*b->times));
    if (!at || !b->times)
        err = no_memory();
    for (int r = 0; !err && r < b->ranks; r++) {
        if (!b->schedules[r])
            continue;
        err = scan(b->schedules[r], &b->times[r]);
        if (!err)
            err = match(b, r, at);
    }
    free(at);
    if (!err && b->pair_count)
        qsort(b->pairs, b->pair_count, sizeof(*b->pairs), by_turn);
    return err;
}

/* What the two steps allow, whatever else happens. */
static int can_bind(const struct binder *b, const struct pair *pair)
{
    const struct ri_schedule *a = b->schedules[pair->sender], *s = b->schedules[pair->receiver];
    const struct ri_step *send = &a->steps[pair->send], *recv = &s->steps[pair->recv];

    return ri_step_can_bind(a, send) && ri_step_can_bind(s, recv) &&
           a->slots[send->from[0].slot].bundle == s->slots[recv->to[0].slot].bundle &&
           ri_same_content(&send->from[0], &recv->to[0]);
}

/* Until when what the pair moves lies where it would be read; negative: it cannot be read in place.
 * Pairs of earlier turns have been dealt with. */
static int64_t limit_of(const struct binder *b, const struct pair *pair)
{
    const struct times *t = &b->times[pair->sender];
    int32_t by = t->brought[pair->send];

    if (by == MIXED)
        return -1;
    if (by >= 0 && b->schedules[pair->sender]->steps[by].bind)
        return t->limit[by];
    return t->rewritten[pair->send];
}

static void decide(const struct binder *b, const struct pair *pair)
{
    struct times *t = &b->times[pair->receiver];
    int64_t limit = limit_of(b, pair);

    if (!can_bind(b, pair) || t->last[pair->recv] >= limit)
        return;
    t->limit[pair->recv] = limit;
    b->schedules[pair->sender]->steps[pair->send].bind = 1;
    b->schedules[pair->receiver]->steps[pair->recv].bind = 1;
}

int ri_schedule_bind(struct ri_schedule *const *schedules, int ranks)
{
    struct binder b = {.schedules = schedules, .ranks = ranks};
    int err;

    for (int r = 0; r < ranks; r++)
        for (uint32_t i = 0; schedules[r] && i < schedules[r]->step_count; i++)
            schedules[r]->steps[i].bind = 0;
    err = init(&b);
    for (uint32_t i = 0; !err && i < b.pair_count; i++)
        decide(&b, &b.pairs[i]);
    release(&b);
    return err;
}

static int pair_rule(const struct binder *b, const struct pair *pair)
{
    const struct ri_schedule *a = b->schedules[pair->sender];
    struct times *t = &b->times[pair->receiver];

    if (!b->schedules[pair->receiver]->steps[pair->recv].bind)
        return 0;
    t->limit[pair->recv] = limit_of(b, pair);
    if (t->limit[pair->recv] < 0)
        return ri_step_fault(a, pair->send, "binds what came here in parts");
    if (t->last[pair->recv] >= t->limit[pair->recv])
        return ri_step_fault(a, pair->send,
                             "binds rank %d step %u, which is read until turn %d, but the holder "
                             "writes the slot again in turn %d",
                             (int)pair->receiver, (unsigned)pair->recv,
                             (int)(t->last[pair->recv] / 2), (int)(t->limit[pair->recv] / 2));
    return 0;
}

int ri_schedule_bind_rules(struct ri_schedule *const *schedules, int ranks)
{
    struct binder b = {.schedules = schedules, .ranks = ranks};
    int err = init(&b);

    for (uint32_t i = 0; !err && i < b.pair_count; i++)
        err = pair_rule(&b, &b.pairs[i]);
    release(&b);
    return err;
}
