/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/candidates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

struct scheme {
    const char *schedule, *gradients;
    ri_builder *builder;
};

/* Simple ones first. */
static const struct scheme schemes[] = {
    {"ring", NULL, ri_build_ring_forward},
    {"ring", "kv-grad", ri_build_ring_kv_grad},
    {"ring", "q-grad", ri_build_ring_q_grad},
    {"two-level", NULL, ri_build_two_level_forward},
    {"two-level", "kv-grad", ri_build_two_level_kv_grad},
    {"two-level", "q-grad", ri_build_two_level_q_grad},
    {"direct", NULL, ri_build_direct_forward},
    {"direct", "kv-grad", ri_build_direct_kv_grad},
    {"direct", "q-grad", ri_build_direct_q_grad},
};
enum { SCHEMES = sizeof(schemes) / sizeof(schemes[0]), MAX_PIECES = 4, MAX_READERS = 16 };

/* ---- the machine, or the part of it that is priced ---- */

struct machine {
    int ranks, hosts, bind;
    int smallest, largest; /* ranks of a host */
    int uneven;            /* some host's size is no multiple of another's */
    int32_t *host;         /* [ranks], hosts numbered by their first ranks */
};

/* Hosts as they come, each with at most `most` ranks, until there are `room` ranks. */
static void take_part(struct machine *part, const int32_t *host, int ranks, int most, int room,
                      int32_t *number, int32_t *size)
{
    for (int r = 0; r < ranks; r++)
        number[r] = -1;
    for (int r = 0; r < ranks; r++) {
        int32_t h = host ? host[r] : 0;

        size[h] += size[h] < most;
    }
    for (int r = 0; r < ranks; r++) {
        int32_t h = host ? host[r] : 0;

        if (number[h] < 0 && size[h] <= room) {
            number[h] = part->hosts++;
            room -= size[h];
        }
        if (number[h] >= 0 && size[h]-- > 0)
            part->host[part->ranks++] = number[h];
    }
}

static void measure(struct machine *machine, int32_t *size)
{
    memset(size, 0, (size_t)machine->hosts * sizeof(*size));
    for (int r = 0; r < machine->ranks; r++)
        size[machine->host[r]]++;
    machine->smallest = machine->largest = size[0];
    for (int h = 0; h < machine->hosts; h++) {
        if (size[h] < machine->smallest)
            machine->smallest = size[h];
        if (size[h] > machine->largest)
            machine->largest = size[h];
    }
    for (int h = 0; h < machine->hosts; h++)
        machine->uneven |= size[h] % machine->smallest || machine->largest % size[h];
}

static int machine_init(struct machine *machine, const struct ri_candidate_query *query)
{
    int32_t *number = calloc((size_t)query->ranks, sizeof(*number));
    int32_t *size = calloc((size_t)query->ranks, sizeof(*size));
    int several = 0, most = RI_MAX_PRICED_RANKS;

    *machine = (struct machine){.bind = query->bind, .host = calloc((size_t)query->ranks, sizeof(*machine->host))};
    for (int r = 1; query->host && r < query->ranks; r++)
        several |= query->host[r] != query->host[0];
    if (several)
        most /= 2;
    if (number && size && machine->host) {
        int all = query->ranks <= RI_MAX_PRICED_RANKS;

        take_part(machine, query->host, query->ranks, all ? query->ranks : most,
                  RI_MAX_PRICED_RANKS, number, size);
        measure(machine, size);
    }
    free(number);
    free(size);
    return machine->ranks ? 0
                          : ri_error(RONDO_ERR_MEMORY, "out of memory for %d ranks", query->ranks);
}

/* ---- prices ---- */

static int simulate(const struct machine *machine, const struct ri_cost *cost,
                    struct ri_candidate *candidate, struct ri_schedule **schedules)
{
    struct ri_simulation result;
    int err = 0;

    for (int r = 0; !err && r < machine->ranks; r++) {
        struct ri_build build = candidate->build;

        build.rank = r;
        build.ranks = machine->ranks;
        build.host = machine->host;
        err = candidate->builder(&schedules[r], &build);
    }
    if (!err && machine->bind && ri_build_can_bind(&candidate->build))
        err = ri_schedule_bind(schedules, machine->ranks);
    if (!err)
        err = ri_simulate(schedules, machine->ranks, cost, 0, &result);
    if (err)
        return err;
    candidate->seconds = result.seconds;
    candidate->own_units = result.own_units;
    memcpy(candidate->own_blocks, result.own_blocks, sizeof(candidate->own_blocks));
    memcpy(candidate->sent, result.sent, sizeof(candidate->sent));
    for (int r = 0; r < machine->ranks; r++)
        if (result.rank[r].compute_seconds > candidate->compute_seconds)
            candidate->compute_seconds = result.rank[r].compute_seconds;
    ri_simulation_release(&result);
    return 0;
}

