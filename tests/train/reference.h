/* SPDX-License-Identifier: Apache-2.0 */
/* The model once more, in plain loops and in double, written from the formulas alone: what the
 * trainer's layers are measured against.  Gradients come from difference quotients of these. */
#ifndef TRAIN_REFERENCE_H
#define TRAIN_REFERENCE_H

#include <stdint.h>

#include "examples/train/model.h"

/* y [n][out] = x [n][in] w^T. */
void reference_linear(double *y, const double *x, const double *w, int64_t n, int in, int out);
void reference_rmsnorm(double *y, const double *x, const double *gain, int64_t n, int dim);
/* Pairs (i, i + half) of x [n][heads][head_dim] turn by position / 10000^(2 i / head_dim). */
void reference_rope(double *x, const int64_t *positions, int64_t n, int heads, int head_dim);
void reference_swiglu(double *act, const double *gate, const double *up, int64_t count);
/* Sum of -log softmax(logits)[target] over the targets that are not -100. */
double reference_loss(const double *logits, const int32_t *targets, int64_t n, int vocab);
/* Causal, positions 0..n-1, q [n][q_heads][head_dim], k and v [n][kv_heads][head_dim]. */
void reference_attention(double *o, const double *q, const double *k, const double *v, int64_t n,
                         int q_heads, int kv_heads, int head_dim);

/* Summed loss of the whole model; w: the arena as model_tensor describes it, in double. */
double reference_model(const struct model_sizes *sizes, const double *w, const int32_t *tokens,
                       const int32_t *targets, int64_t n);

/* d f / d x[i] by a central difference of fourth order; x is as before afterwards. */
double reference_slope(double (*f)(void *context), void *context, double *x);

#endif
