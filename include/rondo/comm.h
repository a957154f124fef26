/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_COMM_H
#define RONDO_COMM_H

#include <rondo/status.h>
#include <rondo/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* Names one communicator to be: where rank 0 listens, and a random token.  Opaque bytes; copy it to
 * every rank by any means (a file, MPI_Bcast, a socket). */
#define RONDO_UNIQUE_ID_BYTES 128
typedef struct rondo_unique_id {
    uint8_t bytes[RONDO_UNIQUE_ID_BYTES];
} rondo_unique_id_t;

/* Threads.  A communicator and those split from it are a family; communicators that were made
 * independently share nothing.  All calls on a family, its plans and its requests may be made from any
 * thread at any time, with these bounds: calls that all ranks must make in one order (plans, splits,
 * collectives, the starts of one plan) are put in order by the caller; one request belongs to one thread
 * at a time; destroy is the last call on its object.  Calls take turns, in the order in which they came: a
 * wait gives up its turn after every round, which is a piece of work at most of each request under way in
 * the family, and one call of a kernel in each communicator, and has none while it is idle.  Kernels run
 * within a turn, so never two at once in a family, and may not call Rondo for it (RONDO_ERR_BUSY).
 * rondo_last_error is of the calling thread.
 *
 * With progress "thread" a family of several ranks has a thread of its own, which moves messages while no
 * other thread waits.  It calls no kernel: those run in the callers' threads in any case. */

/* Options of one communicator.  Start from RONDO_CONFIG_INIT; what is left alone comes from the
 * environment (RONDO_*), then from the default.  Strings are borrowed for the call only. */
typedef struct rondo_config {
    size_t struct_bytes;
    const char *transport;  /* "auto", "self", "shm", "ucx", "shm+ucx"; NULL: RONDO_TRANSPORT */
    const char *host_id;    /* ranks with equal text share a host; NULL: RONDO_HOST_ID, then the machine's */
    int timeout_ms;         /* deadline of every wait; 0: RONDO_TIMEOUT */
    int connect_timeout_ms; /* deadline of creation; 0: RONDO_CONNECT_TIMEOUT */
    const char *progress;   /* "caller", "thread": who moves messages; NULL: RONDO_PROGRESS */
    const char *topo;       /* "live", "off", or what rondo_topo_load takes; NULL: RONDO_TOPO */
} rondo_config_t;

#define RONDO_CONFIG_INIT { sizeof(rondo_config_t), NULL, NULL, 0, 0, NULL, NULL }

/* What a communicator is.  Hosts are numbered in the order in which their first rank comes. */
typedef struct rondo_comm_info {
    size_t struct_bytes; /* set it before the call: RONDO_COMM_INFO_INIT */
    int rank;            /* 0 <= rank < size */
    int size;            /* ranks in all */
    int host;            /* index of this rank's host */
    int hosts;           /* hosts in all */
    int local_rank;      /* index among the ranks of this host */
    int local_size;      /* ranks of this host */
    const char *transport; /* name of the transport; lives as long as the communicator */
} rondo_comm_info_t;

#define RONDO_COMM_INFO_INIT { sizeof(rondo_comm_info_t), 0, 0, 0, 0, 0, 0, NULL }

/* Makes an id and opens the port behind it.  Call it in the process that will be rank 0. */
rondo_status_t rondo_unique_id_get(rondo_unique_id_t *id);

/* Collective over `size` ranks.  config may be NULL.  Waits for all ranks, at most the connect
 * timeout; then the error lists the ranks that did not come. */
rondo_status_t rondo_comm_create(const rondo_unique_id_t *id, int rank, int size,
                                 const rondo_config_t *config, rondo_comm_t *comm);

/* The same, with rank, size and address from the environment: RONDO_RANK, RONDO_SIZE, RONDO_ROOT
 * (as rondo-run sets them), else torchrun's RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT.  Without any
 * of them: one rank. */
rondo_status_t rondo_comm_create_env(const rondo_config_t *config, rondo_comm_t *comm);

/* The color of ranks that are in no part. */
#define RONDO_COLOR_NONE (-1)

/* Cuts comm into parts.  Collective over comm, also for ranks that are in no part: ranks of equal color
 * (0 or more) make one communicator; of a negative one none, and *part becomes NULL.  In it they are
 * ordered by key, and by their rank in comm where keys are equal.
 *
 * A part is a communicator of its own: its ranks, transport, tags and failures.  It has comm's settings
 * and hosts, lives as long as it is wanted, also beyond comm, and can be cut again.  An error on one rank
 * is an error on every rank of comm, and then there is no part.  *part is untouched on failure. */
rondo_status_t rondo_comm_split(rondo_comm_t comm, int color, int key, rondo_comm_t *part);

/* The same for one part, of ranks[0 .. count) of comm in this order; *part becomes NULL on the others.
 * Collective over comm, with one and the same list on every rank. */
rondo_status_t rondo_comm_subset(rondo_comm_t comm, const int *ranks, int count, rondo_comm_t *part);

rondo_status_t rondo_comm_query(rondo_comm_t comm, rondo_comm_info_t *info);

/* Moves what can be moved, and runs pieces of kernels that are ready, without waiting.  For callers that
 * compute between start and wait. */
rondo_status_t rondo_comm_progress(rondo_comm_t comm);

/* Memory of this rank for tensors that plans on comm take: where the transport can, the other ranks of the
 * host read it in place, and nothing is copied; other memory is copied once.  Zeroed, aligned to pages;
 * 0 bytes are allowed.  It may be used like any memory, also with other communicators, and lives until
 * rondo_mem_free or the end of comm.  Local.  RONDO_ERR_MEMORY; *memory is untouched on failure. */
rondo_status_t rondo_mem_alloc(rondo_comm_t comm, size_t bytes, void **memory);

/* Gives back what rondo_mem_alloc gave on the same communicator; no request that uses it is under way.
 * Local, also after comm has failed.  memory may be NULL. */
rondo_status_t rondo_mem_free(rondo_comm_t comm, void *memory);

/* Tells the other ranks that this one gives up: their waits end with RONDO_ERR_PEER.  Local, does
 * not wait.  Destroy the communicator afterwards. */
rondo_status_t rondo_comm_abort(rondo_comm_t comm);

/* Closes the communicator.  Plans made on it must be destroyed before; handles of requests that are
 * still under way are invalid afterwards.  Rank 0 stays in it until the others have left, for five
 * seconds at most: they hear of each other through it.  NULL is a no-op. */
void rondo_comm_destroy(rondo_comm_t comm);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
