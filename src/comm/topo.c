/* SPDX-License-Identifier: Apache-2.0 */
/* How the ranks of a communicator learn of all hosts.  Hosts of a cluster are alike, but for their names: so
 * what they look like is exchanged once for each kind of host, in slices that the ranks of all hosts of the
 * kind share among them. */
#include "comm/topo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "comm/comm.h"
#include "comm/open.h"
#include "comm/view.h"
#include "topo/topo.h"

enum {
    TEXT_BYTES_MAX = 16 << 20, /* of a host's */
    ALL_BYTES_MAX = 64 << 20,  /* of all slices: what rank 0 sends to each */
    OBJECTS_MAX = 200000       /* of all hosts */
};

/* ---- slices ---- */

static int is_alike(const struct ri_introduction *a, const struct ri_introduction *b)
{
    return a->bytes == b->bytes && memcmp(a->digest, b->digest, sizeof(a->digest)) == 0;
}

/* All ranks, and which of them hold one text. */
struct looks {
    struct ri_introduction *all; /* [size] */
    int32_t *first;           /* [size] the first rank that holds the text of a rank */
    int32_t *place, *count;   /* [size] which of its holders a rank is; of a first rank: how many hold it */
    int32_t *kinds;           /* [kind_count] the first ranks */
    int kind_count;
    size_t longest; /* slice of all texts, so that all ranks exchange as much */
};

static void looks_release(struct looks *looks)
{
    free(looks->all);
    free(looks->first);
    free(looks->place);
    free(looks->count);
    free(looks->kinds);
}

static int looks_init(struct looks *looks, int size)
{
    size_t n = (size_t)size;

    *looks = (struct looks){ .all = calloc(n, sizeof(*looks->all)), .first = calloc(n, sizeof(*looks->first)),
                             .place = calloc(n, sizeof(*looks->place)), .count = calloc(n, sizeof(*looks->count)),
                             .kinds = calloc(n, sizeof(*looks->kinds)) };
    if (looks->all && looks->first && looks->place && looks->count && looks->kinds)
        return 0;
    looks_release(looks);
    return ri_error(RONDO_ERR_MEMORY, "no memory for the topology of %d ranks", size);
}

/* Of the text that rank r holds. */
static size_t slice_bytes(const struct looks *looks, int r)
{
    size_t count = (size_t)looks->count[looks->first[r]];

    return ((size_t)looks->all[r].bytes + count - 1) / count;
}

static void sort_out(struct looks *looks, int size)
{
    for (int r = 0; r < size; r++) {
        int k = 0;

        while (k < looks->kind_count && !is_alike(&looks->all[looks->kinds[k]], &looks->all[r]))
            k++;
        if (k == looks->kind_count)
            looks->kinds[looks->kind_count++] = r;
        looks->first[r] = looks->kinds[k];
        looks->place[r] = looks->count[looks->kinds[k]]++;
    }
    looks->longest = 1;
    for (int k = 0; k < looks->kind_count; k++)
        if (slice_bytes(looks, looks->kinds[k]) > looks->longest)
            looks->longest = slice_bytes(looks, looks->kinds[k]);
}

/* The text of rank r out of slices [size][longest]; malloc'd. */
static char *whole_text(const struct looks *looks, int size, int r, const char *slices)
{
    size_t bytes = (size_t)looks->all[r].bytes, slice = slice_bytes(looks, r), had = 0;
    char *text = malloc(bytes + 1);

    for (int i = looks->first[r]; text && i < size && had < bytes; i++) {
        size_t more = slice < bytes - had ? slice : bytes - had;

        if (looks->first[i] != looks->first[r])
            continue;
        memcpy(text + had, slices + (size_t)i * looks->longest, more);
        had += more;
    }
    if (text)
        text[had] = '\0';
    return text;
}

/* ---- joining ---- */

static int first_rank_of(const struct rondo_comm *comm, int host)
{
    int r = 0;

    while (comm->host[r] != host)
        r++;
    return r;
}

/* Of the ranks of a host those that look and see something else: the first is named. */
static void notice_difference(struct rondo_comm *comm, const struct looks *looks, int lead)
{
    for (int r = lead + 1; r < comm->size; r++)
        if (comm->host[r] == comm->host[lead] && looks->all[r].bytes && looks->first[r] != looks->first[lead]) {
            ri_topo_notice(comm->topo, "ranks %d and %d see host %.63s differently; it is taken as rank %d sees it",
                           lead, r, looks->all[lead].host, lead);
            return;
        }
}

