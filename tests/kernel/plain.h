/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_KERNEL_PLAIN_H
#define TESTS_KERNEL_PLAIN_H

#include <rondo/kernel.h>

/* A kernel of plain loops that can do all that the contract knows, and does one thing wrong when asked to. */
enum fault {
    FAULT_NONE, FAULT_BAND, FAULT_STRICT, FAULT_V_HEAD_STRIDE, FAULT_DO_PACKED, FAULT_OUTSIDE, FAULT_NO_SCALE,
    FAULT_EMPTY_LSE, FAULT_EMPTY_O, FAULT_DQ_TWICE, FAULT_DK_SET, FAULT_DV_SET, FAULT_HIDDEN_V, FAULT_KV_HEAD,
    FAULT_LOCAL_POSITIONS, FAULT_BACKWARD_SEED, FAULT_NO_KEEP_FACTOR, FAULT_DROPPED_LSE, FAULT_FIRST_HEAD,
    FAULT_FIRST_BATCH, FAULT_NO_CAP, FAULT_CAP_SLOPE, FAULT_NO_DELTA, FAULT_WORKSPACE, FAULT_RUNNING,
    FAULT_NAN_LOST, FAULT_SMALL_MASKED, FAULT_NO_TOP, FAULT_SHORT_OFFSETS, FAULT_ALIGNED, FAULT_GAPS, FAULT_F16,
    FAULT_NO_LSE_TEST, FAULT_CHANCE, FAULT_THREADS, FAULT_INPUT, FAULT_REFUSES, FAULT_FIRST_TILE, FAULT_ONE_DIM,
    FAULT_LSE_BASE_2, FAULT_FAR_WRITE, FAULT_POLL_LOST, FAULT_POLL_ABSENT, FAULT_POLL_STRANGER
};

struct plain {
    unsigned flags; /* of the kernel */
    enum fault fault;
    int calls; /* so far: of the fault that depends on it */
};

/* The kernel; p lives as long as it. */
rondo_kernel_t plain_kernel(struct plain *p);

#endif
