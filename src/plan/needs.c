/* SPDX-License-Identifier: Apache-2.0 */
/* Which units of a step a unit of another needs: chunks of transfers, pieces of work.  Only where the one
 * makes or brings tokens that the other takes, and nothing else stands between them: all other
 * dependencies are of whole steps. */
#include <stdlib.h>

#include "base/minmax.h"
#include "base/status.h"
#include "plan/chunks.h"

/* ---- which dependencies ---- */

static int share_slots(const struct ri_operand *a, const struct ri_operand *b)
{
    return a->slot >= 0 && b->slot >= 0 && a->slot < b->slot + b->blocks && b->slot < a->slot + a->blocks;
}

/* An operand and where it stands. */
struct place {
    const struct ri_operand *operand;
    int side, written;
};

static struct place place_of(const struct ri_step *step, int i)
{
    return (struct place){ i < 2 ? &step->from[i] : &step->to[i - 2], i & 1, i >= 2 };
}

/* Tokens of one block are brought by the one, and read or added to by the other. */
static int is_flow(const struct ri_step *step, const struct place *on, const struct place *at)
{
    int takes = !at->written || (step->op == RI_MERGE && !(step->stores & 1));

    return on->written && takes && on->operand->blocks == 1 && at->operand->blocks == 1 &&
           on->operand->block == at->operand->block;
}

/* What ties step to the one that it depends on; sides are those of COMPUTE steps. */
struct tie {
    const struct ri_step *on, *step;
    uint32_t on_index, index;
    int on_side, side;
};

/* 1: all that ties them is one flow of tokens. */
static int find_flow(const struct ri_pass *pass, uint32_t on, uint32_t index, struct tie *tie)
{
    const struct ri_step *steps = pass->schedule->steps;
    int flows = 0;

    *tie = (struct tie){ &steps[on], &steps[index], on, index, 0, 0 };
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++) {
            struct place a = place_of(tie->on, i), b = place_of(tie->step, k);

            if (!share_slots(a.operand, b.operand) || (!a.written && !b.written))
                continue;
            if (!is_flow(tie->step, &a, &b))
                return 0;
            flows++;
            tie->on_side = a.side;
            tie->side = b.side;
        }
    return flows == 1;
}

/* Are there units that could be told apart, at some length? */
static int has_units(const struct ri_pass *pass, uint32_t index)
{
    const struct ri_step *step = &pass->schedule->steps[index];

    if (ri_step_moves(step))
        return ri_chunks_listed(pass, index) > 1;
    return step->op == RI_COMPUTE || (step->op == RI_MERGE && step->from[0].blocks == 1);
}

static int is_refined(const struct ri_pass *pass, uint32_t on, uint32_t index, struct tie *tie)
{
    int from = pass->schedule->steps[on].op, to = pass->schedule->steps[index].op;

    if (from == RI_SEND || to == RI_RECV || from == RI_COPY || to == RI_COPY ||
        (to == RI_COMPUTE && from != RI_RECV) || pass->schedule->steps[on].bind)
        return 0;
    return has_units(pass, on) && has_units(pass, index) && find_flow(pass, on, index, tie);
}

/* ---- how much ---- */

/* Tokens of a block: of a chunk, or that a piece reads or adds to. */
struct tokens {
    int64_t first, end;
};

static struct ri_region operand_region(const struct ri_pass *pass, const struct ri_operand *operand)
{
    return ri_operand_region(pass->plan, pass->schedule, operand);
}

/* What is cut to chunks, and to how many; not of a COMPUTE. */
struct chunks {
    struct ri_region region;
    uint32_t count;
};

static struct chunks chunks_of(const struct ri_pass *pass, uint32_t index)
{
    const struct ri_step *step = &pass->schedule->steps[index];
    const struct ri_operand *operand = ri_step_moves(step) ? ri_step_moved(step) : &step->from[0];

    return (struct chunks){ operand_region(pass, operand),
                            ri_step_moves(step) ? ri_chunks_moved(pass, index)
                                                : ri_chunks_of_merge(pass, step) };
}

static struct tokens tokens_of_piece(const struct ri_pass *pass, const struct ri_step *step,
                                     const struct ri_piece *piece, int side)
{
    struct ri_region region = operand_region(pass, &step->from[side]);
    struct tokens tokens = { INT64_MAX, 0 };

    for (uint32_t i = piece->first_tile; i < piece->first_tile + piece->tile_count; i++) {
        const rondo_tile_t *tile = &pass->tiles[i];
        int64_t first = region.first + (side ? tile->k_first : tile->q_first);
        int64_t end = first + (side ? tile->k_count : tile->q_count);

        tokens.first = ri_min64(tokens.first, first);
        tokens.end = ri_max64(tokens.end, end);
    }
    return tokens;
}

/* The chunks that these tokens are in, as [*first, *end); 0: none. */
static int find_chunks(const struct chunks *chunks, const struct tokens *tokens, uint32_t *first, uint32_t *end)
{
    int64_t from = tokens->first - chunks->region.first, to = tokens->end - chunks->region.first;

    if (from < 0)
        from = 0;
    if (to > chunks->region.count)
        to = chunks->region.count;
    if (from >= to)
        return 0;
    *first = ri_chunks_find(chunks->count, &chunks->region, from);
    *end = ri_chunks_find(chunks->count, &chunks->region, to - 1) + 1;
    return 1;
}

