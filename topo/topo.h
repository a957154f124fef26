/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_TOPO_H
#define RI_TOPO_H

#include <stddef.h>
#include <stdint.h>

/* What hosts are made of, as one tree of all of them: found, replayed or described.  From it follow what
 * it costs two ranks to talk, in which order they stand in rings, and which NIC is whose.  It knows
 * hardware and ranks; never schedules, transports, tokens.
 *
 * Bandwidths are GB/s (1e9 bytes per second) one way, latencies microseconds.  0 or "" or -1: unknown.
 * What is unknown is never guessed to be near: it costs the same wherever it might be. */

enum ri_topo_kind {
    RI_TOPO_HOST,
    RI_TOPO_PACKAGE, /* of a host */
    RI_TOPO_NUMA,    /* of a package, or of a host where it does not lie within one package */
    RI_TOPO_ROOT,    /* a PCI host bridge: of a NUMA node, or of a host where that is not known */
    RI_TOPO_BRIDGE,  /* a PCI bridge or switch: of a root or another bridge */
    RI_TOPO_GPU,     /* below whatever of the above is known */
    RI_TOPO_NIC,     /* one port of a network adapter; the same */
    RI_TOPO_KINDS
};

/* The link layer, and nothing else, says whether an RDMA port is InfiniBand or RoCE. */
enum ri_topo_layer { RI_TOPO_LAYER_UNKNOWN, RI_TOPO_ETHERNET, RI_TOPO_INFINIBAND, RI_TOPO_LAYERS };
enum ri_topo_state { RI_TOPO_STATE_UNKNOWN, RI_TOPO_DOWN, RI_TOPO_INIT, RI_TOPO_ARMED, RI_TOPO_ACTIVE, RI_TOPO_STATES };

struct ri_topo_nic {
    enum ri_topo_layer layer;
    enum ri_topo_state state;
    int32_t port;      /* of its RDMA device, from 1; 0: no RDMA */
    int32_t lid;       /* InfiniBand; 0: not assigned yet */
    int32_t gid_index; /* RoCE: the entry to use; -1: none */
    int32_t mtu;       /* bytes; 0: unknown */
    double gbps;       /* rate of the port */
    char device[32];   /* RDMA device, "mlx5_0"; "": none */
    char netdev[16];   /* network device, "eth0"; "": none */
    char card[40];     /* equal for the ports of one adapter, within a host */
    char subnet[48];   /* "10.77.0.0/24", or an InfiniBand prefix; those with equal ones reach each other */
    char bond[16];     /* the bond that it belongs to; "": none */
    uint8_t is_virtual;   /* no hardware behind it that we see: veth, bridge, tunnel, virtual function */
    uint8_t is_loopback;
    char unusable[96]; /* why nobody should use it: "port is down"; "": it can be used */
};

struct ri_topo_object {
    enum ri_topo_kind kind;
    int32_t parent; /* index in objects, lower than its own; -1 for hosts */
    int32_t number; /* of a package or NUMA node as the system counts them; of a GPU its index */
    char name[64];  /* "node7", "numa 0", "mlx5_0", "gpu 3" */
    char pci[24];   /* "0000:17:00.0"; of a root its domain and first bus, "0000:16" */
    char model[64]; /* "NVIDIA A100-SXM4-80GB" */
    char id[64];    /* of a host: what tells it from all others; of a GPU: its UUID */
    char cpus[256]; /* "0-31,64-95": of a NUMA node its processors; of a host those allowed to us */
    int32_t cpu_count; /* of the same; 0: unknown */
    int64_t memory_bytes; /* of a NUMA node or GPU; 0: unknown */
    double link_gbps; /* of the link to its parent */
    double full_gbps; /* what that link could do, where it runs slower */
    double copy_gbps; /* host, package, NUMA node: what moves between two ranks whose memory has this as the lowest
                       * place above both (itself, when they share a node), where that was measured; 0: it was not */
    double copy_latency_us; /* of the same */
    struct ri_topo_nic nic; /* of a NIC */
};

