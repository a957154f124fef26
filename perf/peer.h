/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_PEER_H
#define PERF_PEER_H

#include <stddef.h>

/* The library that we measure against: MPI, in peer_mpi.c.  Built without it, peer_none.c answers.
 * Calls after perf_peer_start end the process by MPI's own error handler when they fail. */

int perf_peer_built(void);

/* This process was started by an MPI launcher. */
int perf_peer_launched(void);

/* Once, before all that follow. */
void perf_peer_start(int *rank, int *size);
void perf_peer_finish(void);

/* Name and version, for a header line. */
const char *perf_peer_version(void);

/* bytes of rank 0 reach every rank. */
void perf_peer_broadcast(void *bytes, size_t count);
void perf_peer_barrier(void);

/* `hops` times: sends buffers[0] to the next rank, receives buffers[1] from the one before, and
 * swaps them, as blocks go round a ring. */
void perf_peer_hops(char *buffers[2], size_t bytes, int hops);

/* One such hop. */
void perf_peer_hop(char *from, char *to, size_t bytes);

/* Such a hop while the caller computes: begun, moved by calls, ended. */
void perf_peer_begin(char *from, char *to, size_t bytes);
void perf_peer_move(void);
void perf_peer_end(void);

/* Windows of messages with one partner, from `out` and to `in`, either NULL: none that way; the receiver
 * says when a window has come. */
void perf_peer_windows(char *out, char *in, int partner, size_t bytes, int window, int windows);

/* A block goes round the ring of ranks, from rank 0 to rank 0, so many times. */
void perf_peer_token(char *out, char *in, size_t bytes, int rounds);

#endif