static const struct ri_piece *pieces_of(const struct ri_pass *pass, uint32_t index, uint32_t *count)
{
    *count = pass->first_piece[index + 1] - pass->first_piece[index];
    return pass->work + pass->first_piece[index];
}

/* A piece needs the chunks that it reads. */
static void fill_pieces(const struct ri_pass *pass, const struct tie *tie, uint32_t *need)
{
    struct chunks chunks = chunks_of(pass, tie->on_index);
    uint32_t count, first, end;
    const struct ri_piece *pieces = pieces_of(pass, tie->index, &count);

    need[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct tokens tokens = tokens_of_piece(pass, tie->step, &pieces[i], tie->side);

        need[i] = find_chunks(&chunks, &tokens, &first, &end) ? end : 0;
    }
}

/* A chunk of a sum needs the pieces that add to it, and the first, before which it is made empty. */
static void fill_from_pieces(const struct ri_pass *pass, const struct tie *tie, uint32_t *need, uint32_t units)
{
    struct chunks chunks = chunks_of(pass, tie->index);
    uint32_t count, first, end;
    const struct ri_piece *pieces = pieces_of(pass, tie->on_index, &count);

    for (uint32_t u = 0; u < units; u++)
        need[u] = 1;
    for (uint32_t i = 0; i < count; i++) {
        struct tokens tokens = tokens_of_piece(pass, tie->on, &pieces[i], tie->on_side);

        if (find_chunks(&chunks, &tokens, &first, &end))
            for (uint32_t u = first; u < end && u < units; u++)
                need[u] = i + 1;
    }
}

/* A chunk needs those that have its tokens, and the step's first also the first: it may be empty, and what
 * is asked of the other's slot when the step begins must be known by then. */
static void fill_chunks(const struct ri_pass *pass, const struct tie *tie, uint32_t *need, uint32_t units)
{
    struct chunks from = chunks_of(pass, tie->on_index), to = chunks_of(pass, tie->index);
    uint32_t first, end;

    for (uint32_t u = 0; u < units; u++) {
        struct ri_region chunk = ri_chunks_cut(to.count, &to.region, u);
        struct tokens tokens = { chunk.first, chunk.first + chunk.count };

        need[u] = find_chunks(&from, &tokens, &first, &end) ? end : u == 0;
    }
}

static uint32_t units_of(const struct ri_pass *pass, uint32_t index)
{
    if (ri_step_moves(&pass->schedule->steps[index]))
        return ri_chunks_listed(pass, index);
    return pass->pieces[index];
}

void ri_needs_list(struct ri_pass *pass)
{
    const struct ri_schedule *s = pass->schedule;
    struct tie tie;

    for (uint32_t i = 0; i < s->step_count; i++)
        for (uint32_t d = s->steps[i].first_dep; d < s->steps[i].first_dep + s->steps[i].deps; d++) {
            uint32_t *need = pass->needs + pass->first_need[d];

            if (!pass->need[d] || !is_refined(pass, s->deps[d], i, &tie))
                continue;
            if (tie.step->op == RI_COMPUTE)
                fill_pieces(pass, &tie, need);
            else if (tie.on->op == RI_COMPUTE)
                fill_from_pieces(pass, &tie, need, units_of(pass, i));
            else
                fill_chunks(pass, &tie, need, units_of(pass, i));
        }
}

/* ---- memory ---- */

static uint32_t most_units(const struct ri_pass *pass, uint32_t index,
                           uint32_t (*most_pieces)(const struct ri_pass *, const struct ri_step *))
{
    const struct ri_step *step = &pass->schedule->steps[index];

    if (ri_step_moves(step))
        return ri_chunks_listed(pass, index);
    if (step->op == RI_MERGE)
        return pass->most_chunks[pass->schedule->slots[step->from[0].slot].bundle];
    return most_pieces(pass, step) + 1;
}

int ri_needs_init(struct ri_pass *pass,
                  uint32_t (*most_pieces)(const struct ri_pass *, const struct ri_step *))
{
    const struct ri_schedule *s = pass->schedule;
    struct tie tie;

    pass->first_need = calloc((size_t)s->dep_count + 1, sizeof(*pass->first_need));
    pass->need = calloc((size_t)s->dep_count + 1, sizeof(*pass->need));
    if (!pass->first_need || !pass->need)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %u dependencies", s->dep_count);
    for (uint32_t i = 0; i < s->step_count; i++)
        for (uint32_t d = s->steps[i].first_dep; d < s->steps[i].first_dep + s->steps[i].deps; d++) {
            pass->first_need[d] = pass->need_room;
            if (is_refined(pass, s->deps[d], i, &tie))
                pass->need_room += most_units(pass, i, most_pieces);
        }
    pass->needs = calloc(pass->need_room + 1, sizeof(*pass->needs));
    if (!pass->needs)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for what %u dependencies need", s->dep_count);
    for (uint32_t i = 0; i < s->step_count; i++)
        for (uint32_t d = s->steps[i].first_dep; d < s->steps[i].first_dep + s->steps[i].deps; d++)
            if (is_refined(pass, s->deps[d], i, &tie))
                pass->need[d] = pass->needs + pass->first_need[d];
    return 0;
}
