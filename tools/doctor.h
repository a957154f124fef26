/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_TOOLS_DOCTOR_H
#define RONDO_TOOLS_DOCTOR_H

#include <stdint.h>
#include <stdio.h>

#include "topo/source.h"
#include "topo/topo.h"

/* What is wrong with a host for the ranks that are to run on it.  First facts are gathered, of this machine or of
 * a recording; then each check judges them and looks at nothing else. */

enum doctor_fabric { DOCTOR_FABRIC_AUTO, DOCTOR_FABRIC_YES, DOCTOR_FABRIC_NO };

/* Of a fact: nobody could say.  Of /dev/shm: it is not there. */
enum { DOCTOR_UNKNOWN = -2, DOCTOR_MISSING = -3 };

struct doctor_facts {
    const struct ri_topo *topo;   /* with ranks */
    int ranks;                    /* of each host */
    int ranks_are_asked;          /* and not one for each GPU, or else NUMA node */
    enum doctor_fabric fabric;    /* what was asked for */
    int wants_fabric;             /* yes, or auto and there is an RDMA port that can be used */
    int is_looked_at;             /* the tree comes from a host itself, and not from a description of one */
    int64_t memlock_bytes;        /* -1: no limit */
    int may_lock_all;             /* CAP_IPC_LOCK: the limit is not asked */
    int64_t shm_bytes, shm_free_bytes; /* of /dev/shm */
    int memfd_errno, cma_errno;   /* 0: memfd_create and process_vm_readv work */
    int ptrace_scope, seccomp;    /* as /proc says them */
    int cpus;                     /* allowed to us */
    double cpu_quota;             /* of cgroups, in processors; 0: none */
    int threads;                  /* that a rank computes with */
    int64_t memory_bytes, memory_limit_bytes; /* of the machine, and of cgroups; 0: unknown, none */
    int has_ucx, has_hwloc, has_verbs; /* built in */
    char uct[300];                /* where the UCX that is used lies; "": unknown */
    int uct_knows_gpus;           /* it has a transport for memory of GPUs */
};

enum doctor_verdict { DOCTOR_PASS, DOCTOR_SKIP, DOCTOR_WARN, DOCTOR_FAIL, DOCTOR_VERDICTS };

struct doctor_finding {
    const char *check; /* its name */
    enum doctor_verdict verdict;
    char text[1024];
    char remedy[320];  /* "": there is nothing to do */
    int items;         /* listed in text, or counted at its end */
};

/* How a notice begins that the check of GPUs passes on. */
#define DOCTOR_LOST_LINKS "links between GPUs are unknown"

typedef void doctor_check(const struct doctor_facts *facts, struct doctor_finding *finding);

/* ---- doctor_look.c ---- */

/* Asks this machine what only calls tell, and keeps it as notes of the source; others have their notes. */
void doctor_look(struct ri_source *source);

/* ---- doctor_facts.c ---- */

/* Looks, and reads all that doctor_gather would, so that a recording has it. */
void doctor_keep(struct ri_source *source);
/* source NULL: the tree was described, and nothing is known of what runs on it.  Places ranks: so many on each
 * host, 0: as the tree says.  An error of ri_topo_place. */
int doctor_gather(struct ri_source *source, struct ri_topo *topo, int ranks, enum doctor_fabric fabric,
                  struct doctor_facts *facts);

/* ---- doctor.c ---- */

enum { DOCTOR_CHECKS = 17 };

/* All checks, in one order. */
void doctor_judge(const struct doctor_facts *facts, struct doctor_finding findings[DOCTOR_CHECKS]);
int doctor_count(const struct doctor_finding findings[DOCTOR_CHECKS], enum doctor_verdict verdict);
extern const char *const doctor_verdict_names[]; /* "pass", "skip", "warn", "fail" */

void doctor_say(struct doctor_finding *finding, enum doctor_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds to the text of a finding: the first few after one another, the rest as a number.  The verdict gets worse
 * where this one is. */
void doctor_item(struct doctor_finding *finding, enum doctor_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void doctor_remedy(struct doctor_finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "mlx5_0", with its host before it where there are several. */
const char *doctor_name(const struct ri_topo *topo, int32_t object, char name[160]);

/* ---- doctor_host.c ---- */

doctor_check doctor_memlock, doctor_shm, doctor_cma, doctor_cores, doctor_memory, doctor_ucx, doctor_ucx_gpus,
    doctor_libraries, doctor_notices;

/* ---- doctor_devices.c ---- */

doctor_check doctor_fabric, doctor_ports, doctor_gid, doctor_mtu, doctor_distance, doctor_pci, doctor_numa,
    doctor_gpus;

#endif
