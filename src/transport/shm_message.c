/* SPDX-License-Identifier: Apache-2.0 */
/* How a message passes between two ranks: the slot goes to the receiver's inbox, is matched by tag with a
 * receive, and comes back. */
#include "base/status.h"
#include "transport/shm_private.h"
#include "transport/xfer.h"

/* ---- slots ---- */

enum ri_shm_state ri_shm_slot_state(const struct ri_shm_slot *slot)
{
    return (enum ri_shm_state)(atomic_load(&slot->state) & RI_SHM_STATES);
}

/* On top of a pile that one rank builds and another takes away whole. */
static void pile(_Atomic uint64_t *top, struct ri_shm_slot *slot, uint64_t offset)
{
    uint64_t below = atomic_load(top);

    do
        slot->next = below;
    while (!atomic_compare_exchange_weak(top, &below, offset));
}

int ri_shm_slot_move(struct ri_shm *self, int source, struct ri_shm_slot *slot, enum ri_shm_state from,
                     enum ri_shm_state to, int listed)
{
    uint32_t old = atomic_load(&slot->state), new;

    do {
        if ((old & RI_SHM_STATES) != from)
            return 0;
        new = (uint32_t)to | (old & RI_SHM_LISTED) | (listed ? RI_SHM_LISTED : 0);
    } while (!atomic_compare_exchange_weak(&slot->state, &old, new));
    /* While it is listed the sender keeps it; from then on the slot is not ours to touch. */
    if (listed && !(old & RI_SHM_LISTED))
        pile(&ri_shm_pair_at(self, source, self->me)->back, slot, ri_shm_offset(self, source, slot));
    if (listed)
        ri_shm_ring(self, source);
    return 1;
}

void ri_shm_slot_tell(struct ri_shm *self, int source, struct ri_shm_slot *slot)
{
    if (!(atomic_fetch_or(&slot->state, RI_SHM_LISTED) & RI_SHM_LISTED))
        pile(&ri_shm_pair_at(self, source, self->me)->back, slot, ri_shm_offset(self, source, slot));
    ri_shm_ring(self, source);
}

void ri_shm_publish(struct ri_shm *self, struct ri_shm_op *op)
{
    op->published = 1;
    atomic_store(&op->slot->state, RI_SHM_POSTED);
    pile(&ri_shm_pair_at(self, op->destination, self->me)->inbox, op->slot,
         ri_shm_offset(self, self->me, op->slot));
    ri_shm_ring(self, op->destination);
    ri_shm_op_move(op, &self->waiting);
}

/* ---- sends ---- */

static int lends(const struct ri_shm_op *op)
{
    return op->lend == &op->slot->lend;
}

void ri_shm_send_settle(struct ri_shm *self, struct ri_shm_op *op)
{
    if (op->xfer || op->published || op->given)
        return;
    if (lends(op) && atomic_load(&op->lend->readers) > 0) {
        self->unsettled = 1; /* until the last of them lets go */
        return;
    }
    if (op->counts)
        ri_shm_lend_drop(self, op->lend, op->holder);
    if (op->stage)
        ri_shm_stage_free(self, op->stage);
    ri_shm_op_free(self, op);
}

static void send_end(struct ri_shm *self, struct ri_shm_op *op)
{
    op->xfer = NULL;
    self->events++;
    ri_shm_op_move(op, &self->left);
    ri_shm_send_settle(self, op);
}

void ri_shm_send_done(struct ri_shm *self, struct ri_shm_op *op)
{
    struct ri_xfer *xfer = op->xfer;

    ri_xfer_done(&self->base, xfer);
    if (xfer->bind && lends(op)) {
        op->given = 1;
        xfer->handle = op;
    }
    send_end(self, op);
}

void ri_shm_send_fail(struct ri_shm *self, struct ri_shm_op *op)
{
    ri_xfer_failed(op->xfer, ri_shm_say(self, op, op->slot, op->status, op->gone));
    send_end(self, op);
}

/* A receiver that has matched a bound send will read it, unless its holder has taken it back. */
static void send_matched(struct ri_shm *self, struct ri_shm_op *op)
{
    if (op->xfer && op->xfer->bind && !atomic_load(&op->lend->revoked) &&
        ri_shm_slot_move(self, self->me, op->slot, RI_SHM_MATCHED, RI_SHM_GIVEN, 0))
        ri_shm_send_done(self, op);
}

static void send_look(struct ri_shm *self, struct ri_shm_op *op)
{
    uint32_t state = atomic_fetch_and(&op->slot->state, RI_SHM_STATES) & RI_SHM_STATES;

    if (state == RI_SHM_MATCHED)
        send_matched(self, op);
    if (state < RI_SHM_DONE && op->xfer && op->slot->place == RI_SHM_STREAM)
        ri_shm_op_move(op, &self->work);
    if (state < RI_SHM_DONE)
        return;
    op->published = 0;
    if (!op->xfer) {
        ri_shm_send_settle(self, op);
    } else if (state == RI_SHM_DONE) {
        ri_shm_send_done(self, op);
    } else {
        op->status = op->slot->status;
        op->gone = op->slot->gone;
        ri_shm_send_fail(self, op);
    }
}

/* ---- receives ---- */

int ri_shm_fits(const struct ri_shm_op *receive, const struct ri_shm_slot *slot)
{
    return ri_xfer_bytes(receive->xfer) == slot->bytes && receive->xfer->bind == slot->bind;
}

