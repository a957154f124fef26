/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_call.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

/* ---- made and released ---- */

static size_t element_bytes(const rondo_kernel_shape_t *shape)
{
    return shape->dtype == RONDO_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* Returns whether there was memory. */
static int make(struct kernel_call *call, rondo_tensor_t *x, int64_t tokens, int heads, int dim, size_t bytes)
{
    int by_token = call->strides == CALL_TOKEN_MAJOR;

    x->batch_stride = tokens * heads * dim;
    x->token_stride = by_token ? (int64_t)heads * dim : dim;
    x->head_stride = by_token ? dim : tokens * dim;
    x->data = perf_touched((size_t)(call->shape.batch * x->batch_stride) * bytes);
    return x->data != NULL;
}

/* Of lse and delta: [batch][heads][tokens], as plans have them. */
static int make_rows(struct kernel_call *call, rondo_tensor_t *x)
{
    x->batch_stride = call->shape.q_heads * call->q_tokens;
    x->token_stride = 1;
    x->head_stride = call->q_tokens;
    x->data = perf_touched((size_t)(call->shape.batch * x->batch_stride) * sizeof(float));
    return x->data != NULL;
}

static int make_workspace(struct kernel_call *call)
{
    const rondo_kernel_t *kernel = call->kernel;
    size_t bytes = kernel->workspace_bytes ? kernel->workspace_bytes(kernel->context, &call->shape) : 0;

    bytes = (bytes + 64) / 64 * 64;
    call->workspace = aligned_alloc(64, bytes);
    if (call->workspace)
        memset(call->workspace, 0, bytes);
    return call->workspace != NULL;
}

int call_init(struct kernel_call *call)
{
    rondo_kernel_shape_t *shape = &call->shape;
    size_t in = element_bytes(shape), sum = sizeof(float);
    int q_heads = shape->q_heads, kv_heads = shape->kv_heads;

    shape->struct_bytes = sizeof(*shape);
    shape->max_q_tokens = call->q_tokens;
    shape->max_k_tokens = call->k_tokens;
    return make(call, &call->q, call->q_tokens, q_heads, shape->qk_dim, in) &&
                   make(call, &call->k, call->k_tokens, kv_heads, shape->qk_dim, in) &&
                   make(call, &call->v, call->k_tokens, kv_heads, shape->v_dim, in) &&
                   make(call, &call->d_o, call->q_tokens, q_heads, shape->v_dim, in) &&
                   make(call, &call->o, call->q_tokens, q_heads, shape->v_dim, sum) &&
                   make(call, &call->dq, call->q_tokens, q_heads, shape->qk_dim, sum) &&
                   make(call, &call->dk, call->k_tokens, kv_heads, shape->qk_dim, sum) &&
                   make(call, &call->dv, call->k_tokens, kv_heads, shape->v_dim, sum) &&
                   make_rows(call, &call->lse) && make_rows(call, &call->delta) && make_workspace(call)
               ? 0
               : -1;
}

void call_release(struct kernel_call *call)
{
    rondo_tensor_t *const tensors[] = {&call->q,   &call->k,     &call->v,  &call->d_o, &call->o,
                                       &call->lse, &call->delta, &call->dq, &call->dk,  &call->dv};

    for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++)
        free(tensors[i]->data);
    free(call->workspace);
}

/* ---- filled ---- */

/* Evenly from -2 to 2, never 0, of eight significant bits, which bf16 and fp16 hold too. */
static float noise(uint64_t x)
{
    x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return ((float)(x >> 56) - 127.5f) / 64;
}

void call_row(float *data, int tensor, int64_t batch, int64_t position, int head, int dim)
{
    uint64_t row = (((uint64_t)batch * 16 + (uint64_t)tensor) * 4096 + (uint64_t)head) << 34;

    for (int d = 0; d < dim; d++)
        data[d] = noise(row + (uint64_t)position * (uint64_t)dim + (uint64_t)d);
}

/* Of numbers that the type holds, 0 or at least 2^-14 in size. */
static uint16_t narrowed(float x, rondo_dtype_t dtype)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    if (dtype == RONDO_BF16)
        return (uint16_t)(bits >> 16);
    if ((bits & 0x7fffffff) == 0)
        return (uint16_t)(bits >> 16);
    return (uint16_t)((bits >> 16 & 0x8000) | (((bits & 0x7fffffff) - (112u << 23)) >> 13));
}

static void put_row(const struct kernel_call *call, const rondo_tensor_t *x, int64_t offset, const float *row,
                    int dim)
{
    if (call->shape.dtype == RONDO_F32)
        memcpy((float *)x->data + offset, row, (size_t)dim * sizeof(float));
    else
        for (int d = 0; d < dim; d++)
            ((uint16_t *)x->data)[offset + d] = narrowed(row[d], call->shape.dtype);
}

static void fill(const struct kernel_call *call, const rondo_tensor_t *x, int tensor, int64_t tokens, int heads,
                 int dim, const int64_t *positions)
{
    float *row = malloc((size_t)dim * sizeof(float));

    for (int64_t b = 0; row && b < call->shape.batch; b++)
        for (int64_t t = 0; t < tokens; t++)
            for (int h = 0; h < heads; h++) {
                call_row(row, tensor, b, positions ? positions[t] : t, h, dim);
                put_row(call, x, b * x->batch_stride + t * x->token_stride + h * x->head_stride, row, dim);
            }
    free(row);
}

