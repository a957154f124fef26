/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators that are cut from one world and work beside it and each other. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/api/shard.h"

enum { WORLD = 8, GROUPS = 2 };

struct test {
    struct meeting meeting;
    const char *transport;
    struct problem problem;
    atomic_int finished;
};

static int finish(int err, rondo_request_t *request, const char *what)
{
    if (!err)
        err = rondo_wait(request, WAIT_MS);
    return expect(!err, "%s: %s", what, rondo_last_error());
}

static void run(const char *transport, int ranks, int (*body)(int, int, void *))
{
    struct test *t = shared_memory(sizeof(*t));

    t->transport = transport;
    t->problem = (struct problem){ .batch = 1, .tokens = 37, .causal = 1, .q_heads = 2, .kv_heads = 2,
                                   .qk_dim = 8, .v_dim = 8 };
    problem_init(&t->problem, 3);
    assert_int_equal(run_ranks(ranks, ranks_want_processes(transport), 90, body, t), 0);
    problem_release(&t->problem);
}

/* ---- two groups at the same time (modelscope/ms-swift PR 9509) ---- */

static const int groups[GROUPS][WORLD] = { { 5, 2, 7 }, { 0, 1, 3, 4, 6 } };
static const int group_sizes[GROUPS] = { 3, 5 };

static int group_of(int rank, int *place)
{
    for (int group = 0; group < GROUPS; group++)
        for (*place = 0; *place < group_sizes[group]; (*place)++)
            if (groups[group][*place] == rank)
                return group;
    return -1;
}

/* By color and key, or by both lists: of the list that one is not in comes nothing. */
static int make_group(rondo_comm_t world, int by_list, int group, int place, rondo_comm_t *mine)
{
    rondo_comm_t parts[GROUPS] = { NULL, NULL };
    int bad = 0;

    if (!by_list)
        return expect(!rondo_comm_split(world, group, place, mine), "split: %s", rondo_last_error());
    for (int g = 0; g < GROUPS; g++)
        bad += expect(!rondo_comm_subset(world, groups[g], group_sizes[g], &parts[g]), "subset: %s",
                      rondo_last_error());
    bad += expect(!parts[!group], "a part came of a list without this rank");
    *mine = parts[group];
    return bad;
}

/* Sums over both at the same time; the last of the group tells its world rank. */
static int use_both(rondo_comm_t world, rondo_comm_t mine, int rank, int group)
{
    double in = 1 << rank, sum = 0, world_sum = 0, want = 0, last = rank;
    int size = group_sizes[group], bad;
    rondo_request_t a = NULL, b = NULL;

    for (int i = 0; i < size; i++)
        want += 1 << groups[group][i];
    bad = expect(!rondo_all_reduce(world, &in, &world_sum, 1, RONDO_F64, NULL, &a) &&
                     !rondo_all_reduce(mine, &in, &sum, 1, RONDO_F64, NULL, &b),
                 "all-reduce: %s", rondo_last_error());
    bad += rank % 2 ? finish(0, &b, "group") + finish(0, &a, "world")
                    : finish(0, &a, "world") + finish(0, &b, "group");
    bad += expect(sum == want && world_sum == 255, "rank %d: sums are %g and %g", rank, sum, world_sum);
    bad += finish(rondo_broadcast(mine, &last, sizeof(last), size - 1, NULL, &b), &b, "broadcast");
    return bad + expect(last == groups[group][size - 1], "the last of group %d is %g", group, last);
}

static int groups_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t world = comm_of(&t->meeting, rank, ranks, t->transport), mine = NULL;
    int place, group = group_of(rank, &place), bad = 0;

    for (int by_list = 0; by_list < 2 && !bad; by_list++) {
        bad += make_group(world, by_list, group, place, &mine);
        for (int i = 0; i < 10 && !bad; i++)
            bad += use_both(world, mine, rank, group);
        if (!bad)
            bad += run_problem(mine, RONDO_LAYOUT_ZIGZAG, &t->problem, NULL);
        if (!bad)
            bad += run_problem(world, RONDO_LAYOUT_STRIPED, &t->problem, NULL);
        rondo_comm_destroy(mine);
        mine = NULL;
    }
    rondo_comm_destroy(world);
    return bad;
}

static void groups_in_the_callers_order(void **state)
{
    (void)state;
    run("self", WORLD, groups_body);
}

static void groups_between_processes(void **state)
{
    (void)state;
    run("ucx", WORLD, groups_body);
    run("shm", WORLD, groups_body);
}

/* ---- two communicators in crossed order (NVIDIA/nccl#584, NVIDIA/nccl#195) ---- */

static int crossed_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t world = comm_of(&t->meeting, rank, ranks, t->transport), two[2] = { world, NULL };
    double in = rank, sums[2] = { 0, 0 };
    rondo_request_t requests[2];
    int first = rank >= ranks / 2, bad;

    bad = expect(!rondo_comm_split(world, 0, -rank, &two[1]), "split: %s", rondo_last_error());
    for (int i = 0; i < 50 && !bad; i++) {
        for (int k = 0; k < 2 && !bad; k++)
            bad += expect(!rondo_all_reduce(two[first ^ k], &in, &sums[first ^ k], 1, RONDO_F64, NULL,
                                            &requests[first ^ k]), "start: %s", rondo_last_error());
        for (int k = 0; k < 2 && !bad; k++)
            bad += finish(0, &requests[first ^ k], "crossed");
        bad += expect(sums[0] == ranks * (ranks - 1) / 2.0 && sums[1] == sums[0], "sums are %g, %g", sums[0],
                      sums[1]);
    }
    rondo_comm_destroy(two[first]);
    rondo_comm_destroy(two[!first]);
    return bad;
}

