/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of attention over ranks, whatever the numbers: a later token changes no earlier
 * output, gradients reach every rank, and a caller's kernel does as well as ours. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/shard.h"

enum { LAYOUTS = 3 };

struct test {
    struct meeting meeting;
    struct problem problem;
    rondo_layout_kind_t kind;
    const char *kernel;
};

/* What each rank of these tests has. */
struct setting {
    int rank, ranks;
    rondo_comm_t comm;
    rondo_layout_t layout;
    rondo_plan_t plan;
    struct shard shard;
};

static int open_setting(struct setting *s, int rank, int ranks, struct test *t,
                        const rondo_plan_options_t *options)
{
    rondo_plan_options_t own = RONDO_PLAN_OPTIONS_INIT;
    rondo_attention_desc_t desc = desc_of(&t->problem);

    own.kernel_name = t->kernel;
    *s = (struct setting){ .rank = rank, .ranks = ranks };
    s->comm = comm_of(&t->meeting, rank, ranks, "self");
    s->layout = layout_of(t->kind, t->problem.tokens, ranks);
    shard_init(&s->shard, s->layout, rank, &t->problem);
    return expect(!rondo_attention_plan(s->comm, s->layout, &desc, options ? options : &own, &s->plan),
                  "plan: %s", rondo_last_error());
}

static void close_setting(struct setting *s)
{
    rondo_plan_destroy(s->plan);
    shard_release(&s->shard);
    rondo_layout_destroy(s->layout);
    rondo_comm_destroy(s->comm);
}

/* t->problem is filled, and solved. */
static void run(struct test *t, int ranks, int (*body)(int, int, void *))
{
    assert_int_equal(run_ranks(ranks, 0, 60, body, t), 0);
    memset(&t->meeting, 0, sizeof(t->meeting));
}

static struct test *test_of(const struct problem *shape)
{
    struct test *t = shared_memory(sizeof(*t));

    t->problem = *shape;
    problem_init(&t->problem, 7);
    return t;
}

/* ---- a later token (zhuzilin/ring-flash-attention#54) ---- */

enum { CAUSAL_TOKENS = 16, CAUSAL_CUT = 7 };

/* Spoils V, and K too, of the tokens from CAUSAL_CUT on. */
static void spoil_later(const struct setting *s, const struct problem *p, float value)
{
    for (int64_t i = 0; i < s->shard.n; i++) {
        if (s->shard.positions[i] < CAUSAL_CUT)
            continue;
        for (int d = 0; d < p->kv_heads * p->v_dim; d++)
            s->shard.v[i * p->kv_heads * p->v_dim + d] = value;
        for (int d = 0; d < p->kv_heads * p->qk_dim && isnan(value); d++)
            s->shard.k[i * p->kv_heads * p->qk_dim + d] = value;
    }
}

/* Outputs of earlier tokens are the same bits as before. */
static int earlier_unchanged(const struct setting *s, const struct problem *p, const float *o, float value)
{
    size_t row = (size_t)(p->q_heads * p->v_dim);

    for (int64_t i = 0; i < s->shard.n; i++)
        if (s->shard.positions[i] < CAUSAL_CUT &&
            memcmp(o + (size_t)i * row, s->shard.o + (size_t)i * row, row * sizeof(float)) != 0)
            return expect(0, "with %g in later tokens, output %lld changes", (double)value,
                          (long long)s->shard.positions[i]);
    return 0;
}

/* d o[i] / d v[j] is 0 for j > i: dO of the first tokens only gives no dV beyond them. */
static int no_gradient_to_later(const struct setting *s, const struct problem *p)
{
    int64_t o_row = p->q_heads * p->v_dim, v_row = p->kv_heads * p->v_dim;
    int bad = 0;

    for (int64_t i = 0; i < s->shard.n; i++)
        for (int64_t d = 0; d < o_row && s->shard.positions[i] >= CAUSAL_CUT; d++)
            s->shard.d_o[i * o_row + d] = 0;
    bad += expect(!shard_both(s->plan, &s->shard), "backward: %s", rondo_last_error());
    for (int64_t i = 0; i < s->shard.n && !bad; i++)
        for (int64_t d = 0; d < v_row && !bad; d++)
            bad += expect((s->shard.dv[i * v_row + d] == 0) == (s->shard.positions[i] >= CAUSAL_CUT),
                          "dv of token %lld is %g", (long long)s->shard.positions[i],
                          (double)s->shard.dv[i * v_row + d]);
    return bad;
}

