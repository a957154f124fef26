/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/ucx_private.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/status.h"

static const int64_t cancel_ns = 1000000000;
static const int64_t drain_ns = 500000000;

static void *rows_pack_start(void *context, const void *buffer, size_t count)
{
    (void)context, (void)count;
    return (void *)(uintptr_t)buffer;
}

static void *rows_unpack_start(void *context, void *buffer, size_t count)
{
    (void)context, (void)count;
    return buffer;
}

static size_t rows_size(void *state)
{
    const struct ri_ucx_op *op = state;

    return ri_xfer_bytes(&op->shape);
}

static size_t rows_pack(void *state, size_t offset, void *packed, size_t bytes_max)
{
    const struct ri_ucx_op *op = state;
    size_t rest = ri_xfer_bytes(&op->shape) - offset;
    size_t bytes = rest < bytes_max ? rest : bytes_max;

    ri_xfer_pack(&op->shape, offset, packed, bytes);
    return bytes;
}

static ucs_status_t rows_unpack(void *state, size_t offset, const void *packed, size_t bytes)
{
    const struct ri_ucx_op *op = state;

    ri_xfer_unpack(&op->shape, offset, packed, bytes);
    return UCS_OK;
}

static void rows_finish(void *state)
{
    (void)state;
}

int ri_ucx_rows_type(ucp_datatype_t *rows)
{
    static const ucp_generic_dt_ops_t rows_ops = {
        .start_pack = rows_pack_start,
        .start_unpack = rows_unpack_start,
        .packed_size = rows_size,
        .pack = rows_pack,
        .unpack = rows_unpack,
        .finish = rows_finish,
    };
    ucs_status_t status = ucp_dt_create_generic(&rows_ops, NULL, rows);

    if (status == UCS_OK)
        return 0;
    *rows = 0;
    return ri_error(RONDO_ERR_TRANSPORT, "UCX: no datatype: %s", ucs_status_string(status));
}

/* ---- memory of messages ---- */

static int op_is_idle(const struct ri_ucx_op *op)
{
    return !op->xfer && !op->request;
}

static int add_op(struct ri_ucx *self)
{
    struct ri_ucx_op *op = calloc(1, sizeof(*op));

    if (!op)
        return ri_error(RONDO_ERR_MEMORY, "no memory for %d messages of transport ucx", self->op_count + 1);
    op->owner = self;
    op->all = self->all;
    self->all = op;
    op->spare = self->spare;
    self->spare = op;
    self->op_count++;
    return 0;
}

/* Frees what idles beyond what is reserved. */
static void drop_ops(struct ri_ucx *self)
{
    struct ri_ucx_op **link = &self->all;

    self->spare = NULL;
    while (*link) {
        struct ri_ucx_op *op = *link;

        if (op_is_idle(op) && self->op_count > self->reserved) {
            *link = op->all;
            free(op);
            self->op_count--;
            continue;
        }
        if (op_is_idle(op)) {
            op->spare = self->spare;
            self->spare = op;
        }
        link = &op->all;
    }
}

int ri_ucx_provide(struct ri_ucx *self, int n)
{
    int have = 0, err = 0;

    for (struct ri_ucx_op *op = self->spare; op && have < n; op = op->spare)
        have++;
    for (; have < n && !err; have++)
        err = add_op(self);
    return err;
}

int ri_ucx_reserve(struct ri_ucx *self, int messages)
{
    int err = 0;

    self->reserved += messages;
    while (self->op_count < self->reserved && !err)
        err = add_op(self);
    if (err)
        self->reserved -= messages;
    if (err || messages < 0)
        drop_ops(self);
    return err;
}

/* ---- one message ---- */

static int peer_is_gone(ucs_status_t status)
{
    return status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_ENDPOINT_TIMEOUT ||
           status == UCS_ERR_UNREACHABLE || status == UCS_ERR_NOT_CONNECTED;
}

