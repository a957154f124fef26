/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_STREAM_H
#define PERF_STREAM_H

#include <rondo/comm.h>

#include "link.h"

/* Windows of messages from one rank to another, or both ways: the receiver posts a window, the sender
 * too, and when all of it has come the receiver says so.  A sender's window has ended when it knows that;
 * so both clocks tell what came, and not what was taken over for sending. */
struct stream {
    struct perf_link link;
    int rank, partner;     /* partner -1: this rank looks on */
    int sends, receives;
    int window;            /* messages */
    size_t bytes;          /* of each; all of a window are sent from, and come to, one buffer */
    char *out, *in;
    struct ri_xfer *xfers; /* [2 * window + 2] */
    uint64_t sent, received; /* messages so far: they number tags */
    uint64_t windows_sent, windows_received;
    uint64_t wrong;
};

/* What one rank saw of a run of windows; 0 where it took no part. */
struct stream_times {
    double receive_us, send_us;
    double moved_bytes; /* received, as the transport counts them */
};

/* Local.  Release it after a failure too. */
int stream_init(struct stream *stream, rondo_comm_t comm, int partner, int sends, int receives,
                int window, size_t bytes);
void stream_release(struct stream *stream);

/* With the partner: single messages, filled anew, of which every byte is looked at. */
int stream_verify(struct stream *stream, uint32_t first_iteration, int messages);

/* Local: what the next run sends. */
void stream_fill(struct stream *stream, uint32_t iteration);

/* With the partner: `windows` windows of what was filled in, which is looked for at the end.  A receiver
 * waits delay_us before it posts its first. */
int stream_run(struct stream *stream, uint32_t iteration, int windows, double delay_us,
               struct stream_times *times);

#endif
