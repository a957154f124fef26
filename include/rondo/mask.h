/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_MASK_H
#define RONDO_MASK_H

#include <rondo/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A run of queries against a run of keys, both in global positions.  With i and j counted from the first
 * of each, query i sees key j iff lo <= i - j <= hi, where the kind says what lo and hi are. */
typedef enum {
    RONDO_RANGE_FULL = 0,    /* every pair */
    RONDO_RANGE_CAUSAL = 1,  /* the last query sees the last key, the one before it all but that: hi is
                              * free, lo == q_count - k_count */
    RONDO_RANGE_INVERSE = 2, /* the first query sees every key, the next all but the first: hi == 0 */
    RONDO_RANGE_BICAUSAL = 3, /* both */
    RONDO_RANGE_BAND = 4     /* read lo and hi */
} rondo_range_kind_t;

typedef struct rondo_range {
    int64_t q_first, q_count; /* >= 0; an empty range is allowed, and says nothing */
    int64_t k_first, k_count;
    rondo_range_kind_t kind;
    int64_t lo, hi;           /* RONDO_RANGE_BAND alone */
} rondo_range_t;

/* What a mask says beside its kind.  Fields of other kinds are not read.  With packed documents, of which
 * a query sees its own alone, FULL to PREFIX hold within each document; BLOCKS and RANGES say all
 * themselves, and are refused with documents. */
typedef struct rondo_mask_params {
    size_t struct_bytes;
    int64_t left, right;          /* WINDOW: a query at p sees keys p - left to p + right, its own among them:
                                   * a causal window of w keys is left w - 1, right 0.  -1: without end */
    int64_t prefix;               /* PREFIX: tokens of each document; 0 is causal */
    int64_t block_tokens;         /* BLOCKS: tokens of a block's side; the last ones may be shorter */
    const uint8_t *blocks;        /* BLOCKS: [blocks of queries][blocks of keys], row after row; 0: hidden */
    const rondo_range_t *ranges;  /* RANGES: [range_count]; no pair may be in two of them */
    int range_count;
    int align_ends;               /* where queries and keys differ in number (kv_layout), CAUSAL, STRICT, WINDOW
                                   * and PREFIX compare positions counted from the first token of either, or,
                                   * when this is not 0, from the last: "bottom-right" */
} rondo_mask_params_t;

#define RONDO_MASK_PARAMS_INIT { sizeof(rondo_mask_params_t), -1, -1, 0, 0, NULL, NULL, 0, 0 }

#ifdef __cplusplus
}
#endif
#endif