static int op_status(const struct ri_xfer *xfer, ucs_status_t status, size_t received)
{
    size_t bytes = ri_xfer_bytes(xfer);
    unsigned long long tag = xfer->tag;

    if (status == UCS_ERR_MESSAGE_TRUNCATED && received <= bytes)
        return ri_error(RONDO_ERR_MISMATCH,
                        "rank %d sent more than the %zu bytes expected, tag 0x%llx", xfer->peer,
                        bytes, tag);
    if (status == UCS_ERR_MESSAGE_TRUNCATED || (status == UCS_OK && received != bytes))
        return ri_error(RONDO_ERR_MISMATCH,
                        "rank %d sent %zu bytes where %zu are expected, tag 0x%llx", xfer->peer,
                        received, bytes, tag);
    if (status == UCS_OK)
        return RONDO_OK;
    return ri_error(peer_is_gone(status) ? RONDO_ERR_PEER : RONDO_ERR_TRANSPORT,
                    "UCX: %s %zu bytes %s rank %d: %s",
                    xfer->send ? "sending" : "receiving", bytes, xfer->send ? "to" : "from",
                    xfer->peer, ucs_status_string(status));
}

int ri_ucx_peer_error(int rank)
{
    return ri_error(RONDO_ERR_PEER, "UCX lost its connection to rank %d", rank);
}

static void op_end(struct ri_ucx_op *op, ucs_status_t status, size_t received)
{
    struct ri_ucx *self = op->owner;
    struct ri_xfer *xfer = op->xfer;
    int err;

    op->request = NULL;
    op->xfer = NULL;
    op->spare = self->spare;
    self->spare = op;
    self->ended++;
    if (!xfer)
        return;
    if (self->peers[xfer->peer].failed && status != UCS_OK) {
        ri_xfer_failed(xfer, ri_ucx_peer_error(xfer->peer));
        return;
    }
    err = op_status(xfer, status, received);
    if (err)
        ri_xfer_failed(xfer, err);
    else
        ri_xfer_done(&self->base, xfer);
}

static void on_sent(void *request, ucs_status_t status, void *op_data)
{
    struct ri_ucx_op *op = op_data;

    op_end(op, status, ri_xfer_bytes(&op->shape));
    ucp_request_free(request);
}

static void on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                        void *op_data)
{
    op_end(op_data, status, info->length);
    ucp_request_free(request);
}

/* What UCX matches by: from the top a bit for our greetings, the sender, the tag. */
static ucp_tag_t wire_tag(int source, uint64_t tag)
{
    return (uint64_t)source << 48 | tag;
}

static ucs_status_ptr_t op_start(struct ri_ucx_op *op, ucp_tag_recv_info_t *info)
{
    struct ri_ucx *self = op->owner;
    const struct ri_xfer *shape = &op->shape;
    int contiguous = ri_xfer_contiguous(shape);
    void *buffer = contiguous ? (void *)shape->base : (void *)op;
    size_t count = contiguous ? ri_xfer_bytes(shape) : 1;
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE,
        .datatype = contiguous ? ucp_dt_make_contig(1) : self->rows,
        .user_data = op,
    };

    if (shape->send) {
        param.cb.send = on_sent;
        return ucp_tag_send_nbx(self->peers[shape->peer].endpoint, buffer, count,
                                wire_tag(self->base.rank, shape->tag), &param);
    }
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_RECV_INFO;
    param.recv_info.tag_info = info;
    param.cb.recv = on_received;
    return ucp_tag_recv_nbx(self->worker, buffer, count, wire_tag(shape->peer, shape->tag),
                            UINT64_MAX, &param);
}

void ri_ucx_start(struct ri_ucx *self, struct ri_xfer *xfer)
{
    struct ri_ucx_op *op = self->spare;
    ucp_tag_recv_info_t info = { .length = ri_xfer_bytes(xfer) };
    ucs_status_ptr_t request;

    self->spare = op->spare;
    op->shape = *xfer;
    op->xfer = xfer;
    xfer->handle = op;
    xfer->state = RI_XFER_POSTED;
    request = op_start(op, &info);
    if (UCS_PTR_IS_PTR(request))
        op->request = request;
    else
        op_end(op, UCS_PTR_STATUS(request), info.length);
}

