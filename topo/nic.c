/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "topo/find.h"
#include "topo/nic.h"
#include "topo/verbs.h"

/* ---- reading ---- */

struct ri_nic_port *ri_nics_add(struct ri_nics *nics)
{
    struct ri_nic_port *ports = nics->ports;

    if ((nics->count & (nics->count - 1)) == 0)
        ports = realloc(ports, (nics->count ? 2 * (size_t)nics->count : 1) * sizeof(*ports));
    if (!ports) {
        nics->no_memory = 1;
        return NULL;
    }
    nics->ports = ports;
    memset(&ports[nics->count], 0, sizeof(*ports));
    ports[nics->count].object = -1;
    ports[nics->count].nic.gid_index = -1;
    return &ports[nics->count++];
}

/* Not there, or nothing to say as things are: the speed of an interface that is down, an empty GID. */
static int is_expected(int err)
{
    return err == -ENOENT || err == -ENOTDIR || err == -EINVAL || err == -ENODEV || err == -ENXIO ||
           err == -EOPNOTSUPP || err == -EAGAIN || err == -ELOOP;
}

int ri_nics_text(struct ri_nics *nics, char *text, size_t bytes, const char *format, ...)
{
    char path[256];
    va_list args;
    int err;

    va_start(args, format);
    vsnprintf(path, sizeof(path), format, args);
    va_end(args);
    text[0] = 0;
    err = ri_source_text(nics->source, path, text, bytes);
    /* What a line of text could not hold ends a value. */
    for (char *at = text; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = 0;
    if (!err || is_expected(err))
        return err;
    if (nics->unreadable++ == 0) {
        nics->why = err;
        snprintf(nics->first, sizeof(nics->first), "%s", path);
    }
    return err;
}

long long ri_nics_number(struct ri_nics *nics, long long fallback, const char *format, ...)
{
    char path[256], text[64], *end;
    long long number;
    va_list args;

    va_start(args, format);
    vsnprintf(path, sizeof(path), format, args);
    va_end(args);
    if (ri_nics_text(nics, text, sizeof(text), "%s", path))
        return fallback;
    errno = 0;
    number = strtoll(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
    return errno || end == text || *end ? fallback : number;
}

/* ---- the tree ---- */

static int is_taken(const struct ri_nics *nics, int32_t object)
{
    for (int i = 0; i < nics->count; i++)
        if (nics->ports[i].object == object)
            return 1;
    return 0;
}

/* Is this object of a library the port, by its names, and how surely?  0: no. */
static int likeness(const struct ri_topo_object *object, const struct ri_nic_port *port)
{
    const struct ri_topo_nic *nic = &port->nic;

    if (object->pci[0] && port->pci.id[0] && strcmp(object->pci, port->pci.id) != 0)
        return 0;
    if (strcmp(object->name, port->name) == 0)
        return 3;
    if (nic->device[0] && strcmp(object->nic.device, nic->device) == 0)
        return object->nic.port == nic->port ? 3 : object->nic.port == 0;
    if (nic->netdev[0] && (strcmp(object->name, nic->netdev) == 0 || strcmp(object->nic.netdev, nic->netdev) == 0))
        return 2;
    return object->pci[0] && !object->nic.device[0] && !object->nic.netdev[0] &&
           strcmp(object->pci, port->pci.id) == 0;
}

/* The object that is there already for a port; -1: none. */
static int32_t find_object(const struct ri_topo *topo, int32_t host, const struct ri_nics *nics,
                           const struct ri_nic_port *port)
{
    int32_t found = -1;
    int best = 0;

    for (int32_t i = host + 1; i < topo->object_count && topo->objects[i].kind != RI_TOPO_HOST; i++)
        if (topo->objects[i].kind == RI_TOPO_NIC && !is_taken(nics, i) &&
            likeness(&topo->objects[i], port) > best) {
            best = likeness(&topo->objects[i], port);
            found = i;
        }
    return found;
}

static int is_member(const struct ri_nic_port *port, const char *members)
{
    const char *name = port->nic.netdev;
    size_t length = strlen(name);

    for (const char *at = members; length && (at = strstr(at, name)); at += length)
        if ((at == members || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return 1;
    return 0;
}

/* A bond stands where all its members do, and is as fast as they are. */
static int32_t bond_parent(const struct ri_topo *topo, int32_t host, const struct ri_nics *nics,
                           struct ri_nic_port *bond)
{
    int32_t parent = -1;
    double sum = 0, most = 0;

    for (int i = 0; i < nics->count; i++) {
        const struct ri_nic_port *port = &nics->ports[i];
        int32_t at = port->object < 0 ? -1 : topo->objects[port->object].parent;

        if (at < 0 || !is_member(port, bond->members))
            continue;
        parent = parent < 0 ? at : ri_topo_common(topo, parent, at);
        sum += port->nic.gbps;
        most = port->nic.gbps > most ? port->nic.gbps : most;
        bond->nic.is_virtual &= port->nic.is_virtual;
    }
    if (bond->nic.gbps == 0 && bond->nic.state == RI_TOPO_ACTIVE)
        bond->nic.gbps = bond->is_spare ? most : sum;
    return parent < 0 ? host : parent;
}

static void fill(struct ri_topo_object *object, const struct ri_nic_port *port)
{
    object->nic = port->nic;
    snprintf(object->name, sizeof(object->name), "%s", port->name);
    if (port->pci.id[0])
        snprintf(object->pci, sizeof(object->pci), "%s", port->pci.id);
    if (!object->model[0])
        snprintf(object->model, sizeof(object->model), "%s", port->model);
    if (port->pci.link_gbps > 0)
        object->link_gbps = port->pci.link_gbps;
    if (port->pci.full_gbps > object->link_gbps * 1.01 && object->link_gbps > 0)
        object->full_gbps = port->pci.full_gbps;
}

static void place(struct ri_topo *topo, int32_t host, struct ri_nics *nics, struct ri_nic_port *port)
{
    int32_t parent;

    port->object = find_object(topo, host, nics, port);
    if (port->object < 0) {
        parent = port->members[0] && !port->pci.id[0] ? bond_parent(topo, host, nics, port)
                                                      : ri_pci_parent(topo, host, &port->pci);
        port->object = ri_topo_add(topo, RI_TOPO_NIC, parent, -1);
    }
    if (port->object >= 0)
        fill(&topo->objects[port->object], port);
}

static void say_what_is_unreadable(struct ri_topo *topo, const struct ri_nics *nics)
{
    if (nics->unreadable == 1)
        ri_topo_notice(topo, "%s cannot be read: %s", nics->first, ri_errno_text(nics->why));
    else if (nics->unreadable > 1)
        ri_topo_notice(topo, "%d files of network adapters cannot be read, first %s: %s", nics->unreadable,
                       nics->first, ri_errno_text(nics->why));
}

void ri_topo_add_nics(struct ri_source *source, struct ri_topo *topo, int32_t host)
{
    struct ri_nics nics = { .source = source };

    ri_rdma_read(&nics);
    ri_netdev_read(&nics);
    for (int bonds = 0; bonds < 2; bonds++)
        for (int i = 0; i < nics.count; i++)
            if ((nics.ports[i].members[0] != 0) == bonds)
                place(topo, host, &nics, &nics.ports[i]);
    say_what_is_unreadable(topo, &nics);
    if (nics.no_memory && !topo->error)
        topo->error = ri_error(RONDO_ERR_MEMORY, "no memory for the network adapters of a host");
    free(nics.ports);
    ri_verbs_add(source, topo, host);
}
