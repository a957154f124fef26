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
            whole_units(ri_tensor_bytes(&plan->desc, RI_T_O, plan->max_tokens));
        need.scratch_bytes[RI_PARTIAL_LSE] =
            whole_units(ri_tensor_bytes(&plan->desc, RI_T_LSE, plan->max_tokens));
    }
    return need;
}
