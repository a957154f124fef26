/* SPDX-License-Identifier: Apache-2.0 */
/* The events that a simulation waits for: a heap, those of one time in order of their coming; and
 * the order of messages that become ready at one moment. */
#include "schedule/simulate_run.h"

static int before(const struct ri_sim_event *a, const struct ri_sim_event *b)
{
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

void ri_sim_push(struct ri_sim *sim, double time, uint32_t what)
{
    struct ri_sim_event event = {time, sim->event_count++, what};
    uint32_t at = sim->events++;

    while (at > 0 && before(&event, &sim->event[(at - 1) / 2])) {
        sim->event[at] = sim->event[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sim->event[at] = event;
}

uint32_t ri_sim_pop(struct ri_sim *sim)
{
    struct ri_sim_event last = sim->event[--sim->events];
    uint32_t what = sim->event[0].what, at = 0;

    sim->now = sim->event[0].time;
    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child + 1 < sim->events && before(&sim->event[child + 1], &sim->event[child]))
            child++;
        if (child >= sim->events || !before(&sim->event[child], &last))
            break;
        sim->event[at] = sim->event[child];
        at = child;
    }
    sim->event[at] = last;
    return what;
}

/* Sums of the same times in another order differ by rounding. */
double ri_sim_moment_end(const struct ri_sim *sim)
{
    double time = sim->event[0].time;

    return sim->cost->tie_seed ? time * (1 + 1e-9) : time;
}

/* A permutation of 32-bit numbers for each seed. */
static uint32_t shuffled(uint32_t number, uint32_t seed)
{
    uint32_t x = number ^ seed;

    for (int round = 0; round < 4; round++) {
        x = (x ^ x >> 15) * 0x9e3779b1u; /* odd, so that it can be undone */
        x += seed << 8;
    }
    return x ^ x >> 15;
}

/* Messages of one pair never pass each other: their sender posts them in order. */
uint64_t ri_sim_place(struct ri_sim *sim, uint32_t message)
{
    const uint32_t *link = sim->message[message].link;
    uint32_t seed = sim->cost->tie_seed, number = sim->came++;

    if (seed)
        number = shuffled(link[0] + sim->links * (link[1] + sim->links * sim->moments), seed);
    return (uint64_t)sim->moments << 32 | number;
}
