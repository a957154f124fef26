/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SHM_PRIVATE_H
#define RI_SHM_PRIVATE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "transport/transport.h"

/* Transport shm.  For shm*.c only.
 *
 * Each rank has one sparse file of memory, which all ranks of its host map.  Its front says what the
 * others need to know, and takes their news; behind it lie the slots of messages that the rank sends, what
 * alloc gave, and copies of what else is given out.  A place in such a file is told as holder (index of
 * the rank among those of the host) and offset, as each process maps it elsewhere.
 *
 * A message is one slot at its sender, which goes to the receiver's inbox and comes back when the
 * receiver needs it no more. */

enum {
    RI_SHM_LAYOUT = 2,         /* of all that is shared; ranks of other layouts are refused */
    RI_SHM_LOCALS_MAX = 1024,  /* ranks of a host */
    RI_SHM_BUCKETS = 1024,     /* of each table of messages */
    RI_SHM_SLICE_BYTES = 512 << 10, /* copied in one call of progress, about */
    RI_SHM_SMALL_BYTES = 16 << 10,  /* up to here a copy in the sender's memory is faster than CMA */
    RI_SHM_STREAM_BYTES = 1 << 20,  /* that the sender of a larger message copies ahead, without CMA */
    RI_SHM_CACHE_BYTES = 16 << 20,  /* half of what the cache of several cores holds, about */
    RI_SHM_RUN_BYTES = 256,         /* rows from here on are worth CMA */
    RI_SHM_FDS = 3,            /* that a rank passes to another */
    RI_SHM_LINE = 64
};

enum ri_shm_state {
    RI_SHM_FREE,      /* the sender's */
    RI_SHM_POSTED,    /* the receiver may take it */
    RI_SHM_MATCHED,   /* the receiver has a receive for it */
    RI_SHM_COPYING,   /* it is being copied: the sender that takes it back waits */
    RI_SHM_GIVEN,     /* bound, MATCHED, and the send is DONE; the receiver does the rest */
    RI_SHM_WITHDRAWN, /* the sender has given it up, the receiver has yet to give it back */
    /* The receiver has given the slot back. */
    RI_SHM_DONE,
    RI_SHM_FAILED,
    RI_SHM_RETURNED, /* was WITHDRAWN */
    RI_SHM_STATES = 0xff,
    RI_SHM_LISTED = 0x100 /* with any of them: among those that the sender has to look at */
};

/* Where the content of a message is read. */
enum ri_shm_place {
    RI_SHM_OWN,  /* in the memory of the sender, at slot.base */
    RI_SHM_HELD, /* in the memory of slot.holder, at slot.base */
    RI_SHM_CMA,  /* at address slot.base of the sender's process */
    RI_SHM_STREAM /* goes through slot.ring_bytes of the sender's memory, at slot.base */
};

/* What a bound send gave out, at its holder. */
struct ri_shm_lend {
    _Atomic int32_t readers; /* a message on its way counts as one */
    _Atomic int32_t inside;  /* those of them that are between enter and leave */
    _Atomic uint32_t revoked;
};

/* One message, in the memory of its sender.  What the receiver of a bound one reads lies in one line. */
struct ri_shm_slot {
    _Alignas(RI_SHM_LINE) _Atomic uint32_t state;
    struct ri_shm_lend lend; /* when the sender is the holder */
    uint64_t next;           /* offset of the next in the inbox; then of the next that comes back */
    uint64_t tag, bytes;
    uint64_t base;
    uint64_t lent; /* offset at the holder of its lend; 0: the sender's own, here */
    int16_t holder;
    uint8_t bind, place;
    uint8_t expected_bind; /* see below */

    _Alignas(RI_SHM_LINE) union {
        struct {
            uint64_t rows, row_bytes, row_stride;
        };
        /* A stream: how far the sender has copied, and the receiver; see shm_stream.c. */
        struct {
            _Atomic uint64_t made, taken;
            uint64_t ring_bytes;
        };
    };
    struct ri_shm_slot *chain; /* the receiver's */
    /* Why it FAILED. */
    uint64_t expected_bytes; /* MISMATCH */
    int32_t status;
    int16_t gone;   /* PEER */
    int16_t source; /* the receiver's */
    struct ri_shm_op *owner; /* the sender's */
};

