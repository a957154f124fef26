/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that go another way in good order: one leaves, one drops what is under way, one makes a plan
 * while another waits.  Nobody is left waiting. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/api/shard.h"
#include "transport/transport.h"

enum { RANKS = 3, SOON_MS = 20000 };

struct test {
    struct meeting meeting;
    struct problem problem;
    const char *transport;
    int culprit;
    atomic_int opened;
};

/* What each rank has. */
struct setting {
    rondo_comm_t comm;
    rondo_layout_t layout;
    rondo_plan_t plan;
    struct shard shard;
};

static int make_plan(struct setting *s, const struct test *t, rondo_plan_t *plan)
{
    rondo_attention_desc_t desc = desc_of(&t->problem);

    return rondo_attention_plan(s->comm, s->layout, &desc, NULL, plan);
}

static int open_setting(struct setting *s, int rank, int ranks, struct test *t)
{
    int err;

    s->comm = comm_of(&t->meeting, rank, ranks, t->transport);
    s->layout = layout_of(RONDO_LAYOUT_CONTIGUOUS, t->problem.tokens, ranks);
    shard_init(&s->shard, s->layout, rank, &t->problem);
    err = make_plan(s, t, &s->plan);
    atomic_fetch_add(&t->opened, 1);
    while (atomic_load(&t->opened) < ranks)
        usleep(1000);
    return expect(!err, "plan: %s", rondo_last_error());
}

static void close_setting(struct setting *s)
{
    rondo_plan_destroy(s->plan);
    rondo_comm_destroy(s->comm);
    rondo_layout_destroy(s->layout);
    shard_release(&s->shard);
}

static int start(struct setting *s, rondo_request_t *request)
{
    rondo_attention_fwd_t fwd = shard_forward_tensors(&s->shard);

    return rondo_attention_forward(s->plan, &fwd, NULL, request);
}

/* ---- tests ---- */

static int leaver_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    struct setting s;
    rondo_request_t request = NULL;
    int bad = open_setting(&s, rank, ranks, t);

    if (rank != t->culprit && !bad) {
        int err = start(&s, &request);

        if (!err)
            err = rondo_wait(&request, SOON_MS);
        /* A transport may notice first that nobody is there to take what it sends. */
        bad += expect_error(err, err == RONDO_ERR_TRANSPORT ? err : RONDO_ERR_PEER, "rank", NULL,
                            "waiting for a rank that left");
    }
    close_setting(&s);
    return bad;
}

static int dropper_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    struct setting s;
    rondo_request_t request = NULL;
    int bad = open_setting(&s, rank, ranks, t);
    int err = start(&s, &request);

    if (rank != t->culprit) {
        if (!err)
            err = rondo_wait(&request, SOON_MS);
        /* The rank before it needs nothing that it passes on, and may be done. */
        if (err || rank != (t->culprit + ranks - 1) % ranks)
            bad += expect_error(err, RONDO_ERR_PEER, "rank", NULL, "waiting for a dropped plan");
    }
    close_setting(&s);
    return bad;
}

/* The culprit makes a second plan before it waits for its forward, the others after. */
static int planner_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    struct setting s;
    rondo_plan_t second = NULL;
    rondo_request_t request = NULL;
    int bad = open_setting(&s, rank, ranks, t);
    int err = start(&s, &request);

    if (!err && rank == t->culprit)
        err = make_plan(&s, t, &second);
    if (!err)
        err = rondo_wait(&request, SOON_MS);
    if (!err && rank != t->culprit)
        err = make_plan(&s, t, &second);
    bad += expect(!err, "rank %d: %s", rank, rondo_last_error());
    if (!err)
        bad += expect(shard_forward_error(&s.shard, &t->problem) <= SHARD_BAR, "rank %d: wrong", rank);
    rondo_plan_destroy(second);
    close_setting(&s);
    return bad;
}

static void run(const char *transport, int culprit, int (*body)(int, int, void *))
{
    struct test *t;

    if (!ri_transport_find(transport))
        return; /* not built in: the other one is tested */
    t = shared_memory(sizeof(*t));
    t->problem = (struct problem){ .batch = 1, .tokens = 12 * RANKS, .q_heads = 2, .kv_heads = 1,
                                   .qk_dim = 4, .v_dim = 4 };
    t->transport = transport;
    t->culprit = culprit;
    problem_init(&t->problem, 11);
    assert_int_equal(run_ranks(RANKS, ranks_want_processes(transport), 90, body, t), 0);
    problem_release(&t->problem);
}

static void a_rank_that_left_in_good_order_is_not_waited_for(void **state)
{
    (void)state;
    for (int culprit = 0; culprit < 2; culprit++) {
        run("self", culprit, leaver_body);
        run("ucx", culprit, leaver_body);
    }
}

static void a_plan_destroyed_under_way_ends_the_others(void **state)
{
    (void)state;
    for (int culprit = 0; culprit < 2; culprit++) {
        run("self", culprit, dropper_body);
        run("ucx", culprit, dropper_body);
    }
}

static void making_a_plan_moves_what_is_under_way(void **state)
{
    (void)state;
    for (int culprit = 0; culprit < 2; culprit++) {
        run("self", culprit, planner_body);
        run("ucx", culprit, planner_body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_left_in_good_order_is_not_waited_for),
        cmocka_unit_test(a_plan_destroyed_under_way_ends_the_others),
        cmocka_unit_test(making_a_plan_moves_what_is_under_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
