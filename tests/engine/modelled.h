/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_ENGINE_MODELLED_H
#define TEST_ENGINE_MODELLED_H

#include "schedule/simulate.h"

/* All ranks of a scheme as threads on transport self with modelled links, and a kernel that takes a
 * time and no core.  Steps move and add real memory, filled so that every word tells what is in
 * it. */

enum { MODELLED_RANKS = 32 };

struct modelled {
    struct ri_schedule *const *schedules; /* [ranks] */
    int ranks;
    int backward; /* the caller's slots are Q, K, DQ, DK, else Q, K, O */
    /* block[]: bytes, of which each part has a multiple of 8; latencies: whole microseconds;
     * bandwidths: whole bytes per second; merges and copies take no time. */
    const struct ri_cost *cost;
    const char *trace; /* "%r" in it becomes the rank; NULL: none */
};

struct modelled_result {
    double seconds;                /* from the common start to the end of the last rank */
    uint64_t sent_bytes[RI_LANES]; /* by the rank that sent most on the lane */
    int wrong_ranks;               /* whose results are not what they must be */
};

/* Runs all ranks once.  Ends the process, with the reason, when a rank fails or takes a minute. */
void modelled_run(const struct modelled *modelled, struct modelled_result *result);

#endif
