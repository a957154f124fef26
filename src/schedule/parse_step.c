/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one step of a schedule text. */
#include <stdlib.h>
#include <string.h>

#include "schedule/parse.h"

/* dK4 of s3:dK4: which bundle, and where its block number starts. */
static int read_bundle(const char **at, const char *end)
{
    for (int i = 0; i < RI_BUNDLES; i++) {
        size_t length = strlen(ri_bundle_names[i]);

        if ((size_t)(end - *at) > length && !memcmp(*at, ri_bundle_names[i], length) &&
            (*at)[length] >= '0' && (*at)[length] <= '9') {
            *at += length;
            return i;
        }
    }
    return -1;
}

/* s3:K4, s3:K4-7, s3:K4.0, s3:K4.0+2; *adds: a plus follows. */
static int read_operand(const struct parser *p, struct token token, struct ri_operand *o, int *adds)
{
    const char *at = token.start, *end = token.start + token.length;
    int64_t slot = -1, block, last, first_part = 0, parts = ri_schedule_parts(p->s);
    int bundle;

    if (at < end && *at++ == 's')
        slot = ri_parse_digits(&at, end, RI_MAX_PLACES);
    if (slot < 0 || at >= end || *at++ != ':')
        return ri_parse_fault(p, token, "an operand such as s3:K4 is wanted here");
    bundle = read_bundle(&at, end);
    if (bundle < 0)
        return ri_parse_fault(p, token, "no such bundle");
    last = block = ri_parse_digits(&at, end, RI_MAX_BLOCKS);
    if (at < end && *at == '-')
        at++, last = ri_parse_digits(&at, end, RI_MAX_BLOCKS);
    if (at < end && *at == '.') {
        at++, first_part = ri_parse_digits(&at, end, RI_MAX_PARTS), parts = 1;
        if (end - at > 1 && *at == '+')
            at++, parts = ri_parse_digits(&at, end, RI_MAX_PARTS);
    }
    *adds = at < end && *at == '+';
    if (block < 0 || last < block || first_part < 0 || parts < 1 || at + *adds != end)
        return ri_parse_fault(p, token, "blocks or parts are out of form");
    if (slot >= p->s->slot_count)
        return ri_parse_fault(p, token, "there are %u slots", (unsigned)p->s->slot_count);
    if (p->s->slots[slot].bundle != bundle)
        return ri_parse_fault(p, token, "slot %d is of bundle %s", (int)slot,
                              ri_bundle_names[p->s->slots[slot].bundle]);
    *o = (struct ri_operand){(int32_t)slot, (int32_t)block, (uint16_t)(last - block + 1),
                             (uint16_t)first_part, (uint16_t)parts};
    return 0;
}

static int read_source(struct parser *p, struct ri_operand *o)
{
    struct token token = ri_parse_token(p);
    int adds, err = read_operand(p, token, o, &adds);

    return !err && adds ? ri_parse_fault(p, token, "only a target can be added to") : err;
}

/* One or two targets; in a COMPUTE the bundle tells which side one is of. */
static int read_targets(struct parser *p, struct ri_step *step, struct written *w,
                        struct token *rest)
{
    int err = ri_parse_expect(p, "->"), found = 0;

    for (*rest = ri_parse_token(p); !err && rest->length && !ri_parse_is(*rest, "after");
         *rest = ri_parse_token(p)) {
        struct ri_operand o;
        int adds, side;

        err = read_operand(p, *rest, &o, &adds);
        if (err)
            break;
        side = step->op == RI_COMPUTE && p->s->slots[o.slot].bundle == RI_DK;
        if (step->to[side].slot >= 0)
            return ri_parse_fault(p, *rest, "a target too many");
        step->to[side] = o;
        w->adds |= (uint32_t)adds << side;
        found = 1;
    }
    return !err && !found ? ri_parse_fault(p, *rest, "a target is wanted here") : err;
}

static int read_transfer(struct parser *p, struct ri_step *step, struct written *w,
                         struct token *rest)
{
    struct ri_operand o;
    struct token token = ri_parse_token(p);
    int adds, err = read_operand(p, token, &o, &adds);

    if (!err && adds && step->op == RI_SEND)
        err = ri_parse_fault(p, token, "only a target can be added to");
    if (!err)
        err = ri_parse_expect_number(p, step->op == RI_SEND ? "to" : "from", 0, p->s->ranks - 1,
                                     &step->peer);
    *rest = ri_parse_token(p);
    if (err)
        return err;
    if (step->op == RI_SEND)
        step->from[0] = o;
    else
        step->to[0] = o;
    w->adds = (uint32_t)adds;
    if (ri_parse_is(*rest, "bind")) {
        step->bind = 1;
        *rest = ri_parse_token(p);
    }
    return 0;
}

