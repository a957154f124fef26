/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_KERNEL_H
#define RONDO_KERNEL_H

#include <rondo/status.h>
#include <rondo/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* A tile: q_count queries from q_first on, against k_count keys from k_first on, counted in tokens
 * inside the query block and the key block of the call.  Query q_first + i sees key k_first + j
 * iff lo <= i - j <= hi (0 <= i < q_count, 0 <= j < k_count).  lo and hi may be any numbers, the least and the
 * largest too: clamp them to 1 - k_count and q_count - 1 before you subtract.  Tiles are never empty, and at least
 * one pair of each is visible; single rows may see nothing. */
typedef enum {
    RONDO_TILE_FULL = 0,   /* every pair */
    RONDO_TILE_CAUSAL = 1, /* lo == 0, hi >= q_count - 1: key j <= query i */
    RONDO_TILE_STRICT = 2, /* lo == 1, hi >= q_count - 1: key j < query i */
    RONDO_TILE_BAND = 3    /* read lo and hi */
} rondo_tile_kind_t;

typedef struct rondo_tile {
    int64_t q_first, q_count;
    int64_t k_first, k_count;
    int64_t lo, hi;
    int64_t q_start, q_step; /* global position of query i: q_start + i * q_step */
    int64_t k_start, k_step; /* global position of key j: k_start + j * k_step */
    rondo_tile_kind_t kind;  /* what lo and hi say, for kernels that only know classes */
} rondo_tile_t;

/* A strided tensor: element (batch b, token t, head h, dim d) lies at
 * data + b*batch_stride + t*token_stride + h*head_stride + d; strides count elements. */
typedef struct rondo_tensor {
    void *data;
    int64_t batch_stride, token_stride, head_stride;
} rondo_tensor_t;

/* A call reads and writes only tokens of its tiles: of their queries in q, o, lse, dO, delta and dq, of
 * their keys in k, v, dk and dv.  Blocks move in chunks while others are worked on: other rows of what is
 * read may not have come yet, and other rows of o, lse, dq, dk and dv may be on their way to another rank. */

/* What all calls of one plan have in common. */
typedef struct rondo_kernel_shape {
    size_t struct_bytes;
    rondo_dtype_t dtype;          /* of q, k, v, dO, and of the o that a backward is given; all else is fp32 */
    int64_t batch;
    int q_heads, kv_heads;        /* query head h reads key head h / (q_heads / kv_heads) */
    int qk_dim, v_dim;            /* head size of q and k; of v and o */
    float scale;                  /* scores are scale * q.k */
    int64_t max_q_tokens, max_k_tokens; /* largest block that will come */
    float softcap;                /* 0: none; else scores are softcap * tanh(scale * q.k / softcap) */
    float dropout;                /* share of the weights that are dropped; 0 <= dropout < 1 */
    int64_t first_batch;          /* which of all batch rows is row 0 of the tensors, and */
    int first_head;               /* which of all query heads is head 0: for dropout */
    int threads;                  /* tasks that run takes at a time; 1 or more */
    /* Calls task(argument, index, thread) once for each 0 <= index < count, from up to `threads` threads at
     * a time, and returns when all are done; 0 <= thread < threads, never twice at once,
     * 0 in the calling thread alone.  NULL: threads is 1. */
    void (*run)(void *runner, void (*task)(void *argument, int index, int thread), void *argument, int count);
    void *runner;
} rondo_kernel_shape_t;

/* Dropout.  A weight is exp(score - lse) as ever, and lse knows nothing of dropout; then it is kept, times
 * 1 / (1 - dropout), or counts as zero in o and in all gradients, where delta stays rowsum(o * dO).  Whether
 * depends on the seed and on global indices alone, so that every layout, schedule and number of ranks drops
 * the same.  rondo_dropout_keeps says 1 or 0; its manual page says how, for kernels that do it themselves.
 * Positions are below 2^32.  Any thread. */
int rondo_dropout_keeps(uint64_t seed, int64_t batch, int q_head, int64_t q_position, int64_t k_position,
                        float dropout);

/* Forward.  q [b][q_tokens][q_heads][qk_dim], k [b][k_tokens][kv_heads][qk_dim], v [..][v_dim].
 * o fp32 [b][q_tokens][q_heads][v_dim]; lse fp32, element (b, t, h) by its strides, natural log.
 * A kernel that merges (RONDO_KERNEL_MERGES) folds each tile into the running (o, lse), which is
 * normalised; (0, -inf) is empty.  Any other kernel is given one tile a call and overwrites o and
 * lse of the tile's queries with the tile's own normalised result; a row that sees nothing: (0, -inf). */
typedef struct rondo_kernel_forward {
    size_t struct_bytes;
    const rondo_kernel_shape_t *shape;
    const rondo_tile_t *tiles;
    int tile_count;
    int64_t q_tokens, k_tokens;
    rondo_tensor_t q, k, v;
    rondo_tensor_t o, lse;
    void *workspace; /* workspace_bytes, 64-byte aligned, contents undefined */
    void *stream;    /* the caller's, untouched */
    uint64_t seed;   /* of dropout */
    int (*poll)(void *poller); /* see RONDO_KERNEL_POLLS; NULL: nothing to look after */
    void *poller;
} rondo_kernel_forward_t;

