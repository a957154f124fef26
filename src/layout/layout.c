/* SPDX-License-Identifier: Apache-2.0 */
#include "layout/layout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static const char *const kind_names[] = {
    [RONDO_LAYOUT_CONTIGUOUS] = "contiguous",
    [RONDO_LAYOUT_ZIGZAG] = "zigzag",
    [RONDO_LAYOUT_STRIPED] = "striped",
};

enum { KIND_COUNT = sizeof(kind_names) / sizeof(kind_names[0]) };

static int kind_is_known(rondo_layout_kind_t kind)
{
    return (unsigned)kind < KIND_COUNT;
}

rondo_status_t rondo_layout_kind_parse(const char *name, rondo_layout_kind_t *kind)
{
    if (!name)
        return ri_error(RONDO_ERR_ARGUMENT, "layout name is NULL");
    if (!kind)
        return ri_error(RONDO_ERR_ARGUMENT, "kind is NULL: it receives the layout's kind");
    for (int i = 0; i < KIND_COUNT; i++) {
        if (strcmp(name, kind_names[i]) == 0) {
            *kind = (rondo_layout_kind_t)i;
            return RONDO_OK;
        }
    }
    return ri_error(RONDO_ERR_ARGUMENT,
                    "layout \"%s\" is unknown: it is one of contiguous, zigzag, striped", name);
}

const char *rondo_layout_kind_name(rondo_layout_kind_t kind)
{
    return kind_is_known(kind) ? kind_names[kind] : "unknown";
}

static int check_desc(const rondo_layout_desc_t *desc)
{
    if (!desc)
        return ri_error(RONDO_ERR_ARGUMENT, "desc is NULL");
    if (desc->struct_bytes != sizeof(*desc))
        return ri_error(RONDO_ERR_ARGUMENT,
                        "desc.struct_bytes is %zu, not %zu: start from RONDO_LAYOUT_DESC_INIT",
                        desc->struct_bytes, sizeof(*desc));
    if (!kind_is_known(desc->kind))
        return ri_error(RONDO_ERR_ARGUMENT, "desc.kind is %d: it must be RONDO_LAYOUT_CONTIGUOUS, "
                        "RONDO_LAYOUT_ZIGZAG or RONDO_LAYOUT_STRIPED", (int)desc->kind);
    if (desc->cu_seqlens || desc->documents || desc->lengths || desc->max_documents || desc->deal)
        return ri_error(RONDO_ERR_UNSUPPORTED, "desc.cu_seqlens: packed documents are not built yet");
    if (desc->tokens < 1)
        return ri_error(RONDO_ERR_ARGUMENT, "desc.tokens is %" PRId64 ": it must be positive",
                        desc->tokens);
    if (desc->ranks < 1)
        return ri_error(RONDO_ERR_ARGUMENT, "desc.ranks is %d: it must be positive", desc->ranks);
    return RONDO_OK;
}

rondo_status_t rondo_layout_create(const rondo_layout_desc_t *desc, rondo_layout_t *layout)
{
    struct rondo_layout *made;
    int err = check_desc(desc);

    if (err)
        return err;
    if (!layout)
        return ri_error(RONDO_ERR_ARGUMENT, "layout is NULL: it receives the new layout");
    made = malloc(sizeof(*made));
    if (!made)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a layout of %zu bytes", sizeof(*made));
    made->kind = desc->kind;
    made->tokens = desc->tokens;
    made->ranks = desc->ranks;
    *layout = made;
    return RONDO_OK;
}

void rondo_layout_destroy(rondo_layout_t layout)
{
    free(layout);
}

static int check_rank(const struct rondo_layout *layout, int rank)
{
    if (!layout)
        return ri_error(RONDO_ERR_ARGUMENT, "layout is NULL");
    if (rank < 0 || rank >= layout->ranks)
        return ri_error(RONDO_ERR_ARGUMENT, "rank %d is not one of the layout's %d ranks", rank,
                        layout->ranks);
    return RONDO_OK;
}

/* Memory of the rank's shard may be NULL only when there is nothing in it. */
static int check_shard(const struct rondo_layout *layout, int rank, const char *name,
                       const void *memory)
{
    int err = check_rank(layout, rank);

    if (!err && !memory && ri_layout_tokens(layout, rank) > 0)
        return ri_error(RONDO_ERR_ARGUMENT, "%s is NULL: rank %d holds %" PRId64 " tokens", name,
                        rank, ri_layout_tokens(layout, rank));
    return err;
}

int64_t rondo_layout_tokens(rondo_layout_t layout, int rank)
{
    return check_rank(layout, rank) ? -1 : ri_layout_tokens(layout, rank);
}

rondo_status_t rondo_layout_positions(rondo_layout_t layout, int rank, int64_t *positions)
{
    struct ri_token_run runs[RI_LAYOUT_RUNS_MAX];
    int err = check_shard(layout, rank, "positions", positions);
    int count;

    if (err)
        return err;
    count = ri_layout_runs(layout, rank, runs);
    for (int r = 0; r < count; r++)
        for (int64_t i = 0; i < runs[r].count; i++)
            positions[runs[r].index + i] = runs[r].start + i * runs[r].step;
    return RONDO_OK;
}

