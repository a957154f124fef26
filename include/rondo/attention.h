/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_ATTENTION_H
#define RONDO_ATTENTION_H

#include <rondo/comm.h>
#include <rondo/kernel.h>
#include <rondo/layout.h>
#include <rondo/mask.h>
#include <rondo/request.h>
#include <rondo/status.h>
#include <rondo/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* One attention, as the model sees it.  Equal on every rank: plan creation compares. */
typedef struct rondo_attention_desc {
    size_t struct_bytes;
    rondo_dtype_t dtype; /* of q, k, v, o, dO, dq, dk and dv as the caller has them: RONDO_F32, RONDO_BF16 or
                          * RONDO_F16; sums are fp32 until they are rounded, once, to be given back */
    rondo_mask_t mask;
    int64_t batch;       /* rows; > 0 */
    int q_heads;         /* a multiple of kv_heads */
    int kv_heads;
    int qk_dim;          /* head size of q and k */
    int v_dim;           /* head size of v and o; 0: qk_dim */
    float scale;         /* 0: 1 / sqrt(qk_dim) */
    const rondo_mask_params_t *mask_params; /* of a mask that has some, else NULL; copied */
    rondo_layout_t kv_layout; /* of k and v where it is not that of q (cross-attention); NULL: the same.  As many
                          * ranks, and as many documents; copied */
    float softcap;       /* scores are softcap * tanh(scale * q.k / softcap); 0: as they are */
    float dropout;       /* share of the weights that are dropped, 0 <= dropout < 1; each start gives a seed */
    int has_sinks;       /* each start gives a sink for each query head: a score that takes its share of the
                          * weights and has no value */
} rondo_attention_desc_t;

#define RONDO_ATTENTION_DESC_INIT                                                                  \
    { sizeof(rondo_attention_desc_t), RONDO_F32, RONDO_MASK_CAUSAL, 1, 0, 0, 0, 0, 0.0f,           \
      NULL, NULL, 0.0f, 0.0f, 0 }

/* How to do it.  NULL or "auto" lets the plan choose.  Strings are borrowed for the call only. */
typedef struct rondo_plan_options {
    size_t struct_bytes;
    const char *schedule;         /* "auto", "ring", "two-level", "direct" */
    const char *backward;         /* "auto", "kv-grad", "q-grad", "none" (a plan for inference) */
    const char *kernel_name;      /* a bundled kernel; NULL: "flash" */
    const rondo_kernel_t *kernel; /* the caller's own; lives as long as the plan; wins over kernel_name */
    int max_in_flight;            /* starts of this plan that may be under way at once; 0: 1; up to 1024 */
    const char *binding;          /* "auto": where the transport can, blocks of ranks of this host are read
                                   * in place; "copy": never */
    const char *host_transfers;   /* two-level: "auto", "own-turns", "chunked" over the local turns */
    int pieces;                   /* two-level: pieces of a block that enter a host on ranks of their own;
                                   * 0: the plan chooses; up to 64 */
    int landing_slots;            /* buffers for blocks that arrive; 0: the plan chooses; up to 1024 */
    int64_t chunk_bytes;          /* blocks are sent in chunks of about so many bytes of all their tensors, and
                                   * work starts on those that have come; 0: RONDO_CHUNK, or the plan chooses */
    const char *wire;             /* types in which tensors travel.  NULL: as they are computed with, inputs of
                                   * desc.dtype and sums fp32.  "bf16" or "f16": all of them, or a list such as
                                   * "k:bf16,v:bf16,dk:f16"; lse and delta always travel in fp32 */
    int threads;                  /* that the kernel may compute with, as its shape says; 0: RONDO_THREADS */
} rondo_plan_options_t;

#define RONDO_PLAN_OPTIONS_INIT                                                                    \
    { sizeof(rondo_plan_options_t), NULL, NULL, NULL, NULL, 0, NULL, NULL, 0, 0, 0, NULL, 0 }

/* The caller's tensors of one rank, packed; n = rondo_layout_tokens(layout, rank).  They stay the
 * caller's, and must stay where they are and unwritten (outputs: untouched) until the request is done,
 * well or not: ranks of one host may read the inputs in place.  After an error they are the caller's again,
 * but for a kernel of another rank that reads them for more than 2 s after this one has given up.
 * With n == 0 every pointer but sinks may be NULL. */
