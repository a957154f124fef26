/* SPDX-License-Identifier: Apache-2.0 */
/* The progress thread: messages move while the caller is elsewhere, kernels run where the caller waits, and
 * the thread ends with its family. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#include "tests/api/shard.h"

enum { RANKS = 2, ROUNDS = 5, LOOKS = 30 };

/* Threads that the ranks of transport self have made, and whether they may. */
static _Thread_local int threads_made, threads_refused;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *arg)
{
    if (threads_refused)
        return EAGAIN;
    threads_made++;
    return __real_pthread_create(thread, attributes, body, arg);
}

struct test {
    struct meeting meeting[2];
    struct problem problem;
    const char *transport, *progress;
    atomic_int here[ROUNDS];
};

/* What a rank has. */
struct rank {
    struct test *test;
    int rank;
    rondo_comm_t comm;
    rondo_layout_t layout;
    rondo_kernel_t kernel;
    pthread_t caller;
    int calls, strangers; /* of the kernel: all, and those on another thread than the caller's */
};

static int counted_forward(void *context, const rondo_kernel_forward_t *args)
{
    struct rank *r = context;

    r->calls++;
    r->strangers += !pthread_equal(pthread_self(), r->caller);
    return rondo_kernel_find("flash")->forward(NULL, args);
}

static int counted_backward(void *context, const rondo_kernel_backward_t *args)
{
    struct rank *r = context;

    r->calls++;
    r->strangers += !pthread_equal(pthread_self(), r->caller);
    return rondo_kernel_find("flash")->backward(NULL, args);
}

static rondo_comm_t comm_with(struct meeting *meeting, int rank, const char *transport, const char *progress)
{
    rondo_config_t config = RONDO_CONFIG_INIT;
    rondo_comm_t comm = NULL;

    config.transport = transport;
    config.progress = progress;
    if (expect(!meet(meeting, rank, RANKS, &config, &comm), "no communicator: %s", rondo_last_error()))
        exit(1);
    return comm;
}

static void open_rank(struct rank *r, struct test *test, int which, int rank, const char *progress)
{
    *r = (struct rank){ .test = test, .rank = rank, .caller = pthread_self() };
    r->comm = comm_with(&test->meeting[which], rank, test->transport, progress);
    r->layout = layout_of(RONDO_LAYOUT_ZIGZAG, test->problem.tokens, RANKS);
    r->kernel = *rondo_kernel_find("flash");
    r->kernel.forward = counted_forward;
    r->kernel.backward = counted_backward;
    r->kernel.context = r;
}

static void close_rank(struct rank *r)
{
    rondo_layout_destroy(r->layout);
    rondo_comm_destroy(r->comm);
}

static rondo_plan_t plan_on(rondo_comm_t comm, struct rank *r)
{
    rondo_attention_desc_t desc = desc_of(&r->test->problem);
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_plan_t plan = NULL;

    options.schedule = "ring";
    options.kernel = &r->kernel;
    options.max_in_flight = 2;
    if (expect(!rondo_attention_plan(comm, r->layout, &desc, &options, &plan), "plan: %s", rondo_last_error()))
        exit(1);
    return plan;
}

static int start(rondo_plan_t plan, const struct shard *shard, rondo_request_t *request)
{
    rondo_attention_fwd_t fwd = shard_forward_tensors(shard);

    return expect(!rondo_attention_forward(plan, &fwd, NULL, request), "start: %s", rondo_last_error());
}

static int finish(rondo_request_t *request, const struct rank *r, const struct shard *shard)
{
    int bad = expect(!rondo_wait(request, WAIT_MS), "wait: %s", rondo_last_error());

    return bad + expect(bad || shard_forward_error(shard, &r->test->problem) <= SHARD_BAR, "o is off");
}

