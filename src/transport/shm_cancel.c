/* SPDX-License-Identifier: Apache-2.0 */
/* Giving up: messages that are taken back, and ranks that close. */
#include <sched.h>

#include "base/clock.h"
#include "base/status.h"
#include "transport/shm_private.h"

static void send_left(struct ri_shm *self, struct ri_shm_op *op)
{
    struct ri_xfer *xfer = op->xfer;

    xfer->handle = NULL;
    xfer->state = RI_XFER_IDLE;
    op->xfer = NULL;
    ri_shm_op_move(op, &self->left);
    ri_shm_send_settle(self, op);
}

static void tell_withdrawn(struct ri_shm *self, const struct ri_shm_op *op)
{
    atomic_fetch_add(&ri_shm_pair_at(self, op->destination, self->me)->withdrawn, 1);
    ri_shm_ring(self, op->destination);
}

static void send_withdrawn(struct ri_shm *self, struct ri_shm_op *op)
{
    if (op->xfer->bind)
        ri_shm_lend_drop(self, op->lend, op->holder);
    if (op->published)
        tell_withdrawn(self, op);
    send_left(self, op);
}

/* Its receiver neither ends its slice nor finds the slot as it was. */
static int seize(struct ri_shm_slot *slot)
{
    uint32_t old = atomic_load(&slot->state);

    while ((old & RI_SHM_STATES) == RI_SHM_COPYING)
        if (atomic_compare_exchange_weak(&slot->state, &old, RI_SHM_WITHDRAWN | (old & RI_SHM_LISTED)))
            return 1;
    return 0;
}

static void send_give_up(struct ri_shm *self, struct ri_shm_op *op, int64_t deadline_ns)
{
    struct ri_shm_slot *slot = op->slot;
    enum ri_shm_state state;

    if (!op->published) {
        send_withdrawn(self, op);
        return;
    }
    do {
        if (ri_shm_slot_move(self, self->me, slot, RI_SHM_POSTED, RI_SHM_WITHDRAWN, 0) ||
            ri_shm_slot_move(self, self->me, slot, RI_SHM_MATCHED, RI_SHM_WITHDRAWN, 0))
            break;
        state = ri_shm_slot_state(slot);
        if (state == RI_SHM_COPYING && ri_now_ns() > deadline_ns)
            op->seized = seize(slot);
        else if (state == RI_SHM_COPYING)
            sched_yield();
    } while (state == RI_SHM_POSTED || state == RI_SHM_MATCHED || state == RI_SHM_COPYING);
    state = ri_shm_slot_state(slot);
    if (state == RI_SHM_WITHDRAWN || state == RI_SHM_RETURNED)
        send_withdrawn(self, op);
    else if (state == RI_SHM_DONE)
        ri_shm_send_done(self, op);
    else
        send_left(self, op);
}

/* A published send that fails at home. */
void ri_shm_send_withdraw(struct ri_shm *self, struct ri_shm_op *op)
{
    if (!ri_shm_slot_move(self, self->me, op->slot, RI_SHM_POSTED, RI_SHM_WITHDRAWN, 0) &&
        !ri_shm_slot_move(self, self->me, op->slot, RI_SHM_MATCHED, RI_SHM_WITHDRAWN, 0))
        return; /* the receiver is at it: another time */
    tell_withdrawn(self, op);
    ri_shm_send_fail(self, op);
}

static void receive_give_up(struct ri_shm *self, struct ri_shm_op *op)
{
    struct ri_shm_slot *slot = op->slot;
    struct ri_xfer *xfer = op->xfer;

    if (op->list == &self->waiting)
        ri_shm_receives_remove(self, op);
    if (slot && ri_shm_slot_move(self, op->source, slot, RI_SHM_MATCHED, RI_SHM_POSTED, 0)) {
        ri_shm_unexpected_add(self, op->source, slot);
    } else if (slot && !ri_shm_slot_move(self, op->source, slot, RI_SHM_WITHDRAWN, RI_SHM_RETURNED, 1)) {
        int holder = slot->holder;
        struct ri_shm_lend *lend = ri_shm_lend_of(self, slot);

        if (ri_shm_slot_move(self, op->source, slot, RI_SHM_GIVEN, RI_SHM_DONE, 1))
            ri_shm_lend_drop(self, lend, holder);
    }
    xfer->handle = NULL;
    xfer->state = RI_XFER_IDLE;
    ri_shm_op_free(self, op);
}

void ri_shm_give_up(struct ri_shm *self, struct ri_shm_op *op, int64_t deadline_ns)
{
    if (op->send)
        send_give_up(self, op, deadline_ns);
    else
        receive_give_up(self, op);
}

/* ---- a rank has closed ---- */

static void forsake_posted(struct ri_shm *self, struct ri_shm_op *op, int peer)
{
    int is_theirs = op->send ? op->destination == peer : op->source == peer;

    if (!is_theirs)
        return;
    if (!op->send)
        ri_shm_receives_remove(self, op);
    op->status = RONDO_ERR_PEER;
    op->gone = peer;
    op->published = 0; /* nobody looks at it any more */
    ri_shm_op_move(op, &self->work);
}

static void forsake_left(struct ri_shm *self, struct ri_shm_op *op, int peer)
{
    if (op->destination != peer)
        return;
    op->published = 0;
    ri_shm_send_settle(self, op);
}

void ri_shm_forsake(struct ri_shm *self, int peer)
{
    struct ri_shm_op *next;

    self->peers[peer].closed = 1;
    for (struct ri_shm_op *op = self->waiting.first; op; op = next) {
        next = op->next;
        forsake_posted(self, op, peer);
    }
    for (struct ri_shm_op *op = self->work.first; op; op = op->next)
        if (op->send && op->destination == peer) {
            op->status = RONDO_ERR_PEER;
            op->gone = peer;
            op->published = 0;
        }
    for (struct ri_shm_op *op = self->left.first; op; op = next) {
        next = op->next;
        forsake_left(self, op, peer);
    }
}

void ri_shm_give_up_all(struct ri_shm *self)
{
    int64_t deadline_ns = ri_now_ns() + RI_SHM_CANCEL_NS;

    while (self->waiting.first)
        ri_shm_give_up(self, self->waiting.first, deadline_ns);
    while (self->work.first)
        ri_shm_give_up(self, self->work.first, deadline_ns);
    while (self->dry.first)
        ri_shm_give_up(self, self->dry.first, deadline_ns);
    while (self->reads.first)
        ri_shm_release(self, self->reads.first);
    for (struct ri_shm_op *op = self->left.first; op; op = op->next)
        if (op->lend == &op->slot->lend)
            ri_shm_revoke(op);
        else if (op->counts && !op->seized) /* else who copies is perhaps still at it */
            ri_shm_lend_drop(self, op->lend, op->holder);
}
