/* SPDX-License-Identifier: Apache-2.0 */
/* Plain collectives: all-reduce, broadcast, barrier. */
#include <stdlib.h>

#include "base/status.h"
#include "schedule/internal.h"

static int wrap(int i, int ranks)
{
    return (i % ranks + ranks) % ranks;
}

/* These have one block, whatever the number of ranks. */
static void one_block(struct ri_schedule *s, int owner)
{
    s->blocks = 1;
    s->owner[0] = owner;
}

static int end(struct ri_schedule **schedule, struct ri_schedule *s)
{
    int err = ri_schedule_end(&s);

    if (!err)
        *schedule = s;
    return err;
}

/* ---- all-reduce: ring reduce-scatter, then ring all-gather, over `ranks` parts of a block ---- */

struct all_reduce {
    struct ri_schedule *s;
    int rank, ranks, next, prev;
    int32_t in, out, landing; /* landing: two places of one part, used in turn */
};

static struct ri_operand part_of(int32_t slot, int part)
{
    return ri_operand_parts(slot, 0, part, 1);
}

/* The sum of part p starts at rank p and goes once round, each rank adding its own, so that it ends
 * at rank p - 1 and was added in one order only.  In turn t we send part rank - t. */
static void reduce_scatter(const struct all_reduce *r)
{
    for (int t = 0; t < r->ranks - 1; t++) {
        int leaves = wrap(r->rank - t, r->ranks), comes = wrap(r->rank - t - 1, r->ranks);
        struct ri_operand sum = part_of(r->landing + t % 2, comes);

        ri_schedule_send(r->s, part_of(t ? r->landing + (t - 1) % 2 : r->in, leaves), r->next, t);
        ri_schedule_recv(r->s, sum, r->prev, t);
        ri_schedule_merge(r->s, RI_MERGE_SUM, part_of(r->in, comes), sum);
    }
}

/* `in` and `out` may be the same memory, which dependencies between slots do not see.  It is safe
 * because a part of `out` is only ever written with its finished sum, and no such sum exists
 * anywhere before every rank's `in` of that part was read to make it. */
static void all_gather(const struct all_reduce *r)
{
    int last = r->ranks - 2, finished = wrap(r->rank + 1, r->ranks);

    ri_schedule_copy(r->s, part_of(last >= 0 ? r->landing + last % 2 : r->in, finished),
                     part_of(r->out, finished));
    for (int t = 0; t < r->ranks - 1; t++) {
        int turn = r->ranks - 1 + t;

        ri_schedule_send(r->s, part_of(r->out, wrap(finished - t, r->ranks)), r->next, turn);
        ri_schedule_recv(r->s, part_of(r->out, wrap(finished - t - 1, r->ranks)), r->prev, turn);
    }
}

int ri_build_all_reduce(struct ri_schedule **schedule, const struct ri_build *build)
{
    int rank = build->rank, ranks = build->ranks;
    struct all_reduce r = {.rank = rank, .ranks = ranks};
    int err = ri_schedule_begin(&r.s, "all_reduce", rank, ranks, build->host);

    if (err)
        return err;
    one_block(r.s, 0);
    r.s->token_parts = ranks;
    r.next = wrap(rank + 1, ranks);
    r.prev = wrap(rank - 1, ranks);
    r.in = ri_schedule_slot(r.s, RI_R, RI_IN, ranks);
    r.out = ri_schedule_slot(r.s, RI_X, RI_OUT, ranks); /* finished sums are read-only and stay */
    r.landing = ri_schedule_slot(r.s, RI_R, RI_OWN, 1);
    ri_schedule_slot(r.s, RI_R, RI_OWN, 1);
    reduce_scatter(&r);
    all_gather(&r);
    return end(schedule, r.s);
}

/* ---- broadcast: binomial tree; in turn k the 2^k ranks that have the block each serve one more
 * ---- */

