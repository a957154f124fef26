/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of transfer steps: posted turn by turn on each lane, collected when they have moved. */
#include "base/clock.h"
#include "base/status.h"
#include "engine/private.h"

_Static_assert((int)RI_LANES == (int)RI_TRANSPORT_LANES, "lanes of schedules are those of transports");
_Static_assert((int)RI_LANE_LOCAL == (int)RI_TRANSPORT_LOCAL, "and mean the same");

static int post_step(struct ri_engine *engine, uint32_t step)
{
    const struct ri_program *program = engine->program;
    struct ri_transport *transport = program->transport;
    int err = program->prepare ? program->prepare(program->owner, step) : 0;

    for (uint32_t i = program->first_xfer[step]; i < program->first_xfer[step + 1] && !err; i++) {
        struct ri_xfer *xfer = &program->xfers[i];

        err = transport->ops->post(transport, &xfer, 1);
    }
    if (err)
        return err;
    engine->state[step] = RI_STEP_UNDER_WAY;
    engine->began_ns[step] = transport->trace ? ri_now_ns() : 0;
    engine->posted++;
    return 0;
}

/* What holds back the sends of a lane. */
struct hold {
    const struct ri_step *first; /* that is not ready; NULL: none */
    int closed;                  /* for the rest of the lane */
};

static int are_together(const struct ri_schedule *s, const struct ri_step *a,
                        const struct ri_step *b)
{
    return a->turn == b->turn &&
           s->slots[ri_step_moved(a)->slot].bundle == s->slots[ri_step_moved(b)->slot].bundle;
}

/* Asked of all sends of the lane in turn order that have not been posted. */
static int may_leave(const struct ri_schedule *s, const struct ri_step *send, int ready,
                     struct hold *hold)
{
    if (hold->first && !are_together(s, hold->first, send))
        hold->closed = 1;
    if (!ready && !hold->first)
        hold->first = send;
    return ready && !hold->closed;
}

/* Sends leave each lane in the order of turns, and in program order in one turn, but that those of
 * one bundle do not wait for each other: blocks that walk together arrive in any order.  A receive
 * is posted as soon as its memory is free, up to one turn ahead of the first turn of its lane that
 * is not complete: a slow lane holds back no other. */
int ri_engine_post(struct ri_engine *engine, int *acted)
{
    const struct ri_schedule *s = engine->schedule;
    struct hold holds[RI_LANES] = { { NULL, 0 } };
    int32_t horizon[RI_LANES] = { -1, -1 };
    uint32_t past = 0; /* bit l: nothing more of lane l may be posted */

    while (engine->first_transfer < engine->transfer_count &&
           engine->state[engine->transfers[engine->first_transfer]] == RI_STEP_DONE)
        engine->first_transfer++;
    for (uint32_t i = engine->first_transfer; i < engine->transfer_count && past != engine->lanes; i++) {
        uint32_t step = engine->transfers[i];
        const struct ri_step *t = &s->steps[step];
        int ready = engine->unmet[step] == 0, err;

        if (engine->state[step] == RI_STEP_DONE)
            continue;
        if (horizon[t->lane] < 0)
            horizon[t->lane] = t->turn + 1;
        if (t->turn > horizon[t->lane] && holds[t->lane].closed)
            past |= 1u << t->lane;
        if (engine->state[step] != RI_STEP_WAITING ||
            (t->op == RI_RECV && t->turn > horizon[t->lane]))
            continue;
        if (t->op == RI_SEND ? !may_leave(s, t, ready, &holds[t->lane]) : !ready)
            continue;
        err = post_step(engine, step);
        if (err)
            return err;
        *acted = 1;
    }
    return 0;
}

/* 1: all messages of the step have moved; 0: not yet; negative: one failed. */
static int messages_done(const struct ri_program *program, uint32_t step)
{
    for (uint32_t i = program->first_xfer[step]; i < program->first_xfer[step + 1]; i++) {
        if (program->xfers[i].state == RI_XFER_FAILED)
            return ri_error(program->xfers[i].status, "%s", program->xfers[i].why);
        if (program->xfers[i].state != RI_XFER_DONE)
            return 0;
    }
    return 1;
}

static void count_bytes(struct ri_engine *engine, uint32_t step)
{
    const struct ri_program *program = engine->program;
    struct ri_engine_stats *stats = &engine->stats;

    for (uint32_t i = program->first_xfer[step]; i < program->first_xfer[step + 1]; i++) {
        const struct ri_xfer *xfer = &program->xfers[i];

        if (xfer->send) {
            stats->sent_bytes[xfer->lane] += xfer->moved_bytes;
            stats->sent_kind[xfer->lane][xfer->kind % RI_XFER_KINDS] += xfer->moved_bytes;
        } else {
            stats->received_bytes[xfer->lane] += xfer->moved_bytes;
            stats->received_kind[xfer->lane][xfer->kind % RI_XFER_KINDS] += xfer->moved_bytes;
            stats->bound_bytes += xfer->bind ? ri_xfer_bytes(xfer) : 0;
        }
    }
}

/* 1: the step is over; 0: not yet; negative: it failed. */
static int collect_step(struct ri_engine *engine, uint32_t step)
{
    const struct ri_program *program = engine->program;
    int done = messages_done(program, step);

    if (done && program->arrived) {
        int err = program->arrived(program->owner, step);

        if (err > 0)
            return 0;
        done = err ? err : done;
    }
    if (done <= 0)
        return done;
    count_bytes(engine, step);
    if (program->transport->trace)
        ri_engine_trace(engine, step, engine->began_ns[step], ri_now_ns());
    engine->posted--;
    ri_engine_finish_step(engine, step);
    return 1;
}

int ri_engine_collect(struct ri_engine *engine, int *acted)
{
    uint32_t left = engine->posted;

    for (uint32_t i = engine->first_transfer; left > 0 && i < engine->transfer_count; i++) {
        uint32_t step = engine->transfers[i];
        int done;

        if (engine->state[step] != RI_STEP_UNDER_WAY)
            continue;
        left--;
        done = collect_step(engine, step);
        if (done < 0)
            return done;
        if (done)
            *acted = 1;
    }
    return 0;
}
