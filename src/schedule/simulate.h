/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SIMULATE_H
#define RI_SIMULATE_H

#include <stdio.h>

#include "schedule/schedule.h"

/* What the schedules of a scheme cost on a machine that is described by a few numbers: all ranks
 * are run, event by event, against links that carry one message at a time.  Good for ranking
 * schemes.  Units are the caller's: bytes and bytes per second, or any other unit of content. */

struct ri_link_cost {
    double latency_seconds; /* of each message */
    double bandwidth;       /* units per second, one way; out and in are links of their own */
};

/* How messages are launched. */
enum ri_launch {
    RI_LAUNCH_HOST,  /* by the engine: a send when all before it on its lane, in turn order, have
                      * been posted, but for those of its turn and bundle; a receive one turn
                      * ahead, when its memory is free */
    RI_LAUNCH_ONE,   /* one stream: all transfers of a turn are one group, one group at a time;
                      * what a group brings is seen when all of it is there */
    RI_LAUNCH_LANES, /* a stream per lane */
    RI_LAUNCHES
};

struct ri_cost {
    struct ri_link_cost lane[RI_LANES];
    int shared_nic;           /* 1: all ranks of a host share one host link out, and one in; more: so many of
                               * them, in order of their numbers; 0: none */
    double block[RI_BUNDLES]; /* units of one rank's whole block; parts are even fractions of it */
    double compute_seconds;   /* COMPUTE of one whole query block and one whole key block */
    double seconds_per_unit;  /* MERGE and COPY; may be 0 */
    enum ri_launch launch;
    int in_order; /* work never passes work that waits; always so unless RI_LAUNCH_HOST */
    /* Messages that become ready at one moment are equals: on a machine, who of them is first at a
     * link is decided by less than any cost above.  0: they go by the numbers of ranks and steps.
     * Else in an order shuffled by the seed, where moments that rounding sets apart are one, and
     * messages of one pair of links keep theirs.  A seed has one result; many seeds tell how much
     * the order decides. */
    uint32_t tie_seed;
};

/* A row of the timeline carries one thing at a time. */
enum ri_row {
    RI_ROW_WORK, /* COMPUTE, COPY, MERGE */
    RI_ROW_LOCAL_OUT,
    RI_ROW_LOCAL_IN,
    RI_ROW_HOST_OUT,
    RI_ROW_HOST_IN,
    RI_ROWS
};
extern const char *const ri_row_names[RI_ROWS];

struct ri_event {
    int32_t rank;
    uint32_t row, step;
    double start, end; /* seconds */
};

struct ri_simulated_rank {
    double seconds;                    /* when its last step is done */
    double compute_seconds;            /* in COMPUTE */
    double exposed_seconds;            /* of `seconds`, those without work */
    double sent[RI_LANES][RI_BUNDLES]; /* units, bound messages not counted */
};

struct ri_simulation {
    double seconds; /* when the last rank is done */
    int ranks;
    struct ri_simulated_rank *rank; /* [ranks] */
    /* Memory of our own on the rank that needs most of it: blocks of each bundle, and units in all.
     * A view into which every message is bound costs nothing, nor does one without any. */
    double own_blocks[RI_BUNDLES], own_units;
    double sent[RI_LANES];   /* units, of the rank that sends most on the lane */
    struct ri_event *events; /* NULL unless asked for; in order of their starts */
    uint32_t event_count;
};

/* Runs schedules[0 .. ranks-1], all ranks of one scheme.  A bound message has its latency only, and whoever
 * writes memory that others read in place does not wait for them, as an engine must: of schedules
 * that bind the seconds are a lower bound.  want_events: also the timeline.
 * *simulation is untouched on failure.  RONDO_ERR_ARGUMENT names the rank and the step that never
 * ends, the transfer that nobody meets, or the cost that is no price. */
int ri_simulate(struct ri_schedule *const *schedules, int ranks, const struct ri_cost *cost,
                int want_events, struct ri_simulation *simulation);
void ri_simulation_release(struct ri_simulation *simulation);

#endif
