/* SPDX-License-Identifier: Apache-2.0 */
/* Runs any program: counters of unmet dependencies, messages posted turn by turn, work in program
 * order.  Messages move between two pieces of work, so that a long kernel does not starve them. */
#include "engine/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"

_Static_assert((int)RI_LANES == (int)RI_TRANSPORT_LANES, "lanes of schedules are those of transports");

enum step_state { WAITING, UNDER_WAY, DONE };

struct ri_engine {
    const struct ri_schedule *schedule;
    const struct ri_program *program; /* NULL: no run is under way */
    uint32_t *first_user;             /* [step_count + 1] users[first_user[s]..]: steps that wait for s */
    uint32_t *users;                  /* [dep_count] */
    uint32_t *unmet;                  /* [step_count] */
    uint8_t *state;                   /* [step_count] enum step_state */
    uint32_t *transfers;              /* [transfer_count] SEND and RECV steps by turn, then by program order */
    uint32_t *works;                  /* [work_count] the other steps, in program order */
    uint32_t transfer_count, work_count;
    uint32_t first_transfer, first_work; /* all before are DONE */
    uint32_t posted, done;            /* transfer steps UNDER_WAY; steps DONE */
    int64_t current;                  /* the work step whose pieces are being run, or -1 */
    uint32_t next_piece;
    int64_t last_ns;                  /* up to when the clocks below are charged */
    struct ri_engine_stats stats;
};

/* ---- making ---- */

static void list_users(struct ri_engine *engine)
{
    const struct ri_schedule *s = engine->schedule;

    for (uint32_t i = 0; i < s->dep_count; i++)
        engine->first_user[s->deps[i] + 1]++;
    for (uint32_t i = 0; i < s->step_count; i++)
        engine->first_user[i + 1] += engine->first_user[i];
    memcpy(engine->unmet, engine->first_user, s->step_count * sizeof(uint32_t)); /* fill cursors */
    for (uint32_t i = 0; i < s->step_count; i++)
        for (uint32_t d = 0; d < s->steps[i].deps; d++)
            engine->users[engine->unmet[s->deps[s->steps[i].first_dep + d]]++] = i;
}

static void list_steps(struct ri_engine *engine)
{
    const struct ri_schedule *s = engine->schedule;

    for (uint32_t turn = 0; turn < s->turns; turn++)
        for (uint32_t i = 0; i < s->step_count; i++)
            if (ri_step_moves(&s->steps[i]) && s->steps[i].turn == (int32_t)turn)
                engine->transfers[engine->transfer_count++] = i;
    for (uint32_t i = 0; i < s->step_count; i++)
        if (!ri_step_moves(&s->steps[i]))
            engine->works[engine->work_count++] = i;
}

int ri_engine_create(const struct ri_schedule *schedule, struct ri_engine **engine_p)
{
    struct ri_engine *engine = calloc(1, sizeof(*engine));
    size_t steps = (size_t)schedule->step_count + 1; /* never 0 bytes */

    if (!engine)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for an engine");
    engine->schedule = schedule;
    engine->first_user = calloc(steps, sizeof(uint32_t));
    engine->users = calloc((size_t)schedule->dep_count + 1, sizeof(uint32_t));
    engine->unmet = calloc(steps, sizeof(uint32_t));
    engine->state = calloc(steps, 1);
    engine->transfers = calloc(steps, sizeof(uint32_t));
    engine->works = calloc(steps, sizeof(uint32_t));
    if (!engine->first_user || !engine->users || !engine->unmet || !engine->state ||
        !engine->transfers || !engine->works) {
        ri_engine_destroy(engine);
        return ri_error(RONDO_ERR_MEMORY, "out of memory for an engine of %u steps",
                        schedule->step_count);
    }
    list_users(engine);
    list_steps(engine);
    *engine_p = engine;
    return 0;
}

void ri_engine_destroy(struct ri_engine *engine)
{
    if (!engine)
        return;
    ri_engine_cancel(engine);
    free(engine->first_user);
    free(engine->users);
    free(engine->unmet);
    free(engine->state);
    free(engine->transfers);
    free(engine->works);
    free(engine);
}

/* ---- the clocks ---- */