static int add_host(struct rondo_comm *comm, const struct looks *looks, int host, const char *slices)
{
    const struct ri_introduction *all = looks->all;
    int lead = first_rank_of(comm, host), err;
    char *text = whole_text(looks, comm->size, lead, slices);
    int32_t at = comm->topo->object_count;
    struct ri_topo *one = NULL;

    err = text ? ri_topo_unpack(text, &one) : ri_error(RONDO_ERR_MEMORY, "no memory for the topology of a host");
    free(text);
    if (err)
        return err;
    ri_topo_append(comm->topo, one);
    ri_topo_destroy(one);
    if (comm->topo->error)
        return comm->topo->error;
    comm->topo->objects[at].number = host;
    snprintf(comm->topo->objects[at].name, sizeof(comm->topo->objects[at].name), "%.*s",
             (int)sizeof(all[lead].host) - 1, all[lead].host);
    notice_difference(comm, looks, lead);
    return comm->topo->error;
}

/* The GPU of a host by its PCI id, which all its ranks know it by; numbers are a rank's own. */
static int32_t find_gpu(const struct ri_topo *topo, int32_t host, const struct ri_introduction *of, int alike)
{
    int32_t at;

    for (int k = 0; (at = ri_topo_find(topo, host, RI_TOPO_GPU, k)) >= 0; k++) {
        const struct ri_topo_object *gpu = &topo->objects[at];

        if (of->gpu_pci[0] && gpu->pci[0] ? strncmp(gpu->pci, of->gpu_pci, sizeof(of->gpu_pci)) == 0
                                          : alike && gpu->number == of->gpu)
            return at;
    }
    return -1;
}

static int32_t find_numa(const struct ri_topo *topo, int32_t host, int32_t number)
{
    int32_t at;

    for (int k = 0; (at = ri_topo_find(topo, host, RI_TOPO_NUMA, k)) >= 0; k++)
        if (topo->objects[at].number == number)
            return at;
    return -1;
}

/* Objects that ranks named; hosts: [host_count] room. */
static void find_places(const struct rondo_comm *comm, const struct looks *looks, int32_t *hosts, int32_t *where)
{
    int count = 0;

    for (int32_t i = 0; i < comm->topo->object_count && count < comm->host_count; i++)
        if (comm->topo->objects[i].kind == RI_TOPO_HOST)
            hosts[count++] = i;
    for (int r = 0; r < comm->size; r++) {
        const struct ri_introduction *of = &looks->all[r];
        int alike = looks->first[r] == looks->first[first_rank_of(comm, comm->host[r])];

        where[r] = of->gpu >= 0 ? find_gpu(comm->topo, hosts[comm->host[r]], of, alike) : -1;
        if (where[r] < 0 && of->numa >= 0)
            where[r] = find_numa(comm->topo, hosts[comm->host[r]], of->numa);
    }
}

static int is_natural(const int32_t *order, int size)
{
    for (int i = 0; i < size; i++)
        if (order[i] != i)
            return 0;
    return 1;
}

static int place_ranks(struct rondo_comm *comm, const struct looks *looks)
{
    int32_t *where = malloc(2 * (size_t)comm->size * sizeof(*where)); /* and a place for each host */
    int err;

    comm->order = malloc((size_t)comm->size * sizeof(*comm->order));
    if (where && comm->order) {
        find_places(comm, looks, where + comm->size, where);
        err = ri_topo_place(comm->topo, comm->size, comm->host, where);
        if (!err)
            err = ri_topo_ring(comm->topo, comm->order);
    } else {
        err = ri_error(RONDO_ERR_MEMORY, "no memory for %d ranks", comm->size);
    }
    free(where);
    if (!err)
        err = ri_topo_lanes(comm->topo, comm->order, &comm->lanes);
    if (!err && is_natural(comm->order, comm->size)) {
        free(comm->order);
        comm->order = NULL;
    }
    return err;
}

/* By the name that the tree has for it; -1: there is none that would be used. */
static int32_t used_nic(const struct ri_topo *topo, int32_t host, const char *name)
{
    int32_t at;

    for (int k = 0; (at = ri_topo_find(topo, host, RI_TOPO_NIC, k)) >= 0; k++)
        if (strcmp(topo->objects[at].name, name) == 0)
            return ri_topo_nic_is_used(topo, at, NULL) ? at : -1;
    return -1;
}

/* A rank is held to its NIC only where its host has several that are used, all reach all, and it sees this one
 * itself; of a part that is what its parent knows. */
