/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_XFER_H
#define RI_XFER_H

#include "transport/transport.h"

/* What every transport does with a message in the same way.  For transports only. */

/* May the messages be posted?  0, or RONDO_ERR_ARGUMENT naming the first that may not, and why. */
int ri_xfer_check(const struct ri_transport *transport, struct ri_xfer *const *xfers, int n);

/* The run of memory that begins `offset` bytes into the message: its address, and at most how many
 * of `bytes` it holds. */
char *ri_xfer_run(const struct ri_xfer *xfer, size_t offset, size_t bytes, size_t *run_bytes);

/* Bytes offset .. offset + bytes of one message into another, whose rows may be cut otherwise. */
void ri_xfer_copy(const struct ri_xfer *to, const struct ri_xfer *from, size_t offset, size_t bytes);

/* Bytes offset .. offset + bytes of the message, its rows laid end to end, to or from `packed`. */
void ri_xfer_pack(const struct ri_xfer *xfer, size_t offset, void *packed, size_t bytes);
void ri_xfer_unpack(const struct ri_xfer *xfer, size_t offset, const void *packed, size_t bytes);
/* As ri_xfer_pack, but past the caches, where the processor can: for what is too large for them.  What was
 * copied is there for other threads as soon as they see anything that is written with release later. */
void ri_xfer_pack_past_caches(const struct ri_xfer *xfer, size_t offset, void *packed, size_t bytes);

/* True when the rows follow each other without a gap. */
static inline int ri_xfer_contiguous(const struct ri_xfer *xfer)
{
    return xfer->rows <= 1 || xfer->row_stride == xfer->row_bytes;
}

/* End a message: DONE, counted on its lane; or FAILED for the reason `status`, of which
 * rondo_last_error() says more. */
void ri_xfer_done(struct ri_transport *transport, struct ri_xfer *xfer);
void ri_xfer_failed(struct ri_xfer *xfer, int status);

#endif
