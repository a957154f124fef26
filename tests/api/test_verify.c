/* SPDX-License-Identifier: Apache-2.0 */
/* RONDO_VERIFY: right plans pass on every rank; one wrong element is found and named where it is; without
 * the switch nothing is exchanged. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/exact.h"
#include "base/status.h"
#include "comm/comm.h"
#include "tests/api/shard.h"

enum { MAX_RANKS = 4, SPARE = 3 };

static char log_file[] = "/tmp/test_verify.XXXXXX";

/* ---- what is counted, and refused, by the thread of each rank ---- */

static _Thread_local int exchanges, refuses_memory;

__typeof__(ri_comm_exchange) __real_ri_comm_exchange, __wrap_ri_comm_exchange;
__typeof__(ri_exact_create) __real_ri_exact_create, __wrap_ri_exact_create;

int __wrap_ri_comm_exchange(struct rondo_comm *comm, const char *what, const void *mine, size_t bytes,
                            void *all)
{
    exchanges++;
    return __real_ri_comm_exchange(comm, what, mine, bytes, all);
}

int __wrap_ri_exact_create(const struct ri_sight *sight, const rondo_attention_desc_t *desc,
                           enum ri_pass_kind kind, int rank, struct ri_exact **exact)
{
    if (refuses_memory)
        return ri_error(RONDO_ERR_MEMORY, "no memory in this test");
    return __real_ri_exact_create(sight, desc, kind, rank, exact);
}

/* Lines of the log so far that say so of a pass, and of some rank or (-1) any. */
static int right_lines(const char *pass, int rank)
{
    FILE *log = fopen(log_file, "r");
    char line[512], of[64];
    int count = 0;

    if (!log)
        exit(1);
    snprintf(of, sizeof(of), rank < 0 ? "values of rank" : "values of rank %d are right", rank);
    while (fgets(line, sizeof(line), log))
        count += strstr(line, pass) && strstr(line, of);
    fclose(log);
    return count;
}

/* ---- ranks ---- */

struct test {
    struct meeting meeting;
    struct problem problem;
    rondo_layout_kind_t kind;
    atomic_int spoilt;        /* the kernel below has spoilt one element */
    int64_t spoilt_position;
    float spoilt_by;
    int forward_only;
};

struct setting {
    int rank, ranks;
    struct test *test;
    rondo_comm_t comm;
    rondo_plan_t plan[MAX_RANKS];
    struct shard shard;
};

/* As many plans as ranks, so that each rank verifies one; odd ones are made for a longer batch. */
static int open_setting(struct setting *s, int rank, int ranks, struct test *t, const rondo_kernel_t *kernel)
{
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    rondo_layout_t longer = layout_of(t->kind, t->problem.tokens + SPARE, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    int err = 0;

    *s = (struct setting){ .rank = rank, .ranks = ranks, .test = t };
    s->comm = comm_of(&t->meeting, rank, ranks, "self");
    shard_init(&s->shard, layout, rank, &t->problem);
    options.kernel = kernel;
    options.max_in_flight = 2;
    for (int i = 0; !err && i < ranks; i++) {
        err = rondo_attention_plan(s->comm, i % 2 ? longer : layout, &desc, &options, &s->plan[i]);
        if (!err && i % 2)
            err = rondo_plan_bind(s->plan[i], t->problem.tokens, NULL, 0);
    }
    rondo_layout_destroy(layout);
    rondo_layout_destroy(longer);
    return expect(!err, "plan: %s", rondo_last_error());
}

static int close_setting(struct setting *s, int bad)
{
    for (int i = 0; i < s->ranks; i++)
        rondo_plan_destroy(s->plan[i]);
    rondo_comm_destroy(s->comm);
    shard_release(&s->shard);
    return bad;
}

static struct test *test_of(struct problem problem, rondo_layout_kind_t kind)
{
    struct test *t = shared_memory(sizeof(*t));

    t->problem = problem;
    t->kind = kind;
    problem_init(&t->problem, 7);
    return t;
}

static struct problem small_problem(int64_t tokens, int causal)
{
    return (struct problem){ .batch = 2, .tokens = tokens, .causal = causal, .q_heads = 4, .kv_heads = 2,
                             .qk_dim = 5, .v_dim = 3 };
}

static void run(struct test *t, int ranks, int (*body)(int, int, void *))
{
    assert_int_equal(run_ranks(ranks, 0, 120, body, t), 0);
    problem_release(&t->problem);
}

/* ---- right ones ---- */

static int right_body(int rank, int ranks, void *arg)
{
    struct setting s;
    int bad = open_setting(&s, rank, ranks, arg, NULL);

    for (int i = 0; !bad && i < 2 * ranks; i++)
        bad = expect(!shard_both(s.plan[i % ranks], &s.shard), "rank %d of %d, call %d: %s", rank, ranks, i,
                     rondo_last_error());
    return close_setting(&s, bad);
}

static void run_right(struct test *t, int ranks)
{
    int before[2][MAX_RANKS];

    for (int r = 0; r < ranks; r++) {
        before[0][r] = right_lines("forward", r);
        before[1][r] = right_lines("backward", r);
    }
    run(t, ranks, right_body);
    for (int r = 0; r < ranks; r++) {
        assert_int_equal(right_lines("forward", r), before[0][r] + 1);
        assert_int_equal(right_lines("backward", r), before[1][r] + 1);
    }
}

static void finds_right_what_is_right(void **state)
{
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++)
        for (int kind = RONDO_LAYOUT_CONTIGUOUS; kind <= RONDO_LAYOUT_STRIPED; kind++)
            for (int causal = 0; causal < 2; causal++)
                run_right(test_of(small_problem(4 * ranks + 3, causal), (rondo_layout_kind_t)kind), ranks);
}

