/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_HAND_H
#define PERF_HAND_H

#include <rondo/comm.h>

#include "link.h"

/* A token that goes round the ring of ranks: each in turn hands a block of its own to the next.  Where
 * the transport can, the block is read where it lies; else it is copied into one of two buffers. */
struct hand {
    struct perf_link link;
    int rank, ranks, next, previous;
    int binds_out, binds_in; /* towards next, and from previous */
    size_t bytes;
    char *block;             /* handed out */
    char *landing[2];        /* of the copies that come; NULL: they come bound */
    struct ri_xfer send, receive[2];
    uint64_t sent, received; /* blocks, so far: they number tags */
    uint64_t end;            /* so many are received by the end of this phase */
    uint64_t wrong;
};

/* Collective.  Release it after a failure too. */
int hand_init(struct hand *hand, rondo_comm_t comm, size_t bytes);
void hand_release(struct hand *hand);

/* Collective: the token goes round once per iteration, and every byte of every block is looked at.
 * Faults are counted in wrong, and the first of this rank is said on stderr. */
int hand_verify(struct hand *hand, uint32_t first_iteration, int iterations);

/* Collective: `rounds` rounds in which the first and last byte are looked at.  round_us [rounds] is
 * written on rank 0: the time of a round.  asleep: each rank keeps its block for pause_us before it
 * hands it on, while the next one sleeps; paused_us [rounds] has how long this rank kept it within the
 * round (rank 0: 0). */
int hand_rounds(struct hand *hand, int rounds, enum perf_how how, double pause_us, double *round_us,
                double *paused_us);

#endif