enum ri_topo_link_kind { RI_TOPO_NVLINK, RI_TOPO_XGMI, RI_TOPO_C2C, RI_TOPO_LINK_KINDS };

/* Between two objects of one host, beside the tree.  Through a switch (NVSwitch) every pair has one. */
struct ri_topo_link {
    int32_t a, b; /* a < b */
    enum ri_topo_link_kind kind;
    int32_t count; /* links in the bundle */
    double gbps;   /* of all of them */
};

/* Where a rank is, and what was chosen for it. */
struct ri_topo_rank {
    int32_t object;     /* GPU, NUMA node or host */
    int32_t nic;        /* index of its NIC; -1: none */
    int32_t nic_shares; /* ranks that use this NIC, itself among them */
};

struct ri_topo {
    struct ri_topo_object *objects; /* [object_count] */
    struct ri_topo_link *links;     /* [link_count], in order of a, b and kind */
    struct ri_topo_rank *ranks;     /* [rank_count]; none before ri_topo_place */
    int32_t object_count, link_count, rank_count;
    double net_latency_us;  /* between hosts, where it was measured or described; 0: unknown */
    char *notices;          /* a line each of what could not be found out; NULL: none */
    int error;              /* first failure of those below that return none */
};

/* Words for texts, by enum; storage is static. */
extern const char *const ri_topo_kind_names[];  /* "host", "package", ... */
extern const char *const ri_topo_layer_names[]; /* "unknown", "ethernet", "infiniband" */
extern const char *const ri_topo_state_names[]; /* "unknown", "down", "init", "armed", "active" */
extern const char *const ri_topo_link_names[];  /* "nvlink", "xgmi", "c2c" */

/* ---- tree.c: making one ---- */

/* NULL when there is no memory. */
struct ri_topo *ri_topo_create(void);
void ri_topo_destroy(struct ri_topo *topo);

/* Appends an object with all unknown, named after kind and number ("numa 1"; number -1: "numa").  Returns
 * its index, or -1 with topo->error set; a parent of -1 that is no host's is an error too, so a failure
 * is carried on.  Pointers into objects are good until the next append. */
int32_t ri_topo_add(struct ri_topo *topo, enum ri_topo_kind kind, int32_t parent, int32_t number);

/* Adds count links of gbps in all between two objects; a second call for one pair and kind adds up. */
void ri_topo_link(struct ri_topo *topo, int32_t a, int32_t b, enum ri_topo_link_kind kind, int count,
                  double gbps);

/* Appends all hosts of another, with their links and notices. */
void ri_topo_append(struct ri_topo *topo, const struct ri_topo *other);

/* Takes out an object that nothing hangs below, with its links; what comes behind it moves up by one. */
void ri_topo_remove(struct ri_topo *topo, int32_t object);
/* A topology of one host alone, with the notices of all; NULL: no memory. */
struct ri_topo *ri_topo_extract(const struct ri_topo *topo, int32_t host);

