/* SPDX-License-Identifier: Apache-2.0 */
/* Which hosts are drawn, their panels, and the rows that all of them share. */
#include <math.h>
#include <rondo/status.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tools/topo_svg.h"

void ri_svg_release(struct svg_picture *p)
{
    free(p->at);
    free(p->joined);
    free(p->panel_of);
    free(p->units);
    free(p->storey);
    free(p->clique);
    free(p->panels);
    free(p->hosts);
    *p = (struct svg_picture){ 0 };
}

static int allocate(struct svg_picture *p)
{
    size_t objects = (size_t)p->view->topo->object_count;

    p->at = calloc(objects, sizeof(*p->at));
    p->joined = malloc(objects * sizeof(*p->joined));
    p->panel_of = malloc(objects * sizeof(*p->panel_of));
    p->units = calloc(objects, 1);
    p->storey = calloc(objects, 1);
    p->clique = malloc(objects * sizeof(*p->clique));
    p->panels = calloc(objects + SVG_HOSTS, sizeof(*p->panels));
    p->hosts = calloc(SVG_HOSTS, sizeof(*p->hosts));
    if (!p->at || !p->joined || !p->panel_of || !p->units || !p->storey || !p->clique || !p->panels || !p->hosts)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a picture of %zu objects", objects);
    for (size_t i = 0; i < objects; i++)
        p->joined[i] = p->clique[i] = p->panel_of[i] = -1;
    return 0;
}

/* The first two of each kind of host, while there is room. */
static void choose_hosts(struct svg_picture *p)
{
    const struct topo_view *view = p->view;

    for (int h = 0; h < view->hosts; h++) {
        int before = 0;

        for (int i = 0; i < p->host_count; i++)
            before += view->like[p->hosts[i].number] == view->like[h];
        if (before < 2 && p->host_count < SVG_HOSTS)
            p->hosts[p->host_count++].number = h;
    }
    p->hosts_left = view->hosts - p->host_count;
}

/* ---- panels ---- */

static int add_panel(struct svg_picture *p, struct svg_host *host, int32_t object)
{
    p->panels[p->panel_count] = (struct svg_panel){ .host = host->number, .object = object };
    host->panels++;
    return p->panel_count++;
}

/* A panel for each NUMA node, and one for what lies in none of them. */
static void make_panels(struct svg_picture *p, struct svg_host *host)
{
    const struct topo_view *view = p->view;
    const struct ri_topo_object *objects = view->topo->objects;
    int32_t first = view->host[host->number], end = view->end[host->number];
    int rest = -1;

    host->first_panel = p->panel_count;
    for (int32_t i = first; i < end; i++)
        if (objects[i].kind == RI_TOPO_NUMA)
            p->panel_of[i] = add_panel(p, host, i);
    if (!host->panels)
        rest = add_panel(p, host, first);
    for (int32_t i = first; i < end; i++) {
        int32_t numa = ri_topo_above(view->topo, i, RI_TOPO_NUMA);

        if ((objects[i].kind != RI_TOPO_GPU && objects[i].kind != RI_TOPO_BRIDGE && objects[i].kind != RI_TOPO_NIC) ||
            (objects[i].kind == RI_TOPO_NIC && !topo_view_shows_nic(view, i)))
            continue;
        if (numa < 0 && rest < 0 && objects[i].kind != RI_TOPO_BRIDGE)
            rest = add_panel(p, host, -1);
        p->panel_of[i] = numa >= 0 ? p->panel_of[numa] : rest;
    }
    for (int32_t i = first; rest >= 0 && i < end; i++) /* bridges come before what hangs on them */
        if (objects[i].kind == RI_TOPO_BRIDGE && p->panel_of[i] < 0)
            p->panel_of[i] = rest;
}

/* ---- GPUs that are joined pair by pair ---- */

