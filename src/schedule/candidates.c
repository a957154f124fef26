/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/candidates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "schedule/machine.h"

/* How the time of a pass grows with the machine, as seen where both could be simulated. */
enum pace {
    BESIDE, /* work and lanes go side by side: by the slowest */
    STEPS,  /* each step waits for the slowest message anywhere: by the number of steps */
    IN_TURN /* a rank waits for its messages on one lane, then the other's */
};

struct scheme {
    const char *schedule, *gradients;
    ri_builder *builder;
    enum pace pace;
};

/* Simple ones first. */
static const struct scheme schemes[] = {
    {"ring", NULL, ri_build_ring_forward, BESIDE},
    {"ring", "kv-grad", ri_build_ring_kv_grad, BESIDE},
    {"ring", "q-grad", ri_build_ring_q_grad, BESIDE},
    {"two-level", NULL, ri_build_two_level_forward, BESIDE},
    {"two-level", "kv-grad", ri_build_two_level_kv_grad, BESIDE},
    {"two-level", "q-grad", ri_build_two_level_q_grad, BESIDE},
    {"direct", NULL, ri_build_direct_forward, STEPS},
    {"direct", "kv-grad", ri_build_direct_kv_grad, IN_TURN},
    {"direct", "q-grad", ri_build_direct_q_grad, IN_TURN},
};
enum { SCHEMES = sizeof(schemes) / sizeof(schemes[0]), MAX_PIECES = 4, MAX_READERS = 16 };

/* ---- prices ---- */

/* The ranks of the part: all of the machine, or to be scaled.  part: what the part moves. */
static int simulate(const struct ri_machine *machine, const struct ri_candidate_query *query,
                    struct ri_candidate *candidate, struct ri_schedule **schedules,
                    struct ri_volumes *part)
{
    struct ri_simulation result;
    int err = 0;

    for (int r = 0; !err && r < machine->part_ranks; r++) {
        struct ri_build build = candidate->build;

        build.rank = r;
        build.ranks = machine->part_ranks;
        build.host = machine->part_host;
        build.order = machine->part_order;
        err = candidate->builder(&schedules[r], &build);
    }
    if (!err && query->bind && ri_build_can_bind(&candidate->build))
        err = ri_schedule_bind(schedules, machine->part_ranks);
    if (!err)
        err = ri_simulate(schedules, machine->part_ranks, query->cost, 0, &result);
    if (err)
        return err;
    candidate->seconds = result.seconds;
    candidate->own_units = result.own_units;
    memcpy(candidate->own_blocks, result.own_blocks, sizeof(candidate->own_blocks));
    memcpy(candidate->sent, result.sent, sizeof(candidate->sent));
    for (int r = 0; r < machine->part_ranks; r++)
        if (result.rank[r].compute_seconds > candidate->compute_seconds)
            candidate->compute_seconds = result.rank[r].compute_seconds;
    ri_simulation_release(&result);
    for (int r = 0; !err && r < machine->part_ranks; r++)
        err = ri_volumes_add(part, schedules[r], query->cost, machine->part_largest);
    return err;
}

static double pace_of(enum pace pace, int ranks, const struct ri_cost *cost,
                      const struct ri_volumes *volumes)
{
    double most = ranks * cost->compute_seconds;

    if (pace == STEPS)
        return ranks - 1;
    if (pace == IN_TURN)
        return volumes->in_turn_seconds;
    for (int lane = 0; lane < RI_LANES; lane++)
        if (volumes->lane_seconds[lane] > most)
            most = volumes->lane_seconds[lane];
    return most;
}

/* From the part to the whole machine: only times are estimated. */
static int scale(const struct ri_machine *machine, const struct ri_candidate_query *query,
                 enum pace pace, const struct ri_volumes *part, struct ri_candidate *candidate)
{
    struct ri_volumes whole;
    double before = pace_of(pace, machine->part_ranks, query->cost, part);
    int err = ri_machine_volumes(machine, candidate->builder, &candidate->build, query->bind,
                                 query->cost, &whole);

    if (err)
        return err;
    if (before > 0)
        candidate->seconds *= pace_of(pace, machine->ranks, query->cost, &whole) / before;
    candidate->compute_seconds *= (double)machine->ranks / machine->part_ranks;
    candidate->own_units = whole.own_units;
    memcpy(candidate->own_blocks, whole.own_blocks, sizeof(candidate->own_blocks));
    memcpy(candidate->sent, whole.sent, sizeof(candidate->sent));
    return 0;
}

static int price(const struct ri_machine *machine, const struct ri_candidate_query *query,
                 enum pace pace, struct ri_candidate *candidate)
{
    struct ri_schedule **schedules = calloc((size_t)machine->part_ranks, sizeof(*schedules));
    struct ri_volumes part = {0};
    int err;

    if (!schedules)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %d schedules", machine->part_ranks);
    err = simulate(machine, query, candidate, schedules, &part);
    for (int r = 0; r < machine->part_ranks; r++)
        ri_schedule_destroy(schedules[r]);
    free(schedules);
    candidate->priced_ranks = machine->part_ranks;
    if (!err && machine->part_ranks < machine->ranks)
        err = scale(machine, query, pace, &part, candidate);
    return err;
}

/* ---- which there are ---- */

static int names(const char *wanted, const char *name)
{
    return !wanted || strcmp(wanted, "auto") == 0 || strcmp(wanted, name) == 0;
}

/* Without two levels to speak of it is the flat ring. */
static int can_gain(const struct ri_candidate_query *query, const struct ri_machine *machine,
                    const struct scheme *scheme)
{
    int named = query->schedule && strcmp(query->schedule, "auto") != 0;

    return named || strcmp(scheme->schedule, "two-level") != 0 ||
           (machine->hosts > 1 && machine->largest > 1);
}

