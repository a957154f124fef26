/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of transfer steps: posted turn by turn on each lane, collected when they have moved. */
#include "base/clock.h"
#include "base/status.h"
#include "engine/private.h"

_Static_assert((int)RI_LANES == (int)RI_TRANSPORT_LANES, "lanes of schedules are those of transports");
_Static_assert((int)RI_LANE_LOCAL == (int)RI_TRANSPORT_LOCAL, "and mean the same");

/* Messages of a chunk of a transfer step. */
struct span {
    uint32_t first, end;
};

static uint32_t chunk_count(const struct ri_program *program, uint32_t step)
{
    return program->first_chunk ? program->first_chunk[step + 1] - program->first_chunk[step] : 1;
}

static struct span chunk_of(const struct ri_program *program, uint32_t step, uint32_t chunk)
{
    const uint32_t *ends;

    if (!program->first_chunk)
        return (struct span){ program->first_xfer[step], program->first_xfer[step + 1] };
    ends = program->chunk_end + program->first_chunk[step];
    return (struct span){ chunk ? ends[chunk - 1] : program->first_xfer[step], ends[chunk] };
}

/* Right before its first chunk is posted. */
static int begin_step(struct ri_engine *engine, uint32_t step)
{
    const struct ri_program *program = engine->program;
    int err = program->prepare ? program->prepare(program->owner, step) : 0;

    if (err)
        return err;
    engine->state[step] = RI_STEP_UNDER_WAY;
    engine->began_ns[step] = program->transport->trace ? ri_now_ns() : 0;
    return 0;
}

/* Posts chunk after chunk, as far as they are ready. */
static int post_chunks(struct ri_engine *engine, uint32_t step, int *acted)
{
    struct ri_transport *transport = engine->program->transport;
    uint32_t chunks = chunk_count(engine->program, step);
    int err = 0;

    while (!err && engine->begun[step] < chunks && ri_engine_is_ready(engine, step, engine->begun[step])) {
        struct span span = chunk_of(engine->program, step, engine->begun[step]);

        if (engine->begun[step] == 0)
            err = begin_step(engine, step);
        if (!err && engine->program->leaving)
            err = engine->program->leaving(engine->program->owner, step, span.first, span.end);
        for (uint32_t i = span.first; !err && i < span.end; i++) {
            struct ri_xfer *xfer = &engine->program->xfers[i];

            if (xfer->state == RI_XFER_IDLE)
                err = transport->ops->post(transport, &xfer, 1);
        }
        engine->posted += engine->begun[step] == engine->ended[step];
        engine->begun[step]++;
        *acted = 1;
    }
    return err;
}

/* What holds back the sends of a lane. */
struct hold {
    const struct ri_step *first; /* that is not ready, or in a chunk of it; NULL: none */
    int closed;                  /* for the rest of the lane */
};

static int are_together(const struct ri_schedule *s, const struct ri_step *a,
                        const struct ri_step *b)
{
    return a->turn == b->turn &&
           s->slots[ri_step_moved(a)->slot].bundle == s->slots[ri_step_moved(b)->slot].bundle;
}

/* Asked of all sends of the lane in turn order that have not been posted to their end. */
static int post_send(struct ri_engine *engine, uint32_t step, struct hold *hold, int *acted)
{
    const struct ri_step *send = &engine->schedule->steps[step];
    int err = 0;

    if (hold->first && !are_together(engine->schedule, hold->first, send))
        hold->closed = 1;
    if (!hold->closed)
        err = post_chunks(engine, step, acted);
    if (engine->begun[step] < chunk_count(engine->program, step) && !hold->first)
        hold->first = send;
    return err;
}

/* Sends leave each lane in the order of turns, and in program order in one turn, but that those of
 * one bundle do not wait for each other: blocks that walk together arrive in any order.  A send leaves
 * chunk by chunk, and the next one waits until all of it has been posted.  A receive
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
        int err;

        if (engine->state[step] == RI_STEP_DONE)
            continue;
        if (horizon[t->lane] < 0)
            horizon[t->lane] = t->turn + 1;
        if (t->turn > horizon[t->lane] && holds[t->lane].closed)
            past |= 1u << t->lane;
        if (engine->begun[step] == chunk_count(engine->program, step) ||
            (t->op == RI_RECV && t->turn > horizon[t->lane]))
            continue;
        err = t->op == RI_SEND ? post_send(engine, step, &holds[t->lane], acted)
                               : post_chunks(engine, step, acted);
        if (err)
            return err;
    }
    return 0;
}

/* 1: all these messages have moved; 0: not yet; negative: one failed. */
static int messages_done(const struct ri_program *program, const struct span *span)
{
    for (uint32_t i = span->first; i < span->end; i++) {
        if (program->xfers[i].state == RI_XFER_FAILED)
            return ri_error(program->xfers[i].status, "%s", program->xfers[i].why);
        if (program->xfers[i].state != RI_XFER_DONE)
            return 0;
    }
    return 1;
}

static void count_bytes(struct ri_engine *engine, const struct span *span)
{
    const struct ri_program *program = engine->program;
    struct ri_engine_stats *stats = &engine->stats;

    for (uint32_t i = span->first; i < span->end; i++) {
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

/* 1: the next chunk is over; 0: not yet; negative: it failed. */
static int collect_chunk(struct ri_engine *engine, uint32_t step)
{
    const struct ri_program *program = engine->program;
    struct span span = chunk_of(program, step, engine->ended[step]);
    int done = messages_done(program, &span);

    if (done && program->arrived) {
        int err = program->arrived(program->owner, step, span.first, span.end);

        if (err > 0)
            return 0;
        done = err ? err : done;
    }
    if (done <= 0)
        return done;
    count_bytes(engine, &span);
    engine->ended[step]++;
    return 1;
}

/* Chunks that came before one that is still under way wait for it. */
static int collect_step(struct ri_engine *engine, uint32_t step, int *acted)
{
    int done = 1;

    while (done > 0 && engine->ended[step] < engine->begun[step]) {
        done = collect_chunk(engine, step);
        if (done > 0)
            *acted = 1;
    }
    if (done < 0)
        return done;
    engine->posted -= engine->ended[step] == engine->begun[step];
    if (engine->ended[step] < chunk_count(engine->program, step))
        return 0;
    if (engine->program->transport->trace)
        ri_engine_trace(engine, step, engine->began_ns[step], ri_now_ns());
    ri_engine_finish_step(engine, step);
    return 0;
}

int ri_engine_collect(struct ri_engine *engine, int *acted)
{
    uint32_t left = engine->posted;

    for (uint32_t i = engine->first_transfer; left > 0 && i < engine->transfer_count; i++) {
        uint32_t step = engine->transfers[i];
        int err;

        if (engine->state[step] != RI_STEP_UNDER_WAY || engine->ended[step] == engine->begun[step])
            continue;
        left--;
        err = collect_step(engine, step, acted);
        if (err)
            return err;
    }
    return 0;
}
