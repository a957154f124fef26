/* SPDX-License-Identifier: Apache-2.0 */
/* Threads for tasks: each is done once, no thread number twice at once, and a forked child works alone. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

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
        cmocka_unit_test(tasks_run_at_the_same_time),
        cmocka_unit_test(a_child_works_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