static int read_work(struct parser *p, struct ri_step *step, struct written *w, struct token *rest)
{
    int err;

    if (ri_step_moves(step))
        return read_transfer(p, step, w, rest);
    if (step->op == RI_MERGE) {
        struct token token = ri_parse_token(p);

        if (!ri_parse_is(token, "sum") && !ri_parse_is(token, "lse"))
            return ri_parse_fault(p, token, "'sum' or 'lse' is wanted here");
        step->merge = ri_parse_is(token, "lse") ? RI_MERGE_LSE : RI_MERGE_SUM;
    }
    err = read_source(p, &step->from[0]);
    if (!err && step->op == RI_COMPUTE)
        err = read_source(p, &step->from[1]);
    return err ? err : read_targets(p, step, w, rest);
}

static int read_after(struct parser *p, struct written *w, uint32_t step)
{
    struct token token = ri_parse_token(p);

    w->has_after = 1;
    w->first_dep = p->dep_count;
    for (; token.length; token = ri_parse_token(p)) {
        uint32_t *deps = ri_grow(p->deps, &p->dep_room, p->dep_count, sizeof(*deps));
        int32_t before;
        int err;

        if (!deps)
            return ri_parse_no_memory();
        p->deps = deps;
        err = step ? ri_parse_number(p, token, 0, (int)step - 1, &before)
                   : ri_parse_fault(p, token, "no step is before");
        if (err)
            return err;
        deps[p->dep_count++] = (uint32_t)before;
        w->deps++;
    }
    return w->deps ? 0 : ri_parse_fault(p, token, "'after' names no step");
}

/* Turn and lane, which only transfers have. */
static int read_turn(struct parser *p, struct token turn, struct token lane, struct ri_step *step)
{
    int found = ri_parse_find(lane, ri_lane_names, RI_LANES);

    if (!ri_step_moves(step)) {
        if (!ri_parse_is(turn, ".") || !ri_parse_is(lane, "."))
            return ri_parse_fault(p, ri_parse_is(turn, ".") ? lane : turn,
                                  "'.' is wanted here: no transfer");
        return 0;
    }
    if (found < 0)
        return ri_parse_fault(p, lane, "'local' or 'host' is wanted here");
    step->lane = (uint8_t)found;
    return ri_parse_number(p, turn, 0, RI_MAX_TURN, &step->turn);
}

static int add_step(struct parser *p, struct ri_step step, struct written w)
{
    struct ri_schedule_room *room = p->s->builder;
    struct written *written =
        ri_grow(p->written, &p->written_room, p->s->step_count, sizeof(*written));
    struct ri_step *steps = ri_grow(p->s->steps, &room->steps, p->s->step_count, sizeof(*steps));

    p->written = written ? written : p->written;
    p->s->steps = steps ? steps : p->s->steps;
    if (!written || !steps)
        return ri_parse_no_memory();
    written[p->s->step_count] = w;
    steps[p->s->step_count++] = step;
    return 0;
}

int ri_parse_step(struct parser *p, struct token word)
{
    struct ri_step step = {
        .peer = -1, .turn = -1, .from = {ri_none, ri_none}, .to = {ri_none, ri_none}};
    struct written w = {.line = p->line};
    int count = (int)p->s->step_count;
    struct token turn = ri_parse_token(p), lane = ri_parse_token(p), name = ri_parse_token(p),
                 rest = name;
    int op = ri_parse_find(name, ri_op_names, RI_MERGE + 1);
    int32_t index;
    int err = p->place == AT_HEADER ? ri_parse_fault(p, word, "'hosts' is wanted here")
                                    : ri_parse_number(p, word, count, count, &index);

    if (err)
        return err;
    if (op < 0)
        return ri_parse_fault(p, name, "no such operation");
    step.op = (uint8_t)op;
    err = read_turn(p, turn, lane, &step);
    if (!err)
        err = read_work(p, &step, &w, &rest);
    if (!err && rest.length)
        err = ri_parse_is(rest, "after")
                  ? read_after(p, &w, p->s->step_count)
                  : ri_parse_fault(p, rest, "'after' or nothing is wanted here");
    p->place = AT_STEPS;
    return err ? err : add_step(p, step, w);
}
