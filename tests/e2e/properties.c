/* SPDX-License-Identifier: Apache-2.0 */
/* What holds of attention whatever the mask, for every short case of the matrix, in a layout and by a schedule
 * that change from case to case: no reference is needed, but for who sees whom. */
#include "tests/e2e/attend.h"

#include <math.h>

#include "tests/e2e/masks_cases.h"
#include "tests/e2e/oracle.h"
#include "tests/short.h"

enum { RANKS = 3, LAYOUTS = 4, MOST_TOKENS = 100 };

static struct setting setting_at(int i, const struct mask_case *is)
{
    static const char *const schedules[] = { "ring", "two-level", "direct" };
    rondo_layout_kind_t kind = (rondo_layout_kind_t)(i % LAYOUTS);
    struct setting s = setting_of(kind, schedules[i / 2 % 3], i % 2 ? "q-grad" : "kv-grad");

    if (is->docs[QUERIES] && kind != RONDO_LAYOUT_BALANCED && i / LAYOUTS % 2)
        s.deal = RONDO_DEAL_DOCUMENTS;
    return s;
}

/* Runs `holds` for each case that is short, without dropout and without sinks. */
static void for_all_masks(void (*holds)(struct attended *a, const struct setting *s, int index))
{
    for (int i = 0; i < mask_case_count; i += test_is_short() ? 5 : 1) {
        const struct mask_case *is = &mask_cases[i];
        struct setting s = setting_at(i, is);
        struct attended a;

        if (is->tokens[QUERIES] > MOST_TOKENS || is->dropout > 0 || is->sinks)
            continue;
        attended_init(&a, is, (uint64_t)i + 1, RANKS, i % 2 + 1);
        holds(&a, &s, i);
        attended_release(&a);
    }
}

static int64_t keys_of(const struct masked *p, int64_t query)
{
    int64_t count = 0;

    for (int64_t j = 0; j < p->tokens[KEYS]; j++)
        count += p->sees[query * p->tokens[KEYS] + j];
    return count;
}

static void is_near(const struct attended *a, const char *what, double got, double want)
{
    if (!(fabs(got - want) <= 1e-5 || got == want))
        fail_msg("%s %s: %s is %g, not %g", a->p.is->group, a->p.is->name, what, got, want);
}

/* ---- the reference itself: its gradients are the slopes of its forward ---- */

/* Sum of o * dO, with `step` times a direction added to x. */
static double loss_along(struct masked *p, float *x, const float *before, int64_t count, double step)
{
    uint64_t seed = 7;
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        x[i] = (float)(before[i] + step * (next_uniform(&seed) - 0.5));
    masked_solve(p);
    for (int64_t i = 0; i < p->batch * p->tokens[QUERIES] * p->q_heads * p->v_dim; i++)
        sum += p->o[i] == 0 ? 0 : p->o[i] * p->d_o[i];
    return sum;
}

static double along(const double *gradient, int64_t count)
{
    uint64_t seed = 7;
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += gradient[i] * (next_uniform(&seed) - 0.5);
    return sum;
}

static void has_slope(struct masked *p, const char *name, float *x, const double *gradient, int64_t count)
{
    float *before = copy_of(x, count);
    double want = along(gradient, count), step = 1.0 / 1024;
    double got = (loss_along(p, x, before, count, step) - loss_along(p, x, before, count, -step)) / (2 * step);

    memcpy(x, before, (size_t)count * sizeof(*x));
    free(before);
    masked_solve(p);
    if (!(fabs(got - want) <= 2e-3 * (1 + fabs(want))))
        fail_msg("%s %s: the slope of %s is %g, not %g", p->is->group, p->is->name, name, got, want);
}

static void the_reference_has_the_slopes_of_its_forward(void **state)
{
    (void)state;
    for (int i = 0; i < mask_case_count; i++) {
        struct masked p;
        int64_t k;

        if (mask_cases[i].tokens[QUERIES] > MOST_TOKENS)
            continue;
        masked_init(&p, &mask_cases[i], (uint64_t)i + 1);
        k = p.batch * p.tokens[KEYS] * p.kv_heads;
        has_slope(&p, "q", p.q, p.dq, p.batch * p.tokens[QUERIES] * p.q_heads * p.qk_dim);
        has_slope(&p, "k", p.k, p.dk, k * p.qk_dim);
        has_slope(&p, "v", p.v, p.dv, k * p.v_dim);
        if (p.sinks)
            has_slope(&p, "the sinks", p.sinks, p.d_sinks, p.q_heads);
        masked_release(&p);
    }
}

/* ---- V = 1: o is 1 where anything is seen, and scores do not matter ---- */