typedef struct rondo_attention_fwd {
    size_t struct_bytes;
    const void *q; /* [batch][n][q_heads][qk_dim] */
    const void *k; /* [batch][n][kv_heads][qk_dim] */
    const void *v; /* [batch][n][kv_heads][v_dim] */
    void *o;       /* [batch][n][q_heads][v_dim], written */
    float *lse;    /* [batch][q_heads][n], written: natural log of the sum of exp of the row's scores */
    int64_t tokens; /* for which o and lse were made, as rondo_saved_create says; a plan that is bound to
                     * another length refuses.  0: not compared */
    const float *sinks; /* [q_heads], equal on all ranks, which compare; with desc.has_sinks alone */
    uint64_t seed;      /* of dropout: equal on all ranks, and in the backward of this forward */
} rondo_attention_fwd_t;

#define RONDO_ATTENTION_FWD_INIT                                                                   \
    { sizeof(rondo_attention_fwd_t), NULL, NULL, NULL, NULL, NULL, 0, NULL, 0 }

typedef struct rondo_attention_bwd {
    size_t struct_bytes;
    const void *q, *k, *v; /* as in the forward */
    const void *o;         /* the forward's outputs */
    const float *lse;
    const void *d_o;       /* [batch][n][q_heads][v_dim] */
    void *dq;              /* shapes of q, k, v; written, not added to */
    void *dk;
    void *dv;
    int64_t tokens;        /* that were bound in the forward, as rondo_saved_restore says; a plan that is
                            * bound to another length refuses.  0: not compared */
    const float *sinks;    /* the forward's */
    float *d_sinks;        /* [q_heads], written: what this rank's queries add to the gradient of the sinks, so
                            * that the sum over ranks is the gradient */
    uint64_t seed;         /* the forward's */
} rondo_attention_bwd_t;

#define RONDO_ATTENTION_BWD_INIT                                                                   \
    { sizeof(rondo_attention_bwd_t), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0,       \
      NULL, NULL, 0 }

/* What a plan has done since it was made.  Bytes are counted by the transport, at completion. */
typedef struct rondo_plan_stats {
    size_t struct_bytes;
    uint64_t forwards, backwards;      /* calls completed */
    uint64_t sent_bytes[2];            /* by lane: 0 inside the host, 1 between hosts */
    uint64_t received_bytes[2];
    uint64_t pairs;                    /* (query, key) pairs given to the kernel, forward and backward, per batch row */
    double compute_seconds;            /* in the kernel, in merges and copies */
    double move_seconds;               /* some transfer was under way */
    double exposed_seconds;            /* some transfer was under way and no step computed, the time that
                                        * the caller spends outside Rondo included.  All three: of each
                                        * start by itself, so starts that overlap add up */
    size_t pool_bytes, scratch_bytes;  /* what the communicator holds now for all its plans, and */
    size_t table_bytes;                /* what this plan has of its own: see rondo_plan_memory_t */
    uint64_t sent_tensor_bytes[2][RONDO_TENSOR_COUNT]; /* sent_bytes by lane and tensor */
    uint64_t bound_bytes;              /* read in the memory of other ranks of this host, and not received */
    double priced_seconds[2];          /* what the plan takes a forward, a backward for, by the topology and the
                                        * settings RONDO_COST_*; negative: its schedule was forced, or there is none */
} rondo_plan_stats_t;

#define RONDO_PLAN_STATS_INIT                                                                      \
    { sizeof(rondo_plan_stats_t), 0, 0, { 0, 0 }, { 0, 0 }, 0, 0, 0, 0, 0, 0, 0, { { 0 }, { 0 } }, 0, { -1, -1 } }

/* What a plan needs on this rank, beside the caller's tensors.  All plans of a communicator share pool and
 * scratch: it holds the largest max_in_flight of any plan times the largest start of any, and the
 * largest scratch. */
typedef struct rondo_plan_memory {
    size_t struct_bytes;
    size_t start_bytes[2]; /* blocks of one start under way: 0 forward, 1 backward (0: has none) */
    size_t pool_bytes;     /* max_in_flight times the larger of them */
    size_t scratch_bytes;  /* the kernel's workspace, and partial results when it does not merge */
    size_t table_bytes;    /* of the plan alone: layouts, mask, steps, tiles, messages of each run; about */
} rondo_plan_memory_t;

#define RONDO_PLAN_MEMORY_INIT { sizeof(rondo_plan_memory_t), { 0, 0 }, 0, 0, 0 }

/* Collective over comm: all ranks call it in the same order, with equal layout, desc and options; a
 * difference, or an argument refused on one rank, is an error on every rank; only kernels
 * may differ, if all take delta or none does.  The layout is copied. */
rondo_status_t rondo_attention_plan(rondo_comm_t comm, rondo_layout_t layout,
                                    const rondo_attention_desc_t *desc,
                                    const rondo_plan_options_t *options, rondo_plan_t *plan);

