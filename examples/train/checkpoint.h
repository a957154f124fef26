/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include <stdint.h>

#include "model.h"
#include "problem.h"

/* Everything that the next step depends on.  The data's position is (seed, step). */
struct progress {
    int64_t step;       /* steps done */
    double seconds;     /* of training behind it; 0 with --steps, which do not look at the clock */
    uint64_t seed;
    uint64_t text_hash; /* of the text trained on */
    int64_t tokens;     /* of one sequence */
    int64_t window;     /* tokens that a token sees; 0: all before it */
    int32_t documents;  /* 1: the text's files see each other not */
    int32_t bf16;       /* 1: attention reads and writes bf16 */
};

struct checkpoint {
    const struct model_sizes *sizes;
    struct progress *progress;
    struct weights *weights, *m, *v; /* both moments of AdamW */
};

/* Writes beside path, flushes to the disk, then renames: path is the old file or the whole new one,
 * whatever happens.  Local; called on one rank.  0, or -1 with the problem set. */
int checkpoint_save(const char *path, const struct checkpoint *c, struct problem *problem);

/* Whether a file could be saved there, found out before the training and not after it. */
int checkpoint_probe(const char *path, struct problem *problem);

/* Reads the file whole and checks it before it changes anything in c. */
int checkpoint_load(const char *path, const struct checkpoint *c, struct problem *problem);

/* The gradients as they are, after a small header: 8 bytes "RONDOGRD", uint32 version 1, uint32 bytes
 * of the header, uint64 count, double loss; then count floats.  Same promises as checkpoint_save. */
int gradients_save(const char *path, const struct weights *g, double loss,
                   struct problem *problem);

#endif
