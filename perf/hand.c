/* SPDX-License-Identifier: Apache-2.0 */
#include "hand.h"

#include <stdio.h>

#include "base/status.h"
#include "comm/comm.h"
#include "measure.h"
#include "pattern.h"

int hand_init(struct hand *hand, rondo_comm_t comm, size_t bytes)
{
    *hand = (struct hand){.rank = comm->rank, .ranks = comm->size, .bytes = bytes};
    hand->next = (hand->rank + 1) % hand->ranks;
    hand->previous = (hand->rank + hand->ranks - 1) % hand->ranks;
    perf_link_init(&hand->link, comm);
    hand->binds_out = perf_link_binds(&hand->link, hand->next);
    hand->binds_in = perf_link_binds(&hand->link, hand->previous);
    hand->block = perf_link_alloc(&hand->link, bytes);
    if (!hand->block)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a block of %zu bytes", bytes);
    for (int i = 0; i < 2 && !hand->binds_in; i++) {
        hand->landing[i] = perf_link_alloc(&hand->link, bytes);
        if (!hand->landing[i])
            return ri_error(RONDO_ERR_MEMORY, "no memory for a block of %zu bytes", bytes);
    }
    return perf_link_reserve(&hand->link, 3);
}

void hand_release(struct hand *hand)
{
    perf_link_free(&hand->link, hand->block);
    perf_link_free(&hand->link, hand->landing[0]);
    perf_link_free(&hand->link, hand->landing[1]);
    perf_link_reserve(&hand->link, -3);
}

/* ---- one block out, one block in ---- */

static int expect(struct hand *hand, uint64_t n)
{
    struct ri_xfer *xfer = &hand->receive[n % 2];

    if (n >= hand->end)
        return 0;
    *xfer = perf_link_message(&hand->link, hand->previous, n, hand->landing[n % 2], hand->bytes);
    xfer->bind = (uint8_t)hand->binds_in;
    return perf_link_post(&hand->link, xfer);
}

/* What the block was given out for has ended: it may be written again. */
static int regain(struct hand *hand, enum perf_how how)
{
    int err = perf_link_wait(&hand->link, &hand->send, how);

    if (!err && hand->send.state == RI_XFER_DONE && hand->send.bind)
        err = perf_link_wait_readers(&hand->link, &hand->send, how);
    return err;
}

static int give(struct hand *hand)
{
    hand->send =
        perf_link_message(&hand->link, hand->next, hand->sent, hand->block, hand->bytes);
    hand->send.send = 1;
    hand->send.bind = (uint8_t)hand->binds_out;
    hand->sent++;
    return perf_link_post(&hand->link, &hand->send);
}

/* Where the block that came can be read; followed by look_away.  NULL: the holder has taken it back. */
static const char *look(struct hand *hand, const struct ri_xfer *xfer)
{
    if (xfer->bind && hand->link.ops->enter(hand->link.transport, &xfer->reference))
        return NULL;
    return xfer->bind ? xfer->reference.base : xfer->base;
}

static void look_away(struct hand *hand, const struct ri_xfer *xfer)
{
    if (xfer->bind)
        hand->link.ops->leave(hand->link.transport, &xfer->reference);
}

/* The block that came is not needed any more, and the one after the next may come. */
static int settle(struct hand *hand)
{
    struct ri_xfer *xfer = &hand->receive[hand->received % 2];

    if (xfer->bind)
        hand->link.ops->release(hand->link.transport, xfer);
    hand->received++;
    return expect(hand, hand->received + 1);
}

/* Two receives are always ahead, but none of what is not sent in this phase. */
static int start(struct hand *hand, int rounds)
{
    int err = perf_link_begin(&hand->link);

    if (err)
        return err;
    hand->end = hand->received + (uint64_t)rounds;
    err = expect(hand, hand->received);
    if (!err)
        err = expect(hand, hand->received + 1);
    if (err)
        perf_link_end(&hand->link);
    return err;
}

static int stop(struct hand *hand, int err)
{
    struct ri_xfer *ahead[2] = {&hand->receive[0], &hand->receive[1]};
    struct ri_xfer *last = &hand->send;

    if (!err)
        err = regain(hand, PERF_AWAKE);
    if (err) {
        hand->link.ops->cancel(hand->link.transport, ahead, 2);
        hand->link.ops->cancel(hand->link.transport, &last, 1);
    }
    hand->send.state = RI_XFER_IDLE;
    perf_link_end(&hand->link);
    return err;
}

