/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_KERNEL_ORACLE_H
#define TESTS_KERNEL_ORACLE_H

#include <rondo/kernel.h>

/* Attention problems for the kernel tests, and what must come out of them: dense softmax in double
 * over an explicit table of what sees what.  Nothing here is shared with the kernels. */

struct dims {
    int64_t batch, q_tokens, k_tokens;
    int q_heads, kv_heads, qk_dim, v_dim;
};

enum strides {
    STRIDES_PACKED, /* [batch][token][head][dim] */
    STRIDES_GAPS,   /* the same with gaps after each row, token and batch; data off by one float */
    STRIDES_HEADS_FIRST /* [batch][head][token][dim] */
};

/* A tensor in memory of its own; what is not an element is poison and must neither be read into a
 * result nor written. */
struct box {
    rondo_tensor_t view;
    float *memory;
    int64_t floats, batch, tokens;
    int heads, dim;
};

struct problem {
    struct dims n;
    rondo_kernel_shape_t shape;
    const rondo_tile_t *tiles;
    int tile_count;
    unsigned char *seen; /* [q_tokens][k_tokens] */
    struct box q, k, v, d_o, o, lse, delta, dq, dk, dv;
    double *want_o, *want_lse, *want_dq, *want_dk, *want_dv; /* packed [batch][token][head][dim] */
};

rondo_tile_t tile_full(int64_t q_first, int64_t q_count, int64_t k_first, int64_t k_count);
rondo_tile_t tile_causal(int64_t q_first, int64_t q_count, int64_t k_first, int64_t k_count);
rondo_tile_t tile_strict(int64_t q_first, int64_t q_count, int64_t k_first, int64_t k_count);
rondo_tile_t tile_band(int64_t q_first, int64_t q_count, int64_t k_first, int64_t k_count,
                       int64_t lo, int64_t hi);

/* Random q, k, v, d_o of unit variance; empty o and lse; zero gradients.  Tiles are borrowed. */
struct problem *problem_create(struct dims n, float scale, const rondo_tile_t *tiles,
                               int tile_count, enum strides strides, unsigned seed);
void problem_destroy(struct problem *p);

float *box_at(const struct box *x, int64_t b, int64_t t, int h); /* one row */
void box_fill(struct box *x, float value);
int box_poison_intact(const struct box *x);

/* Computes want_o and want_lse from q, k, v; then want_dq, want_dk, want_dv from d_o as well. */
void oracle_forward(struct problem *p);
void oracle_backward(struct problem *p);

/* Rounds want_lse into lse, and the sums of P * dP into delta, as a backward needs them. */
void oracle_give_lse_and_delta(struct problem *p);

/* Element of a packed oracle array. */
static inline int64_t oracle_at(const struct box *x, int64_t b, int64_t t, int h)
{
    return ((b * x->tokens + t) * x->heads + h) * x->dim;
}

#endif
