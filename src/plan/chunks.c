/* SPDX-License-Identifier: Apache-2.0 */
/* How blocks are cut to chunks, alike on all ranks: by what all have in common. */
#include "plan/chunks.h"

#include "base/minmax.h"
#include "base/status.h"
#include "kernels/convert.h"

/* Without a wish: as many as let work start soon, of a size that pays a message. */
#define CHUNKS_OF_BLOCK 16
#define CHUNK_MIN_BYTES ((int64_t)128 << 10)
#define CHUNK_MAX_BYTES ((int64_t)1 << 20)
/* Then no block has more than these, and fewer where ranks are so many that messages between two of them
 * would run out of numbers: a pass sends at most five tensors of each rank's block from one to another. */
#define CHUNKS_MAX 256
#define CHUNKS_MAX_OF_ALL (RI_TAG_MESSAGES / 32)
/* More messages have no numbers anyway. */
#define CHUNKS_MAX_WISHED (RI_TAG_MESSAGES + 1)

/* Of a token of all tensors of a bundle. */
static int64_t token_bytes(const struct ri_pass *pass, int bundle)
{
    const enum ri_tensor *t = ri_pass_tensors(pass, (enum ri_bundle)bundle);
    int64_t bytes = 0;

    for (; *t != RI_TENSORS; t++)
        bytes += (int64_t)(ri_tensor_elements(&pass->plan->desc, *t, 1) * ri_convert_bytes(ri_pass_wire(pass, *t)));
    return bytes;
}

/* Never more for a shorter block. */
static uint32_t chunks_of_block(const struct ri_plan *plan, int64_t tokens, int64_t bytes)
{
    int64_t wish = plan->choice.chunk_bytes, block = tokens * bytes;
    int64_t most = wish ? CHUNKS_MAX_WISHED : ri_min64(CHUNKS_MAX, CHUNKS_MAX_OF_ALL / plan->place.ranks);
    int64_t chunks = wish ? block / wish
                          : ri_max64(ri_min64(CHUNKS_OF_BLOCK, block / CHUNK_MIN_BYTES), block / CHUNK_MAX_BYTES);

    return (uint32_t)ri_max64(1, ri_min64(chunks, ri_min64(most, tokens)));
}

void ri_chunks_choose(struct ri_pass *pass)
{
    const struct ri_plan *plan = pass->plan;
    const struct ri_schedule *s = pass->schedule;

    for (int bundle = 0; bundle < RI_BUNDLES; bundle++) {
        enum ri_side side = ri_bundle_side((enum ri_bundle)bundle);

        pass->chunks[bundle] = chunks_of_block(plan, plan->largest[side], token_bytes(pass, bundle));
        pass->most_chunks[bundle] = chunks_of_block(plan, plan->max_tokens[side], token_bytes(pass, bundle));
    }
    pass->chunked = 0;
    for (uint32_t i = 0; i < s->step_count; i++)
        if (ri_step_moves(&s->steps[i]) && ri_chunks_allow(pass, &s->steps[i]))
            pass->chunked |= 1u << s->slots[ri_step_moved(&s->steps[i])->slot].bundle;
}

int ri_chunks_allow(const struct ri_pass *pass, const struct ri_step *step)
{
    return !step->bind && ri_step_moved(step)->blocks == 1 &&
           (step->lane == RI_LANE_HOST || pass->plan->choice.chunk_bytes > 0);
}

/* ---- of a region ---- */

uint32_t ri_chunks_count(const struct ri_pass *pass, int bundle, const struct ri_region *region)
{
    int64_t largest = pass->plan->largest[ri_bundle_side((enum ri_bundle)bundle)];

    return (uint32_t)ri_max64(1, region->count * pass->chunks[bundle] / ri_max64(1, largest));
}

/* A region of r of L tokens has the share r/L of n chunks, rounded down, so that a chunk has less than
 * 2 L/n, and one for rounding up.  L/n is less than two wishes, or than two of the smallest; above that it
 * grows with L, but for rounding n, 16 or more, down. */
