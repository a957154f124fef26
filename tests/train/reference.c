/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void reference_linear(double *y, const double *x, const double *w, int64_t n, int in, int out)
{
    for (int64_t t = 0; t < n; t++)
        for (int o = 0; o < out; o++) {
            y[t * out + o] = 0.0;
            for (int i = 0; i < in; i++)
                y[t * out + o] += x[t * in + i] * w[o * in + i];
        }
}

void reference_rmsnorm(double *y, const double *x, const double *gain, int64_t n, int dim)
{
    for (int64_t t = 0; t < n; t++) {
        double mean = 0.0;

        for (int i = 0; i < dim; i++)
            mean += x[t * dim + i] * x[t * dim + i] / dim;
        for (int i = 0; i < dim; i++)
            y[t * dim + i] = x[t * dim + i] * gain[i] / sqrt(mean + 1e-5);
    }
}

void reference_rope(double *x, const int64_t *positions, int64_t n, int heads, int head_dim)
{
    int half = head_dim / 2;

    for (int64_t t = 0; t < n; t++)
        for (int h = 0; h < heads; h++)
            for (int i = 0; i < half; i++) {
                double *pair = x + (t * heads + h) * head_dim + i;
                double angle = (double)positions[t] / pow(10000.0, 2.0 * i / head_dim);
                double a = pair[0], b = pair[half];

                pair[0] = a * cos(angle) - b * sin(angle);
                pair[half] = a * sin(angle) + b * cos(angle);
            }
}

void reference_swiglu(double *act, const double *gate, const double *up, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        act[i] = up[i] * gate[i] / (1.0 + exp(-gate[i]));
}

double reference_loss(const double *logits, const int32_t *targets, int64_t n, int vocab)
{
    double loss = 0.0;

    for (int64_t t = 0; t < n; t++) {
        double top = -INFINITY, sum = 0.0;

        if (targets[t] == -100)
            continue;
        for (int i = 0; i < vocab; i++)
            top = fmax(top, logits[t * vocab + i]);
        for (int i = 0; i < vocab; i++)
            sum += exp(logits[t * vocab + i] - top);
        loss += top + log(sum) - logits[t * vocab + targets[t]];
    }
    return loss;
}

void reference_attention(double *o, const double *q, const double *k, const double *v, int64_t n,
                         int q_heads, int kv_heads, int head_dim)
{
    double *score = malloc((size_t)n * sizeof(*score));

    for (int64_t i = 0; i < n; i++)
        for (int h = 0; h < q_heads; h++) {
            int g = h / (q_heads / kv_heads);
            const double *qi = q + (i * q_heads + h) * head_dim;
            double *oi = o + (i * q_heads + h) * head_dim;
            double sum = 0.0;

            memset(oi, 0, (size_t)head_dim * sizeof(*oi));
            for (int64_t j = 0; j <= i; j++) {
                double dot = 0.0;

                for (int d = 0; d < head_dim; d++)
                    dot += qi[d] * k[(j * kv_heads + g) * head_dim + d];
                score[j] = exp(dot / sqrt(head_dim));
                sum += score[j];
            }
            for (int64_t j = 0; j <= i; j++)
                for (int d = 0; d < head_dim; d++)
                    oi[d] += score[j] / sum * v[(j * kv_heads + g) * head_dim + d];
        }
    free(score);
}

/* Hands out consecutive tensors of the arena. */
static const double *next(const double **w, int rows, int columns)
{
    const double *tensor = *w;

    *w += (int64_t)rows * columns;
    return tensor;
}

static void add(double *x, const double *y, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] += y[i];
}

/* One layer: x [n][dim] in and out; b: room for nine arrays of `most` doubles. */
static void layer(const struct model_sizes *s, const double **w, double *x, int64_t n, double *b,
                  int64_t most)
{
    int q_width = s->q_heads * s->head_dim, kv_width = s->kv_heads * s->head_dim;
    double *h = b, *q = b + most, *k = b + 2 * most, *v = b + 3 * most, *o = b + 4 * most;
    double *gate = b + 5 * most, *up = b + 6 * most, *act = b + 7 * most;
    int64_t *positions = (int64_t *)(void *)(b + 8 * most);

    for (int64_t t = 0; t < n; t++)
        positions[t] = t;
    reference_rmsnorm(h, x, next(w, 1, s->dim), n, s->dim);
    reference_linear(q, h, next(w, q_width, s->dim), n, s->dim, q_width);
    reference_linear(k, h, next(w, kv_width, s->dim), n, s->dim, kv_width);
    reference_linear(v, h, next(w, kv_width, s->dim), n, s->dim, kv_width);
    reference_rope(q, positions, n, s->q_heads, s->head_dim);
    reference_rope(k, positions, n, s->kv_heads, s->head_dim);
    reference_attention(o, q, k, v, n, s->q_heads, s->kv_heads, s->head_dim);
    reference_linear(h, o, next(w, s->dim, q_width), n, q_width, s->dim);
    add(x, h, n * s->dim);
    reference_rmsnorm(h, x, next(w, 1, s->dim), n, s->dim);
    reference_linear(gate, h, next(w, s->hidden, s->dim), n, s->dim, s->hidden);
    reference_linear(up, h, next(w, s->hidden, s->dim), n, s->dim, s->hidden);
    reference_swiglu(act, gate, up, n * s->hidden);
    reference_linear(h, act, next(w, s->dim, s->hidden), n, s->hidden, s->dim);
    add(x, h, n * s->dim);
}

double reference_model(const struct model_sizes *s, const double *w, const int32_t *tokens,
                       const int32_t *targets, int64_t n)
{
    int64_t width = s->dim + s->hidden + s->vocab + s->q_heads * s->head_dim;
    int64_t most = n * width;
    double *b = calloc((size_t)most * 10, sizeof(*b));
    double *x = b + 9 * most, *h = b, *logits = b + most;
    const double *embedding = next(&w, s->vocab, s->dim);
    double loss;

    for (int64_t t = 0; t < n; t++)
        memcpy(x + t * s->dim, embedding + tokens[t] * s->dim, (size_t)s->dim * sizeof(*x));
    for (int l = 0; l < s->layers; l++)
        layer(s, &w, x, n, b, most);
    reference_rmsnorm(h, x, next(&w, 1, s->dim), n, s->dim);
    reference_linear(logits, h, next(&w, s->vocab, s->dim), n, s->dim, s->vocab);
    loss = reference_loss(logits, targets, n, s->vocab);
    free(b);
    return loss;
}

static double moved(double (*f)(void *context), void *context, double *x, double by)
{
    double before = *x, value;

    *x = before + by;
    value = f(context);
    *x = before;
    return value;
}

double reference_slope(double (*f)(void *context), void *context, double *x)
{
    const double h = 1e-3;
    double near = moved(f, context, x, h) - moved(f, context, x, -h);
    double far = moved(f, context, x, 2 * h) - moved(f, context, x, -2 * h);

    return (8.0 * near - far) / (12.0 * h);
}
