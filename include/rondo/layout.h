/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_LAYOUT_H
#define RONDO_LAYOUT_H

#include <rondo/mask.h>
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
    RONDO_LAYOUT_STRIPED = 2,    /* rank r holds the positions i with i mod ranks == r */
    RONDO_LAYOUT_BALANCED = 3    /* chunks of chunk_tokens go to ranks by the work that a mask gives them: the
                                  * largest first, to the rank with least work of those with room left */
} rondo_layout_kind_t;

/* What is dealt out where documents are packed. */
typedef enum {
    RONDO_DEAL_SEQUENCE = 0, /* the sequence as a whole: documents may lie across shards */
    RONDO_DEAL_DOCUMENTS = 1 /* each document by itself, as if it were the sequence; a shard has its share of
                              * each, in their order */
} rondo_deal_t;

typedef struct rondo_layout_desc {
    size_t struct_bytes;
    rondo_layout_kind_t kind;
    int64_t tokens; /* of the whole sequence, > 0 */
    int ranks;      /* > 0 */
    /* Packed documents: document d is the positions cu_seqlens[d] to cu_seqlens[d + 1] - 1, of which only
     * the first lengths[d] are tokens and the others padding: nobody sees them, and they see nobody.
     * Documents may be empty.  Copied. */
    const int64_t *cu_seqlens; /* [documents + 1] ascending from 0 to tokens; NULL: one document */
    int documents;             /* 0 with NULL */
    const int64_t *lengths;    /* [documents]; NULL: no padding */
    rondo_deal_t deal;
    int max_documents;         /* the most that a plan made with this layout may be bound to; 0: documents */
    /* RONDO_LAYOUT_BALANCED alone: the mask to balance, and how fine. */
    rondo_mask_t mask;
    const rondo_mask_params_t *mask_params; /* copied */
    int64_t chunk_tokens;                   /* 0: chosen, about 16 chunks for each rank */
} rondo_layout_desc_t;

#define RONDO_LAYOUT_DESC_INIT                                                                     \
    { sizeof(rondo_layout_desc_t), RONDO_LAYOUT_CONTIGUOUS, 0, 0, NULL, 0, NULL,                   \
      RONDO_DEAL_SEQUENCE, 0, RONDO_MASK_FULL, NULL, 0 }

/* Layouts are local objects, immutable, usable from any thread; they know no communicators. */
rondo_status_t rondo_layout_create(const rondo_layout_desc_t *desc, rondo_layout_t *layout);
void rondo_layout_destroy(rondo_layout_t layout);

/* A kind by its name, "contiguous", "zigzag", "striped" or "balanced", and back; "unknown" for any other. */
rondo_status_t rondo_layout_kind_parse(const char *name, rondo_layout_kind_t *kind);
const char *rondo_layout_kind_name(rondo_layout_kind_t kind);

/* Tokens of one rank's shard; -1 when an argument is refused. */
int64_t rondo_layout_tokens(rondo_layout_t layout, int rank);

/* positions: [rondo_layout_tokens(rank)], the global position of each local index, ascending. */
rondo_status_t rondo_layout_positions(rondo_layout_t layout, int rank, int64_t *positions);

/* The same, each counted from the first position of its document: the positions that RoPE wants.  Without
 * documents they are the global ones. */
rondo_status_t rondo_layout_document_positions(rondo_layout_t layout, int rank, int64_t *positions);

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
 * tokens[p + 1]; that of the last token, and with packed documents that of the last of each and of
 * padding, is RONDO_IGNORE.  tokens: [all tokens]. */
rondo_status_t rondo_layout_targets(rondo_layout_t layout, int rank, const int32_t *tokens,
                                    int32_t *targets);

/* (query, key) pairs that the rank's queries see over the whole sequence; -1 when refused, as it is
 * for more than INT32_MAX tokens.  params: NULL for masks that have none. */
int64_t rondo_layout_pairs(rondo_layout_t layout, int rank, rondo_mask_t mask,
                           const rondo_mask_params_t *params);

/* *ratio: pairs of the rank that has most, over the mean of all ranks; 1 where nobody sees anything. */
rondo_status_t rondo_layout_balance(rondo_layout_t layout, rondo_mask_t mask,
                                    const rondo_mask_params_t *params, double *ratio);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
