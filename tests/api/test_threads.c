/* SPDX-License-Identifier: Apache-2.0 */
/* Several threads of each rank use one communicator: one starts forwards, another the backwards of what
 * they gave, one makes plans and parts and waits for barriers, one only looks (open-mpi/ompi#8927). */
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

#include "tests/api/shard.h"
#include "tests/threads.h"

enum { LAYERS = 2, STEPS = 12, JOBS = 4 };

/* What one layer's plan has done: the forward of step s comes after the backward of step s - 1. */
struct layer {
    rondo_plan_t plan;
    struct shard shard;
    int forwards, backwards; /* under the lock */
};

struct test {
    struct meeting meeting;
    struct problem problem;
};

/* One rank. */
struct rank {
    struct test *test;
    rondo_comm_t comm;
    rondo_layout_t layout;
    struct layer layers[LAYERS];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_int bad, running; /* jobs but the looker's */
};

static void say_done(struct rank *r, int *count)
{
    pthread_mutex_lock(&r->lock);
    (*count)++;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static void await_count(struct rank *r, const int *count, int wanted)
{
    pthread_mutex_lock(&r->lock);
    while (*count < wanted && !atomic_load(&r->bad))
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

static void count_bad(struct rank *r, int bad)
{
    if (!bad)
        return;
    pthread_mutex_lock(&r->lock);
    atomic_fetch_add(&r->bad, bad);
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static void do_forwards(struct rank *r)
{
    for (int i = 0; i < LAYERS * STEPS && !atomic_load(&r->bad); i++) {
        struct layer *layer = &r->layers[i % LAYERS];

        await_count(r, &layer->backwards, i / LAYERS);
        if (atomic_load(&r->bad))
            return;
        shard_clear(&layer->shard);
        count_bad(r, expect(!shard_forward(layer->plan, &layer->shard), "forward %d: %s", i, rondo_last_error()));
        count_bad(r, expect(shard_forward_error(&layer->shard, &r->test->problem) <= SHARD_BAR, "o of step %d is off",
                       i));
        say_done(r, &layer->forwards);
    }
}

static void do_backwards(struct rank *r)
{
    for (int i = 0; i < LAYERS * STEPS && !atomic_load(&r->bad); i++) {
        struct layer *layer = &r->layers[i % LAYERS];

        await_count(r, &layer->forwards, i / LAYERS + 1);
        if (atomic_load(&r->bad))
            return;
        count_bad(r, expect(!shard_backward(layer->plan, &layer->shard), "backward %d: %s", i, rondo_last_error()));
        count_bad(r, expect(shard_backward_error(&layer->shard, &r->test->problem) <= SHARD_BAR,
                       "gradients of step %d are off", i));
        say_done(r, &layer->backwards);
    }
}

static int one_more_of_everything(struct rank *r)
{
    rondo_attention_desc_t desc = desc_of(&r->test->problem);
    rondo_request_t request = NULL;
    rondo_plan_t plan = NULL;
    rondo_comm_t part = NULL;
    double one = 1, sum = 0;
    int bad = expect(!rondo_attention_plan(r->comm, r->layout, &desc, NULL, &plan), "plan: %s",
                     rondo_last_error());

    bad += expect(!rondo_barrier(r->comm, NULL, &request) && !rondo_wait(&request, WAIT_MS), "barrier: %s",
                  rondo_last_error());
    bad += expect(!rondo_comm_split(r->comm, 0, 0, &part), "split: %s", rondo_last_error());
    bad += expect(!rondo_all_reduce(part, &one, &sum, 1, RONDO_F64, NULL, &request) &&
                      !rondo_wait(&request, WAIT_MS) && sum >= 1, "all-reduce: %s", rondo_last_error());
    rondo_plan_destroy(plan);
    rondo_comm_destroy(part);
    return bad;
}

static void do_plans(struct rank *r)
{
    for (int i = 0; i < STEPS / 2 && !atomic_load(&r->bad); i++)
        count_bad(r, one_more_of_everything(r));
}

static void look(struct rank *r)
{
    rondo_plan_stats_t stats = RONDO_PLAN_STATS_INIT;
    rondo_request_t none = NULL;
    uint64_t before = 0;
    int done = 0;

    while (atomic_load(&r->running) && !atomic_load(&r->bad)) {
        count_bad(r, expect(!rondo_comm_progress(r->comm), "progress: %s", rondo_last_error()));
        count_bad(r, expect(!rondo_plan_stats(r->layers[0].plan, &stats), "stats: %s", rondo_last_error()));
        count_bad(r, expect(stats.forwards >= before && !rondo_test(&none, &done) && done, "it counts backwards"));
        before = stats.forwards;
        sched_yield();
    }
}

static void job(void *context, int which)
{
    static void (*const jobs[JOBS])(struct rank *) = { do_forwards, do_backwards, do_plans, look };
    struct rank *r = context;

    jobs[which](r);
    if (jobs[which] != look)
        atomic_fetch_sub(&r->running, 1);
}

static int open_rank(struct rank *r, int rank, int ranks, const rondo_plan_options_t *options)
{
    rondo_attention_desc_t desc = desc_of(&r->test->problem);
    int bad = 0;

    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->comm = comm_of(&r->test->meeting, rank, ranks, "self");
    r->layout = layout_of(RONDO_LAYOUT_ZIGZAG, r->test->problem.tokens, ranks);
    for (int i = 0; i < LAYERS; i++) {
        shard_init(&r->layers[i].shard, r->layout, rank, &r->test->problem);
        bad += expect(!rondo_attention_plan(r->comm, r->layout, &desc, options, &r->layers[i].plan), "plan: %s",
                      rondo_last_error());
    }
    return bad;
}

static void close_rank(struct rank *r)
{
    for (int i = 0; i < LAYERS; i++) {
        rondo_plan_destroy(r->layers[i].plan);
        shard_release(&r->layers[i].shard);
    }
    rondo_layout_destroy(r->layout);
    rondo_comm_destroy(r->comm);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
}

static int threads_body(int rank, int ranks, void *arg)
{
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    struct rank r = { .test = arg, .running = JOBS - 1 };
    int bad;

    options.max_in_flight = 2; /* a forward and a backward */
    bad = open_rank(&r, rank, ranks, &options);
    if (!bad)
        test_threads(JOBS, job, &r);
    close_rank(&r);
    return bad + atomic_load(&r.bad);
}

static void run(int (*body)(int, int, void *))
{
    for (int ranks = 1; ranks <= 3; ranks++) {
        struct test *t = shared_memory(sizeof(*t));

        t->problem = (struct problem){ .batch = 1, .tokens = 19, .causal = 1, .q_heads = 2, .kv_heads = 1,
                                       .qk_dim = 8, .v_dim = 8 };
        problem_init(&t->problem, 11);
        assert_int_equal(run_ranks(ranks, 0, 120, body, t), 0);
        problem_release(&t->problem);
    }
}

static void forwards_and_backwards_in_threads_of_their_own(void **state)
{
    (void)state;
    run(threads_body);
}

/* ---- from inside a kernel ---- */

struct nosy {
    struct rank *rank;
    rondo_request_t request;
    atomic_int inside; /* kernels that run now */
    atomic_int met;    /* tasks of the kernel that have begun */
    int calls, wrong;
};

static void ask_all(struct nosy *nosy)
{
    rondo_plan_stats_t stats = RONDO_PLAN_STATS_INIT;
    rondo_comm_t part = NULL;
    rondo_plan_t plan = nosy->rank->layers[0].plan;

    nosy->wrong += rondo_comm_progress(nosy->rank->comm) != RONDO_ERR_BUSY;
    nosy->wrong += rondo_plan_stats(plan, &stats) != RONDO_ERR_BUSY;
    nosy->wrong += rondo_comm_split(nosy->rank->comm, 0, 0, &part) != RONDO_ERR_BUSY;
    nosy->wrong += rondo_wait(&nosy->request, 0) != RONDO_ERR_BUSY || !nosy->request;
    nosy->wrong += rondo_comm_abort(nosy->rank->comm) != RONDO_ERR_BUSY;
}

/* One of two tasks, each in a thread of its own since neither ends before both have begun.  The one that is not in
 * the kernel's own thread asks. */
static void nosy_task(void *argument, int index, int thread)
{
    struct nosy *nosy = argument;

    (void)index;
    atomic_fetch_add(&nosy->met, 1);
    while (atomic_load(&nosy->met) < 2)
        sched_yield();
    if (thread)
        ask_all(nosy);
}

static int nosy_forward(void *context, const rondo_kernel_forward_t *args)
{
    struct nosy *nosy = context;
    int err;

    nosy->calls++;
    nosy->wrong += atomic_fetch_add(&nosy->inside, 1) != 0;
    atomic_store(&nosy->met, 0);
    if (args->shape->run)
        args->shape->run(args->shape->runner, nosy_task, nosy, 2);
    else
        ask_all(nosy);
    err = rondo_kernel_find("reference")->forward(NULL, args);
    atomic_fetch_sub(&nosy->inside, 1);
    return err;
}

static int nosy_rank(int rank, int ranks, struct test *test, int threads)
{
    rondo_kernel_t kernel = *rondo_kernel_find("reference");
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    struct rank r = { .test = test };
    struct nosy nosy = { .rank = &r };
    rondo_attention_fwd_t forward;
    int bad;

    kernel.forward = nosy_forward;
    kernel.context = &nosy;
    options.kernel = &kernel;
    options.threads = threads;
    bad = open_rank(&r, rank, ranks, &options);
    forward = shard_forward_tensors(&r.layers[0].shard);
    bad += expect(!rondo_attention_forward(r.layers[0].plan, &forward, NULL, &nosy.request) &&
                      !rondo_wait(&nosy.request, WAIT_MS), "forward: %s", rondo_last_error());
    bad += expect(nosy.calls > 0 && !nosy.wrong, "%d calls from inside a kernel were not refused", nosy.wrong);
    bad += expect(shard_forward_error(&r.layers[0].shard, &r.test->problem) <= SHARD_BAR, "o is off");
    close_rank(&r);
    return bad;
}

static int nosy_body(int rank, int ranks, void *arg)
{
    return nosy_rank(rank, ranks, arg, 1);
}

static int nosy_task_body(int rank, int ranks, void *arg)
{
    return nosy_rank(rank, ranks, arg, 2);
}

static void calls_from_inside_a_kernel_are_refused(void **state)
{
    (void)state;
    run(nosy_body);
}

static void calls_from_inside_a_kernels_task_are_refused(void **state)
{
    (void)state;
    run(nosy_task_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forwards_and_backwards_in_threads_of_their_own),
        cmocka_unit_test(calls_from_inside_a_kernel_are_refused),
        cmocka_unit_test(calls_from_inside_a_kernels_task_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
