/* SPDX-License-Identifier: Apache-2.0 */
/* Runs any program: counters of unmet dependencies, messages posted turn by turn (transfers.c), work
 * in program order (work.c).  Messages move between two pieces of work, so that a long kernel does not
 * starve them. */
#include "engine/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/status.h"

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
        for (uint32_t d = s->steps[i].first_dep; d < s->steps[i].first_dep + s->steps[i].deps; d++) {
            uint32_t user = engine->unmet[s->deps[d]]++;

            engine->users[user] = i;
            engine->user_dep[user] = d;
        }
}

static void list_steps(struct ri_engine *engine)
{
    const struct ri_schedule *s = engine->schedule;

    for (uint32_t turn = 0; turn < s->turns; turn++)
        for (uint32_t i = 0; i < s->step_count; i++)
            if (ri_step_moves(&s->steps[i]) && s->steps[i].turn == (int32_t)turn) {
                engine->transfers[engine->transfer_count++] = i;
                engine->lanes |= 1u << s->steps[i].lane;
            }
    for (uint32_t i = 0; i < s->step_count; i++)
        if (!ri_step_moves(&s->steps[i]))
            engine->works[engine->work_count++] = i;
}

/* Memory of `bytes`, zero; NULL is told at the end, by *missing. */
static void *array(size_t count, size_t bytes, int *missing)
{
    void *memory = calloc(count + 1, bytes); /* never 0 bytes */

    if (!memory)
        *missing = 1;
    return memory;
}

static int allocate(struct ri_engine *engine)
{
    size_t steps = engine->schedule->step_count, deps = engine->schedule->dep_count;
    int missing = 0;

    engine->first_user = array(steps, sizeof(uint32_t), &missing);
    engine->users = array(deps, sizeof(uint32_t), &missing);
    engine->user_dep = array(deps, sizeof(uint32_t), &missing);
    engine->unmet = array(steps, sizeof(uint32_t), &missing);
    engine->begun = array(steps, sizeof(uint32_t), &missing);
    engine->ended = array(steps, sizeof(uint32_t), &missing);
    engine->state = array(steps, 1, &missing);
    engine->began_ns = array(steps, sizeof(int64_t), &missing);
    engine->transfers = array(steps, sizeof(uint32_t), &missing);
    engine->works = array(steps, sizeof(uint32_t), &missing);
    engine->dep_reads = array(deps, 1, &missing);
    engine->user_waits = array(deps, 1, &missing);
    engine->reads = array(steps, sizeof(uint32_t), &missing);
    engine->reads_left = array(steps, sizeof(uint32_t), &missing);
    engine->waits = array(steps, sizeof(uint32_t), &missing);
    engine->lent = array(steps, 1, &missing);
    return missing ? ri_error(RONDO_ERR_MEMORY, "out of memory for an engine of %zu steps", steps) : 0;
}

size_t ri_engine_bytes(const struct ri_schedule *schedule)
{
    size_t steps = (size_t)schedule->step_count + 1, deps = (size_t)schedule->dep_count + 1;

    return sizeof(struct ri_engine) + steps * (9 * sizeof(uint32_t) + sizeof(int64_t) + 2) +
           deps * (2 * sizeof(uint32_t) + 2);
}

int ri_engine_create(const struct ri_schedule *schedule, struct ri_engine **engine_p)
{
    struct ri_engine *engine = calloc(1, sizeof(*engine));
    int err;

    if (!engine)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for an engine");
    engine->schedule = schedule;
    err = allocate(engine);
    if (err) {
        ri_engine_destroy(engine);
        return err;
    }
    list_users(engine);
    list_steps(engine);
    ri_engine_find_bindings(engine);
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
    free(engine->user_dep);
    free(engine->unmet);
    free(engine->begun);
    free(engine->ended);
    free(engine->state);
    free(engine->began_ns);
    free(engine->transfers);
    free(engine->works);
    free(engine->dep_reads);
    free(engine->user_waits);
    free(engine->reads);
    free(engine->reads_left);
    free(engine->waits);
    free(engine->lent);
    free(engine);
}

/* ---- the clocks ---- */

void ri_engine_charge(struct ri_engine *engine, int computing)
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

/* How much of deps[d] each unit of its user needs; NULL: all of it. */
static const uint32_t *needs(const struct ri_engine *engine, uint32_t d)
{
    return engine->program->need ? engine->program->need[d] : NULL;
}

void ri_engine_finish_step(struct ri_engine *engine, uint32_t step)
{
    engine->state[step] = RI_STEP_DONE;
    engine->done++;
    for (uint32_t i = engine->first_user[step]; i < engine->first_user[step + 1]; i++)
        if (!needs(engine, engine->user_dep[i]))
            engine->unmet[engine->users[i]]--;
    ri_engine_finish_bindings(engine, step);
}

int ri_engine_is_ready(const struct ri_engine *engine, uint32_t step, uint32_t unit)
{
    const struct ri_step *it = &engine->schedule->steps[step];

    if (engine->unmet[step] > 0)
        return 0;
    for (uint32_t d = it->first_dep; engine->program->need && d < it->first_dep + it->deps; d++) {
        const uint32_t *need = needs(engine, d);

        if (need && engine->ended[engine->schedule->deps[d]] < need[unit])
            return 0;
    }
    return 1;
}


/* ---- a run ---- */

static void forget_run(struct ri_engine *engine)
{
    ri_engine_charge(engine, 0);
    engine->program = NULL;
    engine->posted = 0;
    engine->failed = 0;
}

