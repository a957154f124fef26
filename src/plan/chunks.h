/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_CHUNKS_H
#define RI_CHUNKS_H

#include "plan/plan.h"

/* Chunks: runs of tokens of a block that move, and are merged, one by one (chunks.c), and which of them
 * a piece of work needs (needs.c). */

/* Says in how many chunks a block is cut: now, by the bound length, so that a plan does what one made for
 * that length would do; and at most. */
void ri_chunks_choose(struct ri_pass *pass);
/* May the messages of a transfer step be in chunks?  Alike at both of its ends. */
int ri_chunks_allow(const struct ri_pass *pass, const struct ri_step *step);

/* Chunks of a region of tokens, equal but for one token.  count: of a part of a block, by its share, and 1 or
 * more.  cut: chunk c; beyond the last one it is empty.  find: which one a token is in, counted from the
 * region's first. */
uint32_t ri_chunks_count(const struct ri_pass *pass, int bundle, const struct ri_region *region);
struct ri_region ri_chunks_cut(uint32_t count, const struct ri_region *region, uint32_t c);
uint32_t ri_chunks_find(uint32_t count, const struct ri_region *region, int64_t token);
/* The most tokens that a chunk may have at any length. */
int64_t ri_chunks_longest(const struct ri_pass *pass, int bundle, int64_t tokens);

/* A COMPUTE step's pieces are cut first at the borders of chunks of the operand from[side], and of what is
 * added to to[side]: as a block of that bundle; < 0: they are not. */
struct ri_chunk_cut {
    int side, bundle;
};
struct ri_chunk_cut ri_chunks_of_compute(const struct ri_pass *pass, const struct ri_step *step);
/* In how many chunks a MERGE is done, by the bound length. */
uint32_t ri_chunks_of_merge(const struct ri_pass *pass, const struct ri_step *step);
/* Of a transfer.  wanted: by the bound length; listed: among the messages, which were listed when that was the
 * longest, with the answer to a stamp as one of its own; moved: those that have tokens to move now. */
uint32_t ri_chunks_wanted(const struct ri_pass *pass, const struct ri_step *step);
uint32_t ri_chunks_listed(const struct ri_pass *pass, uint32_t index);
uint32_t ri_chunks_moved(const struct ri_pass *pass, uint32_t index);

/* Where tensors of a message's block lie. */
struct ri_region ri_message_region(const struct ri_pass *pass, uint32_t index,
                                   const struct ri_message *message);

/* init allocates, for every length that may be bound; most_pieces: of a COMPUTE step.  list, after all
 * pieces are listed, allocates nothing. */
int ri_needs_init(struct ri_pass *pass,
                  uint32_t (*most_pieces)(const struct ri_pass *, const struct ri_step *));
void ri_needs_list(struct ri_pass *pass);

#endif
