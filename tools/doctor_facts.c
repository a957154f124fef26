/* SPDX-License-Identifier: Apache-2.0 */
/* What a doctor knows before it judges.  "limits/..." are notes of discovery, "doctor/..." our own. */
#include <rondo/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tools/doctor.h"
#include "topo/find.h"

enum { CAP_IPC_LOCK_BIT = 14, MOST_ERRNO = 4095, MOST_THREADS = 1024 };

static long long ask_number(struct ri_source *source, const char *name, long long fallback)
{
    char *text = ri_source_ask(source, name), *end;
    long long number = fallback;

    if (text && *text) {
        number = strtoll(text, &end, 10);
        if (*end)
            number = fallback;
    }
    free(text);
    return number;
}

/* What is out of range, nobody has said. */
static int ask_whole(struct ri_source *source, const char *name, int least, int most, int fallback)
{
    long long number = ask_number(source, name, fallback);

    return number >= least && number <= most ? (int)number : fallback;
}

static int has_word(const char *text, const char *word)
{
    const char *at = strstr(text, word);

    return at && (at == text || at[-1] == ' ') && strchr(" ", at[strlen(word)]);
}

static void gather_build(struct ri_source *source, struct doctor_facts *facts)
{
    char *text = ri_source_ask(source, "doctor/build");

    if (!text)
        return;
    facts->has_ucx = has_word(text, "ucx");
    facts->has_hwloc = has_word(text, "hwloc");
    facts->has_verbs = has_word(text, "verbs");
    free(text);
}

/* UCX loads its transports from a folder beside its libraries. */
static void gather_uct(struct ri_source *source, struct doctor_facts *facts)
{
    char *text = ri_source_ask(source, "doctor/uct"), *names, path[300];

    if (!text)
        return;
    snprintf(path, sizeof(path), "%.280s/ucx", text);
    names = ri_source_list(source, path);
    if (names) {
        snprintf(facts->uct, sizeof(facts->uct), "%s", path);
        facts->uct_knows_gpus = strstr(names, "libuct_cuda") || strstr(names, "libuct_rocm");
    }
    free(names);
    free(text);
}

/* A capability counts where root is that of the machine: user namespaces begin with another map. */
static int may_lock_all(struct ri_source *source)
{
    char text[4096], map[128];
    unsigned first, host_first, count;
    const char *at;

    if (ri_source_text(source, "/proc/self/status", text, sizeof(text)) ||
        ri_source_text(source, "/proc/self/uid_map", map, sizeof(map)))
        return 0;
    if (sscanf(map, "%u %u %u", &first, &host_first, &count) != 3 || first || host_first || count != UINT32_MAX)
        return 0;
    at = strstr(text, "\nCapEff:");
    return at && (strtoull(at + strlen("\nCapEff:"), NULL, 16) >> CAP_IPC_LOCK_BIT & 1);
}

static int seccomp_of(struct ri_source *source)
{
    char text[4096];
    const char *at;

    if (ri_source_text(source, "/proc/self/status", text, sizeof(text)))
        return DOCTOR_UNKNOWN;
    at = strstr(text, "\nSeccomp:");
    return at ? atoi(at + strlen("\nSeccomp:")) : DOCTOR_UNKNOWN;
}

/* Where other limits are known, a /dev/shm that is not is not there. */
static void gather_limits(struct ri_source *source, struct doctor_facts *facts)
{
    int unknown;

    facts->memlock_bytes = ask_number(source, "limits/memlock", DOCTOR_UNKNOWN);
    unknown = facts->memlock_bytes == DOCTOR_UNKNOWN ? DOCTOR_UNKNOWN : DOCTOR_MISSING;
    facts->shm_bytes = ask_number(source, "limits/shm", unknown);
    facts->shm_free_bytes = ask_number(source, "limits/shm_free", unknown);
    facts->may_lock_all = may_lock_all(source);
}

/* No more than fits, whatever a recording says. */
static int64_t bytes_of(double bytes)
{
    return bytes > 0 ? (bytes < 9e18 ? (int64_t)bytes : INT64_MAX) : 0;
}

