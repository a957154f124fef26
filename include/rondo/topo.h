/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_TOPO_H
#define RONDO_TOPO_H

#include <rondo/comm.h>
#include <rondo/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* The topology of hosts: what they are made of, what it costs two ranks to talk, in which order ranks stand in
 * rings, and which NIC is whose.  A topology is the caller's own and never changes but by rondo_topo_place;
 * calls on one topology may be made by several threads at a time, but for that and destroy.  While one is loaded from
 * a folder that stands for the root of a machine, no other may load one (rondo_topo(3), Threads).
 * Bandwidths are GB/s (1e9 bytes per second) one way. */
typedef struct rondo_topo *rondo_topo_t;

/* Of this host (NULL, "" or "live"), or of the machine that source describes: the name of a recording, a tree, an
 * XML file of hwloc or of NCCL's dump, told apart by what is in it, or a text as of rondo-topo-text(5).
 * Ranks are placed as rondo_topo_place does with hosts NULL.  Less is found where a library or a right is missing:
 * that is never an error.  RONDO_ERR_ARGUMENT: source is none of these; RONDO_ERR_UNSUPPORTED: the library that
 * reads it is not built in. */
rondo_status_t rondo_topo_load(const char *source, rondo_topo_t *topo);

/* A copy of what a communicator has gathered, with its ranks.  Local.  RONDO_ERR_UNSUPPORTED with RONDO_TOPO=off. */
rondo_status_t rondo_topo_of_comm(rondo_comm_t comm, rondo_topo_t *topo);

/* Puts ranks 0 .. ranks-1 on hosts[r] (0 .. hosts-1), the k-th of a host on its GPU k where there are enough, else
 * on its NUMA nodes in turn, and assigns NICs.  hosts NULL: dealt out host by host, evenly.  ranks 0: as many as
 * there are GPUs, or else NUMA nodes.  Nothing has changed after an error. */
rondo_status_t rondo_topo_place(rondo_topo_t topo, int ranks, const int *hosts);

typedef struct rondo_topo_info {
    size_t struct_bytes; /* RONDO_TOPO_INFO_INIT */
    int hosts, numa_nodes, gpus, nics; /* in all; nics: those that are not left out, see explain */
    int ranks;
    int ranks_per_nic;   /* of the NIC that most ranks share; 0: no rank has one */
    double local_gbps;   /* the slowest hop of the rings inside hosts; 0: no two ranks share a host */
    double host_gbps;    /* the slowest NIC of a rank, not shared; 0: one host, or unknown */
} rondo_topo_info_t;
#define RONDO_TOPO_INFO_INIT { sizeof(rondo_topo_info_t), 0, 0, 0, 0, 0, 0, 0, 0 }

rondo_status_t rondo_topo_query(rondo_topo_t topo, rondo_topo_info_t *info);

#define RONDO_TOPO_NAME_BYTES 64

typedef struct rondo_topo_rank_info {
    size_t struct_bytes; /* RONDO_TOPO_RANK_INFO_INIT */
    int host;            /* its index */
    int gpu, numa;       /* numbers on the host; -1: none, or unknown */
    int nic_shares;      /* ranks that use its NIC, itself among them; 0: it has none */
    char nic[RONDO_TOPO_NAME_BYTES];       /* "mlx5_0"; "": none */
    char host_name[RONDO_TOPO_NAME_BYTES];
} rondo_topo_rank_info_t;
#define RONDO_TOPO_RANK_INFO_INIT { sizeof(rondo_topo_rank_info_t), 0, 0, 0, 0, "", "" }

/* Where a rank is, 0 <= rank < ranks. */
rondo_status_t rondo_topo_query_rank(rondo_topo_t topo, int rank, rondo_topo_rank_info_t *info);

typedef struct rondo_topo_pair {
    size_t struct_bytes; /* RONDO_TOPO_PAIR_INIT */
    char level[16];      /* as nvidia-smi topo -m: "X", "NV12", "PIX", "PXB", "PHB", "NODE", "SYS"; "NET" */
    double gbps;         /* of the narrowest place on the way; between hosts a rank's share of its NIC */
    double latency_us;
} rondo_topo_pair_t;
#define RONDO_TOPO_PAIR_INIT { sizeof(rondo_topo_pair_t), "", 0, 0 }

/* What it costs ranks a and b to talk. */
rondo_status_t rondo_topo_pair(rondo_topo_t topo, int a, int b, rondo_topo_pair_t *pair);

/* order: [ranks] the rank at each place of the ring: host after host, within each with the fastest slowest hop. */
rondo_status_t rondo_topo_ring(rondo_topo_t topo, int *order);

/* rail: [ranks] the rail of each rank, 0 .. *rails-1: ranks of all hosts that talk through NICs of one network. */
rondo_status_t rondo_topo_rails(rondo_topo_t topo, int *rail, int *rails);

/* group: [ranks] the group of each rank, 0 .. ranks/size-1: `size` ranks each, with the fastest links among them,
 * of one host where size divides the ranks of each.  RONDO_ERR_ARGUMENT when it does not divide all ranks. */
rondo_status_t rondo_topo_head_groups(rondo_topo_t topo, int size, int *group);

/* In words: why this order, why these NICs; and what could not be found out.  Writes at most `bytes` with the 0 at
 * the end; *needed (may be NULL) is how many all of it takes.  text may be NULL when bytes is 0. */
rondo_status_t rondo_topo_explain(rondo_topo_t topo, char *text, size_t bytes, size_t *needed);

/* All of the tree as a text that rondo_topo_load reads from a file; ranks are not in it.  As rondo_topo_explain. */
rondo_status_t rondo_topo_print(rondo_topo_t topo, char *text, size_t bytes, size_t *needed);

/* NULL is fine. */
void rondo_topo_destroy(rondo_topo_t topo);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
