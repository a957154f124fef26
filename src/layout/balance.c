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

static int64_t divide_up(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

static int64_t tokens_of_chunk(const struct ri_balance *balance, int64_t tokens, int ranks)
{
    return balance->asked_tokens ? balance->asked_tokens : divide_up(tokens, (int64_t)CHUNKS_PER_RANK * ranks);
}

/* ---- making one ---- */

static int allocate(struct ri_balance *balance, int ranks)
{
    size_t room = (size_t)balance->room;

    balance->rank = calloc(room, sizeof(*balance->rank));
    balance->work = calloc(room, sizeof(*balance->work));
    balance->order = calloc(room, sizeof(*balance->order));
    balance->load = calloc((size_t)ranks, sizeof(*balance->load));
    balance->held = calloc((size_t)ranks, sizeof(*balance->held));
    balance->areas = calloc((size_t)balance->area_room + 1, sizeof(*balance->areas));
    if (balance->rank && balance->work && balance->order && balance->load && balance->held && balance->areas)
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
        made->room = made->asked_tokens ? divide_up(desc->tokens, made->asked_tokens)
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
    free(balance->order);
    free(balance->load);
    free(balance->held);
    free(balance->areas);
    free(balance);
}

size_t ri_balance_bytes(const struct ri_balance *balance, int ranks)
{
    return sizeof(*balance) + ri_mask_bytes(&balance->mask) +
           (size_t)balance->room * (sizeof(*balance->rank) + sizeof(*balance->work) + sizeof(*balance->order)) +
           (size_t)ranks * (sizeof(*balance->load) + sizeof(*balance->held)) +
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

static int comes_first(const struct ri_balance *balance, int64_t a, int64_t b)
{
    return balance->work[a] != balance->work[b] ? balance->work[a] > balance->work[b] : a < b;
}

/* Of a heap whose parents come after their children. */
static void sift(const struct ri_balance *balance, int64_t parent, int64_t count)
{
    int64_t *order = balance->order, moved = order[parent];

    for (int64_t child; (child = 2 * parent + 1) < count; parent = child) {
        if (child + 1 < count && comes_first(balance, order[child], order[child + 1]))
            child++;
        if (!comes_first(balance, moved, order[child]))
            break;
        order[parent] = order[child];
    }
    order[parent] = moved;
}

/* In place: qsort may allocate. */
static void sort_chunks(const struct ri_balance *balance)
{
    int64_t *order = balance->order;

    for (int64_t c = 0; c < balance->chunks; c++)
        order[c] = c;
    for (int64_t parent = balance->chunks / 2; parent-- > 0;)
        sift(balance, parent, balance->chunks);
    for (int64_t last = balance->chunks; last-- > 1;) {
        int64_t top = order[0];

        order[0] = order[last];
        order[last] = top;
        sift(balance, 0, last);
    }
}

static int lightest_with_room(const struct ri_balance *balance, int ranks, int64_t most)
{
    int lightest = -1;

    for (int r = 0; r < ranks; r++)
        if (balance->held[r] < most && (lightest < 0 || balance->load[r] < balance->load[lightest]))
            lightest = r;
    return lightest;
}

void ri_balance_deal(struct ri_balance *balance, const struct rondo_layout *layout)
{
    int64_t areas = ri_mask_areas(&balance->mask, layout, layout, balance->areas, balance->area_room), most;

    balance->chunk_tokens = tokens_of_chunk(balance, layout->tokens, layout->ranks);
    balance->chunks = divide_up(layout->tokens, balance->chunk_tokens);
    most = divide_up(balance->chunks, layout->ranks);
    for (int64_t c = 0; c < balance->chunks; c++)
        balance->work[c] = 0;
    for (int r = 0; r < layout->ranks; r++)
        balance->load[r] = balance->held[r] = 0;
    for (int64_t a = 0; a < areas; a++)
        weigh_area(balance, &balance->areas[a]);
    sort_chunks(balance);
    for (int64_t i = 0; i < balance->chunks; i++) {
        int64_t chunk = balance->order[i];
        int rank = lightest_with_room(balance, layout->ranks, most);

        balance->rank[chunk] = rank;
        balance->load[rank] += balance->work[chunk];
        balance->held[rank]++;
    }
}

/* ---- what it says ---- */

int64_t ri_balance_most_chunks(const struct ri_balance *balance, int ranks)
{
    return divide_up(balance->room, ranks);
}

/* ceil(chunks / ranks) chunks of the most tokens: of a given chunk size, that grows with the tokens.  Chosen
 * chunks have c tokens from 16 (c - 1) ranks + 1 tokens on to 16 c ranks, where a rank has 16 c of them; with
 * one token more chunks are larger, and a rank then has room for more than 16 c too. */
int64_t ri_balance_most_tokens(const struct ri_balance *balance, int64_t tokens, int ranks)
{
    int64_t side = ri_min64(tokens, tokens_of_chunk(balance, tokens, ranks));

    return side * divide_up(divide_up(tokens, side), ranks);
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
