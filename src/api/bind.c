/* SPDX-License-Identifier: Apache-2.0 */
/* Fitting a plan to a batch. */
#include <rondo/attention.h>

#include "api/plan.h"
#include "base/status.h"

static int check_batch(const struct ri_plan *plan, enum ri_side side, const char *what, const struct ri_batch *batch)
{
    const struct rondo_layout *most = plan->layout[side];

    if (batch->tokens < 1 || batch->tokens > most->most_tokens)
        return ri_error(RONDO_ERR_ARGUMENT, "%stokens is %lld, and the plan was made for 1 to %lld; make a "
                        "plan for the longest batch", what, (long long)batch->tokens,
                        (long long)most->most_tokens);
    if (batch->documents > most->max_documents)
        return ri_error(RONDO_ERR_ARGUMENT, "%sdocuments is %d, and the plan was made for up to %d: give its "
                        "layout max_documents", what, batch->documents, most->max_documents);
    return 0;
}

static int bind_locked(rondo_plan_t plan, const struct ri_batch batch[RI_SIDES])
{
    int err = ri_request_check(NULL, plan->comm, "bind");

    if (!err)
        err = check_batch(plan->plan, RI_QUERIES, "", &batch[RI_QUERIES]);
    if (!err)
        err = check_batch(plan->plan, RI_KEYS, "kv_layout ", &batch[RI_KEYS]);
    if (err)
        return err;
    if (ri_plan_is_busy(plan->plan))
        return ri_error(RONDO_ERR_BUSY, "bind refused: a start of the plan is under way; wait for its "
                        "request first");
    return ri_plan_bind(plan->plan, batch);
}

static int bind(rondo_plan_t plan, const struct ri_batch batch[RI_SIDES])
{
    int err = ri_comm_enter(plan->comm);

    return err ? err : ri_comm_leave(plan->comm, bind_locked(plan, batch));
}

static int check_documents(const int64_t *cu_seqlens, int documents)
{
    if (documents < 0 || (documents > 0 && !cu_seqlens) || (documents == 0 && cu_seqlens))
        return ri_error(RONDO_ERR_ARGUMENT, "documents is %d, and cu_seqlens is %s: give both, or 0 and NULL",
                        documents, cu_seqlens ? "given" : "NULL");
    return 0;
}

rondo_status_t rondo_plan_bind(rondo_plan_t plan, int64_t tokens, const int64_t *cu_seqlens,
                               int documents)
{
    const struct ri_batch one = { tokens, cu_seqlens, documents, NULL, NULL }, both[RI_SIDES] = { one, one };
    int err;

    if (!plan)
        return ri_error(RONDO_ERR_ARGUMENT, "plan is NULL");
    if (plan->plan->is_cross)
        return ri_error(RONDO_ERR_ARGUMENT, "the plan has a kv_layout of its own: bind it to two layouts, with "
                        "rondo_plan_bind_layout");
    err = check_documents(cu_seqlens, documents);
    return err ? err : bind(plan, both);
}

static struct ri_batch batch_of(const struct rondo_layout *layout)
{
    return (struct ri_batch){ layout->tokens, layout->documents ? layout->cu_seqlens : NULL, layout->documents,
                              layout->documents ? layout->lengths : NULL, layout };
}

rondo_status_t rondo_plan_bind_layout(rondo_plan_t plan, rondo_layout_t layout, rondo_layout_t kv_layout)
{
    if (!plan)
        return ri_error(RONDO_ERR_ARGUMENT, "plan is NULL");
    if (!layout)
        return ri_error(RONDO_ERR_ARGUMENT, "layout is NULL");
    if (!kv_layout != !plan->plan->is_cross)
        return ri_error(RONDO_ERR_ARGUMENT, "kv_layout is %s, and the plan was made %s one",
                        kv_layout ? "given" : "NULL", kv_layout ? "without" : "with");
    if (!kv_layout)
        kv_layout = layout;
    return bind(plan, (const struct ri_batch[RI_SIDES]){ batch_of(layout), batch_of(kv_layout) });
}
