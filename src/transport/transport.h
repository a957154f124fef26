/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_TRANSPORT_H
#define RI_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

struct ri_config;
struct ri_trace;

enum { RI_TRANSPORT_LOCAL, RI_TRANSPORT_HOST, RI_TRANSPORT_LANES };

/* Tags are below this, because what a transport matches by (UCX: 64 bits) holds the sender too. */
#define RI_TAG_END ((uint64_t)1 << 48)

/* Content that lies in the memory of another rank of this host, its holder, and is read in place. */
struct ri_reference {
    char *base;    /* where this rank reads it */
    int32_t holder;
    void *counter; /* the transport's: readers are counted at the holder; NULL: no reference */
};

enum { RI_XFER_WHY_BYTES = 160, RI_XFER_KINDS = 16 };
enum ri_xfer_state { RI_XFER_IDLE, RI_XFER_POSTED, RI_XFER_DONE, RI_XFER_FAILED };

/* One message.  Memory is `rows` runs of row_bytes, row_stride bytes apart; rows may be 0 (an empty
 * message is sent all the same).  The struct and the memory are the poster's and stay where they are
 * until state is DONE or FAILED.  Both ends give equal tags and equal sizes (rows may be cut otherwise);
 * tags are never reused between two ranks of one transport object and in one direction while a message
 * with that tag is in flight. */
struct ri_xfer {
    uint64_t tag;
    char *base;
    size_t rows, row_bytes, row_stride;
    int32_t peer;
    uint8_t send, lane;
    /* A send of what is read in place has the reference of its receive also when it copies: the copy is
     * made only while enter would not refuse.
     * bind: nothing is copied: base and reference of the receive say, when it is DONE, where the content
     * lies, until the transport's release.  A send gives out memory of its own rank (reference.counter
     * NULL; base must not be written before the transport's readers says 0), or passes on the reference
     * of a receive that is not released before the send is DONE.  Equal at both ends; the local lane,
     * one run of bytes, transports that bind only. */
    uint8_t bind;
    uint8_t kind; /* the poster's, who counts by it: 0 .. RI_XFER_KINDS - 1 */
    struct ri_reference reference;
    uint8_t state;          /* enum ri_xfer_state; written by the transport */
    int status;             /* why it FAILED: RONDO_ERR_* */
    char why[RI_XFER_WHY_BYTES]; /* the same in words: others may fail before anyone asks */
    uint64_t moved_bytes;   /* what really came or went; set at completion; 0 when bound */
    struct ri_xfer *next;   /* the transport's while posted */
    void *handle;           /* the transport's while posted, and of a bound send while it has readers */
};

static inline size_t ri_xfer_bytes(const struct ri_xfer *xfer)
{
    return xfer->rows * xfer->row_bytes;
}

struct ri_transport {
    const struct ri_transport_ops *ops;
    int rank, ranks;
    size_t message_bytes;   /* that reserve allocates for a message; set by open */
    struct ri_trace *trace; /* the communicator's: its engines note here what they do; NULL: off */
    /* By lane, counted at completion. */
    uint64_t sent_bytes[RI_TRANSPORT_LANES], received_bytes[RI_TRANSPORT_LANES];
};

/* What a transport may know of its communicator. */
struct ri_transport_params {
    int rank, ranks;             /* ranks <= RI_RANKS_MAX */
    const uint8_t *token;        /* [16] random, equal on all ranks of this communicator only */
    const int32_t *host;         /* [ranks] index of each rank's host */
    const uint8_t *peers;        /* [ranks] 1: a rank that messages go to or come from; NULL: all; alike on
                                  * both ranks of a pair.  Post refuses the others */
    const char *near_devices;    /* of the NIC that the topology gives this rank, "mlx5_0:1": taken where they are
                                  * there and the user names none; NULL: none is near */
    const struct ri_config *config;
};

/* Contract.  One thread at a time per object.  Nothing blocks, but connect and close, which are
 * bounded by their deadline (ri_now_ns). */
struct ri_transport_ops {
    const char *name;

    /* Makes the object and gives the bytes that peers need to reach it (owned by the object, alive
     * until close).  RONDO_ERR_MEMORY, RONDO_ERR_TRANSPORT, with the text set. */
    int (*open)(const struct ri_transport_params *params, struct ri_transport **transport,
                const void **address, size_t *address_bytes);

    /* addresses[r], address_bytes[r] of all ranks; borrowed for the call.  May wait for the others, which
     * must be in connect too.  After an error: close. */
    int (*connect)(struct ri_transport *transport, const void *const *addresses,
                   const size_t *address_bytes, int64_t deadline_ns);

