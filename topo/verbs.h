/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_VERBS_H
#define RI_VERBS_H

#include <stdint.h>

#include "topo/source.h"
#include "topo/topo.h"

/* What libibverbs adds to sysfs: which devices this process may open at all, and the MTU of ports.  No queue is
 * made. */

/* As ibv_query_port counts them. */
struct ri_verbs_port {
    int state;  /* 1 down, 2 init, 3 armed, 4 and 5 active */
    int layer;  /* 1 InfiniBand, 2 Ethernet */
    int lid;
    int mtu;    /* 1 is 256 bytes, 5 is 4096 */
    int speed;  /* of a lane: 1 is 2.5 Gbit/s, 128 is 100 Gbit/s */
    int width;  /* 1 is one lane, 2 is four, 4 is eight, 8 is twelve, 16 is two */
};

/* The library, or what a test puts in its place. */
struct ri_verbs_calls {
    void **(*list)(int *count);        /* NULL: no RDMA here, whatever errno says */
    void (*free_list)(void **list);
    const char *(*name)(void *device);
    void *(*open)(void *device);       /* NULL with errno */
    int (*close)(void *context);
    int (*count_ports)(void *context); /* below 0: the query failed */
    int (*query_port)(void *context, int port, struct ri_verbs_port *out); /* 0 or an errno */
};

/* NULL: built without. */
const struct ri_verbs_calls *ri_verbs_library(void);

/* All that the calls tell, as lines: "listed 4", "closed mlx5_1 19", "port mlx5_0 1 4 2 0 4096 25".  Malloc'd;
 * "": no RDMA; NULL: no memory. */
char *ri_verbs_text(const struct ri_verbs_calls *calls);

/* Fills in what a host's NICs lack, and says which devices cannot be used and why. */
void ri_verbs_apply(const char *text, struct ri_topo *topo, int32_t host);

/* The two of them, kept in recordings as "verbs". */
void ri_verbs_add(struct ri_source *source, struct ri_topo *topo, int32_t host);

#endif