_Static_assert(sizeof(struct ri_shm_slot) == 2 * RI_SHM_LINE, "a slot is two lines");

/* What one rank of the host, the writer, tells the owner of the front. */
struct ri_shm_pair {
    _Alignas(RI_SHM_LINE) _Atomic uint64_t inbox; /* offset at the writer of its last slot for the owner */
    _Atomic uint64_t back;      /* offset at the owner of its last slot that the writer has done with */
    _Atomic uint32_t withdrawn; /* how many slots in the inbox the writer has taken back */
    _Atomic uint32_t joined;    /* the writer has mapped the owner; see enum ri_shm_joined */
};

enum ri_shm_joined { RI_SHM_ABSENT, RI_SHM_MAPPED, RI_SHM_READABLE /* and may read it by CMA */ };

enum { RI_SHM_NEWS_WORDS = RI_SHM_LOCALS_MAX / 64 };

struct ri_shm_front {
    uint64_t layout;
    uint64_t random[2]; /* this object and no other */
    uint64_t bytes;     /* of the file */
    _Atomic uint32_t closed; /* here, since all look at it with each piece of news */
    _Alignas(RI_SHM_LINE) _Atomic uint32_t asleep;
    _Atomic uint64_t news[RI_SHM_NEWS_WORDS]; /* bit p: look at pairs[p] */
    _Atomic uint32_t let_go; /* how often a count of readers fell to 0 */
    char why[RI_XFER_WHY_BYTES]; /* closed, as it could not connect; empty: not so */
    struct ri_shm_pair pairs[];
};

/* What open tells the others. */
struct ri_shm_address {
    uint64_t layout;
    uint64_t random[2];
    uint64_t bytes;
    uint64_t wake_inode; /* of the pipe that wakes the rank */
    uint64_t probe; /* address of the word that tells whether CMA works: random[0] */
    int32_t pid;
    int32_t memory_fd, wake_fd;
};

#define RI_SHM_CANCEL_NS INT64_C(200000000) /* how long who copies may take to end its slice */

/* One rank of this host. */
struct ri_shm_peer {
    int rank;
    int32_t pid;
    char *base; /* its memory, here; NULL: not mapped */
    size_t bytes;
    struct ri_shm_front *front;
    int wake_fd;
    int keep_fd; /* the other end of that pipe: where wake_fd does not read, too, writing raises no SIGPIPE
                  * when the rank has gone; -1: it does */
    int32_t memory_fd; /* at its process, where we see that; -1: we do not */
    uint32_t withdrawn;          /* seen of its pair */
    uint8_t is_peer;             /* messages go there or come from there */
    uint8_t closed;              /* seen, and done with */
    uint8_t reads_us;            /* by CMA */
    int cma_errno;               /* why we cannot read it; 0: we can */
    char way[160];
};

/* A run of whole pages of our file, used or not; all of them in order of place. */
struct ri_shm_block {
    struct ri_shm_block *previous, *next;
    struct ri_shm_block *spare; /* copies for giving out: the next that nobody uses */
    size_t offset, bytes;
    int used;
};

