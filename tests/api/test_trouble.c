/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that come late, fail, die or call in another order: every rank hears of it, with the name of
 * the one at fault, and nothing hangs. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/api/shard.h"
#include "transport/transport.h"

enum { SOON_MS = 10000 };

struct test {
    struct meeting meeting[2];
    struct problem problem;
    int culprit;
    atomic_int opened, started, moved, ended;
};

/* Waits, without a call of Rondo, until `ranks` ranks are as far. */
static void until(atomic_int *counter, int ranks)
{
    while (atomic_load(counter) < ranks)
        sched_yield();
}

/* What each rank of these tests has. */
struct setting {
    int rank, ranks;
    struct test *test;
    rondo_comm_t comm;
    rondo_plan_t plan;
    struct shard shard;
};

static int open_setting(struct setting *s, int rank, int ranks, struct test *t, const char *transport,
                        const rondo_kernel_t *kernel)
{
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_ZIGZAG, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    int err;

    *s = (struct setting){ .rank = rank, .ranks = ranks, .test = t };
    s->comm = comm_of(&t->meeting[0], rank, ranks, transport);
    shard_init(&s->shard, layout, rank, &t->problem);
    options.kernel = kernel;
    err = rondo_attention_plan(s->comm, layout, &desc, &options, &s->plan);
    rondo_layout_destroy(layout);
    atomic_fetch_add(&t->opened, 1);
    until(&t->opened, ranks); /* no rank fails while another is still making its plan */
    return expect(!err, "plan: %s", rondo_last_error());
}

/* Destroying is quick, whatever has happened. */
static int close_setting(struct setting *s)
{
    int64_t begin_ns = ri_now_ns();

    rondo_plan_destroy(s->plan);
    rondo_comm_destroy(s->comm);
    shard_release(&s->shard);
    return expect(ri_now_ns() - begin_ns < (int64_t)3000000000, "destroy took %lld ms",
                  (long long)((ri_now_ns() - begin_ns) / 1000000));
}

static void run(int ranks, int processes, int expected_failures, int culprit, int (*body)(int, int, void *))
{
    struct test *t = shared_memory(sizeof(*t));

    t->problem = (struct problem){ .batch = 1, .tokens = 4 * ranks, .causal = 0, .q_heads = 2, .kv_heads = 1,
                                   .qk_dim = 4, .v_dim = 4 };
    t->culprit = culprit;
    problem_init(&t->problem, 4);
    assert_int_equal(run_ranks(ranks, processes, 90, body, t), expected_failures);
    problem_release(&t->problem);
}

/* After a failure all calls return the first cause. */
static int refuses_all(const struct setting *s, int cause, const char *word)
{
    rondo_attention_fwd_t fwd = shard_forward_tensors(&s->shard);
    rondo_request_t r = NULL;
    rondo_plan_t plan = NULL;
    float x = 0;
    int bad = expect_error(rondo_attention_forward(s->plan, &fwd, NULL, &r), cause, word, NULL, "forward");

    bad += expect_error(rondo_barrier(s->comm, NULL, &r), cause, word, NULL, "barrier");
    bad += expect_error(rondo_all_reduce(s->comm, &x, &x, 1, RONDO_F32, NULL, &r), cause, word, NULL, "sum");
    bad += expect_error(rondo_comm_progress(s->comm), cause, word, NULL, "progress");
    bad += expect_error(rondo_attention_plan(s->comm, NULL, NULL, NULL, &plan), cause, word, NULL, "plan");
    return bad + expect(!r && !plan, "a failed communicator touched a handle");
}

/* ---- a rank that never starts ---- */

/* The others have all begun, and have what they can give each other: they wait for the late rank alone. */
static int move_what_can_be(atomic_int *started, atomic_int *moved, int others, rondo_request_t request)
{
    int done = 0, err = everyone_is_here(started, others) ? RONDO_ERR_TIMEOUT : 0;

    for (int i = 0; i < 100 && !err; i++)
        err = rondo_test(&request, &done);
    if (!err && everyone_is_here(moved, others))
        err = RONDO_ERR_TIMEOUT;
    return err;
}