static int price(const struct machine *machine, const struct ri_cost *cost,
                 struct ri_candidate *candidate)
{
    struct ri_schedule **schedules = calloc((size_t)machine->ranks, sizeof(struct ri_schedule *));
    double ratio = (double)candidate->build.ranks / machine->ranks;
    int err;

    if (!schedules)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %d schedules", machine->ranks);
    err = simulate(machine, cost, candidate, schedules);
    for (int r = 0; r < machine->ranks; r++)
        ri_schedule_destroy(schedules[r]);
    free(schedules);
    candidate->priced_ranks = machine->ranks;
    candidate->seconds *= ratio;
    candidate->compute_seconds *= ratio;
    for (int lane = 0; lane < RI_LANES; lane++)
        candidate->sent[lane] *= ratio;
    return err;
}

/* ---- which there are ---- */

static int names(const char *wanted, const char *name)
{
    return !wanted || strcmp(wanted, "auto") == 0 || strcmp(wanted, name) == 0;
}

/* Without two levels to speak of it is the flat ring. */
static int can_gain(const struct ri_candidate_query *query, const struct machine *machine,
                    const struct scheme *scheme)
{
    int named = query->schedule && strcmp(query->schedule, "auto") != 0;

    return named || strcmp(scheme->schedule, "two-level") != 0 ||
           (machine->hosts > 1 && machine->largest > 1);
}

static int add(const struct ri_candidate_query *query, const struct machine *machine,
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
    snprintf(one->variant, sizeof(one->variant), "%s", variant);
    err = price(machine, query->cost, one);
    *count += !err;
    return err;
}

/* Blocks in pieces pay where the ranks of one host cannot share those of another evenly. */
static int add_two_level(const struct ri_candidate_query *query, const struct machine *machine,
                         const struct scheme *scheme, struct ri_candidate *list, int *count)
{
    int err = add(query, machine, scheme, &(struct ri_build){0}, "own-turns", list, count);

    if (!err && machine->largest > 2)
        err = add(query, machine, scheme, &(struct ri_build){.chunked = 1}, "chunked", list, count);
    for (int pieces = 2; !err && machine->uneven && pieces <= MAX_PIECES; pieces++) {
        char variant[24];

        snprintf(variant, sizeof(variant), "%d-pieces", pieces);
        err =
            add(query, machine, scheme, &(struct ri_build){.pieces = pieces}, variant, list, count);
    }
    return err;
}

/* A ring that crosses hosts reads in place only if the rank where blocks enter keeps each until the
 * last rank of its host has read it.  Prices know no memory, so they would always take that many
 * buffers; a large host's would be most of its blocks, and so it copies. */
static int ring_landing(const struct ri_candidate_query *query, const struct machine *machine,
                        const struct scheme *scheme)
{
    int enters = query->bind && machine->hosts > 1 && machine->largest > 1 &&
                 machine->largest <= MAX_READERS;

    return enters && strcmp(scheme->schedule, "ring") == 0 ? machine->largest + 1 : 0;
}

static int add_scheme(const struct ri_candidate_query *query, const struct machine *machine,
                      const struct scheme *scheme, struct ri_candidate *list, int *count)
{
    if (strcmp(scheme->schedule, "two-level") == 0)
        return add_two_level(query, machine, scheme, list, count);
    return add(query, machine, scheme,
               &(struct ri_build){.landing = ring_landing(query, machine, scheme)}, "", list, count);
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

static int check_query(const struct ri_candidate_query *query)
{
    int schedule = 0, gradients = !query->backward;

    if (query->ranks < 1)
        return ri_error(RONDO_ERR_ARGUMENT, "ranks %d: there must be one at least", query->ranks);
    for (int r = 0; query->host && r < query->ranks; r++)
        if (query->host[r] < 0 || query->host[r] >= query->ranks)
            return ri_error(RONDO_ERR_ARGUMENT, "host %d of rank %d: hosts are 0 to %d",
                            query->host[r], r, query->ranks - 1);
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

int ri_candidates(const struct ri_candidate_query *query, struct ri_candidate *list, int *count)
{
    struct machine machine;
    int found = 0, err = check_query(query);

    if (err)
        return err;
    err = machine_init(&machine, query);
    for (int i = 0; !err && i < SCHEMES; i++) {
        const struct scheme *scheme = &schemes[i];

        if (!names(query->schedule, scheme->schedule) || !query->backward != !scheme->gradients ||
            (scheme->gradients && !names(query->gradients, scheme->gradients)) ||
            !can_gain(query, &machine, scheme))
            continue;
        err = add_scheme(query, &machine, scheme, list, &found);
    }
    free(machine.host);
    if (err)
        return err;
    sort(list, found);
    *count = found;
    return 0;
}
