/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_FAMILY_H
#define RI_FAMILY_H

#include <stdint.h>

struct ri_bootstrap;
struct ri_mover;
struct rondo_comm;

/* A communicator and those split from it, in one process.  They share one lock, under which all of
 * their state is read and written, and whoever waits for one moves all: two ranks that wait for two
 * of them in different order do not block each other.
 *
 * The lock is fair: threads get it in the order in which they asked.  Who waits for other ranks holds it
 * for one round of progress, and not while it spins, yields or sleeps.  Kernels run under it. */
struct ri_family;

/* The maker holds it; ri_family_drop lets go. */
int ri_family_create(struct ri_family **family);
void ri_family_hold(struct ri_family *family);

/* Lets go, and frees with the last holder.  The communicator's control connections, which may be NULL,
 * are the family's from now on: rank 0 hears the others to their end, while calls on the rest of the
 * family move it, or else here, for a few seconds at most.  Without the lock. */
void ri_family_drop(struct ri_family *family, struct ri_bootstrap *bootstrap);

/* RONDO_ERR_BUSY: this thread, or the one for which it works on a kernel's task, has it already, and so is inside a
 * kernel of the family. */
int ri_family_lock(struct ri_family *family);
void ri_family_unlock(struct ri_family *family);
/* For a thread that has given it back for a moment. */
void ri_family_relock(struct ri_family *family);

/* ---- the rest is called with the lock held ---- */

/* Lets a thread that waits for the lock go first. */
void ri_family_hand_over(struct ri_family *family);

/* From now on the communicator is moved with the others, and its news end their sleep. */
int ri_family_add(struct ri_family *family, struct rondo_comm *comm);
void ri_family_remove(struct ri_family *family, struct rondo_comm *comm);
/* Its news are none any more: it has failed. */
void ri_family_unwatch(struct ri_family *family, const struct rondo_comm *comm);

struct rondo_comm *ri_family_first(const struct ri_family *family); /* the next: comm->sibling */

/* How requests under way are moved (api/request.c's): one round of all, whether something could be done.
 * computes: pieces of work may be run, too. */
typedef int (*ri_advance_fn)(struct ri_family *family, int computes);
void ri_family_set_advance(struct ri_family *family, ri_advance_fn advance);

/* Calls it when there are any. */
enum ri_advance { RI_ADVANCE_NONE, RI_ADVANCE_IDLE, RI_ADVANCE_MOVED };
enum ri_advance ri_family_advance(struct ri_family *family, int computes);

/* The thread that moves messages while nobody waits; the family's from now on. */
void ri_family_set_mover(struct ri_family *family, struct ri_mover *mover);
/* Who waits moves all there is, and the mover rests meanwhile. */
void ri_family_wait_begin(struct ri_family *family);
void ri_family_wait_end(struct ri_family *family);
int ri_family_has_waiters(const struct ri_family *family);
/* A request has begun: the mover, if there is one, has something to do. */
void ri_family_rouse(struct ri_family *family);

/* Passes on what is said in communicators of which rank 0 has destroyed its own. */
void ri_family_see_off(struct ri_family *family);

/* Sleeps until something comes, at most most_ns, without the lock.  Whether a control connection has
 * news. */
int ri_family_sleep(struct ri_family *family, int64_t most_ns);

/* Ends the sleep of other threads: something has happened that may concern them. */
void ri_family_wake(struct ri_family *family);

/* ---- conversations; without the lock ---- */

/* One thread at a time speaks with the other ranks of a communicator (an agreement, or several in a
 * row); the others wait here.  Its own thread may begin again; each begin wants an end.
 * RONDO_ERR_TIMEOUT names what the other thread is in. */
int ri_family_talk_begin(struct rondo_comm *comm, const char *what, int64_t deadline_ns);
void ri_family_talk_end(struct rondo_comm *comm);

#endif
