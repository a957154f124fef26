/* SPDX-License-Identifier: Apache-2.0 */
/* What starting, testing and waiting refuse: the text names argument and value, tensors and handles
 * stay as they were, and the same call with good arguments works afterwards. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "plan/plan.h"
#include "tests/api/shard.h"

enum { RANKS = 2 };

struct test {
    struct meeting meeting;
    struct problem problem;
    int (*body)(rondo_comm_t comm, int rank, rondo_plan_t plan, const struct shard *s);
    const char *backward;
};

static char untouched;
#define UNTOUCHED ((rondo_request_t)(void *)&untouched)

static int run_rank(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_CONTIGUOUS, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_plan_t plan = NULL;
    struct shard s;
    int bad;

    options.backward = t->backward;
    shard_init(&s, layout, rank, &t->problem);
    bad = expect_error(rondo_attention_plan(comm, layout, &desc, &options, &plan), 0, NULL, NULL, "plan");
    rondo_layout_destroy(layout); /* the plan has its own */
    if (!bad) {
        bad = t->body(comm, rank, plan, &s);
        bad += expect_error(shard_forward(plan, &s), 0, NULL, NULL, "a good forward");
        bad += expect(shard_forward_error(&s, &t->problem) <= SHARD_BAR, "a good forward is off");
    }
    rondo_plan_destroy(plan);
    shard_release(&s);
    rondo_comm_destroy(comm);
    return bad;
}

static void on_all_ranks(int (*body)(rondo_comm_t, int, rondo_plan_t, const struct shard *),
                         const char *backward)
{
    struct test *t = shared_memory(sizeof(*t));

    t->problem = (struct problem){ .batch = 1, .tokens = 9, .causal = 1, .q_heads = 2, .kv_heads = 1,
                                   .qk_dim = 4, .v_dim = 4 };
    t->body = body;
    t->backward = backward;
    problem_init(&t->problem, 2);
    assert_int_equal(run_ranks(RANKS, 0, 60, run_rank, t), 0);
    problem_release(&t->problem);
}

static int outputs_untouched(const struct shard *s)
{
    for (size_t i = 0; i < s->output_count; i++)
        if (!isnan(s->outputs[i]))
            return 0;
    return 1;
}

/* ---- forward and backward ---- */

static int refused_forward(rondo_plan_t plan, const rondo_attention_fwd_t *fwd, const char *words)
{
    rondo_request_t request = UNTOUCHED;
    int err = rondo_attention_forward(plan, fwd, NULL, &request);

    return expect_error(err, RONDO_ERR_ARGUMENT, words, NULL, words) +
           expect(request == UNTOUCHED, "%s: request was touched", words);
}

static int refused_backward(rondo_plan_t plan, const rondo_attention_bwd_t *bwd, const char *words)
{
    rondo_request_t request = UNTOUCHED;
    int err = rondo_attention_backward(plan, bwd, NULL, &request);

    return expect_error(err, RONDO_ERR_ARGUMENT, words, NULL, words) +
           expect(request == UNTOUCHED, "%s: request was touched", words);
}

static int forward_body(rondo_comm_t comm, int rank, rondo_plan_t plan, const struct shard *s)
{
    const rondo_attention_fwd_t good = shard_forward_tensors(s);
    rondo_attention_fwd_t fwd = good;
    int bad = refused_forward(NULL, &good, "plan is NULL");

    (void)comm;
    bad += refused_forward(plan, NULL, "tensors is NULL");
    fwd.struct_bytes = 7;
    bad += refused_forward(plan, &fwd, "tensors.struct_bytes is 7");
    fwd = good, fwd.q = NULL;
    bad += refused_forward(plan, &fwd, "tensors.q is NULL, and rank");
    fwd = good, fwd.k = NULL;
    bad += refused_forward(plan, &fwd, "tensors.k is NULL");
    fwd = good, fwd.v = NULL;
    bad += refused_forward(plan, &fwd, "tensors.v is NULL");
    fwd = good, fwd.o = NULL;
    bad += refused_forward(plan, &fwd, "tensors.o is NULL");
    fwd = good, fwd.lse = NULL;
    bad += refused_forward(plan, &fwd, rank == 0 ? "holds 5 tokens" : "holds 4 tokens");
    bad += expect_error(rondo_attention_forward(plan, &good, NULL, NULL), RONDO_ERR_ARGUMENT,
                        "request is NULL", NULL, "forward without a request");
    return bad + expect(outputs_untouched(s), "a refused forward wrote");
}

