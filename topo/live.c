/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what one host is made of.  Whatever cannot be found out costs a notice and no more. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "topo/find.h"
#include "topo/pci.h"
#include "topo/source.h"
#include "topo/topo.h"

enum { CPUINFO_BYTES = 1 << 20 };

/* As many as /proc/cpuinfo has paragraphs of; 0: it does not say. */
static int processors_in_cpuinfo(struct ri_source *source)
{
    char *text = malloc(CPUINFO_BYTES);
    int count = 0;

    if (text && ri_source_text(source, "/proc/cpuinfo", text, CPUINFO_BYTES) == 0)
        for (char *at = text; (at = strstr(at, "processor")); at++)
            count += (at == text || at[-1] == '\n') && at[9 + strspn(at + 9, " \t")] == ':';
    free(text);
    return count;
}

/* Some sandboxes show no processors in /sys; libraries then guess, or fail. */
static int flat_host(struct ri_source *source, struct ri_topo **topo)
{
    struct ri_topo *made = ri_topo_create();
    int32_t host = made ? ri_topo_add(made, RI_TOPO_HOST, -1, 0) : -1;

    if (host < 0) {
        ri_topo_destroy(made);
        return ri_error(RONDO_ERR_MEMORY, "no memory for a topology");
    }
    made->objects[host].cpu_count = processors_in_cpuinfo(source);
    ri_topo_notice(made, "/sys shows no processors; the host is treated as one node");
    *topo = made;
    return 0;
}

static int has_processors(struct ri_source *source)
{
    char text[16];

    return ri_source_text(source, "/sys/devices/system/cpu/online", text, sizeof(text)) == 0 ||
           ri_source_text(source, "/sys/devices/system/cpu/cpu0/topology/core_id", text, sizeof(text)) == 0;
}

/* The host with its places, and what hwloc knows of devices. */
static int find_places(struct ri_source *source, struct ri_topo **topo)
{
    char why[256];
    int err;

    if (!has_processors(source))
        return flat_host(source, topo);
    err = ri_topo_from_hwloc(source, topo);
    if (!err || err == RONDO_ERR_MEMORY)
        return err;
    snprintf(why, sizeof(why), "%s", rondo_last_error());
    err = ri_topo_from_sys(source, topo);
    if (!err)
        ri_topo_notice(*topo, "%s; packages and NUMA nodes are those of /sys", why);
    return err;
}

/* Containers share a boot id with their machine and copies of a machine its host name: both together tell.  Names of
 * containers are long, and differ at their end: of such a one there is a hash. */
static void set_id(struct ri_topo_object *host, const char *boot)
{
    size_t room = sizeof(host->id) - strlen(boot) - 2;
    uint64_t hash = 0;

    for (const char *at = host->name; *at; at++)
        hash = ri_mix(hash, (unsigned char)*at);
    if (strlen(host->name) <= room)
        snprintf(host->id, sizeof(host->id), "%.39s %.*s", boot, (int)room, host->name);
    else
        snprintf(host->id, sizeof(host->id), "%.39s %.7s%016" PRIx64, boot, host->name, hash);
}

static void identify(struct ri_source *source, struct ri_topo_object *host)
{
    char name[64], boot[40];

    if (ri_source_text(source, "/proc/sys/kernel/hostname", name, sizeof(name)) == 0 && *name)
        snprintf(host->name, sizeof(host->name), "%s", name);
    else if (!ri_source_is_live(source)) /* hwloc gives every folder the name of this host */
        snprintf(host->name, sizeof(host->name), "host %d", (int)host->number);
    if (ri_source_text(source, "/proc/sys/kernel/random/boot_id", boot, sizeof(boot)) == 0 && *boot)
        set_id(host, boot);
}

/* hwloc reads speeds of links from registers, which not everyone may, and not what a link could do.  GPUs that
 * sleep slow down their link, which is that of the bridge above, too: it counts as it runs when they work. */
static void find_links(struct ri_source *source, struct ri_topo *topo)
{
    for (int32_t i = 0; i < topo->object_count; i++) {
        struct ri_topo_object *object = &topo->objects[i];
        double link, full;
        char folder[64];

        if (object->kind != RI_TOPO_BRIDGE || !object->pci[0])
            continue;
        snprintf(folder, sizeof(folder), "/sys/bus/pci/devices/%s", object->pci);
        ri_pci_busy_link(source, folder, &link, &full);
        if (link > 0) {
            object->link_gbps = link;
            object->full_gbps = full > link * 1.01 ? full : 0;
        }
    }
}

int ri_topo_discover(struct ri_source *source, struct ri_topo **topo)
{
    struct ri_topo *made = NULL;
    int err = find_places(source, &made);
    int32_t host;

    if (err)
        return err;
    host = ri_topo_find(made, -1, RI_TOPO_HOST, 0);
    identify(source, &made->objects[host]);
    ri_topo_add_limits(source, made, host);
    ri_topo_add_nics(source, made, host);
    ri_topo_add_gpus(source, made, host);
    find_links(source, made);
    err = made->error ? made->error : ri_topo_fold_bridges(made);
    if (err) {
        ri_topo_destroy(made);
        return err;
    }
    *topo = made;
    return 0;
}