/* A message of ours, or what it left behind; in one list of struct ri_shm at any time. */
struct ri_shm_op {
    struct ri_shm_op *previous, *next;
    struct ri_shm_list *list;
    struct ri_shm_op *chain;  /* receive: in the table of waiting ones */
    struct ri_xfer *xfer;     /* NULL: has ended */
    struct ri_shm_slot *slot; /* of a send its own, for ever; of a receive what it is matched with */
    struct ri_shm_block *stage; /* copy of what the send gives out */
    size_t staged_bytes;
    struct ri_shm_lend *lend; /* counts us: as a message on its way, or a reader */
    int source, destination;  /* as indices among the ranks of the host */
    int holder;               /* of lend */
    uint64_t copied_bytes;
    uint16_t turn;            /* of a stream */
    int status;               /* fails for this reason */
    int gone, cause;          /* PEER: which rank, as index; TRANSPORT: errno */
    uint8_t send;
    uint8_t published; /* send: in the inbox, or was; not given back yet */
    uint8_t given;     /* bound send that is DONE: its owner may ask for readers */
    uint8_t reading;   /* bound receive that is DONE and not released */
    uint8_t counts;    /* send that is copied: until its slot is back it counts as a reader of lend */
    uint8_t seized;    /* given up while its receiver copied */
};

struct ri_shm_list {
    struct ri_shm_op *first, *last;
    int count;
};

struct ri_shm {
    struct ri_transport base;
    int locals, me; /* ranks of this host, and which of them we are */
    int16_t *local_of; /* [ranks]; -1: on another host */
    struct ri_shm_peer *peers; /* [locals] */
    struct ri_shm_front *front; /* ours */
    struct ri_shm_address address;
    uint64_t probe;
    int memory_fd, wake_fd, send_wake_fd;
    int pass_fd; /* until connect has ended; -1: none */
    struct ri_shm_block *blocks, *spare_stages;
    size_t stage_bytes, most_stage_bytes, spare_bytes; /* of copies: in use, ever at once, spare */
    struct ri_shm_slot *spare_slots;
    struct ri_shm_list waiting;  /* posted, and nothing to do for us */
    struct ri_shm_list work;     /* posted, and something to do */
    struct ri_shm_list dry;      /* receives whose stream has brought nothing new */
    struct ri_shm_list reads;    /* receives that are read */
    struct ri_shm_list left;     /* sends that have ended, whose slots have not come back or are read */
    struct ri_shm_list spare;    /* without slot */
    struct ri_shm_list spare_sends;
    struct ri_shm_chunk *chunks; /* of all ops */
    struct ri_shm_op *receives[RI_SHM_BUCKETS];     /* waiting ones */
    struct ri_shm_slot *unexpected[RI_SHM_BUCKETS]; /* slots that wait for a receive */
    int reserved;
    int events;  /* since progress returned */
    int unsettled; /* sends in `left` wait only for their readers, about */
    uint8_t armed;  /* asleep was set, and perhaps taken by who wakes us */
    int owed_bytes; /* that have come through wake_fd, or will */
};

static inline struct ri_shm_pair *ri_shm_pair_at(struct ri_shm *self, int owner, int writer)
{
    return &self->peers[owner].front->pairs[writer];
}

static inline struct ri_shm_slot *ri_shm_slot_at(struct ri_shm *self, int holder, uint64_t offset)
{
    return (struct ri_shm_slot *)(void *)(self->peers[holder].base + offset);
}

static inline uint64_t ri_shm_offset(const struct ri_shm *self, int holder, const void *at)
{
    return (uint64_t)((const char *)at - self->peers[holder].base);
}

/* What counts the readers of a bound message; what its sender passed on, or copies, was lent to it. */
static inline struct ri_shm_lend *ri_shm_lend_of(struct ri_shm *self, struct ri_shm_slot *slot)
{
    if (!slot->lent)
        return &slot->lend;
    return (struct ri_shm_lend *)(void *)(self->peers[slot->holder].base + slot->lent);
}

/* Does [base, base + bytes) lie in the memory of that rank, as mapped here? */
static inline int ri_shm_holds(const struct ri_shm *self, int holder, const char *base, size_t bytes)
{
    const struct ri_shm_peer *peer = &self->peers[holder];

    return peer->base && base >= peer->base && base < peer->base + peer->bytes &&
           bytes <= (size_t)(peer->base + peer->bytes - base);
}

/* ---- shm_memory.c ---- */

/* Makes our file and its front, and maps it. */
int ri_shm_memory_open(struct ri_shm *self);
void ri_shm_memory_close(struct ri_shm *self);