int64_t ri_chunks_longest(const struct ri_pass *pass, int bundle, int64_t tokens)
{
    const struct ri_plan *plan = pass->plan;
    int64_t wish = plan->choice.chunk_bytes, bytes = ri_max64(1, token_bytes(pass, bundle));
    int64_t share = plan->max_tokens[ri_bundle_side((enum ri_bundle)bundle)] / pass->most_chunks[bundle] + 1;

    return ri_min64(tokens, 4 * ri_max64(share, (wish ? wish : CHUNK_MIN_BYTES) / bytes + 1) + 1);
}

struct ri_region ri_chunks_cut(uint32_t count, const struct ri_region *region, uint32_t c)
{
    int64_t first = ri_min64(c, count) * region->count / count;
    int64_t end = ri_min64((int64_t)c + 1, count) * region->count / count;

    return (struct ri_region){ region->first + first, end - first, region->at + first, region->row };
}

/* The last that starts at or before it. */
uint32_t ri_chunks_find(uint32_t count, const struct ri_region *region, int64_t token)
{
    return (uint32_t)(((token + 1) * count + region->count - 1) / region->count - 1);
}

/* ---- of steps ---- */

static int bundle_of(const struct ri_pass *pass, const struct ri_operand *operand)
{
    return pass->schedule->slots[operand->slot].bundle;
}

/* Does the operand come, or is it a sum that leaves, in chunks? */
static int is_chunked(const struct ri_pass *pass, const struct ri_operand *operand)
{
    return operand->slot >= 0 && operand->blocks == 1 &&
           ri_slot_is_ours(&pass->schedule->slots[operand->slot]) && !pass->in_place[operand->slot] &&
           (pass->chunked >> bundle_of(pass, operand) & 1);
}

struct ri_chunk_cut ri_chunks_of_compute(const struct ri_pass *pass, const struct ri_step *step)
{
    if (step->from[0].blocks != 1 || step->from[1].blocks != 1)
        return (struct ri_chunk_cut){ 0, -1 };
    for (int i = 0; i < 4; i++) { /* what comes first, the key's side first */
        int side = !(i & 1);
        const struct ri_operand *operand = i < 2 ? &step->from[side] : &step->to[side];

        if (is_chunked(pass, operand))
            return (struct ri_chunk_cut){ side, bundle_of(pass, operand) };
    }
    return (struct ri_chunk_cut){ 0, -1 };
}

static uint32_t chunks_of(const struct ri_pass *pass, const struct ri_operand *operand)
{
    struct ri_region region = ri_operand_region(pass->plan, pass->schedule, operand);

    return ri_chunks_count(pass, bundle_of(pass, operand), &region);
}

uint32_t ri_chunks_of_merge(const struct ri_pass *pass, const struct ri_step *step)
{
    const struct ri_operand *from = &step->from[0];

    return from->blocks == 1 && (pass->chunked >> bundle_of(pass, from) & 1) ? chunks_of(pass, from) : 1;
}

uint32_t ri_chunks_wanted(const struct ri_pass *pass, const struct ri_step *step)
{
    return ri_chunks_allow(pass, step) ? chunks_of(pass, ri_step_moved(step)) : 1;
}

uint32_t ri_chunks_listed(const struct ri_pass *pass, uint32_t index)
{
    return pass->first_chunk[index + 1] - pass->first_chunk[index];
}

uint32_t ri_chunks_moved(const struct ri_pass *pass, uint32_t index)
{
    uint32_t most = ri_chunks_listed(pass, index);

    if (most > 1 && pass->messages[pass->first_message[index + 1] - 1].tensor == RI_STAMP)
        most--;
    return (uint32_t)ri_min64(ri_chunks_wanted(pass, &pass->schedule->steps[index]), most);
}

struct ri_region ri_message_region(const struct ri_pass *pass, uint32_t index,
                                   const struct ri_message *message)
{
    struct ri_operand block = ri_operand_block(ri_step_moved(&pass->schedule->steps[index]), message->block);
    struct ri_region region = ri_operand_region(pass->plan, pass->schedule, &block);

    return ri_chunks_cut(ri_chunks_moved(pass, index), &region, message->chunk);
}
