/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_SCHEDULE_EDITS_H
#define TEST_SCHEDULE_EDITS_H

#include "schedule/schedule.h"

/* Small edits of a schedule; what is derived stays as it was. */

/* The nth step (from 0) of this operation; fails the test where there is none. */
struct ri_step *nth(struct ri_schedule *s, enum ri_op op, int n);
void remove_step(struct ri_schedule *s, struct ri_step *step);
void insert_step(struct ri_schedule *s, uint32_t at, struct ri_step step);
void move_step(struct ri_schedule *s, struct ri_step *step, uint32_t to);
void swap_steps(struct ri_schedule *s, uint32_t a, uint32_t b);
/* For a whole block.  Slots from `at` on, and what names them, move up by one. */
void insert_slot(struct ri_schedule *s, int32_t at, enum ri_bundle bundle, enum ri_slot_kind kind);
struct ri_operand *operand(struct ri_step *step, int i);

#endif
