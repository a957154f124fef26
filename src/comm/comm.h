/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_COMM_H
#define RI_COMM_H

#include <stddef.h>
#include <stdint.h>

#include <rondo/comm.h>

#include "base/config.h"
#include "transport/transport.h"

struct ri_bootstrap;
struct ri_collectives;
struct ri_pool;

/* Who we are.  One thread at a time. */
struct rondo_comm {
    int rank, size;
    int host_count, host_index, local_rank, local_size;
    int32_t *host;                     /* [size] index of each rank's host */
    uint8_t token[16];
    struct ri_config config;           /* call over environment over default */
    struct ri_bootstrap *bootstrap;    /* control connections; NULL when size == 1 */
    struct ri_transport *transport;
    struct ri_collectives *collectives; /* api/collectives.c's, made at first use */
    void (*release_collectives)(struct ri_collectives *collectives); /* destroy calls it first */
    struct ri_pool *pool;              /* of plans' memory, made with the first plan */
    void (*release_pool)(struct ri_pool *pool); /* destroy calls it, after the collectives' */
    struct rondo_request *active;      /* api/request.c's: requests under way */
    void (*advance)(struct rondo_comm *comm); /* api/request.c's: moves requests under way, and their
                                               * messages; called while an agreement waits; NULL: none yet */
    int idle_rounds;                   /* how often in a row nothing could be done */
    int64_t idle_since_ns;             /* when the first of them was */
    uint32_t next_plan;                /* numbers plans for tags; equal on all ranks */
    int64_t next_look_ns;              /* when to look again whether peers live */
    int failed;                        /* first failure: all later calls return it */
    char failure[256];
};

/* bootstrap.c (tcp.c below it): control connections, a star with rank 0 in the middle.  Every wait ends at its deadline. */

/* bytes of every rank to every rank: all is [size][bytes].  Collective; blocks until deadline_ns; then
 * RONDO_ERR_TIMEOUT names the ranks that did not come. */
int ri_bootstrap_allgather(struct ri_bootstrap *bootstrap, const void *mine, size_t bytes, void *all,
                           int64_t deadline_ns);

/* Looks, without waiting, whether a rank has died or aborted: 0, or RONDO_ERR_PEER with the text
 * naming the rank.  For wait loops that have been idle for a while. */
int ri_bootstrap_poll(struct ri_bootstrap *bootstrap);

/* Tells everyone that this rank gives up, and why.  Does not wait. */
void ri_bootstrap_abort(struct ri_bootstrap *bootstrap, const char *reason);

/* agree.c: are all ranks of one mind? */
struct ri_field {
    const char *name; /* as the caller knows it: "tokens" */
    int64_t value;
};

/* Compares the fields of all ranks.  local_status is what this rank's own checks said: when it or a
 * peer's is negative, every rank returns an error (a peer's: RONDO_ERR_PEER naming it).  A difference is
 * RONDO_ERR_MISMATCH on every rank, naming field, two ranks and their values.  Collective. */
int ri_agree(struct rondo_comm *comm, const char *what, const struct ri_field *fields, int count,
             int local_status);

/* The same with a deadline other than the communicator's timeout. */
int ri_agree_until(struct rondo_comm *comm, const char *what, const struct ri_field *fields, int count,
                   int local_status, int64_t deadline_ns);

/* Moves messages, and every so often looks whether peers are alive.  Returns how much happened (0:
 * nothing); negative: the communicator has failed.  idle_rounds: calls in a row that moved nothing.
 * rondo_comm_progress itself is api/request.c's, because it must move requests. */
int ri_comm_progress(struct rondo_comm *comm, int idle_rounds);

/* Has this rank destroyed the communicator, and is well?  Cheap: what has been seen by the last look at
 * the peers.  Its last messages may still be on their way. */
int ri_comm_has_left(const struct rondo_comm *comm, int rank);

/* What to do when nothing could be done: spin, yield or sleep on descriptors (bounded), by how often
 * this was called in a row. */
int ri_comm_idle(struct rondo_comm *comm, int idle_rounds);

/* comm.c: frees a communicator, also a half-made one. */
void ri_comm_discard(struct rondo_comm *comm);

/* Marks the communicator failed (first failure wins), tells the others, returns status. */
int ri_comm_fail(struct rondo_comm *comm, int status);

#endif
