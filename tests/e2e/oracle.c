/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/e2e/oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double next_uniform(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

double next_normal(uint64_t *state)
{
    double radius = sqrt(-2 * log(next_uniform(state)));

    return radius * cos(6.283185307179586 * next_uniform(state));
}

static void *allocate(int64_t count, size_t size)
{
    void *memory = calloc((size_t)count + 1, size);

    if (!memory) {
        fprintf(stderr, "oracle: out of memory\n");
        exit(1);
    }
    return memory;
}

static float *noise(int64_t count, uint64_t *seed)
{
    float *x = allocate(count, sizeof(*x));

    for (int64_t i = 0; i < count; i++)
        x[i] = (float)next_normal(seed);
    return x;
}

/* One query row: its probabilities over the keys it sees, then outputs and gradients. */
struct row {
    const float *q, *d_o;    /* [qk_dim], [v_dim] */
    const float *k, *v;      /* of key 0 of its key head; strides below */
    double *o, *dq, *dk, *dv;
    int64_t keys, k_stride, v_stride;
};

static double softmax_row(const struct problem *p, const struct row *r, double *prob)
{
    double scale = 1 / sqrt(p->qk_dim), max = -INFINITY, sum = 0;

    for (int64_t j = 0; j < r->keys; j++) {
        double s = 0;

        for (int d = 0; d < p->qk_dim; d++)
            s += (double)r->q[d] * r->k[j * r->k_stride + d];
        prob[j] = s * scale;
        max = fmax(max, prob[j]);
    }
    for (int64_t j = 0; j < r->keys; j++) {
        prob[j] = exp(prob[j] - max);
        sum += prob[j];
    }
    for (int64_t j = 0; j < r->keys; j++)
        prob[j] /= sum;
    return max + log(sum);
}

static void output_row(const struct problem *p, const struct row *r, const double *prob)
{
    for (int64_t j = 0; j < r->keys; j++)
        for (int d = 0; d < p->v_dim; d++)
            r->o[d] += prob[j] * r->v[j * r->v_stride + d];
}

static void gradient_row(const struct problem *p, const struct row *r, const double *prob)
{
    double scale = 1 / sqrt(p->qk_dim), delta = 0;

    for (int d = 0; d < p->v_dim; d++)
        delta += r->o[d] * r->d_o[d];
    for (int64_t j = 0; j < r->keys; j++) {
        double dp = 0, ds;

        for (int d = 0; d < p->v_dim; d++) {
            dp += (double)r->d_o[d] * r->v[j * r->v_stride + d];
            r->dv[j * r->v_stride + d] += prob[j] * r->d_o[d];
        }
        ds = prob[j] * (dp - delta) * scale;
        for (int d = 0; d < p->qk_dim; d++) {
            r->dq[d] += ds * r->k[j * r->k_stride + d];
            r->dk[j * r->k_stride + d] += ds * r->q[d];
        }
    }
}

static void clear(struct problem *p)
{
    size_t rows = (size_t)(p->batch * p->tokens), q = (size_t)p->q_heads, kv = (size_t)p->kv_heads;
    size_t qk = (size_t)p->qk_dim, v = (size_t)p->v_dim;

    memset(p->o, 0, rows * q * v * sizeof(double));
    memset(p->dq, 0, rows * q * qk * sizeof(double));
    memset(p->dk, 0, rows * kv * qk * sizeof(double));
    memset(p->dv, 0, rows * kv * v * sizeof(double));
}

void problem_solve(struct problem *p)
{
    int group = p->q_heads / p->kv_heads;
    double *prob = allocate(p->tokens, sizeof(*prob));

    clear(p);
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t i = 0; i < p->tokens; i++) {
            for (int h = 0; h < p->q_heads; h++) {
                int64_t at = (b * p->tokens + i) * p->q_heads + h;
                int64_t kv = b * p->tokens * p->kv_heads + h / group;
                struct row r = {
                    .q = p->q + at * p->qk_dim, .d_o = p->d_o + at * p->v_dim,
                    .k = p->k + kv * p->qk_dim, .v = p->v + kv * p->v_dim,
                    .o = p->o + at * p->v_dim, .dq = p->dq + at * p->qk_dim,
                    .dk = p->dk + kv * p->qk_dim, .dv = p->dv + kv * p->v_dim,
                    .keys = p->causal ? i + 1 : p->tokens,
                    .k_stride = (int64_t)p->kv_heads * p->qk_dim,
                    .v_stride = (int64_t)p->kv_heads * p->v_dim,
                };

                p->lse[at] = softmax_row(p, &r, prob);
                output_row(p, &r, prob);
                gradient_row(p, &r, prob);
            }
        }
    }
    free(prob);
}

void problem_init(struct problem *p, uint64_t seed)
{
    int64_t rows = p->batch * p->tokens;

    p->q = noise(rows * p->q_heads * p->qk_dim, &seed);
    p->k = noise(rows * p->kv_heads * p->qk_dim, &seed);
    p->v = noise(rows * p->kv_heads * p->v_dim, &seed);
    p->d_o = noise(rows * p->q_heads * p->v_dim, &seed);
    p->o = allocate(rows * p->q_heads * p->v_dim, sizeof(double));
    p->lse = allocate(rows * p->q_heads, sizeof(double));
    p->dq = allocate(rows * p->q_heads * p->qk_dim, sizeof(double));
    p->dk = allocate(rows * p->kv_heads * p->qk_dim, sizeof(double));
    p->dv = allocate(rows * p->kv_heads * p->v_dim, sizeof(double));
    problem_solve(p);
}

void problem_release(struct problem *p)
{
    free(p->q);
    free(p->k);
    free(p->v);
    free(p->d_o);
    free(p->o);
    free(p->lse);
    free(p->dq);
    free(p->dk);
    free(p->dv);
}
