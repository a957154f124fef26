/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_PLAN_H
#define RI_PLAN_H

#include <rondo/attention.h>
#include <rondo/kernel.h>

#include "engine/engine.h"
#include "layout/sight.h"
#include "plan/choose.h"
#include "plan/pool.h"
#include "schedule/schedule.h"
#include "transport/transport.h"

/* Binds a schedule, a layout, a kernel and a transport.  A plan knows no communicator: it is told its
 * place in the group. */
struct ri_place {
    int rank, ranks;
    const int32_t *host; /* [ranks]; outlives the plan, as the topology */
    struct ri_transport *transport;
    int (*poll)(void *poller); /* for kernels: moves messages during a call; other than 0 ends it; may be NULL */
    void *poller;
    const struct ri_topo *topo; /* for the plan's text; NULL: unknown */
};

/* Numbers one message for both ends: which plan, which run of it, which message between two ranks.
 * All plain collectives are one plan of their own; attention plans stay below it. */
#define RI_TAG_COLLECTIVES 0xffffu
enum { RI_TAG_MESSAGE_BITS = 20, RI_TAG_MESSAGES = 1 << RI_TAG_MESSAGE_BITS };
uint64_t ri_message_tag(uint32_t plan, uint32_t run, uint32_t message);

/* ---- the passes and the tensors of attention (tensors.c) ---- */

extern const char *const ri_pass_names[RI_PASSES];

/* Queries and what is made of them; keys, values and their gradients.  Each side has tokens of its own. */
enum ri_side { RI_QUERIES, RI_KEYS, RI_SIDES };
enum ri_side ri_bundle_side(enum ri_bundle bundle);

enum ri_tensor {
    RI_T_Q, RI_T_K, RI_T_V, RI_T_O, RI_T_LSE, RI_T_D_O, RI_T_DELTA, RI_T_DQ, RI_T_DK, RI_T_DV, RI_TENSORS
};

/* The shape of one tensor of a block of n tokens: [batch][n][heads][dim], or, head_major,
 * [batch][heads][n]. */
struct ri_shape {
    int heads, dim, head_major;
};

struct ri_shape ri_tensor_shape(const rondo_attention_desc_t *desc, enum ri_tensor tensor);
size_t ri_tensor_elements(const rondo_attention_desc_t *desc, enum ri_tensor tensor, int64_t tokens);
enum ri_side ri_tensor_side(enum ri_tensor tensor);
/* Does the pass add it up?  Then it is fp32 until the caller gets it. */
int ri_tensor_is_sum(enum ri_pass_kind kind, enum ri_tensor tensor);
/* As the caller has it. */
rondo_dtype_t ri_tensor_type(const rondo_attention_desc_t *desc, enum ri_tensor tensor);
/* As it lies in a run's slots, the caller's included: what is read as the caller has it, sums in fp32. */
rondo_dtype_t ri_lying_type(const rondo_attention_desc_t *desc, enum ri_pass_kind kind, enum ri_tensor tensor);
size_t ri_tensor_bytes(const rondo_attention_desc_t *desc, enum ri_tensor tensor, int64_t tokens);
rondo_tensor_t ri_tensor_view(const rondo_attention_desc_t *desc, enum ri_tensor tensor, void *data,
                              int64_t tokens);

/* The tensors of a bundle in the order in which they are sent; ends with RI_TENSORS.  needs_o: the
 * kernel's backward takes O in place of delta. */
const enum ri_tensor *ri_bundle_tensors(enum ri_pass_kind kind, enum ri_bundle bundle, int needs_o);

/* ---- a pass of a plan: what all its runs have in common, made once (pass.c) ---- */

/* A piece of work of one COMPUTE step: tiles[first_tile .. first_tile + tile_count), whose tokens are
 * counted from the first that the operands name. */
struct ri_piece {
    uint32_t first_tile, tile_count;
    uint16_t q_block, k_block; /* which of the blocks of the query and the key operand */
    int64_t pairs;
};

/* What a message is beside a tensor: a stamp. */
enum { RI_STAMP = RI_TENSORS };

/* One message of a transfer step: a tensor of a block that moves, or a chunk of it, or a stamp.  With the
 * first transfer to a peer, and the first from it, both tell each other what they have bound, so that
 * different lengths are an error that says so, on either side. */
struct ri_message {
    uint32_t number; /* counted between two ranks in one direction: equal at both ends */
    uint32_t chunk;  /* which of the block, see chunks.h */
    uint16_t block;  /* which of the operand's blocks */
    uint8_t tensor;  /* enum ri_tensor, or RI_STAMP */
    uint8_t send;
};

/* The numbers of stamps: of the side that sends first in this direction, and the answer to it. */
enum { RI_NUMBER_STAMP, RI_NUMBER_ANSWER, RI_NUMBER_FIRST };

