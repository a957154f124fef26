/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SCHEDULE_FAULTS_H
#define TEST_SCHEDULE_FAULTS_H

#include "tests/schedule/ranks.h"

/* One way to spoil a correct set of schedules. */
struct fault {
    const char *name;
    void (*make)(struct ranks *all);
    void (*damage)(struct ranks *all);       /* steps and slots; all is derived again afterwards */
    void (*damage_after)(struct ranks *all); /* what is derived; either may be NULL */
    const char *words; /* of what the checker says, when nothing else has refused before */
    enum ri_goal goal;
};

extern const struct fault faults[], bundle_faults[]; /* end with a NULL name */

/* Dependencies and stores by brute force, with no rule in the way: every earlier step that shares a
 * place, unless both only read. */
void derive_loosely(struct ri_schedule *s);

#endif
