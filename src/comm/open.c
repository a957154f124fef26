/* SPDX-License-Identifier: Apache-2.0 */
/* Which transport a communicator uses.  All ranks try the same ones in the same order, and go on to the
 * next when one of them cannot use it. */
#include "comm/open.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "comm/bootstrap.h"
#include "comm/comm.h"

#define LAST_WORD_NS 2000000000

int ri_comm_gather(struct rondo_comm *comm, const void *mine, size_t bytes, void *all, int64_t deadline_ns)
{
    if (comm->size > 1)
        return ri_bootstrap_allgather(comm->bootstrap, mine, bytes, all, deadline_ns);
    memcpy(all, mine, bytes);
    return 0;
}

/* sizes: [size], of every rank's address; all: [size][longest] */
static int connect_peers(struct rondo_comm *comm, const uint64_t *sizes, const char *all, size_t longest,
                         int64_t deadline_ns)
{
    const void **addresses = calloc((size_t)comm->size, sizeof(*addresses));
    size_t *bytes = calloc((size_t)comm->size, sizeof(*bytes));
    int err;

    if (!addresses || !bytes) {
        err = ri_error(RONDO_ERR_MEMORY, "no memory for %d addresses", comm->size);
    } else {
        for (int r = 0; r < comm->size; r++) {
            addresses[r] = all + (size_t)r * longest;
            bytes[r] = (size_t)sizes[r];
        }
        err = comm->transport->ops->connect(comm->transport, addresses, bytes, deadline_ns);
    }
    free(addresses);
    free(bytes);
    /* One may have used up the time: all still hear why. */
    if (deadline_ns < ri_now_ns() + LAST_WORD_NS)
        deadline_ns = ri_now_ns() + LAST_WORD_NS;
    return ri_agree_until(comm, "connecting", NULL, 0, err, deadline_ns);
}

static int exchange_addresses(struct rondo_comm *comm, const void *address, size_t address_bytes,
                              int64_t deadline_ns)
{
    uint64_t *sizes = calloc((size_t)comm->size, sizeof(*sizes));
    uint64_t mine = address_bytes, longest = 1;
    char *padded = NULL, *all = NULL;
    int err = sizes ? ri_comm_gather(comm, &mine, sizeof(mine), sizes, deadline_ns) : 0;

    for (int r = 0; r < comm->size && sizes && !err; r++)
        longest = sizes[r] > longest ? sizes[r] : longest;
    if (sizes && !err) {
        padded = calloc(1, (size_t)longest);
        all = calloc((size_t)comm->size, (size_t)longest);
    }
    if (padded && all) {
        memcpy(padded, address, address_bytes);
        err = ri_comm_gather(comm, padded, (size_t)longest, all, deadline_ns);
        if (!err)
            err = connect_peers(comm, sizes, all, (size_t)longest, deadline_ns);
    } else if (!err) {
        err = ri_error(RONDO_ERR_MEMORY, "no memory for %d addresses", comm->size);
    }
    free(padded);
    free(all);
    free(sizes);
    return err;
}

static int open_one(struct rondo_comm *comm, const struct ri_transport_ops *ops, int64_t deadline_ns)
{
    struct ri_transport_params params = { .rank = comm->rank, .ranks = comm->size, .token = comm->token,
                                          .host = comm->host, .config = &comm->config,
                                          .near_devices = comm->near_devices[0] ? comm->near_devices : NULL };
    const struct ri_field name = { .name = "transport", .text = ops->name };
    const void *address = NULL;
    size_t address_bytes = 0;
    int err = ops->open(&params, &comm->transport, &address, &address_bytes);

    if (!err)
        comm->transport->trace = comm->trace;
    err = ri_agree_until(comm, "opening the transport", &name, 1, err, deadline_ns);
    return err ? err : exchange_addresses(comm, address, address_bytes, deadline_ns);
}

/* ---- which ---- */

enum { CANDIDATES_MAX = 2 };

static int is_auto(const struct ri_config *config)
{
    return !*config->transport || strcmp(config->transport, "auto") == 0;
}

int ri_transport_is_known(const struct ri_config *config)
{
    const char *remedy;

    if (is_auto(config) || ri_transport_find(config->transport))
        return 0;
    remedy = ri_transport_remedy(config->transport);
    if (remedy)
        return ri_error(RONDO_ERR_UNSUPPORTED, "RONDO_TRANSPORT='%s' is not built in; there is: auto, %s; %s",
                        config->transport, ri_transport_names(), remedy);
    return ri_error(RONDO_ERR_ARGUMENT, "RONDO_TRANSPORT='%.32s' is not known; there is: auto, %s",
                    config->transport, ri_transport_names());
}

/* Does any host have two ranks? */
static int some_share_a_host(const struct rondo_comm *comm)
{
    return comm->host_count < comm->size;
}

static int add(const struct ri_transport_ops *list[CANDIDATES_MAX], int count, const char *name)
{
    list[count] = ri_transport_find(name);
    return list[count] ? count + 1 : count;
}

/* Alike on all ranks: it depends on who shares a host, and on what is built in, which all have compared. */
static int candidates(const struct rondo_comm *comm, const struct ri_transport_ops *list[CANDIDATES_MAX])
{
    int count = 0;

    if (!is_auto(&comm->config))
        return add(list, 0, comm->config.transport);
    if (comm->size == 1)
        return add(list, 0, "self");
    if (some_share_a_host(comm))
        count = add(list, count, comm->host_count == 1 ? "shm" : "shm+ucx");
    return add(list, count, "ucx");
}

static int refuse_hosts(const struct rondo_comm *comm)
{
    int other = 0;

    while (comm->host[other] == comm->host[0])
        other++;
    return ri_error(RONDO_ERR_UNSUPPORTED, "RONDO_TRANSPORT=shm reaches the ranks of one host, but ranks 0 and %d "
                    "are on different ones; leave it at auto", other);
}

static int refuse_all(const struct rondo_comm *comm)
{
    return ri_error(RONDO_ERR_UNSUPPORTED, "no transport between %d hosts is built in (there is: %s); %s",
                    comm->host_count, ri_transport_names(), ri_transport_remedy("ucx"));
}

static void go_on_without(struct rondo_comm *comm, const char *name, const char *next)
{
    ri_log(comm->rank == 0 ? RI_LOG_WARN : RI_LOG_INFO, "comm", "transport %s cannot be used, going on with %s: %s",
           name, next, rondo_last_error());
    if (comm->transport)
        comm->transport->ops->close(comm->transport);
    comm->transport = NULL;
}

int ri_comm_open_transport(struct rondo_comm *comm, int64_t deadline_ns)
{
    const struct ri_transport_ops *list[CANDIDATES_MAX];
    int count = candidates(comm, list), err;

    if (count == 0)
        return refuse_all(comm);
    if (count == 1 && strcmp(list[0]->name, "shm") == 0 && comm->host_count > 1)
        return refuse_hosts(comm);
    for (int i = 0;; i++) {
        int64_t now_ns = ri_now_ns(), left_ns = deadline_ns - now_ns;

        /* The next one needs time, too. */
        err = open_one(comm, list[i], i + 1 < count ? now_ns + left_ns / 2 : deadline_ns);
        if (!err || comm->failed || i + 1 == count)
            return err;
        go_on_without(comm, list[i]->name, list[i + 1]->name);
    }
}
