/* SPDX-License-Identifier: Apache-2.0 */
/* Content that is read in place: when it is let go, and when its memory may be written again. */
#include "engine/private.h"

/* Do two operands share a place?  Part p lies at place p mod the room of its slot. */
static int overlap(const struct ri_schedule *s, const struct ri_operand *a, const struct ri_operand *b)
{
    for (int slot = a->slot > b->slot ? a->slot : b->slot;
         slot < a->slot + a->blocks && slot < b->slot + b->blocks; slot++)
        for (int i = 0; i < a->parts; i++)
            for (int j = 0; j < b->parts; j++)
                if ((a->first_part + i) % s->slots[slot].parts == (b->first_part + j) % s->slots[slot].parts)
                    return 1;
    return 0;
}

static int touches(const struct ri_schedule *s, const struct ri_operand operands[2],
                   const struct ri_operand *moved)
{
    return (operands[0].slot >= 0 && overlap(s, &operands[0], moved)) ||
           (operands[1].slot >= 0 && overlap(s, &operands[1], moved));
}

/* Does the step wait for readers of the bound SEND `on`, beside `on` itself? */
static int rewrites(const struct ri_schedule *s, const struct ri_step *step, const struct ri_step *on)
{
    return on->op == RI_SEND && on->bind && touches(s, step->to, &on->from[0]);
}

void ri_engine_find_bindings(struct ri_engine *engine)
{
    const struct ri_schedule *s = engine->schedule;

    for (uint32_t i = 0; i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];

        for (uint32_t d = step->first_dep; d < step->first_dep + step->deps; d++) {
            const struct ri_step *on = &s->steps[s->deps[d]];

            engine->dep_reads[d] = on->op == RI_RECV && on->bind && touches(s, step->from, &on->to[0]);
            engine->reads[s->deps[d]] += engine->dep_reads[d];
            engine->waits[i] += (uint32_t)rewrites(s, step, on);
        }
        for (uint32_t u = engine->first_user[i]; u < engine->first_user[i + 1]; u++)
            engine->user_waits[u] = (uint8_t)rewrites(s, &s->steps[engine->users[u]], step);
    }
}

void ri_engine_start_bindings(struct ri_engine *engine)
{
    const struct ri_schedule *s = engine->schedule;
    const struct ri_program *program = engine->program;

    for (uint32_t i = 0; i < s->step_count; i++) {
        engine->reads_left[i] = engine->reads[i];
        engine->unmet[i] += engine->waits[i];
        engine->lent[i] = 0;
        for (uint32_t x = program->first_xfer[i]; x < program->first_xfer[i + 1]; x++) {
            program->xfers[x].bind = s->steps[i].bind;
            program->xfers[x].reference = (struct ri_reference){ 0 };
        }
    }
    engine->lent_count = 0;
}

/* ---- receives: let go ---- */

static void release(struct ri_transport *transport, struct ri_xfer *xfer)
{
    if (!xfer->send && xfer->bind && xfer->state == RI_XFER_DONE && xfer->reference.counter)
        transport->ops->release(transport, xfer);
}

static void release_step(struct ri_engine *engine, uint32_t step)
{
    const struct ri_program *program = engine->program;

    for (uint32_t x = program->first_xfer[step]; x < program->first_xfer[step + 1]; x++)
        release(program->transport, &program->xfers[x]);
}

void ri_engine_release_all(struct ri_engine *engine)
{
    for (uint32_t i = 0; i < engine->schedule->step_count; i++)
        release_step(engine, i);
}

/* ---- sends: who reads ---- */

static int has_readers(const struct ri_program *program, uint32_t step)
{
    struct ri_transport *transport = program->transport;

    for (uint32_t x = program->first_xfer[step]; x < program->first_xfer[step + 1]; x++) {
        struct ri_xfer *xfer = &program->xfers[x];

        if (xfer->send && xfer->bind && xfer->state == RI_XFER_DONE &&
            transport->ops->readers(transport, xfer) > 0)
            return 1;
    }
    return 0;
}

