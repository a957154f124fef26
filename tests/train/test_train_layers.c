/* SPDX-License-Identifier: Apache-2.0 */
/* Each layer forward against plain loops in double, and backward against difference quotients of
 * those loops.  fp32 sums of about a hundred unit terms: 2e-5 relative is ample, and far below any
 * wrong factor. */
#include "check.h"
#include "reference.h"

#define TOLERANCE 2e-5

enum { TOKENS = 5, MOST = 512 };

/* The scalar whose gradient is taken: sum of weight * output, of whatever `outputs` fills in. */
struct scene {
    double x[MOST], w[MOST], y[MOST], weight[MOST];
    void (*outputs)(struct scene *scene);
    int64_t n, count; /* tokens; values in y */
    int in, out;
};

static double objective(void *context)
{
    struct scene *s = context;
    double sum = 0.0;

    s->outputs(s);
    for (int64_t i = 0; i < s->count; i++)
        sum += s->weight[i] * s->y[i];
    return sum;
}

/* gradient[i] = start[i] + d objective / d x[i]; start NULL: nothing was there to be added to. */
static void check_slopes(struct scene *s, double *x, const float *gradient, const double *start,
                         int64_t count, const char *what)
{
    for (int64_t i = 0; i < count; i++)
        check_close((double)gradient[i],
                    reference_slope(objective, s, x + i) + (start ? start[i] : 0.0), TOLERANCE,
                    what, i);
}

static void linear_outputs(struct scene *s)
{
    reference_linear(s->y, s->x, s->w, s->n, s->in, s->out);
}

static void linear_agrees(void **state)
{
    static struct scene s;
    static float x[MOST], w[MOST], y[MOST], dy[MOST], dx[MOST], dw[MOST];
    static double start_dx[MOST], start_dw[MOST], before[MOST];

    s = (struct scene){ .outputs = linear_outputs, .n = TOKENS, .in = 7, .out = 6,
                        .count = TOKENS * 6 };
    check_fill(x, s.x, TOKENS * 7, 1);
    check_fill(w, s.w, 6 * 7, 2);
    check_fill(dy, s.weight, TOKENS * 6, 3);
    linear_forward(y, x, w, TOKENS, 7, 6, 0);
    linear_outputs(&s);
    check_all_close(y, s.y, s.count, TOLERANCE, "y");
    memcpy(before, s.y, sizeof(before));
    linear_forward(y, x, w, TOKENS, 7, 6, 1);
    for (int64_t i = 0; i < s.count; i++)
        check_close((double)y[i], 2.0 * before[i], TOLERANCE, "y added to", i);

    check_fill(dx, start_dx, TOKENS * 7, 4);
    check_fill(dw, start_dw, 6 * 7, 5);
    linear_backward(dx, dw, dy, x, w, TOKENS, 7, 6, 1);
    check_slopes(&s, s.x, dx, start_dx, TOKENS * 7, "dx added to");
    check_slopes(&s, s.w, dw, start_dw, 6 * 7, "dw");
    linear_backward(dx, dw, dy, x, w, TOKENS, 7, 6, 0);
    check_slopes(&s, s.x, dx, NULL, TOKENS * 7, "dx written");
}

static void rmsnorm_outputs(struct scene *s)
{
    reference_rmsnorm(s->y, s->x, s->w, s->n, s->in);
}

static void rmsnorm_agrees(void **state)
{
    static struct scene s;
    static float x[MOST], gain[MOST], y[MOST], dy[MOST], dx[MOST], dgain[MOST], inv_rms[TOKENS];
    static double start_dx[MOST], start_dgain[MOST];
    const int dim = 24;

    s = (struct scene){ .outputs = rmsnorm_outputs, .n = TOKENS, .in = dim,
                        .count = TOKENS * dim };
    check_fill(x, s.x, TOKENS * dim, 11);
    check_fill(gain, s.w, dim, 12);
    check_fill(dy, s.weight, TOKENS * dim, 13);
    rmsnorm_forward(y, inv_rms, x, gain, TOKENS, dim);
    rmsnorm_outputs(&s);
    check_all_close(y, s.y, s.count, TOLERANCE, "y");

    check_fill(dx, start_dx, TOKENS * dim, 14);
    check_fill(dgain, start_dgain, dim, 15);
    rmsnorm_backward(dx, dgain, dy, x, gain, inv_rms, TOKENS, dim);
    check_slopes(&s, s.x, dx, start_dx, TOKENS * dim, "dx");
    check_slopes(&s, s.w, dgain, start_dgain, dim, "dgain");
}

