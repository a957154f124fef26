/* SPDX-License-Identifier: Apache-2.0 */
/* One pass of a plan: a schedule, its pieces of work and its messages. */
#include <stdlib.h>

#include "base/status.h"
#include "plan/plan.h"

/* A piece of work is at most about this many multiply-adds, so that messages are looked after every
 * millisecond or so. */
#define PIECE_MACS ((int64_t)8 << 20)
#define PIECE_MIN_ROWS 32

int64_t ri_block_tokens(const struct ri_plan *plan, const struct ri_schedule *schedule, int32_t block)
{
    return ri_layout_tokens(&plan->layout, schedule->owner[block]);
}

/* ---- work ---- */

static int64_t macs_per_pair(const struct ri_plan *plan)
{
    return plan->desc.batch * plan->desc.q_heads * ((int64_t)plan->desc.qk_dim + plan->desc.v_dim);
}

static int64_t rows_per_piece(const struct ri_plan *plan, const rondo_tile_t *tile)
{
    int64_t rows = PIECE_MACS / (macs_per_pair(plan) * tile->k_count);

    rows -= rows % PIECE_MIN_ROWS;
    return rows > PIECE_MIN_ROWS ? rows : PIECE_MIN_ROWS;
}

struct cut {
    rondo_tile_t *tiles; /* NULL: only count */
    struct ri_piece *pieces;
    uint32_t tile_count, piece_count;
};

static void add_tile(struct cut *cut, const rondo_tile_t *tile, int new_piece)
{
    struct ri_piece *piece;

    if (new_piece)
        cut->piece_count++;
    if (cut->tiles) {
        piece = &cut->pieces[cut->piece_count - 1];
        if (new_piece)
            *piece = (struct ri_piece){ cut->tile_count, 0, 0 };
        piece->tile_count++;
        piece->pairs += ri_tile_pairs(tile);
        cut->tiles[cut->tile_count] = *tile;
    }
    cut->tile_count++;
}

/* Cuts large tiles by queries, and puts small ones together, up to one kernel call's worth. */
static void cut_tiles(const struct ri_plan *plan, const rondo_tile_t *tiles, int count, struct cut *cut)
{
    int64_t room = 0;

    for (int i = 0; i < count; i++) {
        int64_t rows = rows_per_piece(plan, &tiles[i]);

        for (int64_t first = 0; first < tiles[i].q_count; first += rows) {
            int64_t n = tiles[i].q_count - first < rows ? tiles[i].q_count - first : rows;
            rondo_tile_t part;
            int64_t macs;

            if (!ri_tile_queries(&tiles[i], first, n, &part))
                continue;
            macs = ri_tile_pairs(&part) * macs_per_pair(plan);
            add_tile(cut, &part, macs > room || !(plan->kernel.flags & RONDO_KERNEL_MERGES));
            room = (macs > room ? PIECE_MACS : room) - macs;
        }
    }
}

/* Tiles of a COMPUTE step's block pair; malloc'd. */
static int step_tiles(const struct ri_pass *pass, const struct ri_step *step,
                      rondo_tile_t **tiles, int *count)
{
    const struct ri_plan *plan = pass->plan;
    int q = pass->schedule->owner[step->from[0].block], k = pass->schedule->owner[step->from[1].block];

    *count = ri_layout_tiles(&plan->layout, plan->desc.mask, q, k, NULL, 0);
    *tiles = malloc(((size_t)*count + 1) * sizeof(**tiles));
    if (!*tiles)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %d tiles", *count);
    ri_layout_tiles(&plan->layout, plan->desc.mask, q, k, *tiles, *count);
    return 0;
}

/* One walk over all steps: counts, or fills. */
static int walk_work(struct ri_pass *pass, struct cut *cut)
{
    const struct ri_schedule *s = pass->schedule;

    for (uint32_t i = 0; i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];
        rondo_tile_t *tiles;
        int count, err;

        pass->first_piece[i] = cut->piece_count;
        if (step->op == RI_COMPUTE) {
            err = step_tiles(pass, step, &tiles, &count);
            if (err)
                return err;
            cut_tiles(pass->plan, tiles, count, cut);
            free(tiles);
        }
        pass->pieces[i] = cut->piece_count - pass->first_piece[i];
        if (pass->pieces[i] == 0) /* COPY, MERGE, and a COMPUTE that only empties its target */
            pass->pieces[i] = !ri_step_moves(step);
    }
    pass->first_piece[s->step_count] = cut->piece_count;
    return 0;
}

