/* SPDX-License-Identifier: Apache-2.0 */
/* Plans whose callers have bf16 or f16: sums are fp32 and rounded once, so that errors do not grow with ranks,
 * and half the bytes travel. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/typed.h"

enum { MAX_RANKS = 5, HEADS = 4 };

struct test {
    struct meeting meeting;
    struct problem problem;
    rondo_layout_kind_t kind;
    rondo_dtype_t type;
    rondo_plan_options_t options;
    int has_sinks, ranks_per_host, spoiled;
    double forward[MAX_RANKS], backward[MAX_RANKS]; /* errors of each rank */
    rondo_plan_stats_t stats[MAX_RANKS];
};

/* o of an fp32 plan on the same numbers, and the gradients that it makes of the rounded o. */
static int run_wide(struct test *t, rondo_plan_t plan, const struct shard *s, struct shard *wide,
                    const float *sinks, float *d_sinks)
{
    rondo_attention_fwd_t fwd = shard_forward_tensors(wide);
    rondo_attention_bwd_t bwd = shard_backward_tensors(wide);

    fwd.sinks = bwd.sinks = t->has_sinks ? sinks : NULL;
    bwd.d_sinks = t->has_sinks ? d_sinks : NULL;
    bwd.o = s->o;
    return run_both(plan, &fwd, &bwd);
}

static int is_rounded(const struct test *t, const char *what, const float *got, float *wide, size_t count)
{
    if (count == 0)
        return 0;
    features_round(t->type, wide, count);
    return expect(memcmp(got, wide, count * sizeof(*got)) == 0, "%s is not the rounded sum", what);
}

static int compare_wide(struct test *t, const struct shard *s, struct shard *wide, const struct typed *x)
{
    int bad = is_rounded(t, "o", s->o, wide->o, x->counts[4]);

    bad += is_rounded(t, "dq", s->dq, wide->dq, x->counts[5]);
    bad += is_rounded(t, "dk", s->dk, wide->dk, x->counts[6]);
    return bad + is_rounded(t, "dv", s->dv, wide->dv, x->counts[7]);
}