static void holds_of_ones(struct attended *a, const struct setting *s, int index)
{
    struct masked *p = &a->p;
    int64_t rows = p->batch * p->tokens[QUERIES], row = p->q_heads * p->v_dim;

    (void)index;
    for (int64_t i = 0; i < p->batch * p->tokens[KEYS] * p->kv_heads * p->v_dim; i++)
        p->v[i] = isnan(p->v[i]) ? NAN : 1;
    attended_run(a, s);
    for (int64_t i = 0; i < rows * row; i++)
        is_near(a, "o", a->team->answer.o[i], keys_of(p, i / row % p->tokens[QUERIES]) > 0);
    for (int64_t i = 0; i < rows * p->q_heads * p->qk_dim; i++)
        is_near(a, "dq", a->team->answer.dq[i], 0);
    for (int64_t i = 0; i < p->batch * p->tokens[KEYS] * p->kv_heads * p->qk_dim; i++)
        is_near(a, "dk", a->team->answer.dk[i], 0);
}

static void constant_values_are_the_output(void **state)
{
    (void)state;
    for_all_masks(holds_of_ones);
}

/* ---- K = 0: o is the mean of the V that are seen, and lse their number's logarithm ---- */

static double mean_of(const struct masked *p, int64_t b, int64_t query, int kv_head, int d)
{
    double sum = 0;

    for (int64_t j = 0; j < p->tokens[KEYS]; j++)
        if (p->sees[query * p->tokens[KEYS] + j])
            sum += p->v[((b * p->tokens[KEYS] + j) * p->kv_heads + kv_head) * p->v_dim + d];
    return sum / (double)keys_of(p, query);
}

static void holds_of_zeros(struct attended *a, const struct setting *s, int index)
{
    struct masked *p = &a->p;

    (void)index;
    for (int64_t i = 0; i < p->batch * p->tokens[KEYS] * p->kv_heads * p->qk_dim; i++)
        p->k[i] = isnan(p->k[i]) ? NAN : 0;
    attended_run(a, s);
    for (int64_t row = 0; row < p->batch * p->tokens[QUERIES] * p->q_heads; row++) {
        int64_t b = row / p->q_heads / p->tokens[QUERIES], query = row / p->q_heads % p->tokens[QUERIES];
        int head = (int)(row % p->q_heads) / (p->q_heads / p->kv_heads);
        int64_t count = keys_of(p, query);

        is_near(a, "lse", a->team->answer.lse[row], count ? log((double)count) : -INFINITY);
        for (int d = 0; d < p->v_dim; d++)
            is_near(a, "o", a->team->answer.o[row * p->v_dim + d], count ? mean_of(p, b, query, head, d) : 0);
    }
}

static void zero_keys_are_a_mean(void **state)
{
    (void)state;
    for_all_masks(holds_of_zeros);
}

/* ---- the sum of dV is the sum of dO over the rows that see anything ---- */

/* *allowed: lse is rounded to fp32 in base e and in base 2, of numbers below 16 by 2^-21 at most each, and with it
 * all weights of its row err alike. */
static void sums_of_head(const struct attended *a, int64_t b, int kv_head, int d, double *got, double *want,
                         double *allowed)
{
    const struct masked *p = &a->p;
    int group = p->q_heads / p->kv_heads;

    *got = *want = *allowed = 0;
    for (int64_t j = 0; j < p->tokens[KEYS]; j++)
        *got += a->team->answer.dv[((b * p->tokens[KEYS] + j) * p->kv_heads + kv_head) * p->v_dim + d];
    for (int64_t i = 0; i < p->tokens[QUERIES]; i++)
        for (int h = kv_head * group; h < (kv_head + 1) * group && keys_of(p, i); h++) {
            double d_o = p->d_o[((b * p->tokens[QUERIES] + i) * p->q_heads + h) * p->v_dim + d];

            *want += d_o;
            *allowed += fabs(d_o) * 0x1p-20;
        }
}

static void holds_of_sums(struct attended *a, const struct setting *s, int index)
{
    (void)index;
    attended_run(a, s);
    for (int64_t b = 0; b < a->p.batch; b++)
        for (int h = 0; h < a->p.kv_heads; h++)
            for (int d = 0; d < a->p.v_dim; d++) {
                double got, want, allowed;

                sums_of_head(a, b, h, d, &got, &want, &allowed);
                if (!(fabs(got - want) <= allowed))
                    fail_msg("%s %s: the sum of dv is %.9g, not %.9g within %.2g", a->p.is->group, a->p.is->name,
                             got, want, allowed);
            }
}

static void gradients_of_values_sum_up(void **state)
{
    (void)state;
    for_all_masks(holds_of_sums);
}

/* ---- what is not seen may be anything, to the bit ---- */

static void is_same(const struct attended *a, const char *what, int64_t token, const float *got, const float *want,
                    int64_t count)
{
    if (memcmp(got, want, (size_t)count * sizeof(float)) != 0)
        fail_msg("%s %s: %s of token %lld changed with a key that it does not see", a->p.is->group, a->p.is->name,
                 what, (long long)token);
}

