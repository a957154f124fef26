/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_MEASURE_H
#define PERF_MEASURE_H

#include <stddef.h>

#include <rondo/rondo.h>

/* What programs of perf/ share: a clock, collectives on figures, and order statistics. */

double perf_now_us(void); /* monotonic */

/* Busy for so long.  Returns how long it really was. */
double perf_pause(double us);

/* malloc, with its pages there.  NULL: none. */
void *perf_touched(size_t bytes);

/* Ends the request of a call that returned `started`. */
rondo_status_t perf_wait(rondo_status_t started, rondo_request_t *request);
rondo_status_t perf_barrier(rondo_comm_t comm);

/* Collective: data[i] becomes its maximum, or its sum, over ranks, on every rank. */
rondo_status_t perf_max_over_ranks(rondo_comm_t comm, double *data, size_t count);
rondo_status_t perf_sum_over_ranks(rondo_comm_t comm, double *data, size_t count);

/* Of a ring in which each of `ranks` blocks of `bytes` goes to every rank, in us; GB/s, GB = 1e9 bytes.
 * algbw counts all blocks, busbw those that a rank sends: busbw = algbw * (ranks - 1) / ranks. */
double perf_algbw(double ranks, double bytes, double us);
double perf_busbw(double ranks, double bytes, double us);

/* For qsort of doubles. */
int perf_ascending(const void *a, const void *b);

/* Of count > 0 doubles sorted ascending; share in 0..1. */
double perf_quantile(const double *data, size_t count, double share);

/* Sorts data. */
double perf_median(double *data, size_t count);

#endif