/* A row of zeros has no direction, but a finite output and gradient. */
static void rmsnorm_of_zeros_is_finite(void **state)
{
    float x[8] = { 0 }, gain[8], y[8], inv_rms[1], dx[8] = { 0 }, dgain[8] = { 0 };

    for (int i = 0; i < 8; i++)
        gain[i] = 1.0f;
    rmsnorm_forward(y, inv_rms, x, gain, 1, 8);
    rmsnorm_backward(dx, dgain, gain, x, gain, inv_rms, 1, 8);
    for (int i = 0; i < 8; i++) {
        assert_true(y[i] == 0.0f);
        assert_true(isfinite(dx[i]));
        assert_true(dgain[i] == 0.0f);
    }
}

static const int64_t far_positions[TOKENS] = { 0, 1, 7, 2000, 131071 };

enum { HEADS = 3, HEAD_DIM = 8, ROPE_COUNT = TOKENS * HEADS * HEAD_DIM };

static void rope_outputs(struct scene *s)
{
    memcpy(s->y, s->x, sizeof(s->y));
    reference_rope(s->y, far_positions, TOKENS, HEADS, HEAD_DIM);
}

static void rope_turns_by_global_position(void **state)
{
    static struct scene s;
    static float x[MOST], dy[MOST];
    float table[TOKENS * HEAD_DIM];

    s = (struct scene){ .outputs = rope_outputs, .count = ROPE_COUNT };
    check_fill(x, s.x, ROPE_COUNT, 21);
    check_fill(dy, s.weight, ROPE_COUNT, 22);
    rope_table(table, far_positions, TOKENS, HEAD_DIM);
    rope_rotate(x, table, TOKENS, HEADS, HEAD_DIM, 0);
    rope_outputs(&s);
    check_all_close(x, s.y, ROPE_COUNT, TOLERANCE, "x");
    rope_rotate(dy, table, TOKENS, HEADS, HEAD_DIM, 1);
    check_slopes(&s, s.x, dy, NULL, ROPE_COUNT, "dx");
}

/* A score depends on the distance of two tokens alone. */
static void rope_keeps_scores_of_equal_distance(void **state)
{
    static const int64_t positions[4] = { 3, 10, 1003, 1010 };
    float table[4 * HEAD_DIM], x[4 * HEAD_DIM];
    double unused[2 * HEAD_DIM], near = 0.0, far = 0.0;

    check_fill(x, unused, 2 * HEAD_DIM, 23);
    memcpy(x + 2 * HEAD_DIM, x, 2 * HEAD_DIM * sizeof(float));
    rope_table(table, positions, 4, HEAD_DIM);
    rope_rotate(x, table, 4, 1, HEAD_DIM, 0);
    for (int i = 0; i < HEAD_DIM; i++) {
        near += (double)x[i] * (double)x[HEAD_DIM + i];
        far += (double)x[2 * HEAD_DIM + i] * (double)x[3 * HEAD_DIM + i];
    }
    check_close(near, far, TOLERANCE, "score", 0);
}

static void swiglu_outputs(struct scene *s)
{
    reference_swiglu(s->y, s->x, s->w, s->count);
}

static void swiglu_agrees(void **state)
{
    static struct scene s;
    static float gate[MOST], up[MOST], act[MOST], dact[MOST], dgate[MOST], dup[MOST];

    s = (struct scene){ .outputs = swiglu_outputs, .count = 100 };
    check_fill(gate, s.x, 100, 31);
    check_fill(up, s.w, 100, 32);
    check_fill(dact, s.weight, 100, 33);
    swiglu_forward(act, gate, up, 100);
    swiglu_outputs(&s);
    check_all_close(act, s.y, 100, TOLERANCE, "act");
    swiglu_backward(dgate, dup, dact, gate, up, 100);
    check_slopes(&s, s.x, dgate, NULL, 100, "dgate");
    check_slopes(&s, s.w, dup, NULL, 100, "dup");
}

/* exp(-gate) overflows here; the function does not. */
static void swiglu_is_finite_far_out(void **state)
{
    const float gate[2] = { -200.0f, 200.0f }, up[2] = { 2.0f, 2.0f }, one[2] = { 1.0f, 1.0f };
    float act[2], dgate[2], dup[2];

    swiglu_forward(act, gate, up, 2);
    swiglu_backward(dgate, dup, one, gate, up, 2);
    check_close((double)act[0], 0.0, 1e-6, "act", 0);
    check_close((double)act[1], 400.0, 1e-6, "act", 1);
    check_close((double)dgate[0], 0.0, 1e-6, "dgate", 0);
    check_close((double)dgate[1], 2.0, 1e-6, "dgate", 1);
}

