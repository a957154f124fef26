/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SCHEDULE_CASES_H
#define TEST_SCHEDULE_CASES_H

#include "schedule/schedule.h"

/* A case is three lines:
 *     schedule: broadcast root:1      (options, each where it is wanted: root, pieces, landing,
 *                                     chunked, the fields of struct ri_build; bind: what ranks of
 *                                     a host can read in place they do)
 *     machine: host:2 gpu:3           (ranks are numbered host by host; or the ranks of each host,
 *                                     `machine: hosts: 3 2`)
 *     rank: 4
 * Returns that rank's schedule.  A text out of form fails the running test. */
struct ri_schedule *case_build(const char *text);

#endif
