/* SPDX-License-Identifier: Apache-2.0 */
/* The tiles of COMPUTE steps, cut into pieces of about a millisecond, and at the borders of chunks. */
#include <math.h>
#include <stdlib.h>

#include "base/minmax.h"
#include "base/status.h"
#include "plan/chunks.h"

/* A piece of work is at most about so many multiply-adds, so that messages are looked after every millisecond
 * or so; or, of a kernel that looks after them itself (RONDO_KERNEL_POLLS), so that whoever else wants the
 * communicator comes to it.  Tiles are cut to squares: a kernel loads queries and keys once a call, so that
 * calls of few queries, or of few keys, would cost more for loading than for computing. */
#define PIECE_MACS ((int64_t)32 << 20)
#define POLLED_MACS ((int64_t)1 << 31)
/* Sides are not less than what makes a call worth while, if that is not four times the work, and parts multiples
 * of what kernels take at a time. */
#define LEAST_SIDE 192
#define PART_STEP 64
#define POLLED_LEAST_SIDE 768
/* So that tables do not grow with the square of the tokens, a side of the longest block has no more pieces. */
#define MOST_SIDES 128
/* Of a COMPUTE step whose keys come in chunks, so that tables do not grow with chunks times rows: pieces
 * have more rows then, and more work. */
#define CHUNKED_TILES 8192

static int polls(const struct ri_plan *plan)
{
    return (plan->kernel.flags & RONDO_KERNEL_POLLS) != 0;
}

static int64_t macs_per_pair(const struct ri_plan *plan)
{
    return plan->desc.batch * plan->desc.q_heads * ((int64_t)plan->desc.qk_dim + plan->desc.v_dim);
}

static int64_t piece_macs(const struct ri_plan *plan)
{
    return polls(plan) ? POLLED_MACS : PIECE_MACS;
}

/* Queries of a piece, and keys of it. */
static int64_t piece_side(const struct ri_plan *plan)
{
    double pairs = (double)piece_macs(plan) / (double)macs_per_pair(plan);
    int64_t side = (int64_t)sqrt(pairs);

    if (polls(plan))
        side = ri_max64(side, ri_min64(POLLED_LEAST_SIDE, (int64_t)sqrt(4 * pairs)));
    side = ri_max64(side, LEAST_SIDE);
    return ri_max64(side, ri_max64(plan->max_tokens[RI_QUERIES], plan->max_tokens[RI_KEYS]) / MOST_SIDES);
}

static int cuts_keys(const struct ri_chunk_cut *cut)
{
    return cut->bundle >= 0 && cut->side == 1;
}

/* The least rows of a piece, where `queries` meet keys in so many chunks. */
static int64_t chunked_rows(int64_t queries, uint32_t chunks)
{
    int64_t rows = (queries * chunks + CHUNKED_TILES - 1) / CHUNKED_TILES;

    return ri_max64(rows, LEAST_SIDE);
}

/* ---- filling the lists ---- */

struct cut {
    struct ri_pass *pass;
    uint32_t tile_count, piece_count;
    uint16_t q_block, k_block; /* the pair of an operand's blocks whose tiles are being cut */
    int64_t room;              /* multiply-adds that the last piece has left */
    struct ri_chunk_cut chunks; /* of the step */
    int64_t least_rows;        /* of a piece */
};

static int add_tile(struct cut *cut, const rondo_tile_t *tile)
{
    struct ri_pass *pass = cut->pass;
    int64_t pairs = ri_tile_pairs(tile), macs = pairs * macs_per_pair(pass->plan);
    int fits = macs <= cut->room && (pass->plan->kernel.flags & RONDO_KERNEL_MERGES);
    struct ri_piece *piece;

    if (cut->tile_count == pass->tile_room)
        return ri_error(RONDO_ERR_INTERNAL, "schedule %s has more than the %u tiles there is room for",
                        pass->schedule->name, pass->tile_room);
    cut->room = (fits ? cut->room : piece_macs(pass->plan)) - macs;
    if (!fits)
        pass->work[cut->piece_count++] =
            (struct ri_piece){ .first_tile = cut->tile_count, .q_block = cut->q_block,
                               .k_block = cut->k_block };
    piece = &pass->work[cut->piece_count - 1];
    piece->tile_count++;
    piece->pairs += pairs;
    pass->tiles[cut->tile_count++] = *tile;
    return 0;
}

/* Cuts off the part of a tile that lies in both regions, whose first tokens are then 0. */
static int clip(const rondo_tile_t *tile, const struct ri_region *q, const struct ri_region *k,
                rondo_tile_t *out)
{
    int64_t first = k->first > tile->k_first ? k->first - tile->k_first : 0;
    int64_t end = k->first + k->count - tile->k_first;

    *out = *tile;
    if (end > tile->k_count)
        end = tile->k_count;
    if (end - first < tile->k_count && !ri_tile_keys(out, first, end - first, out))
        return 0;
    first = q->first > out->q_first ? q->first - out->q_first : 0;
    end = q->first + q->count - out->q_first;
    if (end > out->q_count)
        end = out->q_count;
    if (end - first < out->q_count && !ri_tile_queries(out, first, end - first, out))
        return 0;
    out->q_first -= q->first;
    out->k_first -= k->first;
    return 1;
}