/* Returns whether nobody reads any more. */
static int look_at(struct ri_engine *engine, uint32_t step)
{
    if (has_readers(engine->program, step))
        return 0;
    engine->lent[step] = 0;
    engine->lent_count--;
    for (uint32_t u = engine->first_user[step]; u < engine->first_user[step + 1]; u++)
        if (engine->user_waits[u])
            engine->unmet[engine->users[u]]--;
    return 1;
}

void ri_engine_look_at_readers(struct ri_engine *engine, int *acted)
{
    uint32_t left = engine->lent_count;

    for (uint32_t i = 0; left > 0 && i < engine->transfer_count; i++) {
        uint32_t step = engine->transfers[i];

        if (!engine->lent[step])
            continue;
        left--;
        if (look_at(engine, step))
            *acted = 1;
    }
}

void ri_engine_finish_bindings(struct ri_engine *engine, uint32_t step)
{
    const struct ri_schedule *s = engine->schedule;
    const struct ri_step *it = &s->steps[step];

    for (uint32_t d = it->first_dep; d < it->first_dep + it->deps; d++)
        if (engine->dep_reads[d] && --engine->reads_left[s->deps[d]] == 0)
            release_step(engine, s->deps[d]);
    if (!it->bind)
        return;
    if (it->op == RI_RECV && engine->reads_left[step] == 0)
        release_step(engine, step);
    if (it->op == RI_SEND) {
        engine->lent[step] = 1;
        engine->lent_count++;
        look_at(engine, step);
    }
}

/* ---- pieces of work that read in place ---- */

static void leave_one(struct ri_transport *transport, const struct ri_reference *reference, int *err)
{
    int one = transport->ops->leave(transport, reference);

    if (one)
        *err = one;
}

/* Enters, or leaves, what the step reads in place, in one order, up to the first `most`.  Returns how
 * many; fewer when one is refused.  *err: what refused it, or what was taken back meanwhile. */
static uint32_t each_read(struct ri_engine *engine, uint32_t step, uint32_t most, int enters, int *err)
{
    const struct ri_schedule *s = engine->schedule;
    const struct ri_program *program = engine->program;
    const struct ri_transport_ops *ops = program->transport->ops;
    const struct ri_step *it = &s->steps[step];
    uint32_t n = 0;

    for (uint32_t d = it->first_dep; d < it->first_dep + it->deps; d++)
        for (uint32_t x = program->first_xfer[s->deps[d]];
             engine->dep_reads[d] && x < program->first_xfer[s->deps[d] + 1]; x++) {
            const struct ri_xfer *xfer = &program->xfers[x];

            if (xfer->send || !xfer->reference.counter)
                continue;
            if (n == most)
                return n;
            if (!enters)
                leave_one(program->transport, &xfer->reference, err);
            else if ((*err = ops->enter(program->transport, &xfer->reference)) != 0)
                return n;
            n++;
        }
    return n;
}

int ri_engine_enter(struct ri_engine *engine, uint32_t step)
{
    int refused = 0, ignored = 0;
    uint32_t entered = each_read(engine, step, UINT32_MAX, 1, &refused);

    if (refused)
        each_read(engine, step, entered, 0, &ignored);
    return refused;
}

int ri_engine_leave(struct ri_engine *engine, uint32_t step)
{
    int err = 0;

    each_read(engine, step, UINT32_MAX, 0, &err);
    return err;
}

/* ---- a run that is given up ---- */

void ri_engine_revoke(struct ri_engine *engine)
{
    const struct ri_program *program = engine->program;

    for (uint32_t x = 0; x < program->first_xfer[engine->schedule->step_count]; x++)
        if (program->xfers[x].send && program->xfers[x].bind && program->xfers[x].state == RI_XFER_DONE)
            program->transport->ops->revoke(program->transport, &program->xfers[x]);
}

int ri_engine_is_read(const struct ri_engine *engine)
{
    for (uint32_t i = 0; i < engine->schedule->step_count; i++)
        if (has_readers(engine->program, i))
            return 1;
    return 0;
}
