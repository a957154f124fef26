/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SCHEDULE_CHECK_H
#define RI_SCHEDULE_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "schedule/internal.h"

/* Shared by the files check*.c only.  Each function returns 0, or a negative status whose text
 * (rondo_last_error) names rank and step. */

/* What one part's room of a slot holds.  Its contributions are a set, see ri_checker.words. */
struct ri_held {
    int32_t block, part; /* -1: the caller's, not yet named by a reader */
    int32_t writer;      /* last step that wrote it; -1: none */
    uint8_t full;
    int64_t origin; /* read-only content: (rank << 32) + step of its publication */
};

/* Where a view lies that was bound. */
struct ri_bound {
    int32_t by; /* the RECV that bound it; -1: it lies in this rank's memory */
    int32_t holder;
    uint32_t place, version; /* of the holder, and which of its contents */
};

/* One rank under way. */
struct ri_check_rank {
    const struct ri_schedule *s;
    uint32_t *mate;                 /* [steps] of a transfer: the step of the peer that it meets */
    uint32_t *first;                /* see ri_places_create */
    struct ri_held *held;           /* [places] */
    uint64_t *sets;                 /* [places][words] */
    uint64_t *seen;                 /* [words] ranks whose X came here */
    uint8_t *launched, *met, *done; /* [steps] */
    struct ri_bound *bound;         /* [places] */
    uint32_t *readers;              /* [places] how many ranks read this memory in place */
    uint32_t *version;              /* [places] counts the writes into this memory */
    uint32_t *reads;                /* [steps] of a bound RECV: itself and reads that are not done */
    uint32_t *order;                /* transfers by stream, in it by turn */
    uint32_t next[RI_LANES], end[RI_LANES]; /* per stream: what of order is left */
    uint32_t next_work;                     /* next step that is no transfer */
};

struct ri_checker {
    struct ri_check_rank *rank; /* [ranks] */
    int ranks, parts, token_parts, head_parts, blocks;
    enum ri_goal goal;
    ri_live *live;
    void *context;
    /* A set has a bit per contribution: of a query side, key block * token_parts + key run; of a
     * key side the same of queries; of R and X, the rank it is from. */
    size_t words;
    uint64_t *computed; /* bit per query part and key run, attention only */
    int binding; /* the model that runs: bind bits are obeyed, else ignored */
    struct ri_check *check;
};

static inline uint64_t *ri_held_set(const struct ri_checker *c, const struct ri_check_rank *r,
                                    uint32_t place)
{
    return r->sets + (size_t)place * c->words;
}

/* check_pairs.c: both ends of a transfer agree; a pair's k-th send meets its k-th receive. */
int ri_check_pairs(struct ri_checker *c);
/* check_order.c: any two steps of a rank that touch one place, not both reading, are connected by
 * dependencies; and the turn rule. */
int ri_check_order(const struct ri_schedule *s);
/* check_run.c: runs all ranks; one_stream: whole turns in order, else each lane on its own. */
int ri_check_run(struct ri_checker *c, int one_stream);
/* check_bind.c: the binding model.  A run starts; a step begins (a RECV is launched), a bound
 * transfer meets, a step is done.  may_write: nobody reads what the step writes. */
void ri_check_bind_start(struct ri_check_rank *r);
int ri_check_may_write(const struct ri_check_rank *r, uint32_t step);
int ri_check_bind_begin(struct ri_checker *c, struct ri_check_rank *r, uint32_t step);
int ri_check_bind_meet(struct ri_checker *c, struct ri_check_rank *sender, uint32_t send,
                       struct ri_check_rank *receiver, uint32_t recv);
int ri_check_bind_end(struct ri_checker *c, struct ri_check_rank *r, uint32_t step);
int ri_check_bind_goal(const struct ri_checker *c);
/* check_move.c: what a step does to what is held. */
int ri_check_work(struct ri_checker *c, struct ri_check_rank *r, uint32_t step);
int ri_check_transfer(struct ri_checker *c, struct ri_check_rank *sender, uint32_t send,
                      struct ri_check_rank *receiver, uint32_t recv);
/* check_goal.c: what must hold when all is done. */
int ri_check_goal(struct ri_checker *c);

#endif
