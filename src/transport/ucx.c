/* SPDX-License-Identifier: Apache-2.0 */
/* Tagged messages over UCX: shared memory and CMA inside a machine, TCP or RDMA between machines.
 *
 * One context and worker per object, with a configuration of its own: variables RONDO_UCX_*, then
 * UCX_*, then ours, then UCX's defaults.  Nothing is written to the environment.
 *
 * Endpoints have error mode NONE, the only one that keeps shared memory and CMA in UCX 1.13: a peer
 * that dies is not reported here (the communicator watches its peers), and messages to it stay posted
 * until they are cancelled. */
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include "base/clock.h"
#include "base/status.h"
#include "transport/xfer.h"

static const int64_t cancel_ns = 1000000000; /* for receives that are under way */
static const int64_t close_ns = 2000000000;  /* for what peers have not taken yet */

struct ri_ucx;

/* One message in flight.  Ours, so that it outlives an xfer that was given up. */
struct ucx_op {
    struct ri_ucx *owner;
    struct ri_xfer *xfer; /* NULL: given up */
    struct ri_xfer shape; /* copy of *xfer, for pack and unpack */
    void *request;        /* NULL: not in flight */
    struct ucx_op *spare; /* next of those without a message */
    struct ucx_op *all;   /* next of all */
};

struct ucx_peer {
    void *address;
    ucp_ep_h endpoint; /* made by the first send */
};

struct ri_ucx {
    struct ri_transport base;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    ucp_datatype_t rows; /* of messages with gaps; the buffer is the ucx_op */
    struct ucx_peer *peers;
    struct ucx_op *spare, *all;
    int event_fd;
    int ended;  /* messages that ended since progress began */
    int broken; /* a receive could not be cancelled: UCX must not run again and write to it */
};

static struct ri_ucx *ucx_of(struct ri_transport *transport)
{
    return (struct ri_ucx *)transport;
}

static int ucx_error(ucs_status_t status, const char *what)
{
    return ri_error(status == UCS_ERR_NO_MEMORY ? RONDO_ERR_MEMORY : RONDO_ERR_TRANSPORT,
                    "UCX: %s: %s", what, ucs_status_string(status));
}

/* Rows with gaps, for UCX. */

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
    const struct ucx_op *op = state;

    return ri_xfer_bytes(&op->shape);
}

static size_t rows_pack(void *state, size_t offset, void *packed, size_t bytes_max)
{
    const struct ucx_op *op = state;
    size_t rest = ri_xfer_bytes(&op->shape) - offset;
    size_t bytes = rest < bytes_max ? rest : bytes_max;

    ri_xfer_pack(&op->shape, offset, packed, bytes);
    return bytes;
}

static ucs_status_t rows_unpack(void *state, size_t offset, const void *packed, size_t bytes)
{
    const struct ucx_op *op = state;

    ri_xfer_unpack(&op->shape, offset, packed, bytes);
    return UCS_OK;
}

static void rows_finish(void *state)
{
    (void)state;
}

/* Messages. */

static int ops_reserve(struct ri_ucx *self, int n)
{
    int have = 0;

    for (struct ucx_op *op = self->spare; op && have < n; op = op->spare)
        have++;
    for (; have < n; have++) {
        struct ucx_op *op = calloc(1, sizeof(*op));

        if (!op)
            return ri_error(RONDO_ERR_MEMORY, "no memory for %d messages", n);
        op->owner = self;
        op->all = self->all;
        self->all = op;
        op->spare = self->spare;
        self->spare = op;
    }
    return 0;
}

static int op_status(const struct ri_xfer *xfer, ucs_status_t status, size_t received)
{
    size_t bytes = ri_xfer_bytes(xfer);
    unsigned long long tag = xfer->tag;

    if (status == UCS_ERR_MESSAGE_TRUNCATED && received <= bytes)
        return ri_error(RONDO_ERR_MISMATCH, "rank %d sent more than the %zu bytes expected, tag 0x%llx",
                        xfer->peer, bytes, tag);
    if (status == UCS_ERR_MESSAGE_TRUNCATED || (status == UCS_OK && received != bytes))
        return ri_error(RONDO_ERR_MISMATCH, "rank %d sent %zu bytes where %zu are expected, tag 0x%llx",
                        xfer->peer, received, bytes, tag);
    if (status == UCS_OK)
        return RONDO_OK;
    return ri_error(RONDO_ERR_TRANSPORT, "UCX: %s %zu bytes %s rank %d: %s",
                    xfer->send ? "sending" : "receiving", bytes, xfer->send ? "to" : "from",
                    xfer->peer, ucs_status_string(status));
}

static void op_end(struct ucx_op *op, ucs_status_t status, size_t received)
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
    if (status == UCS_ERR_CANCELED) {
        xfer->handle = NULL;
        xfer->state = RI_XFER_IDLE;
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
    struct ucx_op *op = op_data;

    op_end(op, status, ri_xfer_bytes(&op->shape));
    ucp_request_free(request);
}

