/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SOAK_H
#define TEST_SOAK_H

#include "tests/ranks.h"
#include "tests/soak/sample.h"

/* Many repetitions of one thing, and what each rank holds after so many of them.  A sample taken by one
 * rank says nothing of what others are in the middle of, so all line up for it: ranks may be threads. */
enum { SOAK_RANKS = 3, SOAK_MARKS = 10, SOAK_MEETINGS = 4 };

/* After how many repetitions a sample is taken; the last is the end, 0 ends the list. */
typedef long soak_marks[SOAK_MARKS + 1];

struct soak {
    struct meeting meetings[SOAK_MEETINGS];
    const char *transport;
    const long *marks;
    int ranks, hosts; /* each host a nearly equal share of the ranks */
    char actual[32];  /* the transport of the communicator, by its own word */
    _Atomic int arrived, generation; /* lining up */
    struct sample samples[SOAK_RANKS][SOAK_MARKS];
};

/* How many repetitions in all. */
long soak_count(const struct soak *s);

/* Takes the sample that is due after `done` repetitions, if one is.  Nonzero when a rank did not come. */
int soak_note(struct soak *s, int rank, long done);

/* The bodies of ranks: 0 when good, else they have said on stderr what is not. */
int soak_starts(struct soak *s, int rank);  /* forwards and backwards of several plans, of changing length */
int soak_small(struct soak *s, int rank);   /* small forwards */
int soak_fresh(struct soak *s, int rank);   /* forwards, each with buffers of its own */
int soak_memory(struct soak *s, int rank);  /* memory of the communicator, asked for and given back */
int soak_comms(struct soak *s, int rank);   /* communicators, made, used once, destroyed */

/* A communicator of the first `ranks` ranks. */
int soak_comm(struct soak *s, int meeting, int rank, int ranks, rondo_comm_t *comm);

#endif