static void crossed_order_of_two_communicators(void **state)
{
    (void)state;
    run("self", 4, crossed_body);
}

static void crossed_order_between_processes(void **state)
{
    (void)state;
    run("ucx", 4, crossed_body);
    run("shm", 4, crossed_body);
}

/* ---- a plan of one is made while the other has a request under way ---- */

/* Rank 0 makes a part before it waits for the world's request; the others wait first. */
static int split_beside_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t world = comm_of(&t->meeting, rank, ranks, t->transport), part = NULL;
    rondo_request_t request = NULL;
    double in = 1, sum = 0;
    int bad = expect(!rondo_all_reduce(world, &in, &sum, 1, RONDO_F64, NULL, &request), "start: %s",
                     rondo_last_error());

    if (rank)
        bad += finish(0, &request, "before the split");
    bad += expect(!rondo_comm_split(world, rank % 2, 0, &part), "split: %s", rondo_last_error());
    bad += finish(0, &request, "after the split");
    bad += expect(sum == ranks, "the sum is %g", sum);
    if (!bad)
        bad += run_problem(part, RONDO_LAYOUT_CONTIGUOUS, &t->problem, NULL);
    rondo_comm_destroy(world);
    rondo_comm_destroy(part);
    return bad;
}

static void requests_go_on_while_a_split_waits(void **state)
{
    (void)state;
    run("self", 5, split_beside_body);
    run("ucx", 3, split_beside_body);
}

/* ---- the other group is not needed (OpenRLHF#876) ---- */

static int one_group_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t world = comm_of(&t->meeting, rank, ranks, t->transport), mine = NULL;
    rondo_request_t request = NULL;
    int bad = expect(!rondo_comm_split(world, rank / 2, 0, &mine), "split: %s", rondo_last_error());

    while (rank >= 2 && atomic_load(&t->finished) < 2)
        sched_yield();
    for (int i = 0; i < 200 && !bad; i++)
        bad += finish(rondo_barrier(mine, NULL, &request), &request, "barrier");
    if (!bad)
        bad += run_problem(mine, RONDO_LAYOUT_ZIGZAG, &t->problem, NULL);
    atomic_fetch_add(&t->finished, 1);
    rondo_comm_destroy(mine);
    rondo_comm_destroy(world);
    return bad;
}

static void a_group_needs_no_other(void **state)
{
    (void)state;
    run("self", 4, one_group_body);
    run("ucx", 4, one_group_body);
}

/* ---- a rank dies ---- */

/* The dead rank's part and the world fail, naming it; the other part does not. */
static int death_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t world = comm_of(&t->meeting, rank, ranks, t->transport), mine = NULL;
    rondo_request_t request = NULL;
    int bad = expect(!rondo_comm_split(world, rank / 2, 0, &mine), "split: %s", rondo_last_error()), err;

    if (!bad)
        bad += finish(rondo_barrier(world, NULL, &request), &request, "barrier");
    if (rank == 3)
        _exit(bad);
    err = rondo_barrier(world, NULL, &request);
    if (!err)
        err = rondo_wait(&request, WAIT_MS);
    bad += expect_error(err, RONDO_ERR_PEER, "rank 3", NULL, "the world without rank 3");
    for (int i = 0; i < 20 && !bad && rank < 2; i++)
        bad += finish(rondo_barrier(mine, NULL, &request), &request, "the other part");
    if (rank == 2) {
        err = rondo_barrier(mine, NULL, &request);
        if (!err)
            err = rondo_wait(&request, WAIT_MS);
        bad += expect_error(err, RONDO_ERR_PEER, "rank 1", NULL, "the part without its rank 1");
    }
    if (rank < 2 && !bad)
        bad += run_problem(mine, RONDO_LAYOUT_ZIGZAG, &t->problem, NULL);
    rondo_comm_destroy(mine);
    rondo_comm_destroy(world);
    return bad;
}

static void a_death_fails_what_the_rank_was_in(void **state)
{
    (void)state;
    run("ucx", 4, death_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_in_the_callers_order),
        cmocka_unit_test(groups_between_processes),
        cmocka_unit_test(crossed_order_of_two_communicators),
        cmocka_unit_test(crossed_order_between_processes),
        cmocka_unit_test(requests_go_on_while_a_split_waits),
        cmocka_unit_test(a_group_needs_no_other),
        cmocka_unit_test(a_death_fails_what_the_rank_was_in),
    };

    const size_t count = sizeof(tests) / sizeof(tests[0]);

    /* The last one needs a rank that dies alone, and under thread sanitizer ranks are threads. */
    return _cmocka_run_group_tests("parts", tests, count - !ranks_want_processes("ucx"), NULL, NULL);
}
