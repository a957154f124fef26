/* SPDX-License-Identifier: Apache-2.0 */
/* A rank gives up while another reads its tensors in place: it gets them back, and may free them. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/api/shard.h"

struct test {
    struct meeting meeting;
    struct problem problem;
    atomic_int opened, gives, reads, given_up, used; /* used: rank 0's other thread has had its turn since */
    int holds;          /* rank 1 stays in the kernel until then */
    int calls_late;     /* kernels of rank 1 after rank 0 has its tensors back */
    rondo_comm_t comm;  /* of rank 0 */
};

/* At most 20 s, so that a broken test ends. */
static int until(atomic_int *flag)
{
    int64_t end_ns = ri_now_ns() + (int64_t)20000000000;

    while (!atomic_load(flag) && ri_now_ns() < end_ns)
        sched_yield();
    return expect(atomic_load(flag), "nothing happened for 20 s");
}

/* Of rank 1: the second call is the first that reads the keys of rank 0. */
static int slow_forward(void *context, const rondo_kernel_forward_t *args)
{
    struct test *t = context;
    int err;

    t->calls_late += atomic_load(&t->given_up);
    err = rondo_kernel_find("reference")->forward(NULL, args);
    if (atomic_fetch_add(&t->reads, 1) == 1 && t->holds)
        until(&t->used);
    return err;
}

static rondo_plan_t plan_of(struct test *t, rondo_comm_t comm, int rank, struct shard *shard)
{
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_CONTIGUOUS, t->problem.tokens, 2);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_kernel_t kernel = *rondo_kernel_find("reference");
    rondo_plan_t plan = NULL;

    kernel.forward = slow_forward;
    kernel.context = t;
    options.schedule = "ring";
    options.kernel = rank == 1 ? &kernel : NULL;
    if (expect(!rondo_attention_plan(comm, layout, &desc, &options, &plan), "%s", rondo_last_error()))
        exit(1);
    shard_init(shard, layout, rank, &t->problem);
    rondo_layout_destroy(layout);
    return plan;
}

/* The other thread of rank 0: its first call after the failure comes while the wait gives up. */
static void *use_beside(void *argument)
{
    struct test *t = argument;

    while (!rondo_comm_progress(t->comm))
        sched_yield();
    atomic_store(&t->used, 1);
    return NULL;
}

static int give_up(struct test *t, rondo_comm_t comm, rondo_plan_t plan, struct shard *shard)
{
    rondo_attention_fwd_t tensors = shard_forward_tensors(shard);
    rondo_request_t request = NULL;
    pthread_t other;
    int bad, err;

    t->comm = comm;
    bad = expect(!rondo_attention_forward(plan, &tensors, NULL, &request), "%s", rondo_last_error());
    atomic_store(&t->gives, 1);
    do
        rondo_comm_progress(comm);
    while (atomic_load(&t->reads) < 1 + t->holds);
    bad += expect(!pthread_create(&other, NULL, use_beside, t), "no thread");
    err = rondo_wait(&request, 300);
    bad += expect(!t->holds || atomic_load(&t->used), "the wait kept the lock while it gave up");
    shard_release(shard); /* the sanitizer sees who reads on */
    atomic_store(&t->given_up, 1);
    pthread_join(other, NULL);
    return bad + expect(err == RONDO_ERR_TIMEOUT, "status %d", err);
}

/* Rank 1 has what it reads, and calls no more of Rondo, or is inside a kernel. */
static int read_on(struct test *t, rondo_comm_t comm, rondo_plan_t plan, struct shard *shard)
{
    rondo_attention_fwd_t tensors = shard_forward_tensors(shard);
    rondo_request_t request = NULL;
    int bad = until(&t->gives), done = 0, err;

    (void)comm;
    bad += expect(!rondo_attention_forward(plan, &tensors, NULL, &request), "%s", rondo_last_error());
    while (!t->holds && atomic_load(&t->reads) < 1)
        bad += expect(!rondo_test(&request, &done), "%s", rondo_last_error());
    if (!t->holds)
        bad += until(&t->given_up);
    err = rondo_wait(&request, WAIT_MS);
    if (err || !t->holds) /* what it ended was all that it had to do */
        bad += expect_error(err, RONDO_ERR_PEER, "rank 0", NULL, "wait");
    bad += expect(!t->calls_late, "%d kernels were called for what rank 0 took back", t->calls_late);
    shard_release(shard);
    return bad;
}

static int body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    struct shard shard;
    rondo_plan_t plan = plan_of(t, comm, rank, &shard);
    int bad;

    atomic_fetch_add(&t->opened, 1);
    while (atomic_load(&t->opened) < ranks)
        sched_yield();
    bad = (rank ? read_on : give_up)(t, comm, plan, &shard);
    rondo_plan_destroy(plan);
    rondo_comm_destroy(comm);
    return bad;
}

static void run(int holds)
{
    struct test *t = shared_memory(sizeof(*t));

    t->problem = (struct problem){ .batch = 1, .tokens = 8, .q_heads = 2, .kv_heads = 1, .qk_dim = 4,
                                   .v_dim = 4 };
    t->holds = holds;
    problem_init(&t->problem, 4);
    assert_int_equal(run_ranks(2, 0, 90, body, t), 0);
    problem_release(&t->problem);
}

static void who_is_away_reads_no_more(void **state)
{
    (void)state;
    run(0);
}

static void who_is_in_a_kernel_ends_it_first(void **state)
{
    (void)state;
    run(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_away_reads_no_more),
        cmocka_unit_test(who_is_in_a_kernel_ends_it_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