/* ---- verified ---- */

static int verify_block(struct hand *hand, uint32_t iteration)
{
    const struct ri_xfer *xfer = &hand->receive[hand->received % 2];
    const char *block = look(hand, xfer);
    size_t where = 0;
    uint64_t wrong;

    if (!block)
        return RONDO_ERR_PEER;
    wrong = pattern_wrong(block, hand->bytes, hand->previous, iteration, 0, &where);
    look_away(hand, xfer);
    if (wrong && !hand->wrong)
        fprintf(stderr, "rank %d: block of rank %d, size %zu: %llu words wrong, the first is %zu\n",
                hand->rank, hand->previous, hand->bytes, (unsigned long long)wrong, where);
    hand->wrong += wrong;
    return 0;
}

static int verified_round(struct hand *hand, uint32_t iteration)
{
    int err = 0;

    if (hand->rank > 0)
        err = perf_link_wait(&hand->link, &hand->receive[hand->received % 2], PERF_AWAKE);
    if (!err)
        err = regain(hand, PERF_AWAKE);
    if (err)
        return err;
    pattern_fill(hand->block, hand->bytes, hand->rank, iteration, 0);
    err = give(hand);
    if (!err && hand->rank == 0)
        err = perf_link_wait(&hand->link, &hand->receive[hand->received % 2], PERF_AWAKE);
    if (!err)
        err = verify_block(hand, iteration);
    return err ? err : settle(hand);
}

int hand_verify(struct hand *hand, uint32_t first_iteration, int iterations)
{
    int err = start(hand, iterations);

    if (err)
        return err;
    for (int i = 0; i < iterations && !err; i++)
        err = verified_round(hand, first_iteration + (uint32_t)i);
    return stop(hand, err);
}

/* ---- timed ---- */

/* Differs from block to block. */
static char stamp_of(uint64_t n)
{
    return (char)(n % 127 + 1);
}

static int hand_on(struct hand *hand, enum perf_how how)
{
    int err = regain(hand, how);

    if (err)
        return err;
    hand->block[0] = hand->block[hand->bytes - 1] = stamp_of(hand->sent);
    return give(hand);
}

static int take(struct hand *hand, enum perf_how how)
{
    const struct ri_xfer *xfer = &hand->receive[hand->received % 2];
    int err = perf_link_wait(&hand->link, xfer, how);
    char stamp = stamp_of(hand->received);
    const char *block;

    if (err)
        return err;
    block = look(hand, xfer);
    if (!block)
        return RONDO_ERR_PEER;
    hand->wrong += (block[0] != stamp) + (block[hand->bytes - 1] != stamp);
    look_away(hand, xfer);
    return 0;
}

/* Rank 0 begins and ends a round.  Awake: what is not needed for handing on comes after it. */
static int first_round(struct hand *hand, enum perf_how how, double pause_us, double *round_us)
{
    double begin;
    int err;

    if (how == PERF_ASLEEP)
        perf_pause(pause_us);
    begin = perf_now_us();
    err = hand_on(hand, how);
    if (!err)
        err = take(hand, how);
    *round_us = perf_now_us() - begin;
    return err ? err : settle(hand);
}

static int other_round(struct hand *hand, enum perf_how how, double pause_us, double *paused_us)
{
    int err = take(hand, how);

    if (how == PERF_AWAKE) {
        if (!err)
            err = hand_on(hand, how);
        return err ? err : settle(hand);
    }
    if (!err)
        err = settle(hand);
    if (err)
        return err;
    *paused_us = perf_pause(pause_us);
    return hand_on(hand, how);
}

int hand_rounds(struct hand *hand, int rounds, enum perf_how how, double pause_us, double *round_us,
                double *paused_us)
{
    int err = start(hand, rounds);

    if (err)
        return err;
    for (int i = 0; i < rounds && !err; i++) {
        paused_us[i] = 0;
        err = hand->rank == 0 ? first_round(hand, how, pause_us, &round_us[i])
                              : other_round(hand, how, pause_us, &paused_us[i]);
    }
    return stop(hand, err);
}
