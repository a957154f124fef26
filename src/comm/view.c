/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank sees of its own host, and what of it is of use to others. */
#include "comm/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "comm/bytes.h"
#include "comm/comm.h"
#include "comm/topo.h"
#include "topo/topo.h"

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

static int32_t number_above(const struct ri_topo *topo, int32_t object, enum ri_topo_kind kind)
{
    int32_t at = object < 0 ? -1 : ri_topo_above(topo, object, kind);

    return at < 0 ? -1 : topo->objects[at].number;
}

static void introduce_object(const struct ri_topo *topo, int32_t object, struct ri_introduction *mine)
{
    int32_t gpu = object < 0 ? -1 : ri_topo_above(topo, object, RI_TOPO_GPU);

    mine->gpu = number_above(topo, object, RI_TOPO_GPU);
    mine->numa = number_above(topo, object, RI_TOPO_NUMA);
    snprintf(mine->gpu_pci, sizeof(mine->gpu_pci), "%s", gpu < 0 ? "" : topo->objects[gpu].pci);
}

/* Where this rank is on its host, as far as that is known before it computes: on the one GPU that it may see, else
 * in the NUMA node of its processors. */
static void introduce_place(const struct rondo_comm *comm, const struct rondo_comm *parent,
                            const struct ri_topo *seen, int32_t host, struct ri_introduction *mine)
{
    int32_t number = visible_gpu(), object = -1, at;

    if (parent) {
        introduce_object(parent->topo, parent->topo->ranks[parent->rank].object, mine);
        return;
    }
    for (int k = 0; !is_described(comm) && number >= 0 && (at = ri_topo_find(seen, host, RI_TOPO_GPU, k)) >= 0; k++)
        if (seen->objects[at].number == number)
            object = at;
    if (object < 0 && !is_described(comm))
        object = ri_topo_home(seen, host);
    introduce_object(seen, object, mine);
}

/* Without their bond its members would count. */
static int has_members(const struct ri_topo *topo, const char *netdev)
{
    for (int32_t i = 0; i < topo->object_count; i++)
        if (*netdev && strcmp(topo->objects[i].nic.bond, netdev) == 0)
            return 1;
    return 0;
}

/* Interfaces of containers come and go: those that nobody would use are left out. */
static int leave_out_virtual(struct ri_topo *topo)
{
    uint8_t *used = calloc((size_t)topo->object_count + 1, 1);

    if (!used)
        return ri_error(RONDO_ERR_MEMORY, "no memory for the topology of a host");
    ri_topo_used_nics(topo, 0, used);
    for (int32_t i = topo->object_count - 1; i > 0; i--)
        if (topo->objects[i].kind == RI_TOPO_NIC && topo->objects[i].nic.is_virtual && !used[i] &&
            !has_members(topo, topo->objects[i].nic.netdev))
            ri_topo_remove(topo, i);
    free(used);
    return 0;
}

static void strip_nic(struct ri_topo_nic *nic)
{
    nic->lid = 0;
    nic->gid_index = -1;
}

/* What tells hosts apart that are alike, and decides nothing: names, serial numbers, what is free or allowed now.
 * Names of adapters become numbers. */
static int strip(struct ri_topo *topo)
{
    char cards[64][sizeof(topo->objects->nic.card)];
    int count = 0, err = leave_out_virtual(topo);

    if (err)
        return err;
    free(topo->notices);
    topo->notices = NULL;
    for (int32_t i = 0; i < topo->object_count; i++) {
        struct ri_topo_object *object = &topo->objects[i];
        int at = 0;

        object->id[0] = '\0';
        object->memory_bytes = 0;
        strip_nic(&object->nic);
        if (object->kind == RI_TOPO_HOST) {
            object->name[0] = object->cpus[0] = '\0';
            object->number = object->cpu_count = 0;
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
    return 0;
}

int32_t ri_view_host(const struct rondo_comm *comm, const struct rondo_comm *parent, const struct ri_topo *seen)
{
    int hosts = ri_topo_hosts(seen), k = parent ? 0 : comm->host_index;

    return ri_topo_find(seen, -1, RI_TOPO_HOST, k < hosts ? k : hosts - 1);
}

int ri_view_introduce(const struct rondo_comm *comm, const struct rondo_comm *parent, const struct ri_topo *seen,
                      struct ri_introduction *mine, char **text)
{
    int32_t host = seen ? ri_view_host(comm, parent, seen) : -1;
    struct ri_topo *one;
    int err;

    memset(mine, 0, sizeof(*mine));
    mine->gpu = mine->numa = -1;
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
    err = strip(one);
    *text = err ? NULL : ri_topo_pack(one);
    ri_topo_destroy(one);
    if (err)
        return err;
    if (!*text)
        return ri_error(RONDO_ERR_MEMORY, "no memory for the topology of a host");
    mine->bytes = strlen(*text);
    ri_hash16(*text, mine->bytes, mine->digest);
    return 0;
}
