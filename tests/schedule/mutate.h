/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SCHEDULE_MUTATE_H
#define TEST_SCHEDULE_MUTATE_H

#include <stdint.h>

#include "tests/schedule/ranks.h"

/* What is changed: a field of one step, a step as a whole, or an entry of a table. */
enum field {
    F_OP,
    F_MERGE,
    F_LANE,
    F_BIND,
    F_PEER,
    F_TURN,
    F_SLOT,
    F_BLOCK,
    F_BLOCKS,
    F_FIRST_PART,
    F_PARTS,
    F_DELETE,
    F_DUPLICATE,
    F_SWAP, /* with the next step */
    F_KIND, /* of a slot, as the next two */
    F_BUNDLE,
    F_ROOM,
    F_OWNER, /* of a block */
    F_HOST,  /* of a rank */
    FIELDS
};

extern const char *const field_names[]; /* [FIELDS] */

/* One change, chosen at random: `rank`, `step`, and of the step it meets too when `both`.  Of a
 * table: entry `step`, and of all ranks when `both`. */
struct mutation {
    enum field field;
    int rank, both;
    uint32_t step;
    int operand, value; /* operand 0 .. 3; value: what the field becomes */
};

static inline int is_of_table(enum field field)
{
    return field >= F_KIND;
}

/* The step that a transfer meets; *rank becomes its rank.  -1: none. */
int mate_of(const struct ranks *all, int *rank, uint32_t step);
struct mutation choose_mutation(const struct ranks *all, uint64_t *random);
void mutate(struct ranks *all, const struct mutation *m);
uint32_t random_below(uint64_t *random, uint32_t end);

#endif