static void on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                        void *op_data)
{
    op_end(op_data, status, info->length);
    ucp_request_free(request);
}

/* What UCX matches by: the sender in the upper 16 bits, the tag below. */
static ucp_tag_t wire_tag(int source, uint64_t tag)
{
    return (uint64_t)source << 48 | tag;
}

static ucs_status_ptr_t op_start(struct ucx_op *op, ucp_tag_recv_info_t *info)
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

static void op_post(struct ri_ucx *self, struct ri_xfer *xfer)
{
    struct ucx_op *op = self->spare;
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

static int peer_reach(struct ri_ucx *self, int rank)
{
    struct ucx_peer *peer = &self->peers[rank];
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address = peer->address,
        .err_mode = UCP_ERR_HANDLING_MODE_NONE,
    };
    ucs_status_t status;

    if (peer->endpoint)
        return 0;
    if (!peer->address)
        return ri_error(RONDO_ERR_TRANSPORT, "transport ucx is not connected to rank %d", rank);
    status = ucp_ep_create(self->worker, &params, &peer->endpoint);
    if (status == UCS_OK)
        return 0;
    peer->endpoint = NULL;
    return ri_error(RONDO_ERR_TRANSPORT, "UCX: no way to rank %d: %s", rank,
                    ucs_status_string(status));
}

/* The calls of the table. */

static int make_context(struct ri_ucx *self)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS |
                      UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
        .estimated_num_eps = (size_t)self->base.ranks,
        .name = "rondo",
    };
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read("RONDO", NULL, &config);

    if (status != UCS_OK)
        return ucx_error(status, "configuration");
    status = ucp_init(&params, config, &self->context);
    ucp_config_release(config);
    if (status == UCS_OK)
        return 0;
    self->context = NULL;
    return ucx_error(status, "no context");
}

static int make_worker(struct ri_ucx *self, size_t *address_bytes)
{
    ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
    };
    ucs_status_t status = ucp_worker_create(self->context, &params, &self->worker);

    if (status != UCS_OK) {
        self->worker = NULL;
        return ucx_error(status, "no worker");
    }
    status = ucp_worker_get_efd(self->worker, &self->event_fd);
    if (status != UCS_OK)
        self->event_fd = -1;
    status = ucp_worker_get_address(self->worker, &self->address, address_bytes);
    if (status == UCS_OK)
        return 0;
    self->address = NULL;
    return ucx_error(status, "no address");
}

static int make_rows_type(struct ri_ucx *self)
{
    static const ucp_generic_dt_ops_t rows_ops = {
        .start_pack = rows_pack_start,
        .start_unpack = rows_unpack_start,
        .packed_size = rows_size,
        .pack = rows_pack,
        .unpack = rows_unpack,
        .finish = rows_finish,
    };
    ucs_status_t status = ucp_dt_create_generic(&rows_ops, NULL, &self->rows);

    if (status == UCS_OK)
        return 0;
    self->rows = 0;
    return ucx_error(status, "no datatype");
}

static void ucx_close(struct ri_transport *transport);

static int ucx_open(const struct ri_transport_params *params, struct ri_transport **transport,
                    const void **address, size_t *address_bytes)
{
    struct ri_ucx *self;
    int err;

    if (params->ranks > RI_TRANSPORT_RANKS_MAX)
        return ri_error(RONDO_ERR_UNSUPPORTED, "transport ucx takes %d ranks at most, not %d",
                        RI_TRANSPORT_RANKS_MAX, params->ranks);
    self = calloc(1, sizeof(*self));
    if (!self)
        return ri_error(RONDO_ERR_MEMORY, "no memory for transport ucx");
    self->base.ops = &ri_transport_ucx;
    self->base.rank = params->rank;
    self->base.ranks = params->ranks;
    self->event_fd = -1;
    self->peers = calloc((size_t)params->ranks, sizeof(*self->peers));
    err = self->peers ? 0 : ri_error(RONDO_ERR_MEMORY, "no memory for %d ranks", params->ranks);
    if (!err)
        err = make_context(self);
    if (!err)
        err = make_worker(self, address_bytes);
    if (!err)
        err = make_rows_type(self);
    if (err) {
        ucx_close(&self->base);
        return err;
    }
    *transport = &self->base;
    *address = self->address;
    return 0;
}

/* Only notes the addresses: endpoints are made by the first send, since a ring needs few of them. */
static int ucx_connect(struct ri_transport *transport, const void *const *addresses,
                       const size_t *address_bytes, int64_t deadline_ns)
{
    struct ri_ucx *self = ucx_of(transport);

    (void)deadline_ns;
    for (int r = 0; r < transport->ranks; r++) {
        void *copy = malloc(address_bytes[r]);

        if (!copy)
            return ri_error(RONDO_ERR_MEMORY, "no memory for the address of rank %d", r);
        memcpy(copy, addresses[r], address_bytes[r]);
        free(self->peers[r].address);
        self->peers[r].address = copy;
    }
    return 0;
}