static void forward_refuses_each_argument(void **state)
{
    (void)state;
    on_all_ranks(forward_body, NULL);
}

static int backward_body(rondo_comm_t comm, int rank, rondo_plan_t plan, const struct shard *s)
{
    static const struct {
        size_t offset;
        const char *words;
    } members[] = {
        { offsetof(rondo_attention_bwd_t, q), "tensors.q is NULL" },
        { offsetof(rondo_attention_bwd_t, k), "tensors.k is NULL" },
        { offsetof(rondo_attention_bwd_t, v), "tensors.v is NULL" },
        { offsetof(rondo_attention_bwd_t, o), "tensors.o is NULL" },
        { offsetof(rondo_attention_bwd_t, lse), "tensors.lse is NULL" },
        { offsetof(rondo_attention_bwd_t, d_o), "tensors.d_o is NULL" },
        { offsetof(rondo_attention_bwd_t, dq), "tensors.dq is NULL" },
        { offsetof(rondo_attention_bwd_t, dk), "tensors.dk is NULL" },
        { offsetof(rondo_attention_bwd_t, dv), "tensors.dv is NULL" },
    };
    const rondo_attention_bwd_t good = shard_backward_tensors(s);
    rondo_attention_bwd_t bwd = good;
    int bad = refused_backward(NULL, &good, "plan is NULL");

    (void)comm, (void)rank;
    bad += refused_backward(plan, NULL, "tensors is NULL");
    bwd.struct_bytes = 0;
    bad += refused_backward(plan, &bwd, "tensors.struct_bytes is 0");
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        bwd = good;
        memset((char *)&bwd + members[i].offset, 0, sizeof(void *));
        bad += refused_backward(plan, &bwd, members[i].words);
    }
    bad += expect_error(rondo_attention_backward(plan, &good, NULL, NULL), RONDO_ERR_ARGUMENT,
                        "request is NULL", NULL, "backward without a request");
    return bad + expect(outputs_untouched(s), "a refused backward wrote");
}

static void backward_refuses_each_argument(void **state)
{
    (void)state;
    on_all_ranks(backward_body, "kv-grad");
}

static int inference_body(rondo_comm_t comm, int rank, rondo_plan_t plan, const struct shard *s)
{
    const rondo_attention_bwd_t bwd = shard_backward_tensors(s);

    (void)comm, (void)rank;
    return refused_backward(plan, &bwd, "the plan was made with backward \"none\"");
}

static void backward_of_an_inference_plan_is_refused(void **state)
{
    (void)state;
    on_all_ranks(inference_body, "none");
}

static int busy_body(rondo_comm_t comm, int rank, rondo_plan_t plan, const struct shard *s)
{
    rondo_attention_fwd_t fwd = shard_forward_tensors(s);
    rondo_attention_bwd_t bwd = shard_backward_tensors(s);
    rondo_request_t first = NULL, second = UNTOUCHED;
    int bad = expect_error(rondo_attention_forward(plan, &fwd, NULL, &first), 0, NULL, NULL, "forward");

    (void)comm, (void)rank;
    bad += expect_error(rondo_attention_forward(plan, &fwd, NULL, &second), RONDO_ERR_BUSY,
                        "forward refused: 1 of max_in_flight 1", "of the plan", "second forward");
    bad += expect_error(rondo_attention_backward(plan, &bwd, NULL, &second), RONDO_ERR_BUSY,
                        "backward refused: 1 of max_in_flight 1", "of the plan", "backward during forward");
    bad += expect(second == UNTOUCHED, "a busy plan touched request");
    bad += expect_error(rondo_wait(&first, WAIT_MS), 0, NULL, NULL, "wait");
    bad += expect(!first, "a finished request is not NULL");
    bad += expect_error(shard_backward(plan, s), 0, NULL, NULL, "backward after wait");
    return bad;
}

static void a_plan_runs_one_call_at_a_time(void **state)
{
    (void)state;
    on_all_ranks(busy_body, NULL);
}

