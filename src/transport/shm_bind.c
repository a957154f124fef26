/* SPDX-License-Identifier: Apache-2.0 */
/* Content that others read in place: who reads it is counted in the slot of its holder's send. */
#include "base/status.h"
#include "transport/shm_private.h"

static void tell_holder(struct ri_shm *self, int holder)
{
    atomic_fetch_add(&self->peers[holder].front->let_go, 1);
    ri_shm_ring(self, holder);
}

/* At 0 the holder may use the slot anew at once. */
void ri_shm_lend_drop(struct ri_shm *self, struct ri_shm_lend *lend, int holder)
{
    if (atomic_fetch_sub(&lend->readers, 1) == 1)
        tell_holder(self, holder);
}

void ri_shm_take(struct ri_shm *self, struct ri_shm_op *op)
{
    struct ri_shm_slot *slot = op->slot;
    struct ri_xfer *xfer = op->xfer;
    int holder = slot->holder;
    char *base = self->peers[holder].base + slot->base;

    op->lend = ri_shm_lend_of(self, slot);
    op->holder = holder;
    if (atomic_load(&op->lend->revoked)) {
        op->status = RONDO_ERR_PEER;
        op->gone = holder;
        ri_shm_receive_fail(self, op);
        return;
    }
    if (!slot->bytes)
        base = NULL;
    if (!ri_shm_slot_move(self, op->source, slot, RI_SHM_MATCHED, RI_SHM_DONE, 1) &&
        !ri_shm_slot_move(self, op->source, slot, RI_SHM_GIVEN, RI_SHM_DONE, 1)) {
        ri_shm_receive_again(self, op);
        return;
    }
    op->slot = NULL;
    op->reading = 1;
    xfer->base = base;
    xfer->reference = (struct ri_reference){ base, self->peers[holder].rank, op };
    ri_shm_receive_done(self, op);
    op->xfer = NULL;
    ri_shm_op_move(op, &self->reads);
}

void ri_shm_release(struct ri_shm *self, struct ri_shm_op *read)
{
    ri_shm_lend_drop(self, read->lend, read->holder);
    ri_shm_op_free(self, read);
}

/* Inside first, then the look at revoked, as the holder first revokes and then looks who is inside. */
int ri_shm_enter(struct ri_shm_lend *lend)
{
    atomic_fetch_add(&lend->inside, 1);
    return !atomic_load(&lend->revoked);
}

/* As we count as a reader the record is still about the same content. */
int ri_shm_leave(struct ri_shm *self, struct ri_shm_lend *lend, int holder)
{
    int was_last = atomic_fetch_sub(&lend->inside, 1) == 1;

    if (!atomic_load(&lend->revoked))
        return 1;
    if (was_last)
        tell_holder(self, holder);
    return 0;
}

void ri_shm_revoke(struct ri_shm_op *op)
{
    atomic_store(&op->lend->revoked, 1);
}

int ri_shm_readers(struct ri_shm *self, struct ri_xfer *send)
{
    struct ri_shm_op *op = send->handle;
    int readers = atomic_load(&op->lend->revoked) ? atomic_load(&op->lend->inside)
                                                  : atomic_load(&op->lend->readers);

    if (readers > 0)
        return readers;
    send->handle = NULL;
    op->given = 0;
    ri_shm_send_settle(self, op);
    return 0;
}

void ri_shm_settle_left(struct ri_shm *self)
{
    struct ri_shm_op *op = self->left.first;

    self->unsettled = 0;
    while (op) {
        struct ri_shm_op *next = op->next;

        ri_shm_send_settle(self, op);
        op = next;
    }
}
