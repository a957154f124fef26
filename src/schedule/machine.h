/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SCHEDULE_MACHINE_H
#define RI_SCHEDULE_MACHINE_H

#include "schedule/simulate.h"

/* The machine that candidates are priced for, and the part of it that is simulated. */
struct ri_machine {
    int ranks, hosts;
    int smallest, largest; /* ranks of a host */
    int uneven;            /* some host's size is no multiple of another's */
    int32_t *host;         /* [ranks], hosts numbered by their first ranks */
    int32_t *size;         /* [hosts] */
    /* The part: all of it where that is not too large. */
    int part_ranks, part_largest;
    int32_t *part_host;  /* [part_ranks] */
    int32_t *part_order; /* [part_ranks]; NULL where there is none */
};

/* host may be NULL: all ranks on one; order: by their numbers.  The part has `room` ranks at most. */
int ri_machine_init(struct ri_machine *machine, int ranks, const int32_t *host, const int32_t *order, int room);
void ri_machine_release(struct ri_machine *machine);

/* What schedules move and keep, each of the rank with most of it. */
struct ri_volumes {
    double sent[RI_LANES]; /* units, bound messages not counted */
    double own_blocks[RI_BUNDLES], own_units;
    double lane_seconds[RI_LANES]; /* of a rank's messages */
    double in_turn_seconds;        /* of a rank's messages on all lanes, one after the other, each
                                    * beside its share of the work */
};

/* Raises *most by one schedule.  sharing: ranks that share its host link. */
int ri_volumes_add(struct ri_volumes *most, const struct ri_schedule *schedule,
                   const struct ri_cost *cost, int sharing);

/* The whole machine's, from schedules of whole hosts: one of each size, for each size of the host
 * after it. */
int ri_machine_volumes(const struct ri_machine *machine, ri_builder *builder,
                       const struct ri_build *how, int bind, const struct ri_cost *cost,
                       struct ri_volumes *volumes);

#endif
