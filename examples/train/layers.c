/* SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

#include <rondo/types.h>

#define RMSNORM_EPSILON 1e-5f
#define ROPE_BASE 10000.0

void linear_forward(float *y, const float *x, const float *w, int64_t n, int in, int out, int add)
{
    if (n == 0)
        return;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, out, in, 1.0f, x, in, w, in,
                add ? 1.0f : 0.0f, y, out);
}

void linear_backward(float *dx, float *dw, const float *dy, const float *x, const float *w,
                     int64_t n, int in, int out, int add_dx)
{
    if (n == 0)
        return;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)n, in, out, 1.0f, dy, out, w, in,
                add_dx ? 1.0f : 0.0f, dx, in);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, out, in, (int)n, 1.0f, dy, out, x, in,
                1.0f, dw, in);
}

void rmsnorm_forward(float *y, float *inv_rms, const float *x, const float *gain, int64_t n,
                     int dim)
{
    for (int64_t t = 0; t < n; t++) {
        const float *xt = x + t * dim;
        float *yt = y + t * dim;
        float squares = 0.0f;

        for (int i = 0; i < dim; i++)
            squares += xt[i] * xt[i];
        inv_rms[t] = 1.0f / sqrtf(squares / (float)dim + RMSNORM_EPSILON);
        for (int i = 0; i < dim; i++)
            yt[i] = gain[i] * (xt[i] * inv_rms[t]);
    }
}

void rmsnorm_backward(float *dx, float *dgain, const float *dy, const float *x, const float *gain,
                      const float *inv_rms, int64_t n, int dim)
{
    for (int64_t t = 0; t < n; t++) {
        const float *xt = x + t * dim, *dyt = dy + t * dim;
        float *dxt = dx + t * dim;
        float r = inv_rms[t], along = 0.0f;

        for (int i = 0; i < dim; i++)
            along += dyt[i] * gain[i] * xt[i];
        /* inv_rms itself moves with x: d inv_rms / d x_i = -inv_rms^3 x_i / dim. */
        along *= r * r * r / (float)dim;
        for (int i = 0; i < dim; i++) {
            dgain[i] += dyt[i] * xt[i] * r;
            dxt[i] += dyt[i] * gain[i] * r - along * xt[i];
        }
    }
}

void rope_table(float *table, const int64_t *positions, int64_t n, int head_dim)
{
    int half = head_dim / 2;

    for (int i = 0; i < half; i++) {
        double turn = pow(ROPE_BASE, -2.0 * i / head_dim);

        for (int64_t t = 0; t < n; t++) {
            double angle = (double)positions[t] * turn;
            float *pair = table + (t * half + i) * 2;

            pair[0] = (float)cos(angle);
            pair[1] = (float)sin(angle);
        }
    }
}

void rope_rotate(float *x, const float *table, int64_t n, int heads, int head_dim, int backward)
{
    int half = head_dim / 2;
    float sign = backward ? -1.0f : 1.0f;

    for (int64_t t = 0; t < n; t++) {
        const float *pairs = table + t * half * 2;

        for (int h = 0; h < heads; h++) {
            float *a = x + (t * heads + h) * head_dim;
            float *b = a + half;

            for (int i = 0; i < half; i++) {
                float c = pairs[2 * i], s = sign * pairs[2 * i + 1];
                float ai = a[i], bi = b[i];

                a[i] = ai * c - bi * s;
                b[i] = ai * s + bi * c;
            }
        }
    }
}

static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

void swiglu_forward(float *act, const float *gate, const float *up, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        act[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

void swiglu_backward(float *dgate, float *dup, const float *dact, const float *gate,
                     const float *up, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float s = sigmoid(gate[i]);
        float silu = gate[i] * s;

        dup[i] = dact[i] * silu;
        dgate[i] = dact[i] * up[i] * (s + silu * (1.0f - s));
    }
}

void embedding_forward(float *x, const float *table, const int32_t *tokens, int64_t n, int dim)
{
    for (int64_t t = 0; t < n; t++)
        memcpy(x + t * dim, table + (int64_t)tokens[t] * dim, (size_t)dim * sizeof(float));
}

void embedding_backward(float *dtable, const float *dx, const int32_t *tokens, int64_t n, int dim)
{
    for (int64_t t = 0; t < n; t++) {
        float *row = dtable + (int64_t)tokens[t] * dim;

        for (int i = 0; i < dim; i++)
            row[i] += dx[t * dim + i];
    }
}

/* Softmax of one row in place; returns the logarithm of the denominator, relative to the largest
 * logit, plus that logit. */
static float softmax_row(float *row, int vocab)
{
    float top = row[0], sum = 0.0f;

    for (int i = 1; i < vocab; i++)
        top = row[i] > top ? row[i] : top;
    for (int i = 0; i < vocab; i++) {
        row[i] = expf(row[i] - top);
        sum += row[i];
    }
    for (int i = 0; i < vocab; i++)
        row[i] /= sum;
    return top + logf(sum);
}

struct loss_sum cross_entropy_forward(float *logits, const int32_t *targets, int64_t n, int vocab)
{
    struct loss_sum loss = { 0.0, 0 };

    for (int64_t t = 0; t < n; t++) {
        float *row = logits + t * vocab;
        float logit;

        if (targets[t] == RONDO_IGNORE)
            continue;
        logit = row[targets[t]];
        loss.nats += (double)softmax_row(row, vocab) - (double)logit;
        loss.valid++;
    }
    return loss;
}

void cross_entropy_backward(float *probs, const int32_t *targets, int64_t n, int vocab,
                            float scale)
{
    for (int64_t t = 0; t < n; t++) {
        float *row = probs + t * vocab;

        if (targets[t] == RONDO_IGNORE) {
            memset(row, 0, (size_t)vocab * sizeof(float));
            continue;
        }
        for (int i = 0; i < vocab; i++)
            row[i] *= scale;
        row[targets[t]] -= scale;
    }
}
