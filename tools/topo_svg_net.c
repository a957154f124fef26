/* SPDX-License-Identifier: Apache-2.0 */
/* What lies between hosts: a track for each rail, and the lines of NICs that lead there. */
#include "tools/topo_svg.h"

enum { LINES = 8 }; /* of one NIC, that can be told apart */

static int tracks_of(const struct svg_picture *p)
{
    if (p->view->hosts < 2)
        return 0;
    return p->view->rails < SVG_TRACKS ? p->view->rails : SVG_TRACKS;
}

static double track_y(const struct svg_picture *p, int rail)
{
    return p->network.y + 16 + SVG_TRACK * (rail % SVG_TRACKS);
}

void ri_svg_place_network(struct svg_picture *p)
{
    const struct svg_box *last = &p->hosts[p->host_count - 1].box;
    double right = last->x + last->w + (p->hosts_left ? SVG_MARGIN + SVG_MORE : 0);

    p->network = (struct svg_box){ SVG_MARGIN, p->rows.network, right - SVG_MARGIN, 32 };
    if (tracks_of(p))
        p->network.h += SVG_TRACK * tracks_of(p);
    if (!p->rows.has_nics)
        p->network.h = 0;
    p->legend = p->network.y + p->network.h + (p->rows.has_nics ? 28 : 0);
}

/* Each rank has a line; of many on one NIC, the first of each rail, for all of them. */
static int has_line(const struct svg_picture *p, int rank)
{
    const struct topo_view *view = p->view;
    int32_t nic = view->topo->ranks[rank].nic;
    int h;

    if (nic < 0 || !(p->at[nic].w > 0))
        return 0;
    h = view->host_of[nic];
    for (int i = view->rank_start[h]; view->topo->ranks[rank].nic_shares > LINES && view->rank[i] != rank; i++)
        if (view->topo->ranks[view->rank[i]].nic == nic && view->rail[view->rank[i]] == view->rail[rank])
            return 0;
    return 1;
}

/* The lines of a NIC; of those before this rank's too. */
static int count_lines(const struct svg_picture *p, int rank, int *before)
{
    const struct topo_view *view = p->view;
    int32_t nic = view->topo->ranks[rank].nic;
    int h = view->host_of[nic], count = 0;

    *before = 0;
    for (int i = view->rank_start[h]; i < view->rank_start[h + 1]; i++)
        if (view->topo->ranks[view->rank[i]].nic == nic && has_line(p, view->rank[i])) {
            *before += view->rank[i] < rank;
            count++;
        }
    return count;
}

static double rank_line_x(const struct svg_picture *p, int rank)
{
    struct svg_box box = p->at[p->view->topo->ranks[rank].nic];
    int before, count = count_lines(p, rank, &before);
    double step = count > LINES ? (double)box.w / (count + 1) : 8;

    return box.x + box.w / 2 + (before - (count - 1) / 2.0) * step;
}

static void draw_tracks(FILE *to, const struct svg_picture *p)
{
    const struct topo_view *view = p->view;

    for (int rail = 0; rail < view->rails; rail++) {
        double first = 1e9, last = -1;
        const char *colour = NULL;

        for (int r = 0; r < view->topo->rank_count; r++) {
            if (view->rail[r] != rail || !has_line(p, r))
                continue;
            first = rank_line_x(p, r) < first ? rank_line_x(p, r) : first;
            last = rank_line_x(p, r) > last ? rank_line_x(p, r) : last;
            colour = view->rails > 1 ? ri_svg_rank_colour(view, r) : ri_svg_faint;
        }
        if (!colour)
            continue;
        if (p->hosts_left)
            fprintf(to,
                    "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2.5\" "
                    "stroke-dasharray=\"6 4\"/>\n",
                    last, track_y(p, rail), p->network.x + p->network.w - 14, track_y(p, rail), colour);
        ri_svg_line(to, first, track_y(p, rail), last, track_y(p, rail), 2.5, colour);
    }
}

static void draw_rank_line(FILE *to, const struct svg_picture *p, int rank)
{
    const struct topo_view *view = p->view;
    const struct ri_topo_rank *it = &view->topo->ranks[rank];
    struct svg_box box = p->at[it->nic];
    double x = rank_line_x(p, rank), end = tracks_of(p) ? track_y(p, view->rail[rank]) : p->network.y;
    const char *colour = ri_svg_rank_colour(view, rank);
    int before, lines = count_lines(p, rank, &before);

    ri_svg_line(to, x, box.y + box.h, x, end, ri_svg_width(view->topo->objects[it->nic].nic.gbps / lines), colour);
    if (tracks_of(p))
        fprintf(to,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#ffffff\" stroke=\"%s\" stroke-width=\"2\"/>\n",
                x, end, colour);
}

static void draw_label(FILE *to, const struct svg_picture *p)
{
    char text[128];

    if (tracks_of(p))
        snprintf(text, sizeof(text), "network \xc2\xb7 %d rail%s, of ranks that meet across hosts", p->view->rails,
                 p->view->rails == 1 ? "" : "s");
    else
        snprintf(text, sizeof(text), "network");
    ri_svg_text(to, p->network.x + 14, p->network.y + p->network.h - 11, 11, SVG_BOLD, ri_svg_faint, "start",
                p->network.w - 28, text);
}

void ri_svg_draw_network(FILE *to, const struct svg_picture *p)
{
    const struct topo_view *view = p->view;

    if (!p->rows.has_nics)
        return;
    ri_svg_rect(to, p->network, 10, "#eef1f5", "#c5ced8", "");
    for (int32_t i = 0; i < view->topo->object_count; i++)
        if (view->topo->objects[i].kind == RI_TOPO_NIC && p->at[i].w > 0 && !view->chosen[i] && view->used[i])
            ri_svg_line(to, p->at[i].x + p->at[i].w / 2, p->at[i].y + p->at[i].h, p->at[i].x + p->at[i].w / 2,
                        p->network.y, ri_svg_width(view->topo->objects[i].nic.gbps), ri_svg_pci_colour);
    if (tracks_of(p))
        draw_tracks(to, p);
    for (int r = 0; r < view->topo->rank_count; r++)
        if (has_line(p, r))
            draw_rank_line(to, p, r);
    draw_label(to, p);
}
