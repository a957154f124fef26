/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_ENGINE_PRIVATE_H
#define RI_ENGINE_PRIVATE_H

#include "engine/engine.h"

/* What the files of the engine share. */

enum ri_step_state { RI_STEP_WAITING, RI_STEP_UNDER_WAY, RI_STEP_DONE };

struct ri_engine {
    const struct ri_schedule *schedule;
    const struct ri_program *program; /* NULL: no run is under way */
    uint32_t *first_user;             /* [step_count + 1] users[first_user[s]..]: steps that wait for s */
    uint32_t *users;                  /* [dep_count] */
    uint32_t *user_dep;               /* [dep_count] by user: the same edge in schedule->deps */
    uint32_t *unmet;                  /* [step_count] steps that must be DONE before it begins */
    uint32_t *begun, *ended;          /* [step_count] chunks posted; pieces run, or chunks that have moved */
    uint8_t *state;                   /* [step_count] enum ri_step_state */
    int64_t *began_ns;                /* [step_count] when its messages were posted, for the trace */
    uint32_t *transfers;              /* [transfer_count] SEND and RECV steps by turn, then by program order */
    uint32_t *works;                  /* [work_count] the other steps, in program order */
    uint32_t transfer_count, work_count;
    uint32_t lanes;                   /* bit l: something moves on lane l */
    uint32_t first_transfer, first_work; /* all before are DONE */
    uint32_t posted, done;            /* transfer steps with a chunk under way; steps DONE */
    /* What is bound.  A step that reads what a bound RECV brought is one of its reads; a step that
     * rewrites what a bound SEND gave out waits for its readers, beside its dependencies. */
    uint8_t *dep_reads;               /* [dep_count] by dependency */
    uint8_t *user_waits;              /* [dep_count] by user */
    uint32_t *reads, *reads_left;     /* [step_count] of a bound RECV: all, and those not DONE in this run */
    uint32_t *waits;                  /* [step_count] bound SENDs whose readers the step waits for */
    uint8_t *lent;                    /* [step_count] a bound SEND that is DONE and still has readers */
    uint32_t lent_count;
    int failed;                       /* the run is over, but its readers have not been waited for */
    int is_inside;                    /* a piece of work is being run, and may have us moved meanwhile */
    int spoilt;                       /* why the run is to fail when that piece has ended */
    int64_t last_ns;                  /* up to when the clocks are charged */
    struct ri_engine_stats stats;
};

/* ---- engine.c ---- */

void ri_engine_finish_step(struct ri_engine *engine, uint32_t step);
/* May this unit of a step begin, as far as other steps go?  Asked of the next one only. */
int ri_engine_is_ready(const struct ri_engine *engine, uint32_t step, uint32_t unit);
/* Charges the time since the last call; computing: it was spent in a piece of work. */
void ri_engine_charge(struct ri_engine *engine, int computing);

/* ---- work.c ---- */

/* Runs one piece, if one is ready. */
int ri_engine_work(struct ri_engine *engine, int *computes, int *acted);

/* ---- transfers.c ---- */

/* Posts what may be posted. */
int ri_engine_post(struct ri_engine *engine, int *acted);
/* Finishes the transfers whose messages have all moved. */
int ri_engine_collect(struct ri_engine *engine, int *acted);

/* ---- bind.c ---- */

/* Finds what is read and rewritten in the schedule; the arrays are there, and zero. */
void ri_engine_find_bindings(struct ri_engine *engine);
/* The counts of a new run. */
void ri_engine_start_bindings(struct ri_engine *engine);
/* A step is DONE: lets go of what it was the last to read, and remembers what it has given out. */
void ri_engine_finish_bindings(struct ri_engine *engine, uint32_t step);
/* Looks who still reads what we gave out. */
void ri_engine_look_at_readers(struct ri_engine *engine, int *acted);
/* Lets go of all that is bound here, whoever reads it. */
void ri_engine_release_all(struct ri_engine *engine);
/* Around each piece of the step: what it reads in place stays there meanwhile.  enter: 0, or
 * RONDO_ERR_PEER when a holder has taken it back. */
int ri_engine_enter(struct ri_engine *engine, uint32_t step);
int ri_engine_leave(struct ri_engine *engine, uint32_t step);
/* Takes back what we gave out: who reads it may end its piece of work, and begin no other. */
void ri_engine_revoke(struct ri_engine *engine);
/* Does anybody read what we gave out? */
int ri_engine_is_read(const struct ri_engine *engine);

/* ---- trace.c ---- */

/* Notes a step, or a piece of it, in the trace of the transport if there is one. */
void ri_engine_trace(const struct ri_engine *engine, uint32_t step, int64_t start_ns, int64_t end_ns);

#endif