struct ri_stamp {
    uint64_t magic;
    int64_t tokens;     /* of the bound layout */
    uint64_t hash;      /* of all that was bound */
    int32_t kind, plan; /* enum ri_pass_kind, number of the plan */
    uint64_t seed;      /* of this start's dropout; 0 without */
    uint64_t sinks;     /* a hash of this start's; 0: none are given, as where no tokens are held */
};

struct ri_plan;

struct ri_pass {
    const struct ri_plan *plan;
    enum ri_pass_kind kind;
    struct ri_schedule *schedule; /* NULL: the plan has no such pass */
    uint8_t *in_place;            /* [slot_count] a view that is only ever read in place: no memory */
    uint8_t *moved;               /* [slot_count] some transfer sends it or receives it */
    size_t slots_bytes;           /* what our own slots of one run need, and delta */
    uint32_t tile_room;           /* tiles and pieces that there is memory for */
    rondo_tile_t *tiles;          /* of all COMPUTE steps, cut to pieces */
    struct ri_piece *work;        /* pieces of step s: work[first_piece[s]] .. */
    uint32_t *first_piece;        /* [step_count + 1] */
    uint32_t *pieces;             /* [step_count] */
    struct ri_message *messages;  /* of step s: messages[first_message[s]] .. */
    uint32_t *first_message;      /* [step_count + 1] */
    /* Chunks and what needs them, as the engine takes them; chunks of the longest layout, of which the last
     * are empty when less is bound. */
    uint32_t chunks[RI_BUNDLES], most_chunks[RI_BUNDLES]; /* of the largest block, now and at most */
    uint32_t chunked;             /* bit b: some transfer of bundle b may be in chunks */
    uint32_t *first_chunk;        /* [step_count + 1] */
    uint32_t *chunk_end;
    const uint32_t **need;        /* [dep_count] NULL: not refined; else in needs */
    uint32_t *needs;
    size_t *first_need;           /* [dep_count] */
    size_t need_room;
};

/* ---- a run of a pass: one start, from its first message to its last step (run.c) ---- */

struct ri_run {
    const struct ri_pass *pass;
    struct ri_engine *engine;
    struct ri_program program;
    struct ri_arena *arena;     /* memory of our own slots, from the start until the request is taken;
                                 * NULL: not under way */
    void *(*home)[RI_TENSORS];  /* [slot_count] memory of our own slots; NULL: only ever read in place */
    void *(*slots)[RI_TENSORS]; /* [slot_count] where each tensor of a slot lies now */
    struct ri_reference (*references)[RI_TENSORS]; /* [slot_count] by which it lies there */
    void *(*shadows)[RI_TENSORS]; /* [slot_count] copies in the type that travels; NULL: it travels as it lies */
    float *delta;               /* [batch][q_heads][n], or NULL when the kernel needs o; in the arena */
    struct ri_xfer *xfers;      /* beside pass->messages */
    struct ri_stamp stamp;      /* ours, of this start */
    struct ri_stamp *stamps;    /* [2][ranks] that came from each rank; the answers second */
    uint32_t number;            /* which start of the pass this is */
    void *stream;               /* of this start, for the kernel */
    uint64_t seed;              /* likewise; of dropout */
    float *sums[RI_TENSORS];    /* in the arena, where the caller's outputs are rounded from; NULL: they are not */
    void *outputs[RI_TENSORS];  /* the caller's memory for them */
    float *o, *lse;             /* of a forward: where they end, [batch][n][q_heads][v_dim], [batch][q_heads][n] */
    const float *sinks;         /* [q_heads] the caller's; NULL: none, or no tokens */
    uint64_t pairs;             /* given to the kernel so far, over all starts */
};

struct ri_plan {
    struct ri_place place;
    uint32_t number;                 /* tells messages of plans apart */
    /* Own copies, of the batch that is bound; and as large, to try another batch in.  Both sides have the same
     * where is_cross is 0. */
    struct rondo_layout *layout[RI_SIDES], *spare[RI_SIDES];
    int is_cross;                    /* keys have a layout that the caller gave them */
    struct ri_sight sight;           /* of both */
    rondo_tile_t *seen;              /* [seen_room] tiles of a block pair, while they are cut */
    int64_t seen_room;
    rondo_attention_desc_t desc;     /* defaults filled in */
    struct ri_choice choice;
    rondo_kernel_t kernel;
    rondo_kernel_shape_t shape;
    int64_t max_tokens[RI_SIDES];    /* of the largest shard that may be bound */
    int64_t largest[RI_SIDES];       /* tokens of the largest shard of layout */
    struct ri_pass pass[RI_PASSES];
    int reserved;                    /* messages of the transport, for max_in_flight starts */
    struct ri_pool *pool;            /* the communicator's; NULL: made to be measured only */
    int max_in_flight;               /* starts of both passes together */
    struct ri_run *runs[RI_PASSES];  /* [max_in_flight] of the pass of the same index */
    uint32_t starts[RI_PASSES];      /* so far: numbers the runs of a pass, equal on all ranks */
    uint64_t calls[RI_PASSES];       /* completed */
};

