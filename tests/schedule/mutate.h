/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SCHEDULE_MUTATE_H
#define TEST_SCHEDULE_MUTATE_H

#include <stdint.h>

#include "tests/schedule/ranks.h"

/* What is changed of one step. */
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
    FIELDS
};

extern const char *const field_names[]; /* [FIELDS] */

/* One change, chosen at random: `rank`, `step`, and of the step it meets too when `both`. */
struct mutation {
    enum field field;
    int rank, both;
    uint32_t step;
    int operand, value; /* operand 0 .. 3; value: what the field becomes */
};

/* The step that a transfer meets; *rank becomes its rank.  -1: none. */
int mate_of(const struct ranks *all, int *rank, uint32_t step);
struct mutation choose_mutation(const struct ranks *all, uint64_t *random);
void mutate(struct ranks *all, const struct mutation *m);
uint32_t random_below(uint64_t *random, uint32_t end);

#endif
