/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include <rondo/attention.h>

#include "layers.h"

/* A Llama-like language model over bytes:
 *
 *   x = embedding[token]
 *   each layer:  x += wo attention(rope(wq h), rope(wk h), wv h)   with h = rmsnorm(x)
 *                x += w_down (silu(w_gate h) * (w_up h))           with h = rmsnorm(x)
 *   logits = head rmsnorm(x)                                       (head and embedding are not tied)
 *
 * Attention is the only place where a token sees another one, and so the only call to Rondo here. */
struct model_sizes {
    int layers;
    int dim;
    int q_heads;  /* a multiple of kv_heads */
    int kv_heads;
    int head_dim; /* even */
    int hidden;   /* of the feed-forward */
    int vocab;
};

/* Pointers into one arena.  Used for the weights, their gradients and both moments of AdamW. */
struct layer_weights {
    float *attn_norm; /* [dim] */
    float *wq;        /* [q_heads * head_dim][dim] */
    float *wk;        /* [kv_heads * head_dim][dim] */
    float *wv;        /* [kv_heads * head_dim][dim] */
    float *wo;        /* [dim][q_heads * head_dim] */
    float *ffn_norm;  /* [dim] */
    float *w_gate;    /* [hidden][dim] */
    float *w_up;      /* [hidden][dim] */
    float *w_down;    /* [dim][hidden] */
};

struct weights {
    float *arena; /* [count], owned */
    size_t count;
    float *embedding; /* [vocab][dim] */
    struct layer_weights *layers; /* [layers], owned */
    float *final_norm; /* [dim] */
    float *head;       /* [vocab][dim] */
};

/* What the backward needs of a layer's forward; n tokens of this rank. */
struct layer_acts {
    float *x;        /* [n][dim], enters the layer */
    float *attn_in;  /* [n][dim], normalised x */
    float *attn_rms; /* [n] */
    void *q;         /* [n][q_heads][head_dim], turned; of acts.dtype, as k, v and o */
    void *k;         /* [n][kv_heads][head_dim], turned */
    void *v;         /* [n][kv_heads][head_dim] */
    void *o;         /* [n][q_heads][head_dim] */
    float *lse;      /* [q_heads][n] */
    float *mid;      /* [n][dim], between attention and feed-forward */
    float *ffn_in;   /* [n][dim], normalised mid */
    float *ffn_rms;  /* [n] */
    float *gate;     /* [n][hidden] */
    float *up;       /* [n][hidden] */
    float *act;      /* [n][hidden] */
};

struct acts {
    float *arena; /* [count], owned; arrays start on cache lines */
    size_t count;
    float *shared; /* of what attention reads: comm's memory, owned */
    rondo_comm_t comm;
    rondo_dtype_t dtype; /* of what attention reads and writes */
    int head_dim;
    int64_t room; /* tokens that the arrays have room for; they are packed for n of them */
    int64_t n;
    struct layer_acts *layers; /* [layers], owned */
    float *rope;    /* [n][head_dim / 2][2] */
    float *x;       /* [n][dim], leaves the last layer */
    float *out;     /* [n][dim], normalised x */
    float *out_rms; /* [n] */
    float *logits;  /* [n][vocab]; after the loss: probabilities, then their gradients */
    /* The backward's, one layer at a time. */
    float *dx;   /* [n][dim], of the residual stream */
    float *din;  /* [n][dim], of a normalised input */
    void *dq;    /* shapes and type of q, k, v, o */
    void *dk;
    void *dv;
    void *d_o;
    float *dgate; /* [n][hidden] */
    float *dup;
    float *dact;
    /* Where the layers work on q, k, v, o and their gradients, of one layer, when these are no floats. */
    struct {
        float *q, *k, *v, *o;
    } work;
};

/* One tensor of the arena, as model_tensor walks over them in the arena's order. */
struct model_tensor {
    const char *name;
    int layer; /* -1: not of a layer */
    size_t first, count;
    float init_std; /* 0: starts as 1 (the gains of norms), and does not decay */
};

/* NULL, or text that names a size that cannot be, with its value.  The text is static. */
const char *model_sizes_refused(const struct model_sizes *sizes);

int model_tensors(const struct model_sizes *sizes);
struct model_tensor model_tensor(const struct model_sizes *sizes, int index);

/* [count], zeroed, on a cache line; free it with free.  NULL when there is no memory. */
float *floats_alloc(size_t count);

/* Zeroed.  0, or -1 when there is no memory; release takes half-made ones. */
int weights_init(struct weights *w, const struct model_sizes *sizes);
void weights_release(struct weights *w);
/* The same start on every rank: it depends on seed alone. */
void weights_randomise(struct weights *w, const struct model_sizes *sizes, uint64_t seed);
/* Moves every weight by one unit in the last place, up or down. */
void weights_perturb(struct weights *w, uint64_t seed);

/* comm: the plan's, which outlives acts; NULL: all memory is this process's own.  dtype: the plan's.  room:
 * the most tokens.  It has none before acts_fit. */
int acts_init(struct acts *a, rondo_comm_t comm, const struct model_sizes *sizes,
              rondo_dtype_t dtype, int64_t room);
/* From now on for n tokens, at most room.  positions [n]: of each in its document or in the whole sequence. */
void acts_fit(struct acts *a, const int64_t *positions, int64_t n);
void acts_release(struct acts *a);

/* Both are collective over the plan's ranks, and return what Rondo returns.  tokens, targets [n]. */
rondo_status_t model_forward(const struct model_sizes *sizes, const struct weights *w,
                             struct acts *a, rondo_plan_t plan, const int32_t *tokens);
/* After cross_entropy_backward has left dlogits in a->logits.  Adds to the gradients of the shard's
 * own tokens in g; the sum over ranks is the caller's. */
rondo_status_t model_backward(const struct model_sizes *sizes, const struct weights *w,
                              struct weights *g, struct acts *a, rondo_plan_t plan,
                              const int32_t *tokens);

#endif
