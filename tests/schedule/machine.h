/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SCHEDULE_MACHINE_H
#define TEST_SCHEDULE_MACHINE_H

#include "schedule/simulate.h"

/* The machine of the published price tables: one K,V block takes 1 over the local link and 10 between
 * hosts, a message starts in .02 and .1.  With plain heads K is 1, and Q half of it. */
static inline struct ri_cost table_cost(double compute_seconds)
{
    return (struct ri_cost){.lane = {{.02, 1}, {.1, .1}},
                            .block = {[RI_Q] = .5, [RI_K] = 1, [RI_O] = .5},
                            .compute_seconds = compute_seconds};
}

/* The same, backward: the queries travel with all that belongs to them, gradients of K,V are wider. */
static inline struct ri_cost table_cost_backward(double compute_seconds)
{
    struct ri_cost cost = table_cost(compute_seconds);

    cost.block[RI_Q] = cost.block[RI_DQ] = 1;
    cost.block[RI_DK] = 2;
    return cost;
}

#endif