/* In and out, also what is read in place. */
static uint64_t moved_bytes(rondo_plan_t plan)
{
    rondo_plan_stats_t stats = RONDO_PLAN_STATS_INIT;

    if (expect(!rondo_plan_stats(plan, &stats), "stats: %s", rondo_last_error()))
        exit(1);
    return stats.sent_bytes[0] + stats.sent_bytes[1] + stats.received_bytes[0] + stats.received_bytes[1] +
           stats.bound_bytes;
}

/* Looks without moving anything; returns what has moved at the end. */
static uint64_t await_bytes(rondo_plan_t plan, uint64_t wanted, int64_t most_ns)
{
    int64_t deadline_ns = ri_now_ns() + most_ns;

    while (moved_bytes(plan) < wanted && ri_now_ns() < deadline_ns)
        usleep(1000);
    return moved_bytes(plan);
}

static void run(const char *transport, const char *progress, int (*body)(int, int, void *))
{
    struct test *t = shared_memory(sizeof(*t));

    t->transport = transport;
    t->progress = progress;
    t->problem = (struct problem){ .batch = 2, .tokens = 61, .q_heads = 4, .kv_heads = 2, .qk_dim = 16,
                                   .v_dim = 16 };
    problem_init(&t->problem, 5);
    assert_int_equal(run_ranks(RANKS, ranks_want_processes(transport), 90, body, t), 0);
    problem_release(&t->problem);
    shared_memory_release(t, sizeof(*t));
}

/* ---- a forward whose caller is elsewhere ---- */

static int elsewhere_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    int has_thread = strcmp(t->progress, "thread") == 0, bad = 0;
    rondo_request_t request = NULL;
    struct shard shard;
    struct rank r;
    rondo_plan_t plan;
    uint64_t one, moved;

    open_rank(&r, t, 0, rank, t->progress);
    shard_init(&shard, r.layout, rank, &t->problem);
    plan = plan_on(r.comm, &r);
    bad += start(plan, &shard, &request) + finish(&request, &r, &shard);
    one = moved_bytes(plan);
    for (int i = 0; i < ROUNDS && !bad; i++) {
        uint64_t before = moved_bytes(plan);
        int calls = r.calls;

        shard_clear(&shard);
        bad += start(plan, &shard, &request) + everyone_is_here(&t->here[i], ranks);
        moved = await_bytes(plan, before + one, has_thread ? HERE_NS : LOOKS * 1000000) - before;
        bad += expect(moved == (has_thread ? one : 0), "%s: %lld of %lld bytes moved on their own", t->progress,
                      (long long)moved, (long long)one);
        bad += expect(r.calls == calls, "a kernel ran on its own") + finish(&request, &r, &shard);
        bad += expect(r.calls > calls && r.strangers == 0, "%d of %d calls of the kernel on a foreign thread",
                      r.strangers, r.calls);
    }
    rondo_plan_destroy(plan);
    shard_release(&shard);
    close_rank(&r);
    return bad;
}

static void messages_move_while_the_caller_is_elsewhere(void **state)
{
    (void)state;
    run("self", "thread", elsewhere_body);
    run("shm", "thread", elsewhere_body);
}

static void nothing_moves_without_the_thread(void **state)
{
    (void)state;
    run("self", "caller", elsewhere_body);
    run("shm", "caller", elsewhere_body);
}

/* ---- the same bits ---- */

static int bits_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    struct shard shards[2];
    int bad = 0;

    for (int i = 0; i < 2; i++) {
        struct rank r;
        rondo_plan_t plan;

        open_rank(&r, t, i, rank, i ? "thread" : "caller");
        shard_init(&shards[i], r.layout, rank, &t->problem);
        plan = plan_on(r.comm, &r);
        for (int round = 0; round < ROUNDS && !bad; round++)
            bad += expect(!shard_both(plan, &shards[i]), "both: %s", rondo_last_error());
        bad += expect(r.calls > 0 && r.strangers == 0, "%d calls of the kernel on a foreign thread", r.strangers);
        rondo_plan_destroy(plan);
        close_rank(&r);
    }
    bad += expect(memcmp(shards[0].outputs, shards[1].outputs, shards[0].output_count * sizeof(float)) == 0,
                  "rank %d of %d has other bits with the thread", rank, ranks);
    for (int i = 0; i < 2; i++)
        shard_release(&shards[i]);
    return bad;
}

