/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that polls during a call: messages, merges and failures come through meanwhile. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "tests/api/shard.h"

enum { RANKS = 3, POLLS = 200 };
#define LONG_NS ((int64_t)20000000000)

struct test {
    struct meeting meeting;
    struct problem problem;
    const char *transport, *schedule, *backward;
    atomic_int at_last, planned; /* ranks that have begun their last call; that have a plan */
};

/* What a rank has. */
struct rank {
    struct test *test;
    int number, calls;
    int patient; /* polls before each call computes; -1: only the first polls, until others are at their last */
    rondo_comm_t comm;
    rondo_layout_t layout;
    rondo_kernel_t kernel;
    struct shard shard;
};

/* Until both others have all blocks: one of them has its last through this rank.  At most 20 s. */
static int await_others(struct rank *r, int (*poll)(void *poller), void *poller)
{
    int64_t end_ns = ri_now_ns() + LONG_NS;
    int stopped = 0;

    while (!stopped && atomic_load(&r->test->at_last) < RANKS - 1 && ri_now_ns() < end_ns) {
        stopped = poll(poller);
        sched_yield();
    }
    return stopped + expect(stopped || atomic_load(&r->test->at_last) >= RANKS - 1, "the others wait for ever");
}

static int poll_first(struct rank *r, int (*poll)(void *poller), void *poller)
{
    int call = r->calls++, stopped = expect(poll != NULL, "there is nothing to poll");

    if (r->patient < 0 && call == 0)
        return stopped ? stopped : await_others(r, poll, poller);
    if (call == RANKS - 1)
        atomic_fetch_add(&r->test->at_last, 1);
    for (int i = 0; !stopped && i < r->patient; i++) {
        stopped = poll(poller);
        sched_yield();
    }
    return stopped;
}

static int forward(void *context, const rondo_kernel_forward_t *args)
{
    int stopped = poll_first(context, args->poll, args->poller);

    return stopped ? stopped : rondo_kernel_find("flash")->forward(NULL, args);
}

static int backward(void *context, const rondo_kernel_backward_t *args)
{
    int stopped = poll_first(context, args->poll, args->poller);

    return stopped ? stopped : rondo_kernel_find("flash")->backward(NULL, args);
}

static rondo_plan_t open_rank(struct rank *r, struct test *t, int number)
{
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_plan_t plan = NULL;

    *r = (struct rank){ .test = t, .number = number };
    r->comm = comm_of(&t->meeting, number, RANKS, t->transport);
    r->layout = layout_of(RONDO_LAYOUT_CONTIGUOUS, t->problem.tokens, RANKS);
    r->kernel = *rondo_kernel_find("flash");
    r->kernel.forward = forward, r->kernel.backward = backward, r->kernel.context = r;
    shard_init(&r->shard, r->layout, number, &t->problem);
    options.kernel = &r->kernel;
    options.schedule = t->schedule, options.backward = t->backward;
    expect(!rondo_attention_plan(r->comm, r->layout, &desc, &options, &plan), "plan: %s", rondo_last_error());
    return plan;
}

static int close_rank(struct rank *r, rondo_plan_t plan, int bad)
{
    rondo_plan_destroy(plan);
    shard_release(&r->shard);
    rondo_layout_destroy(r->layout);
    rondo_comm_destroy(r->comm);
    return bad;
}

static void run(const char *transport, const char *schedule, const char *how, int (*body)(int, int, void *))
{
    struct test *t = shared_memory(sizeof(*t));

    t->problem = (struct problem){ .batch = 1, .tokens = 30, .q_heads = 2, .kv_heads = 2, .qk_dim = 8, .v_dim = 8 };
    problem_init(&t->problem, 5);
    t->transport = transport, t->schedule = schedule, t->backward = how;
    assert_int_equal(run_ranks(RANKS, ranks_want_processes(transport), 60, body, t), 0);
    problem_release(&t->problem);
}