static void verifies_empty_shards(void **state)
{
    run_right(test_of(small_problem(2, 1), RONDO_LAYOUT_CONTIGUOUS), 4);
}

static void sends_long_inputs_in_slices(void **state)
{
    struct problem p = { .batch = 1, .tokens = 91, .causal = 1, .q_heads = 2, .kv_heads = 2, .qk_dim = 2048,
                         .v_dim = 1023 };

    run_right(test_of(p, RONDO_LAYOUT_ZIGZAG), 2);
}

static void scale(float *x, int64_t count, float by)
{
    for (int64_t i = 0; i < count; i++)
        x[i] *= by;
}

/* Scores up to some hundreds, so that most weights vanish, and gradients as small as a long sequence's. */
static struct test *rough_test(int ranks)
{
    struct test *t = test_of(small_problem(6 * ranks + 1, 1), RONDO_LAYOUT_ZIGZAG);
    struct problem *p = &t->problem;

    scale(p->q, p->batch * p->tokens * p->q_heads * p->qk_dim, 50);
    scale(p->d_o, p->batch * p->tokens * p->q_heads * p->v_dim, 1e-6f);
    return t;
}

static void allows_what_rounding_does(void **state)
{
    run_right(rough_test(3), 3);
}

/* ---- while other requests are under way ---- */

/* Rank 0 begins the verified start only after it has waited for the other plan's; the others come to it
 * with that still under way, and move it. */
static int overlap_body(int rank, int ranks, void *arg)
{
    struct setting s;
    rondo_attention_fwd_t fwd;
    rondo_request_t first = NULL;
    struct shard other;
    int bad = open_setting(&s, rank, ranks, arg, NULL), err;
    rondo_layout_t layout = layout_of(s.test->kind, s.test->problem.tokens, ranks);

    shard_init(&other, layout, rank, &s.test->problem);
    rondo_layout_destroy(layout);
    fwd = shard_forward_tensors(&other);
    err = shard_forward(s.plan[0], &other);
    if (!err)
        err = rondo_attention_forward(s.plan[0], &fwd, NULL, &first);
    if (!err && rank == 0)
        err = rondo_wait(&first, WAIT_MS);
    if (!err)
        err = shard_both(s.plan[1], &s.shard);
    if (!err && rank != 0)
        err = rondo_wait(&first, WAIT_MS);
    bad += expect(!err, "rank %d: %s", rank, rondo_last_error());
    shard_release(&other);
    return close_setting(&s, bad);
}

static void moves_what_is_under_way(void **state)
{
    int before = right_lines("forward", -1);

    run(test_of(small_problem(23, 1), RONDO_LAYOUT_ZIGZAG), 3, overlap_body);
    assert_int_equal(right_lines("forward", -1), before + 2);
}

/* ---- wrong ones ---- */

enum { WRONG_HEAD = 1, WRONG_DIM = 2, WRONG_PLAN = 1 };

/* Tokens [first, first + count) lie at positions start, start + step, .. */
static void spoil(struct test *t, const rondo_tensor_t *tensor, int64_t first, int64_t count, int64_t start,
                  int64_t step)
{
    int64_t off = t->spoilt_position - start;
    int none = 0;

    if (off < 0 || off % step != 0 || off / step >= count ||
        !atomic_compare_exchange_strong(&t->spoilt, &none, 1))
        return;
    ((float *)tensor->data)[tensor->batch_stride + (first + off / step) * tensor->token_stride +
                            WRONG_HEAD * tensor->head_stride + WRONG_DIM] += t->spoilt_by;
}

