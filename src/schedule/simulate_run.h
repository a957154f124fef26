/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_SIMULATE_RUN_H
#define RI_SIMULATE_RUN_H

#include "schedule/simulate.h"

/* What the files of the simulator share.  Steps of all ranks have one numbering: step i of rank r
 * is base[r] + i. */

enum ri_sim_state { RI_SIM_WAITING, RI_SIM_UNDER_WAY, RI_SIM_DONE };
enum { RI_SIM_NONE = UINT32_MAX };

/* A message starts when both ends are open and both links are idle. */
struct ri_sim_message {
    int32_t rank[2];  /* sender, receiver */
    uint32_t step[2]; /* theirs, in the one numbering */
    uint32_t link[2]; /* out of the sender, into the receiver */
    uint32_t next[2]; /* in the queue of each link, while it waits; RI_SIM_NONE ends it */
    uint64_t came;    /* its place among all that were opened */
    double seconds, units;
    uint8_t lane, bundle, state, open; /* open: how many ends */
};

/* A message that could start. */
struct ri_sim_waiting {
    uint64_t came;
    uint32_t message;
};

/* Waiting messages in the order they were opened. */
struct ri_sim_link {
    uint32_t first, last; /* messages, or RI_SIM_NONE */
    uint8_t busy, dirty;
};

/* A stream launches groups of transfers of one turn, one after the other; order[first .. end) is
 * the current one. */
struct ri_sim_stream {
    uint32_t first, end;
    uint32_t waiting, left; /* of the group: steps with unmet dependencies; messages that move */
    uint8_t lanes, ops;     /* bits: what it launches */
    uint8_t at_once;        /* all of a group starts together, else each when it is ready */
};

/* Receives of a lane that may be posted; both are counted in order[]. */
struct ri_sim_window {
    uint32_t first; /* all transfers of the lane before are done */
    uint32_t end;   /* receives of the lane before may be posted when their memory is free */
};

struct ri_sim_rank {
    uint32_t transfers, works; /* how many; order[base[r]]: transfers by turn, then works */
    uint32_t first_work;       /* all before are done; counted from the first work */
    uint8_t busy, dirty;
    struct ri_sim_window window[RI_LANES]; /* host-driven only */
    struct ri_sim_stream stream[RI_LANES];
};

struct ri_sim_event {
    double time;
    uint32_t order; /* among those of one time */
    uint32_t what;  /* a message, or messages + a step */
};

struct ri_sim {
    struct ri_schedule *const *schedules;
    const struct ri_cost *cost;
    struct ri_simulation *out;
    int ranks, streams; /* streams: of each rank */
    uint32_t steps, messages, links, events, event_count, dirty_links, dirty_ranks;
    uint32_t *base;       /* [ranks + 1] */
    uint32_t *order;      /* [steps] */
    uint32_t *unmet;      /* [steps] */
    uint32_t *first_user; /* [steps + 1] users[first_user[s] ..]: steps that wait for s */
    uint32_t *users;
    uint32_t *message_of;   /* [steps] of a transfer */
    uint32_t came, moments; /* messages that were opened; in which moment we are */
    uint32_t waitings;
    struct ri_sim_waiting *waiting;    /* [2 * messages] */
    uint32_t *dirty_link, *dirty_rank; /* what may be able to start something */
    uint8_t *state;                    /* [steps] enum ri_sim_state */
    struct ri_sim_rank *rank;
    struct ri_sim_message *message;
    struct ri_sim_link *link;
    struct ri_sim_event *event; /* a heap */
    double now;
};

static inline struct ri_step *ri_sim_step(const struct ri_sim *sim, int rank, uint32_t step)
{
    return &sim->schedules[rank]->steps[step - sim->base[rank]];
}

/* simulate_setup.c: allocates and fills all that a run needs; released by ri_sim_release. */
int ri_sim_init(struct ri_sim *sim);
void ri_sim_release(struct ri_sim *sim);
/* Units that an operand holds. */
double ri_sim_units(const struct ri_sim *sim, int rank, const struct ri_operand *operand);
/* simulate_setup.c: memory and volumes, which need no run. */
int ri_sim_measure(struct ri_sim *sim);

/* simulate_events.c: what ends at `time`; the next one, which there must be, taken out: it is
 * now. */
void ri_sim_push(struct ri_sim *sim, double time, uint32_t what);
uint32_t ri_sim_pop(struct ri_sim *sim);
/* The last time that is still the moment of the next one. */
double ri_sim_moment_end(const struct ri_sim *sim);
/* The place of a message that is opened now: behind all of moments before.  The order of events of
 * one moment acts through these places alone. */
uint64_t ri_sim_place(struct ri_sim *sim, uint32_t message);

#endif
