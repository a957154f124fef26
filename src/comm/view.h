/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_COMM_VIEW_H
#define RI_COMM_VIEW_H

#include <stdint.h>

struct ri_topo;
struct rondo_comm;

/* What a rank tells of itself, before what its host looks like. */
struct ri_introduction {
    uint8_t digest[16]; /* of the text of its host */
    uint64_t bytes;     /* of that text; 0: this rank does not look */
    int32_t described;  /* by RONDO_TOPO, not found */
    int32_t gpu, numa;  /* numbers of where the rank is on its host; -1: unknown */
    char gpu_pci[24];   /* the same GPU, as all ranks of a host know it; "": unknown */
    char host[64];
};

/* The host of `seen` that is this rank's: of a description of many hosts that of its number, of fewer than there
 * are the last. */
int32_t ri_view_host(const struct rondo_comm *comm, const struct rondo_comm *parent, const struct ri_topo *seen);

/* Fills in mine, and the text that its digest is of, malloc'd; *text is NULL, and bytes 0, when seen is. */
int ri_view_introduce(const struct rondo_comm *comm, const struct rondo_comm *parent, const struct ri_topo *seen,
                      struct ri_introduction *mine, char **text);

#endif
