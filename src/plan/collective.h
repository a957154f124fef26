/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_COLLECTIVE_H
#define RI_COLLECTIVE_H

#include <stddef.h>

#include <rondo/types.h>

#include "plan/plan.h"

/* A plain collective: a schedule over one vector that is cut into nearly equal parts.  Made once, run
 * with any vector. */
struct ri_collective;

/* root: broadcast only, else 0. */
int ri_collective_create(const struct ri_place *place, ri_builder *build, int root,
                         struct ri_collective **collective);
void ri_collective_destroy(struct ri_collective *collective);

/* Starts on a vector of `count` elements of dtype (size element_bytes).  input may be output.  run numbers the
 * messages: equal on all ranks, and another one for each start on one communicator.  Memory of our
 * own grows here, and only here. */
int ri_collective_start(struct ri_collective *collective, const void *input, void *output,
                        size_t count, rondo_dtype_t dtype, size_t element_bytes, uint32_t run);

struct ri_engine *ri_collective_engine(struct ri_collective *collective);

#endif
