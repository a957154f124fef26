/* SPDX-License-Identifier: Apache-2.0 */
/* Threads for tasks: each is done once, no thread number twice at once, and a forked child works alone. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/workers.h"

enum { TASKS = 100, THREADS = 4 };

struct record {
    int done[TASKS];          /* plain: whoever waits for run must see what tasks wrote */
    atomic_int inside[THREADS], faults;
    int threads;
    atomic_int met;           /* of tasks that wait for each other */
};

static void count(void *argument, int index, int thread)
{
    struct record *r = argument;

    if (thread < 0 || thread >= r->threads || atomic_fetch_add(&r->inside[thread], 1) != 0)
        atomic_fetch_add(&r->faults, 1);
    else
        atomic_fetch_sub(&r->inside[thread], 1);
    r->done[index]++;
}

static void every_task_is_done_once(void **state)
{
    struct ri_workers *w;

    (void)state;
    assert_int_equal(ri_workers_create(&w), 0);
    for (int i = 0; i < 400; i++) {
        struct record r = { .threads = 1 + i % THREADS };
        int tasks = i % (TASKS + 1);

        if (i % 50 == 0)
            assert_int_equal(ri_workers_grow(w, 1 + i / 50 % THREADS), 0);
        ri_workers_run(w, r.threads, count, &r, tasks);
        assert_int_equal(r.faults, 0);
        for (int t = 0; t < TASKS; t++)
            assert_int_equal(r.done[t], t < tasks);
    }
    ri_workers_destroy(w);
    ri_workers_destroy(NULL);
}

/* So near INT_MAX that one step more for each thread would be below 0. */
static void indices_end_at_the_count(void **state)
{
    atomic_int next;

    (void)state;
    atomic_init(&next, INT_MAX - 2);
    assert_int_equal(ri_workers_next(&next, INT_MAX), INT_MAX - 2);
    assert_int_equal(ri_workers_next(&next, INT_MAX), INT_MAX - 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(ri_workers_next(&next, INT_MAX), INT_MAX);
}

/* Each waits until all are inside: they end only if there are as many threads. */
static void meet(void *argument, int index, int thread)
{
    struct record *r = argument;

    (void)index, (void)thread;
    atomic_fetch_add(&r->met, 1);
    while (atomic_load(&r->met) < THREADS)
        usleep(100);
}

static void tasks_run_at_the_same_time(void **state)
{
    struct record r = { .threads = THREADS };
    struct ri_workers *w;

    (void)state;
    assert_int_equal(ri_workers_create(&w), 0);
    assert_int_equal(ri_workers_grow(w, THREADS), 0);
    ri_workers_run(w, THREADS, meet, &r, THREADS);
    assert_int_equal(r.met, THREADS);
    ri_workers_destroy(w);
}

/* Two runs, one inside a task of the other: who works in the inner one works for both callers. */
struct nested {
    struct ri_workers *inner;
    pthread_t outer_caller, inner_caller;
    atomic_int begun, met, served;
};

static void serve(void *argument, int index, int thread)
{
    struct nested *n = argument;

    (void)index;
    atomic_fetch_add(&n->met, 1);
    while (atomic_load(&n->met) < 2)
        usleep(100);
    if (thread)
        atomic_fetch_add(&n->served, ri_workers_serve(n->outer_caller) && ri_workers_serve(n->inner_caller));
}

static void run_inner(void *argument, int index, int thread)
{
    struct nested *n = argument;

    (void)index;
    atomic_fetch_add(&n->begun, 1);
    while (atomic_load(&n->begun) < 2)
        usleep(100);
    if (!thread)
        return;
    n->inner_caller = pthread_self();
    ri_workers_run(n->inner, 2, serve, n, 2);
}

static void workers_serve_all_who_wait_for_them(void **state)
{
    struct nested n = { .outer_caller = pthread_self() };
    struct ri_workers *outer;

    (void)state;
    assert_int_equal(ri_workers_create(&outer), 0);
    assert_int_equal(ri_workers_create(&n.inner), 0);
    assert_int_equal(ri_workers_grow(outer, 2), 0);
    assert_int_equal(ri_workers_grow(n.inner, 2), 0);
    ri_workers_run(outer, 2, run_inner, &n, 2);
    assert_int_equal(n.served, 1);
    assert_true(ri_workers_serve(pthread_self()));
    assert_false(ri_workers_serve(n.inner_caller));
    ri_workers_destroy(n.inner);
    ri_workers_destroy(outer);
}

static void a_child_works_alone(void **state)
{
    struct record r = { .threads = 1 };
    struct ri_workers *w;
    int status = 0;
    pid_t child;

    (void)state;
    assert_int_equal(ri_workers_create(&w), 0);
    assert_int_equal(ri_workers_grow(w, THREADS), 0);
    child = fork();
    if (child == 0) {
        ri_workers_run(w, THREADS, count, &r, TASKS);
        ri_workers_destroy(w);
        _exit(r.faults || r.done[TASKS - 1] != 1);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ri_workers_destroy(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_is_done_once),
        cmocka_unit_test(indices_end_at_the_count),
        cmocka_unit_test(tasks_run_at_the_same_time),
        cmocka_unit_test(workers_serve_all_who_wait_for_them),
        cmocka_unit_test(a_child_works_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
