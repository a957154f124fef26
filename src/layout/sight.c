/* SPDX-License-Identifier: Apache-2.0 */
/* Who sees whom, as tiles of block pairs. */
#include "layout/sight.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/minmax.h"
#include "base/status.h"

/* Of either side, so that sums of positions and bounds do not overflow. */
static const int64_t most_tokens = INT64_MAX / 16;

/* ---- making one ---- */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The most of the intervals [starts[i], ends[i]) that have a point in common; sorts both. */
static int64_t most_at_once(int64_t *starts, int64_t *ends, size_t count)
{
    int64_t most = 0;
    size_t ended = 0;

    qsort(starts, count, sizeof(*starts), by_value);
    qsort(ends, count, sizeof(*ends), by_value);
    for (size_t i = 0; i < count; i++) {
        while (ends[ended] <= starts[i])
            ended++;
        most = ri_max64(most, (int64_t)(i + 1 - ended));
    }
    return most;
}

/* Of blocks and ranges, which are the same at any batch, or cut. */
static int count_overlaps(struct ri_sight *sight)
{
    size_t count = (size_t)sight->count;
    int64_t *starts = calloc(2 * count + 1, sizeof(*starts)), *ends = starts + count;

    if (!starts)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %zu areas of a mask", count);
    for (size_t i = 0; i < count; i++)
        starts[i] = sight->areas[i].q_first, ends[i] = sight->areas[i].q_end;
    sight->of_query = most_at_once(starts, ends, count);
    for (size_t i = 0; i < count; i++)
        starts[i] = sight->areas[i].k_first, ends[i] = sight->areas[i].k_end;
    sight->of_key = most_at_once(starts, ends, count);
    if (sight->mask.kind == RONDO_MASK_RANGES) /* bands may share what they do not see */
        sight->of_pair = ri_min64(sight->of_query, sight->of_key);
    free(starts);
    return 0;
}

static int check_layouts(const struct rondo_layout *q, const struct rondo_layout *k)
{
    if (q->ranks != k->ranks)
        return ri_error(RONDO_ERR_ARGUMENT, "the layout of keys is for %d ranks, that of queries for %d", k->ranks,
                        q->ranks);
    if (q->step != k->step)
        return ri_error(RONDO_ERR_ARGUMENT, "the layout of keys is %s and that of queries is %s: use striped for "
                        "both or neither", rondo_layout_kind_name(k->kind), rondo_layout_kind_name(q->kind));
    if (q->most_tokens > most_tokens || k->most_tokens > most_tokens)
        return ri_error(RONDO_ERR_ARGUMENT, "%" PRId64 " tokens are too many for attention",
                        ri_max64(q->most_tokens, k->most_tokens));
    return 0;
}

static int check_documents(const struct ri_sight *sight)
{
    if (sight->q->documents != sight->k->documents)
        return ri_error(RONDO_ERR_ARGUMENT, "documents is %d of queries and %d of keys: both must have as many",
                        sight->q->documents, sight->k->documents);
    if (sight->q->documents && !ri_mask_takes_documents(&sight->mask))
        return ri_error(RONDO_ERR_ARGUMENT, "mask %s says all of the sequence itself: it takes no cu_seqlens, and "
                        "there are %d documents", ri_mask_name(sight->mask.kind), sight->q->documents);
    return 0;
}

static int list_areas(struct ri_sight *sight)
{
    int err;

    sight->room = ri_mask_most_areas(&sight->mask, sight->q, sight->k);
    sight->areas = calloc((size_t)sight->room + 1, sizeof(*sight->areas));
    if (!sight->areas)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %" PRId64 " areas of a mask", sight->room);
    err = ri_sight_fit(sight);
    sight->of_query = sight->mask.prefix > 0 ? 2 : 1;
    sight->of_key = sight->of_pair = 1;
    return err || ri_mask_takes_documents(&sight->mask) ? err : count_overlaps(sight);
}

int ri_sight_init(struct ri_sight *sight, const struct rondo_layout *q, const struct rondo_layout *k,
                  rondo_mask_t mask, const rondo_mask_params_t *params)
{
    int err = check_layouts(q, k);

    *sight = (struct ri_sight){ .q = q, .k = k };
    if (!err)
        err = ri_mask_init(&sight->mask, mask, params, q->tokens, k->tokens);
    if (!err)
        err = list_areas(sight);
    if (err)
        ri_sight_release(sight);
    return err;
}

int ri_sight_fit(struct ri_sight *sight)
{
    int err = check_documents(sight);

    if (!err)
        sight->count = ri_mask_areas(&sight->mask, sight->q, sight->k, sight->areas, sight->room);
    return err;
}

void ri_sight_release(struct ri_sight *sight)
{
    ri_mask_release(&sight->mask);
    free(sight->areas);
    sight->areas = NULL;
    sight->count = sight->room = 0;
}

size_t ri_sight_bytes(const struct ri_sight *sight)
{
    return ri_mask_bytes(&sight->mask) + ((size_t)sight->room + 1) * sizeof(*sight->areas);
}

/* ---- tiles ---- */

