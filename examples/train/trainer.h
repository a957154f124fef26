/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "checkpoint.h"
#include "data.h"
#include "model.h"
#include "optimizer.h"
#include "options.h"
#include "parallel.h"
#include "report.h"
#include "sequence.h"

/* Everything a rank holds.  Weights, gradients and moments are whole on every rank; of the sequence
 * and the activations it holds its shard. */
struct trainer {
    const struct options *options;
    struct parallel ranks;
    struct corpus corpus;
    struct baselines baselines;
    struct sequence sequence;
    struct weights w, g, m, v;
    struct acts acts;
    struct progress progress;
    struct report report; /* rank 0's */
    double started;       /* by clock_seconds, as if there had been no pause before a resume */
    double elapsed;       /* seconds of training, by rank 0's clock */
    double val_loss;      /* of the whole held-out text, NAN before it is known */
};

double clock_seconds(void);

/* setup.c.  All return 0 or the exit code, the same on every rank; the problem has been printed. */
int trainer_init(struct trainer *t, const struct options *options);
void trainer_release(struct trainer *t);
int trainer_save(struct trainer *t);

/* train.c: from progress.step to the end, or to a signal, which sets *stopped. */
int trainer_run(struct trainer *t, int *stopped);
/* Mean loss of at most limit windows of the held-out text. */
int trainer_validate(struct trainer *t, int64_t limit, double *val_loss);

/* sample.c: generates text through the same cut model, and prints it on rank 0. */
int trainer_sample(struct trainer *t);

/* Set by SIGINT and SIGTERM; looked at once a step, by all ranks together. */
int stop_requested(void);

#endif
