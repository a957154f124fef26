/* SPDX-License-Identifier: Apache-2.0 */
/* Machines, and which part of a large one is simulated. */
#include "schedule/machine.h"

#include <stdlib.h>

#include "base/status.h"

static void number_hosts(struct ri_machine *machine, const int32_t *host, int32_t *number)
{
    for (int r = 0; r < machine->ranks; r++)
        number[r] = -1;
    for (int r = 0; r < machine->ranks; r++) {
        int32_t *h = &number[host ? host[r] : 0];

        if (*h < 0)
            *h = machine->hosts++;
        machine->host[r] = *h;
        machine->size[*h]++;
    }
}

static void measure(struct ri_machine *machine)
{
    machine->smallest = machine->largest = machine->size[0];
    for (int h = 1; h < machine->hosts; h++) {
        if (machine->size[h] < machine->smallest)
            machine->smallest = machine->size[h];
        if (machine->size[h] > machine->largest)
            machine->largest = machine->size[h];
    }
    for (int h = 0; h < machine->hosts; h++)
        machine->uneven |= machine->size[h] % machine->smallest ||
                           machine->largest % machine->size[h];
}

static int is_first_of_size(const struct ri_machine *machine, int host)
{
    for (int h = 0; h < host; h++)
        if (machine->size[h] == machine->size[host])
            return 0;
    return 1;
}

/* taken[h]: ranks of host h that are in the part.  One host of each size comes first, so that an
 * odd one is not lost. */
static void choose_part(const struct ri_machine *machine, int room, int32_t *taken)
{
    int most = machine->hosts > 1 && machine->ranks > room ? room / 2 : room;

    for (int others = 0; others < 2; others++)
        for (int h = 0; h < machine->hosts; h++) {
            int size = machine->size[h] < most ? machine->size[h] : most;

            if (taken[h] || size > room || (!others && !is_first_of_size(machine, h)))
                continue;
            taken[h] = size;
            room -= size;
        }
}

/* renumbered[r]: its number in the part; -1: it is not in it. */
static void take_part(struct ri_machine *machine, int32_t *taken, int32_t *number, int32_t *renumbered)
{
    int hosts = 0;

    for (int h = 0; h < machine->hosts; h++) {
        if (taken[h] > machine->part_largest)
            machine->part_largest = taken[h];
        number[h] = -1;
    }
    for (int r = 0; r < machine->ranks; r++) {
        int32_t h = machine->host[r];

        renumbered[r] = -1;
        if (taken[h]-- <= 0)
            continue;
        if (number[h] < 0)
            number[h] = hosts++;
        renumbered[r] = machine->part_ranks;
        machine->part_host[machine->part_ranks++] = number[h];
    }
}

/* The part's ranks as they stand in the whole order. */
static void order_part(struct ri_machine *machine, const int32_t *order, const int32_t *renumbered)
{
    int count = 0;

    for (int i = 0; i < machine->ranks; i++)
        if (renumbered[order[i]] >= 0)
            machine->part_order[count++] = renumbered[order[i]];
}

int ri_machine_init(struct ri_machine *machine, int ranks, const int32_t *host, const int32_t *order, int room)
{
    size_t count = (size_t)ranks;
    int32_t *number = calloc(count, sizeof(*number)), *taken = calloc(count, sizeof(*taken));
    int32_t *renumbered = calloc(count, sizeof(*renumbered));
    int done;

    *machine = (struct ri_machine){.ranks = ranks,
                                   .host = calloc(count, sizeof(*machine->host)),
                                   .size = calloc(count, sizeof(*machine->size)),
                                   .part_host = calloc(count, sizeof(*machine->part_host)),
                                   .part_order = order ? calloc(count, sizeof(*machine->part_order)) : NULL};
    done = number && taken && renumbered && (machine->part_order || !order) && machine->host && machine->size && machine->part_host;
    if (done) {
        number_hosts(machine, host, number);
        measure(machine);
        choose_part(machine, room, taken);
        take_part(machine, taken, number, renumbered);
        if (order)
            order_part(machine, order, renumbered);
    }
    free(number);
    free(taken);
    free(renumbered);
    if (done)
        return 0;
    ri_machine_release(machine);
    return ri_error(RONDO_ERR_MEMORY, "out of memory for %d ranks", ranks);
}

void ri_machine_release(struct ri_machine *machine)
{
    free(machine->host);
    free(machine->size);
    free(machine->part_host);
    free(machine->part_order);
    *machine = (struct ri_machine){0};
}
