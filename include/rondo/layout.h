/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_LAYOUT_H
#define RONDO_LAYOUT_H

#include <rondo/status.h>
#include <rondo/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* How the global positions 0..tokens-1 are dealt out to ranks.  Any token count works: piece i of m
 * holds tokens div m + (i < tokens mod m) tokens, and shards may be empty. */
typedef enum {
    RONDO_LAYOUT_CONTIGUOUS = 0, /* rank r holds piece r of `ranks` */
    RONDO_LAYOUT_ZIGZAG = 1,     /* rank r holds pieces r and 2*ranks-1-r of 2*ranks */
    RONDO_LAYOUT_STRIPED = 2     /* rank r holds the positions i with i mod ranks == r */
} rondo_layout_kind_t;

typedef struct rondo_layout_desc {
    size_t struct_bytes;
    rondo_layout_kind_t kind;
    int64_t tokens; /* of the whole sequence, > 0 */
    int ranks;      /* > 0 */
} rondo_layout_desc_t;

#define RONDO_LAYOUT_DESC_INIT { sizeof(rondo_layout_desc_t), RONDO_LAYOUT_CONTIGUOUS, 0, 0 }

/* Layouts are local objects, immutable, usable from any thread; they know no communicators. */
rondo_status_t rondo_layout_create(const rondo_layout_desc_t *desc, rondo_layout_t *layout);
void rondo_layout_destroy(rondo_layout_t layout);

/* A kind by its name, "contiguous", "zigzag" or "striped", and back; "unknown" for any other. */
rondo_status_t rondo_layout_kind_parse(const char *name, rondo_layout_kind_t *kind);
const char *rondo_layout_kind_name(rondo_layout_kind_t kind);

/* Tokens of one rank's shard; -1 when an argument is refused. */
int64_t rondo_layout_tokens(rondo_layout_t layout, int rank);

/* positions: [rondo_layout_tokens(rank)], the global position of each local index, ascending. */
rondo_status_t rondo_layout_positions(rondo_layout_t layout, int rank, int64_t *positions);

/* Which rank holds a global position, and at which local index. */
rondo_status_t rondo_layout_owner(rondo_layout_t layout, int64_t position, int *rank,
                                  int64_t *index);

/* Copies the rank's tokens out of the whole sequence [tokens][token_bytes] into shard, or back.
 * unshard writes only the rank's tokens of `whole`.  Where the shard is empty memory may be NULL, as
 * it may for positions and targets. */
rondo_status_t rondo_layout_shard(rondo_layout_t layout, int rank, const void *whole,
                                  size_t token_bytes, void *shard);
rondo_status_t rondo_layout_unshard(rondo_layout_t layout, int rank, const void *shard,
                                    size_t token_bytes, void *whole);

/* Next-token targets of the rank's shard, shifted before sharding: the target of position p is
 * tokens[p + 1]; that of the last position is RONDO_IGNORE.  tokens: [all tokens]. */
rondo_status_t rondo_layout_targets(rondo_layout_t layout, int rank, const int32_t *tokens,
                                    int32_t *targets);

/* (query, key) pairs that the rank's queries see over the whole sequence; -1 when refused, as it is
 * for more than INT32_MAX tokens. */
int64_t rondo_layout_pairs(rondo_layout_t layout, int rank, rondo_mask_t mask);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