static int causal_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    const struct problem *p = &t->problem;
    struct setting s;
    int bad = open_setting(&s, rank, ranks, t, NULL);
    size_t bytes = (size_t)(s.shard.n * p->q_heads * p->v_dim) * sizeof(float);
    float *o = malloc(bytes + 1);

    bad += no_gradient_to_later(&s, p);
    if (o && bytes)
        memcpy(o, s.shard.o, bytes);
    for (int i = 0; i < 3 && !bad && o; i++) {
        static const float values[] = { 1e30f, INFINITY, NAN };

        spoil_later(&s, p, values[i]);
        bad += expect(!shard_forward(s.plan, &s.shard), "forward: %s", rondo_last_error());
        bad += earlier_unchanged(&s, p, o, values[i]);
    }
    free(o);
    close_setting(&s);
    return bad;
}

static void a_later_token_changes_no_earlier_output(void **state)
{
    static const char *const kernels[] = { "flash", "reference" };
    struct test *t = test_of(&(struct problem){ .batch = 1, .tokens = CAUSAL_TOKENS, .causal = 1, .q_heads = 2,
                                                .kv_heads = 1, .qk_dim = 8, .v_dim = 8 });

    (void)state;
    for (int kernel = 0; kernel < 2; kernel++)
        for (int kind = 0; kind < LAYOUTS; kind++)
            for (int ranks = 1; ranks <= 4; ranks++) {
                t->kernel = kernels[kernel];
                t->kind = (rondo_layout_kind_t)kind;
                run(t, ranks, causal_body);
            }
    problem_release(&t->problem);
}

/* ---- gradients reach other ranks (huggingface/diffusers#14265) ---- */

static int problem_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    struct setting s;
    const struct problem *p = &t->problem;
    int bad = open_setting(&s, rank, ranks, t, NULL);

    bad += expect(!shard_both(s.plan, &s.shard), "%s", rondo_last_error());
    bad += expect(shard_forward_error(&s.shard, p) <= SHARD_BAR && shard_backward_error(&s.shard, p) <= SHARD_BAR,
                  "rank %d of %d, %s, %lld tokens: off by %g, %g", rank, ranks, rondo_layout_kind_name(t->kind),
                  (long long)p->tokens, shard_forward_error(&s.shard, p), shard_backward_error(&s.shard, p));
    close_setting(&s);
    return bad;
}

static int far_gradient_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    struct setting s;
    int bad = open_setting(&s, rank, ranks, t, NULL), some = 0;

    bad += expect(!shard_both(s.plan, &s.shard), "%s", rondo_last_error());
    for (int64_t i = 0; i < s.shard.n * t->problem.kv_heads * t->problem.v_dim; i++)
        some += s.shard.dv[i] != 0 && s.shard.dk[i] != 0;
    bad += expect(some > 0, "rank %d has no gradient", rank);
    bad += expect(shard_backward_error(&s.shard, &t->problem) <= SHARD_BAR, "gradients are off by %g",
                  shard_backward_error(&s.shard, &t->problem));
    close_setting(&s);
    return bad;
}

static void gradients_reach_ranks_that_only_have_keys(void **state)
{
    struct test *t = test_of(&(struct problem){ .batch = 1, .tokens = 12, .causal = 0, .q_heads = 4,
                                                .kv_heads = 2, .qk_dim = 8, .v_dim = 8 });

    (void)state;
    memset(t->problem.d_o + 4 * 4 * 8, 0, 8 * 4 * 8 * sizeof(float)); /* all but rank 0's tokens */
    problem_solve(&t->problem);
    run(t, 3, far_gradient_body);
    problem_release(&t->problem);
}

/* ---- few tokens: empty shards, with NULL for every tensor (jzhang38/EasyContext#47) ---- */

static void few_tokens_and_empty_shards(void **state)
{
    static const int tokens[] = { 1, 2, 3, 4, 7, 8, 17 };

    (void)state;
    for (int n = 0; n < 7; n++) {
        for (int causal = 0; causal < 2; causal++) {
            struct test *t = test_of(&(struct problem){ .batch = 2, .tokens = tokens[n], .causal = causal,
                                                        .q_heads = 2, .kv_heads = 1, .qk_dim = 4, .v_dim = 6 });

            for (int kind = 0; kind < LAYOUTS; kind++)
                for (int ranks = 4; ranks <= 8; ranks += 4) {
                    t->kind = (rondo_layout_kind_t)kind;
                    run(t, ranks, problem_body);
                }
            problem_release(&t->problem);
        }
    }
}

/* ---- a caller's own kernel ---- */