    /* Accepts n messages (state becomes POSTED, or DONE at once), or none of them and says why.  Never
     * moves a message by waiting for its peer. */
    int (*post)(struct ri_transport *transport, struct ri_xfer *const *xfers, int n);

    /* Moves what can be moved.  Returns how much happened (0: nothing), or a negative status when the
     * transport as a whole is broken.  A single message that fails is FAILED with its status. */
    int (*progress)(struct ri_transport *transport);

    /* Whether what peers still need of messages that are DONE has left this rank.  0: progress has to go on for
     * it; 1 while other messages are posted, for which it has to go on anyway.  NULL: always.  Does not wait for
     * what a peer does outside of the transport, as long as nobody waits for this rank. */
    int (*settled)(struct ri_transport *transport);

    /* A descriptor that becomes readable when progress may have work, or -1: none, use time.  arm
     * returns 1 when it is safe to sleep on it, 0 when progress must be called again first. */
    int (*event_fd)(struct ri_transport *transport);
    int (*arm)(struct ri_transport *transport);

    /* So many more messages (fewer, when negative) may be posted at once than before: memory for them is
     * there, and post does not allocate; but memory of copies of what the caller owns is made at first use.
     * RONDO_ERR_MEMORY, and nothing has changed.  NULL: no need. */
    int (*reserve)(struct ri_transport *transport, int messages);

    /* Memory of this rank.  alloc, free; NULL: none of its own kind.  alloc gives zeroed memory, aligned to
     * pages, that bound messages give out as it lies; what else is given out the transport may copy first.
     * RONDO_ERR_MEMORY.  free takes what alloc gave, also after a failure; close frees the rest.
     * map, unmap; NULL: no need.  The transport may register [base, base + bytes) once for all messages
     * that lie in it; never an error, at most slower. */
    int (*alloc)(struct ri_transport *transport, size_t bytes, void **memory);
    void (*free)(struct ri_transport *transport, void *memory);
    void (*map)(struct ri_transport *transport, void *base, size_t bytes);
    void (*unmap)(struct ri_transport *transport, void *base);

    /* How messages to and from a peer move, and why so, in a few words: "memory of this host, read in
     * place", "tcp over rail0, error mode peer, as it is on another host".  Valid until close. */
    const char *(*way)(struct ri_transport *transport, int peer);

    /* Gives up posted messages: afterwards none is POSTED and their memory is not touched again.  They
     * become IDLE; those that had ended keep their state.  A bound send whose receive is DONE already
     * has gone through, and is DONE: see readers. */
    void (*cancel)(struct ri_transport *transport, struct ri_xfer *const *xfers, int n);

    /* Binding; all NULL: this transport copies.
     * readers: how many ranks still read what this send, which is DONE, gave out.  0 for one that passed
     * a reference on, or that never bound.  Never falls to 0 while a reader passes it on; 0 is final.
     * When it falls to 0, a holder that sleeps is woken.
     * release: what this receive, which is DONE, brought is not read here any more; clears its
     * reference, so that a reference shows what is to be released.
     * enter, leave: around each short time in which this rank reads what lies at a reference.  Neither
     * waits.  RONDO_ERR_PEER names the holder that has revoked it: from enter, nothing may be read, and
     * there is nothing to leave; from leave, what was read may be no content.
     * revoke: the holder of what this send, which is DONE, gave out takes it back: it is given to nobody
     * any more, enter refuses from now on, and readers counts only those that are between enter and leave.
     * A rank that closes lets go of all it reads, and revokes what it gave out, but waits for nobody: its
     * owner first waits for readers. */
    int (*readers)(struct ri_transport *transport, struct ri_xfer *send);
    void (*release)(struct ri_transport *transport, struct ri_xfer *receive);
    int (*enter)(struct ri_transport *transport, const struct ri_reference *reference);
    int (*leave)(struct ri_transport *transport, const struct ri_reference *reference);
    void (*revoke)(struct ri_transport *transport, struct ri_xfer *send);

    /* Local.  Accepts NULL and half-made objects. */
    void (*close)(struct ri_transport *transport);
};

extern const struct ri_transport_ops ri_transport_self; /* all ranks in one process */
extern const struct ri_transport_ops ri_transport_shm;  /* ranks of one host */
extern const struct ri_transport_ops ri_transport_ucx;  /* HAVE_UCX only */
extern const struct ri_transport_ops ri_transport_route; /* HAVE_UCX only: shm inside a host, ucx between */

/* transport.c: the table of what is built in.  NULL when there is none of that name. */
const struct ri_transport_ops *ri_transport_find(const char *name);
/* How to build in one that may be left out; NULL: there never is one of that name. */
const char *ri_transport_remedy(const char *name);
/* Names of all that is built in, for error texts: "self, shm, ucx". */
const char *ri_transport_names(void);

#endif