/* Key and value of one token are no numbers: rows that do not see it stay. */
static void holds_of_strangers(struct attended *a, const struct setting *s, int index)
{
    struct masked *p = &a->p;
    int64_t q = p->batch * p->tokens[QUERIES], o_row = p->q_heads * p->v_dim, dq_row = p->q_heads * p->qk_dim;
    int64_t key = (index * 7 + 3) % p->tokens[KEYS];
    float *o, *dq;

    attended_run(a, s);
    o = copy_of(a->team->answer.o, q * o_row), dq = copy_of(a->team->answer.dq, q * dq_row);
    for (int64_t b = 0; b < p->batch; b++) {
        set_all(p->k + (b * p->tokens[KEYS] + key) * p->kv_heads * p->qk_dim, p->kv_heads * p->qk_dim, NAN);
        set_all(p->v + (b * p->tokens[KEYS] + key) * p->kv_heads * p->v_dim, p->kv_heads * p->v_dim, NAN);
    }
    attended_run(a, s);
    for (int64_t i = 0; i < q; i++) {
        if (p->sees[i % p->tokens[QUERIES] * p->tokens[KEYS] + key])
            continue;
        is_same(a, "o", i, a->team->answer.o + i * o_row, o + i * o_row, o_row);
        is_same(a, "dq", i, a->team->answer.dq + i * dq_row, dq + i * dq_row, dq_row);
    }
    free(o);
    free(dq);
}

static void keys_that_are_not_seen_may_be_anything(void **state)
{
    (void)state;
    for_all_masks(holds_of_strangers);
}

/* Query and gradient of one token are no numbers: keys that it does not see, and other rows, stay. */
static void holds_of_other_queries(struct attended *a, const struct setting *s, int index)
{
    struct masked *p = &a->p;
    int64_t k = p->batch * p->tokens[KEYS], row = p->kv_heads * p->v_dim, o_row = p->q_heads * p->v_dim;
    int64_t query = (index * 5 + 2) % p->tokens[QUERIES];
    float *dv, *o;

    attended_run(a, s);
    dv = copy_of(a->team->answer.dv, k * row), o = copy_of(a->team->answer.o, p->batch * p->tokens[QUERIES] * o_row);
    for (int64_t b = 0; b < p->batch; b++) {
        set_all(p->q + (b * p->tokens[QUERIES] + query) * p->q_heads * p->qk_dim, p->q_heads * p->qk_dim, NAN);
        set_all(p->d_o + (b * p->tokens[QUERIES] + query) * o_row, o_row, NAN);
    }
    attended_run(a, s);
    for (int64_t j = 0; j < k; j++)
        if (!p->sees[query * p->tokens[KEYS] + j % p->tokens[KEYS]])
            is_same(a, "dv", j, a->team->answer.dv + j * row, dv + j * row, row);
    for (int64_t i = 0; i < p->batch * p->tokens[QUERIES]; i++)
        if (i % p->tokens[QUERIES] != query)
            is_same(a, "o", i, a->team->answer.o + i * o_row, o + i * o_row, o_row);
    free(dv);
    free(o);
}

static void queries_change_nothing_of_what_they_do_not_see(void **state)
{
    (void)state;
    for_all_masks(holds_of_other_queries);
}

/* ---- the same bits, whatever comes first: messages are delayed by 0 to 5 ms, those of every seed by others ---- */

static void is_alike(const struct attended *a, const char *what, const float *got, const float *want, int64_t count)
{
    if (memcmp(got, want, (size_t)count * sizeof(float)) != 0)
        fail_msg("%s %s: delays change bits of %s", a->p.is->group, a->p.is->name, what);
}

static void holds_of_delays(struct attended *a, const struct setting *s, int index)
{
    const struct masked *p = &a->p;
    int64_t q = p->batch * p->tokens[QUERIES] * p->q_heads, k = p->batch * p->tokens[KEYS] * p->kv_heads;
    struct attended late;
    char seed[16];

    attended_run(a, s);
    snprintf(seed, sizeof(seed), "%d", index + 1);
    setenv("RONDO_SELF_SEED", seed, 1);
    attended_init(&late, p->is, (uint64_t)index + 1, RANKS, index % 2 + 1);
    attended_run(&late, s);
    unsetenv("RONDO_SELF_SEED");
    is_alike(a, "o", late.team->answer.o, a->team->answer.o, q * p->v_dim);
    is_alike(a, "dq", late.team->answer.dq, a->team->answer.dq, q * p->qk_dim);
    is_alike(a, "dk", late.team->answer.dk, a->team->answer.dk, k * p->qk_dim);
    is_alike(a, "dv", late.team->answer.dv, a->team->answer.dv, k * p->v_dim);
    attended_release(&late);
}

static void delays_change_no_bit(void **state)
{
    (void)state;
    for_all_masks(holds_of_delays);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_has_the_slopes_of_its_forward),
        cmocka_unit_test(constant_values_are_the_output),
        cmocka_unit_test(zero_keys_are_a_mean),
        cmocka_unit_test(gradients_of_values_sum_up),
        cmocka_unit_test(keys_that_are_not_seen_may_be_anything),
        cmocka_unit_test(queries_change_nothing_of_what_they_do_not_see),
        cmocka_unit_test(delays_change_no_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
