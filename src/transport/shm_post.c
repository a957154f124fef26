/* SPDX-License-Identifier: Apache-2.0 */
/* Accepting messages: all that can be refused is refused before the first one starts. */
#include "base/status.h"
#include "transport/shm_private.h"
#include "transport/xfer.h"

static int check(const struct ri_shm *self, const struct ri_xfer *xfer)
{
    const struct ri_shm_op *passed = xfer->reference.counter;
    int rank = self->base.rank, local = self->local_of[xfer->peer];

    if (local < 0 && xfer->bind)
        return ri_error(RONDO_ERR_ARGUMENT, "bound message between rank %d and rank %d of another host: "
                        "copy it", rank, xfer->peer);
    if (local < 0)
        return ri_error(RONDO_ERR_ARGUMENT, "message between rank %d and rank %d of another host: transport "
                        "shm reaches ranks of one host", rank, xfer->peer);
    if (!self->peers[local].is_peer)
        return ri_error(RONDO_ERR_ARGUMENT, "message between rank %d and rank %d, which said that they have "
                        "none", rank, xfer->peer);
    if (!self->peers[local].front)
        return ri_error(RONDO_ERR_TRANSPORT, "message before rank %d is connected to rank "
                        "%d", rank, xfer->peer);
    if (!xfer->send || !passed)
        return 0;
    if (!passed->reading)
        return ri_error(RONDO_ERR_ARGUMENT, "rank %d passes on to rank %d what it has "
                        "released", rank, xfer->peer);
    if (xfer->bind && ri_xfer_bytes(xfer) &&
        !ri_shm_holds(self, passed->holder, xfer->base, ri_xfer_bytes(xfer)))
        return ri_error(RONDO_ERR_ARGUMENT, "rank %d passes on to rank %d what does not lie at rank %d, "
                        "which holds it", rank, xfer->peer, self->peers[passed->holder].rank);
    return 0;
}

/* From the first byte to the last, gaps too. */
static size_t span_bytes(const struct ri_xfer *xfer)
{
    return xfer->rows ? (xfer->rows - 1) * xfer->row_stride + xfer->row_bytes : 0;
}

/* Where the receiver will read it, as far as that is known: else a copy is made. */
static int place(struct ri_shm *self, struct ri_shm_op *op, const struct ri_xfer *xfer)
{
    const struct ri_shm_op *passed = xfer->reference.counter;
    struct ri_shm_slot *slot = op->slot;
    size_t bytes = ri_xfer_bytes(xfer);

    slot->holder = (int16_t)(passed ? passed->holder : self->me);
    slot->lent = passed ? ri_shm_offset(self, passed->holder, passed->lend) : 0;
    slot->rows = xfer->rows;
    slot->row_bytes = xfer->row_bytes;
    slot->row_stride = xfer->row_stride;
    slot->place = RI_SHM_OWN;
    slot->base = 0;
    if (!bytes)
        return 0;
    if (passed && ri_shm_holds(self, passed->holder, xfer->base, span_bytes(xfer))) {
        slot->place = RI_SHM_HELD;
        slot->base = ri_shm_offset(self, passed->holder, xfer->base);
        return 0;
    }
    if (ri_shm_holds(self, self->me, xfer->base, span_bytes(xfer))) {
        slot->base = ri_shm_offset(self, self->me, xfer->base);
        return 0;
    }
    if (!xfer->bind && bytes > RI_SHM_SMALL_BYTES && self->peers[op->destination].reads_us &&
        (ri_xfer_contiguous(xfer) || xfer->row_bytes >= RI_SHM_RUN_BYTES)) {
        slot->place = RI_SHM_CMA;
        slot->base = (uint64_t)(uintptr_t)xfer->base;
        return 0;
    }
    if (!xfer->bind && bytes > RI_SHM_SMALL_BYTES) {
        slot->place = RI_SHM_STREAM;
        atomic_store_explicit(&slot->made, 0, memory_order_relaxed);
        atomic_store_explicit(&slot->taken, 0, memory_order_relaxed);
        return 0;
    }
    op->stage = ri_shm_stage_new(self, bytes);
    if (!op->stage)
        return RONDO_ERR_MEMORY;
    slot->base = op->stage->offset;
    slot->rows = 1;
    slot->row_bytes = slot->row_stride = bytes;
    return 0;
}

