/* SPDX-License-Identifier: Apache-2.0 */
/* Where CMA is refused, large messages from memory that is not shared go through a ring of memory that
 * is: the sender copies ahead of the receiver.  A receive that is given up leaves the message to another,
 * for whom it begins anew: `made` and `taken` hold in their upper bits which receive they are about. */
#include <stdatomic.h>

#include "base/minmax.h"
#include "base/status.h"
#include "transport/shm_private.h"
#include "transport/xfer.h"

enum { TURN_SHIFT = 48 };

static const uint64_t bytes_mask = ((uint64_t)1 << TURN_SHIFT) - 1;

static uint64_t progress_of(uint16_t turn, uint64_t bytes)
{
    return (uint64_t)turn << TURN_SHIFT | bytes;
}

/* What is left of the ring before it begins anew. */
static size_t until_end(uint64_t at_bytes, uint64_t ring_bytes)
{
    return (size_t)(ring_bytes - at_bytes % ring_bytes);
}

/* Before the slot is MATCHED with it. */
void ri_shm_stream_match(struct ri_shm_op *receive)
{
    receive->turn = (uint16_t)((atomic_load(&receive->slot->taken) >> TURN_SHIFT) + 1);
    atomic_store(&receive->slot->taken, progress_of(receive->turn, 0));
}

/* The pages of the ring are found when the first receive is there. */
static int make_ring(struct ri_shm *self, struct ri_shm_op *op)
{
    struct ri_shm_slot *slot = op->slot;

    if (op->stage)
        return 0;
    op->stage = ri_shm_stage_new(self, ri_min_size(slot->bytes, RI_SHM_STREAM_BYTES));
    if (!op->stage)
        return RONDO_ERR_MEMORY;
    slot->base = op->stage->offset;
    slot->ring_bytes = ri_min_size(slot->bytes, RI_SHM_STREAM_BYTES);
    return 0;
}

size_t ri_shm_stream_send(struct ri_shm *self, struct ri_shm_op *op)
{
    struct ri_shm_slot *slot = op->slot;
    uint64_t taken = atomic_load(&slot->taken);
    uint16_t turn = (uint16_t)(taken >> TURN_SHIFT);
    size_t bytes;

    op->status = make_ring(self, op);
    if (op->status)
        return 0;
    if (op->turn != turn) {
        op->turn = turn;
        op->staged_bytes = 0;
    }
    bytes = slot->ring_bytes - (op->staged_bytes - (taken & bytes_mask)); /* that are free */
    bytes = ri_min_size(ri_min_size(bytes, slot->bytes - op->staged_bytes), RI_SHM_SLICE_BYTES);
    bytes = ri_min_size(bytes, until_end(op->staged_bytes, slot->ring_bytes));
    if (!bytes) { /* until the receiver tells that it has taken more */
        ri_shm_op_move(op, &self->waiting);
        return 0;
    }
    ri_xfer_pack(op->xfer, op->staged_bytes,
                 self->peers[self->me].base + slot->base + op->staged_bytes % slot->ring_bytes, bytes);
    op->staged_bytes += bytes;
    atomic_store(&slot->made, progress_of(turn, op->staged_bytes));
    ri_shm_ring(self, op->destination);
    self->events++;
    return bytes;
}

/* Copies up to `bytes` of what has come; returns how much that was. */
size_t ri_shm_stream_receive(struct ri_shm *self, struct ri_shm_op *op, size_t bytes)
{
    struct ri_shm_slot *slot = op->slot;
    uint64_t made = atomic_load(&slot->made);

    if (made >> TURN_SHIFT != op->turn)
        return 0;
    bytes = ri_min_size(bytes, (made & bytes_mask) - op->copied_bytes);
    if (!bytes)
        return 0;
    bytes = ri_min_size(bytes, until_end(op->copied_bytes, slot->ring_bytes));
    ri_xfer_unpack(op->xfer, op->copied_bytes,
                   self->peers[op->source].base + slot->base + op->copied_bytes % slot->ring_bytes, bytes);
    atomic_store(&slot->taken, progress_of(op->turn, op->copied_bytes + bytes));
    return bytes;
}

void ri_shm_stream_look(struct ri_shm *self, int peer)
{
    struct ri_shm_op *op = self->dry.first;

    while (op) {
        struct ri_shm_op *next = op->next;

        if (op->source == peer)
            ri_shm_op_move(op, &self->work);
        op = next;
    }
}