static int late_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    struct setting s;
    rondo_attention_fwd_t fwd;
    rondo_request_t r = NULL;
    int64_t begin_ns;
    char name[] = "rank 0";
    int bad = open_setting(&s, rank, ranks, t, "self", NULL), err;

    name[5] = (char)('0' + t->culprit);
    fwd = shard_forward_tensors(&s.shard);
    if (rank == t->culprit)
        until(&t->ended, ranks - 1);
    begin_ns = ri_now_ns();
    err = rondo_attention_forward(s.plan, &fwd, NULL, &r);
    if (!err && rank != t->culprit)
        err = move_what_can_be(&t->started, &t->moved, ranks - 1, r);
    if (!err)
        err = rondo_wait(&r, 300);
    bad += expect(ri_now_ns() - begin_ns < (int64_t)SOON_MS * 1000000, "the wait went on and on");
    bad += expect(!r, "the request is not taken");
    if (err == RONDO_ERR_TIMEOUT && rank != t->culprit) {
        bad += expect_error(err, RONDO_ERR_TIMEOUT, "waited 300 ms in ring_forward step", name, "wait");
    } else { /* another rank's 300 ms were over first */
        bad += expect_error(err, RONDO_ERR_PEER, "rank", "gave up", "wait");
        bad += expect_error(err, RONDO_ERR_PEER, "waited 300 ms", NULL, "wait");
    }
    bad += refuses_all(&s, err, "waited 300 ms");
    atomic_fetch_add(&t->ended, 1);
    until(&t->ended, ranks);
    return bad + close_setting(&s);
}

static void a_late_rank_times_others_out(void **state)
{
    (void)state;
    for (int culprit = 0; culprit < 3; culprit++)
        run(3, 0, 0, culprit, late_body);
    run(2, 0, 0, 1, late_body);
}

/* ---- a kernel that fails ---- */

static int failing_forward(void *context, const rondo_kernel_forward_t *args)
{
    (void)args;
    return *(const int *)context;
}

static int kernel_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_kernel_t kernel = *rondo_kernel_find("reference");
    int code = -77, bad, err;
    struct setting s;

    kernel.name = "glass";
    kernel.context = &code;
    kernel.forward = failing_forward;
    bad = open_setting(&s, rank, ranks, t, "self", rank == t->culprit ? &kernel : NULL);
    err = shard_forward(s.plan, &s.shard);
    if (!err) /* its part was done before the failure: the next call ends */
        err = shard_forward(s.plan, &s.shard);
    if (rank == t->culprit)
        bad += expect_error(err, RONDO_ERR_KERNEL, "kernel glass returned -77", "step", "forward");
    else
        bad += expect_error(err, RONDO_ERR_PEER, t->culprit ? "rank 1" : "rank 0", "kernel glass returned -77",
                            "forward");
    bad += refuses_all(&s, err, "kernel glass returned -77");
    return bad + close_setting(&s);
}

static void a_failing_kernel_is_named_on_every_rank(void **state)
{
    (void)state;
    run(1, 0, 0, 0, kernel_body);
    run(2, 0, 0, 1, kernel_body);
    run(4, 0, 0, 1, kernel_body);
    run(4, 0, 0, 0, kernel_body);
}

/* ---- a rank that is killed ---- */

static int deadly_forward(void *context, const rondo_kernel_forward_t *args)
{
    (void)context, (void)args;
    raise(SIGKILL);
    return 0;
}

static int killed_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_kernel_t kernel = *rondo_kernel_find("reference");
    int64_t begin_ns;
    struct setting s;
    char name[16] = "rank ";
    int bad, err;

    name[5] = (char)('0' + t->culprit);
    kernel.forward = deadly_forward;
    bad = open_setting(&s, rank, ranks, t, "ucx", rank == t->culprit ? &kernel : NULL);
    begin_ns = ri_now_ns();
    err = shard_forward(s.plan, &s.shard);
    if (!err) /* its part was done before the death: the next call ends */
        err = shard_forward(s.plan, &s.shard);
    bad += expect_error(err, RONDO_ERR_PEER, name, NULL, "forward");
    bad += expect(ri_now_ns() - begin_ns < (int64_t)SOON_MS * 1000000, "a death was seen after %lld ms",
                  (long long)((ri_now_ns() - begin_ns) / 1000000));
    bad += refuses_all(&s, err, name);
    return bad + close_setting(&s);
}

static void a_killed_rank_is_named_by_the_others(void **state)
{
    (void)state;
    if (!ri_transport_find("ucx"))
        skip();
    for (int culprit = 0; culprit < 3; culprit++)
        run(3, 1, 1, culprit, killed_body);
    run(2, 1, 1, 1, killed_body);
}

/* ---- a rank that gives up ---- */

