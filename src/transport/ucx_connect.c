/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/ucx_private.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/analyzer.h"
#include "base/clock.h"
#include "base/status.h"

static const int64_t flush_ns = 1700000000, close_ns = 2000000000;
enum { rounds_after_force = 16 };
static const uint64_t hello_tag = RI_UCX_OURS | (RI_TAG_END - 1);

static void on_peer_failed(void *data, ucp_ep_h endpoint, ucs_status_t status)
{
    struct ri_ucx_peer *peer = data;

    (void)endpoint, (void)status;
    peer->failed = 1;
    peer->owner->failures++;
}

/* It loses sight of addresses kept in an array of peers; closing frees them. */
RI_ANALYZER_IGNORE("-Wanalyzer-malloc-leak")
static int make_endpoint(struct ri_ucx *self, int rank)
{
    struct ri_ucx_peer *peer = &self->peers[rank];
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = peer->address,
        .err_mode = peer->remote ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE,
        .err_handler = { on_peer_failed, peer },
    };
    ucs_status_t status = ucp_ep_create(self->worker, &params, &peer->endpoint);

    if (status == UCS_OK)
        return 0;
    peer->endpoint = NULL;
    return ri_error(RONDO_ERR_TRANSPORT, "UCX finds no way from rank %d to rank %d: %s",
                    self->base.rank, rank, ucs_status_string(status));
}

static int make_endpoints(struct ri_ucx *self, const void *const *addresses,
                          const size_t *address_bytes)
{
    int err = 0;

    for (int r = 0; r < self->base.ranks && !err; r++) {
        if (!self->peers[r].wanted)
            continue;
        self->peers[r].address = malloc(address_bytes[r]);
        if (!self->peers[r].address)
            return ri_error(RONDO_ERR_MEMORY, "no memory for the address of rank %d", r);
        memcpy(self->peers[r].address, addresses[r], address_bytes[r]);
        err = make_endpoint(self, r);
    }
    return err;
}
RI_ANALYZER_RESUME

/* The first other rank whose greeting is missing; this rank, when only its own is. */
static int silent_rank(const struct ri_ucx *self, const struct ri_xfer *hellos, int n)
{
    for (int i = 0; i < n; i++)
        if (hellos[i].state == RI_XFER_POSTED && hellos[i].peer != self->base.rank)
            return hellos[i].peer;
    return self->base.rank;
}

/* Until all greetings have come and gone, asleep when nothing moves. */
static int await(struct ri_ucx *self, const struct ri_xfer *hellos, int n, int64_t deadline_ns)
{
    struct pollfd wait = { .fd = self->event_fd, .events = POLLIN };

    for (int i = 0; i < n; i++)
        while (hellos[i].state == RI_XFER_POSTED) {
            int moved = ri_ucx_run(self);

            if (moved < 0)
                return moved;
            if (ri_now_ns() > deadline_ns)
                return ri_error(RONDO_ERR_TIMEOUT, "rank %d does not answer over transport ucx",
                                silent_rank(self, hellos, n));
            if (!moved && ucp_worker_arm(self->worker) == UCS_OK)
                poll(&wait, 1, 20);
        }
    for (int i = 0; i < n; i++)
        if (hellos[i].state == RI_XFER_FAILED)
            return ri_error(hellos[i].status, "UCX does not get through from rank %d to rank %d",
                            self->base.rank, hellos[i].peer);
    return 0;
}

/* Peers greet each other, so that all endpoints are connected: UCX 1.13 aborts the process when a
 * peer dies while a TCP endpoint to it is being connected.  hellos: two for each peer. */
static int greet(struct ri_ucx *self, struct ri_xfer *hellos, int64_t deadline_ns)
{
    int n = 0, err = ri_ucx_provide(self, 2 * self->base.ranks);

    if (err)
        return err;
    for (int r = 0; r < self->base.ranks; r++)
        for (uint8_t send = 0; self->peers[r].wanted && send < 2; send++) {
            hellos[n] = (struct ri_xfer){ .tag = hello_tag, .peer = r, .send = send };
            ri_ucx_start(self, &hellos[n++]);
        }
    return await(self, hellos, n, deadline_ns);
}

