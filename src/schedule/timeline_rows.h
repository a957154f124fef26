/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_TIMELINE_ROWS_H
#define RI_TIMELINE_ROWS_H

#include "schedule/timeline.h"

/* Shared by the writers of timelines. */

/* *used: [ranks * RI_ROWS], allocated: does anything happen on the row. */
int ri_timeline_rows(const struct ri_simulation *simulation, uint8_t **used);
/* 0, or an error if anything that was written to the stream is lost. */
int ri_timeline_end(FILE *to);

#endif
