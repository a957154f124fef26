/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_COMM_H
#define RI_COMM_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <rondo/comm.h>

#include "base/config.h"
#include "comm/family.h"
#include "topo/topo.h"
#include "transport/transport.h"

struct ri_bootstrap;
struct ri_collectives;
struct ri_memory;
struct ri_pool;

/* Who we are.  What changes is read and written with the family's lock held; next_plan within a talk. */
struct rondo_comm {
    int rank, size;
    int host_count, host_index, local_rank, local_size;
    int32_t *host;                     /* [size] index of each rank's host */
    struct ri_topo *topo;              /* of all hosts, ranks placed; NULL: off, or too large */
    int topo_is_described;             /* by RONDO_TOPO: it was not found here */
    struct ri_topo_lanes lanes;        /* of it; all 0 without */
    char near_devices[48];             /* of this rank's NIC, where there is a choice: "mlx5_0:1"; "": none */
    int32_t *order;                    /* [size] of it: ranks as they stand in rings; NULL: by their numbers */
    uint8_t token[16];
    struct ri_config config;           /* call over environment over default */
    struct ri_bootstrap *bootstrap;    /* control connections; NULL when size == 1 */
    struct ri_transport *transport;
    struct ri_trace *trace;            /* RONDO_TRACE; NULL: none */
    struct ri_collectives *collectives; /* api/collectives.c's, made at first use */
    void (*release_collectives)(struct ri_collectives *collectives); /* destroy calls it first */
    struct ri_pool *pool;              /* of plans' memory, made with the first plan */
    void (*release_pool)(struct ri_pool *pool); /* destroy calls it, after the collectives' */
    struct ri_memory *memory;          /* api/memory.c's: what rondo_mem_alloc gave */
    void (*release_memory)(struct rondo_comm *comm); /* destroy calls it last, when memory is not NULL */
    struct ri_family *family;          /* with whom we are moved */
    struct rondo_comm *sibling;        /* the next of the family */
    struct rondo_request *active;      /* api/request.c's: requests under way, by when they began */
    int64_t idle_since_ns;             /* since when nothing could be done; 0: something can */
    uint32_t next_plan;                /* numbers plans for tags; equal on all ranks */
    int64_t next_look_ns;              /* when to look again whether peers live */
    int failed;                        /* first failure: all later calls return it */
    char failure[256];
    int talk_depth;                    /* family.c's: talks begun and not ended */
    pthread_t talker;
    const char *talk;
};

/* For public calls: takes the lock (RONDO_ERR_BUSY: inside a kernel), and gives it back with status. */
static inline int ri_comm_enter(const struct rondo_comm *comm)
{
    return ri_family_lock(comm->family);
}

static inline int ri_comm_leave(const struct rondo_comm *comm, int status)
{
    ri_family_unlock(comm->family);
    return status;
}

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

/* Rows of fields say what they need; the rest is 0. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* agree.c: are all ranks of one mind?  Agreements take the lock themselves, and give it to others, and
 * move requests, while they wait. */
struct ri_field {
    const char *name; /* as the caller knows it: "tokens" */
    int64_t value;
    const char *const *names; /* names[value], for errors; NULL: it is a number */
    int name_count;           /* values beyond are printed as numbers */
    const char *text;         /* what is compared, in place of value; NULL: the value */
};

/* Compares the fields of all ranks.  local_status is what this rank's own checks said: when it or a
 * peer's is negative, every rank returns an error (a peer's: RONDO_ERR_PEER naming it).  A difference is
 * RONDO_ERR_MISMATCH on every rank, naming field, two ranks and their values.  Collective. */
int ri_agree(struct rondo_comm *comm, const char *what, const struct ri_field *fields, int count,
             int local_status);

/* The same with a deadline other than the communicator's timeout. */
int ri_agree_until(struct rondo_comm *comm, const char *what, const struct ri_field *fields, int count,
                   int local_status, int64_t deadline_ns);

/* Begins what takes several agreements or exchanges that no other thread's may come between; each good
 * begin wants an end.  Refuses on a failed communicator. */
int ri_comm_talk_begin(struct rondo_comm *comm, const char *what);
static inline void ri_comm_talk_end(struct rondo_comm *comm)
{
    ri_family_talk_end(comm);
}

/* bytes of every rank to every rank, all [size][bytes], within the communicator's timeout.  An error
 * fails the communicator. */
int ri_comm_exchange(struct rondo_comm *comm, const char *what, const void *mine, size_t bytes, void *all);

/* With the lock held, as the rest below.  Moves messages, and every so often looks whether peers are alive.
 * Returns how much happened (0: nothing); negative: the communicator has failed.  rondo_comm_progress itself
 * is api/request.c's, because it must move requests. */
int ri_comm_progress(struct rondo_comm *comm);

/* Has this rank destroyed the communicator, and is well?  Cheap: what has been seen by the last look at
 * the peers.  Its last messages may still be on their way. */
int ri_comm_has_left(const struct rondo_comm *comm, int rank);

/* A row of calls of ri_comm_idle; all 0 before the first. */
struct ri_idle {
    int64_t rounds, sleeps; /* calls, and those of them that slept */
    int64_t since_ns;       /* the first */
};

/* What to do when nothing could be done: spin, yield or sleep on descriptors (bounded), by how long
 * it has been so.  Other threads get the lock meanwhile. */
int ri_comm_idle(struct rondo_comm *comm, struct ri_idle *idle);

/* A bounded sleep, longer with every one in a row (sleeps: those before it), without the lock, until a
 * descriptor of the family has news.  0 when there was none, because a transport has work already. */
int ri_comm_sleep(struct ri_family *family, int64_t sleeps);

/* comm.c: makes a communicator of ranks of parent, with its settings, in its family.  id: as made by rank
 * 0 of the new one; not read when size is 1. */
int ri_comm_create_part(struct rondo_comm *parent, const rondo_unique_id_t *id, int rank, int size,
                        rondo_comm_t *part);

/* comm.c: frees a communicator, also a half-made one. */
void ri_comm_discard(struct rondo_comm *comm);

/* Marks the communicator failed (first failure wins), tells the others, returns status. */
int ri_comm_fail(struct rondo_comm *comm, int status);
/* The same without the lock held. */
int ri_comm_give_up(struct rondo_comm *comm, int status);

#endif
