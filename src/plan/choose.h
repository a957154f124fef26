/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_CHOOSE_H
#define RI_CHOOSE_H

#include <rondo/attention.h>

#include "plan/wire.h"
#include "schedule/simulate.h"

struct ri_config;
struct ri_topo_lanes;

enum ri_pass_kind { RI_FORWARD, RI_BACKWARD, RI_PASSES };

/* How one pass is done: a builder with its choices. */
struct ri_scheme {
    struct ri_build build; /* for any rank: its rank is not read */
    ri_builder *builder;   /* NULL: the plan has no such pass */
    const char *schedule;  /* "ring", "two-level", "direct"; "none" */
    const char *gradients; /* backward: "kv-grad", "q-grad", "none"; forward: "" */
    char variant[24];      /* "own-turns", "chunked", "2-pieces"; "" where there is but one */
    int copies;            /* what travels and is read does so in another type than it lies in: never in place */
    double seconds;        /* what it costs by topology and settings RONDO_COST_*; < 0: not priced as the caller forced it */
};

struct ri_choice {
    struct ri_scheme pass[RI_PASSES];
    int binds; /* blocks of ranks of this host are read in place */
    struct ri_wire wire; /* types in which tensors travel */
    struct ri_link_cost lane[RI_LANES]; /* what links were taken for */
    int shared_nic;                     /* as in struct ri_cost */
    int64_t chunk_bytes; /* of a chunk of a block that is sent; 0: a plan chooses, between hosts only */
};

/* What the choice depends on: equal on all ranks, so all choose alike. */
struct ri_choice_query {
    int ranks;
    const int32_t *host;                /* [ranks] */
    const int32_t *order;               /* [ranks] as they stand in rings; NULL: by their numbers */
    const struct ri_topo_lanes *lanes;  /* what the topology says of links; NULL: nothing */
    int is_described;                   /* the topology is of a text: what it says of the inside of hosts counts, too */
    const rondo_attention_desc_t *desc; /* valid, defaults filled in */
    const rondo_plan_options_t *options;
    const struct ri_config *config; /* prices */
    int64_t tokens, kv_tokens;      /* of queries, of keys */
    double pairs;  /* visible, over all ranks */
    int needs_o;   /* the kernel takes o in place of delta */
    int can_bind;  /* the transport can */
};

/* What a pass costs: bytes and seconds.  Of links the settings RONDO_COST_* say it, where they are not given the
 * topology, and where that does not know fixed values.  What was found of the inside of hosts is left out: the
 * links of GPUs are not those of memory that host kernels read. */
struct ri_cost ri_choice_cost(const struct ri_choice_query *query, const struct ri_wire *wire,
                              enum ri_pass_kind kind);

/* Takes the cheapest of what the options leave open.  A name nobody knows is RONDO_ERR_ARGUMENT, one
 * that is not built yet RONDO_ERR_UNSUPPORTED; both say what there is. */
int ri_plan_choose(const struct ri_choice_query *query, struct ri_choice *choice);

/* The schedule of one rank, with its bind bits. */
int ri_scheme_build(const struct ri_scheme *scheme, int rank, int binds,
                    struct ri_schedule **schedule);

/* 64 bits over rank 0's schedules of both passes.  Every rank builds them, and all must come out alike:
 * then builders, hosts and order are the same everywhere. */
int ri_plan_hash(const struct ri_choice *choice, int64_t *hash);

#endif
