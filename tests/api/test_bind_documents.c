/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that bound batches of the same length with other documents, or other padding, are told. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/shard.h"

enum { TOKENS = 24, DOCUMENTS = 2 };

struct test {
    struct meeting meeting;
    pthread_barrier_t together;
    struct problem problem;
    int64_t bounds[2][DOCUMENTS + 1], lengths[2][DOCUMENTS]; /* of the last rank, of all others */
    int backward;
};

static rondo_layout_t packed(const struct test *t, int is_last, int ranks)
{
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    rondo_layout_t layout = NULL;

    desc.tokens = TOKENS, desc.ranks = ranks, desc.documents = DOCUMENTS;
    desc.cu_seqlens = t->bounds[!is_last], desc.lengths = t->lengths[!is_last];
    if (expect(!rondo_layout_create(&desc, &layout), "layout: %s", rondo_last_error()))
        exit(1);
    return layout;
}

static int told_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t common = packed(t, 0, ranks), own = packed(t, rank == ranks - 1, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_t plan = NULL;
    struct shard s;
    int bad, status;

    shard_init(&s, common, rank, &t->problem);
    bad = expect(!rondo_attention_plan(comm, common, &desc, NULL, &plan), "plan: %s", rondo_last_error());
    if (t->backward)
        bad += expect(!shard_forward(plan, &s), "forward: %s", rondo_last_error());
    pthread_barrier_wait(&t->together); /* nobody is still in what went well */
    bad += expect(!rondo_plan_bind_layout(plan, own, NULL), "bind: %s", rondo_last_error());
    status = (t->backward ? shard_backward : shard_forward)(plan, &s);
    bad += expect(status == RONDO_ERR_MISMATCH || status == RONDO_ERR_PEER, "rank %d of %d: status %d: %s", rank,
                  ranks, status, rondo_last_error());
    bad += expect(strstr(rondo_last_error(), "layouts or documents") != NULL, "rank %d of %d: %s", rank, ranks,
                  rondo_last_error());
    shard_release(&s);
    rondo_plan_destroy(plan);
    rondo_layout_destroy(common);
    rondo_layout_destroy(own);
    rondo_comm_destroy(comm);
    return bad;
}

static void run(struct test *t)
{
    t->problem = (struct problem){ .batch = 1, .tokens = TOKENS, .causal = 1, .q_heads = 2, .kv_heads = 1,
                                   .qk_dim = 4, .v_dim = 4 };
    problem_init(&t->problem, 1);
    for (int ranks = 2; ranks <= 4; ranks++)
        for (t->backward = 0; t->backward < 2; t->backward++) {
            memset(&t->meeting, 0, sizeof(t->meeting));
            assert_int_equal(pthread_barrier_init(&t->together, NULL, (unsigned)ranks), 0);
            assert_int_equal(run_ranks(ranks, 0, 60, told_body, t), 0);
            pthread_barrier_destroy(&t->together);
        }
    problem_release(&t->problem);
}

static void other_bounds(void **state)
{
    struct test t = { .bounds = { { 0, 5, TOKENS }, { 0, 17, TOKENS } }, .lengths = { { 5, 19 }, { 17, 7 } } };

    (void)state;
    run(&t);
}

static void other_padding(void **state)
{
    struct test t = { .bounds = { { 0, 9, TOKENS }, { 0, 9, TOKENS } }, .lengths = { { 8, 15 }, { 9, 15 } } };

    (void)state;
    run(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_bounds),
        cmocka_unit_test(other_padding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