static int list_work(struct ri_pass *pass)
{
    size_t steps = (size_t)pass->schedule->step_count + 1;
    struct cut cut = { NULL, NULL, 0, 0 };
    int err;

    pass->first_piece = calloc(steps, sizeof(uint32_t));
    pass->pieces = calloc(steps, sizeof(uint32_t));
    if (!pass->first_piece || !pass->pieces)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %zu steps", steps);
    err = walk_work(pass, &cut);
    if (err)
        return err;
    pass->tiles = calloc((size_t)cut.tile_count + 1, sizeof(*pass->tiles));
    pass->work = calloc((size_t)cut.piece_count + 1, sizeof(*pass->work));
    if (!pass->tiles || !pass->work)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %u tiles", cut.tile_count);
    cut = (struct cut){ pass->tiles, pass->work, 0, 0 };
    return walk_work(pass, &cut);
}

/* ---- messages ---- */

/* One message per tensor of the bundle, in bundle order.  counts: [2][ranks] messages so far to and
 * from each rank, so that both ends number them alike. */
static uint32_t list_step_messages(struct ri_pass *pass, uint32_t index, uint32_t *counts, uint32_t next)
{
    const struct ri_step *step = &pass->schedule->steps[index];
    const struct ri_slot *slot = &pass->schedule->slots[ri_step_moved(step)->slot];
    uint32_t *count = &counts[(step->op == RI_SEND) * pass->plan->place.ranks + step->peer];
    const enum ri_tensor *t;

    for (t = ri_bundle_tensors(pass->kind, slot->bundle); *t != RI_TENSORS; t++, next++)
        if (pass->messages)
            pass->messages[next] = (struct ri_message){ (*count)++, (uint8_t)*t };
    return next;
}

static uint32_t walk_messages(struct ri_pass *pass, uint32_t *counts)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < pass->schedule->step_count; i++) {
        pass->first_message[i] = next;
        if (ri_step_moves(&pass->schedule->steps[i]))
            next = list_step_messages(pass, i, counts, next);
    }
    pass->first_message[pass->schedule->step_count] = next;
    return next;
}

static int list_messages(struct ri_pass *pass)
{
    uint32_t *counts = calloc(2 * (size_t)pass->plan->place.ranks, sizeof(*counts));
    uint32_t count;

    pass->first_message = calloc((size_t)pass->schedule->step_count + 1, sizeof(uint32_t));
    if (!counts || !pass->first_message)
        goto no_memory;
    count = walk_messages(pass, counts);
    if (count > RI_TAG_MESSAGES) {
        free(counts);
        return ri_error(RONDO_ERR_UNSUPPORTED, "schedule %s has %u messages on one rank; %d can be numbered",
                        pass->schedule->name, count, RI_TAG_MESSAGES);
    }
    pass->messages = calloc((size_t)count + 1, sizeof(*pass->messages));
    if (!pass->messages)
        goto no_memory;
    walk_messages(pass, counts);
    free(counts);
    return 0;

no_memory:
    free(counts);
    return ri_error(RONDO_ERR_MEMORY, "out of memory for messages");
}

/* ---- a pass ---- */

int ri_pass_init(struct ri_pass *pass, const struct ri_plan *plan, enum ri_pass_kind kind,
                 ri_builder *build)
{
    int err;

    pass->plan = plan;
    pass->kind = kind;
    err = build(&pass->schedule, &(struct ri_build){ .rank = plan->place.rank,
                                                     .ranks = plan->place.ranks,
                                                     .host = plan->place.host });
    if (err)
        return err;
    pass->slots_bytes = ri_run_place(pass, NULL, NULL);
    err = list_work(pass);
    return err ? err : list_messages(pass);
}

void ri_pass_release(struct ri_pass *pass)
{
    ri_schedule_destroy(pass->schedule);
    free(pass->tiles);
    free(pass->work);
    free(pass->first_piece);
    free(pass->pieces);
    free(pass->messages);
    free(pass->first_message);
}
