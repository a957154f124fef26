/* SPDX-License-Identifier: Apache-2.0 */
/* Which scheme a plan uses: the cheapest of those that the caller leaves open. */
#include "plan/choose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/status.h"
#include "kernels/convert.h"
#include "plan/cost.h"
#include "plan/plan.h"
#include "schedule/candidates.h"
#include "topo/topo.h"

/* ---- what the caller asks for ---- */

static int is_open(const char *name)
{
    return !name || strcmp(name, "auto") == 0;
}

static int check_host_transfers(const rondo_plan_options_t *options)
{
    const char *name = options->host_transfers;

    if (is_open(name) || strcmp(name, "own-turns") == 0 || strcmp(name, "chunked") == 0)
        return 0;
    return ri_error(RONDO_ERR_ARGUMENT,
                    "host_transfers \"%s\" is not known; use auto, own-turns or chunked", name);
}

static int check_binding(const rondo_plan_options_t *options)
{
    if (is_open(options->binding) || strcmp(options->binding, "copy") == 0)
        return 0;
    return ri_error(RONDO_ERR_ARGUMENT, "binding \"%s\" is not known; use auto or copy",
                    options->binding);
}

static int check_schedule(const char *name)
{
    if (!is_open(name) && (strcmp(name, "all-to-all") == 0 || strcmp(name, "hybrid") == 0))
        return ri_error(RONDO_ERR_UNSUPPORTED,
                        "schedule \"%s\" is not built yet; use auto, ring, two-level or direct", name);
    return 0;
}

static int check_count(const char *name, int value, int most)
{
    if (value >= 0 && value <= most)
        return 0;
    return ri_error(RONDO_ERR_ARGUMENT, "%s is %d; use 0 (the plan chooses) to %d", name, value, most);
}

/* Only what names a schedule is refused: whoever leaves it open asks for these where they mean something. */
static int check_two_level(const rondo_plan_options_t *options)
{
    const char *name = options->schedule;

    if (is_open(name) || strcmp(name, "two-level") == 0)
        return 0;
    if (options->pieces > 1)
        return ri_error(RONDO_ERR_ARGUMENT, "pieces is %d, but schedule \"%s\" moves whole blocks; use "
                        "schedule two-level, or pieces 0", options->pieces, name);
    if (!is_open(options->host_transfers))
        return ri_error(RONDO_ERR_ARGUMENT, "host_transfers is \"%s\", but schedule \"%s\" does not know it; "
                        "use schedule two-level, or host_transfers auto", options->host_transfers, name);
    return 0;
}

static int check_options(const rondo_plan_options_t *options)
{
    int err = check_schedule(options->schedule);

    if (!err)
        err = check_host_transfers(options);
    if (!err)
        err = check_binding(options);
    if (!err)
        err = check_count("pieces", options->pieces, 64);
    if (!err)
        err = check_two_level(options);
    if (!err && options->chunk_bytes < 0)
        err = ri_error(RONDO_ERR_ARGUMENT, "chunk_bytes is %lld; use 0 (the plan chooses) or more",
                       (long long)options->chunk_bytes);
    return err ? err : check_count("landing_slots", options->landing_slots, 1024);
}

/* ---- prices ---- */

static int check_price(const char *name, int64_t value, int64_t least)
{
    if (value >= least)
        return 0;
    return ri_error(RONDO_ERR_ARGUMENT, "%s is %lld; give at least %lld", name, (long long)value,
                    (long long)least);
}

static int check_prices(const struct ri_config *config)
{
    int err = check_price("RONDO_COST_FLOPS", config->cost_flops, 1);

    if (!err)
        err = check_price("RONDO_COST_LOCAL_BANDWIDTH", config->cost_local_bandwidth, 0);
    if (!err)
        err = check_price("RONDO_COST_LOCAL_LATENCY", config->cost_local_latency_us, -1);
    if (!err)
        err = check_price("RONDO_COST_HOST_BANDWIDTH", config->cost_host_bandwidth, 0);
    return err ? err : check_price("RONDO_COST_HOST_LATENCY", config->cost_host_latency_us, -1);
}

/* Of CPUs over shared memory and sockets: what is taken when nobody knows better. */
static const struct ri_link_cost usual[RI_LANES] = {
    [RI_LANE_LOCAL] = { 2e-6, 8 * (double)(1 << 30) },
    [RI_LANE_HOST] = { 20e-6, 1 * (double)(1 << 30) },
};

