/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_PUZZLE_H
#define RI_PUZZLE_H

#include <stdint.h>

/* What orders and groups come down to.  weight: [n][n], symmetric, at least 0, greater is better.  Both go by
 * the least weight that is used, then by the sum of all; of equally good answers the one that is first in
 * order of numbers.  Exact up to RI_PUZZLE_EXACT points, above it as good as a search by steps finds; always
 * the same for the same weights.  RONDO_ERR_MEMORY. */
enum { RI_PUZZLE_EXACT = 12 };

/* A cycle through all points from 0. */
int ri_puzzle_cycle(const int64_t *weight, int n, int32_t *order);
/* The same by steps, whatever n is. */
void ri_puzzle_cycle_by_steps(const int64_t *weight, int n, int32_t *order);

/* n / size groups of `size` points; what counts is every pair within a group.  group[i]: from 0 in order of
 * the first points of groups, -1 for the n % size that are left over. */
int ri_puzzle_groups(const int64_t *weight, int n, int size, int32_t *group);

#endif
