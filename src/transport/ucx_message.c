/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/ucx_private.h"

#include "base/clock.h"
#include "base/status.h"

static const int64_t cancel_ns = 1000000000;
static const int64_t break_off_ns = 100000000;
static const size_t small_bytes = 8192; /* and less is sent before the receiver is ready */
static const size_t eager_bytes = 1024; /* and less UCX does not move by its rendezvous */
static const size_t burst_bytes = 1 << 18; /* that UCX has of granted messages, before the last of them */

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

int ri_ucx_peer_error(const struct ri_ucx *self, int rank)
{
    if (self->peers[rank].broken_off)
        return ri_error(RONDO_ERR_PEER, "rank %d broke off its UCX connection to rank %d, which held on to a "
                        "message that was given up: make a new communicator", self->base.rank, rank);
    return ri_error(RONDO_ERR_PEER, "UCX lost its connection to rank %d", rank);
}

static void note_owed(struct ri_ucx *self, const struct ri_ucx_op *op)
{
    struct ri_ucx_peer *peer = &self->peers[op->shape.peer];

    if (op->shape.send || peer->eager || ri_ucx_bytes(op) <= eager_bytes)
        return;
    peer->owed = 1;
    self->owed = 1;
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
    note_owed(self, op);
    if (!xfer)
        return;
    if (self->peers[xfer->peer].failed && status != UCS_OK) {
        ri_xfer_failed(xfer, ri_ucx_peer_error(self, xfer->peer));
        return;
    }
    err = op_status(xfer, status, received);
    if (err)
        ri_xfer_failed(xfer, err);
    else
        ri_xfer_done(&self->base, xfer);
}

/* What UCX matches by. */
static ucp_tag_t wire_tag(int source, uint64_t tag)
{
    return (uint64_t)source << RI_UCX_SENDER_SHIFT | tag;
}

static void op_sent(struct ri_ucx_op *op, ucs_status_t status)
{
    op->request = NULL;
    op->sent = status;
    if (op->counted)
        op->owner->peers[op->shape.peer].under_way_bytes -= ri_ucx_bytes(op);
    op->counted = 0;
    if (op->ready && status != UCS_OK)
        ucp_request_cancel(op->owner->worker, op->ready);
    else if (!op->ready)
        op_end(op, status, ri_ucx_bytes(op));
}

static void on_sent(void *request, ucs_status_t status, void *op_data)
{
    ucp_request_free(request);
    op_sent(op_data, status);
}

static void on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                        void *op_data)
{
    struct ri_ucx_op *op = op_data;

    op_end(op, op->sent == UCS_OK ? status : op->sent, info->length);
    ucp_request_free(request);
}

static int is_contiguous(const struct ri_ucx_shape *shape)
{
    return shape->rows <= 1 || shape->row_stride == shape->row_bytes;
}

/* Of all messages; the callback is the direction's. */
static ucp_request_param_t op_param(struct ri_ucx_op *op, int contiguous)
{
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE,
        .datatype = contiguous ? ucp_dt_make_contig(1) : op->owner->rows,
        .user_data = op,
    };

    if (contiguous && op->owner->range_count)
        param.memh = ri_ucx_handle(op->owner, op->shape.base, ri_ucx_bytes(op));
    if (param.memh)
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    return param;
}

static void op_send(struct ri_ucx_op *op)
{
    const struct ri_ucx_shape *shape = &op->shape;
    const struct ri_ucx_peer *peer = &op->owner->peers[shape->peer];
    int contiguous = is_contiguous(shape);
    ucp_request_param_t param = op_param(op, contiguous);
    ucs_status_ptr_t request;

    param.cb.send = on_sent;
    if (peer->eager)
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_FAST_CMPL; /* no rendezvous: ucx_context.c sees to that */
    request = ucp_tag_send_nbx(peer->endpoint, contiguous ? (void *)shape->base : (void *)op,
                               contiguous ? ri_ucx_bytes(op) : 1,
                               wire_tag(op->owner->base.rank, shape->tag), &param);
    if (UCS_PTR_IS_PTR(request))
        op->request = request;
    else
        op_sent(op, UCS_PTR_STATUS(request));
}

/* UCX 1.13 tells the length of what has come before its receive to the callback alone. */
static void op_receive(struct ri_ucx_op *op)
{
    const struct ri_ucx_shape *shape = &op->shape;
    int contiguous = is_contiguous(shape);
    ucp_request_param_t param = op_param(op, contiguous);
    ucs_status_ptr_t request;

    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.cb.recv = on_received;
    request = ucp_tag_recv_nbx(op->owner->worker, contiguous ? (void *)shape->base : (void *)op,
                               contiguous ? ri_ucx_bytes(op) : 1, wire_tag(shape->peer, shape->tag),
                               UINT64_MAX, &param);
    if (!UCS_PTR_IS_PTR(request))
        op_end(op, UCS_PTR_STATUS(request), 0);
    else if (op->xfer) /* the callback may have come and gone */
        op->request = request;
}