/* found: of the topology, GB/s and microseconds, 0: unknown.  asked: of the settings; bandwidth 0, latency -1: not
 * given. */
static struct ri_link_cost link_cost(int64_t asked_bandwidth, int64_t asked_latency_us, double found_gbps,
                                     double found_us, const struct ri_link_cost *otherwise)
{
    struct ri_link_cost cost = *otherwise;

    if (asked_bandwidth > 0)
        cost.bandwidth = (double)asked_bandwidth;
    else if (found_gbps > 0)
        cost.bandwidth = found_gbps * 1e9;
    if (asked_latency_us >= 0)
        cost.latency_seconds = (double)asked_latency_us * 1e-6;
    else if (found_us > 0)
        cost.latency_seconds = found_us * 1e-6;
    return cost;
}

static int sharing(const struct ri_config *config, const struct ri_topo_lanes *lanes)
{
    if (config->cost_shared_nic >= 0)
        return config->cost_shared_nic != 0;
    return lanes->ranks_per_nic > 1 ? lanes->ranks_per_nic : 0;
}

struct ri_cost ri_choice_cost(const struct ri_choice_query *query, const struct ri_wire *wire,
                              enum ri_pass_kind kind)
{
    static const struct ri_topo_lanes unknown;
    const struct ri_topo_lanes *lanes = query->lanes ? query->lanes : &unknown;
    const struct ri_topo_lanes *inside = query->is_described ? lanes : &unknown;
    const struct ri_config *config = query->config;
    struct ri_problem problem = { query->ranks, query->tokens, query->kv_tokens, query->pairs, query->desc,
                                  query->needs_o, (int)ri_convert_bytes(query->desc->dtype),
                                  (double)config->cost_flops, wire };
    struct ri_cost cost = { .shared_nic = sharing(config, lanes), .launch = RI_LAUNCH_HOST };

    cost.lane[RI_LANE_LOCAL] = link_cost(config->cost_local_bandwidth, config->cost_local_latency_us,
                                         inside->local_gbps, inside->local_latency_us, &usual[RI_LANE_LOCAL]);
    cost.lane[RI_LANE_HOST] = link_cost(config->cost_host_bandwidth, config->cost_host_latency_us,
                                        lanes->host_gbps, inside->host_latency_us, &usual[RI_LANE_HOST]);
    ri_problem_cost(&problem, kind, &cost);
    return cost;
}

/* ---- the choice ---- */

static int fits(const struct ri_candidate *candidate, const rondo_plan_options_t *options)
{
    int two_level = strcmp(candidate->schedule, "two-level") == 0;

    if (two_level && !is_open(options->host_transfers) &&
        candidate->build.chunked != (strcmp(options->host_transfers, "chunked") == 0))
        return 0;
    return !two_level || options->pieces == 0 || candidate->build.pieces <= 1 ||
           candidate->build.pieces == options->pieces;
}

/* What the caller gives wins over what the price says. */
static void apply(const rondo_plan_options_t *options, struct ri_scheme *scheme)
{
    struct ri_build *build = &scheme->build;

    if (options->landing_slots)
        build->landing = options->landing_slots;
    if (strcmp(scheme->schedule, "two-level") != 0)
        return;
    if (options->pieces)
        build->pieces = options->pieces;
    if (!is_open(options->host_transfers))
        build->chunked = strcmp(options->host_transfers, "chunked") == 0;
    if (build->pieces > 1)
        snprintf(scheme->variant, sizeof(scheme->variant), "%d-pieces", build->pieces);
    else
        snprintf(scheme->variant, sizeof(scheme->variant), build->chunked ? "chunked" : "own-turns");
}

static int is_q_grad(const struct ri_scheme *scheme)
{
    return strcmp(scheme->gradients, "q-grad") == 0;
}

