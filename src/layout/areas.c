/* SPDX-License-Identifier: Apache-2.0 */
/* Masks as areas: a few rectangles with a band, whatever the layout. */
#include <string.h>

#include "base/minmax.h"
#include "layout/layout.h"
#include "layout/mask.h"

/* A bound that is none, and to which positions can be added. */
static const int64_t open_end = INT64_MAX / 4;

int ri_area_trim(struct ri_area *area)
{
    if (area->q_first >= area->q_end || area->k_first >= area->k_end)
        return 0;
    area->lo = ri_max64(area->lo, area->q_first - (area->k_end - 1));
    area->hi = ri_min64(area->hi, area->q_end - 1 - area->k_first);
    if (area->lo > area->hi)
        return 0;
    area->q_first = ri_max64(area->q_first, area->k_first + area->lo);
    area->q_end = ri_min64(area->q_end, area->k_end + area->hi);
    area->k_first = ri_max64(area->k_first, area->q_first - area->hi);
    area->k_end = ri_min64(area->k_end, area->q_end - area->lo);
    area->lo = ri_max64(area->lo, area->q_first - (area->k_end - 1));
    area->hi = ri_min64(area->hi, area->q_end - 1 - area->k_first);
    return 1;
}

/* Sum of max(0, from + i * step) for 0 <= i < count. */
static int64_t positive_sum(int64_t from, int64_t step, int64_t count)
{
    int64_t skipped = from > 0 ? 0 : -from / step + 1;
    int64_t n = count - skipped, first = from + skipped * step;

    return n > 0 ? n * first + step * (n * (n - 1) / 2) : 0;
}

/* Keys of an area up to key x: max(0, x - k_first + 1) - max(0, x - k_end + 1). */
int64_t ri_area_pairs(const struct ri_area *area, int64_t first, int64_t step, int64_t count)
{
    int64_t upper = first - area->lo + 1, lower = first - area->hi;

    return positive_sum(upper - area->k_first, step, count) - positive_sum(upper - area->k_end, step, count) -
           positive_sum(lower - area->k_first, step, count) + positive_sum(lower - area->k_end, step, count);
}

/* ---- lists ---- */

struct list {
    struct ri_area *areas;
    int64_t count, max;
};

static void add(struct list *list, struct ri_area area)
{
    if (!ri_area_trim(&area))
        return;
    if (list->count < list->max)
        list->areas[list->count] = area;
    list->count++;
}

/* Of one document; base: what query - key is where both are at the same place of it. */
static void add_document(struct list *list, const struct ri_mask *mask, const struct ri_document *q,
                         const struct ri_document *k)
{
    struct ri_area area = { q->first, q->first + q->length, k->first, k->first + k->length, -open_end, open_end };
    int64_t base = q->first - k->first - (mask->align_ends ? k->length - q->length : 0);
    int64_t prefix = ri_min64(mask->prefix, k->length);

    if (mask->kind == RONDO_MASK_CAUSAL || mask->kind == RONDO_MASK_PREFIX)
        area.lo = base;
    if (mask->kind == RONDO_MASK_STRICT)
        area.lo = base + 1;
    if (mask->kind == RONDO_MASK_WINDOW && mask->right >= 0)
        area.lo = base - ri_min64(mask->right, open_end);
    if (mask->kind == RONDO_MASK_WINDOW && mask->left >= 0)
        area.hi = base + ri_min64(mask->left, open_end);
    if (prefix > 0) {
        struct ri_area seen_by_all = area;

        seen_by_all.k_end = area.k_first += prefix;
        seen_by_all.lo = -open_end;
        add(list, seen_by_all);
    }
    add(list, area);
}

/* Blocks of the batch, whose last row and column may be cut. */
struct grid {
    const struct ri_mask *mask;
    int64_t q_tokens, k_tokens, rows, cols;
};

static int is_set(const struct grid *grid, int64_t row, int64_t col)
{
    return grid->mask->blocks[row * grid->mask->block_cols + col] != 0;
}

static int rows_are_equal(const struct grid *grid, int64_t a, int64_t b)
{
    for (int64_t c = 0; c < grid->cols; c++)
        if (is_set(grid, a, c) != is_set(grid, b, c))
            return 0;
    return 1;
}

/* Rows [first, end) are equal: one area for each run of set blocks. */
static void add_rows(struct list *list, const struct grid *grid, int64_t first, int64_t end)
{
    int64_t side = grid->mask->block_tokens;

    for (int64_t c = 0; c < grid->cols; c++) {
        int64_t from = c;

        while (c < grid->cols && is_set(grid, first, c))
            c++;
        if (c > from)
            add(list, (struct ri_area){ first * side, ri_min64(end * side, grid->q_tokens), from * side,
                                        ri_min64(c * side, grid->k_tokens), -open_end, open_end });
    }
}

static void add_blocks(struct list *list, const struct ri_mask *mask, int64_t q_tokens, int64_t k_tokens)
{
    int64_t side = mask->block_tokens, end;
    struct grid grid = { mask, q_tokens, k_tokens, (q_tokens + side - 1) / side, (k_tokens + side - 1) / side };

    for (int64_t row = 0; row < grid.rows; row = end) {
        end = row + 1;
        while (end < grid.rows && rows_are_equal(&grid, row, end))
            end++;
        add_rows(list, &grid, row, end);
    }
}

/* Cut off at the end of the batch: earlier queries see no later keys than later ones do, so order stays. */
static void add_ranges(struct list *list, const struct ri_mask *mask, int64_t q_tokens, int64_t k_tokens)
{
    for (int64_t i = 0; i < mask->range_area_count; i++) {
        struct ri_area area = mask->range_areas[i];

        area.q_end = ri_min64(area.q_end, q_tokens);
        area.k_end = ri_min64(area.k_end, k_tokens);
        add(list, area);
    }
}

int64_t ri_mask_areas(const struct ri_mask *mask, const struct rondo_layout *q, const struct rondo_layout *k,
                      struct ri_area *areas, int64_t max)
{
    struct list list = { areas, 0, max };

    if (mask->kind == RONDO_MASK_BLOCKS) {
        add_blocks(&list, mask, q->tokens, k->tokens);
    } else if (mask->kind == RONDO_MASK_RANGES) {
        add_ranges(&list, mask, q->tokens, k->tokens);
    } else {
        for (int d = 0; d < ri_layout_documents(q); d++) {
            struct ri_document q_document = ri_layout_document(q, d), k_document = ri_layout_document(k, d);

            add_document(&list, mask, &q_document, &k_document);
        }
    }
    return list.count;
}

/* Shorter batches have parts of the same blocks and ranges, of which no more are apart. */
int64_t ri_mask_most_areas(const struct ri_mask *mask, const struct rondo_layout *q, const struct rondo_layout *k)
{
    struct list list = { NULL, 0, 0 };

    if (mask->kind == RONDO_MASK_RANGES)
        return mask->range_area_count;
    if (mask->kind != RONDO_MASK_BLOCKS)
        return (int64_t)ri_max(1, ri_min(q->max_documents, k->max_documents)) * (mask->prefix > 0 ? 2 : 1);
    add_blocks(&list, mask, q->most_tokens, k->most_tokens);
    return list.count;
}
