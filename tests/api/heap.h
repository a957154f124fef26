/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_HEAP_H
#define TEST_HEAP_H

/* What the calling thread takes of the heap, and gives back.  For programs linked with $(heap_wraps). */
struct heap {
    int counting, allocations; /* while counting is 1 */
    long held;                 /* bytes, as they are given: a few more than asked for; threads may free each other's */
};

extern _Thread_local struct heap heap;

#endif
