/* SPDX-License-Identifier: Apache-2.0 */
/* What takes time, a slice per call of progress: copies for who will read in place, and messages that
 * their receiver copies. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/status.h"
#include "transport/shm_private.h"
#include "transport/xfer.h"

enum { RUNS = 64 }; /* runs of memory that one system call copies */

int ri_shm_say(struct ri_shm *self, const struct ri_shm_op *op, const struct ri_shm_slot *slot, int status,
               int gone)
{
    int source = self->peers[op->source].rank, destination = self->peers[op->destination].rank;
    size_t expected = op->send ? slot->expected_bytes : ri_xfer_bytes(op->xfer);
    int expected_bind = op->send ? slot->expected_bind : op->xfer->bind;
    unsigned long long tag = op->xfer->tag;

    if (status == RONDO_ERR_PEER)
        return ri_error(status, "rank %d has %s", self->peers[gone].rank,
                        atomic_load(&self->peers[gone].front->closed)
                            ? "closed its transport" : "given up its run, and taken back what was passed on");
    if (status == RONDO_ERR_MEMORY)
        return ri_error(status, "rank %d has no memory to send rank %d the message with tag 0x%llx "
                        "through", source, destination, tag);
    if (status != RONDO_ERR_MISMATCH)
        return ri_error(status, "rank %d cannot read what rank %d sends with tag "
                        "0x%llx%s%s", destination, source,
                        tag, op->cause ? ": " : "", op->cause ? strerror(op->cause) : "");
    if (slot->bind != expected_bind)
        return ri_error(status, "the message from rank %d to rank %d with tag 0x%llx is bound by its %s "
                        "only: bind it at both ends or at neither", source, destination, tag,
                        slot->bind ? "sender" : "receiver");
    return ri_error(status, "rank %d sends %zu bytes with tag 0x%llx, rank %d expects %zu", source,
                    (size_t)slot->bytes, tag, destination, expected);
}

/* Runs of a message for a system call, from `offset`; returns how many. */
static unsigned long runs_of(const struct ri_xfer *xfer, size_t offset, size_t bytes, struct iovec *runs)
{
    unsigned long n = 0;

    while (bytes > 0 && n < RUNS) {
        runs[n].iov_base = ri_xfer_run(xfer, offset, bytes, &runs[n].iov_len);
        offset += runs[n].iov_len;
        bytes -= runs[n].iov_len;
        n++;
    }
    return n;
}

static int copy_by_cma(struct ri_shm *self, struct ri_shm_op *op, const struct ri_xfer *from, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        struct iovec here[RUNS], there[RUNS];
        unsigned long to_runs = runs_of(op->xfer, op->copied_bytes + done, bytes - done, here);
        unsigned long from_runs = runs_of(from, op->copied_bytes + done, bytes - done, there);
        ssize_t n = process_vm_readv(self->peers[op->source].pid, here, to_runs, there, from_runs, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n > 0) {
            done += (size_t)n;
            continue;
        }
        op->cause = n < 0 ? errno : EFAULT;
        return RONDO_ERR_TRANSPORT;
    }
    return 0;
}

/* *bytes: how much; a stream may bring less. */
static int copy_from(struct ri_shm *self, struct ri_shm_op *op, size_t *bytes)
{
    const struct ri_shm_slot *slot = op->slot;
    int holder = slot->place == RI_SHM_OWN ? op->source : slot->holder;
    struct ri_xfer from;

    if (slot->place == RI_SHM_STREAM) {
        *bytes = ri_shm_stream_receive(self, op, *bytes);
        return 0;
    }
    from = (struct ri_xfer){ .rows = slot->rows, .row_bytes = slot->row_bytes,
                             .row_stride = slot->row_stride };
    if (slot->place == RI_SHM_CMA) {
        from.base = (char *)(uintptr_t)slot->base; /* of the other process */
        return copy_by_cma(self, op, &from, *bytes);
    }
    from.base = self->peers[holder].base + slot->base;
    ri_xfer_copy(op->xfer, &from, op->copied_bytes, *bytes);
    return 0;
}

/* What the sender itself reads in place is copied only while that may be. */
static int copy_some(struct ri_shm *self, struct ri_shm_op *op, size_t *bytes)
{
    const struct ri_shm_slot *slot = op->slot;
    int holder = slot->holder, err;
    struct ri_shm_lend *lend;

    if (!slot->lent)
        return copy_from(self, op, bytes);
    lend = ri_shm_lend_of(self, op->slot);
    op->gone = holder;
    err = ri_shm_enter(lend) ? copy_from(self, op, bytes) : RONDO_ERR_PEER;
    return ri_shm_leave(self, lend, holder) || err ? err : RONDO_ERR_PEER;
}

