/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine did, for the trace. */
#include "base/trace.h"

#include <stdio.h>
#include <string.h>

#include "engine/private.h"

_Static_assert(RI_TRACE_LOCAL_OUT + 2 * RI_LANE_HOST == RI_TRACE_HOST_OUT, "rows are by lane");

/* Appends " K3", or " K3.1" when it is not the whole block. */
static void name_operand(const struct ri_schedule *s, const struct ri_operand *operand, char *name,
                         size_t bytes)
{
    int used = (int)strlen(name);

    if (operand->slot < 0)
        return;
    used += snprintf(name + used, bytes - (size_t)used, " %s%d",
                     ri_bundle_names[s->slots[operand->slot].bundle], operand->block);
    if (operand->parts < s->head_parts * s->token_parts && (size_t)used < bytes)
        snprintf(name + used, bytes - (size_t)used, ".%d", operand->first_part);
}

static void fill_transfer(const struct ri_engine *engine, uint32_t step, struct ri_trace_event *event)
{
    const struct ri_program *program = engine->program;
    const struct ri_step *it = &engine->schedule->steps[step];

    event->row = RI_TRACE_LOCAL_OUT + 2 * it->lane + (it->op == RI_RECV);
    event->peer = it->peer;
    event->bytes = 0;
    for (uint32_t i = program->first_xfer[step]; i < program->first_xfer[step + 1]; i++) {
        if (program->untold_kinds >> program->xfers[i].kind % RI_XFER_KINDS & 1)
            continue;
        event->bytes += (int64_t)ri_xfer_bytes(&program->xfers[i]);
        event->bound |= program->xfers[i].bind;
    }
}

void ri_engine_trace(const struct ri_engine *engine, uint32_t step, int64_t start_ns, int64_t end_ns)
{
    const struct ri_schedule *s = engine->schedule;
    const struct ri_step *it = &s->steps[step];
    struct ri_trace_event event = { .start_ns = start_ns, .end_ns = end_ns, .asked_ns = start_ns,
                                    .bytes = -1, .rank = s->rank, .row = RI_TRACE_WORK,
                                    .step = (int32_t)step, .peer = -1 };

    snprintf(event.name, sizeof(event.name), "%s", ri_op_names[it->op]);
    name_operand(s, ri_step_moves(it) ? ri_step_moved(it) : &it->from[0], event.name, sizeof(event.name));
    if (it->op == RI_COMPUTE)
        name_operand(s, &it->from[1], event.name, sizeof(event.name));
    if (ri_step_moves(it))
        fill_transfer(engine, step, &event);
    ri_trace_add(engine->program->transport->trace, &event);
}
