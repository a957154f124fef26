/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_UCX_PRIVATE_H
#define RI_UCX_PRIVATE_H

#include <ucp/api/ucp.h>

#include "transport/xfer.h"

/* Shared by ucx.c (the object), ucx_context.c (settings), ucx_connect.c (endpoints), ucx_way.c (what they
 * are made of), ucx_memory.c (registration), ucx_op.c (what messages are made of) and
 * ucx_message.c. */

struct ri_ucx;

struct ri_ucx_peer {
    struct ri_ucx *owner;
    void *address;
    ucp_ep_h endpoint;
    const struct ri_ucx_way *way; /* NULL: not connected */
    void *closing; /* UCX's request while the endpoint is being flushed or closed */
    struct ri_ucx_op *granted, **granted_end; /* sends whose receives are ready, in the order of that */
    size_t under_way_bytes;                   /* of those of them that UCX has */
    uint8_t tcp_alone[2]; /* it is reached so: by us, and we by it */
    int owed;   /* it may wait for the word that a message of its has been taken: see ri_ucx_flush_owed */
    int eager;  /* both: see ri_ucx_start */
    int wanted; /* messages go there or come from there */
    int remote; /* on another host */
    int failed; /* UCX says so, or we broke it off; endpoint is of no use any more */
    int broken_off;
};

/* Of an xfer what its message needs when the xfer is gone: plans reserve thousands of these. */
struct ri_ucx_shape {
    uint64_t tag;
    char *base;
    size_t rows, row_bytes, row_stride;
    int32_t peer;
    uint8_t send;
};

/* One message in flight.  Ours, so that it outlives an xfer that was given up. */
struct ri_ucx_op {
    struct ri_ucx *owner;
    struct ri_xfer *xfer;    /* NULL: given up, or no message */
    struct ri_ucx_shape shape;
    void *request;           /* UCX's, while it moves */
    void *ready;             /* UCX's, while a send waits for its receiver */
    ucs_status_t sent;       /* how the sending ended, when the receiver had not answered yet;
                              * of a receive: how saying that it is ready did */
    uint8_t counted;         /* among its peer's under_way_bytes */
    struct ri_ucx_op *spare; /* next of those without a message, or of those granted */
    struct ri_ucx_op *all;   /* next of all */
};

static inline size_t ri_ucx_bytes(const struct ri_ucx_op *op)
{
    return op->shape.rows * op->shape.row_bytes;
}

struct ri_ucx {
    struct ri_transport base;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    ucp_datatype_t rows; /* of messages with gaps; the buffer is the ri_ucx_op */
    struct ri_ucx_peer *peers;
    struct ri_ucx_way *ways; /* all that differ */
    struct ri_ucx_op *spare, *all;
    int reserved, op_count; /* messages that may be posted at once; entries of all */
    struct ri_ucx_range *ranges; /* [range_room] range_count of them: what is registered */
    int range_count, range_room;
    int granted;  /* sends, to all peers */
    int owed;     /* some peer is */
    int flushes;  /* that UCX has not ended */
    int event_fd;
    int ended;    /* messages that ended since progress began */
    int failures; /* peers that failed since progress looked */
    int broken;   /* UCX holds memory that was given back, and must not run again */
};

/* ucx_context.c */

/* devices: for this context; NULL or empty: UCX's choice. */
int ri_ucx_make_context(struct ri_ucx *self, const char *devices);
/* The error for what UCX says, with its words. */
int ri_ucx_error(ucs_status_t status, const char *what);

/* ucx_memory.c */

/* As the contract's map and unmap. */
void ri_ucx_map(struct ri_ucx *self, void *base, size_t bytes);
void ri_ucx_unmap(struct ri_ucx *self, const void *base);
void ri_ucx_unmap_all(struct ri_ucx *self);
/* Of the range in which [base, base + bytes) lies as a whole; NULL: in none. */
ucp_mem_h ri_ucx_handle(const struct ri_ucx *self, const char *base, size_t bytes);