/* ---- a receive says that it is ready ---- */

static int is_small(const struct ri_ucx_op *op)
{
    return ri_ucx_bytes(op) <= small_bytes;
}

static void on_told(void *request, ucs_status_t status, void *data)
{
    (void)status, (void)data; /* it fails with the connection, and so does the receive */
    ucp_request_free(request);
}

/* After a receive that may have ended.  One that cannot say so fails: its sender would wait for ever. */
static void tell_ready(struct ri_ucx_op *op, const struct ri_xfer *xfer)
{
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.send = on_told };
    struct ri_ucx *self = op->owner;
    ucs_status_ptr_t told = ucp_tag_send_nbx(self->peers[op->shape.peer].endpoint, NULL, 0,
                                             wire_tag(self->base.rank, RI_UCX_OURS | op->shape.tag), &param);

    if (!UCS_PTR_IS_ERR(told) || op->xfer != xfer)
        return;
    op->sent = UCS_PTR_STATUS(told);
    ucp_request_cancel(self->worker, op->request);
}

/* ---- granted: the receive is ready ---- */

static void grant(struct ri_ucx_op *op)
{
    struct ri_ucx_peer *peer = &op->owner->peers[op->shape.peer];

    if (!peer->granted)
        peer->granted_end = &peer->granted;
    op->spare = NULL;
    *peer->granted_end = op;
    peer->granted_end = &op->spare;
    op->owner->granted++;
}

/* Returns whether it was among the granted, and is not any more. */
static int ungrant(struct ri_ucx_op *op)
{
    struct ri_ucx_peer *peer = &op->owner->peers[op->shape.peer];
    struct ri_ucx_op **link = &peer->granted;

    while (*link && *link != op)
        link = &(*link)->spare;
    if (!*link)
        return 0;
    *link = op->spare;
    if (!*link)
        peer->granted_end = link;
    op->owner->granted--;
    return 1;
}

int ri_ucx_begin_granted(struct ri_ucx *self)
{
    int before = self->granted;

    for (int r = 0; r < self->base.ranks && self->granted; r++) {
        struct ri_ucx_peer *peer = &self->peers[r];

        while (peer->granted && peer->under_way_bytes < burst_bytes) {
            struct ri_ucx_op *op = peer->granted;

            ungrant(op);
            if (peer->failed) { /* there may be no endpoint */
                op_end(op, UCS_ERR_CANCELED, 0);
                continue;
            }
            op->counted = 1;
            peer->under_way_bytes += ri_ucx_bytes(op);
            op_send(op);
        }
    }
    return before > self->granted;
}

static void op_ready(struct ri_ucx_op *op, ucs_status_t status)
{
    op->ready = NULL;
    if (status == UCS_OK && op->xfer && !is_small(op))
        grant(op);
    else if (!op->request)
        op_end(op, op->sent == UCS_OK ? status : op->sent, ri_ucx_bytes(op));
}

static void on_ready(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *op_data)
{
    (void)info;
    ucp_request_free(request);
    op_ready(op_data, status);
}

/* A send whose receiver says when it is ready. */
static void op_offer(struct ri_ucx_op *op)
{
    ucp_tag_recv_info_t info;
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_RECV_INFO,
        .cb.recv = on_ready,
        .user_data = op,
        .recv_info.tag_info = &info,
    };
    ucs_status_ptr_t request;

    request = ucp_tag_recv_nbx(op->owner->worker, NULL, 0,
                               wire_tag(op->shape.peer, RI_UCX_OURS | op->shape.tag), UINT64_MAX, &param);
    if (UCS_PTR_IS_PTR(request))
        op->ready = request;
    if (is_small(op))
        op_send(op);
    else if (!op->ready)
        op_ready(op, UCS_PTR_STATUS(request));
}

void ri_ucx_start(struct ri_ucx *self, struct ri_xfer *xfer)
{
    struct ri_ucx_op *op = self->spare;
    int peer = xfer->peer, eager = self->peers[peer].eager;
    uint64_t tag = xfer->tag;

    self->spare = op->spare;
    op->shape = (struct ri_ucx_shape){ .tag = tag, .base = xfer->base, .rows = xfer->rows,
                                       .row_bytes = xfer->row_bytes, .row_stride = xfer->row_stride,
                                       .peer = peer, .send = xfer->send };
    op->xfer = xfer;
    op->sent = UCS_OK;
    xfer->handle = op;
    xfer->state = RI_XFER_POSTED;
    if (xfer->send && eager) {
        op_offer(op);
    } else if (xfer->send) {
        op_send(op);
    } else {
        op_receive(op);
        if (eager)
            tell_ready(op, xfer);
    }
}

