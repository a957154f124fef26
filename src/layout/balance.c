/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks to ranks, by work. */
#include "layout/balance.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/minmax.h"
#include "base/status.h"

/* Where chunk_tokens is chosen. */
enum { CHUNKS_PER_RANK = 16 };

static int64_t tokens_of_chunk(const struct ri_balance *balance, int64_t tokens, int ranks)
{
    return balance->asked_tokens ? balance->asked_tokens : ri_divide_up(tokens, (int64_t)CHUNKS_PER_RANK * ranks);
}

/* ---- making one ---- */

static int allocate(struct ri_balance *balance, int ranks)
{
    size_t room = (size_t)balance->room;

    balance->rank = calloc(room, sizeof(*balance->rank));
    balance->work = calloc(room, sizeof(*balance->work));
    balance->heaviest = calloc(room, sizeof(*balance->heaviest));
    balance->next = calloc(room, sizeof(*balance->next));
    balance->spare = calloc((size_t)ranks, sizeof(*balance->spare));
    balance->held = calloc((size_t)ranks, sizeof(*balance->held));
    balance->lightest = calloc((size_t)ranks, sizeof(*balance->lightest));
    balance->first = calloc((size_t)ranks, sizeof(*balance->first));
    balance->areas = calloc((size_t)balance->area_room + 1, sizeof(*balance->areas));
    if (balance->rank && balance->work && balance->heaviest && balance->next && balance->spare && balance->held &&
        balance->lightest && balance->first && balance->areas)
        return 0;
    return ri_error(RONDO_ERR_MEMORY, "out of memory to balance %zu chunks over %d ranks", room, ranks);
}

int ri_balance_refuse_documents(const struct ri_mask *mask)
{
    return ri_error(RONDO_ERR_ARGUMENT, "mask %s says all of the sequence itself: a layout that is balanced for it "
                    "takes no cu_seqlens", ri_mask_name(mask->kind));
}

int ri_balance_create(const rondo_layout_desc_t *desc, struct ri_balance **balance)
{
    /* Stands for the layout that is being made, as far as areas need it. */
    struct rondo_layout plain = { .tokens = desc->tokens, .most_tokens = desc->tokens,
                                  .max_documents = ri_max(desc->documents, desc->max_documents) };
    struct ri_balance *made = calloc(1, sizeof(*made));
    int err;

    if (!made)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for a balanced layout");
    err = ri_mask_init(&made->mask, desc->mask, desc->mask_params, desc->tokens, desc->tokens);
    if (!err && plain.max_documents && !ri_mask_takes_documents(&made->mask))
        err = ri_balance_refuse_documents(&made->mask);
    if (!err) {
        made->asked_tokens = desc->chunk_tokens;
        made->room = made->asked_tokens ? ri_divide_up(desc->tokens, made->asked_tokens)
                                        : ri_min64(desc->tokens, (int64_t)CHUNKS_PER_RANK * desc->ranks);
        made->area_room = ri_mask_most_areas(&made->mask, &plain, &plain);
        err = allocate(made, desc->ranks);
    }
    if (err) {
        ri_balance_destroy(made);
        return err;
    }
    *balance = made;
    return 0;
}

int ri_balance_copy(const struct ri_balance *balance, int ranks, struct ri_balance **copy)
{
    struct ri_balance *made = calloc(1, sizeof(*made));
    int err;

    if (!made)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for a balanced layout");
    err = ri_mask_copy(&balance->mask, &made->mask);
    if (!err) {
        made->asked_tokens = balance->asked_tokens;
        made->room = balance->room;
        made->area_room = balance->area_room;
        err = allocate(made, ranks);
    }
    if (err) {
        ri_balance_destroy(made);
        return err;
    }
    *copy = made;
    return 0;
}

void ri_balance_destroy(struct ri_balance *balance)
{
    if (!balance)
        return;
    ri_mask_release(&balance->mask);
    free(balance->rank);
    free(balance->work);
    free(balance->heaviest);
    free(balance->next);
    free(balance->spare);
    free(balance->held);
    free(balance->lightest);
    free(balance->first);
    free(balance->areas);
    free(balance);
}

size_t ri_balance_bytes(const struct ri_balance *balance, int ranks)
{
    return sizeof(*balance) + ri_mask_bytes(&balance->mask) +
           (size_t)balance->room * (sizeof(*balance->rank) + 3 * sizeof(int64_t)) +
           (size_t)ranks * 4 * sizeof(int64_t) +
           ((size_t)balance->area_room + 1) * sizeof(*balance->areas);
}

/* ---- dealing ---- */

