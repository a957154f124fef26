/* SPDX-License-Identifier: Apache-2.0 */
/* What a forward saves for its backward is what the backward needs. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/api/shard.h"

struct test {
    struct meeting meeting;
    struct problem problem;
};

static const struct problem shape = { .batch = 2, .tokens = 11, .causal = 1, .q_heads = 4, .kv_heads = 2,
                                      .qk_dim = 8, .v_dim = 4 };

static void run(int ranks, const struct problem *problem, int (*body)(int, int, void *))
{
    struct test *t = shared_memory(sizeof(*t));

    t->problem = *problem;
    problem_init(&t->problem, (uint64_t)ranks);
    assert_int_equal(run_ranks(ranks, 0, 60, body, t), 0);
    problem_release(&t->problem);
}

static rondo_plan_t plan_of(rondo_comm_t comm, rondo_layout_t layout, const struct problem *p)
{
    rondo_attention_desc_t desc = desc_of(p);
    rondo_plan_t plan = NULL;

    if (expect(!rondo_attention_plan(comm, layout, &desc, NULL, &plan), "plan: %s", rondo_last_error()))
        exit(1);
    return plan;
}

static int forward_saved(rondo_plan_t plan, const struct shard *s, rondo_saved_t *saved)
{
    rondo_attention_fwd_t fwd = shard_forward_tensors(s);
    rondo_request_t request = NULL;
    int err;

    fwd.o = fwd.lse = NULL;
    err = rondo_saved_create(plan, &fwd, saved);
    if (!err)
        err = rondo_attention_forward(plan, &fwd, NULL, &request);
    return err ? err : rondo_wait(&request, WAIT_MS);
}

static int backward_saved(rondo_plan_t plan, const struct shard *s, rondo_saved_t saved)
{
    rondo_attention_bwd_t full = shard_backward_tensors(s), bwd = RONDO_ATTENTION_BWD_INIT;
    rondo_request_t request = NULL;
    int err;

    bwd.d_o = full.d_o, bwd.dq = full.dq, bwd.dk = full.dk, bwd.dv = full.dv;
    err = rondo_saved_restore(saved, &bwd);
    if (!err)
        err = rondo_attention_backward(plan, &bwd, NULL, &request);
    return err ? err : rondo_wait(&request, WAIT_MS);
}

static int same(const float *a, const float *b, int64_t count)
{
    return count == 0 || memcmp(a, b, (size_t)count * sizeof(float)) == 0;
}

/* The plan is bound to 1 token: a handle of that length is none for a longer forward. */
static int refused_forward(rondo_plan_t plan, const struct shard *s)
{
    rondo_attention_fwd_t fwd = shard_forward_tensors(s);
    char mark;
    rondo_request_t request = (rondo_request_t)(void *)&mark;
    rondo_saved_t saved = NULL;
    int bad = expect(!rondo_saved_create(plan, &fwd, &saved), "create: %s", rondo_last_error());

    bad += expect(fwd.tokens == 1, "tokens is %lld", (long long)fwd.tokens);
    bad += expect(!rondo_plan_bind(plan, 2, NULL, 0), "bind: %s", rondo_last_error());
    bad += expect_error(rondo_attention_forward(plan, &fwd, NULL, &request), RONDO_ERR_ARGUMENT,
                        "tensors.tokens is 1", "bound to 2: bind", "forward of another length");
    bad += expect(request == (rondo_request_t)(void *)&mark, "a refused forward wrote");
    rondo_saved_destroy(saved);
    return bad;
}