/* Backward.  lse is the whole row's; delta fp32 = rowsum(o * dO), strides as lse.  dq, dk, dv are fp32
 * and are added to, over all tiles of the call.  A row with lse == -inf adds nothing.
 * delta.data is NULL when the kernel asked for o (RONDO_KERNEL_NEEDS_O), and o.data is NULL otherwise. */
typedef struct rondo_kernel_backward {
    size_t struct_bytes;
    const rondo_kernel_shape_t *shape;
    const rondo_tile_t *tiles;
    int tile_count;
    int64_t q_tokens, k_tokens;
    rondo_tensor_t q, k, v;
    rondo_tensor_t o, d_o, lse, delta;
    rondo_tensor_t dq, dk, dv;
    void *workspace;
    void *stream;
    uint64_t seed;
    int (*poll)(void *poller);
    void *poller;
} rondo_kernel_backward_t;

enum {
    RONDO_KERNEL_MERGES = 1u << 0, /* forward folds into running o, lse and takes any tile list */
    RONDO_KERNEL_NEEDS_O = 1u << 1, /* backward computes delta itself, from o */
    /* What it can do beside fp32 and plain scores.  A plan that needs what its kernel lacks is refused. */
    RONDO_KERNEL_BF16 = 1u << 2,    /* q, k, v and dO of RONDO_BF16, */
    RONDO_KERNEL_F16 = 1u << 3,     /* of RONDO_F16 */
    RONDO_KERNEL_SOFTCAP = 1u << 4,
    RONDO_KERNEL_DROPOUT = 1u << 5,
    /* It calls poll(poller) about every millisecond, where poll is not NULL, in the thread that was called and
     * no other (thread 0 of run is that one); then messages move during a call, and calls are given more work.
     * Other than 0: the call is in vain, and returns that at once; what is in its outputs will not be read. */
    RONDO_KERNEL_POLLS = 1u << 6
};

/* A kernel: bundled, or the caller's own.  It is called only in a thread that is inside rondo_test,
 * rondo_wait, rondo_comm_progress, rondo_attention_plan or rondo_comm_split, whichever thread started
 * the call; never twice at once for a communicator and those split from it.  It returns 0, or any other
 * number to fail the communicator with RONDO_ERR_KERNEL.  It must not call Rondo for them, nor may tasks that
 * it gives to run (RONDO_ERR_BUSY); in threads of its own such a call waits until the kernel has returned. */
typedef struct rondo_kernel {
    size_t struct_bytes;
    const char *name;
    unsigned flags;
    void *context; /* handed to each call */
    /* That a call needs for a shape: the one that calls will have, whose run is not to be called yet.  Asked while
     * a plan is made, maybe more than once.  May be NULL: 0. */
    size_t (*workspace_bytes)(void *context, const rondo_kernel_shape_t *shape);
    int (*forward)(void *context, const rondo_kernel_forward_t *args);
    int (*backward)(void *context, const rondo_kernel_backward_t *args); /* may be NULL: no backward */
} rondo_kernel_t;

/* A bundled kernel by name, or NULL: "reference" (plain loops, fp64 inside), "flash" (blocked fp32), and flash
 * held to one instruction set: "flash-avx512", "flash-avx2", "flash-neon", "flash-plain", where the CPU has it.
 * Static storage; any thread. */
const rondo_kernel_t *rondo_kernel_find(const char *name);

/* Does a kernel keep this contract?  A suite of cases, in host memory, against attention in fp64 from its
 * definition.  Start from RONDO_KERNEL_CHECK_OPTIONS_INIT. */
typedef struct rondo_kernel_check_options {
    size_t struct_bytes;
    const char *only; /* cases whose name contains it; NULL: all */
    int large;        /* also the cases that take memory and time */
    uint64_t seed;    /* of the numbers */
    float tolerance;  /* of sums of unit-variance numbers; 1e-5: fp32 all through */
    /* One call a case, in the caller's thread.  status: 0 passed, 1 skipped, below 0 failed; text: why, valid
     * during the call.  NULL: nobody is told. */
    void (*report)(void *owner, const char *case_name, int status, const char *text);
    void *owner;
} rondo_kernel_check_options_t;

#define RONDO_KERNEL_CHECK_OPTIONS_INIT { sizeof(rondo_kernel_check_options_t), NULL, 0, 0, 1e-5f, NULL, NULL }

/* Runs the cases of what the kernel's flags say it can do, reports the others as skipped, and sets *failed to how
 * many failed.  RONDO_OK says that the suite ran, not that the kernel is right. */
rondo_status_t rondo_kernel_check(const rondo_kernel_t *kernel, const rondo_kernel_check_options_t *options,
                                  int *failed);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
