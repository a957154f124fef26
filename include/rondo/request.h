/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_REQUEST_H
#define RONDO_REQUEST_H

#include <rondo/status.h>
#include <rondo/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* Does some work, and says whether the request is done.  A finished request (good or failed) becomes
 * NULL; a NULL request is done. */
rondo_status_t rondo_test(rondo_request_t *request, int *done);

/* Works until done.  timeout_ms -1: the communicator's; a second and more without a look, as in a process that
 * is stopped or in a kernel, does not count.  After RONDO_ERR_TIMEOUT, or any other error
 * in flight, the request is NULL, outputs are undefined and the communicator has failed: its plans and
 * itself can only be destroyed.  The tensors are the caller's again: others that read them in place are
 * stopped, and a kernel of theirs that runs right now is waited for, 2 s at most. */
rondo_status_t rondo_wait(rondo_request_t *request, int timeout_ms);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