static void results_are_the_same_bits(void **state)
{
    (void)state;
    run("self", NULL, bits_body);
    run("shm", NULL, bits_body);
}

/* ---- two plans, and a part ---- */

static int family_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    int made = threads_made, bad = 0;
    rondo_request_t requests[3];
    struct shard shards[3];
    rondo_comm_t part = NULL;
    rondo_plan_t plans[3];
    struct rank r;

    open_rank(&r, t, 0, rank, "thread");
    bad += expect(!rondo_comm_split(r.comm, 0, rank, &part), "split: %s", rondo_last_error());
    bad += expect(threads_made == made + 1, "a family has %d threads", threads_made - made);
    for (int i = 0; i < 3; i++) {
        shard_init(&shards[i], r.layout, rank, &t->problem);
        plans[i] = plan_on(i == 1 ? part : r.comm, &r);
    }
    for (int round = 0; round < ROUNDS && !bad; round++) {
        uint64_t before = moved_bytes(plans[1]);

        for (int i = 0; i < 3; i++) {
            shard_clear(&shards[i]);
            bad += start(plans[i], &shards[i], &requests[i]);
        }
        /* Of each the same moves, and the waits are in crossed order. */
        for (int i = 0; i < 3 && round; i++)
            bad += expect(await_bytes(plans[i], before + before / (uint64_t)round, HERE_NS) > before,
                          "plan %d moves nothing", i);
        for (int i = 0; i < 3; i++)
            bad += finish(&requests[rank ? 2 - i : i], &r, &shards[rank ? 2 - i : i]);
    }
    bad += expect(r.strangers == 0, "%d calls of the kernel on a foreign thread", r.strangers);
    for (int i = 0; i < 3; i++) {
        rondo_plan_destroy(plans[i]);
        shard_release(&shards[i]);
    }
    close_rank(&r); /* the part lives on, and the thread with it */
    bad += expect(!rondo_barrier(part, NULL, &requests[0]) && !rondo_wait(&requests[0], WAIT_MS), "barrier: %s",
                  rondo_last_error());
    rondo_comm_destroy(part);
    return bad + expect(ranks == RANKS, "there are %d ranks", ranks);
}

static void a_family_has_one_thread(void **state)
{
    (void)state;
    run("self", NULL, family_body);
    run("shm", NULL, family_body);
}

/* ---- the end of a run that is under way ---- */

static int leave_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_request_t request = NULL;
    struct shard shard;
    struct rank r;
    rondo_plan_t plan;
    int bad, err;

    open_rank(&r, t, 0, rank, "thread");
    shard_init(&shard, r.layout, rank, &t->problem);
    plan = plan_on(r.comm, &r);
    bad = everyone_is_here(&t->here[0], ranks) + start(plan, &shard, &request);
    if (rank == 0) { /* who has all before it hears of it is done */
        err = rondo_wait(&request, WAIT_MS);
        bad += expect_error(err, err ? RONDO_ERR_PEER : 0, "rank 1", NULL, "waiting for who has left");
    }
    rondo_plan_destroy(plan);
    shard_release(&shard);
    close_rank(&r);
    return bad;
}

static void destroyed_while_under_way(void **state)
{
    (void)state;
    run("self", NULL, leave_body);
    run("shm", NULL, leave_body);
}

/* ---- failures ---- */

static int has_failed(rondo_comm_t comm)
{
    int failed;

    if (ri_comm_enter(comm))
        return 0;
    failed = comm->failed;
    return ri_comm_leave(comm, failed);
}