static int add(const struct ri_candidate_query *query, const struct ri_machine *machine,
               const struct scheme *scheme, const struct ri_build *how, const char *variant,
               struct ri_candidate *list, int *count)
{
    struct ri_candidate *one = &list[*count];
    int err;

    *one = (struct ri_candidate){.schedule = scheme->schedule,
                                 .gradients = scheme->gradients,
                                 .builder = scheme->builder,
                                 .build = *how};
    one->build.ranks = query->ranks;
    one->build.host = query->host;
    one->build.order = query->order;
    snprintf(one->variant, sizeof(one->variant), "%s", variant);
    err = price(machine, query, scheme->pace, one);
    *count += !err;
    return err;
}

/* Blocks in pieces pay where the ranks of one host cannot share those of another evenly. */
static int add_two_level(const struct ri_candidate_query *query, const struct ri_machine *machine,
                         const struct scheme *scheme, struct ri_candidate *list, int *count)
{
    int err = add(query, machine, scheme, &(struct ri_build){0}, "own-turns", list, count);

    if (!err && machine->largest > 2)
        err = add(query, machine, scheme, &(struct ri_build){.chunked = 1}, "chunked", list, count);
    for (int pieces = 2; !err && machine->uneven && pieces <= MAX_PIECES; pieces++) {
        char variant[24];

        snprintf(variant, sizeof(variant), "%d-pieces", pieces);
        err = add(query, machine, scheme, &(struct ri_build){.pieces = pieces}, variant, list,
                  count);
    }
    return err;
}

/* A ring that crosses hosts reads in place only if the rank where blocks enter keeps each until the
 * last rank of its host has read it.  Prices know no memory, so they would always take that many
 * buffers; a large host's would be most of its blocks, and so it copies. */
static int ring_landing(const struct ri_candidate_query *query, const struct ri_machine *machine,
                        const struct scheme *scheme)
{
    int enters = query->bind && machine->hosts > 1 && machine->largest > 1 &&
                 machine->largest <= MAX_READERS;

    return enters && strcmp(scheme->schedule, "ring") == 0 ? machine->largest + 1 : 0;
}

static int add_scheme(const struct ri_candidate_query *query, const struct ri_machine *machine,
                      const struct scheme *scheme, struct ri_candidate *list, int *count)
{
    if (strcmp(scheme->schedule, "two-level") == 0)
        return add_two_level(query, machine, scheme, list, count);
    return add(query, machine, scheme,
               &(struct ri_build){.landing = ring_landing(query, machine, scheme)}, "", list,
               count);
}

/* Few, and equal ones keep their order. */
static void sort(struct ri_candidate *list, int count)
{
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && list[j].seconds < list[j - 1].seconds * (1 - 1e-9); j--) {
            struct ri_candidate one = list[j];

            list[j] = list[j - 1];
            list[j - 1] = one;
        }
}

static int is_permutation(const int32_t *order, int ranks)
{
    uint8_t *seen = calloc((size_t)ranks, 1);
    int good = seen != NULL;

    for (int i = 0; good && i < ranks; i++)
        good = order[i] >= 0 && order[i] < ranks && !seen[order[i]]++;
    free(seen);
    return good;
}

static int check_query(const struct ri_candidate_query *query)
{
    int schedule = 0, gradients = !query->backward;

    if (!query->cost)
        return ri_error(RONDO_ERR_ARGUMENT, "cost is NULL: prices need one");
    if (query->ranks < 1)
        return ri_error(RONDO_ERR_ARGUMENT, "ranks %d: there must be one at least", query->ranks);
    for (int r = 0; query->host && r < query->ranks; r++)
        if (query->host[r] < 0 || query->host[r] >= query->ranks)
            return ri_error(RONDO_ERR_ARGUMENT, "host %d of rank %d: hosts are 0 to %d",
                            query->host[r], r, query->ranks - 1);
    if (query->order && !is_permutation(query->order, query->ranks))
        return ri_error(RONDO_ERR_ARGUMENT, "order: it does not name each of %d ranks once", query->ranks);
    for (int i = 0; i < SCHEMES; i++) {
        schedule |= names(query->schedule, schemes[i].schedule);
        gradients |= schemes[i].gradients && names(query->gradients, schemes[i].gradients);
    }
    if (!schedule)
        return ri_error(RONDO_ERR_ARGUMENT,
                        "schedule \"%s\" is not known; use auto, ring, two-level or direct",
                        query->schedule);
    if (!gradients)
        return ri_error(RONDO_ERR_ARGUMENT,
                        "backward \"%s\" is not known; use auto, kv-grad, q-grad or none",
                        query->gradients);
    return 0;
}

static int is_asked_for(const struct ri_candidate_query *query, const struct scheme *scheme)
{
    if (!names(query->schedule, scheme->schedule) || !query->backward != !scheme->gradients)
        return 0;
    return !scheme->gradients || names(query->gradients, scheme->gradients);
}

int ri_candidates(const struct ri_candidate_query *query, struct ri_candidate *list, int *count)
{
    struct ri_candidate found[RI_MAX_CANDIDATES];
    struct ri_machine machine;
    int all = 0, err = check_query(query);

    if (!err)
        err = ri_machine_init(&machine, query->ranks, query->host, query->order, RI_MAX_PRICED_RANKS);
    if (err)
        return err;
    for (int i = 0; !err && i < SCHEMES; i++)
        if (is_asked_for(query, &schemes[i]) && can_gain(query, &machine, &schemes[i]))
            err = add_scheme(query, &machine, &schemes[i], found, &all);
    ri_machine_release(&machine);
    if (err)
        return err;
    sort(found, all);
    memcpy(list, found, (size_t)all * sizeof(*list));
    *count = all;
    return 0;
}