/* 0: the slot was withdrawn, and is gone. */
static int match(struct ri_shm *self, struct ri_shm_op *op, struct ri_shm_slot *slot)
{
    int is_stream = slot->place == RI_SHM_STREAM;
    int is_heard = (slot->bind || is_stream) && ri_shm_fits(op, slot);

    op->slot = slot;
    op->copied_bytes = 0;
    if (is_stream)
        ri_shm_stream_match(op);
    if (!ri_shm_slot_move(self, op->source, slot, RI_SHM_POSTED, RI_SHM_MATCHED, is_heard)) {
        op->slot = NULL;
        ri_shm_slot_move(self, op->source, slot, RI_SHM_WITHDRAWN, RI_SHM_RETURNED, 1);
        return 0;
    }
    ri_shm_op_move(op, &self->work);
    return 1;
}

static void arrive(struct ri_shm *self, int source, struct ri_shm_slot *slot)
{
    struct ri_shm_op *op;

    if (ri_shm_slot_move(self, source, slot, RI_SHM_WITHDRAWN, RI_SHM_RETURNED, 1))
        return;
    op = ri_shm_receives_take(self, source, slot->tag);
    if (!op)
        ri_shm_unexpected_add(self, source, slot);
    else if (!match(self, op, slot))
        ri_shm_receives_add(self, op);
}

/* Takes away a pile of slots that lie at `holder`, the oldest first. */
static struct ri_shm_slot *take_pile(struct ri_shm *self, int holder, _Atomic uint64_t *top)
{
    uint64_t offset = atomic_load_explicit(top, memory_order_relaxed) ? atomic_exchange(top, 0) : 0;
    uint64_t newer = 0;

    while (offset) {
        struct ri_shm_slot *slot = ri_shm_slot_at(self, holder, offset);
        uint64_t older = slot->next;

        slot->next = newer;
        newer = offset;
        offset = older;
    }
    return newer ? ri_shm_slot_at(self, holder, newer) : NULL;
}

static struct ri_shm_slot *next_of(struct ri_shm *self, int holder, const struct ri_shm_slot *slot)
{
    return slot->next ? ri_shm_slot_at(self, holder, slot->next) : NULL;
}

static void look_in_inbox(struct ri_shm *self, int peer)
{
    struct ri_shm_slot *slot = take_pile(self, peer, &self->front->pairs[peer].inbox);

    while (slot) {
        struct ri_shm_slot *next = next_of(self, peer, slot);

        arrive(self, peer, slot);
        slot = next;
    }
}

void ri_shm_look_back(struct ri_shm *self, int peer)
{
    struct ri_shm_slot *slot = take_pile(self, self->me, &self->front->pairs[peer].back);

    while (slot) {
        struct ri_shm_slot *next = next_of(self, self->me, slot);

        send_look(self, slot->owner);
        slot = next;
    }
}

void ri_shm_look(struct ri_shm *self, int peer)
{
    struct ri_shm_peer *from = &self->peers[peer];
    int closed = from->front && atomic_load(&from->front->closed); /* nothing comes after that */
    uint32_t withdrawn;

    if (from->front)
        look_in_inbox(self, peer);
    ri_shm_look_back(self, peer);
    withdrawn = atomic_load(&self->front->pairs[peer].withdrawn);
    if (withdrawn != from->withdrawn)
        ri_shm_unexpected_sweep(self, peer);
    from->withdrawn = withdrawn;
    if (self->dry.first)
        ri_shm_stream_look(self, peer);
    if (closed && !from->closed)
        ri_shm_forsake(self, peer);
}

void ri_shm_receive_wait(struct ri_shm *self, struct ri_shm_op *op)
{
    struct ri_shm_slot *slot;

    look_in_inbox(self, op->source);
    while ((slot = ri_shm_unexpected_take(self, op->source, op->xfer->tag)))
        if (match(self, op, slot))
            return;
    if (!self->peers[op->source].closed) {
        ri_shm_receives_add(self, op);
        return;
    }
    op->status = RONDO_ERR_PEER;
    op->gone = op->source;
    ri_shm_op_move(op, &self->work);
}

void ri_shm_receive_again(struct ri_shm *self, struct ri_shm_op *op)
{
    ri_shm_slot_move(self, op->source, op->slot, RI_SHM_WITHDRAWN, RI_SHM_RETURNED, 1);
    op->slot = NULL;
    op->status = 0;
    ri_shm_receive_wait(self, op);
}

void ri_shm_receive_done(struct ri_shm *self, struct ri_shm_op *op)
{
    ri_xfer_done(&self->base, op->xfer);
    self->events++;
}

/* The send fails too, or is DONE already; 0: it was withdrawn. */
static int fail_send(struct ri_shm *self, struct ri_shm_op *op)
{
    struct ri_shm_slot *slot = op->slot;
    struct ri_shm_lend *lend = ri_shm_lend_of(self, slot);
    int holder = slot->holder, bind = slot->bind;

    slot->status = op->status;
    slot->gone = (int16_t)op->gone;
    slot->expected_bytes = ri_xfer_bytes(op->xfer);
    slot->expected_bind = op->xfer->bind;
    if (!ri_shm_slot_move(self, op->source, slot, RI_SHM_MATCHED, RI_SHM_FAILED, 1) &&
        !ri_shm_slot_move(self, op->source, slot, RI_SHM_GIVEN, RI_SHM_DONE, 1))
        return 0;
    if (bind)
        ri_shm_lend_drop(self, lend, holder);
    return 1;
}

void ri_shm_receive_fail(struct ri_shm *self, struct ri_shm_op *op)
{
    int status = 0;

    if (op->slot)
        status = ri_shm_say(self, op, op->slot, op->status, op->gone);
    if (op->slot && !fail_send(self, op)) {
        ri_shm_receive_again(self, op);
        return;
    }
    if (!op->slot)
        status = ri_shm_say(self, op, NULL, op->status, op->gone);
    ri_xfer_failed(op->xfer, status);
    self->events++;
    ri_shm_op_free(self, op);
}
