/* SPDX-License-Identifier: Apache-2.0 */
/* Starts that overlap: twelve layers with three micro-batches under way need the memory of one layer three
 * times, give the bits of one at a time, and a fourth start is refused and does no harm. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/allocations.h"
#include "tests/api/shard.h"

enum { MAX_RANKS = 4, LAYERS = 12, BATCHES = 3, TASKS = 2 * LAYERS, LAG = 5 };

struct test {
    struct meeting meeting;
    rondo_layout_kind_t kind;
    struct problem problem[LAYERS][BATCHES];
    rondo_plan_memory_t memory[MAX_RANKS];
    rondo_plan_stats_t one[MAX_RANKS], all[MAX_RANKS]; /* after one plan, after all is done */
    int refused[MAX_RANKS];
};

static char untouched;
#define UNTOUCHED ((rondo_request_t)(void *)&untouched)

/* One rank's. */
struct model {
    struct test *test;
    int rank;
    rondo_comm_t comm;
    rondo_layout_t layout;
    rondo_plan_t plan[LAYERS];
    struct shard alone[LAYERS][BATCHES], together[LAYERS][BATCHES];
    rondo_request_t request[BATCHES]; /* of each micro-batch's task */
};

static rondo_plan_t plan_of(rondo_comm_t comm, rondo_layout_t layout, const struct problem *p,
                            int max_in_flight)
{
    rondo_attention_desc_t desc = desc_of(p);
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_plan_t plan = NULL;

    options.max_in_flight = max_in_flight;
    if (expect(!rondo_attention_plan(comm, layout, &desc, &options, &plan), "plan: %s", rondo_last_error()))
        exit(1);
    return plan;
}

static int start_forward(rondo_plan_t plan, const struct shard *s, rondo_request_t *request)
{
    rondo_attention_fwd_t fwd = shard_forward_tensors(s);

    return rondo_attention_forward(plan, &fwd, NULL, request);
}

static int start_backward(rondo_plan_t plan, const struct shard *s, rondo_request_t *request)
{
    rondo_attention_bwd_t bwd = shard_backward_tensors(s);

    return rondo_attention_backward(plan, &bwd, NULL, request);
}

static rondo_plan_stats_t stats_of(rondo_plan_t plan)
{
    rondo_plan_stats_t stats = RONDO_PLAN_STATS_INIT;

    if (expect(!rondo_plan_stats(plan, &stats), "stats: %s", rondo_last_error()))
        exit(1);
    return stats;
}

static int same_bits(const struct shard *a, const struct shard *b)
{
    return a->output_count == 0 || memcmp(a->outputs, b->outputs, a->output_count * sizeof(float)) == 0;
}

/* ---- twelve layers, three micro-batches ---- */

static int make_plans(struct model *m)
{
    rondo_attention_desc_t desc = desc_of(&m->test->problem[0][0]);
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_plan_memory_t *memory = &m->test->memory[m->rank];
    size_t before = aligned_bytes(), one, all;
    int bad;

    options.max_in_flight = BATCHES;
    *memory = (rondo_plan_memory_t)RONDO_PLAN_MEMORY_INIT;
    bad = expect(!rondo_plan_memory(m->comm, m->layout, &desc, &options, memory), "%s", rondo_last_error());
    bad += expect(aligned_bytes() == before, "asking for the memory takes %zu bytes of it",
                  aligned_bytes() - before);
    for (int l = 0; l < LAYERS; l++) {
        m->plan[l] = plan_of(m->comm, m->layout, &m->test->problem[l][0], BATCHES);
        if (l > 0)
            continue;
        m->test->one[m->rank] = stats_of(m->plan[0]);
        one = aligned_bytes() - before;
    }
    all = aligned_bytes() - before;
    bad += expect(one == memory->pool_bytes + memory->scratch_bytes, "a plan takes %zu bytes, not %zu", one,
                  memory->pool_bytes + memory->scratch_bytes);
    return bad + expect(all == one, "twelve plans take %zu bytes, one takes %zu", all, one);
}

static int one_at_a_time(struct model *m)
{
    int bad = 0;

    for (int l = 0; l < LAYERS; l++)
        for (int b = 0; b < BATCHES && !bad; b++) {
            const struct problem *p = &m->test->problem[l][b];
            const struct shard *s = &m->alone[l][b];

            bad += expect(!shard_both(m->plan[l], s), "layer %d, batch %d: %s", l, b, rondo_last_error());
            bad += expect(shard_forward_error(s, p) <= SHARD_BAR && shard_backward_error(s, p) <= SHARD_BAR,
                          "layer %d, batch %d: off by %g, %g", l, b, shard_forward_error(s, p),
                          shard_backward_error(s, p));
        }
    return bad;
}

