/* SPDX-License-Identifier: Apache-2.0 */
/* Packages and NUMA nodes as /sys shows them, for when hwloc does not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "topo/cpus.h"
#include "topo/find.h"
#include "topo/source.h"
#include "topo/topo.h"

struct sys {
    struct ri_source *source;
    struct ri_topo *topo;
    int32_t host;
    struct ri_cpus online, in_nodes;
};

static int read_cpus(struct ri_source *source, const char *path, struct ri_cpus *cpus)
{
    char text[4096];
    int err = ri_source_text(source, path, text, sizeof(text));

    return err ? err : ri_cpus_parse(text, cpus);
}

static void set_cpus(struct ri_topo_object *object, const struct ri_cpus *cpus)
{
    object->cpu_count = ri_cpus_count(cpus);
    ri_cpus_print(cpus, object->cpus, sizeof(object->cpus));
}

/* The package of all of a node's processors; -1: unknown, or there are several. */
static int package_of(struct sys *sys, const struct ri_cpus *cpus)
{
    int package = -1;

    for (int cpu = ri_cpus_next(cpus, 0); cpu >= 0; cpu = ri_cpus_next(cpus, cpu + 1)) {
        char path[96];
        long long found;

        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
        found = ri_source_number(sys->source, path, -1);
        if (found < 0 || found > INT32_MAX || (package >= 0 && found != package))
            return -1;
        package = (int)found;
    }
    return package;
}

/* The object of a package, appended where it is new; the host where there is none. */
static int32_t package_object(struct sys *sys, int package)
{
    if (package < 0)
        return sys->host;
    for (int32_t i = sys->host; i < sys->topo->object_count; i++)
        if (sys->topo->objects[i].kind == RI_TOPO_PACKAGE && sys->topo->objects[i].number == package)
            return i;
    return ri_topo_add(sys->topo, RI_TOPO_PACKAGE, sys->host, package);
}

static int64_t memory_of(struct sys *sys, const char *node)
{
    char path[128], text[1024];
    const char *at;

    snprintf(path, sizeof(path), "/sys/devices/system/node/%.32s/meminfo", node);
    if (ri_source_text(sys->source, path, text, sizeof(text)))
        return 0;
    at = strstr(text, "MemTotal:");
    return at ? strtoll(at + strlen("MemTotal:"), NULL, 10) * 1024 : 0;
}

/* 0, or -1 where the node has processors of another. */
static int add_node(struct sys *sys, const char *name)
{
    struct ri_cpus cpus;
    char path[128];
    int32_t node;

    if (strncmp(name, "node", 4) != 0 || name[4] < '0' || name[4] > '9')
        return 0;
    snprintf(path, sizeof(path), "/sys/devices/system/node/%.32s/cpulist", name);
    if (read_cpus(sys->source, path, &cpus) || ri_cpus_count(&cpus) == 0)
        return 0;
    if (ri_cpus_overlap(&cpus, &sys->in_nodes))
        return -1;
    ri_cpus_add(&sys->in_nodes, &cpus);
    node = ri_topo_add(sys->topo, RI_TOPO_NUMA, package_object(sys, package_of(sys, &cpus)), atoi(name + 4));
    if (node < 0)
        return 0;
    set_cpus(&sys->topo->objects[node], &cpus);
    sys->topo->objects[node].memory_bytes = memory_of(sys, name);
    return 0;
}

static void add_nodes(struct sys *sys)
{
    char *names = ri_source_list(sys->source, "/sys/devices/system/node"), *rest = names, *name;
    int crossing = 0;

    while (names && !crossing && (name = strsep(&rest, "\n")))
        crossing = add_node(sys, name);
    free(names);
    for (int cpu = ri_cpus_next(&sys->online, 0); names && cpu >= 0; cpu = ri_cpus_next(&sys->online, cpu + 1))
        crossing |= !ri_cpus_has(&sys->in_nodes, cpu);
    if (!crossing)
        return;
    sys->topo->object_count = sys->host + 1;
    ri_topo_notice(sys->topo, "NUMA nodes contradict each other or leave processors out; the host is treated as one "
                   "node");
}

int ri_topo_from_sys(struct ri_source *source, struct ri_topo **topo)
{
    struct sys sys = { .source = source, .topo = ri_topo_create() };
    int err;

    if (!sys.topo)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a topology");
    sys.host = ri_topo_add(sys.topo, RI_TOPO_HOST, -1, 0);
    if (sys.host >= 0) {
        if (read_cpus(source, "/sys/devices/system/cpu/online", &sys.online) == 0)
            set_cpus(&sys.topo->objects[sys.host], &sys.online);
        add_nodes(&sys);
    }
    err = sys.topo->error;
    if (err) {
        ri_topo_destroy(sys.topo);
        return err;
    }
    *topo = sys.topo;
    return 0;
}