/* Peers on other hosts tell each other by what they reach each other: both must know it. */
static int compare_ways(struct ri_ucx *self, struct ri_xfer *hellos, int64_t deadline_ns)
{
    int n = 0, err;

    for (int r = 0; r < self->base.ranks; r++)
        for (uint8_t send = 0; self->peers[r].wanted && self->peers[r].remote && send < 2; send++) {
            hellos[n] = (struct ri_xfer){ .tag = hello_tag, .peer = r, .send = send, .rows = 1,
                                          .row_bytes = 1, .base = (char *)&self->peers[r].tcp_alone[!send] };
            ri_ucx_start(self, &hellos[n++]);
        }
    err = await(self, hellos, n, deadline_ns);
    for (int r = 0; r < self->base.ranks && !err; r++) {
        struct ri_ucx_peer *peer = &self->peers[r];

        peer->eager = peer->remote && peer->tcp_alone[0] && peer->tcp_alone[1];
    }
    return err;
}

static void take_back(struct ri_ucx *self, struct ri_xfer *hellos)
{
    for (int i = 0; i < 2 * self->base.ranks; i++) {
        struct ri_xfer *hello = &hellos[i];

        ri_ucx_cancel(self, &hello, 1);
    }
}

int ri_ucx_connect(struct ri_ucx *self, const void *const *addresses, const size_t *address_bytes,
                   int64_t deadline_ns)
{
    struct ri_xfer *hellos;
    int err = make_endpoints(self, addresses, address_bytes);

    if (err)
        return err;
    hellos = calloc(2 * (size_t)self->base.ranks, sizeof(*hellos));
    if (!hellos)
        return ri_error(RONDO_ERR_MEMORY, "no memory for the greetings of %d ranks", self->base.ranks);
    err = greet(self, hellos, deadline_ns);
    if (!err)
        err = ri_ucx_find_ways(self);
    if (!err)
        err = compare_ways(self, hellos, deadline_ns);
    take_back(self, hellos);
    free(hellos);
    /* What was said here is nobody's message. */
    memset(self->base.sent_bytes, 0, sizeof(self->base.sent_bytes));
    memset(self->base.received_bytes, 0, sizeof(self->base.received_bytes));
    return err;
}

/* ---- settling ---- */

static void on_flushed(void *request, ucs_status_t status, void *flushes)
{
    (void)status; /* with a connection that fails its messages do, and nobody waits for more */
    ucp_request_free(request);
    --*(int *)flushes;
}

static ucp_request_param_t flush_param(struct ri_ucx *self)
{
    return (ucp_request_param_t){ .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                  .cb.send = on_flushed, .user_data = &self->flushes };
}

/* Counts a flush that has begun.  Returns whether it has to be begun again. */
static int begun(struct ri_ucx *self, ucs_status_ptr_t request)
{
    self->flushes += UCS_PTR_IS_PTR(request);
    return UCS_PTR_STATUS(request) == UCS_ERR_NO_MEMORY;
}

/* Over TCP alone, where the flush of an endpoint asks for an answer, no word is owed that a socket does not
 * take. */
void ri_ucx_flush_owed(struct ri_ucx *self)
{
    const ucp_request_param_t param = flush_param(self);

    self->owed = 0;
    for (int r = 0; r < self->base.ranks; r++) {
        struct ri_ucx_peer *peer = &self->peers[r];
        int can_flush = peer->endpoint && !peer->failed && !peer->tcp_alone[0];

        peer->owed = peer->owed && can_flush && begun(self, ucp_ep_flush_nbx(peer->endpoint, &param));
        self->owed |= peer->owed;
    }
}