/* The first GPU of which all those joined to `gpu` are joined alike to each other; -1: it is in no such group. */
static int32_t find_clique(const struct svg_picture *p, int32_t gpu)
{
    const struct ri_topo *topo = p->view->topo;
    const struct ri_topo_link *like = NULL;
    int32_t members[256], count = 0, end = p->view->end[p->view->host_of[gpu]];

    for (int32_t i = p->view->host[p->view->host_of[gpu]]; i < end && count < 256; i++) {
        const struct ri_topo_link *link = ri_topo_link_between(topo, gpu, i);

        if (topo->objects[i].kind != RI_TOPO_GPU || (i != gpu && !link))
            continue;
        members[count++] = i;
        like = i != gpu ? link : like;
    }
    for (int a = 0; a < count; a++)
        for (int b = 0; b < a; b++) {
            const struct ri_topo_link *link = ri_topo_link_between(topo, members[a], members[b]);

            if (!link || link->kind != like->kind || link->gbps != like->gbps || link->count != like->count)
                return -1;
        }
    return count > 2 && count < 256 ? members[0] : -1;
}

static void find_cliques(struct svg_picture *p, struct svg_host *host)
{
    for (int32_t i = p->view->host[host->number]; i < p->view->end[host->number]; i++) {
        if (p->view->topo->objects[i].kind != RI_TOPO_GPU)
            continue;
        p->clique[i] = find_clique(p, i);
        host->has_bar |= p->clique[i] >= 0;
    }
    p->rows.has_bar |= host->has_bar;
}

/* ---- rows ---- */

struct svg_box ri_svg_anchor(const struct svg_picture *p, int32_t object)
{
    const struct ri_topo_object *it = &p->view->topo->objects[object];
    int h = p->view->host_of[object];

    if (it->kind == RI_TOPO_GPU)
        return p->at[object];
    if (it->kind == RI_TOPO_NUMA && p->panel_of[object] >= 0)
        return p->panels[p->panel_of[object]].cpu;
    for (int i = 0; i < p->host_count; i++)
        if (p->hosts[i].number == h)
            return p->panels[p->hosts[i].first_panel].cpu;
    return (struct svg_box){ 0 };
}

double ri_svg_arc_peak(double span)
{
    double tiles = span / (SVG_TILE + SVG_GAP);

    if (tiles < 1.2)
        return 24;
    return tiles < 12 ? 30 + 10 * tiles : 150;
}

double ri_svg_ring_lift(const struct ri_topo *topo, const int *ranks, int count, int hop)
{
    int32_t a = topo->ranks[ranks[hop]].object, b = topo->ranks[ranks[(hop + 1) % count]].object;

    for (int i = 0; i < hop; i++)
        if (topo->ranks[ranks[i]].object == b && topo->ranks[ranks[i + 1]].object == a)
            return SVG_LIFT;
    return 0;
}

int ri_svg_local_ring(const struct topo_view *view, int host, int *ranks)
{
    int count = 0;

    for (int i = 0; i < view->topo->rank_count; i++)
        if (view->host_of[view->topo->ranks[view->order[i]].object] == host)
            ranks[count++] = view->order[i];
    return count;
}

static void raise_peak(struct svg_picture *p, int32_t a, int32_t b, double lift)
{
    struct svg_box from = ri_svg_anchor(p, a), to = ri_svg_anchor(p, b);
    double span = fabs(from.x + from.w / 2 - to.x - to.w / 2);

    if (a != b && ri_svg_arc_peak(span) + lift > p->rows.peak)
        p->rows.peak = ri_svg_arc_peak(span) + lift;
}

static int measure_arcs(struct svg_picture *p, int host)
{
    const struct ri_topo *topo = p->view->topo;
    int *ranks = malloc(((size_t)topo->rank_count + 1) * sizeof(*ranks)), count;

    if (!ranks)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a picture of %d ranks", (int)topo->rank_count);
    count = ri_svg_local_ring(p->view, host, ranks);
    for (int i = 0; i < count; i++)
        raise_peak(p, topo->ranks[ranks[i]].object, topo->ranks[ranks[(i + 1) % count]].object,
                   ri_svg_ring_lift(topo, ranks, count, i));
    for (int32_t i = 0; i < topo->link_count; i++)
        if (p->view->host_of[topo->links[i].a] == host && p->clique[topo->links[i].a] < 0 &&
            topo->objects[topo->links[i].a].kind == topo->objects[topo->links[i].b].kind)
            raise_peak(p, topo->links[i].a, topo->links[i].b, 0);
    free(ranks);
    return 0;
}