/* Tokens of one of as many equal parts as come nearest to `side`: a last part of a few tokens would cost a
 * kernel as much loading as a whole one. */
static int64_t equal_part(int64_t tokens, int64_t side)
{
    int64_t parts = ri_max64(1, (tokens + side / 2) / side), part = (tokens + parts - 1) / parts;

    return (part + PART_STEP - 1) / PART_STEP * PART_STEP;
}

/* Large tiles are cut to squares, small ones put together, up to one kernel call's worth. */
static int cut_tile(struct cut *cut, const rondo_tile_t *tile)
{
    int64_t side = piece_side(cut->pass->plan), keys = equal_part(tile->k_count, side);
    int64_t rows = equal_part(tile->q_count, ri_max64(side, cut->least_rows));
    int err = 0;

    for (int64_t i = 0; !err && i < tile->q_count; i += rows) {
        rondo_tile_t row, part;

        if (!ri_tile_queries(tile, i, ri_min64(rows, tile->q_count - i), &row))
            continue;
        for (int64_t j = 0; !err && j < row.k_count; j += keys)
            if (ri_tile_keys(&row, j, ri_min64(keys, row.k_count - j), &part))
                err = add_tile(cut, &part);
    }
    return err;
}

/* What both operands name of a pair of blocks, and a chunk of it. */
struct pair {
    struct ri_region all[2], chunk[2]; /* of the query, of the key */
};

/* The chunk's part of the tiles; no piece has tiles of two chunks. */
static int cut_chunk(struct cut *cut, const struct pair *pair, const rondo_tile_t *tiles, int64_t count)
{
    rondo_tile_t part;
    int err = 0;

    cut->room = 0;
    for (int64_t i = 0; !err && i < count; i++) {
        if (!clip(&tiles[i], &pair->chunk[0], &pair->chunk[1], &part))
            continue;
        part.q_first += pair->chunk[0].first - pair->all[0].first;
        part.k_first += pair->chunk[1].first - pair->all[1].first;
        err = cut_tile(cut, &part);
    }
    return err;
}

static int cut_block_pair(struct cut *cut, const struct ri_operand *query, const struct ri_operand *key)
{
    const struct ri_plan *plan = cut->pass->plan;
    const struct ri_schedule *s = cut->pass->schedule;
    struct pair pair = { { ri_operand_region(plan, s, query), ri_operand_region(plan, s, key) }, { { 0 } } };
    struct ri_region *cut_one = &pair.all[cut->chunks.side];
    uint32_t chunks = cut->chunks.bundle < 0 ? 1 : ri_chunks_count(cut->pass, cut->chunks.bundle, cut_one);
    int64_t count = ri_sight_tiles(&plan->sight, s->owner[query->block], s->owner[key->block], plan->seen,
                                   plan->seen_room);
    int err = 0;

    if (count > plan->seen_room)
        return ri_error(RONDO_ERR_INTERNAL, "%lld tiles of a block pair, and there is room for %lld", (long long)count,
                        (long long)plan->seen_room);
    cut->least_rows = cuts_keys(&cut->chunks) ? chunked_rows(pair.all[0].count, chunks) : 0;
    for (uint32_t c = 0; !err && c < chunks; c++) {
        pair.chunk[0] = pair.all[0];
        pair.chunk[1] = pair.all[1];
        pair.chunk[cut->chunks.side] = ri_chunks_cut(chunks, cut_one, c);
        err = cut_chunk(cut, &pair, plan->seen, count);
    }
    return err;
}

static int cut_step(struct cut *cut, const struct ri_step *step)
{
    int err = 0;

    cut->chunks = ri_chunks_of_compute(cut->pass, step);
    for (int q = 0; !err && q < step->from[0].blocks; q++) {
        for (int k = 0; !err && k < step->from[1].blocks; k++) {
            struct ri_operand query = ri_operand_block(&step->from[0], q);
            struct ri_operand key = ri_operand_block(&step->from[1], k);

            cut->q_block = (uint16_t)q;
            cut->k_block = (uint16_t)k;
            err = cut_block_pair(cut, &query, &key);
        }
    }
    return err;
}

/* Pieces of a step that computes nothing. */
static uint32_t count_pieces(const struct ri_pass *pass, const struct ri_step *step)
{
    if (step->op == RI_MERGE)
        return ri_chunks_of_merge(pass, step);
    return !ri_step_moves(step); /* COPY, and a COMPUTE that only empties its target */
}