static int wrong_forward(void *context, const rondo_kernel_forward_t *args)
{
    const rondo_tile_t *tile = args->tiles;
    struct test *t = context;

    if (rondo_kernel_find("flash")->forward(NULL, args))
        return 1;
    for (int i = 0; t->forward_only && i < args->tile_count; i++, tile++)
        spoil(t, &args->o, tile->q_first, tile->q_count, tile->q_start, tile->q_step);
    return 0;
}

static int wrong_backward(void *context, const rondo_kernel_backward_t *args)
{
    const rondo_tile_t *tile = args->tiles;

    if (rondo_kernel_find("flash")->backward(NULL, args))
        return 1;
    for (int i = 0; i < args->tile_count; i++, tile++)
        spoil(context, &args->dk, tile->k_first, tile->k_count, tile->k_start, tile->k_step);
    return 0;
}

static rondo_kernel_t wrong_kernel(struct test *t)
{
    rondo_kernel_t kernel = *rondo_kernel_find("flash");

    kernel.name = "wrong";
    kernel.context = t;
    kernel.forward = wrong_forward;
    kernel.backward = wrong_backward;
    return kernel;
}

/* After a failure somewhere, this rank hears of it at the next thing that all ranks do. */
static int hears_of_it(rondo_comm_t comm, int err)
{
    rondo_request_t request = NULL;

    if (!err)
        err = rondo_barrier(comm, NULL, &request);
    if (!err)
        err = rondo_wait(&request, WAIT_MS);
    return expect(err < 0 && strstr(rondo_last_error(), "is wrong"), "status %d: %s", err,
                  rondo_last_error());
}

static int wrong_body(int rank, int ranks, void *arg)
{
    struct setting s;
    struct test *t = arg;
    rondo_kernel_t kernel = wrong_kernel(t);
    int bad = open_setting(&s, rank, ranks, t, &kernel), err;
    char where[64];

    snprintf(where, sizeof(where), "position %lld, head %d, element %d", (long long)t->spoilt_position,
             WRONG_HEAD, WRONG_DIM);
    err = shard_both(s.plan[WRONG_PLAN], &s.shard);
    if (rank == WRONG_PLAN)
        bad += expect_error(err, RONDO_ERR_VERIFY, where,
                            t->forward_only ? "plan 1, forward: o of rank 1 is wrong: batch row 1"
                                            : "plan 1, backward: dk of rank 1 is wrong: batch row 1", "wrong");
    bad += hears_of_it(s.comm, err);
    return close_setting(&s, bad + expect(t->spoilt == 1, "no element was spoilt"));
}

static void run_wrong_test(struct test *t, int ranks, int forward_only, float by)
{
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    int64_t *positions = shared_memory((size_t)t->problem.tokens * sizeof(*positions));

    rondo_layout_positions(layout, WRONG_PLAN, positions);
    t->spoilt_position = positions[rondo_layout_tokens(layout, WRONG_PLAN) - 2];
    rondo_layout_destroy(layout);
    t->forward_only = forward_only;
    t->spoilt_by = by;
    run(t, ranks, wrong_body);
}

static void run_wrong(int ranks, rondo_layout_kind_t kind, int forward_only, float by)
{
    run_wrong_test(test_of(small_problem(5 * ranks + 1, 1), kind), ranks, forward_only, by);
}

static void names_a_wrong_output(void **state)
{
    run_wrong(3, RONDO_LAYOUT_ZIGZAG, 1, 0.01f);
    run_wrong(4, RONDO_LAYOUT_STRIPED, 1, NAN);
}

static void names_a_wrong_gradient(void **state)
{
    run_wrong(2, RONDO_LAYOUT_STRIPED, 0, 0.01f);
    run_wrong(3, RONDO_LAYOUT_ZIGZAG, 0, 0.01f);
    run_wrong(4, RONDO_LAYOUT_CONTIGUOUS, 0, INFINITY);
    run_wrong_test(rough_test(3), 3, 0, 1e-6f); /* no more than a gradient itself */
}

static int wrong_lse_body(int rank, int ranks, void *arg)
{
    struct setting s;
    int bad = open_setting(&s, rank, ranks, arg, NULL), err = shard_forward(s.plan[0], &s.shard);

    bad += expect(!err, "%s", rondo_last_error());
    if (rank == 0)
        s.shard.lse[s.shard.n + 1] += 0.01f;
    err = shard_backward(s.plan[0], &s.shard);
    if (rank == 0)
        bad += expect_error(err, RONDO_ERR_VERIFY, "backward: lse of rank 0 is wrong", "head 1", "lse");
    bad += hears_of_it(s.comm, err);
    return close_setting(&s, bad);
}

