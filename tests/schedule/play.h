/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SCHEDULE_PLAY_H
#define TEST_SCHEDULE_PLAY_H

#include <stdint.h>

#include "tests/schedule/ranks.h"

/* Runs schedules in a random order, on numbers that stand for content.  Nothing of the
 * checker is used, and nothing is believed of what steps name: content is followed from the
 * caller's memory to the results, and whoever touches memory that another step is at is found
 * out. */

enum play_streams { PLAY_FREE, PLAY_LANES, PLAY_ONE, PLAY_STREAMS };

struct play {
    enum play_streams streams; /* messages, in order per lane; groups per lane; whole turns */
    enum ri_goal goal;         /* what the results must be */
    int binding;               /* obeys bind bits */
    /* Faults of an engine or a transport. */
    int releases_when_bound; /* in place of when it was read */
    int waits_for_no_reader;
    uint64_t seed;
};

/* NULL: all results are right.  Else what went wrong, static. */
const char *play(const struct ranks *all, const struct play *how);

#endif