/* Charges the time since the last call; computing: it was spent in a piece of work. */
static void charge(struct ri_engine *engine, int computing)
{
    int64_t now = ri_now_ns();
    double seconds = (double)(now - engine->last_ns) * 1e-9;

    if (computing)
        engine->stats.compute_seconds += seconds;
    if (engine->posted > 0) {
        engine->stats.move_seconds += seconds;
        if (!computing)
            engine->stats.exposed_seconds += seconds;
    }
    engine->last_ns = now;
}

/* ---- steps ---- */

static void finish_step(struct ri_engine *engine, uint32_t step)
{
    engine->state[step] = DONE;
    engine->done++;
    for (uint32_t i = engine->first_user[step]; i < engine->first_user[step + 1]; i++)
        engine->unmet[engine->users[i]]--;
}

static int post_step(struct ri_engine *engine, uint32_t step)
{
    const struct ri_program *program = engine->program;
    struct ri_transport *transport = program->transport;

    for (uint32_t i = program->first_xfer[step]; i < program->first_xfer[step + 1]; i++) {
        struct ri_xfer *xfer = &program->xfers[i];
        int err = transport->ops->post(transport, &xfer, 1);

        if (err)
            return err;
    }
    engine->state[step] = UNDER_WAY;
    engine->posted++;
    return 0;
}

/* Posts what may be posted.  Sends leave each lane in the order of turns; a receive is posted as soon
 * as its memory is free, up to one turn ahead of the first turn that is not complete. */