int ri_pieces_list(struct ri_pass *pass)
{
    const struct ri_schedule *s = pass->schedule;
    struct cut cut = { .pass = pass };

    ri_chunks_choose(pass);
    for (uint32_t i = 0; i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];
        int err = 0;

        pass->first_piece[i] = cut.piece_count;
        if (step->op == RI_COMPUTE)
            err = cut_step(&cut, step);
        if (err)
            return err;
        pass->pieces[i] = cut.piece_count - pass->first_piece[i];
        if (pass->pieces[i] == 0)
            pass->pieces[i] = count_pieces(pass, step);
    }
    pass->first_piece[s->step_count] = cut.piece_count;
    ri_needs_list(pass);
    return 0;
}

/* ---- how long they may become ---- */

/* The most tiles that a COMPUTE step has at any batch that may be bound.  Let the operands have at most Q
 * queries and K keys, and let the sight say that a block pair has at most T tiles, of which a query is in at
 * most A and a key in at most B.
 *
 * Clipping to parts makes no more of them, and each border between two of C chunks of keys cuts those that
 * the key before it is in: T + (C - 1) B tiles, and A + C - 1 for a query.  (Chunks of queries: A for B, and
 * B + C - 1 for a key.)
 *
 * A tile of q queries and k keys is then cut to about q / R rows and k / S columns of parts, at most
 * q k / (R S) + q / R + k / S + 1.  The q of all tiles add up to at most Q times the tiles that a query is in,
 * their k likewise, and the q k to at most Q K times the tiles that a query and a key are in together, however
 * tiles were cut before.  R is at least S; in c chunks of the key it is at least Q c / CHUNKED_TILES, so that
 * Q (A + c - 1) / R is at most A CHUNKED_TILES. */
static uint64_t most_tiles(const struct ri_pass *pass, const struct ri_step *step)
{
    const struct ri_plan *plan = pass->plan;
    struct ri_sight_bound bound = ri_sight_bound(&plan->sight);
    struct ri_chunk_cut chunks = ri_chunks_of_compute(pass, step);
    double borders = chunks.bundle < 0 ? 0 : (double)pass->most_chunks[chunks.bundle] - 1;
    double in[RI_SIDES] = { (double)bound.of_query, (double)bound.of_key }, tokens[RI_SIDES];
    double side = (double)piece_side(plan), tiles = (double)bound.tiles, area, rows;

    for (int i = 0; i < RI_SIDES; i++)
        tokens[i] = (double)ri_min64(plan->max_tokens[i], step->from[i].parts *
                                     ri_part_tokens(plan->max_tokens[i], pass->schedule->token_parts));
    area = tokens[RI_QUERIES] * tokens[RI_KEYS] * (double)bound.of_pair / (side * side);
    tiles += borders * in[chunks.side ? RI_KEYS : RI_QUERIES];
    in[chunks.side ? RI_QUERIES : RI_KEYS] += borders;
    rows = tokens[RI_QUERIES] * in[RI_QUERIES] / side;
    if (cuts_keys(&chunks) && rows > (double)bound.of_query * CHUNKED_TILES)
        rows = (double)bound.of_query * CHUNKED_TILES;
    tiles += area + rows + tokens[RI_KEYS] * in[RI_KEYS] / side + 1;
    tiles *= (double)step->from[0].blocks * step->from[1].blocks;
    return tiles < (double)UINT32_MAX ? (uint64_t)tiles : UINT32_MAX;
}

static uint32_t most_pieces(const struct ri_pass *pass, const struct ri_step *step)
{
    return (uint32_t)most_tiles(pass, step);
}

int ri_pieces_init(struct ri_pass *pass)
{
    const struct ri_schedule *s = pass->schedule;
    size_t steps = (size_t)s->step_count + 1;
    uint64_t room = 0;
    int err;

    for (uint32_t i = 0; i < s->step_count; i++)
        if (s->steps[i].op == RI_COMPUTE)
            room += most_tiles(pass, &s->steps[i]);
    if (room >= UINT32_MAX)
        return ri_error(RONDO_ERR_UNSUPPORTED, "schedule %s would have %llu tiles; use more ranks or "
                        "fewer tokens", s->name, (unsigned long long)room);
    pass->tile_room = (uint32_t)room;
    pass->first_piece = calloc(steps, sizeof(uint32_t));
    pass->pieces = calloc(steps, sizeof(uint32_t));
    pass->tiles = calloc(room + 1, sizeof(*pass->tiles));
    pass->work = calloc(room + 1, sizeof(*pass->work)); /* no piece is without a tile */
    if (!pass->first_piece || !pass->pieces || !pass->tiles || !pass->work)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %llu tiles", (unsigned long long)room);
    err = ri_needs_init(pass, most_pieces);
    return err ? err : ri_pieces_list(pass);
}
