/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_CONFIG_H
#define RI_CONFIG_H

#include <stddef.h>
#include <stdint.h>

/* Every setting that RONDO_* variables can give, from the one table in config.c (name, type, default,
 * help).  Strings are owned by the struct. */
struct ri_config {
    char *transport;            /* RONDO_TRANSPORT: auto, self, shm, ucx, shm+ucx */
    char *host_id;              /* RONDO_HOST_ID: "" = the machine's own */
    char *trace;                /* RONDO_TRACE: file of what happened, %r the rank; "" = none */
    char *interface;            /* RONDO_INTERFACE: network interface of the bootstrap; "" = any */
    char *net_devices;          /* RONDO_NET_DEVICES: of transport ucx on this rank; "" = UCX's choice */
    char *progress;             /* RONDO_PROGRESS: caller, thread */
    char *topo;                 /* RONDO_TOPO: live, off, a file or a description */
    int64_t timeout_ms;         /* RONDO_TIMEOUT, seconds or with a unit (500ms, 2m), > 0; default 1800 s */
    int64_t connect_timeout_ms; /* RONDO_CONNECT_TIMEOUT; default 30 s */
    int64_t warn_after_ms;      /* RONDO_WARN_AFTER: of a wait in which nothing moves; 0: never */
    int64_t spin;               /* RONDO_SPIN: idle progress calls before the first yield */
    int64_t yield;              /* RONDO_YIELD: idle yields before sleeping on descriptors; -1: never sleep */
    int64_t threads;            /* RONDO_THREADS: of a kernel, where plans do not say; 0: 1 */
    int64_t verify;             /* RONDO_VERIFY: 1: first calls of plans are computed twice and compared */
    int64_t chunk_bytes;        /* RONDO_CHUNK: of plans that do not say; 0: they choose; equal on all ranks */
    /* What plans reckon with when they choose a scheme; equal on all ranks. */
    int64_t cost_flops;            /* RONDO_COST_FLOPS: operations per second of one rank */
    int64_t cost_local_bandwidth;  /* RONDO_COST_LOCAL_BANDWIDTH: bytes/s between ranks of a host; 0: not given */
    int64_t cost_local_latency_us; /* RONDO_COST_LOCAL_LATENCY; -1: not given, as of the next three */
    int64_t cost_host_bandwidth;   /* RONDO_COST_HOST_BANDWIDTH: bytes/s of a rank's link between hosts; 0: not given */
    int64_t cost_host_latency_us;  /* RONDO_COST_HOST_LATENCY */
    int64_t cost_shared_nic;       /* RONDO_COST_SHARED_NIC: ranks of a host share that link */
    int64_t self_bandwidth;     /* RONDO_SELF_BANDWIDTH: bytes/s of a modelled link, with K M G; 0: none */
    int64_t self_latency_us;    /* RONDO_SELF_LATENCY: of a modelled link; default 0 */
    int64_t self_host_bandwidth;  /* RONDO_SELF_HOST_BANDWIDTH: between hosts; 0: as self_bandwidth */
    int64_t self_host_latency_us; /* RONDO_SELF_HOST_LATENCY: between hosts; 0: as self_latency_us */
    int64_t self_shared_nic;      /* RONDO_SELF_SHARED_NIC: ranks of a host share the link to others */
    int64_t self_seed;          /* RONDO_SELF_SEED: nonzero delays messages at random, reproducibly */
};

/* Reads the environment over the defaults.  A value out of form or range is RONDO_ERR_ARGUMENT naming
 * variable, value and what is allowed.  Warns once per process of RONDO_* names nobody knows, naming
 * the nearest (RONDO_UCX_* belongs to UCX, and RONDO_RANK, RONDO_SIZE .. to the launcher). */
int ri_config_load(struct ri_config *config);
void ri_config_release(struct ri_config *config);

/* The table, for tools and tests: visits name, default and help of each variable. */
void ri_config_visit(void (*visit)(void *context, const char *name, const char *value_default,
                                   const char *help), void *context);

#endif
