/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_PARALLEL_H
#define TRAIN_PARALLEL_H

#include <stdint.h>

#include <rondo/rondo.h>

#include "problem.h"

/* The ranks, as the trainer sees them. */
struct parallel {
    rondo_comm_t comm;
    rondo_comm_info_t info;
    double reduce_seconds; /* spent waiting for collectives of this file while nothing computed */
};

/* transport: NULL, or what to use in place of RONDO_TRANSPORT. */
int parallel_init(struct parallel *p, const char *transport, struct problem *problem);
void parallel_release(struct parallel *p);

/* Ends a part in which any rank may have met a problem of its own: all ranks return the exit code of
 * the lowest rank that did, and that one alone prints it.  0 when nobody did. */
int parallel_agree(struct parallel *p, const struct problem *problem);

/* A call of the library that failed on all ranks alike: rank 0 prints; returns the exit code. */
int parallel_refused(const struct parallel *p, const char *what, rondo_status_t status);
/* A failure in flight, which each rank may see in its own way: each prints, with its rank. */
int parallel_failed(const struct parallel *p, const char *what, rondo_status_t status);

/* Sums over ranks, in place; all ranks get equal bits. */
rondo_status_t parallel_sum_floats(struct parallel *p, float *data, size_t count);
rondo_status_t parallel_sum_doubles(struct parallel *p, double *data, size_t count);
rondo_status_t parallel_broadcast(struct parallel *p, void *data, size_t bytes, int root);
/* Whether hash is equal on all ranks. */
rondo_status_t parallel_same(struct parallel *p, uint64_t hash, int *same);

#endif
