/* SPDX-License-Identifier: Apache-2.0 */
/* What a backward needs of its forward, in one handle. */
#include <rondo/attention.h>

#include <stdlib.h>

#include "api/plan.h"
#include "base/status.h"
#include "device/device.h"

struct rondo_saved {
    const void *q, *k, *v; /* the caller's */
    void *o;               /* ours, as lse; NULL without tokens */
    float *lse;
    int64_t tokens;        /* bound when it was made */
};

static int check_inputs(const rondo_attention_fwd_t *tensors, int64_t queries, int64_t keys)
{
    const char *missing = queries && !tensors->q ? "q" : keys && !tensors->k ? "k" : "v";

    if ((!queries || tensors->q) && (!keys || (tensors->k && tensors->v)))
        return 0;
    return ri_error(RONDO_ERR_ARGUMENT, "tensors.%s is NULL, and this rank holds %lld tokens", missing,
                    (long long)(missing[0] == 'q' ? queries : keys));
}

static int check_create(rondo_plan_t plan, const rondo_attention_fwd_t *tensors,
                        const rondo_saved_t *saved)
{
    if (!plan)
        return ri_error(RONDO_ERR_ARGUMENT, "plan is NULL");
    if (!tensors)
        return ri_error(RONDO_ERR_ARGUMENT, "tensors is NULL");
    if (tensors->struct_bytes != sizeof(*tensors))
        return ri_error(RONDO_ERR_ARGUMENT, "tensors.struct_bytes is %zu, not %zu: "
                        "start from RONDO_ATTENTION_FWD_INIT", tensors->struct_bytes, sizeof(*tensors));
    if (!saved)
        return ri_error(RONDO_ERR_ARGUMENT, "saved is NULL");
    return 0;
}

static int allocate(struct rondo_saved *saved, const struct ri_plan *plan, int64_t tokens)
{
    size_t o_bytes = ri_tensor_bytes(&plan->desc, RI_T_O, tokens);
    size_t lse_bytes = ri_tensor_bytes(&plan->desc, RI_T_LSE, tokens);

    if (tokens == 0)
        return 0;
    saved->o = ri_device_host.alloc(o_bytes);
    saved->lse = ri_device_host.alloc(lse_bytes);
    if (saved->o && saved->lse)
        return 0;
    return ri_error(RONDO_ERR_MEMORY, "out of memory for %zu bytes of o and lse", o_bytes + lse_bytes);
}

static int create_locked(rondo_plan_t plan, rondo_attention_fwd_t *tensors, rondo_saved_t *saved_p)
{
    struct rondo_saved *saved;
    int64_t tokens;
    int err;

    tokens = ri_layout_tokens(plan->plan->layout[RI_QUERIES], plan->plan->place.rank);
    err = check_inputs(tensors, tokens, ri_layout_tokens(plan->plan->layout[RI_KEYS], plan->plan->place.rank));
    if (err)
        return err;
    saved = calloc(1, sizeof(*saved));
    err = saved ? allocate(saved, plan->plan, tokens)
                : ri_error(RONDO_ERR_MEMORY, "out of memory for what a forward saves");
    if (err) {
        rondo_saved_destroy(saved);
        return err;
    }
    saved->q = tensors->q;
    saved->k = tensors->k;
    saved->v = tensors->v;
    saved->tokens = tensors->tokens = plan->plan->layout[RI_QUERIES]->tokens;
    tensors->o = saved->o;
    tensors->lse = saved->lse;
    *saved_p = saved;
    return 0;
}

/* Another thread may bind the plan. */
rondo_status_t rondo_saved_create(rondo_plan_t plan, rondo_attention_fwd_t *tensors,
                                  rondo_saved_t *saved)
{
    int err = check_create(plan, tensors, saved);

    if (!err)
        err = ri_comm_enter(plan->comm);
    return err ? err : ri_comm_leave(plan->comm, create_locked(plan, tensors, saved));
}

rondo_status_t rondo_saved_restore(rondo_saved_t saved, rondo_attention_bwd_t *tensors)
{
    if (!saved)
        return ri_error(RONDO_ERR_ARGUMENT, "saved is NULL");
    if (!tensors)
        return ri_error(RONDO_ERR_ARGUMENT, "tensors is NULL");
    if (tensors->struct_bytes != sizeof(*tensors))
        return ri_error(RONDO_ERR_ARGUMENT, "tensors.struct_bytes is %zu, not %zu: "
                        "start from RONDO_ATTENTION_BWD_INIT", tensors->struct_bytes, sizeof(*tensors));
    tensors->q = saved->q;
    tensors->k = saved->k;
    tensors->v = saved->v;
    tensors->o = saved->o;
    tensors->lse = saved->lse;
    tensors->tokens = saved->tokens;
    return 0;
}

void *rondo_saved_o(rondo_saved_t saved)
{
    return saved ? saved->o : NULL;
}

float *rondo_saved_lse(rondo_saved_t saved)
{
    return saved ? saved->lse : NULL;
}

void rondo_saved_destroy(rondo_saved_t saved)
{
    if (!saved)
        return;
    ri_device_host.release(saved->o);
    ri_device_host.release(saved->lse);
    free(saved);
}
