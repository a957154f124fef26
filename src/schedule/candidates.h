/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_CANDIDATES_H
#define RI_CANDIDATES_H

#include "schedule/simulate.h"

/* The attention schemes that could run on a machine, with what each would cost.  No rule by name
 * holds on every machine (on hosts of 4, 2 and 1 ranks the flat ring wins), so all are priced. */

enum {
    RI_MAX_CANDIDATES = 32,
    /* Of a larger machine a part of this many ranks at most is simulated: a host of each size,
     * then the others, each cut to half of these ranks.  Its times are scaled by what the busiest
     * rank of the whole machine works and moves over what that of the part does: within 10 % on
     * hosts of equal size, but 20 % for gradients of the direct exchange, whose messages
     * collide; rougher where a host's neighbours decide.  Volumes and buffers are
     * exact, from schedules of the whole machine; only hosts of thousands of ranks are sampled,
     * and taken as if nothing in them were read in place. */
    RI_MAX_PRICED_RANKS = 64
};

struct ri_candidate_query {
    int ranks;
    const int32_t *host;        /* [ranks]; NULL: all on one */
    const int32_t *order;       /* [ranks], as in struct ri_build; NULL: by their numbers */
    const struct ri_cost *cost; /* of the pass that is asked for */
    int backward;               /* else forward */
    /* NULL or "auto": every one that can gain something on this machine. */
    const char *schedule;  /* "ring", "two-level", "direct" */
    const char *gradients; /* backward only: "kv-grad", "q-grad" */
    int bind; /* blocks of ranks of one host are read in place */
};

struct ri_candidate {
    const char *schedule, *gradients; /* names as in the query; gradients is NULL forward */
    char variant[24]; /* of the schedule: "chunked", "2-pieces"; "" if it has but one */
    ri_builder *builder;
    struct ri_build build; /* for rank 0; host and order are the query's */
    int priced_ranks;      /* how many ranks were simulated; if not all, seconds are scaled */
    double seconds;
    double compute_seconds;                   /* of the rank that computes most */
    double sent[RI_LANES];                    /* units, of the rank that sends most on the lane */
    double own_blocks[RI_BUNDLES], own_units; /* as in struct ri_simulation */
};

/* Fills list[0 .. *count-1], cheapest first; of equal prices the simpler scheme.  Both are
 * untouched on failure.
 * RONDO_ERR_ARGUMENT names what is not known, or the cost that is no price. */
int ri_candidates(const struct ri_candidate_query *query, struct ri_candidate *list, int *count);

#endif
