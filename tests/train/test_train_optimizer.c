/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include "examples/train/optimizer.h"

static const struct model_sizes sizes = { 1, 4, 2, 1, 2, 3, 5 };

struct rig {
    struct weights w, g, m, v;
    double w64[512], m64[512], v64[512];
};

static void rig_init(struct rig *r)
{
    memset(r, 0, sizeof(*r));
    assert_int_equal(weights_init(&r->w, &sizes), 0);
    assert_int_equal(weights_init(&r->g, &sizes), 0);
    assert_int_equal(weights_init(&r->m, &sizes), 0);
    assert_int_equal(weights_init(&r->v, &sizes), 0);
    assert_true(r->w.count <= 512);
    check_fill(r->w.arena, r->w64, (int64_t)r->w.count, 1);
}

static void rig_release(struct rig *r)
{
    weights_release(&r->w);
    weights_release(&r->g);
    weights_release(&r->m);
    weights_release(&r->v);
}

/* The paper's algorithm, one weight, in double. */
static void adamw64(double *w, double g, double *m, double *v, int step, double rate, double decay)
{
    const double beta1 = 0.9, beta2 = 0.98;

    *m = beta1 * *m + (1 - beta1) * g;
    *v = beta2 * *v + (1 - beta2) * g * g;
    *w -= rate * decay * *w +
          rate * (*m / (1 - pow(beta1, step))) / (sqrt(*v / (1 - pow(beta2, step))) + 1e-8);
}

static void twenty_steps_agree_with_double(void **state)
{
    static const struct adamw adamw = ADAMW_DEFAULTS;
    static struct rig r;
    double g64[512];

    rig_init(&r);
    for (int step = 1; step <= 20; step++) {
        check_fill(r.g.arena, g64, (int64_t)r.g.count, (uint64_t)(100 + step));
        adamw_update(&adamw, &sizes, &r.w, &r.g, &r.m, &r.v, step, 0.01f, 0.5f);
        for (int i = 0; i < model_tensors(&sizes); i++) {
            struct model_tensor t = model_tensor(&sizes, i);
            int gain = strstr(t.name, "norm") != NULL;

            for (size_t j = t.first; j < t.first + t.count; j++)
                adamw64(&r.w64[j], 0.5 * g64[j], &r.m64[j], &r.v64[j], step, (double)0.01f,
                        gain ? 0.0 : (double)0.1f);
        }
    }
    check_all_close(r.w.arena, r.w64, (int64_t)r.w.count, 2e-6, "w");
    check_all_close(r.m.arena, r.m64, (int64_t)r.w.count, 2e-6, "m");
    check_all_close(r.v.arena, r.v64, (int64_t)r.w.count, 2e-6, "v");
    rig_release(&r);
}

static void first_step_moves_by_the_rate(void **state)
{
    static const struct adamw adamw = { 0.9f, 0.98f, 1e-8f, 0.0f, 1.0f };
    static struct rig r;

    rig_init(&r);
    for (size_t i = 0; i < r.g.count; i++)
        r.g.arena[i] = i % 2 ? 3.0f : -1e-4f;
    adamw_update(&adamw, &sizes, &r.w, &r.g, &r.m, &r.v, 1, 0.01f, 1.0f);
    for (size_t i = 0; i < r.g.count; i++)
        check_close((double)r.w.arena[i], r.w64[i] + (i % 2 ? -0.01 : 0.01), 2e-6, "w",
                    (int64_t)i);
    rig_release(&r);
}

static void norm_and_clipping(void **state)
{
    static const float g[4] = { 3.0f, 0.0f, -4.0f, 12.0f };
    static const float huge[2] = { 3e30f, 4e30f };

    check_close(gradient_norm(g, 4), 13.0, 1e-12, "norm", 0);
    check_close(gradient_norm(huge, 2), 5e30, 1e-6, "norm beyond the square of a float", 0);
    assert_true(gradient_norm(NULL, 0) == 0.0);
    check_close((double)clip_factor(13.0, 1.0f), 1.0 / 13.0, 1e-7, "factor", 0);
    assert_true(clip_factor(0.5, 1.0f) == 1.0f);
    assert_true(clip_factor(0.0, 1.0f) == 1.0f);
}

static void rate_warms_up_and_falls_as_a_cosine(void **state)
{
    float before = learning_rate(0.04, 1000, 2.0f);

    assert_true(learning_rate(0.0, 1000, 2.0f) == 0.0f);
    check_close((double)learning_rate(0.02, 1000, 2.0f), 1.0, 1e-6, "half of the warm-up", 0);
    check_close((double)before, 2.0, 1e-6, "peak", 0);
    for (int i = 5; i <= 100; i++) {
        float rate = learning_rate(i / 100.0, 1000, 2.0f);

        assert_true(rate < before);
        before = rate;
    }
    check_close((double)learning_rate(0.52, 1000, 2.0f), 1.05, 1e-6, "middle", 0);
    check_close((double)before, 0.1, 1e-6, "end", 0);
    assert_true(learning_rate(1.5, 1000, 2.0f) == learning_rate(1.0, 1000, 2.0f));
    check_close((double)learning_rate(0.04, 15, 2.0f), 1.0, 1e-6, "held down by the step", 0);
    assert_true(learning_rate(0.3, 30, 2.0f) == learning_rate(0.3, 31, 2.0f));
    assert_true(learning_rate(0.3, 29, 2.0f) < learning_rate(0.3, 30, 2.0f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twenty_steps_agree_with_double),
        cmocka_unit_test(first_step_moves_by_the_rate),
        cmocka_unit_test(norm_and_clipping),
        cmocka_unit_test(rate_warms_up_and_falls_as_a_cosine),
    };

    return cmocka_run_group_tests_name("train optimizer", tests, NULL, NULL);
}