static void choose_devices(struct rondo_comm *comm, const struct ri_topo *seen, int32_t own_host)
{
    const struct ri_topo *topo = comm->topo;
    int32_t host = ri_topo_host_of(topo, topo->ranks[comm->rank].object), nic = topo->ranks[comm->rank].nic;

    if (ri_topo_used_nics(topo, host, NULL) < 2 || comm->host_count < 2 || !ri_topo_nics_reach(topo) ||
        used_nic(seen, own_host, topo->objects[nic].name) < 0)
        return;
    if (topo->objects[nic].nic.device[0])
        snprintf(comm->near_devices, sizeof(comm->near_devices), "%s:%d", topo->objects[nic].nic.device,
                 (int)topo->objects[nic].nic.port);
    else
        snprintf(comm->near_devices, sizeof(comm->near_devices), "%s", topo->objects[nic].nic.netdev);
}

/* Without a topology rather than without a communicator: from what all ranks know, so that all do so. */
static void go_without(struct rondo_comm *comm, const char *why)
{
    ri_log(comm->rank == 0 ? RI_LOG_WARN : RI_LOG_INFO, "comm", "the topology of %d hosts is left out: %s; RONDO_TOPO=off "
           "leaves it out without a word", comm->host_count, why);
    ri_topo_destroy(comm->topo);
    comm->topo = NULL;
}

static int join(struct rondo_comm *comm, const struct looks *looks, const char *slices)
{
    int err = 0;

    comm->topo = ri_topo_create();
    if (!comm->topo)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a topology");
    for (int h = 0; h < comm->host_count && !err && comm->topo->object_count <= OBJECTS_MAX; h++)
        err = add_host(comm, looks, h, slices);
    if (!err && comm->topo->object_count > OBJECTS_MAX) {
        go_without(comm, "it has too many objects");
        return 0;
    }
    if (!err)
        err = place_ranks(comm, looks);
    comm->topo_is_described = looks->all[0].described;
    return err;
}

static int all_hosts_look(const struct rondo_comm *comm, const struct ri_introduction *all)
{
    for (int h = 0; h < comm->host_count; h++)
        if (all[first_rank_of(comm, h)].bytes == 0)
            return 0;
    return 1;
}

static int is_too_long(const struct looks *looks, int size)
{
    for (int r = 0; r < size; r++)
        if (looks->all[r].bytes > TEXT_BYTES_MAX)
            return 1;
    return looks->longest > ALL_BYTES_MAX / (size_t)size;
}

static int exchange_slices(struct rondo_comm *comm, const struct looks *looks, const char *text, int64_t deadline_ns)
{
    char *slice, *slices;
    size_t bytes = (size_t)looks->all[comm->rank].bytes, most = slice_bytes(looks, comm->rank);
    size_t from = (size_t)looks->place[comm->rank] * most;
    int err;

    if (is_too_long(looks, comm->size)) {
        go_without(comm, "it is too long to be exchanged");
        return 0;
    }
    slice = calloc(1, looks->longest);
    slices = calloc((size_t)comm->size, looks->longest);
    if (slice && text && from < bytes)
        memcpy(slice, text + from, most < bytes - from ? most : bytes - from);
    err = slice && slices ? ri_comm_gather(comm, slice, looks->longest, slices, deadline_ns)
                          : ri_error(RONDO_ERR_MEMORY, "no memory for the topology of %d ranks", comm->size);
    if (!err)
        err = join(comm, looks, slices);
    free(slice);
    free(slices);
    return err;
}

/* What could not be found out of a host its first rank says; it is not exchanged. */
static void log_notices(const char *line)
{
    for (; line && *line; line += strcspn(line, "\n"), line += *line == '\n')
        ri_log(RI_LOG_INFO, "comm", "topology: %.*s", (int)strcspn(line, "\n"), line);
}

int ri_comm_find_topo(struct rondo_comm *comm, const struct rondo_comm *parent, const struct ri_topo *seen,
                      int64_t deadline_ns)
{
    struct ri_introduction mine;
    struct looks looks;
    char *text = NULL;
    int err = looks_init(&looks, comm->size);

    if (err)
        return err;
    err = ri_view_introduce(comm, parent, seen, &mine, &text);
    if (!err)
        err = ri_comm_gather(comm, &mine, sizeof(mine), looks.all, deadline_ns);
    if (!err && all_hosts_look(comm, looks.all)) {
        sort_out(&looks, comm->size);
        err = exchange_slices(comm, &looks, text, deadline_ns);
    }
    free(text);
    looks_release(&looks);
    if (!err && comm->topo && seen)
        choose_devices(comm, seen, ri_view_host(comm, parent, seen));
    if (!err && comm->rank == 0 && comm->topo)
        log_notices(comm->topo->notices);
    if (!err && comm->local_rank == 0 && seen && !parent)
        log_notices(seen->notices);
    return err;
}
