/* SPDX-License-Identifier: Apache-2.0 */
/* Lines within hosts: PCI, links beside it, and the ring. */
#include <math.h>
#include <rondo/status.h>
#include <stdlib.h>

#include "base/status.h"
#include "tools/topo_svg.h"
#include "tools/topo_text.h"

/* ---- PCI ---- */

static double middle(struct svg_box box)
{
    return box.x + box.w / 2;
}

static int is_slow(const struct ri_topo_object *it)
{
    return it->link_gbps > 0 && it->full_gbps > it->link_gbps * 1.01;
}

static void note_slow(FILE *to, const struct ri_topo_object *it, double x, double y)
{
    char text[64], gbps[16], full[16];

    if (!is_slow(it))
        return;
    snprintf(text, sizeof(text), "%s of %s", topo_gbps(it->link_gbps, gbps), topo_gbps(it->full_gbps, full));
    ri_svg_text(to, x + 6, y, 9.5, SVG_BOLD, ri_svg_slow_colour, "start", 0, text);
}

/* A GPU hangs above its switch, a NIC below. */
static void draw_device(FILE *to, const struct svg_picture *p, int32_t object)
{
    const struct ri_topo_object *it = &p->view->topo->objects[object];
    struct svg_box box = p->at[object];
    struct svg_box above = p->joined[object] >= 0 ? p->at[p->joined[object]] : p->panels[p->panel_of[object]].cpu;
    const char *colour = is_slow(it) ? ri_svg_slow_colour : ri_svg_pci_colour;
    double x = middle(box), width = ri_svg_width(it->link_gbps);

    if (it->kind == RI_TOPO_GPU) {
        ri_svg_crossing(to, x, box.y + box.h, x, above.y, width, colour);
        note_slow(to, it, x, box.y + box.h + 17);
    } else {
        ri_svg_crossing(to, x, above.y + above.h, x, box.y, width, colour);
        note_slow(to, it, x, box.y - 9);
    }
}

/* place: 0 for the switch beside the processors, which is reached straight; others go round those between. */
static void draw_trunk(FILE *to, const struct svg_picture *p, int32_t object, int place)
{
    const struct ri_topo_object *it = &p->view->topo->objects[object];
    struct svg_box box = p->at[object], cpu = p->panels[p->panel_of[object]].cpu;
    int left = box.x < cpu.x;
    double from = left ? box.x + box.w : box.x, end = left ? cpu.x : cpu.x + cpu.w;
    double width = ri_svg_width(it->link_gbps), y = box.y + box.h / 2;
    const char *colour = is_slow(it) ? ri_svg_slow_colour : ri_svg_pci_colour;

    if (place == 0) {
        ri_svg_line(to, from, y, end, y, width, colour);
    } else {
        double x = left ? from - 12 : from + 12;
        double low = p->rows.band + (p->rows.storeys + 1) * SVG_STOREY + SVG_RAIL * (place - 1);

        ri_svg_crossing(to, x, box.y + box.h, x, low, width, colour);
        ri_svg_crossing(to, x, low, end, low, width, colour);
    }
}

/* How many switches lie between this one and the processors. */
static int place_of(const struct svg_picture *p, int32_t object)
{
    struct svg_box cpu = p->panels[p->panel_of[object]].cpu;
    int h = p->view->host_of[object], between = 0;

    for (int32_t i = p->view->host[h]; i < p->view->end[h]; i++)
        if (p->view->topo->objects[i].kind == RI_TOPO_BRIDGE && p->at[i].w > 0 && p->joined[i] < 0 &&
            p->panel_of[i] == p->panel_of[object])
            between += p->at[object].x < cpu.x ? p->at[i].x > p->at[object].x && p->at[i].x < cpu.x
                                               : p->at[i].x < p->at[object].x && p->at[i].x > cpu.x;
    return between;
}

void ri_svg_draw_pci(FILE *to, const struct svg_picture *p)
{
    for (int32_t i = 0; i < p->view->topo->object_count; i++) {
        if (!(p->at[i].w > 0))
            continue;
        if (p->view->topo->objects[i].kind != RI_TOPO_BRIDGE)
            draw_device(to, p, i);
        else if (p->joined[i] < 0)
            draw_trunk(to, p, i, place_of(p, i));
        else /* in the middle of the lower one, which stands below it */
            ri_svg_line(to, middle(p->at[i]), p->at[i].y + SVG_BAR, middle(p->at[i]), p->at[p->joined[i]].y,
                        ri_svg_width(p->view->topo->objects[i].link_gbps), ri_svg_pci_colour);
    }
}

/* ---- links ---- */

struct arc {
    double width;
    const char *colour;
    double lift; /* how much higher than others */
    int has_arrow;
};

/* Away from the middle to the side of the partner, shorter ones more so: arcs lie in one another. */
static void draw_arc(FILE *to, struct svg_box a, struct svg_box b, const struct arc *arc)
{
    double span = fabs(middle(a) - middle(b)), peak = ri_svg_arc_peak(span) + arc->lift, reach = peak / 0.75;
    double off = fmax(20 - 3 * span / (SVG_TILE + SVG_GAP) - arc->lift / 2, 4);
    double side = middle(a) < middle(b) ? off : -off;
    double x1 = middle(a) + side, x2 = middle(b) - side;
    double x = (x1 + x2) / 2, y = a.y - peak, way = side > 0 ? 6 : -6;

    fprintf(to,
            "<path d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\" fill=\"none\" stroke=\"%s\" "
            "stroke-width=\"%.1f\"/>\n",
            x1, a.y, x1, a.y - reach, x2, b.y - reach, x2, b.y, arc->colour,
            arc->width);
    if (arc->has_arrow)
        fprintf(to, "<path d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1fZ\" fill=\"%s\"/>\n", x + way, y, x - way, y - 5, x - way,
                y + 5, arc->colour);
}

