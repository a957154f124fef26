/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of a mask: checked, sorted, and turned into areas. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"
#include "base/status.h"
#include "layout/mask.h"

/* An area and which entry of the caller's it is. */
struct entry {
    struct ri_area area;
    int index;
};

static int check_side(int index, const char *side, int64_t first, int64_t count, int64_t tokens)
{
    if (first < 0 || first > tokens)
        return ri_error(RONDO_ERR_ARGUMENT, "ranges[%d].%s_first is %" PRId64 ": there are %" PRId64 " tokens",
                        index, side, first, tokens);
    if (count < 0 || count > tokens - first)
        return ri_error(RONDO_ERR_ARGUMENT, "ranges[%d].%s_count is %" PRId64 ": from %" PRId64 " on there are %"
                        PRId64 " tokens", index, side, count, first, tokens - first);
    return 0;
}

static int check_range(int index, const rondo_range_t *range, int64_t q_tokens, int64_t k_tokens)
{
    int err = check_side(index, "q", range->q_first, range->q_count, q_tokens);

    if (!err)
        err = check_side(index, "k", range->k_first, range->k_count, k_tokens);
    if (err)
        return err;
    if ((unsigned)range->kind > RONDO_RANGE_BAND)
        return ri_error(RONDO_ERR_ARGUMENT, "ranges[%d].kind is %d: there is no such kind", index,
                        (int)range->kind);
    if (range->kind == RONDO_RANGE_BAND && range->lo > range->hi)
        return ri_error(RONDO_ERR_ARGUMENT, "ranges[%d].lo is %" PRId64 ": above hi, %" PRId64, index, range->lo,
                        range->hi);
    return 0;
}

/* Returns 0 when the range sees nothing. */
static int area_of(const rondo_range_t *range, struct ri_area *area)
{
    int64_t shift = range->q_first - range->k_first;
    int64_t lo = -range->k_count, hi = range->q_count; /* free, and no sum of them overflows */

    if (range->kind == RONDO_RANGE_CAUSAL || range->kind == RONDO_RANGE_BICAUSAL)
        lo = range->q_count - range->k_count;
    if (range->kind == RONDO_RANGE_INVERSE || range->kind == RONDO_RANGE_BICAUSAL)
        hi = 0;
    if (range->kind == RONDO_RANGE_BAND) {
        lo = ri_min64(ri_max64(lo, range->lo), range->q_count);
        hi = ri_max64(ri_min64(hi, range->hi), -range->k_count);
    }
    *area = (struct ri_area){
        .q_first = range->q_first, .q_end = range->q_first + range->q_count,
        .k_first = range->k_first, .k_end = range->k_first + range->k_count,
        .lo = lo + shift, .hi = hi + shift,
    };
    return ri_area_trim(area);
}

static int by_place(const void *a_entry, const void *b_entry)
{
    const struct entry *a = a_entry, *b = b_entry;

    if (a->area.q_first != b->area.q_first)
        return a->area.q_first < b->area.q_first ? -1 : 1;
    if (a->area.k_first != b->area.k_first)
        return a->area.k_first < b->area.k_first ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

static int have_a_pair_in_common(const struct ri_area *a, const struct ri_area *b)
{
    struct ri_area both = {
        .q_first = ri_max64(a->q_first, b->q_first), .q_end = ri_min64(a->q_end, b->q_end),
        .k_first = ri_max64(a->k_first, b->k_first), .k_end = ri_min64(a->k_end, b->k_end),
        .lo = ri_max64(a->lo, b->lo), .hi = ri_min64(a->hi, b->hi),
    };

    return ri_area_trim(&both);
}

/* Sweeps the queries: each entry meets those that began before it and have not ended.  live: [count]. */
static int check_disjoint(const struct entry *entries, int count, int *live)
{
    int live_count = 0;

    for (int e = 0; e < count; e++) {
        int kept = 0;

        for (int i = 0; i < live_count; i++) {
            const struct entry *other = &entries[live[i]];

            if (other->area.q_end <= entries[e].area.q_first)
                continue;
            if (have_a_pair_in_common(&other->area, &entries[e].area))
                return ri_error(RONDO_ERR_ARGUMENT, "ranges[%d] and ranges[%d] have pairs in common: no pair "
                                "may be in two ranges", ri_min(other->index, entries[e].index),
                                ri_max(other->index, entries[e].index));
            live[kept++] = live[i];
        }
        live[kept++] = e;
        live_count = kept;
    }
    return 0;
}

static int sort_areas(struct ri_mask *mask, struct entry *entries, int *live)
{
    int count = 0, err;

    for (int i = 0; i < mask->range_count; i++) {
        entries[count].index = i;
        count += area_of(&mask->ranges[i], &entries[count].area);
    }
    if (count)
        qsort(entries, (size_t)count, sizeof(*entries), by_place);
    err = check_disjoint(entries, count, live);
    for (int i = 0; !err && i < count; i++)
        mask->range_areas[i] = entries[i].area;
    mask->range_area_count = count;
    return err;
}

static int copy_ranges(struct ri_mask *mask, const rondo_mask_params_t *params)
{
    size_t count = (size_t)params->range_count;
    struct entry *entries = calloc(count + 1, sizeof(*entries));
    int *live = calloc(count + 1, sizeof(*live)), err;

    mask->ranges = calloc(count + 1, sizeof(*mask->ranges));
    mask->range_areas = calloc(count + 1, sizeof(*mask->range_areas));
    if (entries && live && mask->ranges && mask->range_areas) {
        if (count)
            memcpy(mask->ranges, params->ranges, count * sizeof(*mask->ranges));
        mask->range_count = params->range_count;
        err = sort_areas(mask, entries, live);
    } else {
        err = ri_error(RONDO_ERR_MEMORY, "out of memory for %zu ranges of a mask", count);
    }
    free(entries);
    free(live);
    return err;
}

int ri_mask_add_ranges(struct ri_mask *mask, const rondo_mask_params_t *params, int64_t q_tokens, int64_t k_tokens)
{
    int err = 0;

    if (params->range_count < 0)
        return ri_error(RONDO_ERR_ARGUMENT, "the mask's range_count is %d: it must be 0 or more",
                        params->range_count);
    if (params->range_count && !params->ranges)
        return ri_error(RONDO_ERR_ARGUMENT, "the mask's ranges is NULL and range_count is %d",
                        params->range_count);
    for (int i = 0; !err && i < params->range_count; i++)
        err = check_range(i, &params->ranges[i], q_tokens, k_tokens);
    return err ? err : copy_ranges(mask, params);
}
