/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan needs: of the communicator's pool, and for itself. */
#include "plan/plan.h"

/* Alike on all devices, so that what is asked for is what is allocated. */
static size_t whole_units(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

struct ri_need ri_plan_need(const struct ri_plan *plan)
{
    const rondo_kernel_t *kernel = &plan->kernel;
    struct ri_need need = { .arenas = plan->max_in_flight };

    for (int i = 0; i < RI_PASSES; i++)
        if (plan->pass[i].slots_bytes > need.arena_bytes)
            need.arena_bytes = plan->pass[i].slots_bytes;
    if (kernel->workspace_bytes)
        need.scratch_bytes[RI_WORKSPACE] = whole_units(kernel->workspace_bytes(kernel->context, &plan->shape));
    if (!(kernel->flags & RONDO_KERNEL_MERGES)) {
        need.scratch_bytes[RI_PARTIAL_O] =
            whole_units(ri_tensor_elements(&plan->desc, RI_T_O, plan->max_tokens[RI_QUERIES]) * sizeof(float));
        need.scratch_bytes[RI_PARTIAL_LSE] =
            whole_units(ri_tensor_bytes(&plan->desc, RI_T_LSE, plan->max_tokens[RI_QUERIES]));
    }
    return need;
}

/* A message that binds is under way until its content is let go, which may be at the end of the run; and
 * sends pile up when the peer is slow.  So it may be all of a pass. */
int ri_plan_messages(const struct ri_plan *plan)
{
    uint32_t most = 0;

    for (int i = 0; i < RI_PASSES; i++) {
        const struct ri_pass *pass = &plan->pass[i];

        if (pass->schedule && pass->first_message[pass->schedule->step_count] > most)
            most = pass->first_message[pass->schedule->step_count];
    }
    return plan->max_in_flight * (int)most;
}

/* ---- tables ---- */

static size_t schedule_bytes(const struct ri_schedule *s)
{
    return sizeof(*s) + (size_t)(s->blocks + s->ranks) * sizeof(int32_t) +
           s->slot_count * sizeof(*s->slots) + s->step_count * sizeof(*s->steps) +
           s->dep_count * sizeof(*s->deps);
}

static size_t pass_bytes(const struct ri_pass *pass)
{
    size_t steps = pass->schedule->step_count;

    return schedule_bytes(pass->schedule) +
           pass->tile_room * (sizeof(*pass->tiles) + sizeof(*pass->work)) +
           4 * steps * sizeof(uint32_t) +
           pass->schedule->slot_count * (sizeof(*pass->in_place) + sizeof(*pass->moved)) +
           pass->first_message[steps] * sizeof(*pass->messages) + pass->first_chunk[steps] * sizeof(uint32_t) +
           pass->schedule->dep_count * (sizeof(*pass->need) + sizeof(*pass->first_need)) +
           pass->need_room * sizeof(*pass->needs);
}

static size_t run_bytes(const struct ri_pass *pass)
{
    const struct ri_schedule *s = pass->schedule;

    return sizeof(struct ri_run) +
           s->slot_count * RI_TENSORS * (3 * sizeof(void *) + sizeof(struct ri_reference)) +
           pass->first_message[s->step_count] * sizeof(struct ri_xfer) +
           2 * (size_t)pass->plan->place.ranks * sizeof(struct ri_stamp) + ri_engine_bytes(s);
}

/* Who holds what, and sees whom; layouts have spares as large. */
static size_t sight_bytes(const struct ri_plan *plan)
{
    size_t bytes = ri_sight_bytes(&plan->sight) + ((size_t)plan->seen_room + 1) * sizeof(*plan->seen);

    for (int side = 0; side <= plan->is_cross; side++)
        bytes += 2 * ri_layout_bytes(plan->layout[side]);
    return bytes;
}

void ri_plan_memory(const struct ri_plan *plan, rondo_plan_memory_t *memory)
{
    struct ri_need need = ri_plan_need(plan);

    *memory = (rondo_plan_memory_t)RONDO_PLAN_MEMORY_INIT;
    memory->pool_bytes = (size_t)need.arenas * need.arena_bytes;
    for (int i = 0; i < RI_SCRATCH_USES; i++)
        memory->scratch_bytes += need.scratch_bytes[i];
    memory->table_bytes = sizeof(*plan) + sight_bytes(plan);
    if (plan->place.transport->ops->reserve)
        memory->table_bytes += (size_t)ri_plan_messages(plan) * plan->place.transport->message_bytes;
    for (int i = 0; i < RI_PASSES; i++) {
        const struct ri_pass *pass = &plan->pass[i];

        if (!pass->schedule)
            continue;
        memory->start_bytes[i] = pass->slots_bytes;
        memory->table_bytes += pass_bytes(pass) + (size_t)plan->max_in_flight * run_bytes(pass);
    }
}
