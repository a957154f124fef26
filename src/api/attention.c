/* SPDX-License-Identifier: Apache-2.0 */
#include <rondo/attention.h>

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/plan.h"
#include "api/request.h"
#include "api/verify.h"
#include "api/wish.h"
#include "base/log.h"
#include "base/status.h"

/* ---- making a plan ---- */

static struct ri_plan_params params_of(rondo_comm_t comm, struct ri_wish *wish, struct ri_pool *pool)
{
    return (struct ri_plan_params){
        .place = { comm->rank, comm->size, comm->host, comm->transport, ri_request_poll, comm, comm->topo },
        .sight = &wish->sight,
        .desc = &wish->desc, .choice = &wish->choice, .kernel = wish->kernel,
        .max_in_flight = wish->max_in_flight, .threads = wish->threads, .pool = pool,
    };
}

static int prepare_pool(rondo_comm_t comm)
{
    comm->release_pool = ri_pool_destroy;
    return comm->pool ? 0 : ri_pool_create(comm->transport, &comm->pool);
}

/* The comm is entered. */
static void destroy_locked(struct rondo_plan *plan)
{
    for (int i = 0; plan->plan && i < plan->plan->max_in_flight; i++)
        ri_request_cancel(&plan->requests[i]);
    ri_plan_destroy(plan->plan);
    free(plan->requests);
    free(plan);
}

static int fill(struct rondo_plan *plan, rondo_comm_t comm, struct ri_wish *wish)
{
    struct ri_plan_params params;
    int err;

    plan->comm = comm;
    plan->requests = calloc((size_t)wish->max_in_flight, sizeof(*plan->requests));
    if (!plan->requests)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for a plan");
    err = prepare_pool(comm);
    if (err)
        return err;
    params = params_of(comm, wish, comm->pool);
    params.number = comm->next_plan;
    return ri_plan_create(&params, &plan->plan);
}

/* Plans share the pool, so its growth is a turn of its own. */
static int create_locked(rondo_comm_t comm, struct ri_wish *wish, struct rondo_plan **plan_p)
{
    struct rondo_plan *plan = calloc(1, sizeof(*plan));
    int err;

    if (!plan)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for a plan");
    err = fill(plan, comm, wish);
    if (err) {
        destroy_locked(plan);
        return err;
    }
    *plan_p = plan;
    return 0;
}

static int create(rondo_comm_t comm, struct ri_wish *wish, struct rondo_plan **plan_p)
{
    int err = ri_comm_enter(comm);

    return err ? err : ri_comm_leave(comm, create_locked(comm, wish, plan_p));
}

/* All ranks have theirs. */
static int admit(struct rondo_plan *plan)
{
    int err = ri_comm_enter(plan->comm);

    if (err)
        return err;
    ri_plan_admit(plan->plan);
    return ri_comm_leave(plan->comm, 0);
}

/* wish: checked; status: what that said. */
static int make(rondo_comm_t comm, struct ri_wish *wish, int status, rondo_plan_t *plan_p)
{
    struct rondo_plan *plan = NULL;
    int err = ri_wish_agree(comm, wish, status);

    if (err)
        return err;
    err = create(comm, wish, &plan);
    comm->next_plan++;
    err = ri_agree(comm, "attention plan", NULL, 0, err);
    assert(err || plan); /* a rank that failed agrees with nobody */
    if (!err)
        err = admit(plan);
    if (err) {
        rondo_plan_destroy(plan);
        return err;
    }
    *plan_p = plan;
    return 0;
}

rondo_status_t rondo_attention_plan(rondo_comm_t comm, rondo_layout_t layout,
                                    const rondo_attention_desc_t *desc,
                                    const rondo_plan_options_t *options, rondo_plan_t *plan)
{
    struct ri_wish wish = RI_WISH_INIT;
    int err = comm ? ri_comm_talk_begin(comm, "attention plan")
                   : ri_error(RONDO_ERR_ARGUMENT, "comm is NULL");

    if (err)
        return err;
    err = plan ? ri_wish_check(comm, layout, desc, options, &wish) : ri_error(RONDO_ERR_ARGUMENT, "plan is NULL");
    err = make(comm, &wish, err, plan);
    ri_wish_release(&wish);
    ri_comm_talk_end(comm);
    return err;
}

void rondo_plan_destroy(rondo_plan_t plan)
{
    struct rondo_comm *comm = plan ? plan->comm : NULL;

    if (!plan)
        return;
    if (ri_comm_enter(comm)) {
        ri_log(RI_LOG_ERROR, "plan", "a plan is not destroyed: %s", rondo_last_error());
        return;
    }
    destroy_locked(plan);
    ri_comm_leave(comm, 0);
}