/* ---- a start that fails half way ---- */

/* Of this thread. */
static _Thread_local int failing, cancelled, given_uncancelled;

int __real_ri_engine_start(struct ri_engine *engine, const struct ri_program *program);
int __wrap_ri_engine_start(struct ri_engine *engine, const struct ri_program *program);
void __real_ri_engine_cancel(struct ri_engine *engine);
void __wrap_ri_engine_cancel(struct ri_engine *engine);
void __real_ri_plan_give(struct ri_run *run);
void __wrap_ri_plan_give(struct ri_run *run);

/* As when a later message than the first cannot be posted. */
int __wrap_ri_engine_start(struct ri_engine *engine, const struct ri_program *program)
{
    int err = __real_ri_engine_start(engine, program);

    return failing ? ri_error(RONDO_ERR_TRANSPORT, "not posted") : err;
}

void __wrap_ri_engine_cancel(struct ri_engine *engine)
{
    cancelled = 1;
    __real_ri_engine_cancel(engine);
}

void __wrap_ri_plan_give(struct ri_run *run)
{
    given_uncancelled += !cancelled;
    __real_ri_plan_give(run);
}

static void a_failed_start_ends_before_its_memory_is_given_back(void **state)
{
    struct test *t = shared_memory(sizeof(*t));
    rondo_comm_t comm = comm_of(&t->meeting, 0, 1, "self");
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_CONTIGUOUS, 9, 1);
    rondo_request_t request = UNTOUCHED;
    rondo_attention_desc_t desc;
    rondo_attention_fwd_t fwd;
    rondo_plan_t plan = NULL;
    struct shard s;

    (void)state;
    t->problem = (struct problem){ .batch = 1, .tokens = 9, .causal = 1, .q_heads = 2, .kv_heads = 1,
                                   .qk_dim = 4, .v_dim = 4 };
    problem_init(&t->problem, 3);
    desc = desc_of(&t->problem);
    shard_init(&s, layout, 0, &t->problem);
    fwd = shard_forward_tensors(&s);
    assert_int_equal(rondo_attention_plan(comm, layout, &desc, NULL, &plan), 0);
    failing = 1, cancelled = given_uncancelled = 0;
    assert_int_equal(expect_error(rondo_attention_forward(plan, &fwd, NULL, &request), RONDO_ERR_TRANSPORT,
                                  "not posted", NULL, "a failed start"), 0);
    failing = 0;
    assert_true(cancelled && !given_uncancelled && request == UNTOUCHED);
    rondo_plan_destroy(plan);
    shard_release(&s);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    problem_release(&t->problem);
}

/* ---- plans that are asked ---- */

static int ask_body(rondo_comm_t comm, int rank, rondo_plan_t plan, const struct shard *s)
{
    rondo_plan_stats_t stats = RONDO_PLAN_STATS_INIT;
    size_t needed = 4242;
    char text[8] = "same";
    int bad = expect_error(rondo_plan_describe(NULL, text, sizeof(text), &needed), RONDO_ERR_ARGUMENT,
                           "plan is NULL", NULL, "describe");

    (void)comm, (void)rank, (void)s;
    bad += expect_error(rondo_plan_describe(plan, NULL, 12, &needed), RONDO_ERR_ARGUMENT, "text is NULL",
                        "bytes is 12", "describe into nothing");
    bad += expect(needed == 4242 && strcmp(text, "same") == 0, "a refused describe wrote");
    stats.forwards = 77;
    bad += expect_error(rondo_plan_stats(NULL, &stats), RONDO_ERR_ARGUMENT, "plan is NULL", NULL, "stats");
    bad += expect_error(rondo_plan_stats(plan, NULL), RONDO_ERR_ARGUMENT, "stats is NULL", NULL, "stats");
    stats.struct_bytes = 9;
    bad += expect_error(rondo_plan_stats(plan, &stats), RONDO_ERR_ARGUMENT, "stats.struct_bytes is 9", NULL,
                        "stats");
    return bad + expect(stats.forwards == 77, "refused stats were written");
}

static void asking_refuses_each_argument(void **state)
{
    (void)state;
    on_all_ranks(ask_body, NULL);
}

