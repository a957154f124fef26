/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_PLAN_H
#define RI_PLAN_H

#include <rondo/attention.h>
#include <rondo/kernel.h>

#include "engine/engine.h"
#include "layout/layout.h"
#include "schedule/schedule.h"
#include "transport/transport.h"

/* Binds a schedule, a layout, a kernel and a transport.  A plan knows no communicator: it is told its
 * place in the group. */
struct ri_place {
    int rank, ranks;
    const int32_t *host; /* [ranks]; outlives the plan */
    struct ri_transport *transport;
};

/* Numbers one message for both ends: which plan, which run of it, which message between two ranks.
 * All plain collectives are one plan of their own; attention plans stay below it. */
#define RI_TAG_COLLECTIVES 0xffffu
uint64_t ri_message_tag(uint32_t plan, uint32_t run, uint32_t message);

/* ---- the tensors of attention (tensors.c) ---- */

enum ri_tensor {
    RI_T_Q, RI_T_K, RI_T_V, RI_T_O, RI_T_LSE, RI_T_D_O, RI_T_DELTA, RI_T_DQ, RI_T_DK, RI_T_DV, RI_TENSORS
};

enum ri_pass_kind { RI_FORWARD, RI_BACKWARD, RI_PASSES };

/* The shape of one tensor of a block of n tokens: [batch][n][heads][dim], or, head_major,
 * [batch][heads][n].  fp32 elements. */
struct ri_shape {
    int heads, dim, head_major;
};

struct ri_shape ri_tensor_shape(const rondo_attention_desc_t *desc, enum ri_tensor tensor);
size_t ri_tensor_bytes(const rondo_attention_desc_t *desc, enum ri_tensor tensor, int64_t tokens);
rondo_tensor_t ri_tensor_view(const rondo_attention_desc_t *desc, enum ri_tensor tensor, void *data,
                              int64_t tokens);

/* The tensors of a bundle in the order in which they are sent; ends with RI_TENSORS. */
const enum ri_tensor *ri_bundle_tensors(enum ri_pass_kind kind, enum ri_bundle bundle);

/* ---- a pass of a plan: what all its runs have in common, made once (pass.c) ---- */

/* A piece of work of one COMPUTE step: tiles[first_tile .. first_tile + tile_count). */
struct ri_piece {
    uint32_t first_tile, tile_count;
    int64_t pairs;
};

/* One message of a transfer step: a tensor of the block that moves. */
struct ri_message {
    uint32_t number; /* counted between two ranks in one direction: equal at both ends */
    uint8_t tensor;  /* enum ri_tensor */
};

struct ri_plan;

struct ri_pass {
    const struct ri_plan *plan;
    enum ri_pass_kind kind;
    struct ri_schedule *schedule; /* NULL: the plan has no such pass */
    size_t slots_bytes;           /* what our own slots of one run need */
    rondo_tile_t *tiles;          /* of all COMPUTE steps, cut to pieces */
    struct ri_piece *work;        /* pieces of step s: work[first_piece[s]] .. */
    uint32_t *first_piece;        /* [step_count + 1] */
    uint32_t *pieces;             /* [step_count] */
    struct ri_message *messages;  /* of step s: messages[first_message[s]] .. */
    uint32_t *first_message;      /* [step_count + 1] */
};

/* ---- a run of a pass: one start, from its first message to its last step (run.c) ---- */

struct ri_run {
    const struct ri_pass *pass;
    struct ri_engine *engine;
    struct ri_program program;
    void *(*slots)[RI_TENSORS]; /* [slot_count] where each tensor of a slot lies */
    char *memory;               /* of our own slots */
    struct ri_xfer *xfers;      /* beside pass->messages */
    void *stream;               /* of this start, for the kernel */
    uint64_t pairs;             /* given to the kernel so far, over all starts */
};

struct ri_plan {
    struct ri_place place;
    uint32_t number;                 /* tells messages of plans apart */
    struct rondo_layout layout;
    rondo_attention_desc_t desc;     /* defaults filled in */
    rondo_kernel_t kernel;
    rondo_kernel_shape_t shape;
    int64_t max_tokens;              /* of the largest shard */
    struct ri_pass pass[RI_PASSES];
    struct ri_run run[RI_PASSES];    /* of the pass of the same index */
    uint32_t starts[RI_PASSES];      /* so far: numbers the runs of a pass, equal on all ranks */
    void *workspace;                 /* the kernel's */
    float *delta;                    /* [batch][q_heads][n], or NULL when the kernel needs o */
    float *partial_o, *partial_lse;  /* of one tile, for kernels that do not merge */
    uint64_t calls[RI_PASSES];       /* completed */
};

/* Which builders a plan uses; texts as in rondo_plan_options_t. */
struct ri_choice {
    ri_builder *build[RI_PASSES]; /* NULL: no backward */
    const char *name[RI_PASSES];
    int id[RI_PASSES];            /* equal numbers are equal schemes, for comparing ranks */
};

/* Names -> builders.  A name nobody knows is RONDO_ERR_ARGUMENT, one that is not built yet
 * RONDO_ERR_UNSUPPORTED; both say which exist. */
int ri_plan_choose(const char *schedule, const char *backward, struct ri_choice *choice);

/* 64 bits over rank 0's schedules of both passes.  Every rank builds them, and all must come out alike:
 * then builders, hosts and order are the same everywhere. */
int ri_plan_hash(const struct ri_choice *choice, int ranks, const int32_t *host, int64_t *hash);

/* Local.  desc has its defaults filled in and is valid; kernel is copied. */
int ri_plan_create(const struct ri_place *place, uint32_t number, const struct rondo_layout *layout,
                   const rondo_attention_desc_t *desc, const struct ri_choice *choice,
                   const rondo_kernel_t *kernel, struct ri_plan **plan);
void ri_plan_destroy(struct ri_plan *plan);

/* Binds the caller's tensors and starts a run of the pass.  *run is set once it is known which run this
 * is, also when it fails then. */
int ri_plan_start_forward(struct ri_plan *plan, const rondo_attention_fwd_t *tensors, void *stream,
                          struct ri_run **run);
int ri_plan_start_backward(struct ri_plan *plan, const rondo_attention_bwd_t *tensors, void *stream,
                           struct ri_run **run);

void ri_plan_stats(const struct ri_plan *plan, rondo_plan_stats_t *stats);

/* The plan in words; malloc'd, NULL when out of memory. */
char *ri_plan_text(const struct ri_plan *plan);

/* ---- between the files of this folder ---- */

/* pass.c.  After a failure: release. */
int ri_pass_init(struct ri_pass *pass, const struct ri_plan *plan, enum ri_pass_kind kind,
                 ri_builder *build);
void ri_pass_release(struct ri_pass *pass);
int64_t ri_block_tokens(const struct ri_plan *plan, const struct ri_schedule *schedule, int32_t block);

/* run.c.  After a failure: release. */
int ri_run_init(struct ri_run *run, const struct ri_pass *pass);
void ri_run_release(struct ri_run *run);
/* The caller's memory for a tensor, in every slot of the caller's that holds it. */
void ri_run_bind(struct ri_run *run, enum ri_tensor tensor, const void *data);
/* number: which start of the pass this is. */
int ri_run_start(struct ri_run *run, uint32_t number, void *stream);
/* Walks our own slots and their tensors, and says how many bytes they need.  run NULL: only measures. */
size_t ri_run_place(const struct ri_pass *pass, struct ri_run *run, char *memory);

/* work.c: what the engine calls for a step that works; owner is the run. */
int ri_run_work(void *owner, uint32_t step, uint32_t piece);

#endif