static int post_ready(struct ri_engine *engine, int *acted)
{
    const struct ri_schedule *s = engine->schedule;
    int lane_held[RI_LANES] = { 0 };
    int32_t horizon;

    while (engine->first_transfer < engine->transfer_count &&
           engine->state[engine->transfers[engine->first_transfer]] == DONE)
        engine->first_transfer++;
    if (engine->first_transfer == engine->transfer_count)
        return 0;
    horizon = s->steps[engine->transfers[engine->first_transfer]].turn + 1;
    for (uint32_t i = engine->first_transfer; i < engine->transfer_count; i++) {
        uint32_t step = engine->transfers[i];
        const struct ri_step *t = &s->steps[step];
        int err;

        if (t->turn > horizon)
            break;
        if (engine->state[step] != WAITING)
            continue;
        if (engine->unmet[step] > 0 || (t->op == RI_SEND && lane_held[t->lane])) {
            if (t->op == RI_SEND)
                lane_held[t->lane] = 1;
            continue;
        }
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

    for (uint32_t i = program->first_xfer[step]; i < program->first_xfer[step + 1]; i++) {
        const struct ri_xfer *xfer = &program->xfers[i];
        uint64_t *bytes = xfer->send ? engine->stats.sent_bytes : engine->stats.received_bytes;

        bytes[xfer->lane] += xfer->moved_bytes;
    }
}

static int collect(struct ri_engine *engine, int *acted)
{
    uint32_t left = engine->posted;

    for (uint32_t i = engine->first_transfer; left > 0 && i < engine->transfer_count; i++) {
        uint32_t step = engine->transfers[i];
        int done;

        if (engine->state[step] != UNDER_WAY)
            continue;
        left--;
        done = messages_done(engine->program, step);
        if (done < 0)
            return done;
        if (done) {
            count_bytes(engine, step);
            engine->posted--;
            finish_step(engine, step);
            *acted = 1;
        }
    }
    return 0;
}

/* The first work step that is ready, in program order.  A COMPUTE that waits may be passed; a MERGE
 * that waits may not, so that accumulated chains are not delayed by a kernel. */
static int64_t choose_work(struct ri_engine *engine)
{
    while (engine->first_work < engine->work_count &&
           engine->state[engine->works[engine->first_work]] == DONE)
        engine->first_work++;
    for (uint32_t i = engine->first_work; i < engine->work_count; i++) {
        uint32_t step = engine->works[i];

        if (engine->state[step] != WAITING)
            continue;
        if (engine->unmet[step] == 0)
            return step;
        if (engine->schedule->steps[step].op == RI_MERGE)
            return -1;
    }
    return -1;
}

/* Runs one piece, if a work step is ready. */
static int work(struct ri_engine *engine, int *acted)
{
    const struct ri_program *program = engine->program;

    if (engine->current < 0) {
        engine->current = choose_work(engine);
        engine->next_piece = 0;
        if (engine->current < 0)
            return 0;
        engine->state[engine->current] = UNDER_WAY;
    }
    if (engine->next_piece < program->pieces[engine->current]) {
        int err;

        charge(engine, 0);
        err = program->run(program->owner, (uint32_t)engine->current, engine->next_piece++);
        charge(engine, 1);
        if (err)
            return err;
    }
    if (engine->next_piece >= program->pieces[engine->current]) {
        finish_step(engine, (uint32_t)engine->current);
        engine->current = -1;
    }
    *acted = 1;
    return 0;
}

/* ---- a run ---- */

static void forget_run(struct ri_engine *engine)
{
    charge(engine, 0);
    engine->program = NULL;
    engine->posted = 0;
}

/* Cancelling may see other messages fail, and their texts must not stand for the cause. */
static int fail(struct ri_engine *engine, int status)
{
    char cause[512];

    snprintf(cause, sizeof(cause), "%s", rondo_last_error());
    ri_engine_cancel(engine);
    return ri_error(status, "%s", cause);
}

int ri_engine_start(struct ri_engine *engine, const struct ri_program *program)
{
    const struct ri_schedule *s = engine->schedule;
    int acted = 0, err;

    if (engine->program)
        return ri_error(RONDO_ERR_BUSY, "a run of schedule %s is still under way", s->name);
    engine->program = program;
    for (uint32_t i = 0; i < s->step_count; i++)
        engine->unmet[i] = s->steps[i].deps;
    memset(engine->state, WAITING, s->step_count);
    for (uint32_t i = 0; i < program->first_xfer[s->step_count]; i++)
        program->xfers[i].state = RI_XFER_IDLE;
    engine->first_transfer = engine->first_work = 0;
    engine->posted = engine->done = 0;
    engine->current = -1;
    engine->last_ns = ri_now_ns();
    err = post_ready(engine, &acted);
    return err ? fail(engine, err) : 0;
}

int ri_engine_progress(struct ri_engine *engine, int *idle)
{
    int acted = 0, err;

    *idle = 0;
    if (!engine->program)
        return 1;
    err = engine->program->transport->ops->progress(engine->program->transport);
    if (err < 0)
        return fail(engine, err);
    charge(engine, 0);
    err = collect(engine, &acted);
    if (!err)
        err = post_ready(engine, &acted);
    if (!err)
        err = work(engine, &acted);
    if (err)
        return fail(engine, err);
    if (engine->done == engine->schedule->step_count) {
        forget_run(engine);
        return 1;
    }
    *idle = !acted;
    return 0;
}

void ri_engine_cancel(struct ri_engine *engine)
{
    const struct ri_program *program = engine->program;

    if (!program)
        return;
    for (uint32_t i = 0; i < program->first_xfer[engine->schedule->step_count]; i++) {
        struct ri_xfer *xfer = &program->xfers[i];

        if (xfer->state == RI_XFER_POSTED)
            program->transport->ops->cancel(program->transport, &xfer, 1);
    }
    forget_run(engine);
}

void ri_engine_where(const struct ri_engine *engine, char *text, size_t bytes, int *peer)
{
    const struct ri_schedule *s = engine->schedule;

    *peer = -1;
    snprintf(text, bytes, "%s: done", s->name);
    for (uint32_t i = 0; i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];
        const struct ri_operand *operand = ri_step_moved(step);

        if (engine->state[i] == DONE)
            continue;
        if (ri_step_moves(step)) {
            *peer = step->peer;
            snprintf(text, bytes, "%s step %u of %u: %s %s%d %s rank %d", s->name, i, s->step_count,
                     ri_op_names[step->op], ri_bundle_names[s->slots[operand->slot].bundle], operand->block,
                     step->op == RI_SEND ? "to" : "from", step->peer);
            return;
        }
        if (engine->unmet[i] == 0) {
            snprintf(text, bytes, "%s step %u of %u: %s", s->name, i, s->step_count, ri_op_names[step->op]);
            return;
        }
    }
}

const struct ri_engine_stats *ri_engine_stats(const struct ri_engine *engine)
{
    return &engine->stats;
}