/* ---- collectives and requests ---- */

static int refused_broadcasts(rondo_comm_t comm)
{
    char result[4] = "abc";
    rondo_request_t r = UNTOUCHED;
    int bad = 0;

    bad += expect_error(rondo_broadcast(NULL, result, 4, 0, NULL, &r), RONDO_ERR_ARGUMENT, "comm is NULL",
                        NULL, "broadcast");
    bad += expect_error(rondo_broadcast(comm, result, 4, -1, NULL, &r), RONDO_ERR_ARGUMENT, "root is -1",
                        "0 to 1", "broadcast");
    bad += expect_error(rondo_broadcast(comm, result, 4, RANKS, NULL, &r), RONDO_ERR_ARGUMENT, "root is 2",
                        "0 to 1", "broadcast");
    bad += expect_error(rondo_broadcast(comm, NULL, 4, 0, NULL, &r), RONDO_ERR_ARGUMENT, "buffer is NULL",
                        "4", "broadcast");
    bad += expect_error(rondo_broadcast(comm, result, 4, 0, NULL, NULL), RONDO_ERR_ARGUMENT,
                        "request is NULL", NULL, "broadcast");
    bad += expect_error(rondo_barrier(NULL, NULL, &r), RONDO_ERR_ARGUMENT, "comm is NULL", NULL, "barrier");
    bad += expect_error(rondo_barrier(comm, NULL, NULL), RONDO_ERR_ARGUMENT, "request is NULL", NULL,
                        "barrier");
    return bad + expect(r == UNTOUCHED && result[0] == 'a', "a refused broadcast or barrier wrote");
}

static int collective_body(rondo_comm_t comm, int rank, rondo_plan_t plan, const struct shard *s)
{
    float data[4] = { 1, 2, 3, 4 }, result[4] = { 9, 9, 9, 9 };
    rondo_request_t r = UNTOUCHED;
    int bad = 0;

    (void)rank, (void)plan, (void)s;
    bad += expect_error(rondo_all_reduce(NULL, data, result, 4, RONDO_F32, NULL, &r), RONDO_ERR_ARGUMENT,
                        "comm is NULL", NULL, "all-reduce");
    bad += expect_error(rondo_all_reduce(comm, NULL, result, 4, RONDO_F32, NULL, &r), RONDO_ERR_ARGUMENT,
                        "data is NULL", "4", "all-reduce");
    bad += expect_error(rondo_all_reduce(comm, data, NULL, 4, RONDO_F32, NULL, &r), RONDO_ERR_ARGUMENT,
                        "result is NULL", "4", "all-reduce");
    bad += expect_error(rondo_all_reduce(comm, data, result, 4, RONDO_BF16, NULL, &r), RONDO_ERR_ARGUMENT,
                        "dtype is 2", NULL, "all-reduce");
    bad += expect_error(rondo_all_reduce(comm, data, result, 4, (rondo_dtype_t)99, NULL, &r),
                        RONDO_ERR_ARGUMENT, "dtype is 99", NULL, "all-reduce");
    bad += expect_error(rondo_all_reduce(comm, data, result, SIZE_MAX / 2, RONDO_F64, NULL, &r),
                        RONDO_ERR_ARGUMENT, "count is 9223372036854775807", NULL, "all-reduce");
    bad += expect_error(rondo_all_reduce(comm, data, data + 1, 3, RONDO_F32, NULL, &r), RONDO_ERR_ARGUMENT,
                        "data and result overlap", NULL, "all-reduce");
    bad += expect_error(rondo_all_reduce(comm, data, result, 4, RONDO_F32, NULL, NULL), RONDO_ERR_ARGUMENT,
                        "request is NULL", NULL, "all-reduce");
    bad += refused_broadcasts(comm);
    bad += expect(r == UNTOUCHED && result[0] == 9 && data[1] == 2, "a refused collective wrote");
    bad += expect_error(rondo_all_reduce(comm, data, result, 4, RONDO_F32, NULL, &r), 0, NULL, NULL, "good");
    bad += expect_error(rondo_wait(&r, WAIT_MS), 0, NULL, NULL, "wait");
    return bad + expect(result[0] == 2 && result[3] == 8, "all-reduce after refusals is wrong");
}