static int layer_of(int task)
{
    return task < LAYERS ? task : TASKS - 1 - task;
}

/* Forward through the layers, then backward. */
static int start_task(struct model *m, int batch, int task)
{
    int layer = layer_of(task);
    const struct shard *s = &m->together[layer][batch];

    return task < LAYERS ? start_forward(m->plan[layer], s, &m->request[batch])
                         : start_backward(m->plan[layer], s, &m->request[batch]);
}

/* With all micro-batches under way: of the communicator, since they are in other layers. */
static int refuse_fourth(struct model *m, int round)
{
    rondo_plan_t plan = m->plan[round % LAYERS];
    const struct shard *s = &m->together[round % LAYERS][0];
    rondo_request_t request = UNTOUCHED;
    int bad = 0, err = round & 1 ? start_backward(plan, s, &request) : start_forward(plan, s, &request);

    bad += expect_error(err, RONDO_ERR_BUSY, "refused: 3 of max_in_flight 3 starts", "under way", "fourth");
    bad += expect(request == UNTOUCHED, "a refused start touched request");
    m->test->refused[m->rank]++;
    return bad;
}

/* Each micro-batch goes through its tasks, LAG rounds behind the one before it, so that forwards and
 * backwards of other layers overlap.  Each is waited for a round after its start. */
static int all_together(struct model *m)
{
    int bad = 0;

    for (int round = 0; round <= TASKS + (BATCHES - 1) * LAG && !bad; round++) {
        int under_way = 0;

        for (int b = 0; b < BATCHES && !bad; b++) {
            int task = round - b * LAG;

            bad += expect(!rondo_wait(&m->request[b], WAIT_MS), "wait: %s", rondo_last_error());
            if (task < 0 || task >= TASKS || bad)
                continue;
            bad += expect(!start_task(m, b, task), "start: %s", rondo_last_error());
            under_way++;
        }
        if (under_way == BATCHES && !bad)
            bad += refuse_fourth(m, round);
    }
    for (int l = 0; l < LAYERS; l++)
        for (int b = 0; b < BATCHES && !bad; b++)
            bad += expect(same_bits(&m->alone[l][b], &m->together[l][b]), "layer %d, batch %d: other bits", l, b);
    return bad;
}

/* The same with all three in one layer: of the plan. */
static int one_layer(struct model *m)
{
    rondo_request_t fourth = UNTOUCHED;
    int bad = 0;

    for (int b = 0; b < BATCHES; b++) {
        shard_clear(&m->together[0][b]);
        bad += expect(!start_forward(m->plan[0], &m->together[0][b], &m->request[b]), "%s", rondo_last_error());
    }
    bad += expect_error(start_forward(m->plan[0], &m->together[0][0], &fourth), RONDO_ERR_BUSY,
                        "forward refused: 3 of max_in_flight 3 starts of the plan", NULL, "fourth");
    bad += expect(fourth == UNTOUCHED, "a refused start touched request");
    for (int b = BATCHES - 1; b >= 0; b--) {
        bad += expect(!rondo_wait(&m->request[b], WAIT_MS), "wait: %s", rondo_last_error());
        if (b == 1) /* room again while one is under way */
            bad += expect(!shard_forward(m->plan[0], &m->together[0][2]), "again: %s", rondo_last_error());
    }
    for (int b = 0; b < BATCHES; b++) {
        bad += expect(!shard_backward(m->plan[0], &m->together[0][b]), "backward: %s", rondo_last_error());
        bad += expect(same_bits(&m->alone[0][b], &m->together[0][b]), "batch %d: other bits", b);
    }
    return bad;
}

static void model_init(struct model *m, int rank, int ranks, struct test *t)
{
    *m = (struct model){ .test = t, .rank = rank };
    m->comm = comm_of(&t->meeting, rank, ranks, "self");
    m->layout = layout_of(t->kind, t->problem[0][0].tokens, ranks);
    for (int l = 0; l < LAYERS; l++)
        for (int b = 0; b < BATCHES; b++) {
            shard_init(&m->alone[l][b], m->layout, rank, &t->problem[l][b]);
            shard_init(&m->together[l][b], m->layout, rank, &t->problem[l][b]);
        }
}

static void model_release(struct model *m)
{
    for (int l = 0; l < LAYERS; l++) {
        rondo_plan_destroy(m->plan[l]);
        for (int b = 0; b < BATCHES; b++) {
            shard_release(&m->alone[l][b]);
            shard_release(&m->together[l][b]);
        }
    }
    rondo_layout_destroy(m->layout);
    rondo_comm_destroy(m->comm);
}

