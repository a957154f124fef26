/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SCHEDULE_H
#define RI_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

/* A schedule: one scheme written out for one rank, as steps over numbered slots.  It knows ranks of
 * a group, slots and order; never bytes, addresses, tokens, masks, devices or transports. */

enum ri_op { RI_COMPUTE, RI_SEND, RI_RECV, RI_COPY, RI_MERGE };
enum ri_lane { RI_LANE_LOCAL, RI_LANE_HOST, RI_LANES };
enum ri_merge { RI_MERGE_SUM, RI_MERGE_LSE };
enum ri_slot_kind { RI_IN, RI_OUT, RI_SAVED, RI_VIEW, RI_OWN };

/* What travels together.  Q, K and X are read-only; O, DQ, DK and R are accumulated.  X and R are
 * the data of plain collectives. */
enum ri_bundle { RI_Q, RI_K, RI_X, RI_O, RI_DQ, RI_DK, RI_R, RI_BUNDLES };

struct ri_slot {
    uint8_t bundle, kind;
    uint16_t parts; /* room; part p lies at place p mod parts */
};

/* Parts first_part .. first_part+parts-1 of `blocks` consecutive blocks in as many consecutive
 * slots.  A block has head_parts * token_parts parts; part h*token_parts + t is head group h, token
 * run t. */
struct ri_operand {
    int32_t slot, block; /* slot < 0: no operand */
    uint16_t blocks, first_part, parts;
};

struct ri_step {
    /* bind: nothing is copied, the view that receives shows the memory of the rank that holds the
     * content.  A SEND and the RECV that it meets, on the local lane; read-only content. */
    uint8_t op, merge, lane, bind;
    int32_t peer, turn;        /* transfers only */
    struct ri_operand from[2]; /* COMPUTE: query, key; else from[0] */
    struct ri_operand to[2];   /* COMPUTE: side of the query, of the key; else to[0] */
    uint32_t first_dep, deps;  /* derived: deps[first_dep ..]: steps that must be done before */
    uint32_t stores;           /* derived: bit i: to[i] is empty before, so the write stores */
};

struct ri_schedule {
    const char *name; /* a copy, freed with the schedule */
    int32_t rank, ranks;
    int32_t head_parts, token_parts;
    int32_t blocks;        /* how many blocks there are; usually ranks */
    int32_t *owner;        /* [blocks] rank whose block it is */
    int32_t *host;         /* [ranks] host of each rank, for text and for lane(i, j) */
    struct ri_slot *slots; /* [slot_count] */
    struct ri_step *steps; /* [step_count] in program order */
    uint32_t *deps;        /* [dep_count] */
    uint32_t slot_count, step_count, dep_count, turns; /* turns: one past the largest */
    int error;     /* first error while building; ri_schedule_end returns it */
    void *builder; /* private to src/schedule */
};

/* A group: an ordered array of ranks that a builder runs over. */
struct ri_group {
    const int32_t *ranks; /* [size] */
    int32_t size, index;  /* our place: ranks[index] is this rank */
};

static inline int ri_step_moves(const struct ri_step *step)
{
    return step->op == RI_SEND || step->op == RI_RECV;
}

/* What a transfer moves. */
static inline const struct ri_operand *ri_step_moved(const struct ri_step *step)
{
    return step->op == RI_SEND ? &step->from[0] : &step->to[0];
}

/* Memory that the plan provides; the rest is the caller's, or kept from the forward. */
static inline int ri_slot_is_ours(const struct ri_slot *slot)
{
    return slot->kind == RI_OWN || slot->kind == RI_VIEW;
}

/* Words for texts, by enum; storage is static. */
extern const char *const ri_op_names[];
extern const char *const ri_bundle_names[];

/* ---- building (schedule.c): begin, slots and steps in the order one would tell them, end ---- */

/* host may be NULL: all ranks on one host.  owner[b] = b at first. */
int ri_schedule_begin(struct ri_schedule **schedule, const char *name, int rank, int ranks,
                      const int32_t *host);
int32_t ri_schedule_slot(struct ri_schedule *s, enum ri_bundle bundle, enum ri_slot_kind kind,
                         int parts);

extern const struct ri_operand ri_none;
/* The whole block. */
struct ri_operand ri_operand(const struct ri_schedule *s, int32_t slot, int32_t block);
struct ri_operand ri_operand_parts(int32_t slot, int32_t block, int first_part, int parts);

void ri_schedule_send(struct ri_schedule *s, struct ri_operand from, int peer, int turn);
void ri_schedule_recv(struct ri_schedule *s, struct ri_operand to, int peer, int turn);
void ri_schedule_compute(struct ri_schedule *s, struct ri_operand query, struct ri_operand key,
                         struct ri_operand query_side, struct ri_operand key_side);
void ri_schedule_copy(struct ri_schedule *s, struct ri_operand from, struct ri_operand to);
void ri_schedule_merge(struct ri_schedule *s, enum ri_merge merge, struct ri_operand from,
                       struct ri_operand to);

/* Derives dependencies and stores from slot hazards, drops unused slots, checks each step against
 * the rules that one rank can see.  On failure the schedule is destroyed and *schedule is NULL. */
int ri_schedule_end(struct ri_schedule **schedule);
void ri_schedule_destroy(struct ri_schedule *schedule);

