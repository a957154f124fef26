/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SELF_WORLD_H
#define RI_SELF_WORLD_H

#include <pthread.h>
#include <stdatomic.h>

#include "transport/self_model.h"
#include "transport/transport.h"

/* How the ranks of transport self meet.  For self.c, self_world.c and self_message.c only. */

enum { RECEIVE, SEND, ENDS };

enum ri_self_stage {
    WAITING, /* one end is posted; in the inbox of the destination */
    MATCHED, /* both ends are posted, the receiver has to copy */
    COPYING, /* the receiver's thread copies, without the lock */
    SETTLED  /* has arrived at due_ns, or failed with status */
};

/* Both ends of one message, and what is left of a bound one: it counts the readers of what its sender
 * gave out, and says whether its receiver still reads.  Lives until neither is needed. */
struct ri_self_message {
    struct ri_xfer *end[ENDS]; /* NULL: not posted, or done with */
    size_t bytes[ENDS];
    uint64_t tag;
    int source, destination;
    uint8_t bind[ENDS];
    enum ri_self_stage stage;
    int status;
    int gone; /* RONDO_ERR_PEER: the rank that has closed */
    int64_t met_ns; /* when the second end was posted */
    int64_t due_ns; /* INT64_MAX: it waits for its links, in the world's queue */
    uint8_t lane;   /* the sender's */
    /* Bound.  The message whose sender holds the content; while set, one of its readers is ours: the
     * receiver, or until it has it, the sender on its behalf. */
    struct ri_self_message *root;
    char *base;    /* where the content lies */
    int readers;   /* of this message's own content */
    int inside;    /* those of them that are between enter and leave */
    uint8_t revoked; /* enter refuses */
    uint8_t given; /* the send is DONE, and its owner may ask for readers */
    uint8_t read;  /* the receive is DONE, and not released */
    struct ri_self_message *next;     /* in an inbox, in the queue, or among the spare ones */
    struct ri_self_message *next_all; /* every message of the world */
};

enum presence { ABSENT, OPEN, CLOSED };

struct ri_self_member {
    struct ri_self *rank; /* while OPEN */
    enum presence presence;
    int32_t host;
    struct ri_self_message *inbox;
    struct ri_self_link out[RI_TRANSPORT_LANES], in[RI_TRANSPORT_LANES];
    int nic; /* whose links of the host lane are taken when ranks of a host share one: its first rank */
};

/* The ranks that opened with one token. */
struct ri_self_world {
    uint8_t token[16];
    int ranks;
    struct ri_self_model model; /* of the first to open */
    int references; /* guarded by worlds_lock, as next is; the rest by lock */
    struct ri_self_world *next;
    pthread_mutex_t lock;
    pthread_cond_t copied;
    struct ri_self_message *spare, *all;
    int reserved, message_count; /* of all ranks together; entries of all */
    struct ri_self_message *queue; /* have met, and wait for their links; in order of meeting */
    struct ri_self_member members[];
};

struct ri_self {
    struct ri_transport base;
    struct ri_self_world *world;
    struct ri_xfer *posted, **posted_end; /* in order of posting */
    atomic_int let_go;                    /* a reader has let go, and the owner has not looked yet */
    int armed;                            /* the owner may sleep: write wake_fd */
    int wake_fd, timer_fd, sleep_fd;      /* sleep_fd (epoll) is readable when one of the others is */
};

/* ---- self_world.c ---- */

/* Finds or makes the world of the token; NULL: no memory.  The caller then holds a reference. */
struct ri_self_world *ri_self_world_join(const struct ri_transport_params *params);
void ri_self_world_leave(struct ri_self_world *world);

/* The rank is there, or refused; the rank is gone: what peers have posted for it fails, now and later,
 * what it read is let go, and what it gave out is given to nobody else. */
int ri_self_world_enter(struct ri_self_world *world, struct ri_self *self);
void ri_self_world_exit(struct ri_self_world *world, int rank);

/* Under world->lock.  Makes sure that n messages can be posted, of those reserved or beside them. */
int ri_self_provide(struct ri_self_world *world, int n);
/* Under world->lock, as the contract's reserve. */
int ri_self_reserve(struct ri_self_world *world, int messages);

/* ---- self_message.c: all under world->lock ---- */

/* May the bound messages be posted?  0, or RONDO_ERR_ARGUMENT naming the first that may not, and why. */
int ri_self_check_bound(const struct ri_self *self, struct ri_xfer *const *xfers, int n);

/* Posts one end, after ri_self_check_bound and ri_self_provide. */
void ri_self_post_end(struct ri_self *self, struct ri_xfer *xfer);

/* Gives links to those that wait for them, up to now: the first of those that find both ways idle. */
void ri_self_serve_links(struct ri_self_world *world, int64_t now_ns);

/* When a SETTLED message is due, or has to be looked at again. */
int64_t ri_self_look_ns(struct ri_self_world *world, const struct ri_self_message *message);

/* True when the owner of a posted xfer has something to do for it: copy when MATCHED, else finish. */
int ri_self_ready(const struct ri_xfer *xfer, int64_t now_ns);

/* Copies a MATCHED message.  Lets go of the lock meanwhile. */
void ri_self_copy(struct ri_self_world *world, struct ri_self_message *message);

/* Ends an xfer whose message is SETTLED and due. */
void ri_self_finish(struct ri_self *self, struct ri_xfer *xfer);

/* Makes a posted xfer IDLE.  A peer that has posted the other end waits on as before.  A bound send
 * whose content is being read has gone through, and is DONE. */
void ri_self_give_up(struct ri_self *self, struct ri_xfer *xfer);

/* How many still read what a bound send gave out; once revoked: how many are inside. */
int ri_self_readers(struct ri_self_world *world, struct ri_xfer *send);

/* What came with this message is not read any more. */
void ri_self_release(struct ri_self_world *world, struct ri_self_message *message);

/* Around reading what came with this message.  Whether it may be read; whether it was good all the time. */
int ri_self_enter(struct ri_self_message *message);
int ri_self_leave(struct ri_self_world *world, struct ri_self_message *message);

/* A rank has closed: see ri_self_world_exit. */
void ri_self_forsake(struct ri_self_world *world, int rank);

#endif