static void collectives_refuse_each_argument(void **state)
{
    (void)state;
    on_all_ranks(collective_body, NULL);
}

static int busy_collective_body(rondo_comm_t comm, int rank, rondo_plan_t plan, const struct shard *s)
{
    float one = 1, sum = 0;
    char byte = 0;
    rondo_request_t first = NULL, second = UNTOUCHED;
    int bad = expect_error(rondo_barrier(comm, NULL, &first), 0, NULL, NULL, "barrier");

    (void)rank;
    bad += expect_error(rondo_all_reduce(comm, &one, &sum, 1, RONDO_F32, NULL, &second), RONDO_ERR_BUSY,
                        "all-reduce refused", "barrier", "second collective");
    bad += expect_error(rondo_broadcast(comm, &byte, 1, 0, NULL, &second), RONDO_ERR_BUSY,
                        "broadcast refused", "barrier", "second collective");
    bad += expect_error(rondo_barrier(comm, NULL, &second), RONDO_ERR_BUSY, "barrier refused", "barrier",
                        "second collective");
    bad += expect(second == UNTOUCHED, "a busy communicator touched request");
    /* A plan is another object: it runs beside the barrier. */
    bad += expect_error(shard_forward(plan, s), 0, NULL, NULL, "forward beside a barrier");
    return bad + expect_error(rondo_wait(&first, WAIT_MS), 0, NULL, NULL, "wait");
}

static void a_communicator_runs_one_collective_at_a_time(void **state)
{
    (void)state;
    on_all_ranks(busy_collective_body, NULL);
}

static int request_body(rondo_comm_t comm, int rank, rondo_plan_t plan, const struct shard *s)
{
    rondo_request_t none = NULL, barrier = NULL;
    int done = 5, bad = expect_error(rondo_test(NULL, &done), RONDO_ERR_ARGUMENT, "request is NULL", NULL, "test");

    (void)rank, (void)plan, (void)s;
    bad += expect_error(rondo_test(&none, NULL), RONDO_ERR_ARGUMENT, "done is NULL", NULL, "test");
    bad += expect(done == 5, "a refused test wrote");
    bad += expect_error(rondo_wait(NULL, 1), RONDO_ERR_ARGUMENT, "request is NULL", NULL, "wait");
    bad += expect_error(rondo_wait(&none, 0), 0, NULL, NULL, "wait for NULL");
    bad += expect_error(rondo_wait(&none, -5), RONDO_ERR_ARGUMENT, "timeout_ms is -5", NULL, "wait for NULL");
    bad += expect_error(rondo_test(&none, &done), 0, NULL, NULL, "test NULL");
    bad += expect(done == 1, "NULL is not done");
    bad += expect_error(rondo_barrier(comm, NULL, &barrier), 0, NULL, NULL, "barrier");
    bad += expect_error(rondo_wait(&barrier, -2), RONDO_ERR_ARGUMENT, "timeout_ms is -2", NULL, "wait");
    bad += expect(barrier != NULL, "a refused wait took the request");
    bad += expect_error(rondo_comm_progress(NULL), RONDO_ERR_ARGUMENT, "comm is NULL", NULL, "progress");
    bad += expect_error(rondo_comm_abort(NULL), RONDO_ERR_ARGUMENT, "comm is NULL", NULL, "abort");
    bad += expect_error(rondo_wait(&barrier, -1), 0, NULL, NULL, "wait as long as the communicator says");
    rondo_comm_destroy(NULL);
    return bad;
}

static void requests_refuse_each_argument(void **state)
{
    (void)state;
    on_all_ranks(request_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_refuses_each_argument),
        cmocka_unit_test(backward_refuses_each_argument),
        cmocka_unit_test(backward_of_an_inference_plan_is_refused),
        cmocka_unit_test(a_plan_runs_one_call_at_a_time),
        cmocka_unit_test(a_failed_start_ends_before_its_memory_is_given_back),
        cmocka_unit_test(asking_refuses_each_argument),
        cmocka_unit_test(collectives_refuse_each_argument),
        cmocka_unit_test(a_communicator_runs_one_collective_at_a_time),
        cmocka_unit_test(requests_refuse_each_argument),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