/* One more line for people, unless it is there already. */
void ri_topo_notice(struct ri_topo *topo, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- tree.c: asking ---- */

int32_t ri_topo_host_of(const struct ri_topo *topo, int32_t object);
int ri_topo_hosts(const struct ri_topo *topo);
/* The k-th host, or the k-th of a kind below `above` (in order of indices); -1: there are not so many. */
int32_t ri_topo_find(const struct ri_topo *topo, int32_t above, enum ri_topo_kind kind, int k);
int ri_topo_count(const struct ri_topo *topo, int32_t above, enum ri_topo_kind kind);
/* The nearest object of a kind at or above `object`; -1: none. */
int32_t ri_topo_above(const struct ri_topo *topo, int32_t object, enum ri_topo_kind kind);
/* The lowest object that both are at or below; -1: on two hosts. */
int32_t ri_topo_common(const struct ri_topo *topo, int32_t a, int32_t b);
/* The one NUMA node within which all processors lie that the host lets us use; -1: several, or unknown. */
int32_t ri_topo_home(const struct ri_topo *topo, int32_t host);
/* Links between two objects of any order; NULL: none. */
const struct ri_topo_link *ri_topo_link_between(const struct ri_topo *topo, int32_t a, int32_t b);

/* ---- cost.c ---- */

/* As nvidia-smi topo -m says it.  SELF is one object; NVL: some NVLink, XGMI or C2C. */
enum ri_topo_level {
    RI_TOPO_SELF, RI_TOPO_NVL, RI_TOPO_PIX, RI_TOPO_PXB, RI_TOPO_PHB, RI_TOPO_NODE, RI_TOPO_SYS, RI_TOPO_NET,
    RI_TOPO_LEVELS
};

struct ri_topo_path {
    enum ri_topo_level level;
    int links;         /* NVL: how many, for "NV12" */
    double gbps;       /* of the narrowest place on the way; never 0: see cost.c for what is taken for unknown */
    double latency_us;
    int is_usual;      /* nothing tells gbps: it is what is usual for such a place */
};

extern const char *const ri_topo_level_names[]; /* "X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS", "NET" */
/* "NV12", "PIX": room is 12 bytes. */
void ri_topo_level_text(const struct ri_topo_path *path, char text[12]);

/* Between two objects; on two hosts through the nearest NICs that can be used. */
void ri_topo_path(const struct ri_topo *topo, int32_t a, int32_t b, struct ri_topo_path *path);
/* Between two ranks: on two hosts through the NICs that were assigned, each shared by nic_shares ranks. */
void ri_topo_rank_path(const struct ri_topo *topo, int a, int b, struct ri_topo_path *path);

/* ---- nics.c: which NICs are worth using ---- */

/* As strcmp, but numbers count as numbers: mlx5_2 before mlx5_10. */
int ri_topo_compare_names(const char *a, const char *b);
/* What a port can carry: its rate, or what cost.c takes for unknown. */
double ri_topo_nic_gbps(const struct ri_topo *topo, int32_t nic);
/* Whether ranks of its host should use a NIC.  Not what is unusable, loopback, or a member of a bond that is
 * there itself; not Ethernet beside RDMA; not a virtual one where there is hardware like it; not one with less than
 * half the rate of the best of those that are left.  why (may be NULL) says it: "port is down". */
int ri_topo_nic_is_used(const struct ri_topo *topo, int32_t nic, char why[96]);
/* used (may be NULL): [objects] set to 1 for the NICs of a host that are used.  Returns how many.  Quicker than to ask
 * for each: hosts of containers have hundreds. */
int ri_topo_used_nics(const struct ri_topo *topo, int32_t host, uint8_t *used);
/* The NIC of its host that an object reaches best, of those that are used; -1: none. */
int32_t ri_topo_nearest_nic(const struct ri_topo *topo, int32_t object);

/* ---- place.c, order.c: ranks ---- */

/* Puts rank r on host host_of[r] (0 .. hosts-1), the k-th of a host on its GPU k (by number) where there are
 * enough, else on NUMA nodes that have processors, in blocks: of 4 ranks on 2 nodes, 0 and 1 on the first;
 * without any, on the host.  Then assigns NICs.  host_of NULL: a rank for every GPU, or else NUMA node, host
 * by host; where there are more ranks than those, as many times more on each host; ranks 0: just as many as
 * those.  where (may be NULL): [ranks] an object of that host, or -1, which goes before.
 * RONDO_ERR_ARGUMENT when there is no such host or object; RONDO_ERR_MEMORY.  Nothing has changed after either. */
int ri_topo_place(struct ri_topo *topo, int ranks, const int32_t *host_of, const int32_t *where);

/* Gives every rank its NIC by one assignment for the host: nearest, then least used, then name; ports of
 * different adapters before a second port of one.  Equal trees give equal answers.
 * RONDO_ERR_MEMORY, and nothing has changed. */
int ri_topo_assign_nics(struct ri_topo *topo);

/* reach.c: whether every NIC that was assigned reaches every other, so that ranks may be held to theirs: all are
 * RDMA ports of one link layer and of one network (known or not), or, without RDMA, hosts are on the same networks with
 * the NICs that are used.  0 also where there is no memory to find out. */
int ri_topo_nics_reach(const struct ri_topo *topo);

/* order[i] is the rank at place i of the flat ring: host after host in order of their first ranks, and
 * within each in the cycle whose slowest hop is fastest, then the sum of all hops, then in order of numbers
 * (exact up to 12 ranks of a host, a search by steps above).  A host's part starts at its lowest rank; which
 * NICs meet between hosts is not reckoned with, as each rank sends by its own.
 * RONDO_ERR_MEMORY. */
int ri_topo_ring(const struct ri_topo *topo, int32_t *order);

/* rail[r]: the group of rank r among those that cross hosts on one network.  By the subnets of their NICs where
 * there are several and ranks of every host are in all of them; else by the place of its NIC among those in
 * use on its host, modulo how many the host with fewest uses.  Returns how many rails. */
int ri_topo_rails(const struct ri_topo *topo, int32_t *rail);

/* group[r]: groups of `size` ranks with the fastest links among them, for all-to-all inside a hybrid; a group
 * never crosses hosts where size divides the ranks of every host; else those that are left over on hosts join
 * up, host after host.  Groups are numbered by their first ranks.  Returns how many groups, or
 * RONDO_ERR_ARGUMENT when size does not divide the ranks. */
int ri_topo_head_groups(const struct ri_topo *topo, int size, int32_t *group);

/* What a two-level plan reckons with: the slowest hop of the rings inside hosts, and a rank's share of what
 * is between hosts.  order: of ri_topo_ring, or NULL, and it is found.  RONDO_ERR_MEMORY. */
struct ri_topo_lanes {
    double local_gbps, local_latency_us; /* 0: no two ranks share a host */
    double host_gbps, host_latency_us;   /* of a NIC, not shared; 0: unknown, or one host only */
    int ranks_per_nic;                   /* that share a NIC, most of all; 1: each its own */
};
int ri_topo_lanes(const struct ri_topo *topo, const int32_t *order, struct ri_topo_lanes *lanes);

/* Why this order and these NICs, in words, and the notices; malloc'd, NULL: no memory. */
char *ri_topo_explain(const struct ri_topo *topo);

/* ---- inputs: each makes a topo without ranks, or says why not (RONDO_ERR_ARGUMENT names line and token) ---- */

struct ri_source;

/* live.c: what a source shows of one host.  A missing library or an unreadable file is a notice. */
int ri_topo_discover(struct ri_source *source, struct ri_topo **topo);
/* text.c: "host:2 numa:2 gpu:4 nic:4 nvlink:300 pcie:25 net:12.5". */
int ri_topo_from_text(const char *text, struct ri_topo **topo);
/* hwloc.c; RONDO_ERR_UNSUPPORTED without hwloc. */
int ri_topo_from_hwloc_xml(const char *xml, size_t bytes, struct ri_topo **topo);
/* nccl.c; RONDO_ERR_UNSUPPORTED without expat. */
int ri_topo_from_nccl_xml(const char *xml, size_t bytes, struct ri_topo **topo);
/* nccl_write.c: the host at that index as such XML, which NCCL can read, too; malloc'd, NULL: no memory. */
char *ri_topo_to_nccl_xml(const struct ri_topo *topo, int32_t host);
/* pack.c: all of a tree as text, a line an object, and back; ranks are not in it. */
char *ri_topo_pack(const struct ri_topo *topo);
int ri_topo_unpack(const char *text, struct ri_topo **topo);
/* input.c: NULL or "": this host; the name of a file of any of these forms, told apart by what is in it; a folder
 * that stands for "/"; or the text of text.c itself. */
int ri_topo_read(const char *what, struct ri_topo **topo);
/* The same, with the source of a machine or a recording, to be closed; NULL of what only describes one, and on
 * failure. */
int ri_topo_read_source(const char *what, struct ri_topo **topo, struct ri_source **source);

#endif
