/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of what processes may do on a host, and of what Rondo is built with. */
#include <errno.h>
#include <string.h>

#include "tools/doctor.h"
#include "topo/nic.h"

/* UCX takes so much of /dev/shm for a rank; Rondo's own shm needs the mount only where there is no memfd_create,
 * and then lays all blocks there. */
static const int64_t ucx_rank_bytes = 8 << 20, shm_rank_bytes = 64 << 20;
static const int64_t least_rank_memory = 1 << 30;

/* "64 MiB", "23.5 GiB". */
struct size_text {
    char text[32];
};

static struct size_text size_of(int64_t bytes)
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
    double size = (double)bytes / 1024;
    struct size_text out;
    int unit = 0;

    for (; size >= 1024 && unit < 3; unit++)
        size /= 1024;
    snprintf(out.text, sizeof(out.text), "%.4g %s", size, units[unit]);
    return out;
}

static void say_unknown(const struct doctor_facts *facts, struct doctor_finding *finding, const char *what)
{
    if (facts->is_looked_at)
        doctor_say(finding, DOCTOR_SKIP, "%s cannot be found out here", what);
    else
        doctor_say(finding, DOCTOR_SKIP, "a description says nothing of %s", what);
}

/* ---- memory that is locked or shared ---- */

void doctor_memlock(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    char text[sizeof(finding->text)], *remedy;

    if (facts->memlock_bytes == DOCTOR_UNKNOWN) {
        say_unknown(facts, finding, "the limit of locked memory");
        return;
    }
    ri_topo_memlock_text(facts->memlock_bytes, facts->wants_fabric, text, sizeof(text));
    if (!text[0]) {
        if (facts->memlock_bytes < 0)
            doctor_say(finding, DOCTOR_PASS, "unlimited");
        else
            doctor_say(finding, DOCTOR_PASS, "%s%s", size_of(facts->memlock_bytes).text,
                       facts->wants_fabric ? "" : "; no fabric is asked for");
        return;
    }
    remedy = strstr(text, "; ");
    if (remedy) {
        *remedy = 0;
        doctor_remedy(finding, "%.300s", remedy + 2);
    }
    if (facts->may_lock_all)
        doctor_say(finding, DOCTOR_WARN, "%.400s, unless a process has CAP_IPC_LOCK, as this one does", text);
    else
        doctor_say(finding, DOCTOR_FAIL, "%.500s", text);
}

/* Without memfd_create, what ranks share lies in /dev/shm. */
static void judge_shm_blocks(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    int64_t need = facts->ranks * shm_rank_bytes;

    if (facts->shm_free_bytes >= need) {
        doctor_say(finding, DOCTOR_PASS, "%s free in /dev/shm, which blocks of %d ranks share",
                   size_of(facts->shm_free_bytes).text, facts->ranks);
        return;
    }
    if (facts->shm_free_bytes < 0)
        doctor_say(finding, DOCTOR_FAIL, "neither memfd_create (%s) nor /dev/shm is there: ranks of a host have "
                   "no memory to share", strerror(facts->memfd_errno));
    else
        doctor_say(finding, DOCTOR_FAIL, "%s of %s free in /dev/shm, where blocks of %d ranks lie as "
                   "memfd_create does not work (%s): they need %s or more", size_of(facts->shm_free_bytes).text,
                   size_of(facts->shm_bytes).text, facts->ranks, strerror(facts->memfd_errno), size_of(need).text);
    doctor_remedy(finding, "mount -o remount,size=50%% /dev/shm; docker --shm-size=16g or --ipc=host; Kubernetes: an "
                  "emptyDir of medium Memory at /dev/shm");
}