/* ucx_op.c */

int ri_ucx_rows_type(ucp_datatype_t *rows);

/* Makes sure that n messages can be posted, of those reserved or beside them. */
int ri_ucx_provide(struct ri_ucx *self, int n);
/* As the contract's reserve. */
int ri_ucx_reserve(struct ri_ucx *self, int messages);

/* Takes what has come and nobody expected, which UCX would complain of; bounded.  memory: to be freed when
 * the worker is gone. */
void ri_ucx_drain(struct ri_ucx *self, void **memory);

/* ucx_message.c */

/* Hands a message to UCX, after ri_ucx_provide.  The xfer may have ended at return.
 * Over TCP, messages that UCX moves by its rendezvous all arrive at the end when they were posted
 * together, and the two directions of a link take turns.  So between peers that reach each other by TCP
 * alone messages go eagerly, one after the other; and what would come before its receive is posted, and be
 * kept by UCX without bound, waits at the sender: a receive says that it is ready.  Such a word must not wait
 * behind the messages of the other direction, so that these go to UCX a few at a time, and not before the
 * next round.  Small messages are sent at once, and end when they are sent and their receive has said so. */
void ri_ucx_start(struct ri_ucx *self, struct ri_xfer *xfer);

/* Hands UCX what may go now.  Returns whether there was any. */
int ri_ucx_begin_granted(struct ri_ucx *self);

/* One round of UCX.  Returns how much happened, or RONDO_ERR_TRANSPORT when broken. */
int ri_ucx_run(struct ri_ucx *self);

/* As the contract's cancel, in little more than 1 s.  Breaks off the peers on other hosts that have
 * messages which UCX does not let go, and self when that does not help, or the peer is on this host. */
void ri_ucx_cancel(struct ri_ucx *self, struct ri_xfer *const *xfers, int n);
/* Gives up all, before close, and waits for nothing: UCX may still touch the memory. */
void ri_ucx_abandon_all(struct ri_ucx *self);
/* True while UCX holds messages with peers on other hosts. */
int ri_ucx_holds_remote(const struct ri_ucx *self);

int ri_ucx_peer_error(const struct ri_ucx *self, int rank);
int ri_ucx_broken_error(void);

/* ucx_connect.c */

/* What UCX matches by: from the top a bit for our own messages, the sender, the tag. */
enum { RI_UCX_SENDER_SHIFT = 48 };
#define RI_UCX_OURS ((uint64_t)1 << 63)

/* Makes the endpoints and waits until every wanted peer has answered. */
int ri_ucx_connect(struct ri_ucx *self, const void *const *addresses, const size_t *address_bytes,
                   int64_t deadline_ns);

/* After a round of UCX.  UCX ends a receive when it has read the sender's memory.  Its word of that, without
 * which the sender waits, may wait for room in the sender's queue, and then leaves in a later round: a flush that
 * begins now ends behind it. */
void ri_ucx_flush_owed(struct ri_ucx *self);
/* As the contract's settled. */
int ri_ucx_settled(struct ri_ucx *self);

/* Closes the endpoints, all at once, after what peers have still to take; 2 s at most.  Then UCX holds no
 * message with a peer on another host, for destroying a worker that does aborts the process. */
void ri_ucx_disconnect(struct ri_ucx *self);
/* Closes the endpoint to a peer on another host at once; its messages end in the next rounds of UCX. */
void ri_ucx_break_off(struct ri_ucx_peer *peer);

/* ucx_way.c */

/* Asks UCX how the peers are reached, once they are, and logs it.  RONDO_ERR_MEMORY. */
int ri_ucx_find_ways(struct ri_ucx *self);
void ri_ucx_free_ways(struct ri_ucx *self);
const char *ri_ucx_way_text(const struct ri_ucx_peer *peer);

#endif