/* Local: what a plan made of these arguments would need here, before it is made.  Takes memory for the
 * time of the call, for tables, but none for blocks or scratch. */
rondo_status_t rondo_plan_memory(rondo_comm_t comm, rondo_layout_t layout,
                                 const rondo_attention_desc_t *desc,
                                 const rondo_plan_options_t *options, rondo_plan_memory_t *memory);

/* Fits the plan to the next batch: `tokens` in all, 1 or more and at most those of the layout it was made
 * with, and documents [cu_seqlens[d], cu_seqlens[d + 1]), at most its max_documents (NULL and 0: one),
 * dealt out as that layout deals.  From now on n is rondo_layout_tokens of a layout that says so.  Local and
 * quick: nothing is allocated, nobody is asked; all ranks bind the same before they start, and ranks that
 * did not are told by RONDO_ERR_MISMATCH from rondo_wait, which fails the communicator.  RONDO_ERR_BUSY
 * while a request of the plan is under way. */
rondo_status_t rondo_plan_bind(rondo_plan_t plan, int64_t tokens, const int64_t *cu_seqlens,
                               int documents);

/* The same to what a layout says, its padding among it, and a second one for keys when the plan was made
 * with a kv_layout (else NULL).  They are copied, and must deal as those that the plan was made with. */
rondo_status_t rondo_plan_bind_layout(rondo_plan_t plan, rondo_layout_t layout, rondo_layout_t kv_layout);

/* Starts one forward or backward and returns at once.  A start is under way until test or wait takes its
 * request.  Of one plan, forward and backward together, max_in_flight may be under way; of all plans of
 * the communicator together, as many as the plan with the largest max_in_flight allows, since they share
 * that memory.  One more is RONDO_ERR_BUSY: nothing is changed, and it may be tried again after a request
 * was taken.  Also BUSY is a start whose messages would have the numbers of a start of
 * the same plan, 4096 starts ago, that is still under way.  All ranks start the same calls of one plan in
 * the same order.  Starts of different plans may be in different order on different ranks, as far as
 * max_in_flight lets all of them be under way together: with 1, the default, starts of all plans of a
 * communicator are in one order on all ranks.  stream is handed to the kernel (CPU: NULL).  With RONDO_VERIFY=1 the first start of each pass
 * is collective and blocks until all ranks have come. */
rondo_status_t rondo_attention_forward(rondo_plan_t plan, const rondo_attention_fwd_t *tensors,
                                       void *stream, rondo_request_t *request);
rondo_status_t rondo_attention_backward(rondo_plan_t plan, const rondo_attention_bwd_t *tensors,
                                        void *stream, rondo_request_t *request);

/* The plan in words: layout, schedules as text, kernel, transport.  Writes at most `bytes` with the
 * final NUL and sets *needed (may be NULL) to the full size. */
rondo_status_t rondo_plan_describe(rondo_plan_t plan, char *text, size_t bytes, size_t *needed);
rondo_status_t rondo_plan_stats(rondo_plan_t plan, rondo_plan_stats_t *stats);
/* "q", "k" .. "dv" for RONDO_TENSOR_Q .. RONDO_TENSOR_DV; "unknown" for any other number.  Static storage;
 * any thread. */
const char *rondo_tensor_name(int tensor);

/* Local.  A request that is still under way is cancelled, which fails the communicator: the others may
 * wait for it.  Its handle is invalid afterwards.  NULL is a no-op. */
void rondo_plan_destroy(rondo_plan_t plan);

/* What a backward needs of its forward, in one handle: a convenience.  o and lse are memory of the handle;
 * q, k and v stay the caller's and are only remembered.  All calls are local, allocate and free in the
 * calling thread alone, and may be made in any thread; one handle in one thread at a time.
 *
 * create: before the forward.  tensors has q, k and v; o and lse are set, zeroed, shapes as above (NULL on
 * a rank without tokens), and tokens to the length that the plan is bound to.  The handle outlives plan and request, but not a forward that is under way. */
rondo_status_t rondo_saved_create(rondo_plan_t plan, rondo_attention_fwd_t *tensors,
                                  rondo_saved_t *saved);

/* Before the backward: sets q, k, v, o, lse and tokens of tensors; d_o, dq, dk and dv are left alone. */
rondo_status_t rondo_saved_restore(rondo_saved_t saved, rondo_attention_bwd_t *tensors);

/* The handle's memory, NULL of a NULL handle; the caller may read and write it, to offload it for one. */
void *rondo_saved_o(rondo_saved_t saved);
float *rondo_saved_lse(rondo_saved_t saved);

/* NULL is a no-op. */
void rondo_saved_destroy(rondo_saved_t saved);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
