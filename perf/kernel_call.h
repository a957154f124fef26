/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_KERNEL_CALL_H
#define PERF_KERNEL_CALL_H

#include <rondo/attention.h>
#include <rondo/kernel.h>

/* A kernel called by itself, without plan or ranks, on tensors of its own. */

enum call_strides {
    CALL_TOKEN_MAJOR, /* [batch][tokens][heads][dim] */
    CALL_HEAD_MAJOR   /* [batch][heads][tokens][dim] */
};

struct kernel_call {
    const rondo_kernel_t *kernel; /* borrowed, as are the tiles */
    rondo_kernel_shape_t shape;
    const rondo_tile_t *tiles;
    int tile_count;
    enum call_strides strides;
    int64_t q_tokens, k_tokens;
    rondo_tensor_t q, k, v, d_o; /* of shape.dtype */
    rondo_tensor_t o, lse, delta, dq, dk, dv;
    void *workspace;
};

/* Reads kernel, shape, tiles, strides and the numbers of tokens, and makes the rest; shape.max_q_tokens
 * and max_k_tokens are set.  0, or -1: no memory.  Release it after a failure too. */
int call_init(struct kernel_call *call);
void call_release(struct kernel_call *call);

/* q, k, v and dO, about of unit variance and exact in any type: a formula of tensor, global position, head
 * and dim, so that a shard has the rows of the whole.  Positions by token; NULL: they count from 0. */
void call_fill(struct kernel_call *call, const int64_t *q_positions, const int64_t *k_positions);

/* The formula, for rows of others: tensor is RONDO_TENSOR_Q, K, V or DO; data fp32 [dim]. */
void call_row(float *data, int tensor, int64_t batch, int64_t position, int head, int dim);

/* Empties o and lse, or dq, dk and dv: a kernel adds to them. */
void call_clear_forward(struct kernel_call *call);
void call_clear_backward(struct kernel_call *call);

/* delta from o and dO, once o is there. */
void call_delta(struct kernel_call *call);

/* As the kernel returns it. */
int call_forward(struct kernel_call *call);
int call_backward(struct kernel_call *call);

/* A start of a plan of which this is the shard, to its end. */
rondo_status_t call_plan_forward(const struct kernel_call *call, rondo_plan_t plan);
rondo_status_t call_plan_backward(const struct kernel_call *call, rondo_plan_t plan);

/* (query, key) pairs of the tiles, per head and batch row. */
int64_t call_pairs(const struct kernel_call *call);

/* Where row (b, t, h) of an fp32 tensor starts. */
static inline float *call_at(const rondo_tensor_t *x, int64_t b, int64_t t, int64_t h)
{
    return (float *)x->data + b * x->batch_stride + t * x->token_stride + h * x->head_stride;
}

#endif