static int broken_error(void)
{
    return ri_error(RONDO_ERR_TRANSPORT, "transport ucx could not cancel a receive; close it");
}

static int ucx_post(struct ri_transport *transport, struct ri_xfer *const *xfers, int n)
{
    struct ri_ucx *self = ucx_of(transport);
    int err = self->broken ? broken_error() : ri_xfer_check(transport, xfers, n);

    for (int i = 0; i < n && !err; i++)
        if (xfers[i]->send)
            err = peer_reach(self, xfers[i]->peer);
    if (!err)
        err = ops_reserve(self, n);
    if (err)
        return err;
    for (int i = 0; i < n; i++)
        op_post(self, xfers[i]);
    return 0;
}

static int ucx_progress(struct ri_transport *transport)
{
    struct ri_ucx *self = ucx_of(transport);
    int moved;

    if (self->broken)
        return broken_error();
    self->ended = 0;
    moved = (int)ucp_worker_progress(self->worker);
    return moved > self->ended ? moved : self->ended;
}

static int ucx_event_fd(struct ri_transport *transport)
{
    return ucx_of(transport)->event_fd;
}

static int ucx_arm(struct ri_transport *transport)
{
    struct ri_ucx *self = ucx_of(transport);

    return self->broken || ucp_worker_arm(self->worker) == UCS_OK;
}

/* A send that is given up is forgotten: UCX cannot take it back, and the peer may still read the
 * memory, or a receive of it may still find freed memory and fail. */
static void forget_send(struct ri_xfer *xfer)
{
    struct ucx_op *op = xfer->handle;

    op->xfer = NULL;
    xfer->handle = NULL;
    xfer->state = RI_XFER_IDLE;
}

static void ucx_cancel(struct ri_transport *transport, struct ri_xfer *const *xfers, int n)
{
    struct ri_ucx *self = ucx_of(transport);
    int64_t deadline_ns = ri_now_ns() + cancel_ns;

    for (int i = 0; i < n; i++) {
        struct ucx_op *op = xfers[i]->handle;

        if (xfers[i]->state != RI_XFER_POSTED)
            continue;
        if (xfers[i]->send)
            forget_send(xfers[i]);
        else if (!self->broken)
            ucp_request_cancel(self->worker, op->request);
    }
    for (int i = 0; i < n; i++) {
        while (xfers[i]->state == RI_XFER_POSTED && !self->broken) {
            ucp_worker_progress(self->worker);
            self->broken = ri_now_ns() > deadline_ns;
        }
        if (xfers[i]->state == RI_XFER_POSTED)
            forget_send(xfers[i]);
    }
}

static void close_endpoints(struct ri_ucx *self)
{
    static const ucp_request_param_t flush = { 0 };
    int64_t deadline_ns = ri_now_ns() + close_ns;

    for (int r = 0; r < self->base.ranks; r++) {
        ucs_status_ptr_t request;

        if (!self->peers[r].endpoint)
            continue;
        request = ucp_ep_close_nbx(self->peers[r].endpoint, &flush);
        while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS &&
               ri_now_ns() < deadline_ns)
            ucp_worker_progress(self->worker);
        if (UCS_PTR_IS_PTR(request))
            ucp_request_free(request);
    }
}

static void give_up_all(struct ri_ucx *self)
{
    for (struct ucx_op *op = self->all; op; op = op->all) {
        struct ri_xfer *xfer = op->xfer;

        if (xfer)
            ucx_cancel(&self->base, &xfer, 1);
    }
}

static void ucx_close(struct ri_transport *transport)
{
    struct ri_ucx *self = ucx_of(transport);

    if (!self)
        return;
    give_up_all(self);
    if (self->peers && !self->broken)
        close_endpoints(self);
    if (self->address)
        ucp_worker_release_address(self->worker, self->address);
    if (self->worker)
        ucp_worker_destroy(self->worker);
    if (self->rows)
        ucp_dt_destroy(self->rows);
    if (self->context)
        ucp_cleanup(self->context);
    for (int r = 0; self->peers && r < self->base.ranks; r++)
        free(self->peers[r].address);
    free(self->peers);
    while (self->all) {
        struct ucx_op *op = self->all;

        self->all = op->all;
        free(op);
    }
    free(self);
}

const struct ri_transport_ops ri_transport_ucx = {
    .name = "ucx",
    .open = ucx_open,
    .connect = ucx_connect,
    .post = ucx_post,
    .progress = ucx_progress,
    .event_fd = ucx_event_fd,
    .arm = ucx_arm,
    .cancel = ucx_cancel,
    .close = ucx_close,
};