/* ---- messages move during a call ---- */

static int long_call_body(int number, int ranks, void *arg)
{
    struct test *t = arg;
    struct rank r;
    rondo_plan_t plan = open_rank(&r, t, number);
    int bad = !plan || ranks != RANKS;

    r.patient = number == 0 ? -1 : 0;
    bad = bad || expect(!shard_forward(plan, &r.shard), "forward: %s", rondo_last_error());
    bad = bad || expect(shard_forward_error(&r.shard, &t->problem) <= SHARD_BAR, "o is wrong");
    bad = bad || expect(r.calls == RANKS, "%d calls", r.calls);
    return close_rank(&r, plan, bad);
}

static void blocks_are_passed_on_during_a_call(void **state)
{
    (void)state;
    run("self", "ring", "none", long_call_body);
    run("shm", "ring", "none", long_call_body);
    run("ucx", "ring", "none", long_call_body);
}

/* ---- the same bits, whatever comes in between ---- */

static int bits_body(int number, int ranks, void *arg)
{
    struct test *t = arg;
    struct rank r;
    rondo_plan_t plan = open_rank(&r, t, number);
    struct shard impatient;
    int bad = !plan || ranks != RANKS;

    shard_init(&impatient, r.layout, number, &t->problem);
    bad = bad || expect(!shard_both(plan, &impatient), "both: %s", rondo_last_error());
    for (int round = 0; round < RANKS && !bad; round++) {
        r.patient = (number + round) % RANKS * POLLS;
        shard_clear(&r.shard);
        bad = expect(!shard_both(plan, &r.shard), "both: %s", rondo_last_error());
        bad += expect(memcmp(r.shard.outputs, impatient.outputs, impatient.output_count * sizeof(float)) == 0,
                      "%s, %s: polls give other bits", t->schedule, t->backward);
    }
    bad = bad || expect(shard_backward_error(&r.shard, &t->problem) <= SHARD_BAR, "gradients are wrong");
    shard_release(&impatient);
    return close_rank(&r, plan, bad);
}

static void polls_change_no_bit(void **state)
{
    static const char *const schedules[] = { "ring", "two-level", "direct" };
    static const char *const transports[] = { "self", "shm" };

    (void)state;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++) {
            run(transports[k], schedules[i], "kv-grad", bits_body);
            run(transports[k], schedules[i], "q-grad", bits_body);
        }
}

/* ---- a failure ends the call ---- */

static int failure_body(int number, int ranks, void *arg)
{
    struct test *t = arg;
    struct rank r;
    rondo_plan_t plan = open_rank(&r, t, number);
    int bad = !plan || ranks != RANKS, err;

    atomic_fetch_add(&t->planned, 1);
    if (number == 1) { /* when all have a plan */
        for (int64_t end_ns = ri_now_ns() + LONG_NS; atomic_load(&t->planned) < RANKS && ri_now_ns() < end_ns;)
            sched_yield();
        bad = bad || expect(!rondo_comm_abort(r.comm), "abort: %s", rondo_last_error());
        return close_rank(&r, plan, bad);
    }
    r.patient = number == 0 ? -1 : 0; /* nobody comes to a last call */
    err = bad ? 0 : shard_forward(plan, &r.shard);
    bad += expect_error(err, RONDO_ERR_PEER, "rank 1", "rondo_comm_abort", "forward");
    return close_rank(&r, plan, bad);
}

static void a_poll_says_that_the_call_is_in_vain(void **state)
{
    int64_t begin_ns = ri_now_ns();

    (void)state;
    run("self", "ring", "none", failure_body);
    run("shm", "ring", "none", failure_body);
    assert_true(ri_now_ns() - begin_ns < LONG_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_passed_on_during_a_call),
        cmocka_unit_test(polls_change_no_bit),
        cmocka_unit_test(a_poll_says_that_the_call_is_in_vain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
