/* SPDX-License-Identifier: Apache-2.0 */
/* Where things are within a panel: switches with what hangs on them, left and right of the processors. */
#include <stdlib.h>
#include <string.h>

#include "tools/topo_svg.h"

static enum ri_topo_kind kind_of(const struct svg_picture *p, int32_t object)
{
    return p->view->topo->objects[object].kind;
}

static int is_device(const struct svg_picture *p, int32_t object)
{
    return p->panel_of[object] >= 0 && (kind_of(p, object) == RI_TOPO_GPU || kind_of(p, object) == RI_TOPO_NIC);
}

static int is_switch(const struct svg_picture *p, int32_t object)
{
    return kind_of(p, object) == RI_TOPO_BRIDGE && p->units[object] > 1;
}

/* A bridge with one thing on it is a port, and not drawn. */
static void count_units(struct svg_picture *p, int host)
{
    const struct ri_topo_object *objects = p->view->topo->objects;

    for (int32_t i = p->view->end[host] - 1; i > p->view->host[host]; i--) {
        int32_t parent = objects[i].parent;

        if (parent < 0 || kind_of(p, parent) != RI_TOPO_BRIDGE || !(is_device(p, i) || p->units[i]))
            continue;
        if (p->units[parent] < 2)
            p->units[parent]++;
        if (is_switch(p, i) && p->storey[parent] < p->storey[i] + 1)
            p->storey[parent] = (uint8_t)(p->storey[i] < 254 ? p->storey[i] + 1 : 254);
        else if (p->storey[parent] < p->storey[i])
            p->storey[parent] = p->storey[i];
    }
}

void ri_svg_join(struct svg_picture *p, int host)
{
    const struct ri_topo_object *objects = p->view->topo->objects;

    count_units(p, host);
    for (int32_t i = p->view->host[host]; i < p->view->end[host]; i++) {
        int32_t above = objects[i].parent;

        while (above >= 0 && !is_switch(p, above) && kind_of(p, above) != RI_TOPO_NUMA)
            above = objects[above].parent;
        p->joined[i] = above >= 0 && is_switch(p, above) ? above : -1;
        if (is_switch(p, i) && p->storey[i] > p->rows.storeys)
            p->rows.storeys = p->storey[i];
    }
}

/* ---- along x ---- */

/* What hangs on a switch, or with -1 on the processors of the panel. */
static int hangs_on(const struct svg_picture *p, int panel, int32_t above, int32_t object)
{
    return p->panel_of[object] == panel && p->joined[object] == above;
}

static int count_devices(const struct svg_picture *p, int panel, int32_t above, enum ri_topo_kind kind)
{
    int h = p->panels[panel].host, count = 0;

    for (int32_t i = p->view->host[h]; i < p->view->end[h]; i++)
        count += kind_of(p, i) == kind && hangs_on(p, panel, above, i);
    return count;
}

static double row_width(int count)
{
    return count ? count * SVG_TILE + (count - 1) * SVG_GAP : 0;
}

/* GPUs in their row and NICs in theirs, in the middle of the width. */
static void place_devices(struct svg_picture *p, int panel, int32_t above, double x, double width)
{
    static const enum ri_topo_kind kinds[] = { RI_TOPO_GPU, RI_TOPO_NIC };
    int h = p->panels[panel].host;

    for (int k = 0; k < 2; k++) {
        double at = x + (width - row_width(count_devices(p, panel, above, kinds[k]))) / 2;

        for (int32_t i = p->view->host[h]; i < p->view->end[h]; i++) {
            if (kind_of(p, i) != kinds[k] || !hangs_on(p, panel, above, i))
                continue;
            p->at[i] = (struct svg_box){ at, 0, SVG_TILE, k ? SVG_NIC : SVG_GPU };
            at += SVG_TILE + SVG_GAP;
        }
    }
}

static double devices_width(const struct svg_picture *p, int panel, int32_t above)
{
    int gpus = count_devices(p, panel, above, RI_TOPO_GPU), nics = count_devices(p, panel, above, RI_TOPO_NIC);

    return row_width(gpus > nics ? gpus : nics);
}

/* As deep as there are switches with several things on them, so no deeper than there are devices. */
static double place_switch(struct svg_picture *p, int panel, int32_t object, double x)
{
    int h = p->panels[panel].host;
    double at = x, width;

    for (int32_t i = object + 1; i < p->view->end[h]; i++)
        if (is_switch(p, i) && hangs_on(p, panel, object, i))
            at += place_switch(p, panel, i, at) + SVG_GAP;
    width = devices_width(p, panel, object);
    if (width > 0) {
        place_devices(p, panel, object, at, width);
        at += width + SVG_GAP;
    }
    width = at - SVG_GAP - x;
    p->at[object] = (struct svg_box){ x, p->storey[object] * SVG_STOREY, width, SVG_BAR };
    return width;
}

/* Switches first to last that hang on the panel itself; returns the x behind them. */
static double place_switches(struct svg_picture *p, int panel, int first, int last, double x)
{
    int h = p->panels[panel].host, k = 0;

    for (int32_t i = p->view->host[h]; i < p->view->end[h]; i++)
        if (is_switch(p, i) && hangs_on(p, panel, -1, i)) {
            if (k >= first && k < last)
                x += place_switch(p, panel, i, x) + SVG_GROUP_GAP;
            k++;
        }
    return x;
}

static int count_switches(const struct svg_picture *p, int panel)
{
    int h = p->panels[panel].host, count = 0;

    for (int32_t i = p->view->host[h]; i < p->view->end[h]; i++)
        count += is_switch(p, i) && hangs_on(p, panel, -1, i);
    return count;
}

double ri_svg_place_panel(struct svg_picture *p, int panel, double x)
{
    int switches = count_switches(p, panel), left = (switches + 1) / 2;
    double width = devices_width(p, panel, -1) + (devices_width(p, panel, -1) > 0 ? 16 : 0), at = x + SVG_PAD;

    if (width < SVG_CPU_ALONE)
        width = SVG_CPU_ALONE;
    if (width < SVG_CPU && (switches || !p->rows.has_gpus))
        width = SVG_CPU;
    at = place_switches(p, panel, 0, left, at);
    p->panels[panel].cpu = (struct svg_box){ at, 0, width, 0 };
    place_devices(p, panel, -1, at, width);
    at += width + SVG_GROUP_GAP;
    at = place_switches(p, panel, left, switches, at);
    p->panels[panel].box.x = x;
    p->panels[panel].box.w = at - SVG_GROUP_GAP + SVG_PAD - x;
    if (left - 1 > p->rows.outer)
        p->rows.outer = left - 1;
    return p->panels[panel].box.w;
}