/* Zeroed pages of our file that are there.  NULL, with the text set. */
struct ri_shm_block *ri_shm_block_new(struct ri_shm *self, size_t bytes);
void ri_shm_block_free(struct ri_shm *self, struct ri_shm_block *block);
struct ri_shm_block *ri_shm_block_find(struct ri_shm *self, const void *memory);

/* Pages for a copy of what is given out; not zeroed.  Of those that are put back as many are kept as were
 * ever in use at once, until something else needs them. */
struct ri_shm_block *ri_shm_stage_new(struct ri_shm *self, size_t bytes);
void ri_shm_stage_free(struct ri_shm *self, struct ri_shm_block *block);

/* ---- shm_connect.c ---- */

int ri_shm_connect(struct ri_shm *self, const void *const *addresses, const size_t *address_bytes,
                   int64_t deadline_ns);

/* ---- shm_pass.c: where /proc does not help ---- */

void ri_shm_pass_open(struct ri_shm *self);
void ri_shm_pass_close(struct ri_shm *self);

/* Answers those that have asked us. */
void ri_shm_pass_serve(struct ri_shm *self);

/* Asks the rank whose front has these bytes; returns the socket, or -1 with errno. */
int ri_shm_pass_ask(struct ri_shm *self, const uint64_t random[2], int64_t deadline_ns);

/* 1: its memory, and the pipe that wakes it, first the end to write to, all ours to close; 0: no answer
 * yet; -1 with errno. */
int ri_shm_pass_take(int fd, int fds[RI_SHM_FDS]);

/* ---- shm_wake.c ---- */

int ri_shm_wake_open(struct ri_shm *self);
void ri_shm_wake_close(struct ri_shm *self);

/* Opens another process' descriptor for us, without waiting; -1 with errno.  It may be anything. */
int ri_shm_open_other(int32_t pid, int32_t fd, int flags);

/* Opens the pipe of that inode, and nothing else that may have its number by now. */
int ri_shm_open_wake(int32_t pid, int32_t fd, uint64_t inode);

/* There is news for a rank in our pair of its front. */
void ri_shm_ring(struct ri_shm *self, int peer);

/* We are awake: nobody need wake us any more, and the byte that did is taken. */
void ri_shm_awake(struct ri_shm *self);

int ri_shm_arm(struct ri_shm *self);

/* ---- shm_op.c: messages at home ---- */

/* To the end of a list, out of the one where it is. */
void ri_shm_op_move(struct ri_shm_op *op, struct ri_shm_list *list);

/* Makes sure that n sends and n receives are spare. */
int ri_shm_ops_grow(struct ri_shm *self, int n);
void ri_shm_op_free(struct ri_shm *self, struct ri_shm_op *op);
void ri_shm_ops_close(struct ri_shm *self);

void ri_shm_receives_add(struct ri_shm *self, struct ri_shm_op *op);
void ri_shm_receives_remove(struct ri_shm *self, struct ri_shm_op *op);
struct ri_shm_op *ri_shm_receives_take(struct ri_shm *self, int source, uint64_t tag);
void ri_shm_unexpected_add(struct ri_shm *self, int source, struct ri_shm_slot *slot);
struct ri_shm_slot *ri_shm_unexpected_take(struct ri_shm *self, int source, uint64_t tag);

/* Gives back those that a rank has withdrawn. */
void ri_shm_unexpected_sweep(struct ri_shm *self, int source);

/* ---- shm_post.c ---- */

int ri_shm_post(struct ri_shm *self, struct ri_xfer *const *xfers, int n);

/* ---- shm_message.c: what passes between two ranks ---- */

/* Looks at what a rank has sent us and given back. */
void ri_shm_look(struct ri_shm *self, int peer);

/* At what it has given back only. */
void ri_shm_look_back(struct ri_shm *self, int peer);

/* From one state to another, when it is in that; `listed` tells the sender to look, as after all states
 * in which the slot comes back.  0: it was in another. */