static int prepare(struct ri_shm *self, struct ri_xfer *xfer)
{
    int local = self->local_of[xfer->peer];
    struct ri_shm_op *op = xfer->send ? self->spare_sends.first : self->spare.first;
    int err;

    op->source = xfer->send ? self->me : local;
    op->destination = xfer->send ? local : self->me;
    if (xfer->send) {
        op->slot->tag = xfer->tag;
        op->slot->bytes = ri_xfer_bytes(xfer);
        op->slot->bind = xfer->bind;
        err = place(self, op, xfer);
        if (err)
            return err;
    }
    op->xfer = xfer;
    xfer->handle = op;
    ri_shm_op_move(op, &self->work);
    return 0;
}

static void take_back(struct ri_shm *self, struct ri_xfer *xfer)
{
    struct ri_shm_op *op = xfer->handle;

    xfer->handle = NULL;
    if (op->stage)
        ri_shm_stage_free(self, op->stage);
    ri_shm_op_free(self, op);
}

/* The message counts as a reader of what it gives out or passes on: one that is copied, too, until its slot
 * is back, since who copies may be at it when its sender has given it up. */
static void count_reader(struct ri_shm *self, struct ri_shm_op *op)
{
    const struct ri_shm_op *passed = op->xfer->reference.counter;
    struct ri_shm_lend *own = &op->slot->lend;

    op->lend = passed ? passed->lend : own;
    op->holder = passed ? passed->holder : self->me;
    if (passed) {
        atomic_fetch_add(&op->lend->readers, 1);
        return;
    }
    atomic_store_explicit(&own->readers, 1, memory_order_relaxed);
    atomic_store_explicit(&own->inside, 0, memory_order_relaxed);
    atomic_store_explicit(&own->revoked, 0, memory_order_relaxed);
}

static void start(struct ri_shm *self, struct ri_shm_op *op)
{
    struct ri_xfer *xfer = op->xfer;

    xfer->state = RI_XFER_POSTED;
    if (!xfer->send) {
        ri_shm_receive_wait(self, op);
        return;
    }
    if (xfer->bind || xfer->reference.counter)
        count_reader(self, op);
    op->counts = !xfer->bind && xfer->reference.counter;
    if (self->peers[op->destination].closed) {
        op->status = RONDO_ERR_PEER;
        op->gone = op->destination;
        return;
    }
    if (op->stage && op->slot->bytes <= RI_SHM_SMALL_BYTES) {
        op->staged_bytes = op->slot->bytes;
        ri_xfer_pack(xfer, 0, self->peers[self->me].base + op->slot->base, op->slot->bytes);
    }
    if (!op->stage || op->staged_bytes == op->slot->bytes)
        ri_shm_publish(self, op);
}

int ri_shm_post(struct ri_shm *self, struct ri_xfer *const *xfers, int n)
{
    int err = ri_xfer_check(&self->base, xfers, n), prepared = 0;

    for (int i = 0; i < n && !err; i++)
        err = check(self, xfers[i]);
    for (int p = 0; p < self->locals && !err && self->spare_sends.count < n; p++)
        ri_shm_look_back(self, p);
    if (!err)
        err = ri_shm_ops_grow(self, n);
    while (!err && prepared < n) {
        err = prepare(self, xfers[prepared]);
        prepared += !err;
    }
    for (int i = 0; i < prepared; i++)
        if (err)
            take_back(self, xfers[i]);
        else
            start(self, xfers[i]->handle);
    return err;
}