int ri_ucx_broken_error(void)
{
    return ri_error(RONDO_ERR_TRANSPORT, "transport ucx gave up messages that UCX holds on to");
}

/* One message.  Returns whether there was one, and it is gone. */
static int drain_one(struct ri_ucx *self, void **memory, int64_t deadline_ns)
{
    static const ucp_request_param_t bytes = { 0 };
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message = ucp_tag_probe_nb(self->worker, 0, 0, 1, &info);
    ucs_status_ptr_t request;
    int is_gone;

    if (!message)
        return 0;
    *memory = malloc(info.length + 1);
    if (!*memory)
        return 0;
    request = ucp_tag_msg_recv_nbx(self->worker, *memory, info.length, message, &bytes);
    while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS &&
           ri_now_ns() < deadline_ns)
        ucp_worker_progress(self->worker);
    is_gone = !UCS_PTR_IS_PTR(request) || ucp_request_check_status(request) != UCS_INPROGRESS;
    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request);
    if (is_gone) {
        free(*memory);
        *memory = NULL;
    }
    return is_gone;
}

void ri_ucx_drain(struct ri_ucx *self, void **memory)
{
    int64_t deadline_ns = ri_now_ns() + drain_ns;

    ucp_worker_progress(self->worker);
    while (ri_now_ns() < deadline_ns && drain_one(self, memory, deadline_ns))
        ucp_worker_progress(self->worker);
}

/* True when UCX may keep a send for ever, but nobody is left to read it. */
static int sends_to_nobody(const struct ri_ucx_op *op)
{
    const struct ri_ucx_peer *peer = &op->owner->peers[op->shape.peer];

    return op->shape.send && peer->failed && !peer->remote;
}

/* Receives end as cancelled; sends to another host are ended by UCX. */
static void end_messages_of_failed_peers(struct ri_ucx *self)
{
    self->failures = 0;
    for (struct ri_ucx_op *op = self->all; op; op = op->all) {
        struct ri_xfer *xfer = op->xfer;

        if (!xfer || !self->peers[xfer->peer].failed)
            continue;
        if (!xfer->send)
            ucp_request_cancel(self->worker, op->request);
        if (!sends_to_nobody(op))
            continue;
        op->xfer = NULL;
        ri_xfer_failed(xfer, ri_ucx_peer_error(xfer->peer));
        self->ended++;
    }
}

int ri_ucx_run(struct ri_ucx *self)
{
    int moved;

    if (self->broken)
        return ri_ucx_broken_error();
    self->ended = 0;
    moved = (int)ucp_worker_progress(self->worker);
    if (self->failures)
        end_messages_of_failed_peers(self);
    return moved > self->ended ? moved : self->ended;
}

/* True when UCX may keep the message: nobody is left to read it, or there is nothing to read. */
static int may_stay(const struct ri_ucx_op *op)
{
    return sends_to_nobody(op) || ri_xfer_bytes(&op->shape) == 0;
}

/* UCX takes back receives that wait for their message, and nothing else: what is under way has to end
 * by itself.  When it does not in time, UCX must never run again, for it would touch that memory. */
void ri_ucx_cancel(struct ri_ucx *self, struct ri_xfer *const *xfers, int n)
{
    int64_t deadline_ns = ri_now_ns() + cancel_ns;

    for (int i = 0; i < n; i++) {
        struct ri_ucx_op *op = xfers[i]->handle;

        if (xfers[i]->state != RI_XFER_POSTED)
            continue;
        op->xfer = NULL;
        if (!xfers[i]->send && !self->broken)
            ucp_request_cancel(self->worker, op->request);
    }
    for (int i = 0; i < n; i++) {
        struct ri_ucx_op *op = xfers[i]->handle;

        if (xfers[i]->state != RI_XFER_POSTED)
            continue;
        while (op->request && !may_stay(op) && !self->broken) {
            ucp_worker_progress(self->worker);
            self->broken = ri_now_ns() > deadline_ns;
        }
        xfers[i]->handle = NULL;
        xfers[i]->state = RI_XFER_IDLE;
    }
}