int ri_build_broadcast(struct ri_schedule **schedule, const struct ri_build *build)
{
    int rank = build->rank, ranks = build->ranks;
    struct ri_schedule *s;
    struct ri_operand block;
    int root = build->root;
    int behind, turn = 0; /* behind: how many places after the root, round the ranks */
    int err;

    if (root < 0 || root >= ranks)
        return ri_error(RONDO_ERR_ARGUMENT, "broadcast: root %d of %d ranks", root, ranks);
    err = ri_schedule_begin(&s, "broadcast", rank, ranks, build->host);
    if (err)
        return err;
    one_block(s, root);
    block = ri_operand(s, ri_schedule_slot(s, RI_X, rank == root ? RI_IN : RI_OUT, 1), 0);
    behind = wrap(rank - root, ranks);
    for (int64_t have = 1; have < ranks; have *= 2, turn++) {
        if (behind >= have && behind < 2 * have)
            ri_schedule_recv(s, block, wrap(rank - (int)have, ranks), turn);
        else if (behind < have && behind + have < ranks)
            ri_schedule_send(s, block, wrap(rank + (int)have, ranks), turn);
    }
    return end(schedule, s);
}

/* ---- barrier: dissemination ---- */

struct barrier {
    struct ri_schedule *s;
    int32_t tokens; /* first of `ranks` slots; slot tokens + r holds the token of rank r */
};

/* Sends or receives the tokens of ranks first .. first+count-1, taken round; two messages where the
 * numbers wrap, since an operand spans blocks in ascending order. */
static void move_tokens(const struct barrier *b, enum ri_op op, int first, int count, int peer,
                        int turn)
{
    int ranks = b->s->ranks;

    for (int part = 0; part < 2; part++) {
        int start = part ? 0 : wrap(first, ranks);
        int before_wrap = ranks - wrap(first, ranks);
        int here = part ? count - before_wrap : count < before_wrap ? count : before_wrap;
        struct ri_operand tokens = {b->tokens + start, start, (uint16_t)here, 0, 1};

        if (here > 0 && op == RI_SEND)
            ri_schedule_send(b->s, tokens, peer, turn);
        else if (here > 0)
            ri_schedule_recv(b->s, tokens, peer, turn);
    }
}

/* Before turn k we have the tokens of the 2^k ranks that end at ours.  They go to the rank 2^k
 * ahead, except those that it has by then. */
int ri_build_barrier(struct ri_schedule **schedule, const struct ri_build *build)
{
    int rank = build->rank, ranks = build->ranks;
    struct barrier b = {0};
    int32_t own;
    int turn = 0, err = ri_schedule_begin(&b.s, "barrier", rank, ranks, build->host);

    if (err)
        return err;
    own = ri_schedule_slot(b.s, RI_X, RI_IN, 1);
    for (int r = 0; r < ranks; r++) {
        int32_t slot = ri_schedule_slot(b.s, RI_X, RI_OWN, 1);

        b.tokens = r ? b.tokens : slot;
    }
    ri_schedule_copy(b.s, ri_operand(b.s, own, rank), ri_operand(b.s, b.tokens + rank, rank));
    for (int64_t have = 1; have < ranks; have *= 2, turn++) {
        int step = (int)have, count = 2 * have <= ranks ? step : ranks - step;

        move_tokens(&b, RI_SEND, rank - count + 1, count, wrap(rank + step, ranks), turn);
        move_tokens(&b, RI_RECV, rank - step - count + 1, count, wrap(rank - step, ranks), turn);
    }
    return end(schedule, b.s);
}

const struct ri_builder_entry ri_builders[] = {
    {"ring_forward", ri_build_ring_forward},
    {"ring_kv_grad", ri_build_ring_kv_grad},
    {"ring_q_grad", ri_build_ring_q_grad},
    {"two_level_forward", ri_build_two_level_forward},
    {"two_level_kv_grad", ri_build_two_level_kv_grad},
    {"two_level_q_grad", ri_build_two_level_q_grad},
    {"direct_forward", ri_build_direct_forward},
    {"direct_kv_grad", ri_build_direct_kv_grad},
    {"direct_q_grad", ri_build_direct_q_grad},
    {"all_reduce", ri_build_all_reduce},
    {"broadcast", ri_build_broadcast},
    {"barrier", ri_build_barrier},
    {NULL, NULL},
};