static void names_a_wrong_input_of_a_backward(void **state)
{
    run(test_of(small_problem(11, 1), RONDO_LAYOUT_CONTIGUOUS), 2, wrong_lse_body);
}

/* ---- ranks that do not come together ---- */

static int other_order_body(int rank, int ranks, void *arg)
{
    struct setting s;
    int bad = open_setting(&s, rank, ranks, arg, NULL), err = shard_forward(s.plan[rank], &s.shard);

    /* whoever compares later may hear that the other has failed */
    bad += expect_error(err, err == RONDO_ERR_PEER ? RONDO_ERR_PEER : RONDO_ERR_MISMATCH,
                        "verification: plan number is 0 on rank 0 and 1 on rank 1", NULL, "order");
    return close_setting(&s, bad);
}

static void refuses_another_order(void **state)
{
    run(test_of(small_problem(9, 0), RONDO_LAYOUT_ZIGZAG), 2, other_order_body);
}

static int no_memory_body(int rank, int ranks, void *arg)
{
    struct setting s;
    int bad = open_setting(&s, rank, ranks, arg, NULL);

    refuses_memory = 1;
    bad += expect_error(shard_forward(s.plan[1], &s.shard), rank == 1 ? RONDO_ERR_MEMORY : RONDO_ERR_PEER,
                        "no memory in this test", NULL, "memory");
    refuses_memory = 0;
    return close_setting(&s, bad);
}

static void tells_all_that_one_has_no_memory(void **state)
{
    run(test_of(small_problem(9, 0), RONDO_LAYOUT_ZIGZAG), 3, no_memory_body);
}

static int other_setting_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_t plan = NULL;
    rondo_comm_t comm;
    int bad;

    comm = comm_of(&t->meeting, rank, ranks, "self");
    comm->config.verify = rank == 1; /* as the environment of its process may have said */
    bad = expect_error(rondo_attention_plan(comm, layout, &desc, NULL, &plan), RONDO_ERR_MISMATCH,
                       "RONDO_VERIFY is 0 on rank 0 and 1 on rank 1", NULL, "setting");
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void refuses_another_setting(void **state)
{
    run(test_of(small_problem(9, 0), RONDO_LAYOUT_ZIGZAG), 3, other_setting_body);
}

/* ---- without the switch ---- */

static int off_body(int rank, int ranks, void *arg)
{
    struct setting s;
    rondo_kernel_t kernel = wrong_kernel(arg);
    int bad = open_setting(&s, rank, ranks, arg, &kernel);

    exchanges = 0;
    refuses_memory = 1;
    bad += expect(!shard_both(s.plan[0], &s.shard), "%s", rondo_last_error());
    bad += expect(exchanges == 0, "%d exchanges", exchanges);
    refuses_memory = 0;
    return close_setting(&s, bad);
}

static void does_nothing_unless_asked(void **state)
{
    struct test *t = test_of(small_problem(13, 1), RONDO_LAYOUT_ZIGZAG);
    int before = right_lines("", -1);

    t->forward_only = 1;
    t->spoilt_by = 1;
    setenv("RONDO_VERIFY", "0", 1);
    run(t, 2, off_body);
    setenv("RONDO_VERIFY", "1", 1);
    assert_int_equal(t->spoilt, 1);
    assert_int_equal(right_lines("", -1), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_right_what_is_right),
        cmocka_unit_test(verifies_empty_shards),
        cmocka_unit_test(sends_long_inputs_in_slices),
        cmocka_unit_test(allows_what_rounding_does),
        cmocka_unit_test(moves_what_is_under_way),
        cmocka_unit_test(names_a_wrong_output),
        cmocka_unit_test(names_a_wrong_gradient),
        cmocka_unit_test(names_a_wrong_input_of_a_backward),
        cmocka_unit_test(refuses_another_order),
        cmocka_unit_test(tells_all_that_one_has_no_memory),
        cmocka_unit_test(refuses_another_setting),
        cmocka_unit_test(does_nothing_unless_asked),
    };
    int file = mkstemp(log_file), failures;

    if (file < 0)
        return 1;
    close(file);
    setenv("RONDO_LOG", "warn,verify:info", 1);
    setenv("RONDO_LOG_FILE", log_file, 1);
    setenv("RONDO_VERIFY", "1", 1);
    failures = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(log_file);
    return failures;
}