rondo_status_t rondo_layout_owner(rondo_layout_t layout, int64_t position, int *rank,
                                  int64_t *index)
{
    if (!layout)
        return ri_error(RONDO_ERR_ARGUMENT, "layout is NULL");
    if (position < 0 || position >= layout->tokens)
        return ri_error(RONDO_ERR_ARGUMENT,
                        "position %" PRId64 " is outside the layout's %" PRId64 " tokens", position,
                        layout->tokens);
    if (!rank || !index)
        return ri_error(RONDO_ERR_ARGUMENT, "%s is NULL: it receives the owner's",
                        rank ? "index" : "rank");
    ri_layout_owner(layout, position, rank, index);
    return RONDO_OK;
}

/* The whole sequence must be addressable: tokens * token_bytes fits in size_t. */
static int check_copy(const struct rondo_layout *layout, int rank, const void *whole,
                      size_t token_bytes, const void *shard)
{
    int err = check_shard(layout, rank, "shard", shard);

    if (err)
        return err;
    if (!whole && ri_layout_tokens(layout, rank) > 0)
        return ri_error(RONDO_ERR_ARGUMENT, "whole is NULL");
    if (token_bytes == 0)
        return ri_error(RONDO_ERR_ARGUMENT, "token_bytes is 0: it must be positive");
    if ((uint64_t)layout->tokens > SIZE_MAX / token_bytes)
        return ri_error(RONDO_ERR_ARGUMENT,
                        "%" PRId64 " tokens of token_bytes %zu exceed the address space",
                        layout->tokens, token_bytes);
    return RONDO_OK;
}

/* Token i goes from from + i*from_step to to + i*to_step, in bytes; equal steps leave no gaps. */
static void copy_tokens(char *to, size_t to_step, const char *from, size_t from_step,
                        size_t token_bytes, size_t tokens)
{
    if (to_step == from_step) {
        memcpy(to, from, tokens * token_bytes);
        return;
    }
    for (size_t i = 0; i < tokens; i++)
        memcpy(to + i * to_step, from + i * from_step, token_bytes);
}

rondo_status_t rondo_layout_shard(rondo_layout_t layout, int rank, const void *whole,
                                  size_t token_bytes, void *shard)
{
    struct ri_token_run runs[RI_LAYOUT_RUNS_MAX];
    int err = check_copy(layout, rank, whole, token_bytes, shard);
    int count;

    if (err)
        return err;
    count = ri_layout_runs(layout, rank, runs);
    for (int r = 0; r < count; r++)
        copy_tokens((char *)shard + (size_t)runs[r].index * token_bytes, token_bytes,
                    (const char *)whole + (size_t)runs[r].start * token_bytes,
                    (size_t)runs[r].step * token_bytes, token_bytes, (size_t)runs[r].count);
    return RONDO_OK;
}

rondo_status_t rondo_layout_unshard(rondo_layout_t layout, int rank, const void *shard,
                                    size_t token_bytes, void *whole)
{
    struct ri_token_run runs[RI_LAYOUT_RUNS_MAX];
    int err = check_copy(layout, rank, whole, token_bytes, shard);
    int count;

    if (err)
        return err;
    count = ri_layout_runs(layout, rank, runs);
    for (int r = 0; r < count; r++)
        copy_tokens((char *)whole + (size_t)runs[r].start * token_bytes,
                    (size_t)runs[r].step * token_bytes,
                    (const char *)shard + (size_t)runs[r].index * token_bytes, token_bytes,
                    token_bytes, (size_t)runs[r].count);
    return RONDO_OK;
}

rondo_status_t rondo_layout_targets(rondo_layout_t layout, int rank, const int32_t *tokens,
                                    int32_t *targets)
{
    struct ri_token_run runs[RI_LAYOUT_RUNS_MAX];
    int err = check_shard(layout, rank, "targets", targets);
    int count;

    if (!err)
        err = check_shard(layout, rank, "tokens", tokens);
    if (err)
        return err;
    count = ri_layout_runs(layout, rank, runs);
    for (int r = 0; r < count; r++) {
        for (int64_t i = 0; i < runs[r].count; i++) {
            int64_t next = runs[r].start + i * runs[r].step + 1;

            targets[runs[r].index + i] = next < layout->tokens ? tokens[next] : RONDO_IGNORE;
        }
    }
    return RONDO_OK;
}

/* A causal query at position p sees p + 1 keys: a run of n sums to n*(start+1) + step*n*(n-1)/2. */
static int64_t causal_pairs(const struct ri_token_run *run)
{
    return run->count * (run->start + 1) + run->step * run->count * (run->count - 1) / 2;
}

static int check_pairs(const struct rondo_layout *layout, int rank, rondo_mask_t mask)
{
    int err = check_rank(layout, rank);

    if (err)
        return err;
    if (mask != RONDO_MASK_FULL && mask != RONDO_MASK_CAUSAL)
        return ri_error(RONDO_ERR_ARGUMENT, "mask %d is neither full nor causal", (int)mask);
    if (layout->tokens > INT32_MAX)
        return ri_error(RONDO_ERR_ARGUMENT,
                        "pairs of %" PRId64 " tokens are not counted: %" PRId32 " are the most",
                        layout->tokens, INT32_MAX);
    return RONDO_OK;
}

int64_t rondo_layout_pairs(rondo_layout_t layout, int rank, rondo_mask_t mask)
{
    struct ri_token_run runs[RI_LAYOUT_RUNS_MAX];
    int64_t pairs = 0;
    int count;

    if (check_pairs(layout, rank, mask))
        return -1;
    if (mask == RONDO_MASK_FULL)
        return ri_layout_tokens(layout, rank) * layout->tokens;
    count = ri_layout_runs(layout, rank, runs);
    for (int r = 0; r < count; r++)
        pairs += causal_pairs(&runs[r]);
    return pairs;
}