/* Does not merge: gives the tile's own result, as a library kernel would. */
static int partial_forward(void *context, const rondo_kernel_forward_t *args)
{
    const rondo_tile_t *tile = args->tiles;

    (void)context;
    if (args->tile_count != 1)
        return 1;
    for (int64_t b = 0; b < args->shape->batch; b++)
        for (int h = 0; h < args->shape->q_heads; h++)
            for (int64_t i = tile->q_first; i < tile->q_first + tile->q_count; i++) {
                float *o = (float *)args->o.data + b * args->o.batch_stride + i * args->o.token_stride +
                           h * args->o.head_stride;
                float *lse = (float *)args->lse.data + b * args->lse.batch_stride +
                             i * args->lse.token_stride + h * args->lse.head_stride;

                memset(o, 0, (size_t)args->shape->v_dim * sizeof(float));
                *lse = -INFINITY;
            }
    return rondo_kernel_find("reference")->forward(NULL, args);
}

static size_t delta_bytes(const rondo_kernel_shape_t *shape)
{
    return (size_t)(shape->batch * shape->q_heads * shape->max_q_tokens) * sizeof(float);
}

static size_t delta_workspace(void *context, const rondo_kernel_shape_t *shape)
{
    const rondo_kernel_t *reference = rondo_kernel_find("reference");

    (void)context;
    return ((delta_bytes(shape) + 63) & ~(size_t)63) +
           (reference->workspace_bytes ? reference->workspace_bytes(NULL, shape) : 0);
}

/* Wants o, and makes delta itself. */
static int own_delta_backward(void *context, const rondo_kernel_backward_t *args)
{
    rondo_kernel_backward_t with_delta = *args;
    float *delta = args->workspace;

    (void)context;
    if (args->delta.data || !args->o.data)
        return 2;
    for (int64_t b = 0; b < args->shape->batch; b++)
        for (int h = 0; h < args->shape->q_heads; h++)
            for (int64_t i = 0; i < args->q_tokens; i++) {
                const float *o = (const float *)args->o.data + b * args->o.batch_stride +
                                 i * args->o.token_stride + h * args->o.head_stride;
                const float *d_o = (const float *)args->d_o.data + b * args->d_o.batch_stride +
                                   i * args->d_o.token_stride + h * args->d_o.head_stride;
                double sum = 0;

                for (int d = 0; d < args->shape->v_dim; d++)
                    sum += (double)o[d] * d_o[d];
                delta[b * args->lse.batch_stride + h * args->lse.head_stride + i * args->lse.token_stride] =
                    (float)sum;
            }
    with_delta.delta = args->lse;
    with_delta.delta.data = delta;
    with_delta.o.data = NULL;
    with_delta.workspace = (char *)args->workspace + ((delta_bytes(args->shape) + 63) & ~(size_t)63);
    return rondo_kernel_find("reference")->backward(NULL, &with_delta);
}

static int own_kernel_body(int rank, int ranks, void *arg)
{
    static const rondo_kernel_t kernel = {
        .struct_bytes = sizeof(kernel), .name = "own", .flags = RONDO_KERNEL_NEEDS_O,
        .workspace_bytes = delta_workspace, .forward = partial_forward, .backward = own_delta_backward,
    };
    struct test *t = arg;
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    struct setting s;
    char text[4096];
    int bad;

    options.kernel = &kernel;
    bad = open_setting(&s, rank, ranks, t, &options);
    bad += expect(!shard_both(s.plan, &s.shard), "%s", rondo_last_error());
    bad += expect(shard_forward_error(&s.shard, &t->problem) <= SHARD_BAR, "o is off by %g",
                  shard_forward_error(&s.shard, &t->problem));
    bad += expect(shard_backward_error(&s.shard, &t->problem) <= SHARD_BAR, "gradients are off by %g",
                  shard_backward_error(&s.shard, &t->problem));
    bad += expect(!rondo_plan_describe(s.plan, text, sizeof(text), NULL) && strstr(text, "kernel: own"),
                  "the plan does not name the kernel");
    close_setting(&s);
    return bad;
}

static void a_callers_kernel_does_as_well(void **state)
{
    struct test *t = test_of(&(struct problem){ .batch = 2, .tokens = 29, .causal = 1, .q_heads = 4,
                                                .kv_heads = 2, .qk_dim = 8, .v_dim = 4 });

    (void)state;
    for (int kind = 0; kind < LAYOUTS; kind++)
        for (int ranks = 1; ranks <= 3; ranks++) {
            t->kind = (rondo_layout_kind_t)kind;
            run(t, ranks, own_kernel_body);
        }
    problem_release(&t->problem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_later_token_changes_no_earlier_output),
        cmocka_unit_test(gradients_reach_ranks_that_only_have_keys),
        cmocka_unit_test(few_tokens_and_empty_shards),
        cmocka_unit_test(a_callers_kernel_does_as_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