static int layers_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    struct model *m = malloc(sizeof(*m));
    size_t before;
    int bad;

    if (!m)
        exit(1);
    model_init(m, rank, ranks, t);
    bad = make_plans(m);
    before = aligned_bytes();
    if (!bad)
        bad += one_at_a_time(m);
    if (!bad)
        bad += all_together(m);
    if (!bad)
        bad += one_layer(m);
    t->all[rank] = stats_of(m->plan[LAYERS - 1]);
    bad += expect(aligned_bytes() == before, "starts take %zu bytes", aligned_bytes() - before);
    model_release(m);
    free(m);
    return bad;
}

static struct test *test_of(int64_t tokens)
{
    struct test *t = shared_memory(sizeof(*t));

    for (int l = 0; l < LAYERS; l++)
        for (int b = 0; b < BATCHES; b++) {
            t->problem[l][b] = (struct problem){ .batch = 2, .tokens = tokens, .causal = 1, .q_heads = 4,
                                                 .kv_heads = 2, .qk_dim = 8, .v_dim = 12 };
            problem_init(&t->problem[l][b], (uint64_t)(l * BATCHES + b + 1));
        }
    return t;
}

static void test_release(struct test *t)
{
    for (int l = 0; l < LAYERS; l++)
        for (int b = 0; b < BATCHES; b++)
            problem_release(&t->problem[l][b]);
}

/* Numbers of the issue, for who reads the log. */
static void tell(const struct test *t, int ranks)
{
    const rondo_plan_memory_t *memory = &t->memory[0];

    printf("# %d ranks: a start needs %zu bytes forward, %zu backward; pool of 1 layer %zu, of %d layers "
           "with %d in flight %zu; scratch %zu, tables %zu a layer; %d starts refused\n",
           ranks, memory->start_bytes[0], memory->start_bytes[1], t->one[0].pool_bytes, LAYERS, BATCHES,
           t->all[0].pool_bytes, t->all[0].scratch_bytes, t->all[0].table_bytes, t->refused[0]);
}

static void twelve_layers_need_the_memory_of_one(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++) {
        struct test *t = test_of(18);

        t->kind = (rondo_layout_kind_t)(ranks % 3);
        assert_int_equal(run_ranks(ranks, 0, 100, layers_body, t), 0);
        for (int r = 0; r < ranks; r++) {
            size_t start = t->memory[r].start_bytes[0];

            if (t->memory[r].start_bytes[1] > start)
                start = t->memory[r].start_bytes[1];
            assert_true(start > 0);
            assert_int_equal(t->memory[r].pool_bytes, BATCHES * start);
            assert_int_equal(t->one[r].pool_bytes, BATCHES * start);
            assert_int_equal(t->all[r].pool_bytes, BATCHES * start);
            assert_int_equal(t->all[r].scratch_bytes, t->memory[r].scratch_bytes);
            assert_int_equal(t->all[r].table_bytes, t->memory[r].table_bytes);
            assert_true(t->refused[r] > 10);
        }
        tell(t, ranks);
        test_release(t);
    }
}

/* ---- a request counts until it is taken ---- */

static int untaken_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    struct problem *p = &t->problem[0][0];
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_STRIPED, p->tokens, ranks);
    rondo_plan_t plan = plan_of(comm, layout, p, 0);
    rondo_request_t first = NULL, second = UNTOUCHED;
    struct shard s;
    int bad, done = 0;

    shard_init(&s, layout, rank, p);
    bad = expect(!start_forward(plan, &s, &first), "forward: %s", rondo_last_error());
    while (!bad && stats_of(plan).forwards == 0)
        bad += expect(!rondo_comm_progress(comm), "progress: %s", rondo_last_error());
    bad += expect_error(start_forward(plan, &s, &second), RONDO_ERR_BUSY, "1 of max_in_flight 1", NULL, "done");
    bad += expect(!rondo_test(&first, &done) && done && !first, "test: %s", rondo_last_error());
    bad += expect(!shard_both(plan, &s), "after test: %s", rondo_last_error());
    rondo_plan_destroy(plan);
    shard_release(&s);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void a_request_counts_until_it_is_taken(void **state)
{
    struct test *t = test_of(5);

    (void)state;
    assert_int_equal(run_ranks(1, 0, 60, untaken_body, t), 0);
    memset(&t->meeting, 0, sizeof(t->meeting));
    assert_int_equal(run_ranks(2, 0, 60, untaken_body, t), 0);
    test_release(t);
}

/* ---- a larger plan, made while a start of a smaller one is under way ---- */