static int body(int rank, int ranks, void *arg)
{
    static const float sinks[HEADS] = { -INFINITY, -1, 0, 2 };
    struct test *t = arg;
    rondo_comm_t comm = comm_on_host(&t->meeting, rank, ranks, "self", t->ranks_per_host);
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_t plan = NULL, wide_plan = NULL;
    struct shard s, wide;
    struct typed x;
    float d_sinks[HEADS], wide_d_sinks[HEADS];
    int bad;

    shard_init(&s, layout, rank, &t->problem);
    shard_init(&wide, layout, rank, &t->problem);
    typed_init(&x, t->type, &s, &t->problem);
    desc.has_sinks = t->has_sinks;
    bad = expect(!rondo_attention_plan(comm, layout, &desc, &t->options, &wide_plan), "plan: %s", rondo_last_error());
    desc.dtype = t->type;
    bad += expect(!rondo_attention_plan(comm, layout, &desc, &t->options, &plan), "plan: %s", rondo_last_error());
    bad += expect(bad || !typed_both(plan, &x, &s, t->has_sinks ? sinks : NULL, t->has_sinks ? d_sinks : NULL),
                  "run: %s", rondo_last_error());
    t->forward[rank] = shard_forward_error(&s, &t->problem);
    t->backward[rank] = shard_backward_error(&s, &t->problem);
    bad += expect(bad || !run_wide(t, wide_plan, &s, &wide, sinks, wide_d_sinks), "run: %s", rondo_last_error());
    if (!t->options.chunk_bytes && t->options.kernel) /* fp32 has other chunks, a bundled kernel perhaps another way */
        bad += compare_wide(t, &s, &wide, &x);
    for (int h = 0; t->has_sinks && h < HEADS; h++)
        bad += expect(d_sinks[h] == wide_d_sinks[h], "gradient of sink %d", h);
    t->stats[rank] = (rondo_plan_stats_t)RONDO_PLAN_STATS_INIT;
    rondo_plan_stats(plan, &t->stats[rank]);
    rondo_plan_destroy(plan);
    rondo_plan_destroy(wide_plan);
    typed_release(&x);
    shard_release(&wide);
    shard_release(&s);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static struct test *test_of(rondo_dtype_t type, int64_t tokens)
{
    struct test *t = shared_memory(sizeof(*t));
    struct features none = { 0 };

    t->problem = (struct problem){ .batch = 2, .tokens = tokens, .causal = 1, .q_heads = HEADS, .kv_heads = 2,
                                   .qk_dim = 8, .v_dim = 6 };
    problem_init(&t->problem, 23);
    t->type = type;
    features_round_problem(&t->problem, type);
    features_solve(&t->problem, &none);
    t->options = (rondo_plan_options_t)RONDO_PLAN_OPTIONS_INIT;
    t->options.kernel = &features_kernel;
    return t;
}

static void run(struct test *t, int ranks)
{
    assert_int_equal(run_ranks(ranks, 0, 60, body, t), 0);
    memset(&t->meeting, 0, sizeof(t->meeting));
}

static double largest(const double *errors, int ranks)
{
    double worst = 0;

    for (int r = 0; r < ranks; r++)
        worst = errors[r] > worst || isnan(errors[r]) ? errors[r] : worst;
    return worst;
}

/* Half the last bit of outputs below 8, and for gradients as much again of o in delta, times gradients' sizes. */
static const double bars[][2] = { [RONDO_BF16] = { 1.7e-2, 4e-2 }, [RONDO_F16] = { 2.1e-3, 5e-3 } };

/* kernel_name NULL: the plain one. */
static void check_growth(const char *kernel_name)
{
    static const char *const backwards[] = { "kv-grad", "q-grad" };

    for (int type = RONDO_BF16; type <= RONDO_F16; type++) {
        struct test *t = test_of((rondo_dtype_t)type, 61);
        double forward = 0, backward = 0;

        t->options.kernel_name = kernel_name;
        t->options.kernel = kernel_name ? NULL : &features_kernel;
        for (int ranks = 1; ranks <= MAX_RANKS; ranks++)
            for (int way = 0; way < 2; way++) {
                t->options.backward = backwards[way];
                t->options.binding = way ? "copy" : NULL;
                t->kind = (rondo_layout_kind_t)((ranks + way) % 3);
                run(t, ranks);
                if (ranks == 1) {
                    forward = largest(t->forward, 1);
                    backward = largest(t->backward, 1);
                    assert_true(forward <= bars[type][0] && backward <= bars[type][1]);
                }
                assert_true(largest(t->forward, ranks) <= 1.5 * forward);
                assert_true(largest(t->backward, ranks) <= 1.5 * backward);
            }
        problem_release(&t->problem);
    }
}

static void errors_do_not_grow_with_ranks(void **state)
{
    (void)state;
    check_growth(NULL);
}

static void nor_do_those_of_bundled_kernels(void **state)
{
    (void)state;
    check_growth("reference");
    check_growth("flash");
}

static void every_schedule_and_kernel_rounds_once(void **state)
{
    static const rondo_kernel_t *const kernels[] = { &features_kernel, &features_partial_kernel, &features_o_kernel };
    static const char *const schedules[] = { "ring", "direct", "two-level" };

    (void)state;
    for (int i = 0; i < 9; i++) {
        struct test *t = test_of(i & 1 ? RONDO_F16 : RONDO_BF16, i == 8 ? 3 : 37);

        t->options.kernel = kernels[i % 3];
        t->options.schedule = schedules[i / 3];
        t->options.backward = i % 3 == 2 ? "q-grad" : NULL;
        t->options.chunk_bytes = i % 4 == 3 ? 200 : 0;
        t->options.pieces = i == 7 ? 2 : 0;
        t->ranks_per_host = i / 3 == 2 ? 2 : 0;
        run(t, 4);
        assert_true(largest(t->forward, 4) <= bars[t->type][0] && largest(t->backward, 4) <= bars[t->type][1]);
        problem_release(&t->problem);
    }
}

static void sinks_are_folded_in_before_rounding(void **state)
{
    struct test *t = test_of(RONDO_BF16, 29);

    (void)state;
    t->has_sinks = 1;
    for (int ranks = 1; ranks <= 3; ranks++)
        run(t, ranks);
    problem_release(&t->problem);
}

static void half_the_bytes_travel(void **state)
{
    struct test *t = test_of(RONDO_BF16, 40);
    uint64_t block = 10 * 2 * 2 * 2; /* tokens, rows, key heads, bytes of a number */

    (void)state;
    t->options.schedule = "ring";
    t->options.backward = "kv-grad";
    t->options.binding = "copy";
    run(t, 4);
    for (int r = 0; r < 4; r++) {
        const uint64_t *sent = t->stats[r].sent_tensor_bytes[0];

        assert_int_equal(sent[RONDO_TENSOR_K], 2 * 3 * block * 8); /* forward and backward */
        assert_int_equal(sent[RONDO_TENSOR_V], 2 * 3 * block * 6);
        assert_int_equal(sent[RONDO_TENSOR_DK], 3 * 2 * block * 8); /* fp32 */
        assert_int_equal(sent[RONDO_TENSOR_DV], 3 * 2 * block * 6);
    }
    problem_release(&t->problem);
}

/* What a forward saves is of the caller's type. */
static int saved_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_on_host(&t->meeting, rank, ranks, "self", t->ranks_per_host);
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_attention_fwd_t fwd = RONDO_ATTENTION_FWD_INIT;
    rondo_request_t request = NULL;
    rondo_saved_t saved = NULL;
    rondo_plan_t plan = NULL;
    struct shard s;
    struct typed x;
    int bad;

    desc.dtype = t->type;
    shard_init(&s, layout, rank, &t->problem);
    typed_init(&x, t->type, &s, &t->problem);
    bad = expect(!rondo_attention_plan(comm, layout, &desc, &t->options, &plan), "plan: %s", rondo_last_error());
    bad += expect(!typed_both(plan, &x, &s, NULL, NULL), "run: %s", rondo_last_error());
    fwd.q = x.q;
    fwd.k = x.k;
    fwd.v = x.v;
    bad += expect(!rondo_saved_create(plan, &fwd, &saved), "saved: %s", rondo_last_error());
    bad += expect(!rondo_attention_forward(plan, &fwd, NULL, &request) && !rondo_wait(&request, WAIT_MS), "run: %s",
                  rondo_last_error());
    bad += expect(memcmp(rondo_saved_o(saved), x.o, x.counts[4] * 2) == 0, "o that is saved is another");
    rondo_saved_destroy(saved);
    rondo_plan_destroy(plan);
    typed_release(&x);
    shard_release(&s);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void what_is_saved_has_the_type(void **state)
{
    struct test *t = test_of(RONDO_F16, 20);

    (void)state;
    assert_int_equal(run_ranks(2, 0, 60, saved_body, t), 0);
    problem_release(&t->problem);
}

/* ---- RONDO_VERIFY ---- */

static int spoil_o(void *context, const rondo_kernel_forward_t *args)
{
    int err = features_kernel.forward(context, args);
    float *o = (float *)args->o.data + args->tiles[0].q_first * args->o.token_stride;

    o[0] += 0.05f * (1 + fabsf(o[0])); /* more than rounding can do */
    return err;
}

static int verify_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_plan_options_t options = t->options;
    rondo_kernel_t kernel = features_kernel;
    rondo_comm_t comm = comm_on_host(&t->meeting, rank, ranks, "self", t->ranks_per_host);
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_t plan = NULL;
    struct shard s;
    struct typed x;
    int bad, err;

    desc.dtype = t->type;
    if (t->spoiled)
        kernel.forward = spoil_o;
    shard_init(&s, layout, rank, &t->problem);
    typed_init(&x, t->type, &s, &t->problem);
    options.kernel = &kernel;
    bad = expect(!rondo_attention_plan(comm, layout, &desc, &options, &plan), "plan: %s", rondo_last_error());
    err = typed_both(plan, &x, &s, NULL, NULL);
    if (t->spoiled)
        bad += expect(err == RONDO_ERR_VERIFY, "status %d: %s", err, rondo_last_error());
    else
        bad += expect(!err, "run: %s", rondo_last_error());
    rondo_plan_destroy(plan);
    typed_release(&x);
    shard_release(&s);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void verification_allows_one_rounding(void **state)
{
    (void)state;
    setenv("RONDO_VERIFY", "1", 1);
    for (int type = RONDO_BF16; type <= RONDO_F16; type++)
        for (int wrong = 0; wrong < 2; wrong++) {
            struct test *t = test_of((rondo_dtype_t)type, 23);

            t->spoiled = wrong;
            assert_int_equal(run_ranks(1, 0, 60, verify_body, t), 0);
            memset(&t->meeting, 0, sizeof(t->meeting));
            if (!wrong)
                assert_int_equal(run_ranks(3, 0, 60, verify_body, t), 0);
            problem_release(&t->problem);
        }
    unsetenv("RONDO_VERIFY");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_do_not_grow_with_ranks),
        cmocka_unit_test(nor_do_those_of_bundled_kernels),
        cmocka_unit_test(every_schedule_and_kernel_rounds_once),
        cmocka_unit_test(sinks_are_folded_in_before_rounding),
        cmocka_unit_test(half_the_bytes_travel),
        cmocka_unit_test(what_is_saved_has_the_type),
        cmocka_unit_test(verification_allows_one_rounding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
