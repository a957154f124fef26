/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank keeps of its messages: lists, and tables by source and tag. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "transport/shm_private.h"

enum { OPS_AT_ONCE = 32, SLOTS_AT_ONCE = 64 };

struct ri_shm_chunk {
    struct ri_shm_chunk *next;
    struct ri_shm_op ops[OPS_AT_ONCE];
};

void ri_shm_op_move(struct ri_shm_op *op, struct ri_shm_list *list)
{
    struct ri_shm_list *from = op->list;

    if (from) {
        *(op->previous ? &op->previous->next : &from->first) = op->next;
        *(op->next ? &op->next->previous : &from->last) = op->previous;
        from->count--;
    }
    op->list = list;
    op->next = NULL;
    op->previous = list->last;
    *(list->last ? &list->last->next : &list->first) = op;
    list->last = op;
    list->count++;
}

/* ---- more of them ---- */

static int slots_grow(struct ri_shm *self)
{
    struct ri_shm_block *block = ri_shm_block_new(self, SLOTS_AT_ONCE * sizeof(struct ri_shm_slot));
    struct ri_shm_slot *slots;

    if (!block)
        return RONDO_ERR_MEMORY;
    slots = ri_shm_slot_at(self, self->me, block->offset);
    for (size_t i = 0; i < block->bytes / sizeof(*slots); i++) {
        slots[i].chain = self->spare_slots;
        self->spare_slots = &slots[i];
    }
    return 0;
}

static int ops_grow(struct ri_shm *self)
{
    struct ri_shm_chunk *chunk = calloc(1, sizeof(*chunk));

    if (!chunk)
        return ri_error(RONDO_ERR_MEMORY, "no memory for %d messages", OPS_AT_ONCE);
    chunk->next = self->chunks;
    self->chunks = chunk;
    for (int i = 0; i < OPS_AT_ONCE; i++)
        ri_shm_op_move(&chunk->ops[i], &self->spare);
    return 0;
}

int ri_shm_ops_grow(struct ri_shm *self, int n)
{
    int err = 0;

    while (self->spare.count < n && !err)
        err = ops_grow(self);
    while (self->spare_sends.count < n && !err) {
        struct ri_shm_op *op;

        err = self->spare.count > n ? 0 : ops_grow(self);
        if (!err && !self->spare_slots)
            err = slots_grow(self);
        if (err)
            break;
        op = self->spare.first;
        op->slot = self->spare_slots;
        op->slot->owner = op;
        self->spare_slots = op->slot->chain;
        op->send = 1;
        ri_shm_op_move(op, &self->spare_sends);
    }
    return err;
}

void ri_shm_op_free(struct ri_shm *self, struct ri_shm_op *op)
{
    struct ri_shm_slot *slot = op->slot;
    int is_send = op->send;
    struct ri_shm_op clean = { .previous = op->previous, .next = op->next, .list = op->list };

    *op = clean;
    if (is_send) {
        op->slot = slot;
        op->send = 1;
    }
    ri_shm_op_move(op, op->send ? &self->spare_sends : &self->spare);
}

void ri_shm_ops_close(struct ri_shm *self)
{
    while (self->chunks) {
        struct ri_shm_chunk *chunk = self->chunks;

        self->chunks = chunk->next;
        free(chunk);
    }
}

/* ---- receives that wait for their send ---- */

static size_t bucket_of(int source, uint64_t tag)
{
    uint64_t mixed = (tag ^ (uint64_t)source << 48) * UINT64_C(0x9e3779b97f4a7c15);

    return mixed >> 32 & (RI_SHM_BUCKETS - 1);
}

void ri_shm_receives_add(struct ri_shm *self, struct ri_shm_op *op)
{
    struct ri_shm_op **bucket = &self->receives[bucket_of(op->source, op->xfer->tag)];

    op->chain = *bucket;
    *bucket = op;
    ri_shm_op_move(op, &self->waiting);
}

struct ri_shm_op *ri_shm_receives_take(struct ri_shm *self, int source, uint64_t tag)
{
    struct ri_shm_op **link = &self->receives[bucket_of(source, tag)];

    while (*link && ((*link)->source != source || (*link)->xfer->tag != tag))
        link = &(*link)->chain;
    if (*link) {
        struct ri_shm_op *op = *link;

        *link = op->chain;
        return op;
    }
    return NULL;
}

void ri_shm_receives_remove(struct ri_shm *self, struct ri_shm_op *op)
{
    struct ri_shm_op **link = &self->receives[bucket_of(op->source, op->xfer->tag)];

    while (*link && *link != op)
        link = &(*link)->chain;
    if (*link)
        *link = op->chain;
}

/* ---- slots that wait for their receive ---- */

void ri_shm_unexpected_add(struct ri_shm *self, int source, struct ri_shm_slot *slot)
{
    struct ri_shm_slot **bucket = &self->unexpected[bucket_of(source, slot->tag)];

    slot->source = (int16_t)source;
    slot->chain = *bucket;
    *bucket = slot;
}

struct ri_shm_slot *ri_shm_unexpected_take(struct ri_shm *self, int source, uint64_t tag)
{
    struct ri_shm_slot **link = &self->unexpected[bucket_of(source, tag)], *slot;

    while (*link && ((*link)->source != source || (*link)->tag != tag))
        link = &(*link)->chain;
    slot = *link;
    if (slot)
        *link = slot->chain;
    return slot;
}

void ri_shm_unexpected_sweep(struct ri_shm *self, int source)
{
    for (int b = 0; b < RI_SHM_BUCKETS; b++) {
        struct ri_shm_slot **link = &self->unexpected[b];

        while (*link) {
            struct ri_shm_slot *slot = *link;

            if (slot->source != source || ri_shm_slot_state(slot) != RI_SHM_WITHDRAWN) {
                link = &slot->chain;
                continue;
            }
            *link = slot->chain;
            ri_shm_slot_move(self, source, slot, RI_SHM_WITHDRAWN, RI_SHM_RETURNED, 1);
        }
    }
}