static void gather_groups(struct ri_source *source, struct doctor_facts *facts)
{
    struct ri_topo_group_limits limits;

    ri_topo_read_group_limits(source, &limits);
    facts->cpu_quota = limits.processors;
    facts->memory_bytes = bytes_of(limits.machine_bytes);
    facts->memory_limit_bytes = bytes_of(limits.memory_bytes);
}

static void gather_system(struct ri_source *source, struct doctor_facts *facts)
{
    gather_groups(source, facts);
    gather_limits(source, facts);
    facts->memfd_errno = ask_whole(source, "doctor/memfd", 0, MOST_ERRNO, DOCTOR_UNKNOWN);
    facts->cma_errno = ask_whole(source, "doctor/cma", 0, MOST_ERRNO, DOCTOR_UNKNOWN);
    facts->threads = ask_whole(source, "doctor/threads", 1, MOST_THREADS, 1);
    facts->ptrace_scope = (int)ri_source_number(source, "/proc/sys/kernel/yama/ptrace_scope", DOCTOR_UNKNOWN);
    facts->seccomp = seccomp_of(source);
    gather_build(source, facts);
    gather_uct(source, facts);
}

void doctor_keep(struct ri_source *source)
{
    struct doctor_facts unused = { .topo = NULL };

    doctor_look(source);
    gather_system(source, &unused);
}

/* ---- ranks ---- */

static int place(struct ri_topo *topo, int ranks)
{
    int hosts = ri_topo_hosts(topo), err;
    int32_t *host_of;

    if (ranks == 0)
        return ri_topo_place(topo, 0, NULL, NULL);
    if (ranks > 1000000 / (hosts ? hosts : 1))
        return ri_error(RONDO_ERR_ARGUMENT, "%d ranks on each of %d hosts are too many", ranks, hosts);
    host_of = malloc(((size_t)ranks * (size_t)hosts + 1) * sizeof(*host_of));
    if (!host_of)
        return ri_error(RONDO_ERR_MEMORY, "no memory for %d ranks", ranks * hosts);
    for (int r = 0; r < ranks * hosts; r++)
        host_of[r] = r / ranks;
    err = ri_topo_place(topo, ranks * hosts, host_of, NULL);
    free(host_of);
    return err;
}

static int ranks_of_first_host(const struct ri_topo *topo)
{
    int32_t host = ri_topo_find(topo, -1, RI_TOPO_HOST, 0);
    int count = 0;

    for (int r = 0; r < topo->rank_count; r++)
        count += ri_topo_host_of(topo, topo->ranks[r].object) == host;
    return count;
}

static int has_fabric(const struct ri_topo *topo)
{
    for (int32_t i = 0; i < topo->object_count; i++)
        if (topo->objects[i].kind == RI_TOPO_NIC && topo->objects[i].nic.port > 0 &&
            !topo->objects[i].nic.unusable[0])
            return 1;
    return 0;
}

int doctor_gather(struct ri_source *source, struct ri_topo *topo, int ranks, enum doctor_fabric fabric,
                  struct doctor_facts *facts)
{
    int32_t host = ri_topo_find(topo, -1, RI_TOPO_HOST, 0);
    int err = place(topo, ranks);

    if (err)
        return err;
    *facts = (struct doctor_facts){
        .topo = topo,
        .ranks = ranks_of_first_host(topo),
        .ranks_are_asked = ranks > 0,
        .fabric = fabric,
        .wants_fabric = fabric == DOCTOR_FABRIC_YES || (fabric == DOCTOR_FABRIC_AUTO && has_fabric(topo)),
        .is_looked_at = source != NULL,
        .memlock_bytes = DOCTOR_UNKNOWN,
        .shm_bytes = DOCTOR_UNKNOWN,
        .shm_free_bytes = DOCTOR_UNKNOWN,
        .memfd_errno = DOCTOR_UNKNOWN,
        .cma_errno = DOCTOR_UNKNOWN,
        .ptrace_scope = DOCTOR_UNKNOWN,
        .seccomp = DOCTOR_UNKNOWN,
        .cpus = host < 0 ? 0 : topo->objects[host].cpu_count,
        .threads = 1,
        .has_ucx = DOCTOR_UNKNOWN,
        .has_hwloc = DOCTOR_UNKNOWN,
        .has_verbs = DOCTOR_UNKNOWN,
    };
    if (source)
        gather_system(source, facts);
    return 0;
}
