/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_LINK_H
#define PERF_LINK_H

#include <stddef.h>
#include <stdint.h>

#include <rondo/comm.h>

#include "transport/transport.h"

/* Messages at the transport's own level, without plan and engine, for programs that measure it.
 * Between begin and end the communicator belongs to the link: no public call on it. */

enum perf_how { PERF_AWAKE, PERF_ASLEEP };

struct perf_link {
    rondo_comm_t comm; /* borrowed */
    struct ri_transport *transport;
    const struct ri_transport_ops *ops;
};

void perf_link_init(struct perf_link *link, rondo_comm_t comm);

/* So many messages may be posted at once from now on; negative: as many fewer. */
int perf_link_reserve(struct perf_link *link, int messages);

int perf_link_begin(struct perf_link *link);
void perf_link_end(struct perf_link *link);

/* Both ranks share a host. */
int perf_link_is_near(const struct perf_link *link, int peer);
/* A block for this peer is handed over without a copy. */
int perf_link_binds(const struct perf_link *link, int peer);
/* A waiter can sleep. */
int perf_link_sleeps(const struct perf_link *link);
/* How messages reach this peer, in words. */
const char *perf_link_way(const struct perf_link *link, int peer);

/* Touched memory, of the transport's own kind when it has one.  NULL: none. */
void *perf_link_alloc(struct perf_link *link, size_t bytes);
void perf_link_free(struct perf_link *link, void *memory);

/* One run of bytes with a tag of this program: n is equal at both ends, and not used twice at once. */
struct ri_xfer perf_link_message(const struct perf_link *link, int peer, uint64_t n, void *base,
                                 size_t bytes);

int perf_link_post(struct perf_link *link, struct ri_xfer *xfer);

/* Moves messages until this one is DONE: awake it polls, and yields the core as the library does;
 * asleep it sleeps on the event descriptor whenever there is nothing to do.  Ends at the
 * communicator's timeout.  Posted messages that are left behind are cancelled by the caller. */
int perf_link_wait(struct perf_link *link, const struct ri_xfer *xfer, enum perf_how how);

/* The same until nobody reads what this send gave out. */
int perf_link_wait_readers(struct perf_link *link, struct ri_xfer *send, enum perf_how how);

#endif
