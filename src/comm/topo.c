/* SPDX-License-Identifier: Apache-2.0 */
/* How the ranks of a communicator learn of all hosts.  Hosts of a cluster are alike, but for their names: so
 * what they look like is exchanged once for each kind of host, in slices that the ranks of all hosts of the
 * kind share among them. */
#include "comm/topo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "comm/bytes.h"
#include "comm/comm.h"
#include "comm/open.h"
#include "topo/topo.h"

/* What a rank tells of itself, before what its host looks like. */
struct introduction {
    uint8_t digest[16]; /* of the text of its host */
    uint64_t bytes;     /* of that text; 0: this rank does not look */
    int32_t described;  /* by RONDO_TOPO, not found */
    int32_t kind, number; /* where the rank is on its host; number -1: unknown */
    char host[64];
};

/* ---- what this rank sees ---- */

static int is_described(const struct rondo_comm *comm)
{
    return *comm->config.topo && strcmp(comm->config.topo, "live") != 0;
}

/* What RONDO_TOPO, or topo of the config, describes; an error says so. */
static int read_described(const char *what, struct ri_topo **seen)
{
    int err = ri_topo_read(what, seen);
    char why[512];

    if (!err)
        return 0;
    snprintf(why, sizeof(why), "%s", rondo_last_error());
    return ri_error(err, "RONDO_TOPO (or topo of the config): %s", why);
}

int ri_comm_see(const struct rondo_comm *comm, const struct rondo_comm *parent, struct ri_topo **seen)
{
    *seen = NULL;
    if (parent) {
        if (parent->topo)
            *seen = ri_topo_extract(parent->topo, ri_topo_host_of(parent->topo,
                                                                  parent->topo->ranks[parent->rank].object));
        return *seen || !parent->topo ? 0 : ri_error(RONDO_ERR_MEMORY, "no memory for a part's topology");
    }
    if (strcmp(comm->config.topo, "off") == 0)
        return 0;
    return is_described(comm) ? read_described(comm->config.topo, seen) : ri_topo_read(NULL, seen);
}

/* The one device that this process may see; -1: several, or not told by a number. */
static int32_t visible_gpu(void)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    char *end;
    long number = text ? strtol(text, &end, 10) : -1;

    return text && end != text && !*end && number >= 0 && number < 4096 ? (int32_t)number : -1;
}

/* Where this rank is on its host, as far as that is known before it computes. */
static void introduce_place(const struct rondo_comm *comm, const struct rondo_comm *parent,
                            const struct ri_topo *seen, int32_t host, struct introduction *mine)
{
    int32_t home;

    mine->number = -1;
    if (parent) {
        const struct ri_topo_object *at = &parent->topo->objects[parent->topo->ranks[parent->rank].object];

        mine->kind = (int32_t)at->kind;
        mine->number = at->number;
        return;
    }
    if (is_described(comm))
        return;
    mine->kind = RI_TOPO_GPU;
    mine->number = ri_topo_count(seen, host, RI_TOPO_GPU) ? visible_gpu() : -1;
    home = mine->number < 0 ? ri_topo_home(seen, host) : -1;
    if (home >= 0) {
        mine->kind = RI_TOPO_NUMA;
        mine->number = seen->objects[home].number;
    }
}

/* What tells hosts apart that are alike: names of adapters become numbers. */
static void strip(struct ri_topo *topo)
{
    char cards[64][sizeof(topo->objects->nic.card)];
    int count = 0;

    for (int32_t i = 0; i < topo->object_count; i++) {
        struct ri_topo_object *object = &topo->objects[i];
        int at = 0;

        object->id[0] = '\0';
        if (object->kind == RI_TOPO_HOST) {
            object->name[0] = object->cpus[0] = '\0';
            object->number = 0;
        }
        if (object->kind != RI_TOPO_NIC || !object->nic.card[0])
            continue;
        while (at < count && strcmp(cards[at], object->nic.card) != 0)
            at++;
        if (at == count && count < 64)
            memcpy(cards[count++], object->nic.card, sizeof(object->nic.card));
        if (at < 64)
            snprintf(object->nic.card, sizeof(object->nic.card), "card %d", at);
    }
}

