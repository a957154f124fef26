/* SPDX-License-Identifier: Apache-2.0 */
/* Draws masks: queries (rows) against keys (columns), both in the order of shards. */
#include "tests/unit/masks_shown.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "layout/sight.h"

static const char *const layouts[] = {"contiguous", "zigzag", "striped", "balanced"};

enum { MAX_TILES = 26, LINES = 40, WIDTH = 80, GAP = 3 };

/* ---- drawing ---- */

struct canvas {
    char line[LINES][WIDTH + 1];
};

/* Text from column x on; what it covers must be blank. */
__attribute__((format(printf, 4, 5)))
static void put(struct canvas *canvas, int64_t y, int64_t x, const char *format, ...)
{
    char text[WIDTH + 1];
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    assert_in_range(y, 0, LINES - 1);
    assert_true(length >= 0 && x + length <= WIDTH);
    for (int i = 0; i < length; i++)
        assert_int_equal(canvas->line[y][x + i], ' ');
    memcpy(&canvas->line[y][x], text, (size_t)length);
}

/* One layout's part of a picture, whose upper left corner is (x, 1). */
struct column {
    const struct picture *p;
    struct canvas *canvas;
    int x;
    rondo_layout_t q, k;
    struct ri_sight sight;
    int64_t q_at[SHOWN_RANKS][SHOWN_TOKENS], k_at[SHOWN_RANKS][SHOWN_TOKENS]; /* positions */
    int64_t q_count[SHOWN_RANKS], k_count[SHOWN_RANKS], pairs[SHOWN_RANKS], tiles;
    int needed; /* blocks of other ranks of which some key is seen */
};

static void open_column(struct column *c, rondo_layout_kind_t kind)
{
    rondo_mask_params_t params = picture_params(c->p);

    c->k = picture_layout(c->p, kind, SHOWN_TOKENS, SHOWN_RANKS);
    c->q = c->p->queries ? picture_layout(c->p, kind, c->p->queries, SHOWN_RANKS) : c->k;
    assert_int_equal(ri_sight_init(&c->sight, c->q, c->k, c->p->mask, &params), 0);
    for (int r = 0; r < SHOWN_RANKS; r++) {
        c->q_count[r] = rondo_layout_tokens(c->q, r);
        c->k_count[r] = rondo_layout_tokens(c->k, r);
        assert_int_equal(rondo_layout_positions(c->q, r, c->q_at[r]), 0);
        assert_int_equal(rondo_layout_positions(c->k, r, c->k_at[r]), 0);
    }
}

static void close_column(struct column *c)
{
    ri_sight_release(&c->sight);
    if (c->q != c->k)
        rondo_layout_destroy(c->q);
    rondo_layout_destroy(c->k);
}

static int tile_sees(const rondo_tile_t *tile, int64_t query, int64_t key, int *inside)
{
    int64_t i = query - tile->q_first, j = key - tile->k_first;

    *inside = i >= 0 && i < tile->q_count && j >= 0 && j < tile->k_count;
    return *inside && tile->lo <= i - j && i - j <= tile->hi;
}

/* The letter of the tile in which query i of a block sees key j, '-' where a band hides it, '.' in no tile. */
static char mark_of(const rondo_tile_t *tiles, int64_t count, int64_t i, int64_t j, int *seen)
{
    char mark = '.';

    *seen = 0;
    for (int64_t t = 0; t < count; t++) {
        int inside, sees_it = tile_sees(&tiles[t], i, j, &inside);

        if (sees_it)
            mark = (char)('a' + t);
        else if (inside && mark == '.')
            mark = '-';
        *seen += sees_it;
    }
    return mark;
}