/* What a plan is made of.  Borrowed for the call and copied, but sight is taken over, and place.host and pool
 * outlive the plan. */
struct ri_plan_params {
    struct ri_place place;
    uint32_t number;
    struct ri_sight *sight;             /* of layouts that are copied; taken over, and empty then */
    const rondo_attention_desc_t *desc; /* valid, defaults filled in; kv_layout NULL: both sides have one layout */
    const struct ri_choice *choice;
    const rondo_kernel_t *kernel;
    int max_in_flight;                  /* 1 or more */
    int threads;                        /* of the kernel; 1 or more */
    struct ri_pool *pool;               /* NULL: to be measured only, has no runs */
};

/* Local.  Grows the pool, but ri_plan_admit must follow before the first start. */
int ri_plan_create(const struct ri_plan_params *params, struct ri_plan **plan);
/* All ranks have made theirs. */
void ri_plan_admit(struct ri_plan *plan);
/* Runs under way are cancelled. */
void ri_plan_destroy(struct ri_plan *plan);

/* One start: take a run, start it, give it back when its request is taken, or when it could not start.
 * Take: RONDO_ERR_BUSY when max_in_flight, of the plan or of the communicator, are under way; nothing is
 * changed then. */
int ri_plan_take(struct ri_plan *plan, enum ri_pass_kind kind, struct ri_run **run);
int ri_plan_start_forward(struct ri_run *run, const rondo_attention_fwd_t *tensors, void *stream);
int ri_plan_start_backward(struct ri_run *run, const rondo_attention_bwd_t *tensors, void *stream);
void ri_plan_give(struct ri_run *run);

/* What it needs; also of a plan that was made to be measured only. */
void ri_plan_memory(const struct ri_plan *plan, rondo_plan_memory_t *memory);

/* bind.c: fits the plan to a batch, of no more tokens and documents than its layouts were made for.  Allocates
 * nothing.  Only while no run of the plan is under way.  After a failure the plan is as it was. */
struct ri_batch {
    int64_t tokens;
    const int64_t *cu_seqlens; /* NULL: not packed */
    int documents;
    const int64_t *lengths;
    const struct rondo_layout *like; /* what deals it out must say the same as this; NULL: anything */
};
int ri_plan_bind(struct ri_plan *plan, const struct ri_batch batch[RI_SIDES]);
int ri_plan_is_busy(const struct ri_plan *plan);

/* The plan has a pool. */
void ri_plan_stats(const struct ri_plan *plan, rondo_plan_stats_t *stats);

/* The plan in words; malloc'd, NULL when out of memory. */
char *ri_plan_text(const struct ri_plan *plan);

/* ---- between the files of this folder ---- */

/* parts.c: tokens [first, first + count) of a block lie in a slot from token `at` on; each of the slot's
 * rows (of a batch row, or a head of it) has `row` tokens. */
struct ri_region {
    int64_t first, count, at, row;
};

/* Token part t of any block is tokens [t * p, (t + 1) * p), cut off at the end of the block, where
 * p = largest / token_parts, rounded up, and largest is the longest shard.  So parts of blocks of
 * different lengths lie side by side in one slot; the last ones may be short, or empty. */
int64_t ri_part_tokens(int64_t largest, int token_parts);
/* Tokens that one of our own slots has room for. */
int64_t ri_slot_tokens(const struct ri_schedule *s, uint32_t slot, int64_t largest);
/* Of an operand of one block.  Slots of the caller, and all slots of a schedule that cuts no tokens, are
 * packed; others have rows of the same length for every block. */
struct ri_region ri_operand_region(const struct ri_plan *plan, const struct ri_schedule *s,
                                   const struct ri_operand *operand);
/* Block i of an operand's blocks alone. */
struct ri_operand ri_operand_block(const struct ri_operand *operand, int i);
/* data: the slot's tensor, or NULL, which stays NULL. */
rondo_tensor_t ri_region_view(const struct ri_pass *pass, enum ri_tensor tensor, void *data,
                              const struct ri_region *region);

/* The same as runs of bytes: one for each batch row, or for each head of it; none when it is empty. */
struct ri_rows {
    char *base;
    size_t rows, row_bytes, row_stride;
};
struct ri_rows ri_region_rows(const rondo_attention_desc_t *desc, enum ri_tensor tensor, rondo_dtype_t type,
                              void *data, const struct ri_region *region);
