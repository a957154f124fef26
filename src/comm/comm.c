/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/status.h"
#include "base/trace.h"
#include "comm/bootstrap.h"
#include "comm/card.h"
#include "comm/env.h"
#include "comm/mover.h"
#include "comm/open.h"
#include "comm/settings.h"
#include "comm/topo.h"
#include "comm/unique_id.h"

/* How the ranks of a communicator to be find each other. */
struct start {
    int rank, size;
    const struct ri_meeting *meeting; /* size >= 2 */
    int listen_fd;                    /* rank 0 of size >= 2: borrowed; else -1 */
    int64_t deadline_ns;
};

static int join(struct rondo_comm *comm, const struct start *start)
{
    struct ri_bootstrap_params params = { .rank = start->rank, .size = start->size,
                                          .listen_fd = start->listen_fd,
                                          .deadline_ns = start->deadline_ns };

    if (start->size == 1) {
        if (getrandom(comm->token, sizeof(comm->token), 0) != (ssize_t)sizeof(comm->token))
            return ri_error(RONDO_ERR_SYSTEM, "no random bytes for a communicator: %s", strerror(errno));
        return 0;
    }
    memcpy(comm->token, start->meeting->token, sizeof(comm->token));
    params.token = comm->token;
    params.endpoints = start->meeting->endpoints;
    params.endpoint_count = start->meeting->endpoint_count;
    return ri_bootstrap_create(&params, &comm->bootstrap);
}

/* ---- making ---- */

/* Cards go round, and hosts are numbered.  status: what this rank's own checks said, so that all hear of it. */
static int meet(struct rondo_comm *comm, const struct start *start, int status)
{
    struct ri_card mine, *all;
    int err;

    ri_card_fill(&mine, &comm->config, status);
    err = join(comm, start);
    if (err)
        return err;
    all = calloc((size_t)comm->size, sizeof(*all));
    comm->host = calloc((size_t)comm->size, sizeof(*comm->host));
    err = all && comm->host ? ri_comm_gather(comm, &mine, sizeof(mine), all, start->deadline_ns)
                            : ri_error(RONDO_ERR_MEMORY, "no memory for %d ranks", comm->size);
    if (!err)
        err = ri_card_compare(all, comm->rank, comm->size);
    if (!err)
        ri_card_number_hosts(comm, all);
    free(all);
    return err;
}

/* A rank that fails here has been heard of: the others are told why. */
static int find_topo(struct rondo_comm *comm, const struct rondo_comm *parent, const struct ri_topo *seen,
                     int64_t deadline_ns)
{
    int err = ri_comm_find_topo(comm, parent, seen, deadline_ns);

    if (err && comm->bootstrap)
        ri_bootstrap_abort(comm->bootstrap, rondo_last_error());
    return err;
}

/* settings_status: what ri_settings said. */
static int assemble(struct rondo_comm *comm, const struct start *start, const struct rondo_comm *parent,
                    int settings_status)
{
    struct ri_topo *seen = NULL;
    int err = settings_status;

    if (!err)
        err = ri_transport_is_known(&comm->config);
    if (!err)
        err = ri_comm_see(comm, parent, &seen);
    err = meet(comm, start, err);
    if (!err)
        err = find_topo(comm, parent, seen, start->deadline_ns);
    ri_topo_destroy(seen);
    return err ? err : ri_comm_open_transport(comm, start->deadline_ns);
}

/* A rank that is alone has no messages to move; its parts neither. */
static int found_family(struct rondo_comm *comm)
{
    struct ri_mover *mover;
    int err = ri_family_create(&comm->family);

    if (err || comm->size == 1 || strcmp(comm->config.progress, "thread") != 0)
        return err;
    err = ri_mover_create(comm->family, comm->rank, &mover);
    if (!err)
        ri_family_set_mover(comm->family, mover);
    return err;
}

