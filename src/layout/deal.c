/* SPDX-License-Identifier: Apache-2.0 */
/* Dealing a sequence out: the runs of every rank, and what is looked up in them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/minmax.h"
#include "base/status.h"
#include "layout/balance.h"

/* ---- documents ---- */

int ri_layout_documents(const struct rondo_layout *layout)
{
    return ri_max(1, layout->documents);
}

struct ri_document ri_layout_document(const struct rondo_layout *layout, int document)
{
    if (layout->documents == 0)
        return (struct ri_document){ 0, layout->tokens, layout->tokens };
    return (struct ri_document){
        .first = layout->cu_seqlens[document],
        .length = layout->lengths[document],
        .slots = layout->cu_seqlens[document + 1] - layout->cu_seqlens[document],
    };
}

/* The last that starts at or before the position: those before it at the same place are empty. */
int ri_layout_document_of(const struct rondo_layout *layout, int64_t position)
{
    int first = 0, end = ri_layout_documents(layout);

    while (end - first > 1) {
        int middle = first + (end - first) / 2;

        if (layout->cu_seqlens[middle] <= position)
            first = middle;
        else
            end = middle;
    }
    return first;
}

/* ---- runs ---- */

/* Behind the rank's last run, or as its continuation. */
static void append_run(struct rondo_layout *layout, int rank, struct ri_token_run run)
{
    size_t first = layout->first_run[rank], *end = &layout->first_run[rank + 1];
    struct ri_token_run *last = *end > first ? &layout->runs[*end - 1] : NULL;

    if (run.count == 0)
        return;
    if (last && run.start - layout->step == last->start + (last->count - 1) * layout->step) {
        last->count += run.count;
        return;
    }
    run.index = last ? last->index + last->count : 0;
    run.step = layout->step;
    layout->runs[(*end)++] = run;
}

/* The rank's share of positions [first, first + slots), as if they were the sequence. */
static void deal_slots(struct rondo_layout *layout, int rank, int64_t first, int64_t slots)
{
    struct ri_token_run runs[2];
    int count = ri_layout_map(layout->kind)->runs(slots, layout->ranks, rank, runs);

    for (int i = 0; i < count; i++) {
        runs[i].start += first;
        append_run(layout, rank, runs[i]);
    }
}

static void deal_chunks(struct rondo_layout *layout, int rank)
{
    const struct ri_balance *balance = layout->balance;

    for (int64_t c = balance->first[rank]; c >= 0; c = balance->next[c]) {
        int64_t first = c * balance->chunk_tokens;

        append_run(layout, rank, (struct ri_token_run){
            .count = ri_min64(balance->chunk_tokens, layout->tokens - first), .start = first });
    }
}

static void deal_rank(struct rondo_layout *layout, int rank)
{
    if (layout->balance) {
        deal_chunks(layout, rank);
        return;
    }
    if (layout->deal == RONDO_DEAL_SEQUENCE) {
        deal_slots(layout, rank, 0, layout->tokens);
        return;
    }
    for (int d = 0; d < ri_layout_documents(layout); d++) {
        struct ri_document document = ri_layout_document(layout, d);

        deal_slots(layout, rank, document.first, document.slots);
    }
}

static uint64_t hash_of(const struct rondo_layout *layout)
{
    uint64_t hash = ri_mix(ri_mix(ri_mix(0, layout->kind), layout->deal), layout->tokens);

    hash = ri_mix(ri_mix(hash, layout->ranks), layout->documents);
    for (int d = 0; d < layout->documents; d++)
        hash = ri_mix(ri_mix(hash, layout->cu_seqlens[d + 1]), layout->lengths[d]);
    return layout->balance ? ri_mix(hash, (int64_t)ri_balance_hash(layout->balance)) : hash;
}

static void deal(struct rondo_layout *layout)
{
    if (layout->balance)
        ri_balance_deal(layout->balance, layout);
    layout->first_run[0] = 0;
    for (int r = 0; r < layout->ranks; r++) {
        layout->first_run[r + 1] = layout->first_run[r];
        deal_rank(layout, r);
    }
    layout->hash = hash_of(layout);
}

/* ---- making, copying, fitting ---- */

/* The arrays may be the layout's own. */
static void set_batch(struct rondo_layout *layout, int64_t tokens, const int64_t *cu_seqlens, int documents,
                      const int64_t *lengths)
{
    layout->tokens = tokens;
    layout->documents = documents;
    if (documents == 0)
        return;
    memmove(layout->cu_seqlens, cu_seqlens, ((size_t)documents + 1) * sizeof(*cu_seqlens));
    if (lengths)
        memmove(layout->lengths, lengths, (size_t)documents * sizeof(*lengths));
    for (int d = 0; !lengths && d < documents; d++)
        layout->lengths[d] = cu_seqlens[d + 1] - cu_seqlens[d];
}

