/* SPDX-License-Identifier: Apache-2.0 */
#include "optimizer.h"

#include <math.h>

#define WARM_UP 0.04
#define FLOOR 0.05

double gradient_norm(const float *g, size_t count)
{
    double squares = 0.0;

    for (size_t i = 0; i < count; i++)
        squares += (double)g[i] * (double)g[i];
    return sqrt(squares);
}

float clip_factor(double norm, float clip_norm)
{
    return norm > (double)clip_norm ? (float)((double)clip_norm / norm) : 1.0f;
}

float learning_rate(double progress, int64_t step, float peak)
{
    double held = fmin((double)step / WARM_UP_STEPS, 1.0) * (double)peak, cosine;

    if (progress < WARM_UP)
        return (float)(held * progress / WARM_UP);
    progress = fmin(progress, 1.0);
    cosine = 0.5 * (1.0 + cos(3.141592653589793 * (progress - WARM_UP) / (1.0 - WARM_UP)));
    return (float)(held * (FLOOR + (1.0 - FLOOR) * cosine));
}

/* One tensor.  rate1 and root2 carry the bias corrections: w -= rate1 * m / (sqrt(v) * root2 + eps). */
static void update_tensor(const struct adamw *o, float *w, const float *g, float *m, float *v,
                          size_t count, float rate1, float root2, float shrink, float factor)
{
    for (size_t i = 0; i < count; i++) {
        float gi = g[i] * factor;

        m[i] = o->beta1 * m[i] + (1.0f - o->beta1) * gi;
        v[i] = o->beta2 * v[i] + (1.0f - o->beta2) * gi * gi;
        w[i] -= shrink * w[i] + rate1 * m[i] / (sqrtf(v[i]) * root2 + o->epsilon);
    }
}

void adamw_update(const struct adamw *o, const struct model_sizes *sizes, struct weights *w,
                  const struct weights *g, struct weights *m, struct weights *v, int64_t step,
                  float rate, float gradient_factor)
{
    float rate1 = (float)((double)rate / (1.0 - pow((double)o->beta1, (double)step)));
    float root2 = (float)(1.0 / sqrt(1.0 - pow((double)o->beta2, (double)step)));

    for (int i = 0; i < model_tensors(sizes); i++) {
        struct model_tensor t = model_tensor(sizes, i);
        float shrink = t.init_std > 0.0f ? rate * o->decay : 0.0f;

        update_tensor(o, w->arena + t.first, g->arena + t.first, m->arena + t.first,
                      v->arena + t.first, t.count, rate1, root2, shrink, gradient_factor);
    }
}