/* b > 0. */
static int64_t divide_down(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* The part of a run at positions [first, end); 0 when there is none. */
static int clip(const struct ri_token_run *run, int64_t first, int64_t end, struct ri_token_run *part)
{
    int64_t from = first > run->start ? ri_divide_up(first - run->start, run->step) : 0;
    int64_t to = ri_min64(run->count, ri_divide_up(end - run->start, run->step));

    if (from >= to)
        return 0;
    *part = (struct ri_token_run){ run->index + from, to - from, run->start + from * run->step, run->step };
    return 1;
}

static int64_t last_position(const struct ri_token_run *run)
{
    return run->start + (run->count - 1) * run->step;
}

/* Of runs that ascend, the first that has a position at or behind `position`; count: none. */
static int first_run_at(const struct ri_token_run *runs, int count, int64_t position)
{
    int first = 0;

    while (first < count) {
        int middle = first + (count - first) / 2;

        if (last_position(&runs[middle]) < position)
            first = middle + 1;
        else
            count = middle;
    }
    return first;
}

/* What is done with tiles: kept while there is room, and counted. */
struct sink {
    rondo_tile_t *tiles;
    int64_t max, count, pairs;
};

static void take_tile(struct sink *sink, const struct ri_area *area, const struct ri_token_run *q,
                      const struct ri_token_run *k)
{
    int64_t apart = q->start - k->start;
    rondo_tile_t tile = {
        .q_first = q->index, .q_count = q->count, .q_start = q->start, .q_step = q->step,
        .k_first = k->index, .k_count = k->count, .k_start = k->start, .k_step = k->step,
        .lo = ri_max64(1 - k->count, ri_divide_up(area->lo - apart, q->step)),
        .hi = ri_min64(q->count - 1, divide_down(area->hi - apart, q->step)),
    };

    if (!ri_tile_trim(&tile))
        return;
    if (sink->count < sink->max)
        sink->tiles[sink->count] = tile;
    sink->count++;
    sink->pairs += ri_tile_pairs(&tile);
}

/* A part of a run of queries, which lies in the area, against the keys that it sees there. */
static void meet_keys(struct sink *sink, const struct ri_area *area, const struct ri_token_run *q,
                      const struct ri_token_run *runs, int count)
{
    int64_t first = ri_max64(area->k_first, q->start - area->hi);
    int64_t end = ri_min64(area->k_end, last_position(q) - area->lo + 1);
    struct ri_token_run k;

    for (int i = first_run_at(runs, count, first); i < count && runs[i].start < end; i++)
        if (clip(&runs[i], first, end, &k))
            take_tile(sink, area, q, &k);
}

static void meet(const struct ri_sight *sight, int q_rank, int k_rank, struct sink *sink)
{
    int q_count, k_count;
    const struct ri_token_run *q_runs = ri_layout_runs(sight->q, q_rank, &q_count);
    const struct ri_token_run *k_runs = ri_layout_runs(sight->k, k_rank, &k_count);
    struct ri_token_run q;
    int before = 0; /* runs that end before the first query of this area, and so before those of later ones */

    for (int64_t a = 0; a < sight->count && before < q_count; a++) {
        const struct ri_area *area = &sight->areas[a];

        while (before < q_count && last_position(&q_runs[before]) < area->q_first)
            before++;
        for (int i = before; i < q_count && q_runs[i].start < area->q_end; i++)
            if (clip(&q_runs[i], area->q_first, area->q_end, &q))
                meet_keys(sink, area, &q, k_runs, k_count);
    }
}

int64_t ri_sight_tiles(const struct ri_sight *sight, int q_rank, int k_rank, rondo_tile_t *tiles, int64_t max)
{
    struct sink sink = { .tiles = tiles, .max = max };

    meet(sight, q_rank, k_rank, &sink);
    return sink.count;
}

int64_t ri_sight_pairs(const struct ri_sight *sight, int q_rank, int k_rank)
{
    struct sink sink = { .tiles = NULL };

    meet(sight, q_rank, k_rank, &sink);
    return sink.pairs;
}

int64_t ri_sight_query_pairs(const struct ri_sight *sight, int q_rank)
{
    int count, before = 0;
    const struct ri_token_run *runs = ri_layout_runs(sight->q, q_rank, &count);
    struct ri_token_run part;
    int64_t pairs = 0;

    for (int64_t a = 0; a < sight->count && before < count; a++) {
        const struct ri_area *area = &sight->areas[a];

        while (before < count && last_position(&runs[before]) < area->q_first)
            before++;
        for (int i = before; i < count && runs[i].start < area->q_end; i++)
            if (clip(&runs[i], area->q_first, area->q_end, &part))
                pairs += ri_area_pairs(area, part.start, part.step, part.count);
    }
    return pairs;
}

/* ---- how many tiles ---- */

/* Let q and k be the most runs of either side.  An area with x runs of queries in it, less one, and y of keys,
 * less one, has (1 + x) (1 + y) tiles at most.  It holds the last position of each of those x, so all x
 * together are no more than q - 1 times the areas of a query; y likewise; and all x y no more than the pairs of
 * such positions times the areas of a pair.  One query sees disjoint keys: of its areas' runs only k - 1 can be
 * counted twice.  A pair is in one tile of an area.
 *
 * Where both sides deal out each document by itself, only runs within one document meet. */
struct ri_sight_bound ri_sight_bound(const struct ri_sight *sight)
{
    int64_t q = ri_layout_most_runs(sight->q), k = ri_layout_most_runs(sight->k);
    int64_t areas = sight->room;
    int by_document = sight->q->deal == RONDO_DEAL_DOCUMENTS && sight->k->deal == RONDO_DEAL_DOCUMENTS &&
                      ri_mask_takes_documents(&sight->mask);

    if (by_document) {
        q = ri_layout_document_runs(sight->q);
        k = ri_layout_document_runs(sight->k);
        areas = sight->of_query; /* of one document */
    }
    return (struct ri_sight_bound){
        .tiles = (by_document ? sight->room / sight->of_query : 1) *
                 (areas + (q - 1) * sight->of_query + (k - 1) * sight->of_key +
                  (q - 1) * (k - 1) * sight->of_pair),
        .of_query = sight->of_query + k - 1,
        .of_key = sight->of_key + q - 1,
        .of_pair = sight->of_pair,
    };
}
