/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks of a test wait for each other without Rondo. */
#ifndef RONDO_TEST_HERE_H
#define RONDO_TEST_HERE_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "base/clock.h"

#define HERE_NS 30000000000 /* the slowest machine's ranks come within it */

/* Returns when all `ranks` have called it on `arrived`, a zeroed counter that threads or processes share and
 * that is used once; nonzero, with a line on stderr, when one does not come within 30 s.  A rank that is to
 * fail or to leave waits here first: others may still be inside the making of the communicator, to which the
 * failure would come, and a barrier of Rondo's lets a rank go before the others have heard that they may. */
static inline int everyone_is_here(atomic_int *arrived, int ranks)
{
    int64_t deadline_ns = ri_now_ns() + HERE_NS;

    atomic_fetch_add(arrived, 1);
    while (atomic_load(arrived) < ranks && ri_now_ns() < deadline_ns)
        sched_yield();
    if (atomic_load(arrived) >= ranks)
        return 0;
    fprintf(stderr, "# %d of %d ranks came within 30 s\n", atomic_load(arrived), ranks);
    return 1;
}

#endif