int ri_ucx_broken_error(void)
{
    return ri_error(RONDO_ERR_TRANSPORT, "transport ucx gave up messages that UCX holds on to");
}

/* True when UCX may keep a send for ever, but nobody is left to read it. */
static int sends_to_nobody(const struct ri_ucx_op *op)
{
    const struct ri_ucx_peer *peer = &op->owner->peers[op->shape.peer];

    return op->shape.send && peer->failed && !peer->remote;
}

/* UCX gives back what it waits to receive: a message, or that its receiver is ready. */
static void take_back(struct ri_ucx_op *op)
{
    if (op->owner->granted && op->shape.send && ungrant(op))
        op_end(op, UCS_ERR_CANCELED, 0);
    else if (op->ready)
        ucp_request_cancel(op->owner->worker, op->ready);
    else if (!op->shape.send && op->request)
        ucp_request_cancel(op->owner->worker, op->request);
}

/* What is received ends as cancelled; sends to another host are ended by UCX. */
static void end_messages_of_failed_peers(struct ri_ucx *self)
{
    self->failures = 0;
    for (struct ri_ucx_op *op = self->all; op; op = op->all) {
        struct ri_xfer *xfer = op->xfer;

        if (!xfer || !self->peers[xfer->peer].failed)
            continue;
        take_back(op);
        if (!sends_to_nobody(op))
            continue;
        op->xfer = NULL;
        ri_xfer_failed(xfer, ri_ucx_peer_error(self, xfer->peer));
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
    if (self->owed)
        ri_ucx_flush_owed(self);
    if (self->granted)
        ri_ucx_begin_granted(self);
    return moved > self->ended ? moved : self->ended;
}

/* True when UCX may keep the message: nobody is left to read it, or what it reads is there until close. */
static int may_stay(const struct ri_ucx_op *op)
{
    return sends_to_nobody(op) || ri_ucx_bytes(op) == 0 || (op->shape.tag & RI_UCX_OURS);
}

/* True while UCX holds what it must not keep. */
static int is_held(const struct ri_xfer *xfer)
{
    const struct ri_ucx_op *op = xfer->handle;

    return xfer->state == RI_XFER_POSTED && (op->request || op->ready) && !may_stay(op);
}

/* Returns how many at the front of xfers, which were given up, UCX does not hold: n, or the time is up. */
static int await_release(struct ri_ucx *self, struct ri_xfer *const *xfers, int n, int64_t deadline_ns)
{
    int i = 0;

    while (i < n) {
        if (!is_held(xfers[i])) {
            i++;
            continue;
        }
        if (ri_now_ns() > deadline_ns)
            break;
        ucp_worker_progress(self->worker);
    }
    return i;
}

static void break_off_holders(struct ri_ucx *self, struct ri_xfer *const *xfers, int n)
{
    for (int i = 0; i < n; i++) {
        struct ri_ucx_peer *peer = &self->peers[xfers[i]->peer];

        if (is_held(xfers[i]) && peer->remote)
            ri_ucx_break_off(peer);
    }
    end_messages_of_failed_peers(self);
}

static void abandon(struct ri_ucx *self, struct ri_xfer *const *xfers, int n)
{
    for (int i = 0; i < n; i++) {
        struct ri_ucx_op *op = xfers[i]->handle;

        if (xfers[i]->state != RI_XFER_POSTED)
            continue;
        op->xfer = NULL;
        if (!self->broken)
            take_back(op);
    }
}

/* UCX takes back receives that wait for their message, and nothing else: what is under way has to end
 * by itself, or with its connection.  When it does not in time, UCX must never run again, for it would
 * touch that memory. */
void ri_ucx_cancel(struct ri_ucx *self, struct ri_xfer *const *xfers, int n)
{
    int released = n;

    abandon(self, xfers, n);
    if (!self->broken)
        released = await_release(self, xfers, n, ri_now_ns() + cancel_ns);
    if (released < n) {
        break_off_holders(self, xfers, n);
        self->broken = await_release(self, xfers, n, ri_now_ns() + break_off_ns) < n;
    }
    for (int i = 0; i < n; i++) {
        if (xfers[i]->state != RI_XFER_POSTED)
            continue;
        xfers[i]->handle = NULL;
        xfers[i]->state = RI_XFER_IDLE;
    }
}

void ri_ucx_abandon_all(struct ri_ucx *self)
{
    for (struct ri_ucx_op *op = self->all; op; op = op->all) {
        struct ri_xfer *xfer = op->xfer;

        if (!xfer)
            continue;
        abandon(self, &xfer, 1);
        xfer->handle = NULL;
        xfer->state = RI_XFER_IDLE;
    }
}

int ri_ucx_holds_remote(const struct ri_ucx *self)
{
    for (const struct ri_ucx_op *op = self->all; op; op = op->all)
        if (op->request && self->peers[op->shape.peer].remote)
            return 1;
    return 0;
}