static void draw_link(FILE *to, const struct svg_picture *p, const struct ri_topo_link *link)
{
    const struct ri_topo_object *objects = p->view->topo->objects;
    struct svg_box a = ri_svg_anchor(p, link->a), b = ri_svg_anchor(p, link->b);
    double width = ri_svg_width(link->gbps);
    char text[64], gbps[16];

    if (!(a.w > 0 && b.w > 0) || p->clique[link->a] >= 0)
        return;
    if (objects[link->a].kind == objects[link->b].kind) {
        draw_arc(to, a, b, &(struct arc){ width, ri_svg_link_colour, 0, 0 });
        return;
    }
    if (a.y > b.y) { /* a GPU above, its processors below: C2C */
        struct svg_box upper = b;

        b = a;
        a = upper;
    }
    ri_svg_line(to, middle(a) + 16, a.y + a.h, middle(a) + 16, b.y, width, ri_svg_link_colour);
    snprintf(text, sizeof(text), "%s %s", ri_topo_link_names[link->kind], topo_gbps(link->gbps, gbps));
    ri_svg_text(to, middle(a) + 18 + width / 2, a.y + a.h + 17, 9.5, SVG_PLAIN, ri_svg_faint, "start", 0, text);
}

/* The bar that stands for all pairs among GPUs, and a line for each. */
static void draw_clique(FILE *to, const struct svg_picture *p, int32_t first)
{
    const struct topo_view *view = p->view;
    const struct ri_topo_link *link = NULL;
    struct svg_box bar = { 0, p->rows.link_bar, 0, SVG_LINK_BAR - 2 };
    double right = 0;
    char text[160], gbps[16], level[12];
    struct ri_topo_path path = { .level = RI_TOPO_NVL };

    for (int32_t i = first; i < view->end[view->host_of[first]]; i++) {
        if (p->clique[i] != first || !(p->at[i].w > 0))
            continue;
        if (i != first)
            link = ri_topo_link_between(view->topo, first, i);
        bar.x = i == first || p->at[i].x < bar.x ? p->at[i].x : bar.x;
        right = p->at[i].x + p->at[i].w > right ? p->at[i].x + p->at[i].w : right;
    }
    if (!link)
        return;
    for (int32_t i = first; i < view->end[view->host_of[first]]; i++)
        if (p->clique[i] == first && p->at[i].w > 0)
            ri_svg_line(to, middle(p->at[i]), bar.y + 10, middle(p->at[i]), p->at[i].y, ri_svg_width(link->gbps),
                        ri_svg_link_colour);
    bar.w = right - bar.x;
    path.links = link->count;
    ri_topo_level_text(&path, level);
    snprintf(text, sizeof(text), "%s \xc2\xb7 every pair %s, %s GB/s", link->kind == RI_TOPO_NVLINK ? "NVSwitch"
             : link->kind == RI_TOPO_XGMI ? "XGMI" : "C2C", level, topo_gbps(link->gbps, gbps));
    ri_svg_rect(to, bar, 6, "#e4efd9", "#9dbb7d", "");
    ri_svg_text(to, middle(bar), bar.y + 15, 11, SVG_BOLD, "#3f5a26", "middle", bar.w - 12, text);
}

void ri_svg_draw_links(FILE *to, const struct svg_picture *p)
{
    for (int32_t i = 0; i < p->view->topo->link_count; i++)
        draw_link(to, p, &p->view->topo->links[i]);
    for (int32_t i = 0; i < p->view->topo->object_count; i++)
        if (p->clique[i] == i)
            draw_clique(to, p, i);
}

/* ---- the ring ---- */

/* Arcs go above all GPUs, also those of ranks that stand on processors. */
static struct svg_box lift_anchor(const struct svg_picture *p, int32_t object)
{
    struct svg_box box = ri_svg_anchor(p, object);

    if (p->rows.has_gpus && p->view->topo->objects[object].kind != RI_TOPO_GPU)
        box.y = p->rows.panel;
    return box;
}

/* From the arcs down to processors, behind GPUs. */
static void draw_stems(FILE *to, const struct svg_picture *p, const int *ranks, int count)
{
    for (int i = 0; count > 1 && i < count; i++) {
        int32_t object = p->view->topo->ranks[ranks[i]].object;
        struct svg_box box = ri_svg_anchor(p, object), lifted = lift_anchor(p, object);

        if (lifted.y < box.y)
            ri_svg_line(to, middle(box), lifted.y, middle(box), box.y, 2.4, ri_svg_ring_colour);
    }
}

static void draw_ring(FILE *to, const struct svg_picture *p, const int *ranks, int count)
{
    const struct ri_topo *topo = p->view->topo;

    for (int i = 0; count > 1 && i < count; i++) {
        int32_t a = topo->ranks[ranks[i]].object, b = topo->ranks[ranks[(i + 1) % count]].object;

        struct arc arc = { 2.4, ri_svg_ring_colour, ri_svg_ring_lift(topo, ranks, count, i), 1 };

        if (a != b)
            draw_arc(to, lift_anchor(p, a), lift_anchor(p, b), &arc);
    }
}

int ri_svg_draw_rings(FILE *to, const struct svg_picture *p)
{
    int *ranks = malloc(((size_t)p->view->topo->rank_count + 1) * sizeof(*ranks));

    if (!ranks)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a picture of %d ranks", (int)p->view->topo->rank_count);
    for (int i = 0; i < p->host_count; i++) {
        int count = ri_svg_local_ring(p->view, p->hosts[i].number, ranks);

        draw_ring(to, p, ranks, count);
        draw_stems(to, p, ranks, count);
    }
    free(ranks);
    return 0;
}
