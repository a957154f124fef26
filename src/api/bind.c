/* SPDX-License-Identifier: Apache-2.0 */
/* Fitting a plan to a batch. */
#include <rondo/attention.h>

#include "api/plan.h"
#include "base/status.h"

static int bind_locked(struct ri_plan *plan, int64_t tokens)
{
    if (tokens < 1 || tokens > plan->longest_layout)
        return ri_error(RONDO_ERR_ARGUMENT, "tokens is %lld, and the plan was made for 1 to %lld; make a "
                        "plan for the longest batch", (long long)tokens,
                        (long long)plan->longest_layout);
    if (ri_plan_is_busy(plan))
        return ri_error(RONDO_ERR_BUSY, "bind refused: a start of the plan is under way; wait for its "
                        "request first");
    return ri_plan_bind(plan, tokens);
}

rondo_status_t rondo_plan_bind(rondo_plan_t plan, int64_t tokens, const int64_t *cu_seqlens,
                               int documents)
{
    int err;

    if (!plan)
        return ri_error(RONDO_ERR_ARGUMENT, "plan is NULL");
    if (cu_seqlens || documents != 0)
        return ri_error(RONDO_ERR_UNSUPPORTED, "%s: packed documents are not built yet; give NULL and 0",
                        cu_seqlens ? "cu_seqlens is given" : "documents is not 0");
    err = ri_comm_enter(plan->comm);
    if (err)
        return err;
    err = ri_request_check(NULL, plan->comm, "bind");
    return ri_comm_leave(plan->comm, err ? err : bind_locked(plan->plan, tokens));
}
