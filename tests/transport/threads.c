/* SPDX-License-Identifier: Apache-2.0 */
/* A thread per rank that sleeps on the event descriptor whenever nothing moves: no wake-up may be
 * lost.  Threads note what went wrong; the test looks at it when they have ended. */
#include "bench.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/status.h"
#include "build-config.h"

enum { lost_ms = 10000 };

struct worker {
    struct bench *bench;
    int rank, rounds;
    size_t bytes;
    int sleeps;
    char wrong[256];
};

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Sometimes late, so that peers fall asleep: up to 200 us in one round of eight. */
static void dawdle(uint32_t *state)
{
    struct timespec pause = { .tv_nsec = next_random(state) % 200000 };

    if (next_random(state) % 8 == 0)
        nanosleep(&pause, NULL);
}

static int sleep_until_done(struct worker *worker, const struct ri_xfer *xfers, int n)
{
    const struct ri_transport_ops *ops = worker->bench->ops;
    struct ri_transport *transport = worker->bench->rank[worker->rank];
    struct pollfd wait = { .fd = ops->event_fd(transport), .events = POLLIN };

    for (int i = 0; i < n;) {
        if (xfers[i].state != RI_XFER_POSTED) {
            i++;
            continue;
        }
        if (ops->progress(transport) || !ops->arm(transport))
            continue;
        worker->sleeps++;
        if (poll(&wait, 1, lost_ms) == 1)
            continue;
        snprintf(worker->wrong, sizeof(worker->wrong), "no wake-up for tag %llu",
                 (unsigned long long)xfers[i].tag);
        return -1;
    }
    return 0;
}

static int ring_round(struct worker *worker, uint64_t round, char *out, char *in)
{
    struct bench *bench = worker->bench;
    int next = (worker->rank + 1) % bench->ranks;
    int previous = (worker->rank + bench->ranks - 1) % bench->ranks;
    struct ri_xfer xfers[2] = { bench_receive(previous, round, in, worker->bytes),
                                bench_send(next, round, out, worker->bytes) };
    struct ri_xfer *pointers[2] = { &xfers[0], &xfers[1] };

    memset(out, (int)(round * 8 + (uint64_t)worker->rank), worker->bytes);
    memset(in, 0, worker->bytes);
    if (bench->ops->post(bench->rank[worker->rank], pointers, 2)) {
        snprintf(worker->wrong, sizeof(worker->wrong), "%s", rondo_last_error());
        return -1;
    }
    if (sleep_until_done(worker, xfers, 2))
        return -1;
    for (size_t i = 0; i < worker->bytes; i++)
        if (in[i] != (char)(round * 8 + (uint64_t)previous)) {
            snprintf(worker->wrong, sizeof(worker->wrong), "byte %zu of round %llu", i,
                     (unsigned long long)round);
            return -1;
        }
    return 0;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    uint32_t random = (uint32_t)worker->rank + 1;
    char *out = calloc(1, worker->bytes), *in = calloc(1, worker->bytes);

    for (int round = 0; round < worker->rounds; round++) {
        dawdle(&random);
        if (ring_round(worker, (uint64_t)round, out, in))
            break;
    }
    free(out);
    free(in);
    return NULL;
}

/* Returns how often a rank slept. */
static int run_ring(const char *name, int ranks, int rounds, size_t bytes,
                    const struct ri_config *config)
{
    struct worker workers[BENCH_RANKS_MAX];
    pthread_t threads[BENCH_RANKS_MAX];
    struct bench bench;
    int sleeps = 0;

    bench_open(&bench, name, ranks, config);
    for (int r = 0; r < ranks; r++) {
        workers[r] = (struct worker){ &bench, r, rounds, bytes, 0, "" };
        assert_int_equal(pthread_create(&threads[r], NULL, work, &workers[r]), 0);
    }
    for (int r = 0; r < ranks; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < ranks; r++) {
        assert_string_equal(workers[r].wrong, "");
        sleeps += workers[r].sleeps;
    }
    bench_close(&bench);
    return sleeps;
}

static void loses_no_wake_up(void **state)
{
    assert_in_range(run_ring(*state, 2, 2000, 64, NULL), 1, INT32_MAX);
}

static void loses_no_wake_up_of_large_messages(void **state)
{
    assert_in_range(run_ring(*state, 3, 60, 300000, NULL), 1, INT32_MAX);
}

static void wakes_for_delayed_messages(void **state)
{
    struct ri_config config = { .self_bandwidth = 100000000, .self_latency_us = 50,
                                .self_seed = 11 };

    (void)state;
    assert_in_range(run_ring("self", 4, 60, 10000, &config), 60, INT32_MAX);
}

#ifdef HAVE_UCX
#define ON_ALL(test) BENCH_ON("self", test), BENCH_ON("shm", test), BENCH_ON("ucx", test)
#else
#define ON_ALL(test) BENCH_ON("self", test), BENCH_ON("shm", test)
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_ALL(loses_no_wake_up),
        ON_ALL(loses_no_wake_up_of_large_messages),
        cmocka_unit_test(wakes_for_delayed_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
