/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of a family is a queue, and a thread that speaks with other ranks does not keep it. */
#include "tests/group.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum { THREADS = 3, ROUNDS = 200 };

struct queue {
    struct ri_family *family;
    atomic_int present;
    int turns[THREADS * ROUNDS], count; /* who had which; under the lock */
};

static void take_turns(void *context, int thread)
{
    struct queue *q = context;

    atomic_fetch_add(&q->present, 1);
    while (atomic_load(&q->present) < THREADS)
        sched_yield();
    if (ri_family_lock(q->family))
        return;
    for (int i = 0; i < ROUNDS; i++) {
        q->turns[q->count++] = thread;
        sched_yield(); /* the others ask meanwhile */
        ri_family_hand_over(q->family);
    }
    ri_family_unlock(q->family);
}

/* Once a thread has had its first turn it asks again at once, so nobody gets two while it waits for one:
 * between two of its turns every other has one at most. */
static void nobody_overtakes(void **state)
{
    static struct queue q;
    int last[THREADS] = { -1, -1, -1 };

    (void)state;
    assert_int_equal(ri_family_create(&q.family), 0);
    test_threads(THREADS, take_turns, &q);
    assert_int_equal(q.count, THREADS * ROUNDS);
    for (int i = 0; i < q.count; i++) {
        int between[THREADS] = { 0 };

        for (int j = last[q.turns[i]] + 1; j < i && last[q.turns[i]] >= 0; j++)
            assert_true(between[q.turns[j]]++ == 0);
        last[q.turns[i]] = i;
    }
    ri_family_drop(q.family, NULL);
}

static void a_thread_that_has_it_is_refused(void **state)
{
    struct ri_family *family;

    (void)state;
    assert_int_equal(ri_family_create(&family), 0);
    assert_int_equal(ri_family_lock(family), 0);
    assert_int_equal(ri_family_lock(family), RONDO_ERR_BUSY);
    assert_non_null(strstr(rondo_last_error(), "from inside a kernel"));
    ri_family_unlock(family);
    assert_int_equal(ri_family_lock(family), 0);
    ri_family_unlock(family);
    ri_family_drop(family, NULL);
}

/* ---- sleep ---- */

struct dormitory {
    struct ri_family *family;
    int over, risings; /* under the lock */
};

static void sleep_on(void *context, int thread)
{
    struct dormitory *d = context;

    (void)thread;
    if (ri_family_lock(d->family))
        return;
    while (!d->over) {
        ri_family_sleep(d->family, 100000000);
        d->risings++;
    }
    ri_family_unlock(d->family);
}

/* Each call wakes every thread, once: they have nothing to do, and must not keep each other awake. */
static void sleepers_do_not_wake_each_other(void **state)
{
    const struct timespec pause = { .tv_nsec = 20000000 };
    struct test_thread threads[THREADS];
    static struct dormitory d;

    (void)state;
    assert_int_equal(ri_family_create(&d.family), 0);
    test_threads_start(threads, THREADS, sleep_on, &d);
    for (int i = 0; i <= 20; i++) {
        nanosleep(&pause, NULL);
        assert_int_equal(ri_family_lock(d.family), 0);
        d.over = i == 20;
        ri_family_wake(d.family);
        ri_family_unlock(d.family);
    }
    test_threads_join(threads, THREADS);
    assert_true(d.risings >= THREADS);
    assert_true(d.risings < 1000); /* a rising or two for each of 21 calls; else they are 100000 */
    ri_family_drop(d.family, NULL);
}

/* ---- a thread of rank 0 agrees, another uses the same communicator ---- */

static atomic_int locked;

static void agree(void *context, int thread)
{
    struct member *it = context;

    (void)thread;
    note(it, ri_agree(it->comm, "a plan", NULL, 0, 0));
}

/* Rank 1 comes only when rank 0's other thread has had its turns. */
static void use_beside_an_agreement(struct group *group, int index)
{
    struct member *it = &group->members[index];
    int64_t end_ns = ri_now_ns() + 10000000000;
    struct test_thread other;

    if (index == 0) {
        test_thread_start(&other, 0, agree, it);
        while (atomic_load(&locked) < 100 && !rondo_comm_progress(it->comm))
            atomic_fetch_add(&locked, 1);
        test_threads_join(&other, 1);
        return;
    }
    while (atomic_load(&locked) < 100 && ri_now_ns() < end_ns)
        sched_yield();
    note(it, ri_agree(it->comm, "a plan", NULL, 0, atomic_load(&locked) < 100 ? RONDO_ERR_TIMEOUT : 0));
}

static void an_agreement_leaves_the_lock_to_others(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 2);
    group.then = use_beside_an_agreement;
    run_group(&group);
    all_are_good(&group);
}

/* Two threads of each rank agree, each several times in a row; the other's come before or after, never
 * between. */
static void agree_in_a_row(void *context, int thread)
{
    struct member *it = context;
    int err = ri_comm_talk_begin(it->comm, "a row");

    (void)thread;
    if (err) {
        note(it, err);
        return;
    }
    for (int i = 0; i < 5 && !err; i++) {
        struct ri_field field = { "place in the row", i };

        err = ri_agree(it->comm, "a row", &field, 1, 0);
    }
    if (err)
        note(it, err);
    ri_comm_talk_end(it->comm);
}

static void two_rows(struct group *group, int index)
{
    for (int i = 0; i < 5; i++)
        test_threads(2, agree_in_a_row, &group->members[index]);
}

static void talks_do_not_mix(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 3);
    group.then = two_rows;
    run_group(&group);
    all_are_good(&group);
}

static void talk_too_long(void *context, int thread)
{
    struct member *it = context;

    (void)thread;
    note(it, ri_family_talk_begin(it->comm, "a plan", ri_now_ns() + 1000000));
}

static void talk_alone(struct group *group, int index)
{
    struct member *it = &group->members[index];
    int err = ri_comm_talk_begin(it->comm, "split");

    if (!err)
        test_threads(1, talk_too_long, it);
    ri_comm_talk_end(it->comm);
}

static void a_talk_that_lasts_is_named(void **state)
{
    struct group group;

    (void)state;
    group_init(&group, 1);
    group.then = talk_alone;
    run_group(&group);
    all_say(&group, RONDO_ERR_TIMEOUT, "a plan waited for another thread of rank 0, which is in split");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_overtakes),
        cmocka_unit_test(a_thread_that_has_it_is_refused),
        cmocka_unit_test(sleepers_do_not_wake_each_other),
        cmocka_unit_test(an_agreement_leaves_the_lock_to_others),
        cmocka_unit_test(talks_do_not_mix),
        cmocka_unit_test(a_talk_that_lasts_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
