/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_TYPES_H
#define RONDO_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* Element types.  Values are fixed for ever. */
typedef enum {
    RONDO_F32 = 0,
    RONDO_F64 = 1,  /* all-reduce only */
    RONDO_BF16 = 2, /* the upper half of an fp32 number */
    RONDO_F16 = 3   /* IEEE 754 binary16 */
} rondo_dtype_t;

/* Which keys a query sees, in global positions: rondo/mask.h says more of those with parameters.  Values are
 * fixed for ever. */
typedef enum {
    RONDO_MASK_FULL = 0,   /* every key */
    RONDO_MASK_CAUSAL = 1, /* keys at or before its own position */
    RONDO_MASK_STRICT = 2, /* keys before its own position: the first query sees none */
    RONDO_MASK_WINDOW = 3, /* keys from `left` before its own position to `right` behind it */
    RONDO_MASK_PREFIX = 4, /* causal, and the first `prefix` keys are seen by all */
    RONDO_MASK_BLOCKS = 5, /* a bitmap of square blocks */
    RONDO_MASK_RANGES = 6  /* a list of (queries, keys, how) */
} rondo_mask_t;

/* The tensors of attention, for counting; rondo_tensor_name names them.  Values are fixed for ever, and more
 * may come before the count. */
enum {
    RONDO_TENSOR_Q = 0, RONDO_TENSOR_K = 1, RONDO_TENSOR_V = 2, RONDO_TENSOR_O = 3, RONDO_TENSOR_LSE = 4,
    RONDO_TENSOR_DO = 5, RONDO_TENSOR_DELTA = 6, RONDO_TENSOR_DQ = 7, RONDO_TENSOR_DK = 8,
    RONDO_TENSOR_DV = 9, RONDO_TENSOR_COUNT = 10
};

/* The label of a token whose loss does not count. */
#define RONDO_IGNORE (-100)

/* Handles are opaque pointers.  NULL is accepted by every destroy call. */
typedef struct rondo_comm *rondo_comm_t;
typedef struct rondo_layout *rondo_layout_t;
typedef struct rondo_plan *rondo_plan_t;
typedef struct rondo_request *rondo_request_t;
typedef struct rondo_saved *rondo_saved_t;

#endif
