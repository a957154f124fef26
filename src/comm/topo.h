/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_COMM_TOPO_H
#define RI_COMM_TOPO_H

#include <stdint.h>

struct ri_topo;
struct rondo_comm;

/* The topology of a communicator: each rank sees its own host, and all get to know all. */

/* What this rank sees: its host, or whatever RONDO_TOPO says in its place; of a part, what its parent knows.
 * NULL with RONDO_TOPO=off.  An input that cannot be read is RONDO_ERR_ARGUMENT.  Local. */
int ri_comm_see(const struct rondo_comm *comm, const struct rondo_comm *parent, struct ri_topo **seen);

/* Joins what all ranks see to comm->topo, places ranks and assigns NICs, and from it comm->order, lanes and
 * NIC.  Hosts are numbered before.  All ranks come to the same; where the first rank of a host has not looked
 * (RONDO_TOPO=off) nobody has a topology.  Collective. */
int ri_comm_find_topo(struct rondo_comm *comm, const struct rondo_comm *parent, const struct ri_topo *seen,
                      int64_t deadline_ns);

#endif
