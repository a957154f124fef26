/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_TRACE_H
#define RI_TRACE_H

#include <stdint.h>

/* A timeline for people: what ran when, on which row of which rank, in the trace format of Chrome. */

enum ri_trace_row {
    RI_TRACE_WORK,
    RI_TRACE_LOCAL_OUT,
    RI_TRACE_LOCAL_IN,
    RI_TRACE_HOST_OUT,
    RI_TRACE_HOST_IN,
    RI_TRACE_ROWS
};

struct ri_trace_event {
    int64_t start_ns, end_ns; /* of any one clock */
    int64_t asked_ns;         /* when it could have begun, had the row been free; see ri_trace_add */
    int64_t bytes;            /* < 0: none are moved */
    int32_t rank, row;        /* row: enum ri_trace_row */
    int32_t step, peer;       /* peer < 0: none */
    int32_t bound;            /* bytes are read in place */
    char name[44];            /* "recv K3"; letters, digits, spaces and dots */
};

struct ri_trace;

/* Memory for all events is allocated here.  path: "%r" in it becomes the rank; without it "." and the
 * rank come before the extension; behind the rank "-2" and so on when this process has made one of that
 * name before.  rank < 0: events of many ranks, in one file of just that name.
 * path "": *trace is NULL. */
int ri_trace_create(const char *path, int rank, struct ri_trace **trace);

/* One more owner; ri_trace_destroy ends with the last.  Returns trace, which may be NULL. */
struct ri_trace *ri_trace_hold(struct ri_trace *trace);

/* Keeps a copy, or counts it as dropped when there is no room.  In the trace of one rank all are of that
 * rank, and an event starts no earlier than the one before it on its row has ended: a row shows one thing
 * at a time.  One thread at a time. */
void ri_trace_add(struct ri_trace *trace, const struct ri_trace_event *event);

/* Writes the file.  RONDO_ERR_SYSTEM names it. */
int ri_trace_write(const struct ri_trace *trace);

/* The last owner writes the file if there is anything to tell, and warns when that fails.  Accepts NULL. */
void ri_trace_destroy(struct ri_trace *trace);

#endif