static const int32_t some_tokens[TOKENS] = { 3, 0, 3, 1, 2 };

static void embedding_adds_up_repeated_tokens(void **state)
{
    static float table[4 * 3], x[TOKENS * 3], dtable[4 * 3], dx[TOKENS * 3];
    static double unused[TOKENS * 3], start[4 * 3];

    check_fill(table, unused, 4 * 3, 41);
    embedding_forward(x, table, some_tokens, TOKENS, 3);
    for (int t = 0; t < TOKENS; t++)
        assert_memory_equal(x + t * 3, table + some_tokens[t] * 3, 3 * sizeof(float));
    check_fill(dtable, start, 4 * 3, 42);
    check_fill(dx, unused, TOKENS * 3, 43);
    embedding_backward(dtable, dx, some_tokens, TOKENS, 3);
    for (int t = 0; t < TOKENS; t++)
        for (int i = 0; i < 3; i++)
            start[some_tokens[t] * 3 + i] += (double)dx[t * 3 + i];
    check_all_close(dtable, start, 4 * 3, TOLERANCE, "dtable");
}

static const int32_t some_targets[TOKENS] = { 2, RONDO_IGNORE, 0, 3, RONDO_IGNORE };

static void loss_outputs(struct scene *s)
{
    s->y[0] = reference_loss(s->x, some_targets, TOKENS, s->in);
}

static void cross_entropy_agrees(void **state)
{
    static struct scene s;
    static float logits[MOST];
    struct loss_sum loss;
    const int vocab = 9;

    s = (struct scene){ .outputs = loss_outputs, .in = vocab, .count = 1 };
    s.weight[0] = 0.25;
    check_fill(logits, s.x, TOKENS * vocab, 51);
    loss = cross_entropy_forward(logits, some_targets, TOKENS, vocab);
    assert_int_equal(loss.valid, 3);
    loss_outputs(&s);
    check_close(loss.nats, s.y[0], TOLERANCE, "loss", 0);
    cross_entropy_backward(logits, some_targets, TOKENS, vocab, 0.25f);
    check_slopes(&s, s.x, logits, NULL, TOKENS * vocab, "dlogits");
}

static void cross_entropy_is_finite_far_out(void **state)
{
    float logits[4] = { 1000.0f, -1000.0f, -1000.0f, 1000.0f };
    const int32_t targets[2] = { 0, 0 };
    struct loss_sum loss = cross_entropy_forward(logits, targets, 2, 2);

    check_close(loss.nats, 2000.0, 1e-6, "loss", 0);
    cross_entropy_backward(logits, targets, 2, 2, 1.0f);
    check_close((double)logits[2], -1.0, 1e-6, "dlogits", 2);
}

static void empty_shards_do_nothing(void **state)
{
    float w[6] = { 1, 2, 3, 4, 5, 6 }, before[6];
    float table[8];
    struct loss_sum loss;

    memcpy(before, w, sizeof(w));
    linear_forward(NULL, NULL, w, 0, 2, 3, 0);
    linear_backward(NULL, w, NULL, NULL, w, 0, 2, 3, 0);
    rmsnorm_forward(NULL, NULL, NULL, w, 0, 6);
    rmsnorm_backward(NULL, w, NULL, NULL, w, NULL, 0, 6);
    rope_table(table, NULL, 0, 8);
    rope_rotate(NULL, table, 0, 1, 8, 0);
    swiglu_forward(NULL, NULL, NULL, 0);
    embedding_backward(w, NULL, NULL, 0, 6);
    loss = cross_entropy_forward(NULL, NULL, 0, 6);
    cross_entropy_backward(NULL, NULL, 0, 6, 1.0f);
    assert_true(loss.nats == 0.0 && loss.valid == 0);
    assert_memory_equal(w, before, sizeof(w));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_agrees),
        cmocka_unit_test(rmsnorm_agrees),
        cmocka_unit_test(rmsnorm_of_zeros_is_finite),
        cmocka_unit_test(rope_turns_by_global_position),
        cmocka_unit_test(rope_keeps_scores_of_equal_distance),
        cmocka_unit_test(swiglu_agrees),
        cmocka_unit_test(swiglu_is_finite_far_out),
        cmocka_unit_test(embedding_adds_up_repeated_tokens),
        cmocka_unit_test(cross_entropy_agrees),
        cmocka_unit_test(cross_entropy_is_finite_far_out),
        cmocka_unit_test(empty_shards_do_nothing),
    };

    return cmocka_run_group_tests_name("train layers", tests, NULL, NULL);
}