void doctor_shm(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    int64_t need = facts->ranks * ucx_rank_bytes;

    if (facts->shm_free_bytes == DOCTOR_UNKNOWN) {
        say_unknown(facts, finding, "/dev/shm");
        return;
    }
    if (facts->memfd_errno > 0) {
        judge_shm_blocks(facts, finding);
        return;
    }
    if (facts->shm_free_bytes >= need) {
        doctor_say(finding, DOCTOR_PASS, "%s free in /dev/shm, %d rank%s may need %s",
                   size_of(facts->shm_free_bytes).text, facts->ranks, facts->ranks == 1 ? "" : "s", size_of(need).text);
        return;
    }
    if (facts->shm_free_bytes < 0)
        doctor_say(finding, DOCTOR_WARN, "/dev/shm is not there: UCX, NCCL and PyTorch miss it, Rondo's shm does not");
    else
        doctor_say(finding, DOCTOR_WARN, "%s of %s free in /dev/shm, %d ranks may need %s: UCX goes "
                   "on without it, others die of it", size_of(facts->shm_free_bytes).text, size_of(facts->shm_bytes).text, facts->ranks,
                   size_of(need).text);
    doctor_remedy(finding, "mount -o remount,size=50%% /dev/shm; docker --shm-size=1g or --ipc=host; Kubernetes: an "
                  "emptyDir of medium Memory at /dev/shm");
}

/* ---- memory of others ---- */

void doctor_cma(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    char scope[48] = "";

    if (facts->cma_errno == DOCTOR_UNKNOWN) {
        say_unknown(facts, finding, "whether processes may read each other");
        return;
    }
    if (facts->cma_errno == 0) {
        doctor_say(finding, DOCTOR_PASS, "process_vm_readv reads memory of another process");
        return;
    }
    if (facts->ptrace_scope > 0)
        snprintf(scope, sizeof(scope), "; yama ptrace_scope is %d", facts->ptrace_scope);
    doctor_say(finding, DOCTOR_WARN, "process_vm_readv of another process: %s%s%s; what is not in Rondo's own memory "
               "is copied twice", strerror(facts->cma_errno), scope,
               facts->seccomp == 2 ? "; a seccomp filter is set" : "");
    if (facts->ptrace_scope > 0)
        doctor_remedy(finding, "sysctl kernel.yama.ptrace_scope=0, or CAP_SYS_PTRACE for the ranks (docker "
                      "--cap-add=SYS_PTRACE)");
    else
        doctor_remedy(finding, "docker --cap-add=SYS_PTRACE, or a seccomp profile that allows process_vm_readv; start "
                      "all ranks of a host as one user");
}

/* ---- processors and memory ---- */

void doctor_cores(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    int threads = facts->ranks * facts->threads;
    double may_use = facts->cpus;

    if (facts->cpu_quota > 0 && (facts->cpu_quota < may_use || facts->cpus == 0))
        may_use = facts->cpu_quota;
    if (may_use <= 0) {
        say_unknown(facts, finding, "the processors that may be used");
        return;
    }
    if (facts->ranks > may_use) {
        doctor_say(finding, DOCTOR_WARN, "%d ranks on %.4g processors that may be used: they take turns",
                   facts->ranks, may_use);
        doctor_remedy(finding, "start fewer ranks, or allow more processors (taskset, cgroup cpuset and cpu.max, "
                      "docker --cpus, Slurm --cpus-per-task)");
    } else if (threads > may_use) {
        doctor_say(finding, DOCTOR_WARN, "%d rank%s of %d threads on %.4g processors that may be used", facts->ranks,
                   facts->ranks == 1 ? "" : "s", facts->threads, may_use);
        doctor_remedy(finding, "set RONDO_THREADS to %d, or allow more processors", (int)(may_use / facts->ranks));
    } else {
        doctor_say(finding, DOCTOR_PASS, "%.4g processors may be used, %d rank%s of %d thread%s", may_use, facts->ranks,
                   facts->ranks == 1 ? "" : "s", facts->threads, facts->threads == 1 ? "" : "s");
    }
}

void doctor_memory(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    int64_t limit = facts->memory_limit_bytes;

    if (limit <= 0 && facts->memory_bytes <= 0) {
        say_unknown(facts, finding, "the memory that may be used");
        return;
    }
    if (limit <= 0 || (facts->memory_bytes > 0 && limit > facts->memory_bytes))
        limit = facts->memory_bytes;
    if (limit / (facts->ranks ? facts->ranks : 1) >= least_rank_memory) {
        doctor_say(finding, DOCTOR_PASS, "%s may be used", size_of(limit).text);
        return;
    }
    doctor_say(finding, DOCTOR_WARN, "%s may be used%s: less than %s for each of %d ranks", size_of(limit).text,
               limit == facts->memory_limit_bytes ? " (limit of the cgroup)" : "", size_of(least_rank_memory).text, facts->ranks);
    doctor_remedy(finding, "raise the limit (cgroup memory.max, docker --memory, Slurm --mem), or start fewer ranks");
}

