/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_TOOLS_TOPO_VIEW_H
#define RONDO_TOOLS_TOPO_VIEW_H

#include <stdint.h>
#include <stdio.h>

#include "topo/topo.h"

/* A placed topology as people look at it: host by host, equal hosts once, what matters and what does not. */
struct topo_view {
    const struct ri_topo *topo; /* borrowed */
    const char *source;         /* what it was read from, for titles; borrowed */
    int hosts;
    int32_t *host;      /* [hosts] objects */
    int32_t *end;       /* [hosts] behind the last object of each */
    int *like;          /* [hosts] the first host that is made alike */
    int *alike;         /* [hosts] of those first ones: how many hosts are like it, itself among them */
    int *host_of;       /* [objects] number of the host */
    int *rank;          /* [ranks] by host, and by rank within one */
    int *rank_start;    /* [hosts + 1] in rank */
    uint8_t *chosen;    /* [objects] a NIC that some rank has */
    uint8_t *used;      /* [objects] a NIC that ranks may have */
    int32_t *order;     /* [ranks] the flat ring */
    int32_t *rail;      /* [ranks] */
    int rails;
    struct ri_topo_lanes lanes;
};

/* 0, or RONDO_ERR_*; release is good for a half-made one. */
int topo_view_init(struct topo_view *view, const struct ri_topo *topo, const char *source);
void topo_view_release(struct topo_view *view);

/* Is it worth a place in a picture?  Neither loopback nor what has no hardware is, unless it is used. */
int topo_view_shows_nic(const struct topo_view *view, int32_t nic);
/* Why no rank may have it; "" for others. */
const char *topo_view_why_not(const struct topo_view *view, int32_t nic, char why[96]);
/* "GPU3", "NUMA1", "mlx5_0", "node7". */
const char *topo_view_label(const struct topo_view *view, int32_t object, char text[64]);
/* What a rank or device is near: its NUMA node, or -1. */
int32_t topo_view_numa(const struct topo_view *view, int32_t object);

/* The forms of output; 0, or RONDO_ERR_*.  Whether the file took it is for the caller to check. */
int topo_print_screen(FILE *to, const struct topo_view *view);
void topo_print_ranks(FILE *to, const struct topo_view *view); /* a part of the screen */
int topo_print_tree(FILE *to, const struct topo_view *view);
int topo_print_json(FILE *to, const struct topo_view *view);
int topo_print_svg(FILE *to, const struct topo_view *view);
/* svg: the text of a picture.  RONDO_ERR_UNSUPPORTED without librsvg. */
int topo_write_png(FILE *to, const char *svg, size_t bytes);

#endif
