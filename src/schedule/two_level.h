/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SCHEDULE_TWO_LEVEL_H
#define RI_SCHEDULE_TWO_LEVEL_H

#include "schedule/hosts.h"
#include "schedule/sides.h"

/* The two-level ring as a sub-builder: appends it to a schedule under way, whose slots the caller
 * has made.  Hosts may differ in size.
 *
 * In round j a host is visited by all blocks of the host j before it.  A visitor enters at one
 * rank, walks once round the ranks of the host, and the rank where it entered, which has kept it,
 * sends it on to the next host; that one hop has the whole round to complete.
 *
 *     round j, host of 3 ranks         0 --> 1 --> 2         step 0, 1, 2 of the walk of a visitor
 *                                      |                     that entered at rank 0
 *                                      +----------------->   to the next host, for round j + 1
 *
 * Visitor u of a host of G ranks is piece u div G of the block of its rank u mod G, where it
 * starts.  Also on any other host of G ranks it enters at rank u mod G, so that hosts of one size
 * keep to their rails, and pieces that leave one rank go to several.  With hosts of G ranks and
 * whole blocks, step s of round j on rank l of host a meets the block of rank (l - s) mod G of host
 * (a - j) mod M.  Where more visitors than ranks come, several walk together and share the turns;
 * the k-th that entered at a rank uses the k-th slot of each kind.
 *
 * The sum of a visitor starts from nothing in each round, follows one step behind, and at the end
 * of the walk, on the rank before the one where it entered, joins the total that came from the host
 * before.  The total hops on to the next host during the next round, after the last round to the
 * rank before its owner, and from there home.  The owner's contribution stays home, and what the
 * owner's host adds goes home at the end of round 0: totals begin on the next host. */
struct ri_two_level {
    const struct ri_hosts *hosts;
    const int32_t *first_block; /* [ranks, as in hosts->ranks] first of the blocks that each brings;
                                 * each brings as many, n, as the travelling operand spans */
    struct ri_sides sides;      /* what is at home, of pieces * chunks parts */
    int pieces;
    int chunks;    /* parts of a piece, each a host transfer; not 1: each in a local hop's turn */
    int own_turns; /* host transfers have turns of their own; chunks is 1 */
    int stall;     /* landings are too few: see `landing` */
    /* Slots, each kind's first; a visitor takes n, and `walks` walk together at most. */
    int walks;
    int32_t entered; /* 2 * walks * n views: visitors from the host before, rounds in turn */
    int32_t landing; /* 2 * walks * n views: from the rank before, steps in turn.  With `stall` only
                      * walks * n: every other step lands where the visitor of the round's start
                      * was, and waits until it has left for the next host */
    int32_t made;    /* 2 * walks * n own slots: sums, steps in turn; gradients only, as the next */
    int32_t arrived; /* walks * n own slots: the sum from the rank before */
    int32_t totals;  /* 2 * walks * n own slots: rounds in turn; one leaves while one arrives */
};

/* The most visitors that enter at one rank, anywhere. */
int ri_two_level_walks(const struct ri_hosts *hosts, int pieces);

/* Returns the first turn after its own, alike on all ranks. */
int ri_two_level(struct ri_schedule *s, const struct ri_two_level *ring, int turn);

#endif
