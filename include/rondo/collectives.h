/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_COLLECTIVES_H
#define RONDO_COLLECTIVES_H

#include <rondo/comm.h>
#include <rondo/request.h>
#include <rondo/status.h>
#include <rondo/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* All are non-blocking: they start and set *request; end it with rondo_test or rondo_wait
 * (request.h).  All ranks of comm start the same collectives in the same order, with equal counts;
 * one at a time per communicator (RONDO_ERR_BUSY).  Buffers stay the caller's until done. */

/* result[i] = sum over ranks of data[i], added in one order on every rank, so that all ranks get equal
 * bits.  data and result: [count] of dtype (RONDO_F32 or RONDO_F64); they may be the same buffer, and
 * may not overlap otherwise.  count == 0 is good. */
rondo_status_t rondo_all_reduce(rondo_comm_t comm, const void *data, void *result, size_t count,
                                rondo_dtype_t dtype, void *stream, rondo_request_t *request);

/* buffer [bytes] of rank root ends on every rank. */
rondo_status_t rondo_broadcast(rondo_comm_t comm, void *buffer, size_t bytes, int root, void *stream,
                               rondo_request_t *request);

/* Done when every rank has started it. */
rondo_status_t rondo_barrier(rondo_comm_t comm, void *stream, rondo_request_t *request);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
