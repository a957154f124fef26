/* SPDX-License-Identifier: Apache-2.0 */
#include <rondo/collectives.h>

#include <stdlib.h>

#include "api/request.h"
#include "base/status.h"
#include "plan/collective.h"

/* What a communicator keeps for its plain collectives: each schedule is made at first use. */
struct ri_collectives {
    struct ri_collective *all_reduce, *barrier;
    struct ri_collective **broadcast; /* [size], by root */
    int size;
    uint32_t runs;                    /* started so far, equal on all ranks */
    struct rondo_request request;
};

static void release(struct ri_collectives *all)
{
    if (!all)
        return;
    ri_request_cancel(&all->request);
    ri_collective_destroy(all->all_reduce);
    ri_collective_destroy(all->barrier);
    for (int root = 0; all->broadcast && root < all->size; root++)
        ri_collective_destroy(all->broadcast[root]);
    free(all->broadcast);
    free(all);
}

static int prepare(struct rondo_comm *comm)
{
    struct ri_collectives *all;

    if (comm->collectives)
        return 0;
    all = calloc(1, sizeof(*all));
    if (all)
        all->broadcast = calloc((size_t)comm->size, sizeof(*all->broadcast));
    if (!all || !all->broadcast) {
        free(all);
        return ri_error(RONDO_ERR_MEMORY, "out of memory for collectives");
    }
    all->size = comm->size;
    comm->collectives = all;
    comm->release_collectives = release;
    return 0;
}

struct call {
    const char *what;
    ri_builder *build;
    int root;
    const void *input;
    void *output;
    size_t count, element_bytes;
    rondo_dtype_t dtype;
};

static struct ri_collective **place_of(struct ri_collectives *all, const struct call *call)
{
    if (call->build == ri_build_broadcast)
        return &all->broadcast[call->root];
    return call->build == ri_build_barrier ? &all->barrier : &all->all_reduce;
}

static int start_locked(struct rondo_comm *comm, const struct call *call, rondo_request_t *request)
{
    struct ri_place place = { comm->rank, comm->size, comm->host, comm->transport };
    struct ri_collectives *all = comm->collectives;
    struct ri_collective **collective = NULL;
    int err = ri_request_check(all ? &all->request : NULL, comm, call->what);

    if (err)
        return err;
    err = prepare(comm);
    all = comm->collectives;
    if (!err)
        collective = place_of(all, call);
    if (!err && !*collective)
        err = ri_collective_create(&place, call->build, call->root, collective);
    if (err) /* the others have started, or will: they must hear of it */
        return ri_comm_fail(comm, err);
    err = ri_collective_start(*collective, call->input, call->output, call->count, call->dtype,
                              call->element_bytes, all->runs++);
    return ri_request_begin(&all->request, comm, ri_collective_engine(*collective), call->what,
                            NULL, err, request);
}

static int start(struct rondo_comm *comm, const struct call *call, rondo_request_t *request)
{
    int err = ri_comm_enter(comm);

    return err ? err : ri_comm_leave(comm, start_locked(comm, call, request));
}

static int check(rondo_comm_t comm, rondo_request_t *request)
{
    if (!comm)
        return ri_error(RONDO_ERR_ARGUMENT, "comm is NULL");
    if (!request)
        return ri_error(RONDO_ERR_ARGUMENT, "request is NULL");
    return 0;
}

static int overlaps(const char *a, const char *b, size_t bytes)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return x != y && (x < y ? y - x : x - y) < bytes;
}

rondo_status_t rondo_all_reduce(rondo_comm_t comm, const void *data, void *result, size_t count,
                                rondo_dtype_t dtype, void *stream, rondo_request_t *request)
{
    struct call call = { "all-reduce", ri_build_all_reduce, 0, data, result, count, sizeof(float),
                         dtype };
    size_t bytes;
    int err = check(comm, request);

    (void)stream;
    if (err)
        return err;
    if (dtype != RONDO_F32 && dtype != RONDO_F64)
        return ri_error(RONDO_ERR_ARGUMENT, "dtype is %d; all-reduce takes RONDO_F32 and RONDO_F64",
                        (int)dtype);
    if (dtype == RONDO_F64)
        call.element_bytes = sizeof(double);
    if (__builtin_mul_overflow(count, call.element_bytes, &bytes) || bytes > SIZE_MAX / 4)
        return ri_error(RONDO_ERR_ARGUMENT, "count is %zu: too many bytes", count);
    if (count > 0 && (!data || !result))
        return ri_error(RONDO_ERR_ARGUMENT, "%s is NULL, and count is %zu",
                        data ? "result" : "data", count);
    if (count > 0 && overlaps(data, result, bytes))
        return ri_error(RONDO_ERR_ARGUMENT, "data and result overlap; they may be equal or apart");
    return start(comm, &call, request);
}

rondo_status_t rondo_broadcast(rondo_comm_t comm, void *buffer, size_t bytes, int root, void *stream,
                               rondo_request_t *request)
{
    struct call call = { "broadcast", ri_build_broadcast, root, buffer, buffer, bytes, 1, RONDO_F32 };
    int err = check(comm, request);

    (void)stream;
    if (err)
        return err;
    if (root < 0 || root >= comm->size)
        return ri_error(RONDO_ERR_ARGUMENT, "root is %d; ranks are 0 to %d", root, comm->size - 1);
    if (bytes > 0 && !buffer)
        return ri_error(RONDO_ERR_ARGUMENT, "buffer is NULL, and bytes is %zu", bytes);
    return start(comm, &call, request);
}

rondo_status_t rondo_barrier(rondo_comm_t comm, void *stream, rondo_request_t *request)
{
    struct call call = { "barrier", ri_build_barrier, 0, NULL, NULL, 0, 1, RONDO_F32 };
    int err = check(comm, request);

    (void)stream;
    if (err)
        return err;
    return start(comm, &call, request);
}
