/* SPDX-License-Identifier: Apache-2.0 */
/* Proves the schedules of all ranks together, by running them on sets in place of numbers. */
#include "schedule/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static int mismatch(const struct ri_schedule *s, const struct ri_schedule *first, const char *what)
{
    return ri_error(RONDO_ERR_MISMATCH,
                    "rank %d step 0: schedule %s has another %s than rank 0's %s", (int)s->rank,
                    s->name, what, first->name);
}

static int same_numbers(const int32_t *a, const int32_t *b, int count)
{
    return !memcmp(a, b, (size_t)count * sizeof(*a));
}

/* Everything that is not a matter of one rank must be equal. */
static int compare_headers(struct ri_schedule *const *schedules, int ranks)
{
    const struct ri_schedule *first = schedules[0];

    for (int r = 0; r < ranks; r++) {
        const struct ri_schedule *s = schedules[r];

        if (!s || s->rank != r || s->ranks != ranks)
            return ri_error(RONDO_ERR_MISMATCH,
                            "rank %d step 0: is the schedule of rank %d of %d, not of %d", r,
                            s ? (int)s->rank : -1, s ? (int)s->ranks : 0, ranks);
        if (strcmp(s->name, first->name))
            return mismatch(s, first, "name");
        if (s->head_parts != first->head_parts || s->token_parts != first->token_parts)
            return mismatch(s, first, "number of parts");
        if (s->blocks != first->blocks || !same_numbers(s->owner, first->owner, s->blocks))
            return mismatch(s, first, "owner of a block");
        if (!same_numbers(s->host, first->host, ranks))
            return mismatch(s, first, "host of a rank");
    }
    return 0;
}

static void release_rank(struct ri_check_rank *r)
{
    free(r->mate);
    free(r->first);
    free(r->held);
    free(r->sets);
    free(r->seen);
    free(r->launched);
    free(r->met);
    free(r->done);
    free(r->order);
    free(r->bound);
    free(r->readers);
    free(r->version);
    free(r->reads);
}

static int init_rank(const struct ri_checker *c, struct ri_check_rank *r,
                     const struct ri_schedule *s)
{
    size_t steps = (size_t)s->step_count + 1, places;

    r->s = s;
    r->first = ri_places_create(s);
    if (!r->first)
        return RONDO_ERR_MEMORY;
    places = (size_t)r->first[s->slot_count] + 1;
    r->mate = calloc(steps, sizeof(*r->mate));
    r->held = calloc(places, sizeof(*r->held));
    r->sets = calloc(places * c->words, sizeof(*r->sets));
    r->seen = calloc(c->words, sizeof(*r->seen));
    r->launched = calloc(steps, 1);
    r->met = calloc(steps, 1);
    r->done = calloc(steps, 1);
    r->order = calloc(steps, sizeof(*r->order));
    r->bound = calloc(places, sizeof(*r->bound));
    r->readers = calloc(places, sizeof(*r->readers));
    r->version = calloc(places, sizeof(*r->version));
    r->reads = calloc(steps, sizeof(*r->reads));
    if (!r->mate || !r->held || !r->sets || !r->seen || !r->launched || !r->met || !r->done)
        return RONDO_ERR_MEMORY;
    if (!r->order || !r->bound || !r->readers || !r->version || !r->reads)
        return RONDO_ERR_MEMORY;
    return 0;
}

static size_t pair_words(const struct ri_checker *c)
{
    size_t side = (size_t)c->blocks * (size_t)c->token_parts;

    return side * side * (size_t)c->head_parts / 64 + 1;
}

static int init(struct ri_checker *c, struct ri_schedule *const *schedules)
{
    size_t bits = (size_t)c->ranks;
    int err = 0;

    if (c->goal == RI_GOAL_ATTENTION && (size_t)c->blocks * (size_t)c->token_parts > bits)
        bits = (size_t)c->blocks * (size_t)c->token_parts;
    c->words = (bits + 63) / 64;
    c->rank = calloc((size_t)c->ranks, sizeof(*c->rank));
    c->computed = calloc(c->goal == RI_GOAL_ATTENTION ? pair_words(c) : 1, sizeof(*c->computed));
    if (!c->rank || !c->computed)
        err = RONDO_ERR_MEMORY;
    for (int r = 0; !err && r < c->ranks; r++)
        err = init_rank(c, &c->rank[r], schedules[r]);
    return err ? ri_error(err, "schedule check: out of memory") : 0;
}

static void release(struct ri_checker *c)
{
    for (int r = 0; c->rank && r < c->ranks; r++)
        release_rank(&c->rank[r]);
    free(c->rank);
    free(c->computed);
}

static int check_each(struct ri_schedule *const *schedules, int ranks)
{
    int err = 0;

    for (int r = 0; !err && r < ranks; r++)
        err = ri_schedule_rules(schedules[r]);
    for (int r = 0; !err && r < ranks; r++)
        err = ri_check_order(schedules[r]);
    return err;
}

static int binds(const struct ri_checker *c)
{
    for (int r = 0; r < c->ranks; r++)
        for (uint32_t i = 0; i < c->rank[r].s->step_count; i++)
            if (c->rank[r].s->steps[i].bind)
                return 1;
    return 0;
}

/* In both orders: each lane on its own, as with a communicator per lane, and whole turns. */
static int run_both(struct ri_checker *c, int binding)
{
    int err = 0;

    c->binding = binding;
    for (int one_stream = 1; !err && one_stream >= 0; one_stream--) {
        err = ri_check_run(c, one_stream);
        if (!err)
            err = ri_check_goal(c);
        if (!err && binding)
            err = ri_check_bind_goal(c);
    }
    return err;
}

static int check_together(struct ri_checker *c, struct ri_schedule *const *schedules)
{
    int err = ri_check_pairs(c);

    if (!err)
        err = run_both(c, 0);
    if (err || !binds(c))
        return err;
    err = run_both(c, 1);
    return err ? err : ri_schedule_bind_rules(schedules, c->ranks);
}

static int check_all(struct ri_checker *c, struct ri_schedule *const *schedules)
{
    int err = compare_headers(schedules, c->ranks);

    if (!err)
        err = check_each(schedules, c->ranks);
    if (err)
        return err;
    c->blocks = schedules[0]->blocks;
    c->head_parts = schedules[0]->head_parts;
    c->token_parts = schedules[0]->token_parts;
    c->parts = c->head_parts * c->token_parts;
    err = init(c, schedules);
    if (!err)
        err = check_together(c, schedules);
    release(c);
    return err;
}

int ri_schedule_check_live(struct ri_schedule *const *schedules, int ranks, enum ri_goal goal,
                           ri_live *live, void *context, struct ri_check *check)
{
    struct ri_checker c = {
        .ranks = ranks, .goal = goal, .live = live, .context = context, .check = check};
    int err;

    memset(check, 0, sizeof(*check));
    if (ranks < 1)
        return ri_error(RONDO_ERR_ARGUMENT, "schedule check: %d ranks", ranks);
    err = check_all(&c, schedules);
    if (!err)
        return 0;
    snprintf(check->message, sizeof(check->message), "%s", rondo_last_error());
    return err == RONDO_ERR_MEMORY ? err : ri_error(RONDO_ERR_MISMATCH, "%s", check->message);
}

int ri_schedule_check(struct ri_schedule *const *schedules, int ranks, enum ri_goal goal,
                      struct ri_check *check)
{
    return ri_schedule_check_live(schedules, ranks, goal, NULL, NULL, check);
}
