/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_ALLOCATIONS_H
#define TEST_ALLOCATIONS_H

#include <stddef.h>

/* Bytes that the calling thread has asked of aligned_alloc, which is what the device layer of the host
 * allocates with.  For programs linked with -Wl,--wrap=aligned_alloc. */
size_t aligned_bytes(void);

/* Answers the calling thread's next `good` calls of aligned_alloc, and refuses memory to those after them;
 * negative: refuses none. */
void aligned_fail_after(int good);

#endif