static int saved_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    const struct problem *p = &t->problem;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_CONTIGUOUS, p->tokens, ranks);
    rondo_plan_t plan = plan_of(comm, layout, p);
    rondo_saved_t saved = NULL;
    struct shard plain, s;
    int64_t rows;
    int bad;

    shard_init(&plain, layout, rank, p);
    shard_init(&s, layout, rank, p);
    rows = p->batch * p->q_heads * s.n;
    bad = expect(!shard_both(plan, &plain), "plain: %s", rondo_last_error());
    bad += expect(!forward_saved(plan, &s, &saved), "forward: %s", rondo_last_error());
    bad += expect((s.n > 0) == (rondo_saved_o(saved) != NULL) && (s.n > 0) == (rondo_saved_lse(saved) != NULL),
                  "o or lse of %lld tokens", (long long)s.n);
    bad += expect(same(rondo_saved_o(saved), plain.o, rows * p->v_dim) &&
                      same(rondo_saved_lse(saved), plain.lse, rows), "o or lse have other bits");
    bad += expect(!rondo_plan_bind(plan, 1, NULL, 0), "bind: %s", rondo_last_error());
    bad += expect_error(backward_saved(plan, &s, saved), RONDO_ERR_ARGUMENT, "bound to 1: bind", "tensors.tokens is",
                        "backward of another length");
    bad += refused_forward(plan, &s);
    bad += expect(!rondo_plan_bind(plan, p->tokens, NULL, 0), "bind: %s", rondo_last_error());
    bad += expect(!backward_saved(plan, &s, saved), "backward: %s", rondo_last_error());
    rondo_plan_destroy(plan); /* the handle does not need it */
    bad += expect(same(s.dq, plain.dq, rows * p->qk_dim) && (s.n == 0 || shard_backward_error(&s, p) <= SHARD_BAR),
                  "gradients have other bits");
    bad += expect(same(rondo_saved_lse(saved), plain.lse, rows), "lse went with the plan");
    rondo_saved_destroy(saved);
    shard_release(&plain);
    shard_release(&s);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void saved_tensors_are_those_of_the_backward(void **state)
{
    struct problem few = shape;

    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++)
        run(ranks, &shape, saved_body);
    few.tokens = 2; /* ranks 2 and 3 hold none */
    run(4, &few, saved_body);
}

static int saved_refuses_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_ZIGZAG, t->problem.tokens, ranks);
    rondo_plan_t plan = plan_of(comm, layout, &t->problem);
    rondo_attention_fwd_t fwd = RONDO_ATTENTION_FWD_INIT, good;
    rondo_attention_bwd_t bwd = RONDO_ATTENTION_BWD_INIT;
    char mark;
    rondo_saved_t saved = (rondo_saved_t)(void *)&mark;
    struct shard s;
    int bad = 0;

    shard_init(&s, layout, rank, &t->problem);
    good = shard_forward_tensors(&s);
    fwd.q = good.q, fwd.k = good.k, fwd.o = &mark;
    bad += expect_error(rondo_saved_create(NULL, &fwd, &saved), RONDO_ERR_ARGUMENT, "plan is NULL", NULL, "plan");
    bad += expect_error(rondo_saved_create(plan, NULL, &saved), RONDO_ERR_ARGUMENT, "tensors is NULL", NULL, "tensors");
    bad += expect_error(rondo_saved_create(plan, &good, NULL), RONDO_ERR_ARGUMENT, "saved is NULL", NULL, "saved");
    bad += expect_error(rondo_saved_create(plan, &fwd, &saved), RONDO_ERR_ARGUMENT, "tensors.v is NULL", "tokens", "v");
    fwd.v = good.v, fwd.k = NULL;
    bad += expect_error(rondo_saved_create(plan, &fwd, &saved), RONDO_ERR_ARGUMENT, "tensors.k is NULL", NULL, "k");
    fwd.k = good.k, fwd.struct_bytes = 5;
    bad += expect_error(rondo_saved_create(plan, &fwd, &saved), RONDO_ERR_ARGUMENT, "tensors.struct_bytes is 5", NULL,
                        "size");
    bad += expect(fwd.o == &mark && !fwd.lse && saved == (rondo_saved_t)(void *)&mark, "a refused create wrote");
    bad += expect_error(rondo_saved_restore(NULL, &bwd), RONDO_ERR_ARGUMENT, "saved is NULL", NULL, "restore");
    bad += expect(!rondo_saved_create(plan, &good, &saved), "create: %s", rondo_last_error());
    bad += expect_error(rondo_saved_restore(saved, NULL), RONDO_ERR_ARGUMENT, "tensors is NULL", NULL, "restore");
    bwd.struct_bytes = 6;
    bad += expect_error(rondo_saved_restore(saved, &bwd), RONDO_ERR_ARGUMENT, "tensors.struct_bytes is 6", NULL, "size");
    bad += expect(!bwd.q && !bwd.o, "a refused restore wrote");
    bad += expect(!rondo_saved_o(NULL) && !rondo_saved_lse(NULL), "NULL has memory");
    rondo_saved_destroy(saved);
    rondo_saved_destroy(NULL);
    rondo_plan_destroy(plan);
    shard_release(&s);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void saved_refuses_each_argument(void **state)
{
    (void)state;
    run(2, &shape, saved_refuses_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_tensors_are_those_of_the_backward),
        cmocka_unit_test(saved_refuses_each_argument),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
