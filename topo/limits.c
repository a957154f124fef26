/* SPDX-License-Identifier: Apache-2.0 */
/* What of its host this process may use: processors, memory; and what it may share and lock. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "topo/cpus.h"
#include "topo/find.h"
#include "topo/source.h"
#include "topo/topo.h"

/* ---- calls of the system, kept as notes ---- */

static void note_number(struct ri_source *source, const char *name, long long number)
{
    char text[32];

    snprintf(text, sizeof(text), "%lld", number);
    ri_source_note(source, name, text);
}

static void note_mask(struct ri_source *source)
{
    size_t bytes = CPU_ALLOC_SIZE(RI_CPUS_MOST);
    cpu_set_t *set = CPU_ALLOC(RI_CPUS_MOST);
    struct ri_cpus cpus = { { 0 } };
    char text[4096];

    if (set && sched_getaffinity(0, bytes, set) == 0) {
        for (int cpu = 0; cpu < RI_CPUS_MOST; cpu++)
            if (CPU_ISSET_S(cpu, bytes, set))
                ri_cpus_set(&cpus, cpu);
        ri_cpus_print(&cpus, text, sizeof(text));
        ri_source_note(source, "limits/cpus", text);
    }
    CPU_FREE(set);
}

/* "limits/shm" and "limits/shm_free": bytes of /dev/shm; "limits/memlock": bytes, -1 for no limit;
 * "limits/cpus": the processors this thread may run on. */
static void note_limits(struct ri_source *source)
{
    struct statvfs shm;
    struct rlimit locked;

    note_mask(source);
    if (statvfs("/dev/shm", &shm) == 0) {
        note_number(source, "limits/shm", (long long)(shm.f_blocks * shm.f_frsize));
        note_number(source, "limits/shm_free", (long long)(shm.f_bavail * shm.f_frsize));
    }
    if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0)
        note_number(source, "limits/memlock",
                    locked.rlim_cur == RLIM_INFINITY ? -1 : (long long)locked.rlim_cur);
}

/* ---- processors ---- */

static int processors_of_machine(struct ri_source *source, const struct ri_topo_object *host)
{
    struct ri_cpus online;
    char text[4096];

    if (ri_source_text(source, "/sys/devices/system/cpu/online", text, sizeof(text)) ||
        ri_cpus_parse(text, &online))
        return host->cpu_count;
    return ri_cpus_count(&online);
}

/* The mask lies within what cpusets of cgroups allow, so it says all. */
static void apply_mask(struct ri_source *source, struct ri_topo *topo, int32_t host, int processors)
{
    char *text = ri_source_ask(source, "limits/cpus");
    struct ri_topo_object *object = &topo->objects[host];
    struct ri_cpus mask;

    if (text && *text && ri_cpus_parse(text, &mask) == 0) {
        object->cpu_count = ri_cpus_count(&mask);
        ri_cpus_print(&mask, object->cpus, sizeof(object->cpus));
        if (object->cpu_count < processors)
            ri_topo_notice(topo, "this process may use %d of %d processors (affinity mask or cpuset)",
                           (int)object->cpu_count, processors);
    }
    free(text);
}

/* ---- cgroups ---- */

/* The folder of this process for a controller in "4:cpu,cpuacct:/jobs/7", or "" (version 2) in "0::/jobs/7". */
static int group_of(struct ri_source *source, const char *controller, char *path, size_t bytes)
{
    char text[4096], *rest = text, *line;

    if (ri_source_text(source, "/proc/self/cgroup", text, sizeof(text)))
        return 0;
    while ((line = strsep(&rest, "\n"))) {
        char *names = strchr(line, ':'), *folder = names ? strchr(names + 1, ':') : NULL, *name;

        if (!folder)
            continue;
        *folder++ = 0;
        for (names++; (name = strsep(&names, ","));)
            if (strcmp(name, controller) == 0)
                return snprintf(path, bytes, "%s", folder) < (int)bytes;
    }
    return 0;
}

/* A limit in one folder, in processors or bytes; 0: none. */
typedef double limit_reader(struct ri_source *source, const char *folder);

