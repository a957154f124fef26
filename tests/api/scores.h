/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SCORES_H
#define TEST_SCORES_H

#include <stdatomic.h>

#include "tests/api/features.h"
#include "tests/api/shard.h"

/* Plans with soft-cap, dropout and sinks against plain loops over the whole sequence, as tests of each run them. */

enum { SCORES_RANKS = 4, SCORES_HEADS = 4 };

struct scores {
    struct meeting meeting;
    struct problem problem;
    struct features features; /* sinks: the plan has some */
    rondo_layout_kind_t kind;
    rondo_plan_options_t options;
    int ranks_per_host;       /* 0: all on one */
    int own_seeds;            /* ranks have seeds of their own, in place of that of features */
    uint64_t seeds[SCORES_RANKS];
    float sinks[SCORES_RANKS][SCORES_HEADS], d_sinks[SCORES_RANKS][SCORES_HEADS]; /* of each rank */
    double want[SCORES_HEADS]; /* the gradient of the sinks */
    atomic_int planned;        /* ranks that are through with what comes before a failure */
};

/* In memory that ranks share, with the plain kernel of features.h; after it the caller releases the problem. */
struct scores *scores_of(int causal, int64_t tokens);
/* The same sinks on all ranks: one of no weight, one of little, one like a score, one that takes nearly all. */
void scores_give_sinks(struct scores *t);

/* A rank of it, inside a body of run_ranks. */
struct scores_rank {
    struct scores *test;
    int rank;
    rondo_comm_t comm;
    rondo_layout_t layout;
    rondo_attention_desc_t desc;
    rondo_plan_t plan;
    struct shard shard;
};

/* All but the plan. */
void scores_enter(struct scores_rank *r, struct scores *t, int rank, int ranks);
/* The faults. */
int scores_plan(struct scores_rank *r);
void scores_leave(struct scores_rank *r);
rondo_attention_fwd_t scores_forward_tensors(const struct scores_rank *r);
rondo_attention_bwd_t scores_backward_tensors(const struct scores_rank *r);
int scores_both(const struct scores_rank *r);

/* run_ranks, once the ranks have met nowhere. */
int scores_ranks(struct scores *t, int ranks, int (*body)(int rank, int ranks, void *arg));
/* All schedules, backwards and layouts on up to SCORES_RANKS ranks give what features_solve does: cmocka's assertions,
 * in the thread of the test. */
void scores_run_everywhere(struct scores *t);

#endif
