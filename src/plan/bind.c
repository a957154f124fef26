/* SPDX-License-Identifier: Apache-2.0 */
/* The length of the next batch: what a plan does when it changes, and how ranks find out that they bound
 * different ones. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "plan/chunks.h"

static const uint64_t stamp_magic = 0x72692d7374616d70u;

static int list_passes(struct ri_plan *plan)
{
    int err = ri_sight_fit(&plan->sight);

    for (int side = 0; side < RI_SIDES; side++)
        plan->largest[side] = ri_layout_largest(plan->layout[side]);
    for (int i = 0; !err && i < RI_PASSES; i++)
        if (plan->pass[i].schedule)
            err = ri_pieces_list(&plan->pass[i]);
    return err;
}

/* What is bound changes places with the spare layouts, and so back again. */
static void swap_layouts(struct ri_plan *plan)
{
    for (int side = 0; side < RI_SIDES; side++) {
        struct rondo_layout *bound = plan->layout[side];

        plan->layout[side] = plan->spare[side];
        plan->spare[side] = bound;
    }
    plan->sight.q = plan->layout[RI_QUERIES];
    plan->sight.k = plan->layout[RI_KEYS];
}

int ri_plan_bind(struct ri_plan *plan, const struct ri_batch batch[RI_SIDES])
{
    int err = 0;

    for (int side = 0; !err && side <= plan->is_cross; side++)
        err = ri_layout_fit(plan->spare[side], batch[side].tokens, batch[side].cu_seqlens, batch[side].documents,
                            batch[side].lengths);
    for (int side = 0; !err && side < RI_SIDES; side++)
        if (batch[side].like && ri_layout_hash(plan->spare[side]) != ri_layout_hash(batch[side].like))
            err = ri_error(RONDO_ERR_ARGUMENT, "the plan was made for a layout that deals otherwise than %s: kind, "
                           "deal, ranks, and the mask and chunks of a balanced one must be the same",
                           side == RI_QUERIES ? "layout" : "kv_layout");
    if (err)
        return err;
    swap_layouts(plan);
    err = list_passes(plan);
    if (err) {
        char cause[512];

        snprintf(cause, sizeof(cause), "%s", rondo_last_error());
        swap_layouts(plan);
        list_passes(plan); /* was listed before, so it can be */
        ri_error(err, "%s", cause);
    }
    return err;
}

int ri_plan_is_busy(const struct ri_plan *plan)
{
    for (int i = 0; i < RI_PASSES; i++)
        for (int r = 0; plan->runs[i] && r < plan->max_in_flight; r++)
            if (plan->runs[i][r].arena)
                return 1;
    return 0;
}

/* ---- stamps ---- */

static uint64_t hash_of_sinks(const struct ri_run *run)
{
    uint64_t hash = 1;

    for (int h = 0; run->sinks && h < run->pass->plan->desc.q_heads; h++) {
        uint32_t bits;

        memcpy(&bits, &run->sinks[h], sizeof(bits));
        hash = ri_mix(hash, bits);
    }
    return run->sinks ? hash | 1 : 0;
}

struct ri_stamp ri_stamp_of(const struct ri_run *run)
{
    const struct ri_pass *pass = run->pass;
    const struct rondo_layout *const *layout = (const struct rondo_layout *const *)pass->plan->layout;
    uint64_t hash = ri_mix(ri_mix(0, (int64_t)ri_layout_hash(layout[RI_QUERIES])),
                           (int64_t)ri_layout_hash(layout[RI_KEYS]));

    return (struct ri_stamp){ stamp_magic, layout[RI_QUERIES]->tokens, hash, (int32_t)pass->kind,
                              (int32_t)pass->plan->number,
                              pass->plan->desc.dropout > 0 ? run->seed : 0, hash_of_sinks(run) };
}

