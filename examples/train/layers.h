/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_LAYERS_H
#define TRAIN_LAYERS_H

#include <stdint.h>

/* The pieces of the model, each forward and backward.  n is the number of tokens in this rank's
 * shard, and may be 0.  All arrays are packed, row by row.  "Adds to" means that the caller cleared
 * or filled the array before.  None of these pieces looks at another token, so a cut sequence needs
 * nothing from other ranks here. */

/* y [n][out] = x [n][in] w^T, w [out][in].  With add != 0 it adds to y. */
void linear_forward(float *y, const float *x, const float *w, int64_t n, int in, int out, int add);
/* dx [n][in] = dy w (with add_dx != 0: adds to dx); dw [out][in] += dy^T x. */
void linear_backward(float *dx, float *dw, const float *dy, const float *x, const float *w,
                     int64_t n, int in, int out, int add_dx);

/* y[t] = gain * x[t] * inv_rms[t], inv_rms[t] = 1 / sqrt(mean of squares of x[t] + 1e-5).
 * x, y [n][dim]; gain [dim]; inv_rms [n] is kept for the backward. */
void rmsnorm_forward(float *y, float *inv_rms, const float *x, const float *gain, int64_t n,
                     int dim);
/* Adds to dx [n][dim] and dgain [dim]. */
void rmsnorm_backward(float *dx, float *dgain, const float *dy, const float *x, const float *gain,
                      const float *inv_rms, int64_t n, int dim);

/* table [n][head_dim / 2][2]: cosine and sine of position * 10000^(-2 i / head_dim).  The positions
 * are global ones: a token turns by the same angle on whichever rank it lies. */
void rope_table(float *table, const int64_t *positions, int64_t n, int head_dim);
/* Turns the pairs (i, i + head_dim / 2) of x [n][heads][head_dim] in place; backward != 0 turns
 * back, which is the gradient of turning. */
void rope_rotate(float *x, const float *table, int64_t n, int heads, int head_dim, int backward);

/* act = gate * sigmoid(gate) * up, all [count]. */
void swiglu_forward(float *act, const float *gate, const float *up, int64_t count);
/* Writes dgate and dup; they may not overlap dact. */
void swiglu_backward(float *dgate, float *dup, const float *dact, const float *gate,
                     const float *up, int64_t count);

/* x [n][dim] = the rows tokens[t] of table [vocab][dim]; the backward adds to dtable. */
void embedding_forward(float *x, const float *table, const int32_t *tokens, int64_t n, int dim);
void embedding_backward(float *dtable, const float *dx, const int32_t *tokens, int64_t n, int dim);

/* Loss of one shard, summed and not averaged: only the sum over all ranks may be divided, by the
 * count over all ranks. */
struct loss_sum {
    double nats;   /* sum of -log p(target) */
    int64_t valid; /* targets that count: those that are not RONDO_IGNORE */
};

/* Turns logits [n][vocab] into probabilities in place. */
struct loss_sum cross_entropy_forward(float *logits, const int32_t *targets, int64_t n, int vocab);
/* Turns the probabilities into dlogits in place; scale is 1 / valid of all ranks. */
void cross_entropy_backward(float *probs, const int32_t *targets, int64_t n, int vocab,
                            float scale);

#endif
