/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_MASKS_JUDGE_H
#define TEST_MASKS_JUDGE_H

#include "tests/e2e/masks_run.h"

enum { OUT_O, OUT_LSE, OUT_DQ, OUT_DK, OUT_DV, OUT_SINKS, OUTS };

extern const char *const out_names[OUTS];

/* How far an answer is from what it should be.  Errors of d_sinks, which are sums over all tokens, are
 * relative to them where they are above 1. */
struct judged {
    double worst[OUTS], diff2[OUTS], ref2[OUTS]; /* largest difference (no number: infinite); sums of squares */
    double largest[OUTS];                        /* largest number that is right */
    int64_t pairs[2];                            /* as plans count them, over all ranks, per pass */
    int64_t odd[2];                              /* pairs that tiles had not once though seen, or had though not */
};

struct judged judge_answer(const struct team *team, const struct masked *p);
double judged_worst(const struct judged *j);
/* Do all pairs come once, and no other? */
int judged_counts(const struct judged *j, const struct masked *p);

#endif