/* Of a description of many hosts that of this rank, of fewer than there are the last. */
static int32_t own_host(const struct rondo_comm *comm, const struct rondo_comm *parent, const struct ri_topo *seen)
{
    int hosts = ri_topo_hosts(seen), k = parent ? 0 : comm->host_index;

    return ri_topo_find(seen, -1, RI_TOPO_HOST, k < hosts ? k : hosts - 1);
}

/* Fills in mine, and the text that its digest is of; *text is NULL when there is nothing to see. */
static int introduce(const struct rondo_comm *comm, const struct rondo_comm *parent, const struct ri_topo *seen,
                     struct introduction *mine, char **text)
{
    int32_t host = seen ? own_host(comm, parent, seen) : -1;
    struct ri_topo *one;

    memset(mine, 0, sizeof(*mine));
    *text = NULL;
    if (host < 0)
        return 0;
    one = ri_topo_extract(seen, host);
    if (!one)
        return ri_error(RONDO_ERR_MEMORY, "no memory for the topology of a host");
    introduce_place(comm, parent, seen, host, mine);
    mine->described = parent ? parent->topo_is_described : is_described(comm);
    snprintf(mine->host, sizeof(mine->host), "%s", one->objects[0].name);
    if (*comm->config.host_id && !parent)
        snprintf(mine->host, sizeof(mine->host), "%s", comm->config.host_id);
    else if (!mine->described && !parent)
        gethostname(mine->host, sizeof(mine->host) - 1);
    strip(one);
    *text = ri_topo_pack(one);
    ri_topo_destroy(one);
    if (!*text)
        return ri_error(RONDO_ERR_MEMORY, "no memory for the topology of a host");
    mine->bytes = strlen(*text);
    ri_hash16(*text, mine->bytes, mine->digest);
    return 0;
}

/* ---- slices ---- */

static int is_alike(const struct introduction *a, const struct introduction *b)
{
    return a->bytes == b->bytes && memcmp(a->digest, b->digest, sizeof(a->digest)) == 0;
}