/* Settings, trace and family: its own, or those of parent. */
static int prepare(struct rondo_comm *comm, const rondo_config_t *config, struct rondo_comm *parent)
{
    int err = parent ? ri_settings_copy(&comm->config, &parent->config) : ri_settings(&comm->config, config);

    if (!err && !parent)
        err = ri_trace_create(comm->config.trace, comm->rank, &comm->trace);
    if (err || !parent)
        return err ? err : found_family(comm);
    comm->trace = ri_trace_hold(parent->trace);
    comm->family = parent->family;
    ri_family_hold(comm->family);
    return 0;
}

static int join_family(struct rondo_comm *comm)
{
    int err = ri_comm_enter(comm);

    return err ? err : ri_comm_leave(comm, ri_family_add(comm->family, comm));
}

static int create(const struct start *start, const rondo_config_t *config, struct rondo_comm *parent,
                  int64_t begin_ns, rondo_comm_t *comm_p)
{
    struct rondo_comm *comm = calloc(1, sizeof(*comm));
    struct start timed = *start;
    int err;

    if (!comm)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a communicator");
    if (!parent)
        ri_log_rank(start->rank);
    comm->rank = start->rank;
    comm->size = start->size;
    err = prepare(comm, config, parent);
    timed.deadline_ns = begin_ns + comm->config.connect_timeout_ms * 1000000;
    err = assemble(comm, &timed, parent, err);
    if (!err)
        err = join_family(comm);
    if (err) {
        ri_log(RI_LOG_INFO, "comm", "rank %d of %d: no communicator: %s", comm->rank, comm->size,
               rondo_last_error());
        ri_comm_discard(comm);
        return err;
    }
    ri_log(RI_LOG_INFO, "comm", "rank %d of %d on host %d of %d, transport %s, after %.1f ms", comm->rank,
           comm->size, comm->host_index, comm->host_count, comm->transport->ops->name,
           (double)(ri_now_ns() - begin_ns) / 1e6);
    *comm_p = comm;
    return 0;
}

/* With an id; the arguments are good. */
static int create_by_id(const rondo_unique_id_t *id, int rank, int size, const rondo_config_t *config,
                        struct rondo_comm *parent, rondo_comm_t *comm)
{
    struct ri_meeting meeting;
    struct start start = { .rank = rank, .size = size, .meeting = &meeting, .listen_fd = -1 };
    int err = ri_unique_id_read(id, &meeting);

    if (err)
        return err;
    if (rank == 0)
        start.listen_fd = ri_unique_id_take_socket(meeting.token);
    if (rank == 0 && size > 1 && start.listen_fd < 0)
        return ri_error(RONDO_ERR_ID, "rank 0 must be in the process that called rondo_unique_id_get, and an "
                        "id makes one communicator");
    err = create(&start, config, parent, ri_now_ns(), comm);
    if (start.listen_fd >= 0)
        close(start.listen_fd);
    return err;
}

int ri_comm_create_part(struct rondo_comm *parent, const rondo_unique_id_t *id, int rank, int size,
                        rondo_comm_t *part)
{
    struct start alone = { .size = 1, .listen_fd = -1 };

    if (size == 1)
        return create(&alone, NULL, parent, ri_now_ns(), part);
    return create_by_id(id, rank, size, NULL, parent, part);
}

rondo_status_t rondo_comm_create(const rondo_unique_id_t *id, int rank, int size,
                                 const rondo_config_t *config, rondo_comm_t *comm)
{
    int err;

    if (!id || !comm)
        return ri_error(RONDO_ERR_ARGUMENT, "%s is NULL", id ? "comm" : "id");
    if (size < 1 || size > RI_RANKS_MAX)
        return ri_error(RONDO_ERR_ARGUMENT, "size is %d; give 1 to %d", size, RI_RANKS_MAX);
    if (rank < 0 || rank >= size)
        return ri_error(RONDO_ERR_ARGUMENT, "rank is %d; with size %d give 0 to %d", rank, size, size - 1);
    err = ri_settings_check(config);
    return err ? err : create_by_id(id, rank, size, config, NULL, comm);
}