static int abort_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    struct setting s;
    int bad = open_setting(&s, rank, ranks, t, "self", NULL), err;

    if (rank == t->culprit) {
        bad += expect(rondo_comm_abort(s.comm) == 0, "abort: %s", rondo_last_error());
        bad += expect(rondo_comm_abort(s.comm) == 0, "second abort: %s", rondo_last_error());
        bad += refuses_all(&s, RONDO_ERR_PEER, "rondo_comm_abort");
    } else {
        err = shard_forward(s.plan, &s.shard);
        bad += expect_error(err, RONDO_ERR_PEER, t->culprit ? "rank 1" : "rank 0", "rondo_comm_abort", "forward");
        bad += refuses_all(&s, RONDO_ERR_PEER, "rondo_comm_abort");
    }
    return bad + close_setting(&s);
}

static void an_abort_ends_the_waits_of_others(void **state)
{
    (void)state;
    run(3, 0, 0, 0, abort_body);
    run(3, 0, 0, 1, abort_body);
}

/* A new communicator of the same ranks works after the old one has failed. */
static int again_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    struct setting s;
    rondo_comm_t comm;
    int bad = open_setting(&s, rank, ranks, t, "self", NULL);

    if (rank == 0)
        rondo_comm_abort(s.comm);
    else
        bad += expect(shard_forward(s.plan, &s.shard) < 0, "forward without rank 0");
    bad += close_setting(&s);
    comm = comm_of(&t->meeting[1], rank, ranks, "self");
    bad += run_problem(comm, RONDO_LAYOUT_STRIPED, &t->problem, NULL);
    rondo_comm_destroy(comm);
    return bad;
}

static void a_new_communicator_works_after_a_failure(void **state)
{
    (void)state;
    run(3, 0, 0, 0, again_body);
}

/* ---- sizes that differ (NVIDIA/nccl#1417) ---- */

static int sizes_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting[0], rank, ranks, t->culprit & 4 ? "shm" : t->culprit & 2 ? "ucx" : "self");
    double data[64] = { 1 };
    rondo_request_t r = NULL;
    int bad, err;

    if (t->culprit & 1)
        err = rondo_broadcast(comm, data, rank ? 40 : 41, 0, NULL, &r);
    else
        err = rondo_all_reduce(comm, data, data, rank ? 40 : 52, RONDO_F64, NULL, &r);
    if (!err)
        err = rondo_wait(&r, SOON_MS);
    if (!err) /* a sender is done before the receiver finds that it is not what it wanted */
        err = rondo_barrier(comm, NULL, &r);
    if (!err)
        err = rondo_wait(&r, SOON_MS);
    bad = expect(err == RONDO_ERR_TRANSPORT || err == RONDO_ERR_PEER || err == RONDO_ERR_MISMATCH,
                 "rank %d: status %d: %s", rank, err, rondo_last_error());
    bad += expect(strstr(rondo_last_error(), "bytes") != NULL, "no size in \"%s\"", rondo_last_error());
    rondo_comm_destroy(comm);
    return bad;
}

static void collectives_of_other_sizes_are_errors(void **state)
{
    (void)state;
    run(2, 0, 0, 0, sizes_body);
    run(2, 0, 0, 1, sizes_body);
    if (!ri_transport_find("ucx"))
        return;
    run(2, 1, 0, 2, sizes_body);
    run(2, 1, 0, 3, sizes_body);
    run(2, 1, 0, 4, sizes_body);
    run(2, 1, 0, 5, sizes_body);
}

/* ---- other orders on other ranks (NVIDIA/nccl#584) ---- */

/* Tests both until both are done. */
static int test_both(rondo_request_t *a, rondo_request_t *b)
{
    int64_t end_ns = ri_now_ns() + (int64_t)WAIT_MS * 1000000;
    int done[2] = { 0, 0 }, bad = 0;

    while (!bad && !(done[0] && done[1])) {
        bad += expect(rondo_test(a, &done[0]) == 0, "test: %s", rondo_last_error());
        bad += expect(rondo_test(b, &done[1]) == 0, "test: %s", rondo_last_error());
        bad += expect(ri_now_ns() < end_ns, "two requests hang");
        sched_yield();
    }
    return bad;
}

