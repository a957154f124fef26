/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_KERNEL_CHECK_PROBLEM_H
#define RI_KERNEL_CHECK_PROBLEM_H

#include <pthread.h>

#include "kernels/check/box.h"

/* An attention problem: what it is, its tensors, and what must come out of it. */
struct ri_problem_spec {
    int64_t batch, q_tokens, k_tokens;
    int q_heads, kv_heads, qk_dim, v_dim;
    const rondo_tile_t *tiles; /* borrowed */
    int tile_count;
    enum ri_strides strides;
    int offset; /* elements by which data is off a multiple of 64 bytes */
    rondo_dtype_t dtype;
    float softcap, dropout;
};

/* What a call may write, in the order in which it is compared. */
enum ri_output { RI_OUT_O, RI_OUT_LSE, RI_OUT_DQ, RI_OUT_DK, RI_OUT_DV, RI_OUTPUTS };

/* Who polls, and what it is told. */
struct ri_polls {
    pthread_t caller;
    int count, strangers; /* polls; those from other threads than the caller's */
    int answer;           /* what each says; the call must return it */
};

struct ri_problem {
    struct ri_problem_spec n;
    rondo_kernel_shape_t shape; /* cases may change it before anything is computed */
    uint64_t seed;              /* of dropout */
    struct ri_polls *polls;     /* NULL: calls have nothing to poll */
    int exact_scores;           /* scores are such that fp32 holds them: however large, they are not wrong */
    int64_t *tile_of;           /* [q_tokens][k_tokens]: 1 + the tile that shows the pair, 0: it is hidden */
    unsigned char *q_live, *k_live; /* tokens of some tile */
    struct ri_box q, k, v, d_o;
    struct ri_box out[RI_OUTPUTS];        /* o and lse are the running result */
    struct ri_box row_o, row_lse, delta;  /* what a backward is given of the forward's rows */
    struct ri_box part_o, part_lse;       /* of a kernel that does not merge */
    double *want[RI_OUTPUTS];             /* packed [batch][token][head][dim] */
    double *x_q, *x_k, *x_v, *x_d_o;      /* packed copies of the inputs */
    double *scores, *keeps;               /* [k_tokens], of one row */
    double top_score;                     /* the largest |scale * q.k| that is seen and finite */
};

/* Random q, k, v, dO of unit variance, scale 1/sqrt(qk_dim), o and lse empty, gradients zero; all of it in the
 * tokens of the tiles alone, and NaN in others. */
int ri_problem_make(struct ri_probe *c, const struct ri_problem_spec *spec, struct ri_problem **p);

/* From the definition, in double: out[O], out[LSE] as they are now, and the keys that the tiles show, to want. */
int ri_oracle_forward(struct ri_probe *c, struct ri_problem *p);
/* After a forward: fills row_o, row_lse and delta from its results, and computes what becomes of the gradients as
 * they are now. */
int ri_oracle_backward(struct ri_probe *c, struct ri_problem *p);
/* The second half of it, from row_lse and delta as they are. */
void ri_oracle_gradients(struct ri_probe *c, struct ri_problem *p);

/* Calls the kernel with these tiles of the problem: all in one call, or one a call where it does not merge, and
 * then folds what comes out into out[O] and out[LSE].  Checks what it returns, its workspace, and that nothing is
 * written but the tiles' tokens of what is its to write. */
int ri_run_forward(struct ri_probe *c, struct ri_problem *p, const rondo_tile_t *tiles, int count);
int ri_run_backward(struct ri_probe *c, struct ri_problem *p, const rondo_tile_t *tiles, int count);

/* Compares the outputs of the check's pass with what is wanted. */
int ri_compare(struct ri_probe *c, const struct ri_problem *p);
/* Bits: of an output, against a copy. */
int ri_compare_bits(struct ri_probe *c, const struct ri_problem *p, enum ri_output output,
                    const unsigned char *copy, struct ri_rows rows);
/* What an element should be, where the oracle is not asked: as a failure says it. */
int ri_compare_value(struct ri_probe *c, const struct ri_problem *p, enum ri_output output, const int64_t at[4],
                     double want, double allowed);

/* Oracle, call and comparison of the check's pass, of the problem or of a fresh one. */
int ri_check_problem(struct ri_probe *c, struct ri_problem *p);
int ri_check_spec(struct ri_probe *c, const struct ri_problem_spec *spec);

rondo_tile_t ri_tile_band(int64_t q_first, int64_t q_count, int64_t k_first, int64_t k_count, int64_t lo, int64_t hi);
rondo_tile_t ri_tile_full(int64_t q_first, int64_t q_count, int64_t k_first, int64_t k_count);
rondo_tile_t ri_tile_causal(int64_t q_first, int64_t q_count, int64_t k_first, int64_t k_count);
rondo_tile_t ri_tile_strict(int64_t q_first, int64_t q_count, int64_t k_first, int64_t k_count);

#endif