/* Part of a stream has come, or nothing of it. */
static void stream_on(struct ri_shm *self, struct ri_shm_op *op, size_t bytes)
{
    if (bytes)
        ri_shm_slot_tell(self, op->source, op->slot);
    else
        ri_shm_op_move(op, &self->dry);
}

/* Returns how many bytes it copied. */
static size_t receive_slice(struct ri_shm *self, struct ri_shm_op *op)
{
    struct ri_shm_slot *slot = op->slot;
    size_t rest = slot->bytes - op->copied_bytes;
    size_t bytes = rest < RI_SHM_SLICE_BYTES ? rest : RI_SHM_SLICE_BYTES;
    int is_last, err;

    if (!ri_shm_slot_move(self, op->source, slot, RI_SHM_MATCHED, RI_SHM_COPYING, 0)) {
        ri_shm_receive_again(self, op);
        return 0;
    }
    err = copy_some(self, op, &bytes);
    op->copied_bytes += bytes;
    is_last = bytes == rest;
    if (!ri_shm_slot_move(self, op->source, slot, RI_SHM_COPYING,
                          is_last && !err ? RI_SHM_DONE : RI_SHM_MATCHED, is_last && !err)) {
        ri_shm_receive_again(self, op);
        return bytes;
    }
    op->status = err;
    if (err)
        ri_shm_receive_fail(self, op);
    else if (is_last)
        ri_shm_receive_done(self, op);
    if (!err && is_last)
        ri_shm_op_free(self, op);
    else if (!err && slot->place == RI_SHM_STREAM)
        stream_on(self, op, bytes);
    self->events += bytes > 0;
    return bytes;
}

static size_t send_slice(struct ri_shm *self, struct ri_shm_op *op)
{
    size_t rest = op->slot->bytes - op->staged_bytes;
    size_t bytes = rest < RI_SHM_SLICE_BYTES ? rest : RI_SHM_SLICE_BYTES;
    char *to = self->peers[self->me].base + op->slot->base + op->staged_bytes;

    if (2 * (size_t)self->locals * op->slot->bytes > RI_SHM_CACHE_BYTES) /* all ranks', and copies; K or V */
        ri_xfer_pack_past_caches(op->xfer, op->staged_bytes, to, bytes);
    else
        ri_xfer_pack(op->xfer, op->staged_bytes, to, bytes);
    op->staged_bytes += bytes;
    self->events++;
    if (bytes == rest)
        ri_shm_publish(self, op);
    return bytes;
}

static size_t send_work(struct ri_shm *self, struct ri_shm_op *op)
{
    if (!op->status && op->slot->place == RI_SHM_STREAM)
        return ri_shm_stream_send(self, op);
    if (!op->status)
        return send_slice(self, op);
    if (op->published) {
        ri_shm_send_withdraw(self, op);
        return 0;
    }
    if (op->xfer->bind)
        ri_shm_lend_drop(self, op->lend, op->holder);
    ri_shm_send_fail(self, op);
    return 0;
}

static size_t work_on(struct ri_shm *self, struct ri_shm_op *op)
{
    if (op->send)
        return send_work(self, op);
    if (op->slot && !op->status && !ri_shm_fits(op, op->slot))
        op->status = RONDO_ERR_MISMATCH;
    if (op->status)
        ri_shm_receive_fail(self, op);
    else if (op->xfer->bind)
        ri_shm_take(self, op);
    else
        return receive_slice(self, op);
    return 0;
}

/* Or is it done at once: a hand-over, or a failure? */
static int takes_time(const struct ri_shm_op *op)
{
    return !op->status && (op->send || (!op->xfer->bind && ri_shm_fits(op, op->slot)));
}

/* Copies take turns; what takes no time waits for none of them. */
void ri_shm_work(struct ri_shm *self)
{
    struct ri_shm_op *op = self->work.first;
    size_t bytes = 0;

    for (int left = self->work.count; left > 0; left--) {
        struct ri_shm_op *next = op->next;
        int is_copy = takes_time(op);

        if (!is_copy || bytes < RI_SHM_SLICE_BYTES) {
            bytes += work_on(self, op);
            if (is_copy && op->list == &self->work)
                ri_shm_op_move(op, &self->work);
        }
        op = next;
    }
}