rondo_status_t rondo_plan_memory(rondo_comm_t comm, rondo_layout_t layout,
                                 const rondo_attention_desc_t *desc,
                                 const rondo_plan_options_t *options, rondo_plan_memory_t *memory)
{
    struct ri_wish wish = RI_WISH_INIT;
    struct ri_plan_params params;
    struct ri_plan *plan = NULL;
    int err;

    if (!comm)
        return ri_error(RONDO_ERR_ARGUMENT, "comm is NULL");
    if (!memory)
        return ri_error(RONDO_ERR_ARGUMENT, "memory is NULL");
    if (memory->struct_bytes != sizeof(*memory))
        return ri_error(RONDO_ERR_ARGUMENT, "memory.struct_bytes is %zu, not %zu: "
                        "start from RONDO_PLAN_MEMORY_INIT", memory->struct_bytes, sizeof(*memory));
    err = ri_wish_check(comm, layout, desc, options, &wish);
    params = params_of(comm, &wish, NULL);
    if (!err)
        err = ri_plan_create(&params, &plan);
    if (!err)
        ri_plan_memory(plan, memory);
    ri_plan_destroy(plan);
    ri_wish_release(&wish);
    return err;
}

/* ---- running it ---- */

struct pointer {
    const char *name;
    const void *value;
    enum ri_side side; /* whose tokens it has */
};

/* Common to both passes: handles, and pointers that may be NULL only for an empty shard. */
static int check_start(rondo_plan_t plan, const void *tensors, size_t struct_bytes, size_t wanted,
                       rondo_request_t *request, const char *what)
{
    if (!tensors)
        return ri_error(RONDO_ERR_ARGUMENT, "tensors is NULL");
    if (struct_bytes != wanted)
        return ri_error(RONDO_ERR_ARGUMENT, "tensors.struct_bytes is %zu, not %zu: start from the "
                        "INIT macro", struct_bytes, wanted);
    if (!request)
        return ri_error(RONDO_ERR_ARGUMENT, "request is NULL");
    return ri_request_check(NULL, plan->comm, what);
}

static int check_pointers(const struct ri_plan *plan, const struct pointer *pointers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t tokens = ri_layout_tokens(plan->layout[pointers[i].side], plan->place.rank);

        if (tokens > 0 && !pointers[i].value)
            return ri_error(RONDO_ERR_ARGUMENT, "tensors.%s is NULL, and rank %d holds %lld tokens",
                            pointers[i].name, plan->place.rank, (long long)tokens);
    }
    return 0;
}

/* tokens: for which the caller's tensors were made; 0: it does not say. */
static int check_length(const struct ri_plan *plan, int64_t tokens)
{
    if (tokens == 0 || tokens == plan->layout[RI_QUERIES]->tokens)
        return 0;
    return ri_error(RONDO_ERR_ARGUMENT, "tensors.tokens is %lld, and the plan is bound to %lld: bind "
                    "the length that they were made for", (long long)tokens,
                    (long long)plan->layout[RI_QUERIES]->tokens);
}

/* Sinks, and in a backward their gradient, are given if and only if the plan was made with them. */
static int check_presence(const struct ri_plan *plan, const struct pointer *field)
{
    if (plan->desc.has_sinks)
        return check_pointers(plan, field, 1);
    if (!field->value)
        return 0;
    return ri_error(RONDO_ERR_ARGUMENT, "tensors.%s is given, and the plan was made without has_sinks", field->name);
}

/* Also a rank without tokens gives sinks: it compares them with those of its neighbours, who may have no other in
 * common.  One of -inf takes no weight; any other is finite. */
static int check_sinks(const struct ri_plan *plan, const float *sinks)
{
    const struct pointer field = { "sinks", sinks };
    int err;

    if (plan->desc.has_sinks && !sinks)
        return ri_error(RONDO_ERR_ARGUMENT, "tensors.sinks is NULL, and the plan was made with has_sinks; give "
                        "[q_heads] numbers, the same on all ranks, also those without tokens");
    err = check_presence(plan, &field);
    if (err)
        return err;
    for (int h = 0; sinks && h < plan->desc.q_heads; h++)
        if (isnan(sinks[h]) || sinks[h] == INFINITY)
            return ri_error(RONDO_ERR_ARGUMENT, "tensors.sinks[%d] is %g; give a finite one, or -inf (none)", h,
                            (double)sinks[h]);
    return 0;
}

static void give_back(void *owner)
{
    ri_plan_give(owner);
}

static void finish(void *owner)
{
    ri_run_finish(owner);
}

/* After the run was started, and err is what that said. */
static int begin(rondo_plan_t plan, enum ri_pass_kind kind, struct ri_run *run, int err,
                 struct ri_verify *verify, rondo_request_t *request_p)
{
    struct rondo_request *request = plan->requests;

    while (request->active) /* there are as many as runs under way */
        request++;
    request->ended = finish;
    request->taken = give_back;
    request->owner = run;
    request->verify = verify;
    err = ri_request_begin(request, plan->comm, run->engine, ri_pass_names[kind], &plan->plan->calls[kind], err,
                           request_p);
    if (err) {
        request->verify = NULL;
        ri_verify_destroy(verify);
        ri_engine_cancel(run->engine); /* the others know: those who read our memory let go now */
        ri_plan_give(run);
    }
    return err;
}

