/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_PATTERN_H
#define PERF_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* What blocks are filled with, at the speed of memory, and how it is known again.  Word i of 32 bits,
 * counted from the start of the block, is start + i * step, where start depends on owner and iteration
 * and step is odd, so that no two words of 4 GiB are equal.  Both libraries that are compared are
 * written and read by these same loops. */

/* bytes of the block, from its word `first` on; the last word may be cut. */
void pattern_fill(void *memory, size_t bytes, int owner, uint32_t iteration, size_t first);

/* Sum of the words, modulo 2^32; bytes beyond the last whole word count as a word filled up by 0. */
uint32_t pattern_sum(const void *memory, size_t bytes);

/* The sum that words first .. of owner and iteration have. */
uint32_t pattern_expected(size_t bytes, int owner, uint32_t iteration, size_t first);

/* Words that are not as they were filled; *where: the first of them, from the start of memory. */
uint64_t pattern_wrong(const void *memory, size_t bytes, int owner, uint32_t iteration, size_t first,
                       size_t *where);

#endif
