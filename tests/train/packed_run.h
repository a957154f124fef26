/* SPDX-License-Identifier: Apache-2.0 */
/* One forward and backward of a small model through the trainer's own sequence, over ranks that are threads. */
#ifndef TRAIN_PACKED_RUN_H
#define TRAIN_PACKED_RUN_H

#include <stdint.h>

#include <rondo/layout.h>

#include "examples/train/model.h"
#include "examples/train/options.h"

enum { PACKED_TOKENS = 29, PACKED_VOCAB = 7, PACKED_MOST = 8 };

extern const struct model_sizes packed_sizes;

/* What is run.  Start from packed_case. */
struct packed {
    struct options options; /* layout, deal, window, dtype, wire */
    int ranks;
    int documents;                  /* 0: not packed */
    int64_t edges[PACKED_MOST + 1]; /* [documents + 1] */
    int rebind;                     /* the plan is bound to, and used with, other documents before */
    int32_t tokens[PACKED_TOKENS];
    /* What came of it. */
    float logits[PACKED_TOKENS][PACKED_VOCAB]; /* by global position */
    int counted[PACKED_TOKENS];                /* whether its target counts */
    double nats;
    int64_t valid;
    double *gradients; /* [count], of the summed loss, over all ranks; owned */
    size_t count;
};

/* A case of so many ranks, in one sequence, zigzag, fp32, tokens drawn from a seed. */
struct packed packed_case(int ranks);
/* With documents of 1, 8, 1, 14 and 5 tokens. */
void packed_documents(struct packed *c);

/* The weights that every case has. */
void packed_weights(struct weights *w);
/* Runs it, and fails the test if it cannot. */
void packed_run(struct packed *c);
void packed_release(struct packed *c);

/* Relative L2 difference of the gradients. */
double packed_difference(const struct packed *a, const struct packed *b);

#endif
