/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_ENGINE_H
#define RI_ENGINE_H

#include <stdint.h>

#include "schedule/schedule.h"
#include "transport/transport.h"

/* A program: a schedule bound to memory.  The engine runs any program and knows no schedule, layout,
 * kernel or transport by name.  A step has units, done in order: a transfer its chunks, which are
 * consecutive groups of its messages, any other step its pieces.  Units may arrive in any order, but are
 * counted from the first on, so that what is done is a number. */
struct ri_program {
    const struct ri_schedule *schedule;
    struct ri_transport *transport;
    /* Messages of transfer step s: xfers[first_xfer[s]] .. xfers[first_xfer[s + 1] - 1]. */
    struct ri_xfer *xfers;
    const uint32_t *first_xfer; /* [step_count + 1] */
    /* Chunk c of transfer step s ends before xfers[chunk_end[first_chunk[s] + c]]; at least one a transfer,
     * the last ends where the step's messages do.  NULL: each transfer is one chunk. */
    const uint32_t *first_chunk; /* [step_count + 1] */
    const uint32_t *chunk_end;
    /* Refined dependencies.  need[d] NULL, d an index into schedule->deps: the whole step deps[d] is done
     * before its user begins.  Else unit u of the user may begin when need[d][u] units of deps[d] are done.
     * NULL: none is refined.  Those of what binds are not. */
    const uint32_t *const *need; /* [dep_count] */
    /* Work of COMPUTE, COPY and MERGE step s: run(owner, s, piece) for piece 0 .. pieces[s]-1, in this
     * order; the engine moves messages in between.  0, or a negative status that ends the run. */
    const uint32_t *pieces; /* [step_count] */
    int (*run)(void *owner, uint32_t step, uint32_t piece);
    /* Each may be NULL.  start makes each message bind as its step does, and clears its reference.
     * prepare: called right before the messages of step s are posted, to say where they lie now, what they
     * pass on, and (at both ends alike) whether they copy after all, or are DONE at once and never posted.
     * leaving: called right before messages [first, end) of a transfer step, a chunk, are posted.
     * arrived: messages [first, end) of
     * transfer step s, a chunk, are DONE, or one has FAILED and those before it are DONE: a bound slot
     * learns its memory, and a failure may be given a better cause (negative), or wait for one that other
     * steps are to bring (positive: it is asked again). */
    int (*prepare)(void *owner, uint32_t step);
    int (*leaving)(void *owner, uint32_t step, uint32_t first, uint32_t end);
    int (*arrived)(void *owner, uint32_t step, uint32_t first, uint32_t end);
    void *owner;
    uint32_t untold_kinds; /* bit k: bytes of messages of kind k are not the step's own, nor in the trace */
};

struct ri_engine_stats {
    uint64_t sent_bytes[RI_LANES], received_bytes[RI_LANES];
    uint64_t sent_kind[RI_LANES][RI_XFER_KINDS], received_kind[RI_LANES][RI_XFER_KINDS]; /* by message kind */
    uint64_t bound_bytes;                        /* read in place, and not received */
    double compute_seconds, move_seconds, exposed_seconds;
};

struct ri_engine;

/* All memory of a run of `schedule` is allocated here, none between start and completion.  Its bind bits
 * are read here, too. */
int ri_engine_create(const struct ri_schedule *schedule, struct ri_engine **engine);
void ri_engine_destroy(struct ri_engine *engine);
/* What an engine of `schedule` allocates. */
size_t ri_engine_bytes(const struct ri_schedule *schedule);

/* Starts program from its first step.  Posts the first messages; does not compute.  The program is
 * borrowed until the run is done.  RONDO_ERR_BUSY while a run is under way. */
int ri_engine_start(struct ri_engine *engine, const struct ri_program *program);

/* Moves messages, and does one piece of work at most.  *computes says whether that may be a call of the
 * kernel, and then whether it was; NULL: it may.  1: all steps are done, nothing is read in place
 * any more, nobody reads what was given out, and the transport has settled; 0: not yet, *idle says that
 * nothing could be done; negative: the run has failed, nothing of it is posted or read in place any more.
 * Then tell the others, and stop: only that takes back our memory. */
int ri_engine_progress(struct ri_engine *engine, int *computes, int *idle);

/* Gives up the run, also one that has failed: cancels what is posted, lets go of what is read in place,
 * and takes back what was given out.  1: the run is over, and the engine can start again.  0: another rank
 * is inside a piece of work that reads it, and deadline_ns has not come: call again a little later.  Who
 * cannot wait for ever gives now + RI_ENGINE_READERS_NS. */
int ri_engine_stop(struct ri_engine *engine, int64_t deadline_ns);
#define RI_ENGINE_READERS_NS ((int64_t)2000000000)

/* The same, and waits here. */
void ri_engine_cancel(struct ri_engine *engine);

/* Where the run stands, for error texts: the first step that is not done, as "step 3 recv K2 from 1". */
void ri_engine_where(const struct ri_engine *engine, char *text, size_t bytes, int *peer);

const struct ri_engine_stats *ri_engine_stats(const struct ri_engine *engine);

#endif