static int grow_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    struct problem *small = &t->problem[0][0], *large = &t->problem[0][1];
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layouts[2] = { layout_of(RONDO_LAYOUT_ZIGZAG, small->tokens, ranks),
                                  layout_of(RONDO_LAYOUT_ZIGZAG, large->tokens, ranks) };
    rondo_plan_t plans[2] = { plan_of(comm, layouts[0], small, 1), NULL };
    rondo_request_t request = NULL, other = NULL;
    size_t before = stats_of(plans[0]).pool_bytes, start;
    struct shard s[2];
    int bad;

    shard_init(&s[0], layouts[0], rank, small);
    shard_init(&s[1], layouts[1], rank, large);
    bad = expect(!start_forward(plans[0], &s[0], &request), "forward: %s", rondo_last_error());
    plans[1] = plan_of(comm, layouts[1], large, 2);
    bad += expect(!start_forward(plans[1], &s[1], &other), "beside it: %s", rondo_last_error());
    bad += expect(!rondo_wait(&other, WAIT_MS), "wait: %s", rondo_last_error());
    bad += expect(!rondo_wait(&request, WAIT_MS), "wait: %s", rondo_last_error());
    bad += expect(!start_backward(plans[0], &s[0], &request), "backward: %s", rondo_last_error());
    bad += expect(!shard_backward(plans[1], &s[1]), "backward: %s", rondo_last_error());
    bad += expect(!rondo_wait(&request, WAIT_MS), "wait: %s", rondo_last_error());
    start = stats_of(plans[1]).pool_bytes / 2;
    bad += expect(before < start && stats_of(plans[0]).pool_bytes == 2 * start,
                  "the pool grew from %zu to %zu bytes", before, stats_of(plans[0]).pool_bytes);
    bad += expect(shard_forward_error(&s[0], small) <= SHARD_BAR && shard_backward_error(&s[0], small) <= SHARD_BAR &&
                      shard_forward_error(&s[1], large) <= SHARD_BAR &&
                      shard_backward_error(&s[1], large) <= SHARD_BAR, "results are off");
    for (int i = 0; i < 2; i++) {
        rondo_plan_destroy(plans[i]);
        shard_release(&s[i]);
        rondo_layout_destroy(layouts[i]);
    }
    rondo_comm_destroy(comm);
    return bad;
}

static void the_pool_grows_under_a_start(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++) {
        struct test *t = test_of(7);

        problem_release(&t->problem[0][1]);
        t->problem[0][1].tokens = 45;
        problem_init(&t->problem[0][1], 99);
        assert_int_equal(run_ranks(ranks, 0, 60, grow_body, t), 0);
        test_release(t);
    }
}

/* ---- numbers of messages come round ---- */

enum { NUMBERS = 4096 };

/* One start stays under way while as many others as there are numbers come and go. */
static int wrap_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    struct problem *p = &t->problem[0][0];
    rondo_comm_t comm = comm_of(&t->meeting, rank, ranks, "self");
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_CONTIGUOUS, p->tokens, ranks);
    rondo_plan_t plan = plan_of(comm, layout, p, 3);
    rondo_request_t held = NULL, second = NULL, refused = UNTOUCHED;
    struct shard first, s, other;
    int bad;

    shard_init(&first, layout, rank, p);
    shard_init(&s, layout, rank, p);
    shard_init(&other, layout, rank, &t->problem[0][1]);
    bad = expect(!start_forward(plan, &first, &held), "forward: %s", rondo_last_error());
    for (int i = 1; i < NUMBERS && !bad; i += 2) {
        bad += expect(!start_forward(plan, &other, &second), "%d: %s", i, rondo_last_error());
        bad += expect(i + 1 == NUMBERS || !shard_forward(plan, &s), "%d: %s", i + 1, rondo_last_error());
        bad += expect(!rondo_wait(&second, WAIT_MS), "%d: %s", i, rondo_last_error());
    }
    bad += expect_error(start_forward(plan, &s, &refused), RONDO_ERR_BUSY, "forward refused", "long ago", "round");
    bad += expect(refused == UNTOUCHED, "a refused start touched request");
    bad += expect(!shard_backward(plan, &s), "backward has its own numbers: %s", rondo_last_error());
    bad += expect(!rondo_wait(&held, WAIT_MS), "wait: %s", rondo_last_error());
    bad += expect(!shard_forward(plan, &s), "after wait: %s", rondo_last_error());
    bad += expect(shard_forward_error(&first, p) <= SHARD_BAR && shard_forward_error(&s, p) <= SHARD_BAR &&
                      shard_forward_error(&other, &t->problem[0][1]) <= SHARD_BAR, "results are off");
    rondo_plan_destroy(plan);
    shard_release(&first);
    shard_release(&s);
    shard_release(&other);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void numbers_of_messages_come_round(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        struct test *t = test_of(3);

        assert_int_equal(run_ranks(ranks, 0, 100, wrap_body, t), 0);
        test_release(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twelve_layers_need_the_memory_of_one),
        cmocka_unit_test(a_request_counts_until_it_is_taken),
        cmocka_unit_test(the_pool_grows_under_a_start),
        cmocka_unit_test(numbers_of_messages_come_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