int ri_shm_slot_move(struct ri_shm *self, int source, struct ri_shm_slot *slot, enum ri_shm_state from,
                     enum ri_shm_state to, int listed);
enum ri_shm_state ri_shm_slot_state(const struct ri_shm_slot *slot);

/* Has the sender look at the slot, which the receiver keeps. */
void ri_shm_slot_tell(struct ri_shm *self, int source, struct ri_shm_slot *slot);

/* Puts the send where its receiver finds it. */
void ri_shm_publish(struct ri_shm *self, struct ri_shm_op *op);

/* The send has gone through: DONE. */
void ri_shm_send_done(struct ri_shm *self, struct ri_shm_op *op);

/* The send fails for what op->status, op->gone and its slot say. */
void ri_shm_send_fail(struct ri_shm *self, struct ri_shm_op *op);

/* The rest of a send that has ended goes when nobody needs it. */
void ri_shm_send_settle(struct ri_shm *self, struct ri_shm_op *op);

/* The receive waits for a send, or has found one. */
void ri_shm_receive_wait(struct ri_shm *self, struct ri_shm_op *op);

/* Do send and receive fit? */
int ri_shm_fits(const struct ri_shm_op *receive, const struct ri_shm_slot *slot);

/* What its send has withdrawn goes back, and the receive waits anew. */
void ri_shm_receive_again(struct ri_shm *self, struct ri_shm_op *op);

/* The receive has what it waited for. */
void ri_shm_receive_done(struct ri_shm *self, struct ri_shm_op *op);

/* The receive fails for what op->status and op->gone say, and its send with it. */
void ri_shm_receive_fail(struct ri_shm *self, struct ri_shm_op *op);

/* The words for it: source sends the slot to destination. */
int ri_shm_say(struct ri_shm *self, const struct ri_shm_op *op, const struct ri_shm_slot *slot, int status,
               int gone);

/* ---- shm_work.c: what takes time ---- */

/* Goes on with all that is in work, a slice. */
void ri_shm_work(struct ri_shm *self);

/* ---- shm_stream.c: without CMA ---- */

void ri_shm_stream_match(struct ri_shm_op *receive);
size_t ri_shm_stream_send(struct ri_shm *self, struct ri_shm_op *op);
size_t ri_shm_stream_receive(struct ri_shm *self, struct ri_shm_op *op, size_t bytes);

/* A rank has news: its streams may have brought something. */
void ri_shm_stream_look(struct ri_shm *self, int peer);

/* ---- shm_cancel.c ---- */

/* As the contract's cancel; waits for who copies at this moment, until then. */
void ri_shm_give_up(struct ri_shm *self, struct ri_shm_op *op, int64_t deadline_ns);

/* The send, which is published, fails for op->status. */
void ri_shm_send_withdraw(struct ri_shm *self, struct ri_shm_op *op);

/* A rank has closed: what is posted for it fails. */
void ri_shm_forsake(struct ri_shm *self, int peer);

/* Before we close: nothing is posted any more, nothing is read, nothing is given out. */
void ri_shm_give_up_all(struct ri_shm *self);

/* ---- shm_bind.c ---- */

int ri_shm_readers(struct ri_shm *self, struct ri_xfer *send);
void ri_shm_release(struct ri_shm *self, struct ri_shm_op *read);
/* Whether it may be read; whether it was good all the time. */
int ri_shm_enter(struct ri_shm_lend *lend);
int ri_shm_leave(struct ri_shm *self, struct ri_shm_lend *lend, int holder);
void ri_shm_revoke(struct ri_shm_op *op);

/* One reader less. */
void ri_shm_lend_drop(struct ri_shm *self, struct ri_shm_lend *lend, int holder);

/* A bound receive takes what its message gives out. */
void ri_shm_take(struct ri_shm *self, struct ri_shm_op *op);

/* Sends that have ended with readers. */
void ri_shm_settle_left(struct ri_shm *self);

#endif
