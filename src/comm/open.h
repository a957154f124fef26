/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_OPEN_H
#define RI_OPEN_H

#include <stddef.h>
#include <stdint.h>

struct ri_config;
struct rondo_comm;

/* bytes of every rank to every rank while the communicator is made: all is [size][bytes]. */
int ri_comm_gather(struct rondo_comm *comm, const void *mine, size_t bytes, void *all, int64_t deadline_ns);

/* 0, or what is wrong with the name of the transport: RONDO_ERR_ARGUMENT: nobody knows it;
 * RONDO_ERR_UNSUPPORTED: it is not built in.  Both say what there is. */
int ri_transport_is_known(const struct ri_config *config);

/* Opens the transport of a communicator whose hosts are numbered, on all ranks the same: the one that is
 * named, or, for auto, the best that all ranks can use.  Collective. */
int ri_comm_open_transport(struct rondo_comm *comm, int64_t deadline_ns);

#endif