/* Rank 1 never starts; the thread of rank 0 hears why. */
static int failure_body(int rank, int ranks, void *arg)
{
    int64_t deadline_ns = ri_now_ns() + HERE_NS;
    struct test *t = arg;
    rondo_request_t request = NULL;
    struct shard shard;
    struct rank r;
    rondo_plan_t plan;
    int bad = 0;

    open_rank(&r, t, 0, rank, "thread");
    shard_init(&shard, r.layout, rank, &t->problem);
    plan = plan_on(r.comm, &r);
    if (rank == 0)
        bad += start(plan, &shard, &request);
    bad += everyone_is_here(&t->here[0], ranks);
    if (rank == 1) {
        bad += expect(!rondo_comm_abort(r.comm), "abort: %s", rondo_last_error());
    } else {
        while (!has_failed(r.comm) && ri_now_ns() < deadline_ns)
            usleep(1000);
        bad += expect(has_failed(r.comm) == RONDO_ERR_PEER, "the thread has not heard");
        bad += expect_error(rondo_wait(&request, WAIT_MS), RONDO_ERR_PEER, "rank 1", "rondo_comm_abort", "wait");
    }
    rondo_plan_destroy(plan);
    shard_release(&shard);
    close_rank(&r);
    return bad;
}

static void a_failure_under_the_thread_is_the_waits(void **state)
{
    (void)state;
    run("self", NULL, failure_body);
    run("shm", NULL, failure_body);
}

static int refusal_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    int has_no_thread = strcmp(t->progress, "thread") == 0;
    rondo_config_t config = RONDO_CONFIG_INIT;
    rondo_comm_t comm = NULL;
    int err, bad;

    config.transport = t->transport;
    config.progress = rank == 1 ? t->progress : NULL;
    threads_refused = rank == 1 && has_no_thread;
    err = meet(&t->meeting[0], rank, ranks, &config, &comm);
    threads_refused = 0;
    if (rank == 0)
        bad = expect_error(err, RONDO_ERR_PEER, "rank 1", has_no_thread ? "RONDO_PROGRESS" : "config->progress", "0");
    else if (has_no_thread)
        bad = expect_error(err, RONDO_ERR_SYSTEM, "RONDO_PROGRESS", "thread", "1");
    else
        bad = expect_error(err, RONDO_ERR_ARGUMENT, "config->progress='often'", "caller or thread", "1");
    return bad + expect(!comm, "a communicator came");
}

static void every_rank_hears_of_a_refusal(void **state)
{
    (void)state;
    run("self", "often", refusal_body);
    run("self", "thread", refusal_body);
}

/* Of a communicator of one rank. */
static int create_alone(const rondo_config_t *config)
{
    rondo_unique_id_t id;
    rondo_comm_t comm = NULL;
    int err;

    assert_int_equal(rondo_unique_id_get(&id), 0);
    err = rondo_comm_create(&id, 0, 1, config, &comm);
    rondo_comm_destroy(comm);
    return err;
}

static void the_environment_is_asked(void **state)
{
    rondo_config_t config = RONDO_CONFIG_INIT;

    (void)state;
    setenv("RONDO_PROGRESS", "often", 1);
    assert_int_equal(create_alone(NULL), RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(rondo_last_error(), "RONDO_PROGRESS='often'"));
    setenv("RONDO_PROGRESS", "thread", 1);
    assert_int_equal(create_alone(NULL), 0);
    config.progress = "often";
    assert_int_equal(create_alone(&config), RONDO_ERR_ARGUMENT);
    config.struct_bytes = offsetof(rondo_config_t, progress); /* a caller that does not know it */
    assert_int_equal(create_alone(&config), 0);
    unsetenv("RONDO_PROGRESS");
    assert_int_equal(threads_made, 0); /* alone, it has nothing to move */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_environment_is_asked),
        cmocka_unit_test(every_rank_hears_of_a_refusal),
        cmocka_unit_test(messages_move_while_the_caller_is_elsewhere),
        cmocka_unit_test(nothing_moves_without_the_thread),
        cmocka_unit_test(results_are_the_same_bits),
        cmocka_unit_test(a_family_has_one_thread),
        cmocka_unit_test(destroyed_while_under_way),
        cmocka_unit_test(a_failure_under_the_thread_is_the_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