enum { GIVE_UP_MAX = 64 }; /* messages a call: a transport may take its time once for each */

/* Afterwards nothing is posted, and nothing is read that is not ours. */
static void give_up(struct ri_engine *engine)
{
    const struct ri_program *program = engine->program;
    struct ri_xfer *posted[GIVE_UP_MAX];
    int n = 0;

    for (uint32_t i = 0; i < program->first_xfer[engine->schedule->step_count]; i++) {
        if (program->xfers[i].state == RI_XFER_POSTED)
            posted[n++] = &program->xfers[i];
        if (n < GIVE_UP_MAX)
            continue;
        program->transport->ops->cancel(program->transport, posted, n);
        n = 0;
    }
    program->transport->ops->cancel(program->transport, posted, n);
    ri_engine_release_all(engine);
}

/* Cancelling may see other messages fail, and their texts must not stand for the cause.  The readers of
 * our memory should hear of the cause first, so ri_engine_stop takes it back, and not this. */
static int fail(struct ri_engine *engine, int status)
{
    char cause[512];

    snprintf(cause, sizeof(cause), "%s", rondo_last_error());
    give_up(engine);
    engine->failed = status;
    return ri_error(status, "%s", cause);
}

int ri_engine_start(struct ri_engine *engine, const struct ri_program *program)
{
    const struct ri_schedule *s = engine->schedule;
    int acted = 0, err;

    if (engine->failed)
        ri_engine_cancel(engine);
    if (engine->program)
        return ri_error(RONDO_ERR_BUSY, "a run of schedule %s is still under way", s->name);
    engine->program = program;
    for (uint32_t i = 0; i < s->step_count; i++) {
        engine->unmet[i] = engine->begun[i] = engine->ended[i] = 0;
        for (uint32_t d = s->steps[i].first_dep; d < s->steps[i].first_dep + s->steps[i].deps; d++)
            engine->unmet[i] += !needs(engine, d);
    }
    memset(engine->state, RI_STEP_WAITING, s->step_count);
    for (uint32_t i = 0; i < program->first_xfer[s->step_count]; i++)
        program->xfers[i].state = RI_XFER_IDLE;
    ri_engine_start_bindings(engine);
    engine->first_transfer = engine->first_work = 0;
    engine->posted = engine->done = 0;
    engine->spoilt = 0;
    engine->last_ns = ri_now_ns();
    err = ri_engine_post(engine, &acted);
    return err ? fail(engine, err) : 0;
}

static int move(struct ri_engine *engine, int *acted)
{
    int err = engine->program->transport->ops->progress(engine->program->transport);

    if (err < 0)
        return err;
    ri_engine_charge(engine, engine->is_inside);
    err = ri_engine_collect(engine, acted);
    if (!err)
        ri_engine_look_at_readers(engine, acted);
    return err ? err : ri_engine_post(engine, acted);
}

/* From inside a piece of work.  Merges and copies go on beside it; a failure waits for its end, for it may
 * read in place what would be let go. */
static int move_inside(struct ri_engine *engine, int *acted)
{
    int compute = 0, err = engine->spoilt;

    if (!err)
        err = move(engine, acted);
    if (!err)
        err = ri_engine_work(engine, &compute, acted);
    engine->spoilt = err;
    return err;
}

/* Others need nothing of this rank any more: neither its memory, nor that it moves messages on. */
static int is_over(const struct ri_engine *engine)
{
    struct ri_transport *transport = engine->program->transport;

    return engine->done == engine->schedule->step_count && engine->lent_count == 0 &&
           (!transport->ops->settled || transport->ops->settled(transport));
}

int ri_engine_progress(struct ri_engine *engine, int *computes, int *idle)
{
    int compute = !computes || *computes, acted = 0, err;

    *idle = 0;
    if (computes)
        *computes = 0;
    if (!engine->program)
        return 1;
    if (engine->failed)
        return ri_error(engine->failed, "the run of schedule %s has failed", engine->schedule->name);
    if (engine->is_inside) {
        err = move_inside(engine, &acted);
        *idle = !acted;
        return err;
    }
    err = move(engine, &acted);
    if (!err)
        err = ri_engine_work(engine, &compute, &acted);
    if (err)
        return fail(engine, err);
    if (computes)
        *computes = compute;
    if (is_over(engine)) {
        forget_run(engine);
        return 1;
    }
    *idle = !acted;
    return 0;
}

int ri_engine_stop(struct ri_engine *engine, int64_t deadline_ns)
{
    if (!engine->program)
        return 1;
    give_up(engine);
    ri_engine_revoke(engine);
    if (ri_engine_is_read(engine) && ri_now_ns() < deadline_ns)
        return 0;
    forget_run(engine);
    return 1;
}

void ri_engine_cancel(struct ri_engine *engine)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    int64_t deadline_ns = ri_now_ns() + RI_ENGINE_READERS_NS;

    while (!ri_engine_stop(engine, deadline_ns))
        nanosleep(&pause, NULL);
}

void ri_engine_where(const struct ri_engine *engine, char *text, size_t bytes, int *peer)
{
    const struct ri_schedule *s = engine->schedule;

    *peer = -1;
    snprintf(text, bytes, "%s: done, but others still read %u of its blocks", s->name, engine->lent_count);
    if (!engine->lent_count)
        snprintf(text, bytes, "%s: done, but the last of its messages have not left", s->name);
    for (uint32_t i = 0; i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];
        const struct ri_operand *operand = ri_step_moved(step);

        if (engine->state[i] == RI_STEP_DONE)
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