static inline int ri_bundle_accumulates(enum ri_bundle bundle)
{
    return bundle >= RI_O;
}

/* ---- builders: complete schedules of one rank ---- */

/* What a builder is told.  Zero is the default of everything but ranks. */
struct ri_build {
    int rank, ranks;
    const int32_t *host; /* [ranks] host of each rank; NULL: all on one */
    const int32_t *order; /* [ranks] rings and two-level: the ranks as they stand in rings; NULL: by their numbers */
    int root;            /* broadcast only */
    int landing;         /* slots for blocks that arrive; 0: as many as keep no ring waiting.  Rings
                          * and direct: used in turn, 2 by default.  Two-level: 3 do where 4 are the
                          * default, but the local ring then waits for the host's */
    /* Two-level only. */
    int pieces;  /* pieces of a block that enter a host on ranks of their own; 0: 1 */
    int chunked; /* host transfers are cut over the local turns, else they have their own */
};

/* Every builder has this shape, so that checks and tests can run any of them for all ranks. */
typedef int ri_builder(struct ri_schedule **schedule, const struct ri_build *build);

/* Slot numbers 0.. of the caller's slots are fixed per builder, in the order named here. */
/* Forward: Q in, K in, O out; K travels.  Gradients: Q in, K in, DQ out, DK out; KV-grad: K travels
 * and DK follows, Q-grad: Q travels and DQ follows; the own contribution stays home. */
ri_builder ri_build_ring_forward, ri_build_ring_kv_grad, ri_build_ring_q_grad;
ri_builder ri_build_two_level_forward, ri_build_two_level_kv_grad, ri_build_two_level_q_grad;
ri_builder ri_build_direct_forward, ri_build_direct_kv_grad, ri_build_direct_q_grad;
/* R in, X out (the finished sum, published); `ranks` parts a block, block 0 is the vector.  Both
 * may be the same memory. */
ri_builder ri_build_all_reduce;
ri_builder ri_build_broadcast; /* the caller's X (root: in, others: out), block 0; binomial tree */
/* X in, `ranks` own slots: each rank's token, block r, reaches all ranks. */
ri_builder ri_build_barrier;

struct ri_builder_entry {
    const char *name;
    ri_builder *build;
};
extern const struct ri_builder_entry ri_builders[]; /* ends with a NULL name */

/* ---- bind.c: reading in place inside a host ---- */

/* Sets the bind bits of all ranks wherever the binding rule allows it, and clears the others.  All
 * ranks that do this find the same.  schedules[r] may be NULL for all ranks of a host; dependencies
 * are derived before.  RONDO_ERR_ARGUMENT when ends do not meet, RONDO_ERR_MEMORY. */
int ri_schedule_bind(struct ri_schedule *const *schedules, int ranks);
/* Blocks in parts are not read in place: a part of a holder's tensor is no run of bytes. */
static inline int ri_build_can_bind(const struct ri_build *build)
{
    return build->pieces <= 1 && !build->chunked;
}
/* True for a view that steps write by binding only: it needs no memory. */
int ri_slot_is_bound(const struct ri_schedule *schedule, int32_t slot);

/* ---- text.c, parse.c: one text for golden files, debugging and documentation ---- */

/* Returns a malloc'd string, or NULL when out of memory. */
char *ri_schedule_print(const struct ri_schedule *schedule);
/* Reads one schedule; "after" is derived again and must agree where it is written.  On a syntax
 * error RONDO_ERR_ARGUMENT names line and token.  *end (may be NULL) is where the text went on. */
int ri_schedule_parse(const char *text, struct ri_schedule **schedule, const char **end);
/* 64 bits over everything that both ends of a transfer must agree on, and all the rest. */
uint64_t ri_schedule_hash(const struct ri_schedule *schedule);

/* ---- check.c: proves all ranks at once, symbolically: as if all were copied, and bound ---- */

struct ri_check {
    char message[256]; /* the first fault, in words: rank, step, what and what was expected */
    int64_t computes, transfers, turns; /* what was seen */
};

/* What must hold at the end. */
enum ri_goal {
    RI_GOAL_ATTENTION,  /* every (query, key, head part) pair once; all sums complete at home */
    RI_GOAL_ALL_REDUCE, /* every part of R holds every rank's contribution, on every rank */
    RI_GOAL_BROADCAST,  /* every rank holds block 0 */
    RI_GOAL_BARRIER     /* every rank has seen a block of every rank */
};

/* Does anyone see anyone in this pair of parts (h * token_parts + t)?  A live pair must be computed
 * once; a dead one may be covered by an operand, once at most. */
typedef int ri_live(void *context, int query_block, int query_part, int key_block, int key_part);

/* schedules: [ranks], all ranks of one scheme.  0, or RONDO_ERR_MISMATCH with check->message. */
int ri_schedule_check(struct ri_schedule *const *schedules, int ranks, enum ri_goal goal,
                      struct ri_check *check);
/* The same with a mask, RI_GOAL_ATTENTION only; live NULL: every pair. */
int ri_schedule_check_live(struct ri_schedule *const *schedules, int ranks, enum ri_goal goal,
                           ri_live *live, void *context, struct ri_check *check);

#endif
