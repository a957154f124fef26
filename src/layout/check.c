/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller asks of a layout. */
#include <inttypes.h>

#include "base/status.h"
#include "layout/layout.h"

/* No entry before this one descends, so that none is below the first, 0. */
static int check_entry(const int64_t *cu_seqlens, int d, const int64_t *lengths)
{
    int64_t slots;

    if (cu_seqlens[d + 1] < cu_seqlens[d])
        return ri_error(RONDO_ERR_ARGUMENT, "cu_seqlens[%d] is %" PRId64 ", below cu_seqlens[%d], %" PRId64
                        ": it must ascend", d + 1, cu_seqlens[d + 1], d, cu_seqlens[d]);
    slots = cu_seqlens[d + 1] - cu_seqlens[d];
    if (lengths && (lengths[d] < 0 || lengths[d] > slots))
        return ri_error(RONDO_ERR_ARGUMENT, "lengths[%d] is %" PRId64 ": document %d has room for 0 to %" PRId64
                        " tokens by cu_seqlens", d, lengths[d], d, slots);
    return 0;
}

int ri_layout_check_documents(int64_t tokens, const int64_t *cu_seqlens, int documents, const int64_t *lengths)
{
    int err = 0;

    if (!cu_seqlens) {
        if (documents != 0)
            return ri_error(RONDO_ERR_ARGUMENT, "documents is %d and cu_seqlens is NULL: give both or neither",
                            documents);
        return lengths ? ri_error(RONDO_ERR_ARGUMENT, "lengths is given and cu_seqlens is NULL") : 0;
    }
    if (documents < 1)
        return ri_error(RONDO_ERR_ARGUMENT, "documents is %d: cu_seqlens has documents + 1 entries, of 1 or "
                        "more documents", documents);
    if (cu_seqlens[0] != 0)
        return ri_error(RONDO_ERR_ARGUMENT, "cu_seqlens[0] is %" PRId64 ": it must be 0", cu_seqlens[0]);
    for (int d = 0; !err && d < documents; d++)
        err = check_entry(cu_seqlens, d, lengths);
    if (!err && cu_seqlens[documents] != tokens)
        return ri_error(RONDO_ERR_ARGUMENT, "cu_seqlens[%d], the last, is %" PRId64 ": it must be the number "
                        "of tokens, %" PRId64, documents, cu_seqlens[documents], tokens);
    return err;
}

static int check_balanced(const rondo_layout_desc_t *desc)
{
    if (desc->deal == RONDO_DEAL_DOCUMENTS)
        return ri_error(RONDO_ERR_ARGUMENT, "desc.deal is RONDO_DEAL_DOCUMENTS: a balanced layout deals out "
                        "chunks of the sequence, RONDO_DEAL_SEQUENCE");
    if (desc->chunk_tokens < 0)
        return ri_error(RONDO_ERR_ARGUMENT, "desc.chunk_tokens is %" PRId64 ": it must be 0 (chosen) or more",
                        desc->chunk_tokens);
    if (desc->tokens > INT32_MAX)
        return ri_error(RONDO_ERR_ARGUMENT, "desc.tokens is %" PRId64 ": a balanced layout has at most %" PRId32,
                        desc->tokens, INT32_MAX);
    return 0;
}

static int check_batch(const rondo_layout_desc_t *desc)
{
    int err = ri_layout_check_documents(desc->tokens, desc->cu_seqlens, desc->documents, desc->lengths);

    if (err)
        return err;
    if ((unsigned)desc->deal > RONDO_DEAL_DOCUMENTS)
        return ri_error(RONDO_ERR_ARGUMENT, "desc.deal is %d: it must be RONDO_DEAL_SEQUENCE "
                        "or RONDO_DEAL_DOCUMENTS", (int)desc->deal);
    if (desc->max_documents < 0 || (desc->max_documents && desc->max_documents < desc->documents))
        return ri_error(RONDO_ERR_ARGUMENT, "desc.max_documents is %d: it must be 0 (as documents) or no less "
                        "than documents, %d", desc->max_documents, desc->documents);
    return desc->kind == RONDO_LAYOUT_BALANCED ? check_balanced(desc) : 0;
}

int ri_layout_check_desc(const rondo_layout_desc_t *desc)
{
    if (!desc)
        return ri_error(RONDO_ERR_ARGUMENT, "desc is NULL");
    if (desc->struct_bytes != sizeof(*desc))
        return ri_error(RONDO_ERR_ARGUMENT,
                        "desc.struct_bytes is %zu, not %zu: start from RONDO_LAYOUT_DESC_INIT",
                        desc->struct_bytes, sizeof(*desc));
    if ((unsigned)desc->kind > RONDO_LAYOUT_BALANCED)
        return ri_error(RONDO_ERR_ARGUMENT, "desc.kind is %d: it must be RONDO_LAYOUT_CONTIGUOUS, "
                        "RONDO_LAYOUT_ZIGZAG, RONDO_LAYOUT_STRIPED or RONDO_LAYOUT_BALANCED", (int)desc->kind);
    if (desc->tokens < 1)
        return ri_error(RONDO_ERR_ARGUMENT, "desc.tokens is %" PRId64 ": it must be positive",
                        desc->tokens);
    if (desc->ranks < 1 || desc->ranks > RI_LAYOUT_RANKS_MAX)
        return ri_error(RONDO_ERR_ARGUMENT, "desc.ranks is %d: it must be positive, and at most %d", desc->ranks,
                        RI_LAYOUT_RANKS_MAX);
    return check_batch(desc);
}
