/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_REQUEST_H
#define RI_REQUEST_H

#include <rondo/request.h>

#include "comm/comm.h"
#include "engine/engine.h"

struct ri_verify;

/* One started call.  Embedded in the plan or the collective it belongs to; the caller's handle points
 * at it.  A communicator lists those that are under way, so that waiting for one moves all. */
struct rondo_request {
    struct rondo_comm *comm;
    struct ri_engine *engine;
    const char *what;      /* "forward", "all-reduce" ..., for error texts */
    uint64_t *completed;   /* counts good ends; may be NULL */
    void (*ended)(void *owner); /* after a good end, before its outputs are compared; may be NULL */
    void (*taken)(void *owner); /* called when test, wait or cancel takes it; may be NULL */
    void *owner;
    struct ri_verify *verify;   /* compares the outputs of a good end; ours; NULL: nothing to compare */
    int active;            /* started, and not yet taken by test or wait */
    int state;             /* 0: under way, 1: done, negative: failed */
    struct rondo_request *next; /* of the communicator's list */
};

/* Refuses what cannot start: a failed communicator, or a request (may be NULL) that is still active. */
int ri_request_check(const struct rondo_request *request, struct rondo_comm *comm, const char *what);

/* After its engine was started: status is what that said.  0, and *handle is set; or the failure. */
int ri_request_begin(struct rondo_request *request, struct rondo_comm *comm, struct ri_engine *engine,
                     const char *what, uint64_t *completed, int status, rondo_request_t *handle);

/* What a kernel of a plan on this communicator calls (RONDO_KERNEL_POLLS): moves all but kernels.  Other than
 * 0 when the communicator has failed. */
int ri_request_poll(void *comm);

/* Gives up a request that may be under way. */
void ri_request_cancel(struct rondo_request *request);

#endif