static void find_kinds(struct svg_picture *p, const struct svg_host *host)
{
    struct svg_rows *rows = &p->rows;

    for (int32_t i = p->view->host[host->number]; i < p->view->end[host->number]; i++) {
        const struct ri_topo_object *it = &p->view->topo->objects[i];
        int is_block = it->kind == RI_TOPO_NUMA || p->panels[host->first_panel].object == i;

        rows->has_gpus |= it->kind == RI_TOPO_GPU;
        rows->has_nics |= it->kind == RI_TOPO_NIC && p->panel_of[i] >= 0;
        rows->has_details |= is_block && (it->cpu_count || it->cpus[0]);
        rows->has_packages |= it->kind == RI_TOPO_PACKAGE && ri_topo_count(p->view->topo, i, RI_TOPO_NUMA) > 1;
    }
}

static void place_rows(struct svg_picture *p)
{
    struct svg_rows *r = &p->rows;
    double switches = (r->storeys + 1) * SVG_STOREY + r->outer * SVG_RAIL;

    r->link_bar = SVG_TITLE + SVG_HEAD;
    r->arcs = r->link_bar + (r->has_bar ? SVG_LINK_BAR : 0);
    r->panel = r->arcs + (r->peak > 0 ? r->peak + 12 : r->has_bar ? 30 : 0);
    r->gpu = r->panel + 14;
    if (!r->has_gpus)
        r->gpu -= r->peak > 0 ? 14 : 0;
    r->band = r->gpu + (r->has_gpus ? SVG_GPU + SVG_FEED : 0);
    r->band_height = r->has_details ? SVG_BLOCK : SVG_BLOCK_EMPTY;
    if (r->band_height < switches)
        r->band_height = switches;
    r->nic = r->band + r->band_height + SVG_FEED;
    r->panel_end = (r->has_nics ? r->nic + SVG_NIC : r->band + r->band_height) + 14;
    r->host_end = r->panel_end + (r->has_packages ? SVG_PACKAGE : 0) + SVG_PAD;
    r->network = r->host_end + 34;
}

/* y of all that has been placed along x. */
static void settle(struct svg_picture *p)
{
    for (int32_t i = 0; i < p->view->topo->object_count; i++)
        if (p->at[i].w > 0) {
            enum ri_topo_kind kind = p->view->topo->objects[i].kind;

            p->at[i].y += kind == RI_TOPO_GPU ? p->rows.gpu : kind == RI_TOPO_NIC ? p->rows.nic : p->rows.band;
        }
    for (int i = 0; i < p->panel_count; i++) {
        p->panels[i].box.y = p->rows.panel;
        p->panels[i].box.h = p->rows.panel_end - p->rows.panel;
        p->panels[i].cpu.y = p->rows.band;
        p->panels[i].cpu.h = p->rows.band_height;
    }
    for (int i = 0; i < p->host_count; i++) {
        p->hosts[i].box.y = SVG_TITLE;
        p->hosts[i].box.h = p->rows.host_end - SVG_TITLE;
    }
}

static double place_host(struct svg_picture *p, struct svg_host *host, double x)
{
    double at = x + SVG_PAD, width;

    for (int i = 0; i < host->panels; i++)
        at += ri_svg_place_panel(p, host->first_panel + i, at) + SVG_PAD;
    width = at - x;
    at = x + SVG_PAD + (SVG_HOST - width) / 2;
    for (int i = 0; width < SVG_HOST && i < host->panels; i++) /* again, in the middle */
        at += ri_svg_place_panel(p, host->first_panel + i, at) + SVG_PAD;
    host->box.x = x;
    host->box.w = width < SVG_HOST ? SVG_HOST : width;
    return host->box.w;
}

int ri_svg_lay_out(struct svg_picture *p, const struct topo_view *view)
{
    double x = SVG_MARGIN;
    int err;

    *p = (struct svg_picture){ .view = view };
    err = allocate(p);
    if (err)
        return err;
    choose_hosts(p);
    for (int i = 0; !err && i < p->host_count; i++) {
        make_panels(p, &p->hosts[i]);
        ri_svg_join(p, p->hosts[i].number);
        find_cliques(p, &p->hosts[i]);
        find_kinds(p, &p->hosts[i]);
        x += place_host(p, &p->hosts[i], x) + SVG_MARGIN;
        err = measure_arcs(p, p->hosts[i].number);
    }
    if (err)
        return err;
    p->width = x + (p->hosts_left ? SVG_MORE + SVG_MARGIN : 0);
    place_rows(p);
    settle(p);
    return 0;
}
