/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_TOOLS_PLAN_OPTIONS_H
#define RONDO_TOOLS_PLAN_OPTIONS_H

#include <stdint.h>

#include "schedule/simulate.h"
#include "schedule/timeline.h"

enum { PLAN_MAX_RANKS = 4096 };

/* The command line of rondo-plan. */
struct plan_options {
    const char *machine; /* "2x4", "3+2" */
    const char *topo;    /* NULL: machine says it */
    int asked_ranks;     /* of topo; 0: as many as it has room for */
    int ranks, hosts;
    int32_t host[PLAN_MAX_RANKS]; /* [ranks] */
    int32_t *order;      /* [ranks] as they stand in rings; NULL: by their numbers */
    int64_t tokens, q_heads, kv_heads, head_dim, v_dim, batch, dtype_bytes;
    int causal;
    double bandwidth[RI_LANES]; /* bytes/s */
    double latency[RI_LANES];   /* s */
    double flops;               /* per second, of a rank */
    int shared_nic, bind; /* shared_nic: as in struct ri_cost */
    enum ri_launch launch;
    const char *schedule, *backward, *variant; /* NULL: all */
    int forward_wanted, backward_wanted;
    int print_rank; /* -1: none */
    int check, json;
    ri_timeline_writer *timeline; /* NULL: none */
    const char *output;           /* NULL: standard output */
};

/* --help and --version print and exit.  -1: refused, and said why on standard error. */
int plan_options_parse(struct plan_options *options, int argc, char **argv);

/* Reads options->topo; what was not given (below 0) is taken from it.  -1: refused, and said why. */
int plan_topo_apply(struct plan_options *options);

/* One line on standard error. */
void plan_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