rondo_status_t rondo_comm_create_env(const rondo_config_t *config, rondo_comm_t *comm)
{
    static atomic_uint turns;
    unsigned turn;
    int64_t begin_ns = ri_now_ns();
    struct ri_env env;
    struct start start = { .listen_fd = -1 };
    int err;

    if (!comm)
        return ri_error(RONDO_ERR_ARGUMENT, "comm is NULL");
    err = ri_settings_check(config);
    do { /* a call that is refused here does not count: the other ranks have not seen it */
        turn = atomic_load(&turns);
        if (!err)
            err = ri_env_read(turn, &env);
    } while (!err && !atomic_compare_exchange_strong(&turns, &turn, turn + 1));
    if (err)
        return err;
    start.rank = env.rank;
    start.size = env.size;
    start.meeting = &env.meeting;
    if (env.rank == 0 && env.size > 1) {
        start.listen_fd = ri_env_socket(&env.meeting, begin_ns + RI_BIND_NS);
        if (start.listen_fd < 0)
            return start.listen_fd;
    }
    return create(&start, config, NULL, begin_ns, comm);
}

/* ---- using and ending ---- */

rondo_status_t rondo_comm_query(rondo_comm_t comm, rondo_comm_info_t *info)
{
    rondo_comm_info_t full = RONDO_COMM_INFO_INIT;
    size_t bytes;

    if (!comm || !info)
        return ri_error(RONDO_ERR_ARGUMENT, "%s is NULL", comm ? "info" : "comm");
    bytes = info->struct_bytes;
    if (bytes < sizeof(bytes) || bytes > RI_STRUCT_BYTES_MAX)
        return ri_error(RONDO_ERR_ARGUMENT, "info->struct_bytes is %zu; begin with RONDO_COMM_INFO_INIT", bytes);
    full.rank = comm->rank;
    full.size = comm->size;
    full.host = comm->host_index;
    full.hosts = comm->host_count;
    full.local_rank = comm->local_rank;
    full.local_size = comm->local_size;
    full.transport = comm->transport->ops->name;
    if (bytes > sizeof(full))
        bytes = sizeof(full); /* a caller of a newer version: what we do not know stays */
    memcpy((char *)info + sizeof(size_t), (char *)&full + sizeof(size_t), bytes - sizeof(size_t));
    return 0;
}

static void abort_comm(struct rondo_comm *comm)
{
    if (comm->failed)
        return;
    comm->failed = RONDO_ERR_PEER;
    snprintf(comm->failure, sizeof(comm->failure), "this rank has called rondo_comm_abort");
    ri_log(RI_LOG_ERROR, "comm", "the communicator has failed: %s", comm->failure);
    ri_bootstrap_abort(comm->bootstrap, "it called rondo_comm_abort");
    ri_family_unwatch(comm->family, comm);
    ri_family_wake(comm->family);
}

rondo_status_t rondo_comm_abort(rondo_comm_t comm)
{
    int err;

    if (!comm)
        return ri_error(RONDO_ERR_ARGUMENT, "comm is NULL");
    err = ri_comm_enter(comm);
    if (err)
        return err;
    abort_comm(comm);
    return ri_comm_leave(comm, 0);
}

void ri_comm_discard(struct rondo_comm *comm)
{
    if (comm->family) {
        if (ri_comm_enter(comm)) {
            ri_log(RI_LOG_ERROR, "comm", "a communicator is not destroyed: %s", rondo_last_error());
            return;
        }
        if (comm->collectives && comm->release_collectives)
            comm->release_collectives(comm->collectives);
        if (comm->pool)
            comm->release_pool(comm->pool);
        if (comm->memory)
            comm->release_memory(comm);
        ri_family_remove(comm->family, comm);
        ri_comm_leave(comm, 0);
    }
    if (comm->transport)
        comm->transport->ops->close(comm->transport);
    ri_family_drop(comm->family, comm->bootstrap);
    ri_trace_destroy(comm->trace);
    ri_config_release(&comm->config);
    free(comm->host);
    free(comm->order);
    ri_topo_destroy(comm->topo);
    free(comm);
}

void rondo_comm_destroy(rondo_comm_t comm)
{
    if (comm)
        ri_comm_discard(comm);
}