static void draw_block(struct column *c, int q_rank, int k_rank, int y, int x)
{
    rondo_tile_t tiles[MAX_TILES];
    int64_t count = ri_sight_tiles(&c->sight, q_rank, k_rank, tiles, MAX_TILES);

    assert_true(count <= MAX_TILES);
    for (int64_t i = 0; i < c->q_count[q_rank]; i++)
        for (int64_t j = 0; j < c->k_count[k_rank]; j++) {
            int seen;

            put(c->canvas, y + i, x + j, "%c", mark_of(tiles, count, i, j, &seen));
            assert_int_equal(seen, picture_sees(c->p, c->q_at[q_rank][i], c->k_at[k_rank][j]));
            c->pairs[q_rank] += seen;
        }
    c->tiles += count;
    c->needed += q_rank != k_rank && count > 0;
}

/* Rows of a rank from y on; returns the line behind them. */
static int draw_rank(struct column *c, int q_rank, int y)
{
    int x = c->x + 2;

    for (int64_t i = 0; i < c->q_count[q_rank]; i++)
        put(c->canvas, y + i, c->x, "%llX", (unsigned long long)c->q_at[q_rank][i]);
    for (int r = 0; r < SHOWN_RANKS; r++) {
        draw_block(c, q_rank, r, y, x);
        x += (int)c->k_count[r];
        for (int64_t i = 0; r < SHOWN_RANKS - 1 && i < c->q_count[q_rank]; i++)
            put(c->canvas, y + i, x, "|");
        x++;
    }
    return y + (int)c->q_count[q_rank];
}

/* The positions of the keys, or a line between ranks. */
static void draw_line(struct column *c, int y, int positions)
{
    int x = c->x + 2;

    for (int r = 0; r < SHOWN_RANKS; r++) {
        for (int64_t j = 0; j < c->k_count[r]; j++, x++)
            if (positions)
                put(c->canvas, y, x, "%llX", (unsigned long long)c->k_at[r][j]);
            else
                put(c->canvas, y, x, "-");
        if (r < SHOWN_RANKS - 1)
            put(c->canvas, y, x, positions ? "|" : "+");
        x++;
    }
}

static void draw_figures(struct column *c, int y)
{
    int64_t all = 0, most = 0;

    for (int r = 0; r < SHOWN_RANKS; r++) {
        all += c->pairs[r];
        most = c->pairs[r] > most ? c->pairs[r] : most;
        assert_int_equal(ri_sight_query_pairs(&c->sight, r), c->pairs[r]);
    }
    put(c->canvas, y, c->x, "pairs %d %d %d", (int)c->pairs[0], (int)c->pairs[1], (int)c->pairs[2]);
    put(c->canvas, y + 1, c->x, "max/mean %.2f", (double)most * SHOWN_RANKS / (double)all);
    put(c->canvas, y + 2, c->x, "tiles %d", (int)c->tiles);
    put(c->canvas, y + 3, c->x, "needed %d of %d", c->needed, SHOWN_RANKS * (SHOWN_RANKS - 1));
}

static void draw_column(const struct picture *p, struct canvas *canvas, int index)
{
    struct column c = {.p = p, .canvas = canvas, .x = index * (2 + SHOWN_TOKENS + SHOWN_RANKS - 1 + GAP)};
    int y = 3;

    open_column(&c, (rondo_layout_kind_t)index);
    put(canvas, 1, c.x, "%s", layouts[index]);
    draw_line(&c, 2, 1);
    for (int r = 0; r < SHOWN_RANKS; r++) {
        if (r > 0)
            draw_line(&c, y++, 0);
        y = draw_rank(&c, r, y);
    }
    draw_figures(&c, y);
    close_column(&c);
}

/* ---- what the picture is of ---- */

static void write_numbers(FILE *out, const char *what, const int64_t *numbers, int count)
{
    fprintf(out, ", %s", what);
    for (int i = 0; i < count; i++)
        fprintf(out, " %d", (int)numbers[i]);
}

static void write_ranges(FILE *out, const struct picture *p)
{
    static const char *const names[] = {"full", "causal", "inverse", "bicausal", "band"};

    for (int n = 0; n < p->params.range_count; n++) {
        const rondo_range_t *r = &p->params.ranges[n];

        fprintf(out, "queries %d to %d, keys %d to %d: %s", (int)r->q_first, (int)(r->q_first + r->q_count - 1),
                (int)r->k_first, (int)(r->k_first + r->k_count - 1), names[r->kind]);
        if (r->kind == RONDO_RANGE_BAND)
            fprintf(out, ", lo %d, hi %d", (int)r->lo, (int)r->hi);
        fputc('\n', out);
    }
}

