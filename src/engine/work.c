/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of work: which is next. */
#include "engine/private.h"

static int is_next_ready(const struct ri_engine *engine, uint32_t step)
{
    return ri_engine_is_ready(engine, step, engine->ended[step]);
}

/* Beside a COMPUTE in its middle: a MERGE right after it that may take what the COMPUTE has finished.  It
 * is short, and a chunk of the sum can leave. */
static uint32_t prefer_merge(const struct ri_engine *engine, uint32_t at)
{
    uint32_t compute = engine->works[at];

    for (uint32_t i = at + 1; engine->ended[compute] > 0 && i < engine->work_count; i++) {
        uint32_t step = engine->works[i];

        if (engine->schedule->steps[step].op != RI_MERGE)
            break;
        if (engine->state[step] == RI_STEP_DONE)
            continue;
        if (is_next_ready(engine, step))
            return step;
        break;
    }
    return compute;
}

/* The first step in program order whose next piece is ready.  A COMPUTE that waits, or may not run, may be
 * passed, also in its middle; a MERGE that waits may not, so that accumulated chains are not delayed by a
 * kernel. */
static int64_t choose_work(struct ri_engine *engine, int may_compute)
{
    while (engine->first_work < engine->work_count &&
           engine->state[engine->works[engine->first_work]] == RI_STEP_DONE)
        engine->first_work++;
    for (uint32_t i = engine->first_work; i < engine->work_count; i++) {
        uint32_t step = engine->works[i];
        int op = engine->schedule->steps[step].op;

        if (engine->state[step] == RI_STEP_DONE)
            continue;
        if (op == RI_COMPUTE && !may_compute)
            continue;
        if (is_next_ready(engine, step))
            return op == RI_COMPUTE ? prefer_merge(engine, i) : step;
        if (op == RI_MERGE)
            return -1;
    }
    return -1;
}

static int run_piece(struct ri_engine *engine, uint32_t step)
{
    const struct ri_program *program = engine->program;
    int err = ri_engine_enter(engine, step), taken_back, was_inside = engine->is_inside;
    int64_t start_ns;

    if (err)
        return err;
    ri_engine_charge(engine, 0);
    start_ns = engine->last_ns;
    engine->is_inside = 1;
    err = program->run(program->owner, step, engine->ended[step]);
    engine->is_inside = was_inside;
    engine->ended[step]++;
    ri_engine_charge(engine, 1);
    taken_back = ri_engine_leave(engine, step);
    err = engine->spoilt ? engine->spoilt : err;
    err = err ? err : taken_back; /* what it has computed may be of no content */
    if (!err && program->transport->trace)
        ri_engine_trace(engine, step, start_ns, engine->last_ns);
    return err;
}

int ri_engine_work(struct ri_engine *engine, int *computes, int *acted)
{
    int64_t chosen = choose_work(engine, *computes);
    uint32_t step = (uint32_t)chosen;
    int err = 0;

    *computes = 0;
    if (chosen < 0)
        return 0;
    *computes = engine->schedule->steps[step].op == RI_COMPUTE;
    engine->state[step] = RI_STEP_UNDER_WAY;
    if (engine->ended[step] < engine->program->pieces[step])
        err = run_piece(engine, step);
    if (err)
        return err;
    if (engine->ended[step] >= engine->program->pieces[step])
        ri_engine_finish_step(engine, step);
    *acted = 1;
    return 0;
}