/* All ranks, and which of them hold one text. */
struct looks {
    struct introduction *all; /* [size] */
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

static int add_host(struct rondo_comm *comm, const struct looks *looks, int host, const char *slices)
{
    const struct introduction *all = looks->all;
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
    for (int r = 0; r < comm->size; r++)
        if (comm->host[r] == host && looks->first[r] != looks->first[lead])
            ri_topo_notice(comm->topo, "ranks %d and %d see host %.63s differently; it is taken as rank %d sees it",
                           lead, r, all[lead].host, lead);
    return comm->topo->error;
}

/* Objects that ranks named. */
static void find_places(const struct rondo_comm *comm, const struct introduction *all, int32_t *where)
{
    for (int r = 0; r < comm->size; r++) {
        int32_t host = ri_topo_find(comm->topo, -1, RI_TOPO_HOST, comm->host[r]), at;

        where[r] = -1;
        for (int k = 0; all[r].number >= 0 && where[r] < 0; k++) {
            at = ri_topo_find(comm->topo, host, (enum ri_topo_kind)all[r].kind, k);
            if (at < 0)
                break;
            if (comm->topo->objects[at].number == all[r].number)
                where[r] = at;
        }
    }
}

static int is_natural(const int32_t *order, int size)
{
    for (int i = 0; i < size; i++)
        if (order[i] != i)
            return 0;
    return 1;
}

static int place_ranks(struct rondo_comm *comm, const struct introduction *all)
{
    int32_t *where = malloc((size_t)comm->size * sizeof(*where));
    int err;

    comm->order = malloc((size_t)comm->size * sizeof(*comm->order));
    if (where && comm->order) {
        find_places(comm, all, where);
        err = ri_topo_place(comm->topo, comm->size, comm->host, where);
        if (!err)
            err = ri_topo_ring(comm->topo, comm->order);
    } else {
        err = ri_error(RONDO_ERR_MEMORY, "no memory for %d ranks", comm->size);
    }
    free(where);
    if (!err && is_natural(comm->order, comm->size)) {
        free(comm->order);
        comm->order = NULL;
    }
    return err;
}

/* A rank is held to its NIC only where its host has several that can be used, and all reach all. */
static void choose_devices(struct rondo_comm *comm)
{
    const struct ri_topo *topo = comm->topo;
    int32_t host = ri_topo_host_of(topo, topo->ranks[comm->rank].object), at;
    int usable = 0;

    for (int k = 0; (at = ri_topo_find(topo, host, RI_TOPO_NIC, k)) >= 0; k++)
        usable += !topo->objects[at].nic.unusable[0] && !topo->objects[at].nic.is_loopback;
    if (usable < 2 || comm->host_count < 2 || !ri_topo_nics_reach(topo))
        return;
    at = topo->ranks[comm->rank].nic;
    if (topo->objects[at].nic.device[0])
        snprintf(comm->near_devices, sizeof(comm->near_devices), "%s:%d", topo->objects[at].nic.device,
                 (int)topo->objects[at].nic.port);
    else
        snprintf(comm->near_devices, sizeof(comm->near_devices), "%s", topo->objects[at].nic.netdev);
}

static int join(struct rondo_comm *comm, const struct looks *looks, const char *slices)
{
    int err = 0;

    comm->topo = ri_topo_create();
    if (!comm->topo)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a topology");
    for (int h = 0; h < comm->host_count && !err; h++)
        err = add_host(comm, looks, h, slices);
    if (!err)
        err = place_ranks(comm, looks->all);
    comm->topo_is_described = looks->all[0].described;
    if (err)
        return err;
    ri_topo_lanes(comm->topo, &comm->lanes);
    choose_devices(comm);
    return 0;
}

static int all_hosts_look(const struct rondo_comm *comm, const struct introduction *all)
{
    for (int h = 0; h < comm->host_count; h++)
        if (all[first_rank_of(comm, h)].bytes == 0)
            return 0;
    return 1;
}

static int exchange_slices(struct rondo_comm *comm, const struct looks *looks, const char *text, int64_t deadline_ns)
{
    char *slice = calloc(1, looks->longest), *slices = calloc((size_t)comm->size, looks->longest);
    size_t bytes = (size_t)looks->all[comm->rank].bytes, most = slice_bytes(looks, comm->rank);
    size_t from = (size_t)looks->place[comm->rank] * most;
    int err;

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

static void log_topo(const struct rondo_comm *comm)
{
    const char *line = comm->topo ? comm->topo->notices : NULL;

    for (; comm->rank == 0 && line && *line; line += strcspn(line, "\n"), line += *line == '\n')
        ri_log(RI_LOG_INFO, "comm", "topology: %.*s", (int)strcspn(line, "\n"), line);
}

int ri_comm_find_topo(struct rondo_comm *comm, const struct rondo_comm *parent, const struct ri_topo *seen,
                      int64_t deadline_ns)
{
    struct introduction mine;
    struct looks looks;
    char *text = NULL;
    int err = looks_init(&looks, comm->size);

    if (err)
        return err;
    err = introduce(comm, parent, seen, &mine, &text);
    if (!err)
        err = ri_comm_gather(comm, &mine, sizeof(mine), looks.all, deadline_ns);
    if (!err && all_hosts_look(comm, looks.all)) {
        sort_out(&looks, comm->size);
        err = exchange_slices(comm, &looks, text, deadline_ns);
    }
    free(text);
    looks_release(&looks);
    if (!err)
        log_topo(comm);
    return err;
}
