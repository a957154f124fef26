/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_MOVER_H
#define RI_MOVER_H

struct ri_family;
struct ri_mover;

/* The thread of RONDO_PROGRESS=thread.  It moves the messages of a family while a request is under way and
 * no other thread waits, and runs no piece of work.  It takes the family's lock as any call does. */

/* rank: for the lines of its log. */
int ri_mover_create(struct ri_family *family, int rank, struct ri_mover **mover);

/* Ends the thread, and waits for that.  Without the family's lock; the family is still there. */
void ri_mover_destroy(struct ri_mover *mover);

/* There may be something to do, after a moment.  With the family's lock held, as the next. */
void ri_mover_rouse(struct ri_mover *mover);
/* There is not, within that moment: another thread does it. */
void ri_mover_calm(struct ri_mover *mover);

#endif
