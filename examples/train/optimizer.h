/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include <stdint.h>

#include "model.h"

/* AdamW.  All ranks hold equal weights and equal summed gradients, so all do the same update and
 * stay equal to the last bit without another word. */
struct adamw {
    float beta1, beta2;
    float epsilon;
    float decay;     /* of matrices; the gains of norms do not decay */
    float clip_norm; /* largest global norm of the gradients that is used as it is */
};

#define ADAMW_DEFAULTS { 0.9f, 0.98f, 1e-8f, 0.1f, 1.0f }

/* Square root of the sum of squares, summed in double. */
double gradient_norm(const float *g, size_t count);

/* What the gradients are multiplied by.  norm is finite: the caller stops before otherwise. */
float clip_factor(double norm, float clip_norm);

/* Progress 0..1 through the training -> rate: a linear warm-up over the first 4 %, then half a cosine
 * down to a twentieth of peak.  Below WARM_UP_STEPS the step (1, 2, ...) holds it down as well: a
 * short training that rushes off multiplies every rounding error a thousandfold. */
enum { WARM_UP_STEPS = 30 };
float learning_rate(double progress, int64_t step, float peak);

/* Step 1, 2, ... of AdamW with bias correction.  m, v: both moments, in the shape of w. */
void adamw_update(const struct adamw *o, const struct model_sizes *sizes, struct weights *w,
                  const struct weights *g, struct weights *m, struct weights *v, int64_t step,
                  float rate, float gradient_factor);

#endif