static int choose_pass(const struct ri_choice_query *query, enum ri_pass_kind kind, const struct ri_wire *wire,
                       int bind, struct ri_scheme *scheme)
{
    const uint32_t read = 1u << RI_Q | 1u << RI_K;
    uint32_t narrowed = ri_wire_bundles(wire, query->desc, kind, query->needs_o);
    struct ri_cost cost = ri_choice_cost(query, wire, kind);
    struct ri_candidate list[RI_MAX_CANDIDATES];
    struct ri_candidate_query ask = {
        .ranks = query->ranks, .host = query->host, .order = query->order, .cost = &cost, .backward = kind == RI_BACKWARD,
        .bind = bind && !(narrowed & read), .schedule = query->options->schedule, .gradients = query->options->backward,
    };
    int count, best = 0, err = ri_candidates(&ask, list, &count);

    if (err)
        return err;
    while (best < count && !fits(&list[best], query->options))
        best++;
    if (best == count)
        best = 0; /* chunks of hosts of up to 2 ranks are whole blocks: priced as own turns */
    *scheme = (struct ri_scheme){ .build = list[best].build, .builder = list[best].builder,
                                  .schedule = list[best].schedule,
                                  .gradients = list[best].gradients ? list[best].gradients : "",
                                  .seconds = list[best].seconds };
    memcpy(scheme->variant, list[best].variant, sizeof(scheme->variant));
    scheme->copies = narrowed >> (is_q_grad(scheme) ? RI_Q : RI_K) & 1;
    apply(query->options, scheme);
    if (scheme->build.landing != list[best].build.landing || scheme->build.chunked != list[best].build.chunked ||
        (scheme->build.pieces > 1 && scheme->build.pieces != list[best].build.pieces))
        scheme->seconds = -1;
    return 0;
}

static void keep_links(const struct ri_choice_query *query, struct ri_choice *choice)
{
    struct ri_cost cost = ri_choice_cost(query, &choice->wire, RI_FORWARD);

    memcpy(choice->lane, cost.lane, sizeof(choice->lane));
    choice->shared_nic = cost.shared_nic;
}

int ri_plan_choose(const struct ri_choice_query *query, struct ri_choice *choice)
{
    const rondo_plan_options_t *options = query->options;
    int none = options->backward && strcmp(options->backward, "none") == 0;
    int err = check_options(options);
    int bind = query->can_bind && is_open(options->binding);

    if (!err)
        err = check_prices(query->config);
    memset(choice, 0, sizeof(*choice));
    if (!err)
        err = ri_wire_parse(options->wire, query->desc, &choice->wire);
    choice->pass[RI_BACKWARD] = (struct ri_scheme){ .schedule = "none", .gradients = "none" };
    for (int kind = 0; !err && kind < RI_PASSES; kind++)
        if (kind == RI_FORWARD || !none)
            err = choose_pass(query, (enum ri_pass_kind)kind, &choice->wire, bind, &choice->pass[kind]);
    if (!err)
        keep_links(query, choice);
    choice->binds = bind;
    choice->chunk_bytes = options->chunk_bytes ? options->chunk_bytes : query->config->chunk_bytes;
    return err;
}

/* ---- schedules ---- */

/* Those of rank's host, since they are bound together. */
static int build_host(const struct ri_scheme *scheme, int rank, struct ri_schedule **all)
{
    int err = 0;

    for (int r = 0; !err && r < scheme->build.ranks; r++) {
        struct ri_build build = scheme->build;

        build.rank = r;
        if (!build.host || build.host[r] == build.host[rank])
            err = scheme->builder(&all[r], &build);
    }
    return err ? err : ri_schedule_bind(all, scheme->build.ranks);
}

int ri_scheme_build(const struct ri_scheme *scheme, int rank, int binds,
                    struct ri_schedule **schedule)
{
    struct ri_build build = scheme->build;
    struct ri_schedule **all;
    int err;

    build.rank = rank;
    if (!binds || scheme->copies || !ri_build_can_bind(&build))
        return scheme->builder(schedule, &build);
    all = calloc((size_t)build.ranks, sizeof(*all));
    if (!all)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %d schedules", build.ranks);
    err = build_host(scheme, rank, all);
    if (!err) {
        *schedule = all[rank];
        all[rank] = NULL;
    }
    for (int r = 0; r < build.ranks; r++)
        ri_schedule_destroy(all[r]);
    free(all);
    return err;
}

int ri_plan_hash(const struct ri_choice *choice, int64_t *hash)
{
    uint64_t bits = 0;

    for (int i = 0; i < RI_PASSES; i++) {
        struct ri_schedule *schedule = NULL;
        int err = 0;

        if (choice->pass[i].builder)
            err = ri_scheme_build(&choice->pass[i], 0, choice->binds, &schedule);
        if (err)
            return err;
        bits = bits * 0x9e3779b97f4a7c15u + (schedule ? ri_schedule_hash(schedule) : 0);
        ri_schedule_destroy(schedule);
    }
    *hash = (int64_t)bits;
    return 0;
}
