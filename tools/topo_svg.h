/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RONDO_TOOLS_TOPO_SVG_H
#define RONDO_TOOLS_TOPO_SVG_H

#include "tools/topo_view.h"

/* The picture.  From top to bottom of a host: what joins GPUs beside PCI, and the ring; GPUs; bars of PCI
 * switches with blocks of processors between them; NICs.  Below all hosts lies the network.  So no line
 * must cross what it does not belong to, but those of hosts with more than two switches to a NUMA node.
 * Lengths are in pixels, y grows downwards. */

enum {
    SVG_MARGIN = 28, SVG_TITLE = 84, SVG_PAD = 16, SVG_HEAD = 54, /* round hosts, above them, in them, of them */
    SVG_HOSTS = 6, SVG_HOST = 420, SVG_MORE = 170,                /* drawn at most; least width; of "+ 3 more" */
    SVG_TILE = 108, SVG_GPU = 64, SVG_NIC = 62, SVG_GAP = 12, SVG_GROUP_GAP = 26,
    SVG_CPU = 150, SVG_CPU_ALONE = 112, SVG_BLOCK = 72, SVG_BLOCK_EMPTY = 40, SVG_PACKAGE = 22,
    SVG_BAR = 20, SVG_STOREY = 28, SVG_RAIL = 8, SVG_FEED = 28, /* of switches, and of lines to and round them */
    SVG_LINK_BAR = 24, SVG_LIFT = 16, SVG_TRACK = 15, SVG_TRACKS = 8
};

struct svg_box {
    double x, y, w, h;
};

struct svg_panel {
    int host;       /* number in the view */
    int32_t object; /* NUMA node, or the host; -1: devices of which nobody knows where they are */
    struct svg_box box, cpu; /* cpu: the block of processors, which also stands for PCI's roots */
};

struct svg_host {
    int number; /* in the view */
    int first_panel, panels;
    int has_bar; /* all its GPUs, or groups of them, are joined pair by pair */
    struct svg_box box;
};

/* Rows that all hosts have in common. */
struct svg_rows {
    double link_bar, arcs, panel, gpu, band, band_height, nic, panel_end, host_end, network;
    int storeys, outer; /* of switches; lines that must go round a switch */
    int has_gpus, has_nics, has_bar, has_packages, has_details; /* of processors */
    double peak; /* of the highest arc */
};

struct svg_picture {
    const struct topo_view *view;
    struct svg_box *at;   /* [objects]; no width: not drawn */
    int32_t *joined;      /* [objects] the bridge that its line goes to; -1: the block of its panel */
    int *panel_of;        /* [objects] -1: not drawn */
    uint8_t *units, *storey; /* [objects] of bridges: what hangs on it, up to 2; switches above the lowest */
    int32_t *clique;      /* [objects] of GPUs: the first of those among which every pair is joined alike; -1 */
    struct svg_panel *panels;
    struct svg_host *hosts;
    int panel_count, host_count;
    int hosts_left; /* that are not drawn */
    struct svg_rows rows;
    double width, height, legend;
    struct svg_box network;
};

/* topo_svg_layout.c, topo_svg_hosts.c: where everything is; 0, or RONDO_ERR_MEMORY. */
int ri_svg_lay_out(struct svg_picture *picture, const struct topo_view *view);
void ri_svg_release(struct svg_picture *picture);
/* Which bridges are drawn as switches, and what hangs on them. */
void ri_svg_join(struct svg_picture *picture, int host);
/* Widths and places along x of all that is in a panel, from x on; returns its width. */
double ri_svg_place_panel(struct svg_picture *picture, int panel, double x);
/* Where a rank's arcs and lines begin. */
struct svg_box ri_svg_anchor(const struct svg_picture *picture, int32_t object);
double ri_svg_arc_peak(double span);
/* How much a hop of such a ring is drawn above others, as it is the way back of one before. */
double ri_svg_ring_lift(const struct ri_topo *topo, const int *ranks, int count, int hop);
/* Ranks of a host in the order of its ring; room for all of them.  Returns how many. */
int ri_svg_local_ring(const struct topo_view *view, int host, int *ranks);

/* topo_svg_draw.c */
enum svg_weight { SVG_PLAIN, SVG_BOLD };
void ri_svg_text(FILE *to, double x, double y, double size, enum svg_weight weight, const char *colour,
                 const char *anchor, double room, const char *text);
void ri_svg_rect(FILE *to, struct svg_box box, double radius, const char *fill, const char *stroke,
                 const char *more);
void ri_svg_line(FILE *to, double x1, double y1, double x2, double y2, double width, const char *colour);
/* A line that shows where it crosses others. */
void ri_svg_crossing(FILE *to, double x1, double y1, double x2, double y2, double width, const char *colour);
void ri_svg_badge(FILE *to, double x, double y, int rank, const char *colour);
double ri_svg_width(double gbps);
const char *ri_svg_rank_colour(const struct topo_view *view, int rank);

extern const char *const ri_svg_ring_colour, *const ri_svg_pci_colour, *const ri_svg_link_colour;
extern const char *const ri_svg_slow_colour, *const ri_svg_ink, *const ri_svg_faint;

/* topo_svg_tiles.c, topo_svg_links.c, topo_svg_net.c */
void ri_svg_draw_frames(FILE *to, const struct svg_picture *picture);
void ri_svg_draw_bars(FILE *to, const struct svg_picture *picture); /* below lines */
void ri_svg_draw_tiles(FILE *to, const struct svg_picture *picture); /* above them */
void ri_svg_draw_pci(FILE *to, const struct svg_picture *picture);
void ri_svg_draw_links(FILE *to, const struct svg_picture *picture);
int ri_svg_draw_rings(FILE *to, const struct svg_picture *picture);
/* After all else has its place; says where the legend begins. */
void ri_svg_place_network(struct svg_picture *picture);
void ri_svg_draw_network(FILE *to, const struct svg_picture *picture);

#endif