static double read_cpu_max(struct ri_source *source, const char *folder)
{
    char path[1024], text[64];
    double quota, period;

    snprintf(path, sizeof(path), "%s/cpu.max", folder);
    if (ri_source_text(source, path, text, sizeof(text)) || sscanf(text, "%lf %lf", &quota, &period) != 2)
        return 0;
    return quota > 0 && period > 0 ? quota / period : 0;
}

static double read_cpu_quota(struct ri_source *source, const char *folder)
{
    char path[1024];
    long long quota, period;

    snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder);
    quota = ri_source_number(source, path, 0);
    snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
    period = ri_source_number(source, path, 0);
    return quota > 0 && period > 0 ? (double)quota / (double)period : 0;
}

static double read_memory_max(struct ri_source *source, const char *folder)
{
    char path[1024];

    snprintf(path, sizeof(path), "%s/memory.max", folder);
    return (double)ri_source_number(source, path, 0);
}

static double read_memory_limit(struct ri_source *source, const char *folder)
{
    char path[1024];

    snprintf(path, sizeof(path), "%s/memory.limit_in_bytes", folder);
    return (double)ri_source_number(source, path, 0);
}

static const struct limit {
    const char *controller, *mount, *file;
    limit_reader *read;
    int is_memory;
} limits[] = {
    { "", "/sys/fs/cgroup", "cpu.max", read_cpu_max, 0 },
    { "cpu", "/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", read_cpu_quota, 0 },
    { "", "/sys/fs/cgroup", "memory.max", read_memory_max, 1 },
    { "memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", read_memory_limit, 1 },
};

/* The smallest of a folder's and those above it: a group gets no more than its parents.  In a container the
 * path may be one of the host that is not to be seen here; then its upper end still is. */
static double smallest(struct ri_source *source, const struct limit *limit)
{
    char path[512], folder[768];
    double best = 0;
    char *slash;

    if (!group_of(source, limit->controller, path, sizeof(path)))
        return 0;
    do {
        double found;

        slash = strrchr(path, '/');
        snprintf(folder, sizeof(folder), "%s%s", limit->mount, strcmp(path, "/") == 0 ? "" : path);
        found = limit->read(source, folder);
        if (found > 0 && (best <= 0 || found < best))
            best = found;
        if (slash)
            *slash = 0;
    } while (slash);
    return best;
}

static double memory_of_machine(struct ri_source *source)
{
    char text[4096];
    const char *at;

    if (ri_source_text(source, "/proc/meminfo", text, sizeof(text)))
        return 0;
    at = strstr(text, "MemTotal:");
    return at ? strtod(at + strlen("MemTotal:"), NULL) * 1024 : 0;
}

static void add_groups(struct ri_source *source, struct ri_topo *topo, int processors)
{
    double memory = memory_of_machine(source);

    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        double found = smallest(source, &limits[i]), all = limits[i].is_memory ? memory : processors;
        const double gib = 1024.0 * 1024 * 1024;

        if (found <= 0 || (all > 0 && found >= all))
            continue;
        if (!limits[i].is_memory)
            ri_topo_notice(topo, "this process may use %.1f of %d processors (cgroup %s)", found, processors,
                           limits[i].file);
        else if (all > 0)
            ri_topo_notice(topo, "this process may use %.1f of %.1f GiB of memory (cgroup %s)", found / gib, all / gib,
                           limits[i].file);
    }
}

void ri_topo_read_group_limits(struct ri_source *source, struct ri_topo_group_limits *out)
{
    *out = (struct ri_topo_group_limits){ .machine_bytes = memory_of_machine(source) };
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        double *least = limits[i].is_memory ? &out->memory_bytes : &out->processors;
        double found = smallest(source, &limits[i]);

        if (found > 0 && (*least <= 0 || found < *least))
            *least = found;
    }
    if (out->machine_bytes > 0 && out->memory_bytes >= out->machine_bytes)
        out->memory_bytes = 0;
}

void ri_topo_add_limits(struct ri_source *source, struct ri_topo *topo, int32_t host)
{
    int processors = processors_of_machine(source, &topo->objects[host]);

    if (ri_source_is_live(source))
        note_limits(source);
    apply_mask(source, topo, host, processors);
    add_groups(source, topo, processors);
}