/* ---- what Rondo is built with ---- */

void doctor_ucx(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    if (facts->has_ucx == DOCTOR_UNKNOWN) {
        say_unknown(facts, finding, "how Rondo is built");
    } else if (facts->has_ucx) {
        doctor_say(finding, DOCTOR_PASS, "built in%s%s", facts->uct[0] ? "; transports in " : "", facts->uct);
    } else {
        doctor_say(finding, facts->fabric == DOCTOR_FABRIC_YES ? DOCTOR_FAIL : DOCTOR_WARN,
                   "Rondo is built without UCX: ranks on several hosts cannot talk");
        doctor_remedy(finding, "install UCX with its headers (libucx-dev, ucx-devel) and configure --with-ucx");
    }
}

void doctor_ucx_gpus(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    int gpus = 0;

    for (int32_t i = 0; i < facts->topo->object_count; i++)
        gpus += facts->topo->objects[i].kind == RI_TOPO_GPU;
    if (gpus == 0) {
        doctor_say(finding, DOCTOR_SKIP, "there are no GPUs");
    } else if (!facts->uct[0]) {
        say_unknown(facts, finding, "which transports UCX has");
    } else if (facts->uct_knows_gpus) {
        doctor_say(finding, DOCTOR_PASS, "UCX has a transport for memory of GPUs");
    } else {
        doctor_say(finding, DOCTOR_WARN, "%d GPU%s, but %.200s has neither libuct_cuda nor libuct_rocm: memory of GPUs "
                   "goes through that of the host", gpus, gpus == 1 ? "" : "s", facts->uct);
        doctor_remedy(finding, "install a UCX that was configured --with-cuda or --with-rocm (packages ucx-cuda, "
                      "ucx-rocm)");
    }
}

static int has_rdma(const struct ri_topo *topo)
{
    for (int32_t i = 0; i < topo->object_count; i++)
        if (topo->objects[i].kind == RI_TOPO_NIC && topo->objects[i].nic.port > 0)
            return 1;
    return 0;
}

void doctor_libraries(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    if (facts->has_hwloc == DOCTOR_UNKNOWN) {
        say_unknown(facts, finding, "how Rondo is built");
        return;
    }
    if (!facts->has_hwloc)
        doctor_item(finding, DOCTOR_WARN, "Rondo is built without hwloc: places are what /sys tells");
    if (!facts->has_verbs && has_rdma(facts->topo))
        doctor_item(finding, DOCTOR_WARN, "Rondo is built without libibverbs: whether adapters can be opened is not "
                    "tried");
    if (finding->items)
        doctor_remedy(finding, "install libhwloc-dev and libibverbs-dev (hwloc-devel, rdma-core-devel) and configure "
                      "again");
    else
        doctor_say(finding, DOCTOR_PASS, "hwloc%s built in", facts->has_verbs ? " and libibverbs" : " is");
}

/* Other checks have said which processors and memory may be used, and what of GPUs is not seen; and memory without
 * processors, as GPUs and CXL have it, is nothing to be mended. */
static int is_said(const char *line)
{
    static const char *const said[] = { "this process may use ", DOCTOR_LOST_LINKS, "NUMA nodes that are memory " };

    for (size_t i = 0; i < sizeof(said) / sizeof(*said); i++)
        if (strncmp(line, said[i], strlen(said[i])) == 0)
            return 1;
    return 0;
}

void doctor_notices(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    const char *line = facts->topo->notices ? facts->topo->notices : "";

    while (*line) {
        size_t length = strcspn(line, "\n");

        if (length && !is_said(line))
            doctor_item(finding, DOCTOR_WARN, "%.*s", (int)length, line);
        line += length;
        line += *line == '\n';
    }
    if (!finding->items)
        doctor_say(finding, DOCTOR_PASS, "all that was looked for could be found out");
}
