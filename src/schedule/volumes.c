/* SPDX-License-Identifier: Apache-2.0 */
/* What schedules move and keep: exact for machines that are too large to be simulated. */
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"
#include "base/status.h"
#include "schedule/internal.h"
#include "schedule/machine.h"

/* Ranks of a host whose schedules are built, times ranks, at most: 72 of 288 are few of them. */
enum { ENOUGH = 1 << 17 };

/* ---- one schedule ---- */

struct moved {
    double units[RI_LANES], seconds[RI_LANES];
    int messages[RI_LANES];
};

static void add_sends(struct moved *moved, const struct ri_schedule *s, const struct ri_cost *cost)
{
    for (uint32_t i = 0; i < s->step_count; i++) {
        const struct ri_step *step = &s->steps[i];
        const struct ri_operand *o = &step->from[0];
        double units;

        if (step->op != RI_SEND)
            continue;
        units = cost->block[s->slots[o->slot].bundle] * o->blocks * o->parts / ri_schedule_parts(s);
        moved->messages[step->lane]++;
        moved->seconds[step->lane] += cost->lane[step->lane].latency_seconds;
        if (step->bind)
            continue;
        moved->units[step->lane] += units;
        moved->seconds[step->lane] += units / cost->lane[step->lane].bandwidth;
    }
}

/* Every rank computes as many block pairs as there are ranks. */
static double in_turn(const struct moved *moved, const struct ri_schedule *s,
                      const struct ri_cost *cost)
{
    double compute = cost->compute_seconds * s->ranks, seconds = 0;
    int messages = moved->messages[RI_LANE_LOCAL] + moved->messages[RI_LANE_HOST];

    for (int lane = 0; lane < RI_LANES; lane++) {
        double work = messages ? compute * moved->messages[lane] / messages : 0;

        seconds += work > moved->seconds[lane] ? work : moved->seconds[lane];
    }
    return seconds;
}

/* mark: 1: every message is bound; else 2 is set. */
static void mark_bound(const struct ri_schedule *s, uint8_t *mark)
{
    for (uint32_t i = 0; i < s->step_count; i++)
        for (int w = 0; w < 2; w++) {
            const struct ri_step *step = &s->steps[i];

            for (int b = 0; step->to[w].slot >= 0 && b < step->to[w].blocks; b++)
                mark[step->to[w].slot + b] |= step->op == RI_RECV && step->bind ? 1 : 2;
        }
}

static int add_memory(struct ri_volumes *most, const struct ri_schedule *s,
                      const struct ri_cost *cost)
{
    double blocks[RI_BUNDLES] = {0}, units = 0;
    uint8_t *mark = calloc((size_t)s->slot_count + 1, 1);

    if (!mark)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %u slots", s->slot_count);
    mark_bound(s, mark);
    for (uint32_t i = 0; i < s->slot_count; i++) {
        const struct ri_slot *slot = &s->slots[i];
        double share = (double)slot->parts / ri_schedule_parts(s);

        if (!ri_slot_is_ours(slot) || (slot->kind == RI_VIEW && mark[i] == 1))
            continue;
        blocks[slot->bundle] += share;
        units += share * cost->block[slot->bundle];
    }
    free(mark);
    if (units > most->own_units) {
        most->own_units = units;
        memcpy(most->own_blocks, blocks, sizeof(blocks));
    }
    return 0;
}

static void raise_to(double *most, double value)
{
    if (value > *most)
        *most = value;
}

int ri_volumes_add(struct ri_volumes *most, const struct ri_schedule *schedule,
                   const struct ri_cost *cost, int sharing)
{
    struct moved moved = {0};

    add_sends(&moved, schedule, cost);
    if (cost->shared_nic > 1)
        sharing = ri_min(sharing, cost->shared_nic);
    if (cost->shared_nic)
        moved.seconds[RI_LANE_HOST] *= sharing;
    raise_to(&most->in_turn_seconds, in_turn(&moved, schedule, cost));
    for (int lane = 0; lane < RI_LANES; lane++) {
        raise_to(&most->lane_seconds[lane], moved.seconds[lane]);
        raise_to(&most->sent[lane], moved.units[lane]);
    }
    return add_memory(most, schedule, cost);
}

/* ---- hosts of the whole machine ---- */

struct sample {
    const struct ri_machine *machine;
    ri_builder *builder;
    struct ri_build how;
    const struct ri_cost *cost;
    struct ri_volumes *volumes;
    struct ri_schedule **all; /* [ranks]; NULL: nothing is bound */
};

static int size_after(const struct ri_machine *machine, int host)
{
    return machine->size[(host + 1) % machine->hosts];
}

static int is_seen(const struct ri_machine *machine, int host)
{
    for (int h = 0; h < host; h++)
        if (machine->size[h] == machine->size[host] &&
            size_after(machine, h) == size_after(machine, host))
            return 1;
    return 0;
}

static int add_rank(struct sample *sample, int rank)
{
    struct ri_schedule *schedule;
    int err;

    sample->how.rank = rank;
    err = sample->builder(&schedule, &sample->how);
    if (err)
        return err;
    err = ri_volumes_add(sample->volumes, schedule, sample->cost,
                         sample->machine->size[sample->machine->host[rank]]);
    ri_schedule_destroy(schedule);
    return err;
}

/* Some ranks of a very large host, with the last: a ring leaves the host there. */
static int add_copying_host(struct sample *sample, int host)
{
    const struct ri_machine *machine = sample->machine;
    int size = machine->size[host], every = 1 + (int)((int64_t)size * machine->ranks / ENOUGH);
    int place = 0, err = 0;

    for (int r = 0; !err && r < machine->ranks; r++)
        if (machine->host[r] == host) {
            if (place % every == 0 || place == size - 1)
                err = add_rank(sample, r);
            place++;
        }
    return err;
}

static int add_binding_host(struct sample *sample, int host)
{
    const struct ri_machine *machine = sample->machine;
    int err = 0;

    for (int r = 0; !err && r < machine->ranks; r++)
        if (machine->host[r] == host) {
            sample->how.rank = r;
            err = sample->builder(&sample->all[r], &sample->how);
        }
    if (!err)
        err = ri_schedule_bind(sample->all, machine->ranks);
    for (int r = 0; r < machine->ranks; r++) {
        if (!err && sample->all[r])
            err = ri_volumes_add(sample->volumes, sample->all[r], sample->cost,
                                 machine->size[host]);
        ri_schedule_destroy(sample->all[r]);
        sample->all[r] = NULL;
    }
    return err;
}

int ri_machine_volumes(const struct ri_machine *machine, ri_builder *builder,
                       const struct ri_build *how, int bind, const struct ri_cost *cost,
                       struct ri_volumes *volumes)
{
    struct sample sample = {machine, builder, *how, cost, volumes, NULL};
    int err = 0;

    *volumes = (struct ri_volumes){0};
    sample.how.ranks = machine->ranks;
    sample.how.host = machine->host;
    if (bind && ri_build_can_bind(how)) {
        sample.all = calloc((size_t)machine->ranks, sizeof(*sample.all));
        if (!sample.all)
            return ri_error(RONDO_ERR_MEMORY, "out of memory for %d schedules", machine->ranks);
    }
    for (int h = 0; !err && h < machine->hosts; h++)
        if (!is_seen(machine, h))
            err = sample.all && (int64_t)machine->size[h] * machine->ranks <= 4 * ENOUGH
                      ? add_binding_host(&sample, h)
                      : add_copying_host(&sample, h);
    free(sample.all);
    return err;
}