/* RONDO_ERR_UNSUPPORTED when a plan cannot lay out what the schedule names. */
int ri_parts_check(const struct ri_schedule *s);

/* pass.c.  After a failure: release. */
int ri_pass_init(struct ri_pass *pass, const struct ri_plan *plan, enum ri_pass_kind kind);
void ri_pass_release(struct ri_pass *pass);
/* memory.c: what a plan needs of the pool, and how many messages its runs may have under way at once. */
struct ri_need ri_plan_need(const struct ri_plan *plan);
int ri_plan_messages(const struct ri_plan *plan);

int64_t ri_block_tokens(const struct ri_plan *plan, const struct ri_schedule *schedule, enum ri_side side,
                        int32_t block);
const enum ri_tensor *ri_pass_tensors(const struct ri_pass *pass, enum ri_bundle bundle);
rondo_dtype_t ri_pass_type(const struct ri_pass *pass, enum ri_tensor tensor);
/* A sum that the caller wants in another type: it lies in memory of our own, and is rounded at the end. */
int ri_pass_rounds(const struct ri_pass *pass, enum ri_tensor tensor);

/* pieces.c.  init allocates for every length that may be bound, and lists; list allocates nothing. */
int ri_pieces_init(struct ri_pass *pass);
int ri_pieces_list(struct ri_pass *pass);

/* run.c.  After a failure: release. */
int ri_run_init(struct ri_run *run, const struct ri_pass *pass);
void ri_run_release(struct ri_run *run);
/* The caller's memory for a tensor, in every slot of the caller's that holds it. */
void ri_run_bind(struct ri_run *run, enum ri_tensor tensor, const void *data);
int ri_run_start(struct ri_run *run, void *stream);
/* Walks our own slots and their tensors, and says how many bytes they need.  run NULL: only measures. */
size_t ri_run_place(const struct ri_pass *pass, struct ri_run *run, char *memory);
/* Of the number-th start's messages: the message number is 0. */
uint64_t ri_run_tag(const struct ri_pass *pass, uint32_t number);

/* Says where message m of a step lies, by run->slots. */
void ri_run_place_message(struct ri_run *run, uint32_t step, uint32_t m);

/* wire.c: types in which tensors travel.  A tensor that lies in another has a copy of its slot, its shadow, from
 * which messages are sent and to which they come.  What is true of the slot is true of it: it is free when the
 * slot is. */
uint32_t ri_wire_bundles(const struct ri_wire *wire, const rondo_attention_desc_t *desc, enum ri_pass_kind kind,
                         int needs_o); /* bit b: some tensor of bundle b travels in another type */
rondo_dtype_t ri_wire_type(const struct ri_wire *wire, const rondo_attention_desc_t *desc, enum ri_pass_kind kind,
                           enum ri_tensor tensor);
rondo_dtype_t ri_pass_wire(const struct ri_pass *pass, enum ri_tensor tensor);
int ri_pass_narrows(const struct ri_pass *pass, enum ri_tensor tensor);
/* Fills the shadows of what the caller gives to be read, once: it may be sent many times.  What comes and is read
 * is passed on from its shadow, so that it loses no more. */
void ri_wire_start(struct ri_run *run);
void ri_wire_shade(struct ri_run *run, int32_t slot, enum ri_tensor tensor, const struct ri_region *region);
/* Sums are converted chunk by chunk, as the engine says. */
int ri_wire_leaving(void *owner, uint32_t step, uint32_t first, uint32_t end);
void ri_wire_arrived(struct ri_run *run, uint32_t step, uint32_t first, uint32_t end);

/* caller.c: after a good end of the run, brings the caller's outputs to their final form. */
void ri_run_finish(struct ri_run *run);

/* in_place.c.  Before a run; before a transfer is posted; after its messages. */
void ri_in_place_start(struct ri_run *run);
void ri_in_place_prepare(struct ri_run *run, uint32_t step);
void ri_in_place_arrived(struct ri_run *run, uint32_t step, uint32_t first, uint32_t end);

/* bind.c.  What the engine calls before a transfer, and after it, or after a failed one; owner is the run. */
int ri_run_prepare(void *owner, uint32_t step);
struct ri_stamp ri_stamp_of(const struct ri_run *run);
/* RONDO_ERR_MISMATCH when the peer bound something else, or was given something else. */
int ri_stamp_check(const struct ri_run *run, const struct ri_stamp *theirs, int peer);
int ri_run_arrived(void *owner, uint32_t step, uint32_t first, uint32_t end);

/* work.c: what the engine calls for a step that works; owner is the run. */
int ri_run_work(void *owner, uint32_t step, uint32_t piece);

#endif
