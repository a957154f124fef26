/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SELF_WORLD_H
#define RI_SELF_WORLD_H

#include <pthread.h>

#include "transport/self_model.h"
#include "transport/transport.h"

/* How the ranks of transport self meet.  For self.c only. */

enum { RECEIVE, SEND, ENDS };

enum ri_self_stage {
    WAITING, /* one end is posted; in the inbox of the destination */
    MATCHED, /* both ends are posted */
    COPYING, /* the receiver's thread copies, without the lock */
    SETTLED  /* has arrived at due_ns, or failed with status */
};

/* Both ends of one message.  Lives until no end is posted. */
struct ri_self_message {
    struct ri_xfer *end[ENDS]; /* NULL: not posted, or done with */
    size_t bytes[ENDS];
    uint64_t tag;
    int source, destination;
    enum ri_self_stage stage;
    int status;
    int64_t due_ns;
    struct ri_self_message *next; /* in an inbox, or among the spare ones */
};

enum presence { ABSENT, OPEN, CLOSED };

struct ri_self_member {
    struct ri_self *rank; /* while OPEN */
    enum presence presence;
    struct ri_self_message *inbox;
};

/* The ranks that opened with one token. */
struct ri_self_world {
    uint8_t token[16];
    int ranks;
    int references; /* guarded by worlds_lock, as next is; the rest by lock */
    struct ri_self_world *next;
    pthread_mutex_t lock;
    pthread_cond_t copied;
    struct ri_self_message *spare;
    struct ri_self_member members[];
};

struct ri_self {
    struct ri_transport base;
    struct ri_self_world *world;
    struct ri_self_model model;
    struct ri_self_link links[RI_TRANSPORT_LANES];
    struct ri_xfer *posted, **posted_end; /* in order of posting */
    int armed;                            /* the owner may sleep: write wake_fd */
    int wake_fd, timer_fd, sleep_fd;      /* sleep_fd (epoll) is readable when one of the others is */
};

/* Finds or makes the world of the token; NULL: no memory.  The caller then holds a reference. */
struct ri_self_world *ri_self_world_join(const struct ri_transport_params *params);
void ri_self_world_leave(struct ri_self_world *world);

/* The rank is there, or refused; the rank is gone: what peers have posted for it fails, now and later. */
int ri_self_world_enter(struct ri_self_world *world, struct ri_self *self);
void ri_self_world_exit(struct ri_self_world *world, int rank);

/* All below under world->lock. */

/* Makes sure that n messages can be posted. */
int ri_self_reserve(struct ri_self_world *world, int n);

/* Posts one end, after ri_self_reserve. */
void ri_self_post_end(struct ri_self *self, struct ri_xfer *xfer);

/* True when the owner of a posted xfer has something to do for it: copy when MATCHED, else finish. */
int ri_self_ready(const struct ri_xfer *xfer, int64_t now_ns);

/* Copies a MATCHED message.  Lets go of the lock meanwhile. */
void ri_self_copy(struct ri_self_world *world, struct ri_self_message *message);

/* Ends an xfer whose message is SETTLED and due. */
void ri_self_finish(struct ri_self *self, struct ri_xfer *xfer);

/* Makes a posted xfer IDLE.  A peer that has posted the other end waits on as before. */
void ri_self_give_up(struct ri_self_world *world, struct ri_xfer *xfer);

#endif
