/* SPDX-License-Identifier: Apache-2.0 */
/* What messages of transport ucx are made of: memory, the datatype of rows, and what nobody expected. */
#include "transport/ucx_private.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "base/status.h"

static const int64_t drain_ns = 500000000;

/* ---- messages with gaps ---- */

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

    return ri_ucx_bytes(op);
}

/* The memory alone: all that packing looks at. */
static struct ri_xfer rows_of(const struct ri_ucx_op *op)
{
    const struct ri_ucx_shape *shape = &op->shape;

    return (struct ri_xfer){ .base = shape->base, .rows = shape->rows, .row_bytes = shape->row_bytes,
                             .row_stride = shape->row_stride };
}

static size_t rows_pack(void *state, size_t offset, void *packed, size_t bytes_max)
{
    const struct ri_ucx_op *op = state;
    size_t bytes = ri_min_size(ri_ucx_bytes(op) - offset, bytes_max);
    const struct ri_xfer rows = rows_of(op);

    ri_xfer_pack(&rows, offset, packed, bytes);
    return bytes;
}

static ucs_status_t rows_unpack(void *state, size_t offset, const void *packed, size_t bytes)
{
    const struct ri_xfer rows = rows_of(state);

    ri_xfer_unpack(&rows, offset, packed, bytes);
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
    return !op->xfer && !op->request && !op->ready;
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

/* ---- what nobody expected ---- */

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
