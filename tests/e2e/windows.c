/* SPDX-License-Identifier: Apache-2.0 */
/* Windows where other people reported wrong results elsewhere, one by one: doc/cases.md says which. */
#include "tests/e2e/attend.h"

#include <math.h>

/* V has a one for each key: a row's outputs that are not zero are the keys that it sees. */
static void a_window_of_four_has_four_keys(void **state)
{
    struct mask_case is = { "case", "window of 4", RONDO_MASK_WINDOW, { .left = 3, .right = 0 }, { 16 }, .shape = 0 };

    (void)state;
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        struct setting s = setting_of(RONDO_LAYOUT_CONTIGUOUS, "ring", "kv-grad");
        struct attended a;

        attended_init(&a, &is, 1, ranks, 1);
        for (int64_t j = 0; j < 16 * 4 * 16; j++)
            a.p.v[j] = j / 64 == j % 16;
        attended_run(&a, &s);
        for (int64_t i = 0; i < 16; i++) {
            int seen = 0;

            for (int d = 0; d < 16; d++)
                seen += a.team->answer.o[i * 64 + d] != 0;
            assert_int_equal(seen, i < 3 ? i + 1 : 4);
        }
        attended_release(&a);
    }
}

/* A window of 8 in shards of 16: what rank 0 has is seen by ranks 0 and 1 alone. */
static void keys_out_of_the_window_may_be_anything(void **state)
{
    struct mask_case is = { "case", "window of 8", RONDO_MASK_WINDOW, { .left = 7, .right = 0 }, { 64 }, .shape = 5 };
    struct setting s = setting_of(RONDO_LAYOUT_CONTIGUOUS, "ring", "kv-grad");
    struct attended a;
    const int64_t half = 32 * 2 * 32;
    float *o, *dq;

    (void)state;
    exact(&is, RONDO_LAYOUT_CONTIGUOUS, RONDO_DEAL_SEQUENCE, 4, 1);
    attended_init(&a, &is, 1, 4, 1);
    attended_run(&a, &s);
    o = copy_of(a.team->answer.o + half, half), dq = copy_of(a.team->answer.dq + half, half);
    set_all(a.p.k, half / 2, NAN);
    set_all(a.p.v, half / 2, NAN);
    attended_run(&a, &s);
    assert_memory_equal(a.team->answer.o + half, o, (size_t)half * sizeof(float));
    assert_memory_equal(a.team->answer.dq + half, dq, (size_t)half * sizeof(float));
    free(o);
    free(dq);
    attended_release(&a);
}

/* Sum of o * dO in double, where one number of the inputs is another. */
static double loss_at(struct masked *p, float *x, float value)
{
    double sum = 0;
    float before = *x;

    *x = value;
    masked_solve(p);
    *x = before;
    for (int64_t i = 0; i < p->batch * p->tokens[QUERIES] * p->q_heads * p->v_dim; i++)
        sum += p->o[i] * p->d_o[i];
    return sum;
}

static double slope_at(struct masked *p, float *x)
{
    float above = *x + 1.0f / 512, below = *x - 1.0f / 512;

    return (loss_at(p, x, above) - loss_at(p, x, below)) / ((double)above - below);
}

/* A window, a soft cap of 50 and scores near 200: gradients are the quotients of differences. */
static void the_backward_has_the_mask_of_the_forward(void **state)
{
    struct mask_case is = { "case", "window of 8", RONDO_MASK_WINDOW, { .left = 7, .right = 0 }, { 32 },
                            .shape = 5, .softcap = 50 };
    struct setting s = setting_of(RONDO_LAYOUT_ZIGZAG, "ring", "kv-grad");
    struct attended a;
    const int64_t count = 32 * 2 * 32;

    (void)state;
    attended_init(&a, &is, 5, 2, 1);
    for (int64_t i = 0; i < count; i++)
        a.p.q[i] *= 9, a.p.k[i] *= 9;
    masked_solve(&a.p);
    attended_run(&a, &s);
    for (int n = 0; n < 20; n++) {
        int64_t at = (n * 397 + 11) % count;
        float *inputs[] = { a.p.q, a.p.k, a.p.v };
        const float *gradients[] = { a.team->answer.dq, a.team->answer.dk, a.team->answer.dv };
        double slope = slope_at(&a.p, inputs[n % 3] + at);

        assert_true(fabs(slope - gradients[n % 3][at]) < 1e-3 * (1 + fabs(slope)));
    }
    attended_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_of_four_has_four_keys),
        cmocka_unit_test(keys_out_of_the_window_may_be_anything),
        cmocka_unit_test(the_backward_has_the_mask_of_the_forward),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