static void weigh_area(struct ri_balance *balance, const struct ri_area *area)
{
    int64_t side = balance->chunk_tokens;

    for (int64_t c = area->q_first / side; c * side < area->q_end; c++) {
        int64_t first = ri_max64(area->q_first, c * side), end = ri_min64(area->q_end, (c + 1) * side);

        balance->work[c] += ri_area_pairs(area, first, 1, end - first);
    }
}

/* Whatever has the largest key comes first, of several the lowest; first in item[0]. */
struct heap {
    const int64_t *key;
    int64_t *item, count;
};

static int comes_before(const struct heap *heap, int64_t a, int64_t b)
{
    return heap->key[a] != heap->key[b] ? heap->key[a] > heap->key[b] : a < b;
}

/* Puts the item at `parent` into its place among those below it. */
static void sift(const struct heap *heap, int64_t parent)
{
    int64_t *item = heap->item, moved = item[parent];

    for (int64_t child; (child = 2 * parent + 1) < heap->count; parent = child) {
        if (child + 1 < heap->count && comes_before(heap, item[child + 1], item[child]))
            child++;
        if (!comes_before(heap, item[child], moved))
            break;
        item[parent] = item[child];
    }
    item[parent] = moved;
}

static struct heap heap_of(const int64_t *key, int64_t *item, int64_t count)
{
    struct heap heap = { key, item, count };

    for (int64_t i = 0; i < count; i++)
        item[i] = i;
    for (int64_t parent = count / 2; parent-- > 0;)
        sift(&heap, parent);
    return heap;
}

static void drop_first(struct heap *heap)
{
    heap->item[0] = heap->item[--heap->count];
    if (heap->count)
        sift(heap, 0);
}

static void weigh_chunks(struct ri_balance *balance, const struct rondo_layout *layout)
{
    int64_t areas = ri_mask_areas(&balance->mask, layout, layout, balance->areas, balance->area_room);

    for (int64_t c = 0; c < balance->chunks; c++)
        balance->work[c] = 0;
    for (int64_t a = 0; a < areas; a++)
        weigh_area(balance, &balance->areas[a]);
}

/* Lists each rank's chunks as they ascend. */
static void link_chunks(struct ri_balance *balance, int ranks)
{
    for (int r = 0; r < ranks; r++)
        balance->first[r] = -1;
    for (int64_t c = balance->chunks; c-- > 0;) {
        balance->next[c] = balance->first[balance->rank[c]];
        balance->first[balance->rank[c]] = c;
    }
}

void ri_balance_deal(struct ri_balance *balance, const struct rondo_layout *layout)
{
    struct heap chunks, ranks;
    int64_t most;

    balance->chunk_tokens = tokens_of_chunk(balance, layout->tokens, layout->ranks);
    balance->chunks = ri_divide_up(layout->tokens, balance->chunk_tokens);
    most = ri_divide_up(balance->chunks, layout->ranks);
    weigh_chunks(balance, layout);
    for (int r = 0; r < layout->ranks; r++)
        balance->spare[r] = balance->held[r] = 0;
    chunks = heap_of(balance->work, balance->heaviest, balance->chunks);
    ranks = heap_of(balance->spare, balance->lightest, layout->ranks);
    for (; chunks.count; drop_first(&chunks)) {
        int64_t chunk = chunks.item[0], rank = ranks.item[0];

        balance->rank[chunk] = (int)rank;
        balance->spare[rank] -= balance->work[chunk];
        if (++balance->held[rank] == most)
            drop_first(&ranks);
        else
            sift(&ranks, 0);
    }
    link_chunks(balance, layout->ranks);
}

/* ---- what it says ---- */

int64_t ri_balance_most_chunks(const struct ri_balance *balance, int ranks)
{
    return ri_divide_up(balance->room, ranks);
}

/* ceil(chunks / ranks) chunks of the most tokens: of a given chunk size, that grows with the tokens.  Chosen
 * chunks have c tokens from 16 (c - 1) ranks + 1 tokens on to 16 c ranks, where a rank has 16 c of them; with
 * one token more chunks are larger, and a rank then has room for more than 16 c too. */
int64_t ri_balance_most_tokens(const struct ri_balance *balance, int64_t tokens, int ranks)
{
    int64_t side = ri_min64(tokens, tokens_of_chunk(balance, tokens, ranks));

    return side * ri_divide_up(ri_divide_up(tokens, side), ranks);
}

uint64_t ri_balance_hash(const struct ri_balance *balance)
{
    uint64_t hash = ri_mix(0, balance->chunk_tokens);

    for (int64_t c = 0; c < balance->chunks; c++)
        hash = ri_mix(hash, balance->rank[c]);
    return hash;
}

uint64_t ri_balance_desc_hash(const struct ri_balance *balance)
{
    return ri_mix(ri_mask_hash(&balance->mask), balance->asked_tokens);
}