/* No run is empty, so there are no more than tokens. */
static size_t most_runs_in_all(const struct rondo_layout *layout)
{
    int64_t dealt = layout->deal == RONDO_DEAL_DOCUMENTS ? ri_max(1, layout->max_documents) : 1;

    if (layout->balance)
        return (size_t)layout->balance->room;
    return (size_t)ri_min64(layout->most_tokens, dealt * layout->ranks * ri_layout_document_runs(layout));
}

static int allocate(struct rondo_layout *layout)
{
    size_t documents = (size_t)layout->max_documents;

    layout->run_room = most_runs_in_all(layout);
    layout->runs = calloc(layout->run_room, sizeof(*layout->runs));
    layout->first_run = calloc((size_t)layout->ranks + 1, sizeof(*layout->first_run));
    if (documents) {
        layout->cu_seqlens = calloc(documents + 1, sizeof(*layout->cu_seqlens));
        layout->lengths = calloc(documents, sizeof(*layout->lengths));
    }
    if (layout->runs && layout->first_run && (!documents || (layout->cu_seqlens && layout->lengths)))
        return 0;
    return ri_error(RONDO_ERR_MEMORY, "out of memory for a layout of %d ranks and %d documents", layout->ranks,
                    layout->max_documents);
}

int ri_layout_make(const rondo_layout_desc_t *desc, struct rondo_layout **layout)
{
    struct rondo_layout *made;
    int err = ri_layout_check_desc(desc);

    if (err)
        return err;
    made = calloc(1, sizeof(*made));
    if (!made)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for a layout");
    made->kind = desc->kind;
    made->deal = desc->deal;
    made->tokens = made->most_tokens = desc->tokens;
    made->ranks = desc->ranks;
    made->max_documents = ri_max(desc->max_documents, desc->documents);
    made->step = desc->kind == RONDO_LAYOUT_STRIPED ? desc->ranks : 1;
    if (desc->kind == RONDO_LAYOUT_BALANCED)
        err = ri_balance_create(desc, &made->balance);
    if (!err)
        err = allocate(made);
    if (err) {
        ri_layout_free(made);
        return err;
    }
    set_batch(made, desc->tokens, desc->cu_seqlens, desc->documents, desc->lengths);
    deal(made);
    *layout = made;
    return 0;
}

int ri_layout_copy(const struct rondo_layout *layout, struct rondo_layout **copy)
{
    struct rondo_layout *made = calloc(1, sizeof(*made));
    int err = 0;

    if (!made)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for a layout");
    *made = *layout;
    made->runs = NULL;
    made->first_run = NULL;
    made->cu_seqlens = made->lengths = NULL;
    made->balance = NULL;
    if (layout->balance)
        err = ri_balance_copy(layout->balance, layout->ranks, &made->balance);
    if (!err)
        err = allocate(made);
    if (err) {
        ri_layout_free(made);
        return err;
    }
    set_batch(made, layout->tokens, layout->cu_seqlens, layout->documents, layout->lengths);
    deal(made);
    *copy = made;
    return 0;
}

int ri_layout_fit(struct rondo_layout *layout, int64_t tokens, const int64_t *cu_seqlens, int documents,
                  const int64_t *lengths)
{
    int err;

    if (tokens < 1 || tokens > layout->most_tokens)
        return ri_error(RONDO_ERR_ARGUMENT, "tokens is %" PRId64 ": the layout was made for 1 to %" PRId64,
                        tokens, layout->most_tokens);
    err = ri_layout_check_documents(tokens, cu_seqlens, documents, lengths);
    if (err)
        return err;
    if (documents > layout->max_documents)
        return ri_error(RONDO_ERR_ARGUMENT, "documents is %d: the layout was made for at most %d "
                        "(max_documents)", documents, layout->max_documents);
    if (documents && layout->balance && !ri_mask_takes_documents(&layout->balance->mask))
        return ri_balance_refuse_documents(&layout->balance->mask);
    set_batch(layout, tokens, cu_seqlens, documents, lengths);
    deal(layout);
    return 0;
}

size_t ri_layout_bytes(const struct rondo_layout *layout)
{
    size_t documents = (size_t)layout->max_documents;

    return sizeof(*layout) + layout->run_room * sizeof(*layout->runs) +
           ((size_t)layout->ranks + 1) * sizeof(*layout->first_run) +
           (documents ? 2 * documents + 1 : 0) * sizeof(int64_t) +
           (layout->balance ? ri_balance_bytes(layout->balance, layout->ranks) : 0);
}

void ri_layout_free(struct rondo_layout *layout)
{
    if (!layout)
        return;
    ri_balance_destroy(layout->balance);
    free(layout->runs);
    free(layout->first_run);
    free(layout->cu_seqlens);
    free(layout->lengths);
    free(layout);
}