static int communicators_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    int first = rank < ranks / 2 ? 0 : 1, bad = 0;
    rondo_comm_t comms[2];
    rondo_request_t requests[2] = { NULL, NULL };

    for (int i = 0; i < 2; i++)
        comms[i] = comm_of(&t->meeting[i], rank, ranks, "self");
    for (int round = 0; round < 20 && !bad; round++) {
        float sums[2] = { 1, 10 };

        for (int i = 0; i < 2 && !bad; i++) {
            int which = i ^ first;

            bad += expect(!rondo_all_reduce(comms[which], &sums[which], &sums[which], 1, RONDO_F32, NULL,
                                            &requests[which]),
                          "all-reduce: %s", rondo_last_error());
        }
        if (!bad)
            bad += test_both(&requests[first], &requests[!first]);
        bad += expect(sums[0] == (float)ranks && sums[1] == 10 * (float)ranks, "sums %g %g", (double)sums[0],
                      (double)sums[1]);
    }
    rondo_comm_destroy(comms[first]);
    rondo_comm_destroy(comms[!first]);
    return bad;
}

static void two_communicators_in_other_orders(void **state)
{
    (void)state;
    run(4, 0, 0, 0, communicators_body);
}

static int plans_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    struct setting s;
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_STRIPED, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_attention_fwd_t tensors[2];
    rondo_request_t requests[2] = { NULL, NULL };
    rondo_plan_t plans[2] = { NULL, NULL };
    struct shard other;
    int bad = open_setting(&s, rank, ranks, t, "self", NULL), first = rank & 1;

    plans[0] = s.plan;
    shard_init(&other, layout, rank, &t->problem);
    options.max_in_flight = 2;
    bad += expect(!rondo_attention_plan(s.comm, layout, &desc, &options, &plans[1]), "%s", rondo_last_error());
    tensors[0] = shard_forward_tensors(&s.shard);
    tensors[1] = shard_forward_tensors(&other);
    for (int round = 0; round < 20 && !bad; round++) {
        for (int i = 0; i < 2; i++) /* ranks start, and wait, in another order */
            bad += expect(!rondo_attention_forward(plans[i ^ first], &tensors[i ^ first], NULL, &requests[i ^ first]),
                          "forward: %s", rondo_last_error());
        for (int i = 0; i < 2 && !bad; i++)
            bad += expect(!rondo_wait(&requests[i ^ first], WAIT_MS), "wait: %s", rondo_last_error());
    }
    bad += expect(shard_forward_error(&s.shard, &t->problem) <= SHARD_BAR, "the first plan is off");
    bad += expect(shard_forward_error(&other, &t->problem) <= SHARD_BAR, "the second plan is off");
    rondo_plan_destroy(plans[1]);
    rondo_layout_destroy(layout);
    shard_release(&other);
    return bad + close_setting(&s);
}

static void two_plans_in_other_orders(void **state)
{
    (void)state;
    run(2, 0, 0, 0, plans_body);
    run(3, 0, 0, 0, plans_body);
}

/* ---- making and ending ---- */

static int cancel_body(int rank, int ranks, void *arg)
{
    struct setting s;
    rondo_attention_fwd_t fwd;
    rondo_request_t r = NULL, barrier = NULL;
    int bad = open_setting(&s, rank, ranks, arg, "self", NULL);

    /* Nobody waits: plan and communicator end with both under way. */
    fwd = shard_forward_tensors(&s.shard);
    bad += expect(!rondo_attention_forward(s.plan, &fwd, NULL, &r), "forward: %s", rondo_last_error());
    bad += expect(!rondo_barrier(s.comm, NULL, &barrier), "barrier: %s", rondo_last_error());
    bad += everyone_is_here(&s.test->started, ranks); /* else who began later could hear of who ends first */
    return bad + close_setting(&s);
}

static void what_is_under_way_can_be_destroyed(void **state)
{
    (void)state;
    run(3, 0, 0, 0, cancel_body);
}

static int open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void a_hundred_communicators_leave_no_file_open(void **state)
{
    int before = 0;

    (void)state;
    for (int i = 0; i < 100; i++) {
        if (i == 1)
            before = open_files();
        run(i % 3 + 1, 0, 0, 0, plans_body);
    }
    assert_int_equal(open_files(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_rank_times_others_out),
        cmocka_unit_test(a_failing_kernel_is_named_on_every_rank),
        cmocka_unit_test(a_killed_rank_is_named_by_the_others),
        cmocka_unit_test(an_abort_ends_the_waits_of_others),
        cmocka_unit_test(a_new_communicator_works_after_a_failure),
        cmocka_unit_test(collectives_of_other_sizes_are_errors),
        cmocka_unit_test(two_communicators_in_other_orders),
        cmocka_unit_test(two_plans_in_other_orders),
        cmocka_unit_test(what_is_under_way_can_be_destroyed),
        cmocka_unit_test(a_hundred_communicators_leave_no_file_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
