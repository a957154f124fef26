/* SPDX-License-Identifier: Apache-2.0 */
#include "layout/layout.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"

static const char *const kind_names[] = {
    [RONDO_LAYOUT_CONTIGUOUS] = "contiguous",
    [RONDO_LAYOUT_ZIGZAG] = "zigzag",
    [RONDO_LAYOUT_STRIPED] = "striped",
    [RONDO_LAYOUT_BALANCED] = "balanced",
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
                    "layout \"%s\" is unknown: it is one of contiguous, zigzag, striped, balanced", name);
}

const char *rondo_layout_kind_name(rondo_layout_kind_t kind)
{
    return kind_is_known(kind) ? kind_names[kind] : "unknown";
}

rondo_status_t rondo_layout_create(const rondo_layout_desc_t *desc, rondo_layout_t *layout)
{
    struct rondo_layout *made;
    int err;

    if (!layout)
        return ri_error(RONDO_ERR_ARGUMENT, "layout is NULL: it receives the new layout");
    err = ri_layout_make(desc, &made);
    if (!err)
        *layout = made;
    return err;
}

void rondo_layout_destroy(rondo_layout_t layout)
{
    ri_layout_free(layout);
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
    const struct ri_token_run *runs;
    int err = check_shard(layout, rank, "positions", positions);
    int count;

    if (err)
        return err;
    runs = ri_layout_runs(layout, rank, &count);
    for (int r = 0; r < count; r++)
        for (int64_t i = 0; i < runs[r].count; i++)
            positions[runs[r].index + i] = runs[r].start + i * runs[r].step;
    return RONDO_OK;
}

rondo_status_t rondo_layout_document_positions(rondo_layout_t layout, int rank, int64_t *positions)
{
    struct ri_document document = { 0, 0, 0 };
    int err = rondo_layout_positions(layout, rank, positions);
    int next_document = 0;

    if (err)
        return err;
    for (int64_t i = 0; i < ri_layout_tokens(layout, rank); i++) {
        while (positions[i] >= document.first + document.slots) /* positions ascend */
            document = ri_layout_document(layout, next_document++);
        positions[i] -= document.first;
    }
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
    const struct ri_token_run *runs;
    int err = check_copy(layout, rank, whole, token_bytes, shard);
    int count;

    if (err)
        return err;
    runs = ri_layout_runs(layout, rank, &count);
    for (int r = 0; r < count; r++)
        copy_tokens((char *)shard + (size_t)runs[r].index * token_bytes, token_bytes,
                    (const char *)whole + (size_t)runs[r].start * token_bytes,
                    (size_t)runs[r].step * token_bytes, token_bytes, (size_t)runs[r].count);
    return RONDO_OK;
}

rondo_status_t rondo_layout_unshard(rondo_layout_t layout, int rank, const void *shard,
                                    size_t token_bytes, void *whole)
{
    const struct ri_token_run *runs;
    int err = check_copy(layout, rank, whole, token_bytes, shard);
    int count;

    if (err)
        return err;
    runs = ri_layout_runs(layout, rank, &count);
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
    struct ri_document document = { 0, 0, 0 };
    const struct ri_token_run *runs;
    int next_document = 0;
    int err = check_shard(layout, rank, "targets", targets);
    int count;

    if (!err)
        err = check_shard(layout, rank, "tokens", tokens);
    if (err)
        return err;
    runs = ri_layout_runs(layout, rank, &count);
    for (int r = 0; r < count; r++) {
        for (int64_t i = 0; i < runs[r].count; i++) {
            int64_t position = runs[r].start + i * runs[r].step;

            while (position >= document.first + document.slots) /* positions ascend */
                document = ri_layout_document(layout, next_document++);
            targets[runs[r].index + i] =
                position + 1 < document.first + document.length ? tokens[position + 1] : RONDO_IGNORE;
        }
    }
    return RONDO_OK;
}
