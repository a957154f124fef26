/* SPDX-License-Identifier: Apache-2.0 */
/* Tagged messages over UCX: shared memory and CMA inside a host, TCP or RDMA between hosts.
 *
 * Peers on the same host are reached in error mode NONE, the only one that keeps shared memory and CMA
 * in UCX 1.13: a peer that dies is noticed only when its memory is read, and messages to it may stay
 * posted until they are cancelled.  The communicator watches its peers.  Peers on other hosts are
 * reached in mode PEER: their messages fail when the connection does.  It is broken off when UCX does not let
 * go of a message that is given up, since only that ends a rendezvous which the peer does not answer.
 *
 * libucs installs handlers for SIGILL, SIGSEGV, SIGBUS and SIGFPE when it is loaded; UCX_HANDLE_ERRORS=none
 * keeps it from that. */
#include <stdlib.h>

#include "base/config.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/status.h"
#include "transport/ucx_private.h"

static struct ri_ucx *ucx_of(struct ri_transport *transport)
{
    return (struct ri_ucx *)transport;
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
        return ri_ucx_error(status, "no worker");
    }
    status = ucp_worker_get_efd(self->worker, &self->event_fd);
    if (status != UCS_OK)
        self->event_fd = -1;
    status = ucp_worker_get_address(self->worker, &self->address, address_bytes);
    if (status == UCS_OK)
        return 0;
    self->address = NULL;
    return ri_ucx_error(status, "no address");
}

static void ucx_close(struct ri_transport *transport);

/* On the NIC that is near, unless the user says otherwise or UCX does not know it. */
static int make_context(struct ri_ucx *self, const struct ri_transport_params *params)
{
    const char *named = params->config->net_devices, *near = params->near_devices;
    int is_open = !(named && *named) && !getenv("RONDO_UCX_NET_DEVICES") && !getenv("UCX_NET_DEVICES");

    if (near && is_open) {
        if (ri_ucx_make_context(self, near) == 0)
            return 0;
        ri_log(RI_LOG_INFO, "transport", "UCX goes on with all devices, since it does not have the nearest, %s: %s",
               near, rondo_last_error());
    }
    return ri_ucx_make_context(self, named);
}

static int ucx_open(const struct ri_transport_params *params, struct ri_transport **transport,
                    const void **address, size_t *address_bytes)
{
    struct ri_ucx *self;
    int err;

    if (params->ranks > RI_RANKS_MAX)
        return ri_error(RONDO_ERR_UNSUPPORTED, "transport ucx takes %d ranks at most, not %d",
                        (int)RI_RANKS_MAX, params->ranks);
    self = calloc(1, sizeof(*self));
    if (!self)
        return ri_error(RONDO_ERR_MEMORY, "no memory for transport ucx");
    self->base.ops = &ri_transport_ucx;
    self->base.rank = params->rank;
    self->base.ranks = params->ranks;
    self->base.message_bytes = sizeof(struct ri_ucx_op);
    self->event_fd = -1;
    self->peers = calloc((size_t)params->ranks, sizeof(*self->peers));
    err = self->peers ? 0 : ri_error(RONDO_ERR_MEMORY, "no memory for %d ranks", params->ranks);
    for (int r = 0; r < params->ranks && !err; r++) {
        self->peers[r].owner = self;
        self->peers[r].wanted = !params->peers || params->peers[r];
        self->peers[r].remote = params->host[r] != params->host[params->rank];
    }
    if (!err)
        err = make_context(self, params);
    if (!err)
        err = make_worker(self, address_bytes);
    if (!err)
        err = ri_ucx_rows_type(&self->rows);
    if (err) {
        ucx_close(&self->base);
        return err;
    }
    *transport = &self->base;
    *address = self->address;
    return 0;
}

static int ucx_connect(struct ri_transport *transport, const void *const *addresses,
                       const size_t *address_bytes, int64_t deadline_ns)
{
    return ri_ucx_connect(ucx_of(transport), addresses, address_bytes, deadline_ns);
}

static int check_peer(const struct ri_ucx *self, int rank)
{
    if (!self->peers[rank].wanted)
        return ri_error(RONDO_ERR_ARGUMENT, "message between rank %d and rank %d, which were not to have any "
                        "when transport ucx was opened", self->base.rank, rank);
    return self->peers[rank].failed ? ri_ucx_peer_error(self, rank) : 0;
}

static int ucx_post(struct ri_transport *transport, struct ri_xfer *const *xfers, int n)
{
    struct ri_ucx *self = ucx_of(transport);
    int err = self->broken ? ri_ucx_broken_error() : ri_xfer_check(transport, xfers, n);

    for (int i = 0; i < n && !err; i++)
        err = check_peer(self, xfers[i]->peer);
    if (!err)
        err = ri_ucx_provide(self, n);
    if (err)
        return err;
    for (int i = 0; i < n; i++)
        ri_ucx_start(self, xfers[i]);
    return 0;
}

static int ucx_progress(struct ri_transport *transport)
{
    return ri_ucx_run(ucx_of(transport));
}

static int ucx_settled(struct ri_transport *transport)
{
    return ri_ucx_settled(ucx_of(transport));
}

static int ucx_event_fd(struct ri_transport *transport)
{
    return ucx_of(transport)->event_fd;
}

static int ucx_arm(struct ri_transport *transport)
{
    struct ri_ucx *self = ucx_of(transport);

    if (self->granted && !self->broken && ri_ucx_begin_granted(self))
        return 0;
    return self->broken || ucp_worker_arm(self->worker) == UCS_OK;
}

static int ucx_reserve(struct ri_transport *transport, int messages)
{
    return ri_ucx_reserve(ucx_of(transport), messages);
}

static void ucx_map(struct ri_transport *transport, void *base, size_t bytes)
{
    ri_ucx_map(ucx_of(transport), base, bytes);
}

static void ucx_unmap(struct ri_transport *transport, void *base)
{
    ri_ucx_unmap(ucx_of(transport), base);
}

static const char *ucx_way(struct ri_transport *transport, int peer)
{
    return ri_ucx_way_text(&ucx_of(transport)->peers[peer]);
}

static void ucx_cancel(struct ri_transport *transport, struct ri_xfer *const *xfers, int n)
{
    ri_ucx_cancel(ucx_of(transport), xfers, n);
}

static void ucx_close(struct ri_transport *transport)
{
    struct ri_ucx *self = ucx_of(transport);
    void *unwanted = NULL;

    if (!self)
        return;
    ri_ucx_abandon_all(self);
    if (self->worker && self->peers && !self->broken) {
        ri_ucx_disconnect(self);
        ri_ucx_drain(self, &unwanted);
    }
    if (self->address)
        ucp_worker_release_address(self->worker, self->address);
    if (self->worker)
        ucp_worker_destroy(self->worker);
    free(unwanted);
    if (self->rows)
        ucp_dt_destroy(self->rows);
    ri_ucx_unmap_all(self);
    if (self->context)
        ucp_cleanup(self->context);
    for (int r = 0; self->peers && r < self->base.ranks; r++)
        free(self->peers[r].address);
    free(self->peers);
    ri_ucx_free_ways(self);
    while (self->all) {
        struct ri_ucx_op *op = self->all;

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
    .settled = ucx_settled,
    .event_fd = ucx_event_fd,
    .arm = ucx_arm,
    .reserve = ucx_reserve,
    .map = ucx_map,
    .unmap = ucx_unmap,
    .way = ucx_way,
    .cancel = ucx_cancel,
    .close = ucx_close,
};