static int has_messages(const struct ri_ucx *self)
{
    for (const struct ri_ucx_op *op = self->all; op; op = op->all)
        if (op->xfer)
            return 1;
    return 0;
}

/* The worker's flush looks whether sockets and devices have taken all that was sent; ucx_context.c sees to it
 * that no peer is asked.  While there are other messages, which fill them, their owner has to progress anyway. */
int ri_ucx_settled(struct ri_ucx *self)
{
    const ucp_request_param_t param = flush_param(self);

    if (self->broken)
        return 1;
    if (self->owed)
        ri_ucx_flush_owed(self);
    if (self->flushes == 0 && !self->owed && !begun(self, ucp_worker_flush_nbx(self->worker, &param)) &&
        self->flushes == 0)
        return 1;
    return has_messages(self);
}

/* ---- parting ---- */

static const ucp_request_param_t by_force = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                              .flags = UCP_EP_CLOSE_FLAG_FORCE };
static const ucp_request_param_t in_order = { 0 };

/* What UCX has still to do for it, if anything. */
static void begin(struct ri_ucx_peer *peer, ucs_status_ptr_t request)
{
    peer->closing = UCS_PTR_IS_PTR(request) ? request : NULL;
}

void ri_ucx_break_off(struct ri_ucx_peer *peer)
{
    if (!peer->endpoint)
        return;
    peer->failed = peer->broken_off = 1;
    peer->owner->failures++;
    begin(peer, ucp_ep_close_nbx(peer->endpoint, &by_force));
    peer->endpoint = NULL;
}

/* True when this one, too, has ended. */
static int has_ended(struct ri_ucx_peer *peer)
{
    if (peer->closing && ucp_request_check_status(peer->closing) == UCS_INPROGRESS)
        return 0;
    if (peer->closing)
        ucp_request_free(peer->closing);
    peer->closing = NULL;
    return 1;
}

/* Until all that was begun has ended; forced: and UCX holds no message with other hosts. */
static void await_ends(struct ri_ucx *self, int forced, int64_t deadline_ns)
{
    int left = 1;

    while (left && ri_now_ns() < deadline_ns) {
        ucp_worker_progress(self->worker);
        left = 0;
        for (int r = 0; r < self->base.ranks; r++)
            left += !has_ended(&self->peers[r]);
        left += forced && ri_ucx_holds_remote(self);
    }
}

/* Closes in order what has been flushed.  Returns whether any is closed by force: in error mode NONE none
 * is, which UCX refuses, and what is left goes with the worker. */
static int begin_closes(struct ri_ucx *self)
{
    int forced = 0;

    for (int r = 0; r < self->base.ranks; r++) {
        struct ri_ucx_peer *peer = &self->peers[r];
        int is_flushed = has_ended(peer) && !peer->failed;

        if (peer->closing)
            ucp_request_free(peer->closing);
        peer->closing = NULL;
        if (!peer->endpoint || (!is_flushed && !peer->remote))
            continue;
        forced |= !is_flushed;
        begin(peer, ucp_ep_close_nbx(peer->endpoint, is_flushed ? &in_order : &by_force));
    }
    return forced;
}

/* A flush never ends while a peer has not answered a rendezvous, and force at once would lose what is sent
 * but still on its way. */
void ri_ucx_disconnect(struct ri_ucx *self)
{
    int64_t start_ns = ri_now_ns();
    int forced;

    for (int r = 0; r < self->base.ranks; r++)
        if (self->peers[r].endpoint && !self->peers[r].failed)
            begin(&self->peers[r], ucp_ep_flush_nbx(self->peers[r].endpoint, &in_order));
    await_ends(self, 0, start_ns + flush_ns);
    forced = begin_closes(self);
    await_ends(self, forced, start_ns + close_ns);
    for (int i = 0; forced && i < rounds_after_force; i++)
        ucp_worker_progress(self->worker);
    for (int r = 0; r < self->base.ranks; r++)
        if (self->peers[r].closing)
            ucp_request_free(self->peers[r].closing);
}
