/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/xfer.h"

#include <stdio.h>
#include <string.h>

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "base/status.h"

enum { LINE_BYTES = 64, LONG_RUN_BYTES = 4096 };

static int bound_check(const struct ri_transport *transport, const struct ri_xfer *xfer)
{
    if (!transport->ops->readers)
        return ri_error(RONDO_ERR_ARGUMENT, "bound message on transport %s, which copies",
                        transport->ops->name);
    if (xfer->lane != RI_TRANSPORT_LOCAL)
        return ri_error(RONDO_ERR_ARGUMENT, "bound message on lane %d: only the local lane, %d, binds",
                        xfer->lane, RI_TRANSPORT_LOCAL);
    if (!ri_xfer_contiguous(xfer))
        return ri_error(RONDO_ERR_ARGUMENT, "bound message of rows of %zu bytes, %zu bytes apart: give "
                        "one run of bytes", xfer->row_bytes, xfer->row_stride);
    return 0;
}

static int xfer_check(const struct ri_transport *transport, const struct ri_xfer *xfer)
{
    size_t bytes;

    if (xfer->peer < 0 || xfer->peer >= transport->ranks)
        return ri_error(RONDO_ERR_ARGUMENT, "message with peer %d among %d ranks", xfer->peer,
                        transport->ranks);
    if (xfer->tag >= RI_TAG_END)
        return ri_error(RONDO_ERR_ARGUMENT, "message tag 0x%llx does not fit in 48 bits",
                        (unsigned long long)xfer->tag);
    if (xfer->lane >= RI_TRANSPORT_LANES)
        return ri_error(RONDO_ERR_ARGUMENT, "message on lane %d of %d", xfer->lane,
                        RI_TRANSPORT_LANES);
    if (__builtin_mul_overflow(xfer->rows, xfer->row_bytes, &bytes))
        return ri_error(RONDO_ERR_ARGUMENT, "message of %zu rows of %zu bytes is too large",
                        xfer->rows, xfer->row_bytes);
    if (bytes && !xfer->base && (xfer->send || !xfer->bind))
        return ri_error(RONDO_ERR_ARGUMENT, "message of %zu bytes without memory", bytes);
    if (xfer->rows > 1 && xfer->row_stride < xfer->row_bytes)
        return ri_error(RONDO_ERR_ARGUMENT, "message rows of %zu bytes overlap, %zu bytes apart",
                        xfer->row_bytes, xfer->row_stride);
    if (xfer->state == RI_XFER_POSTED)
        return ri_error(RONDO_ERR_BUSY, "message with tag 0x%llx is posted already",
                        (unsigned long long)xfer->tag);
    return xfer->bind ? bound_check(transport, xfer) : 0;
}

int ri_xfer_check(const struct ri_transport *transport, struct ri_xfer *const *xfers, int n)
{
    for (int i = 0; i < n; i++) {
        int err = xfer_check(transport, xfers[i]);

        if (err)
            return err;
    }
    return 0;
}

char *ri_xfer_run(const struct ri_xfer *xfer, size_t offset, size_t bytes, size_t *run_bytes)
{
    size_t row, within;

    if (ri_xfer_contiguous(xfer)) {
        *run_bytes = bytes;
        return xfer->base + offset;
    }
    row = offset / xfer->row_bytes;
    within = offset % xfer->row_bytes;
    *run_bytes = xfer->row_bytes - within < bytes ? xfer->row_bytes - within : bytes;
    return xfer->base + row * xfer->row_stride + within;
}

static void copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

/* A store that misses the cache first reads the line that it overwrites; these do not, and leave in the cache
 * what is there. */
static void copy_past_caches(void *packed, const void *run, size_t bytes)
{
#ifdef __SSE2__
    char *to = packed;
    const char *from = run;
    size_t head = -(uintptr_t)to % LINE_BYTES;

    if (bytes < LONG_RUN_BYTES) {
        memcpy(to, from, bytes);
        return;
    }
    memcpy(to, from, head);
    for (to += head, from += head, bytes -= head; bytes >= LINE_BYTES; bytes -= LINE_BYTES) {
        for (int i = 0; i < LINE_BYTES; i += 16)
            _mm_stream_si128((void *)(to + i), _mm_loadu_si128((const void *)(from + i)));
        to += LINE_BYTES;
        from += LINE_BYTES;
    }
    memcpy(to, from, bytes);
#else
    memcpy(packed, run, bytes);
#endif
}

static void pack(const struct ri_xfer *xfer, size_t offset, void *packed, size_t bytes,
                 void (*copy_run)(void *to, const void *from, size_t bytes))
{
    char *to = packed;

    while (bytes > 0) {
        size_t run_bytes;
        const char *from = ri_xfer_run(xfer, offset, bytes, &run_bytes);

        copy_run(to, from, run_bytes);
        to += run_bytes;
        offset += run_bytes;
        bytes -= run_bytes;
    }
}

void ri_xfer_pack(const struct ri_xfer *xfer, size_t offset, void *packed, size_t bytes)
{
    pack(xfer, offset, packed, bytes, copy);
}

void ri_xfer_pack_past_caches(const struct ri_xfer *xfer, size_t offset, void *packed, size_t bytes)
{
    pack(xfer, offset, packed, bytes, copy_past_caches);
#ifdef __SSE2__
    _mm_sfence(); /* release alone does not order such stores */
#endif
}

void ri_xfer_unpack(const struct ri_xfer *xfer, size_t offset, const void *packed, size_t bytes)
{
    const char *from = packed;

    while (bytes > 0) {
        size_t run_bytes;
        char *to = ri_xfer_run(xfer, offset, bytes, &run_bytes);

        memcpy(to, from, run_bytes);
        from += run_bytes;
        offset += run_bytes;
        bytes -= run_bytes;
    }
}

void ri_xfer_copy(const struct ri_xfer *to, const struct ri_xfer *from, size_t offset, size_t bytes)
{
    while (bytes > 0) {
        size_t run_bytes;
        const char *run = ri_xfer_run(from, offset, bytes, &run_bytes);

        ri_xfer_unpack(to, offset, run, run_bytes);
        offset += run_bytes;
        bytes -= run_bytes;
    }
}

void ri_xfer_done(struct ri_transport *transport, struct ri_xfer *xfer)
{
    uint64_t *counted = xfer->send ? transport->sent_bytes : transport->received_bytes;

    xfer->handle = NULL;
    xfer->moved_bytes = xfer->bind ? 0 : ri_xfer_bytes(xfer);
    xfer->status = RONDO_OK;
    xfer->state = RI_XFER_DONE;
    counted[xfer->lane] += xfer->moved_bytes;
}

void ri_xfer_failed(struct ri_xfer *xfer, int status)
{
    xfer->handle = NULL;
    xfer->moved_bytes = 0;
    xfer->status = status;
    snprintf(xfer->why, sizeof(xfer->why), "%s", rondo_last_error());
    xfer->state = RI_XFER_FAILED;
}
