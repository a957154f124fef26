/* SPDX-License-Identifier: Apache-2.0 */
/* Engines of several ranks in one thread, their calls in an order drawn from a seed. */
#ifndef RONDO_TEST_DRIVE_H
#define RONDO_TEST_DRIVE_H

#include "tests/transport/bench.h"

#include "base/clock.h"
#include "engine/engine.h"

/* What rank n contributes to a sum, so that the sum shows at once who is in it, and how often. */
static inline int64_t power(int n)
{
    return n ? 10 * power(n - 1) : 1;
}

static inline int64_t everyone(int count)
{
    int64_t sum = 0;

    for (int i = 0; i < count; i++)
        sum += power(i);
    return sum;
}

/* Calls progress of engines that have been started until all are done or one fails; returns its error.
 * ended: called when one is done; may be NULL. */
static inline int drive_engines(struct ri_engine *const *engines, int count, uint64_t seed,
                                void (*ended)(int rank))
{
    int64_t deadline_ns = ri_now_ns() + (int64_t)20 * 1000000000;
    int left = count, done[BENCH_RANKS_MAX] = { 0 }, state = 0, idle;

    while (left > 0 && state >= 0 && ri_now_ns() < deadline_ns) {
        int rank;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        rank = (int)((seed >> 33) % (uint64_t)count);
        if (done[rank])
            continue;
        state = ri_engine_progress(engines[rank], NULL, &idle);
        done[rank] = state == 1;
        left -= done[rank];
        if (done[rank] && ended)
            ended(rank);
    }
    assert_true(state < 0 || left == 0);
    return state < 0 ? state : 0;
}

#endif