static void write_caption(FILE *out, const struct picture *p)
{
    static const char *const names[] = {"full", "causal", "strict", "window", "prefix", "blocks", "ranges"};

    fputs(names[p->mask], out);
    if (p->mask == RONDO_MASK_WINDOW)
        fprintf(out, ", left %d, right %d", (int)p->params.left, (int)p->params.right);
    if (p->mask == RONDO_MASK_PREFIX)
        fprintf(out, " %d", (int)p->params.prefix);
    if (p->mask == RONDO_MASK_BLOCKS)
        fprintf(out, " of %d tokens", (int)p->params.block_tokens);
    for (int i = 0; p->mask == RONDO_MASK_BLOCKS && i < 16; i++)
        fprintf(out, "%s%d", i % 4 ? "" : " ", p->params.blocks[i]);
    if (p->documents)
        write_numbers(out, "cu_seqlens", p->cu_seqlens, p->documents + 1);
    if (p->lengths)
        write_numbers(out, "lengths", p->lengths, p->documents);
    if (p->deal == RONDO_DEAL_DOCUMENTS)
        fputs(", each document dealt out by itself", out);
    if (p->queries)
        fprintf(out, ", %d queries and %d keys, %s aligned", (int)p->queries, SHOWN_TOKENS,
                p->params.align_ends ? "ends" : "starts");
    fputc('\n', out);
    write_ranges(out, p);
}

/* Without the blanks at its end. */
static int length_of(const char *line)
{
    int length = WIDTH;

    while (length > 0 && line[length - 1] == ' ')
        length--;
    return length;
}

void write_picture(FILE *out, const struct picture *p)
{
    static struct canvas canvas;

    memset(canvas.line, ' ', sizeof(canvas.line));
    for (int i = 0; i < p->columns; i++)
        draw_column(p, &canvas, i);
    write_caption(out, p);
    for (int y = 0; y == 0 || length_of(canvas.line[y]); y++)
        fprintf(out, "%.*s\n", length_of(canvas.line[y]), canvas.line[y]);
}

/* ---- the table of costs ---- */

static void write_cost(FILE *out, const struct picture *p, rondo_layout_kind_t kind)
{
    rondo_mask_params_t params = picture_params(p);
    rondo_layout_t layout = picture_layout(p, kind, COST_TOKENS, COST_RANKS);
    struct ri_sight sight;
    int64_t all = 0, most = 0, tiles = 0, needed = 0;

    assert_int_equal(ri_sight_init(&sight, layout, layout, p->mask, &params), 0);
    for (int q = 0; q < COST_RANKS; q++) {
        int64_t pairs = ri_sight_query_pairs(&sight, q);

        all += pairs;
        most = pairs > most ? pairs : most;
        for (int k = 0; k < COST_RANKS; k++) {
            int64_t count = ri_sight_tiles(&sight, q, k, NULL, 0);

            tiles += count;
            needed += q != k && count > 0;
        }
    }
    fprintf(out, "  %4.2f %2d %5d", (double)most * COST_RANKS / (double)all, (int)needed, (int)tiles);
    ri_sight_release(&sight);
    rondo_layout_destroy(layout);
}

void write_costs(FILE *out)
{
    fprintf(out, "%-15s", "");
    for (int kind = 0; kind < 4; kind++)
        fprintf(out, kind < 3 ? "  %-13s" : "  %s", layouts[kind]);
    for (int i = 0; i < cost_count; i++) {
        fprintf(out, "\n%-15s", costs[i].name);
        for (int kind = 0; kind < costs[i].columns; kind++)
            write_cost(out, &costs[i], (rondo_layout_kind_t)kind);
    }
    fputc('\n', out);
}
