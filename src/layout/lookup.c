/* SPDX-License-Identifier: Apache-2.0 */
/* What a layout says of shards, positions and owners. */
#include "base/hash.h"
#include "base/minmax.h"
#include "layout/balance.h"

const struct ri_token_run *ri_layout_runs(const struct rondo_layout *layout, int rank, int *count)
{
    *count = (int)(layout->first_run[rank + 1] - layout->first_run[rank]);
    return layout->runs + layout->first_run[rank];
}

int ri_layout_document_runs(const struct rondo_layout *layout)
{
    return layout->balance ? 1 : ri_layout_map(layout->kind)->most_runs;
}

int64_t ri_layout_most_runs(const struct rondo_layout *layout)
{
    int64_t most = ri_layout_document_runs(layout);

    if (layout->balance)
        most = ri_balance_most_chunks(layout->balance, layout->ranks);
    else if (layout->deal == RONDO_DEAL_DOCUMENTS)
        most *= ri_max(1, layout->max_documents);
    return ri_min64(most, ri_layout_most_largest(layout)); /* no run is empty */
}

int64_t ri_layout_tokens(const struct rondo_layout *layout, int rank)
{
    int count;
    const struct ri_token_run *runs = ri_layout_runs(layout, rank, &count);

    return count ? runs[count - 1].index + runs[count - 1].count : 0;
}

int64_t ri_layout_largest(const struct rondo_layout *layout)
{
    int64_t largest = 0;

    for (int r = 0; r < layout->ranks; r++)
        largest = ri_max64(largest, ri_layout_tokens(layout, r));
    return largest;
}

/* A rank has ceil(n / ranks) of n tokens at most, in every kind.  Of documents, each rounded up, the sum is
 * greatest where each has one token more than a multiple of ranks. */
int64_t ri_layout_most_largest(const struct rondo_layout *layout)
{
    int64_t tokens = layout->most_tokens, ranks = layout->ranks;
    int64_t dealt = layout->deal == RONDO_DEAL_DOCUMENTS ? ri_max(1, layout->max_documents) : 1;

    if (layout->balance)
        return ri_min64(tokens, ri_balance_most_tokens(layout->balance, tokens, layout->ranks));
    return ri_min64(tokens, tokens / ranks + (tokens % ranks + dealt * (ranks - 1)) / ranks);
}

/* Of the shard's runs, which ascend in both, the last at or before an index, or a position. */
static const struct ri_token_run *run_of(const struct rondo_layout *layout, int rank, int64_t at, int by_position)
{
    int end, first = 0;
    const struct ri_token_run *runs = ri_layout_runs(layout, rank, &end);

    while (end - first > 1) {
        int middle = first + (end - first) / 2;

        if ((by_position ? runs[middle].start : runs[middle].index) <= at)
            first = middle;
        else
            end = middle;
    }
    return &runs[first];
}

int64_t ri_layout_position(const struct rondo_layout *layout, int rank, int64_t index)
{
    const struct ri_token_run *run = run_of(layout, rank, index, 0);

    return run->start + (index - run->index) * run->step;
}

static int rank_of(const struct rondo_layout *layout, int64_t position)
{
    struct ri_document document = { 0, layout->tokens, layout->tokens };

    if (layout->balance)
        return layout->balance->rank[position / layout->balance->chunk_tokens];
    if (layout->deal == RONDO_DEAL_DOCUMENTS)
        document = ri_layout_document(layout, ri_layout_document_of(layout, position));
    return ri_layout_map(layout->kind)->rank(document.slots, layout->ranks, position - document.first);
}

void ri_layout_owner(const struct rondo_layout *layout, int64_t position, int *rank, int64_t *index)
{
    const struct ri_token_run *run;

    *rank = rank_of(layout, position);
    run = run_of(layout, *rank, position, 1);
    *index = run->index + (position - run->start) / run->step;
}

uint64_t ri_layout_hash(const struct rondo_layout *layout)
{
    return layout->hash;
}

uint64_t ri_layout_desc_hash(const struct rondo_layout *layout)
{
    uint64_t hash = ri_mix(ri_mix(layout->hash, layout->most_tokens), layout->max_documents);

    return layout->balance ? ri_mix(hash, (int64_t)ri_balance_desc_hash(layout->balance)) : hash;
}

int ri_layout_is_token(const struct rondo_layout *layout, int64_t position)
{
    struct ri_document document = ri_layout_document(layout, ri_layout_document_of(layout, position));

    return position - document.first < document.length;
}
