/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_RANKS_H
#define TEST_RANKS_H

#include <stddef.h>

#include <rondo/rondo.h>

#include "tests/here.h"

/* Ranks for a test, as threads of this process ("self") or as forked processes.  No MPI, no launcher. */

/* Memory that all ranks of a test share, also forked ones; zeroed.  Kept until the process ends, or
 * until it is released with its bytes. */
void *shared_memory(size_t bytes);
void shared_memory_release(void *memory, size_t bytes);

/* Where ranks of one test find each other: shared memory, zeroed before each group. */
struct meeting {
    _Atomic int ready; /* 0: not yet, 1: id is there, -1: rank 0 failed */
    rondo_unique_id_t id;
};

/* Makes a communicator of `ranks`: rank 0 makes the id, the others wait for it (at most 30 s). */
int meet(struct meeting *meeting, int rank, int ranks, const rondo_config_t *config,
         rondo_comm_t *comm);

/* Pretended hosts hold one block of ranks each; the first ones one more where they do not divide. */
int host_of(int rank, int ranks, int hosts);

/* Does a transport want a process for each rank?  "self" does not, and under thread sanitizer, which sees
 * no other process, none does. */
int ranks_want_processes(const char *transport);

/* Runs body in `ranks` ranks and waits for all, at most timeout_s seconds (then the process is ended
 * with a message).  Returns how many bodies did not return 0. */
int run_ranks(int ranks, int processes, int timeout_s, int (*body)(int rank, int ranks, void *arg),
              void *arg);

#endif
