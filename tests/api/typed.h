/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_TYPED_H
#define TEST_TYPED_H

#include "tests/api/features.h"
#include "tests/api/shard.h"

/* The tensors of a shard as a caller of another type has them: each in memory of its own, of just its size. */
struct typed {
    rondo_dtype_t type;
    size_t counts[8];
    void *q, *k, *v, *d_o, *o, *dq, *dk, *dv; /* NULL without tokens */
};

void typed_init(struct typed *t, rondo_dtype_t type, const struct shard *s, const struct problem *p);
void typed_release(struct typed *t);
/* Forward, then backward, waiting for each; the outputs are widened into the shard's.  sinks and d_sinks may be
 * NULL.  The status of the first that fails. */
int typed_both(rondo_plan_t plan, struct typed *t, struct shard *s, const float *sinks, float *d_sinks);

#endif