/* What all ranks are to give to a start alike. */
static int check_given(const struct ri_stamp *mine, const struct ri_stamp *theirs, int rank, int peer)
{
    if (theirs->seed != mine->seed)
        return ri_error(RONDO_ERR_MISMATCH, "tensors.seed is %" PRIu64 " on rank %d and %" PRIu64 " on rank %d; "
                        "give the same seed on every rank", mine->seed, rank, theirs->seed, peer);
    if (mine->sinks != theirs->sinks)
        return ri_error(RONDO_ERR_MISMATCH, "tensors.sinks of rank %d are not those of rank %d; give the same "
                        "on every rank", rank, peer);
    return 0;
}

int ri_stamp_check(const struct ri_run *run, const struct ri_stamp *theirs, int peer)
{
    struct ri_stamp mine = ri_stamp_of(run);
    int rank = run->pass->plan->place.rank;

    if (theirs->magic != mine.magic || theirs->kind != mine.kind || theirs->plan != mine.plan)
        return ri_error(RONDO_ERR_MISMATCH, "plan %d: rank %d sent rank %d no stamp of this plan and pass; "
                        "start the same calls in the same order on every rank", (int)mine.plan, peer, rank);
    if (theirs->tokens != mine.tokens)
        return ri_error(RONDO_ERR_MISMATCH, "rondo_plan_bind: tokens is %" PRId64 " on rank %d and %" PRId64
                        " on rank %d; bind the same length on every rank", mine.tokens, rank,
                        theirs->tokens, peer);
    if (theirs->hash != mine.hash)
        return ri_error(RONDO_ERR_MISMATCH, "rondo_plan_bind: ranks %d and %d bound %" PRId64 " tokens in "
                        "different layouts or documents", rank, peer, mine.tokens);
    return check_given(&mine, theirs, rank, peer);
}

/* Stamps are copied also where their step binds: they are not part of what it gives to read.  Chunks that
 * the bound length does not have are not sent: both ends know them. */
int ri_run_prepare(void *owner, uint32_t step)
{
    struct ri_run *run = owner;
    const struct ri_pass *pass = run->pass;
    uint32_t chunks = ri_chunks_moved(pass, step);

    for (uint32_t m = pass->first_message[step]; m < pass->first_message[step + 1]; m++) {
        struct ri_xfer *xfer = &run->xfers[m];

        if (pass->messages[m].tensor == RI_STAMP) {
            xfer->bind = 0;
        } else if (pass->messages[m].chunk >= chunks) {
            xfer->state = RI_XFER_DONE;
            xfer->moved_bytes = 0;
        }
    }
    ri_in_place_prepare(run, step);
    return 0;
}

/* A chunk without a stamp has failed.  When it was for the size of a message, which ranks that bound
 * different lengths see, the stamp of the first chunk from this peer, or the answer to ours, tells why.  It
 * may still be under way: 1, not yet.  A lost connection brings no more stamps, and is a cause itself: 0. */
static int find_cause(const struct ri_run *run, int peer, int status)
{
    if (status != RONDO_ERR_MISMATCH)
        return 0;
    for (int i = 0; i < 2; i++) {
        const struct ri_stamp *stamp = &run->stamps[i * run->pass->plan->place.ranks + peer];

        if (stamp->magic)
            return ri_stamp_check(run, stamp, peer);
    }
    return 1;
}

int ri_run_arrived(void *owner, uint32_t step, uint32_t first, uint32_t end)
{
    struct ri_run *run = owner;
    const struct ri_pass *pass = run->pass;
    int err = 0;

    for (uint32_t m = first; !err && m < end; m++) {
        const struct ri_xfer *xfer = &run->xfers[m];

        if (pass->messages[m].tensor != RI_STAMP || xfer->state != RI_XFER_DONE)
            continue;
        if (!xfer->send)
            err = ri_stamp_check(run, (const struct ri_stamp *)(const void *)xfer->base, xfer->peer);
    }
    for (uint32_t m = first; !err && m < end; m++)
        if (run->xfers[m].state == RI_XFER_FAILED)
            return pass->messages[m].tensor == RI_STAMP
                       ? 0
                       : find_cause(run, run->xfers[m].peer, run->xfers[m].status);
    if (!err) {
        ri_in_place_arrived(run, step, first, end);
        ri_wire_arrived(run, step, first, end);
    }
    return err;
}