static int forward(rondo_plan_t plan, const rondo_attention_fwd_t *tensors, void *stream,
                    rondo_request_t *request)
{
    int err = check_start(plan, tensors, tensors ? tensors->struct_bytes : 0, sizeof(*tensors),
                          request, "forward");
    struct ri_verify *verify = NULL;
    struct ri_run *run = NULL;

    if (err)
        return err;
    const struct pointer pointers[] = {
        { "q", tensors->q }, { "k", tensors->k, RI_KEYS }, { "v", tensors->v, RI_KEYS },
        { "o", tensors->o }, { "lse", tensors->lse },
    };

    err = check_length(plan->plan, tensors->tokens);
    if (!err)
        err = check_pointers(plan->plan, pointers, sizeof(pointers) / sizeof(pointers[0]));
    if (!err)
        err = check_sinks(plan->plan, tensors->sinks);
    if (!err)
        err = ri_plan_take(plan->plan, RI_FORWARD, &run);
    if (err)
        return err;
    err = ri_verify_forward(plan, run, tensors, &verify);
    if (!err)
        err = ri_plan_start_forward(run, tensors, stream);
    return begin(plan, RI_FORWARD, run, err, verify, request);
}

static int backward(rondo_plan_t plan, const rondo_attention_bwd_t *tensors, void *stream,
                     rondo_request_t *request)
{
    int err = check_start(plan, tensors, tensors ? tensors->struct_bytes : 0, sizeof(*tensors),
                          request, "backward");
    struct ri_verify *verify = NULL;
    struct ri_run *run = NULL;

    if (err)
        return err;
    if (!plan->plan->pass[RI_BACKWARD].schedule)
        return ri_error(RONDO_ERR_ARGUMENT, "the plan was made with backward \"none\"");
    const struct pointer pointers[] = {
        { "q", tensors->q },     { "k", tensors->k, RI_KEYS },   { "v", tensors->v, RI_KEYS },
        { "o", tensors->o },     { "lse", tensors->lse }, { "d_o", tensors->d_o },
        { "dq", tensors->dq },   { "dk", tensors->dk, RI_KEYS }, { "dv", tensors->dv, RI_KEYS },
    }, d_sinks = { "d_sinks", tensors->d_sinks };

    err = check_length(plan->plan, tensors->tokens);
    if (!err)
        err = check_pointers(plan->plan, pointers, sizeof(pointers) / sizeof(pointers[0]));
    if (!err)
        err = check_sinks(plan->plan, tensors->sinks);
    if (!err)
        err = check_presence(plan->plan, &d_sinks);
    if (!err)
        err = ri_plan_take(plan->plan, RI_BACKWARD, &run);
    if (err)
        return err;
    err = ri_verify_backward(plan, run, tensors, &verify);
    if (!err)
        err = ri_plan_start_backward(run, tensors, stream);
    return begin(plan, RI_BACKWARD, run, err, verify, request);
}

static int enter(rondo_plan_t plan)
{
    return plan ? ri_comm_enter(plan->comm) : ri_error(RONDO_ERR_ARGUMENT, "plan is NULL");
}

rondo_status_t rondo_attention_forward(rondo_plan_t plan, const rondo_attention_fwd_t *tensors,
                                       void *stream, rondo_request_t *request)
{
    int err = enter(plan);

    return err ? err : ri_comm_leave(plan->comm, forward(plan, tensors, stream, request));
}

rondo_status_t rondo_attention_backward(rondo_plan_t plan, const rondo_attention_bwd_t *tensors,
                                        void *stream, rondo_request_t *request)
{
    int err = enter(plan);

    return err ? err : ri_comm_leave(plan->comm, backward(plan, tensors, stream, request));
}

/* ---- asking about it ---- */

rondo_status_t rondo_plan_describe(rondo_plan_t plan, char *text, size_t bytes, size_t *needed)
{
    char *words;
    int err;

    if (!plan)
        return ri_error(RONDO_ERR_ARGUMENT, "plan is NULL");
    if (!text && bytes > 0)
        return ri_error(RONDO_ERR_ARGUMENT, "text is NULL, and bytes is %zu", bytes);
    err = enter(plan);
    if (err)
        return err;
    words = ri_plan_text(plan->plan);
    ri_comm_leave(plan->comm, 0);
    if (!words)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for the plan's text");
    if (needed)
        *needed = strlen(words) + 1;
    if (bytes > 0)
        snprintf(text, bytes, "%s", words);
    free(words);
    return 0;
}

rondo_status_t rondo_plan_stats(rondo_plan_t plan, rondo_plan_stats_t *stats)
{
    int err;

    if (!plan)
        return ri_error(RONDO_ERR_ARGUMENT, "plan is NULL");
    if (!stats)
        return ri_error(RONDO_ERR_ARGUMENT, "stats is NULL");
    if (stats->struct_bytes != sizeof(*stats))
        return ri_error(RONDO_ERR_ARGUMENT, "stats.struct_bytes is %zu, not %zu: "
                        "start from RONDO_PLAN_STATS_INIT", stats->struct_bytes, sizeof(*stats));
    err = enter(plan);
    if (err)
        return err;
    ri_plan_stats(plan->plan, stats);
    return ri_comm_leave(plan->comm, 0);
}
