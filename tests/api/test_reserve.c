/* SPDX-License-Identifier: Apache-2.0 */
/* From the first start of a plan on nothing is allocated between start and completion: its messages are
 * reserved when it is made, and given back when it is destroyed. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>

#include "build-config.h"
#include "tests/api/heap.h"
#include "tests/api/shard.h"

/* ---- one rank ---- */

enum { IN_FLIGHT = 2 };

struct test {
    struct meeting meeting;
    const char *transport;
    struct problem problem;
    pthread_barrier_t together;
};

/* All ranks come and go together, because rank 0 takes memory for what it hears of ranks that are ahead. */
static int run_counted(struct test *t, rondo_plan_t plan, const struct shard *shards)
{
    rondo_request_t requests[IN_FLIGHT] = { NULL };
    int bad = 0;

    pthread_barrier_wait(&t->together);
    heap.counting = 1;
    for (int i = 0; i < IN_FLIGHT; i++) {
        rondo_attention_fwd_t fwd = shard_forward_tensors(&shards[i]);

        bad += expect(!rondo_attention_forward(plan, &fwd, NULL, &requests[i]), "%s", rondo_last_error());
    }
    for (int i = 0; i < IN_FLIGHT; i++)
        bad += expect(!rondo_wait(&requests[i], WAIT_MS), "%s", rondo_last_error());
    bad += expect(!shard_backward(plan, &shards[0]), "%s", rondo_last_error());
    heap.counting = 0;
    pthread_barrier_wait(&t->together);
    return bad + expect(heap.allocations == 0, "%d allocations in a run", heap.allocations);
}

static int body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, t->transport);
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_ZIGZAG, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    struct shard shards[IN_FLIGHT];
    long first_held = 0;
    int bad = 0;

    options.max_in_flight = IN_FLIGHT;
    for (int i = 0; i < IN_FLIGHT; i++)
        shard_init(&shards[i], layout, rank, &t->problem);
    for (int i = 0; i < 4 && !bad; i++) {
        rondo_plan_t plan = NULL;

        bad += expect(!rondo_attention_plan(comm, layout, &desc, &options, &plan), "%s", rondo_last_error());
        bad = bad ? bad : run_counted(t, plan, shards);
        rondo_plan_destroy(plan);
        pthread_barrier_wait(&t->together);
        if (i == 0)
            first_held = heap.held;
    }
    if (ranks_want_processes(t->transport)) /* threads free what others have allocated */
        bad += expect(heap.held == first_held, "%ld bytes stay of three plans", heap.held - first_held);
    for (int i = 0; i < IN_FLIGHT; i++)
        shard_release(&shards[i]);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void run_over(const char *transport)
{
    static const struct problem shape = { .batch = 1, .tokens = 96, .causal = 1, .q_heads = 2, .kv_heads = 1,
                                          .qk_dim = 8, .v_dim = 8 };

    for (int ranks = 1; ranks <= 4; ranks++) {
        struct test *t = shared_memory(sizeof(*t));
        pthread_barrierattr_t shared;

        t->transport = transport;
        t->problem = shape;
        problem_init(&t->problem, 7);
        pthread_barrierattr_init(&shared);
        pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
        assert_int_equal(pthread_barrier_init(&t->together, &shared, (unsigned)ranks), 0);
        assert_int_equal(run_ranks(ranks, ranks_want_processes(transport), 60, body, t), 0);
        pthread_barrier_destroy(&t->together);
        problem_release(&t->problem);
    }
}

static void nothing_is_allocated_over_self(void **state)
{
    (void)state;
    run_over("self");
}

#ifdef HAVE_UCX
static void nothing_is_allocated_over_ucx(void **state)
{
    (void)state;
    run_over("ucx");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_allocated_over_self),
#ifdef HAVE_UCX
        cmocka_unit_test(nothing_is_allocated_over_ucx),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