void call_fill(struct kernel_call *call, const int64_t *q_positions, const int64_t *k_positions)
{
    const rondo_kernel_shape_t *shape = &call->shape;

    fill(call, &call->q, RONDO_TENSOR_Q, call->q_tokens, shape->q_heads, shape->qk_dim, q_positions);
    fill(call, &call->k, RONDO_TENSOR_K, call->k_tokens, shape->kv_heads, shape->qk_dim, k_positions);
    fill(call, &call->v, RONDO_TENSOR_V, call->k_tokens, shape->kv_heads, shape->v_dim, k_positions);
    fill(call, &call->d_o, RONDO_TENSOR_DO, call->q_tokens, shape->q_heads, shape->v_dim, q_positions);
}

/* ---- called ---- */

static void clear(const struct kernel_call *call, const rondo_tensor_t *x)
{
    memset(x->data, 0, (size_t)(call->shape.batch * x->batch_stride) * sizeof(float));
}

void call_clear_forward(struct kernel_call *call)
{
    float *lse = call->lse.data;

    clear(call, &call->o);
    for (int64_t i = 0; i < call->shape.batch * call->lse.batch_stride; i++)
        lse[i] = -INFINITY;
}

void call_clear_backward(struct kernel_call *call)
{
    clear(call, &call->dq);
    clear(call, &call->dk);
    clear(call, &call->dv);
}

static float widened(const struct kernel_call *call, int64_t offset)
{
    uint32_t bits;
    float x;

    if (call->shape.dtype == RONDO_F32)
        return ((const float *)call->d_o.data)[offset];
    bits = ((const uint16_t *)call->d_o.data)[offset];
    if (call->shape.dtype == RONDO_BF16)
        bits <<= 16;
    else
        bits = (bits & 0x8000) << 16 | ((bits & 0x7fff) ? ((bits & 0x7fff) << 13) + (112u << 23) : 0);
    memcpy(&x, &bits, sizeof(x));
    return x;
}

void call_delta(struct kernel_call *call)
{
    const rondo_kernel_shape_t *shape = &call->shape;

    for (int64_t b = 0; b < shape->batch; b++)
        for (int64_t t = 0; t < call->q_tokens; t++)
            for (int h = 0; h < shape->q_heads; h++) {
                const float *o = call_at(&call->o, b, t, h);
                int64_t at = o - (const float *)call->o.data; /* dO lies as o does */
                float sum = 0;

                for (int d = 0; d < shape->v_dim; d++)
                    sum += o[d] * widened(call, at + d);
                *call_at(&call->delta, b, t, h) = sum;
            }
}

int call_forward(struct kernel_call *call)
{
    const rondo_kernel_forward_t args = {.struct_bytes = sizeof(args),
                                         .shape = &call->shape,
                                         .tiles = call->tiles,
                                         .tile_count = call->tile_count,
                                         .q_tokens = call->q_tokens,
                                         .k_tokens = call->k_tokens,
                                         .q = call->q,
                                         .k = call->k,
                                         .v = call->v,
                                         .o = call->o,
                                         .lse = call->lse,
                                         .workspace = call->workspace,
                                         .seed = 1};

    return call->kernel->forward(call->kernel->context, &args);
}

int call_backward(struct kernel_call *call)
{
    const rondo_kernel_backward_t args = {.struct_bytes = sizeof(args),
                                          .shape = &call->shape,
                                          .tiles = call->tiles,
                                          .tile_count = call->tile_count,
                                          .q_tokens = call->q_tokens,
                                          .k_tokens = call->k_tokens,
                                          .q = call->q,
                                          .k = call->k,
                                          .v = call->v,
                                          .d_o = call->d_o,
                                          .lse = call->lse,
                                          .delta = call->delta,
                                          .dq = call->dq,
                                          .dk = call->dk,
                                          .dv = call->dv,
                                          .workspace = call->workspace,
                                          .seed = 1};

    return call->kernel->backward(call->kernel->context, &args);
}

/* Of a query: the keys that it sees. */
static int64_t seen(const rondo_tile_t *tile, int64_t i)
{
    int64_t first = i - tile->hi, end = i - tile->lo + 1;

    first = first > 0 ? first : 0;
    end = end < tile->k_count ? end : tile->k_count;
    return end > first ? end - first : 0;
}

int64_t call_pairs(const struct kernel_call *call)
{
    int64_t pairs = 0;

    for (int t = 0; t < call->tile_count; t++)
        for (int64_t i = 0; i < call->tiles[t].q_count; i++)
            pairs += seen(&call->tiles[t], i);
    return pairs;
}

rondo_status_t call_plan_forward(const struct kernel_call *call, rondo_plan_t plan)
{
    rondo_attention_fwd_t fwd = RONDO_ATTENTION_FWD_INIT;
    rondo_request_t request = NULL;

    fwd.q = call->q.data;
    fwd.k = call->k.data;
    fwd.v = call->v.data;
    fwd.o = call->o.data;
    fwd.lse = call->lse.data;
    return perf_wait(rondo_attention_forward(plan, &fwd, NULL, &request), &request);
}

rondo_status_t call_plan_backward(const struct kernel_call *call, rondo_plan_t plan)
{
    rondo_attention_bwd_t bwd = RONDO_ATTENTION_BWD_INIT;
    rondo_request_t request = NULL;

    bwd.q = call->q.data;
    bwd.k = call->k.data;
    bwd.v = call->v.data;
    bwd.o = call->o.data;
    bwd.lse = call->lse.data;
    bwd.d_o = call->d_o.data;
    bwd.dq = call->dq.data;
    bwd.dk = call->dk.data;
    bwd.dv = call->dv.data;
    return perf_wait(rondo_attention_backward(plan, &bwd, NULL, &request), &request);
}
