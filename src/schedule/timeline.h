/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_TIMELINE_H
#define RI_TIMELINE_H

#include <stdio.h>

#include "schedule/simulate.h"

/* The events of a simulation, written for people and for viewers.  Rows on which nothing happens
 * are left out.  All return 0, or RONDO_ERR_SYSTEM when the stream fails, RONDO_ERR_MEMORY, or
 * RONDO_ERR_ARGUMENT for a simulation without events; the stream stays the caller's. */
typedef int ri_timeline_writer(FILE *to, struct ri_schedule *const *schedules,
                               const struct ri_simulation *simulation);

/* A line per row, a column per 1/100 of the time; the last digit of the block that is computed on
 * or moved, '+' for sums and copies. */
ri_timeline_writer ri_timeline_text;
/* One picture: rows of bars, a title on each; SVG 1.1. */
ri_timeline_writer ri_timeline_svg;
/* The JSON that about:tracing and Perfetto load: a process per rank, a thread per row, in us. */
ri_timeline_writer ri_timeline_chrome;

/* "Q0 K5", "K5", "+dQ3": what a step computes on, moves or adds. */
void ri_timeline_label(const struct ri_schedule *schedule, uint32_t step, char *text, size_t bytes);

#endif
