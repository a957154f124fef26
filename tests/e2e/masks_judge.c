/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/e2e/masks_judge.h"

#include <math.h>

const char *const out_names[OUTS] = { "o", "lse", "dq", "dk", "dv", "d_sinks" };

static void compare(struct judged *j, int out, double got, double want)
{
    double diff = got == want ? 0 : fabs(got - want);

    if (isnan(diff))
        diff = INFINITY;
    if (out == OUT_SINKS && fabs(want) > 1)
        diff /= fabs(want);
    j->worst[out] = fmax(j->worst[out], diff);
    j->diff2[out] += diff * diff;
    if (isfinite(want)) {
        j->ref2[out] += want * want;
        j->largest[out] = fmax(j->largest[out], fabs(want));
    }
}

static void compare_all(struct judged *j, int out, const float *got, const double *want, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        compare(j, out, got[i], want[i]);
}

static void count_odd(struct judged *j, const struct answer *a, const struct masked *p)
{
    for (int pass = 0; pass < 2; pass++) {
        j->odd[pass] = (int64_t)a->strays;
        for (int64_t i = 0; i < p->tokens[QUERIES] * p->tokens[KEYS]; i++)
            j->odd[pass] += a->met[pass][i] != p->sees[i];
    }
}

struct judged judge_answer(const struct team *team, const struct masked *p)
{
    const struct answer *a = &team->answer;
    struct judged j = { .pairs = { 0, 0 } };
    int64_t q = p->batch * p->tokens[QUERIES] * p->q_heads, k = p->batch * p->tokens[KEYS] * p->kv_heads;

    compare_all(&j, OUT_O, a->o, p->o, q * p->v_dim);
    compare_all(&j, OUT_LSE, a->lse, p->lse, q);
    compare_all(&j, OUT_DQ, a->dq, p->dq, q * p->qk_dim);
    compare_all(&j, OUT_DK, a->dk, p->dk, k * p->qk_dim);
    compare_all(&j, OUT_DV, a->dv, p->dv, k * p->v_dim);
    for (int h = 0; h < p->q_heads && p->sinks; h++) {
        double sum = 0;

        for (int r = 0; r < team->ranks; r++)
            sum += a->d_sinks[r * p->q_heads + h];
        compare(&j, OUT_SINKS, sum, p->d_sinks[h]);
    }
    for (int r = 0; r < team->ranks; r++)
        for (int pass = 0; pass < 2; pass++)
            j.pairs[pass] += (int64_t)a->pairs[r][pass];
    count_odd(&j, a, p);
    return j;
}

double judged_worst(const struct judged *j)
{
    double worst = 0;

    for (int out = 0; out < OUTS; out++)
        worst = fmax(worst, j->worst[out]);
    return worst;
}

int judged_counts(const struct judged *j, const struct masked *p)
{
    return j->pairs[0] == p->area && j->pairs[1] == p->area && j->odd[0] == 0 && j->odd[1] == 0;
}
