/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "comm/comm.h"
#include "measure.h"
#include "pattern.h"

int stream_init(struct stream *stream, rondo_comm_t comm, int partner, int sends, int receives,
                int window, size_t bytes)
{
    *stream = (struct stream){.rank = comm->rank, .partner = partner, .window = window,
                              .bytes = bytes};
    perf_link_init(&stream->link, comm);
    if (partner < 0)
        return 0;
    stream->sends = sends;
    stream->receives = receives;
    stream->out = perf_link_alloc(&stream->link, bytes);
    stream->in = perf_link_alloc(&stream->link, bytes);
    stream->xfers = calloc((size_t)(2 * window + 2), sizeof(*stream->xfers));
    if (!stream->out || !stream->in || !stream->xfers)
        return ri_error(RONDO_ERR_MEMORY, "no memory for two blocks of %zu bytes", bytes);
    return perf_link_reserve(&stream->link, 2 * window + 2);
}

void stream_release(struct stream *stream)
{
    perf_link_free(&stream->link, stream->out);
    perf_link_free(&stream->link, stream->in);
    if (stream->xfers)
        perf_link_reserve(&stream->link, -(2 * stream->window + 2));
    free(stream->xfers);
}

/* ---- windows ---- */

/* Messages have even tags, what ends a window odd ones. */
static int post(struct stream *stream, struct ri_xfer *xfer, int send, uint64_t n, void *base,
                size_t bytes)
{
    *xfer = perf_link_message(&stream->link, stream->partner, n, base, bytes);
    xfer->send = (uint8_t)send;
    return perf_link_post(&stream->link, xfer);
}

static int wait_all(struct stream *stream, const struct ri_xfer *xfers, int n)
{
    int err = 0;

    for (int i = 0; i < n && !err; i++)
        err = perf_link_wait(&stream->link, &xfers[i], PERF_AWAKE);
    return err;
}

static int post_receives(struct stream *stream, struct ri_xfer *xfers, int n)
{
    int err = 0;

    for (int i = 0; i < n && !err; i++)
        err = post(stream, &xfers[i], 0, 2 * stream->received++, stream->in, stream->bytes);
    return err;
}

static int post_sends(struct stream *stream, struct ri_xfer *xfers, int n)
{
    int err = 0;

    for (int i = 0; i < n && !err; i++)
        err = post(stream, &xfers[i], 1, 2 * stream->sent++, stream->out, stream->bytes);
    return err;
}

/* One window each way.  The receiver's word that all has come is an empty message. */
static int window(struct stream *stream, int n)
{
    struct ri_xfer *in = stream->xfers, *out = in + stream->window, *word = out + stream->window;
    int err = 0;

    if (stream->receives)
        err = post_receives(stream, in, n);
    if (!err && stream->sends)
        err = post(stream, &word[0], 0, 2 * stream->windows_sent++ + 1, NULL, 0);
    if (!err && stream->sends)
        err = post_sends(stream, out, n);
    if (!err && stream->receives)
        err = wait_all(stream, in, n);
    if (!err && stream->receives)
        err = post(stream, &word[1], 1, 2 * stream->windows_received++ + 1, NULL, 0);
    if (!err && stream->receives)
        err = wait_all(stream, &word[1], 1);
    if (!err && stream->sends)
        err = wait_all(stream, out, n);
    if (!err && stream->sends)
        err = wait_all(stream, &word[0], 1);
    return err;
}

/* Both clocks start together, but for one empty message. */
static int meet(struct stream *stream)
{
    struct ri_xfer *word = stream->xfers + 2 * stream->window;
    int err = post(stream, &word[0], 0, 2 * stream->windows_sent++ + 1, NULL, 0);

    if (!err)
        err = post(stream, &word[1], 1, 2 * stream->windows_received++ + 1, NULL, 0);
    return err ? err : wait_all(stream, word, 2);
}

/* After an error, nothing may point to our memory. */
static int end(struct stream *stream, int err)
{
    for (int i = 0; i < 2 * stream->window + 2 && err; i++) {
        struct ri_xfer *xfer = &stream->xfers[i];

        if (xfer->state == RI_XFER_POSTED)
            stream->link.ops->cancel(stream->link.transport, &xfer, 1);
    }
    perf_link_end(&stream->link);
    return err;
}

static void look(struct stream *stream, uint32_t iteration)
{
    size_t where = 0;
    uint64_t wrong;

    if (!stream->receives)
        return;
    wrong = pattern_wrong(stream->in, stream->bytes, stream->partner, iteration, 0, &where);
    if (wrong && !stream->wrong)
        fprintf(stderr, "rank %d: message of rank %d, size %zu: %llu words wrong, the first is %zu\n",
                stream->rank, stream->partner, stream->bytes, (unsigned long long)wrong, where);
    stream->wrong += wrong;
}

int stream_verify(struct stream *stream, uint32_t first_iteration, int messages)
{
    int err;

    if (stream->partner < 0)
        return 0;
    err = perf_link_begin(&stream->link);
    if (err)
        return err;
    for (int i = 0; i < messages && !err; i++) {
        pattern_fill(stream->out, stream->bytes, stream->rank, first_iteration + (uint32_t)i, 0);
        err = window(stream, 1);
        if (!err)
            look(stream, first_iteration + (uint32_t)i);
    }
    return end(stream, err);
}

void stream_fill(struct stream *stream, uint32_t iteration)
{
    if (stream->partner >= 0)
        pattern_fill(stream->out, stream->bytes, stream->rank, iteration, 0);
}

static double received_bytes(const struct stream *stream)
{
    const struct ri_transport *transport = stream->link.transport;

    return (double)(transport->received_bytes[RI_TRANSPORT_LOCAL] +
                    transport->received_bytes[RI_TRANSPORT_HOST]);
}

int stream_run(struct stream *stream, uint32_t iteration, int windows, double delay_us,
               struct stream_times *times)
{
    double begin, us, before;
    int err;

    *times = (struct stream_times){0};
    if (stream->partner < 0)
        return 0;
    err = perf_link_begin(&stream->link);
    if (err)
        return err;
    before = received_bytes(stream);
    err = meet(stream);
    begin = perf_now_us();
    if (stream->receives)
        perf_pause(delay_us);
    for (int i = 0; i < windows && !err; i++)
        err = window(stream, stream->window);
    us = perf_now_us() - begin;
    times->receive_us = stream->receives ? us : 0;
    times->send_us = stream->sends ? us : 0;
    times->moved_bytes = received_bytes(stream) - before;
    if (!err)
        look(stream, iteration);
    return end(stream, err);
}
