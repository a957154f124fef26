/* SPDX-License-Identifier: Apache-2.0 */
#include <rondo/status.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tools/topo_svg.h"
#include "tools/topo_text.h"

enum { SAMPLES = 6, ENTRY_GAP = 26 };

/* ---- title ---- */

static void count_words(char *text, size_t bytes, int count, const char *what)
{
    size_t had = strlen(text);

    if (count)
        snprintf(text + had, bytes - had, "%s%d %s%s", had ? ", " : "", count, what, count == 1 ? "" : "s");
}

static void draw_title(FILE *to, const struct svg_picture *p)
{
    const struct ri_topo *topo = p->view->topo;
    const struct ri_topo_lanes *lanes = &p->view->lanes;
    char text[256] = "", gbps[16];
    int gpus = 0, nics = 0;

    for (int32_t i = 0; i < topo->object_count; i++) {
        gpus += topo->objects[i].kind == RI_TOPO_GPU;
        nics += topo->objects[i].kind == RI_TOPO_NIC && topo_view_shows_nic(p->view, i);
    }
    count_words(text, sizeof(text), p->view->hosts, "host");
    count_words(text, sizeof(text), gpus, "GPU");
    count_words(text, sizeof(text), nics, "NIC");
    count_words(text, sizeof(text), topo->rank_count, "rank");
    ri_svg_text(to, SVG_MARGIN, 40, p->width < 640 ? 19 : 24, SVG_BOLD, ri_svg_ink, "start",
                p->width - 2 * SVG_MARGIN, text);
    text[0] = 0;
    if (lanes->local_gbps > 0)
        snprintf(text, sizeof(text), "ring within a host: %s GB/s at its slowest hop",
                 topo_gbps(lanes->local_gbps, gbps));
    if (lanes->host_gbps > 0)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%sbetween hosts: %s GB/s a NIC%s",
                 text[0] ? " \xc2\xb7 " : "", topo_gbps(lanes->host_gbps, gbps),
                 lanes->ranks_per_nic > 1 ? ", shared by up to " : "");
    if (lanes->host_gbps > 0 && lanes->ranks_per_nic > 1)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d ranks", lanes->ranks_per_nic);
    ri_svg_text(to, SVG_MARGIN, 62, 13, SVG_PLAIN, ri_svg_faint, "start", p->width - 2 * SVG_MARGIN, text);
}

/* ---- legend ---- */

/* Where the next entry goes; begins a new line where it would not fit. */
struct pen {
    FILE *to;
    double x, y, right;
};

static void entry(struct pen *pen, const char *colour, double width, const char *dashes, const char *text)
{
    double room = 46 + 6.6 * (double)strlen(text);

    if (pen->x > SVG_MARGIN && pen->x + room > pen->right) {
        pen->x = SVG_MARGIN;
        pen->y += 26;
    }
    fprintf(pen->to,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%.1f\"%s/>\n", pen->x,
            pen->y - 4, pen->x + 36, pen->y - 4, colour, width, dashes);
    ri_svg_text(pen->to, pen->x + 44, pen->y, 11, SVG_PLAIN, ri_svg_ink, "start", 0, text);
    pen->x += room + ENTRY_GAP;
}

static void note_rate(double rates[SAMPLES], int *count, double gbps)
{
    int i = 0;

    if (!(gbps > 0))
        return;
    while (i < *count && rates[i] < gbps)
        i++;
    if ((i < *count && rates[i] == gbps) || *count == SAMPLES)
        return;
    memmove(&rates[i + 1], &rates[i], (size_t)(*count - i) * sizeof(*rates));
    rates[i] = gbps;
    ++*count;
}

/* Rates that the picture holds, slowest first. */
static int find_rates(const struct svg_picture *p, double rates[SAMPLES + 1])
{
    const struct ri_topo *topo = p->view->topo;
    int count = 0;

    for (int32_t i = 0; i < topo->link_count; i++)
        note_rate(rates, &count, topo->links[i].gbps);
    for (int32_t i = 0; i < topo->object_count; i++)
        if (p->at[i].w > 0)
            note_rate(rates, &count, topo->objects[i].link_gbps);
    for (int32_t i = 0; i < topo->object_count; i++)
        if (p->at[i].w > 0 && topo->objects[i].kind == RI_TOPO_NIC)
            note_rate(rates, &count, topo->objects[i].nic.gbps);
    return count;
}

static int any_slow(const struct svg_picture *p)
{
    for (int32_t i = 0; i < p->view->topo->object_count; i++)
        if (p->at[i].w > 0 && p->view->topo->objects[i].link_gbps > 0 &&
            p->view->topo->objects[i].full_gbps > p->view->topo->objects[i].link_gbps * 1.01)
            return 1;
    return 0;
}

static void draw_legend(FILE *to, struct svg_picture *p)
{
    struct pen pen = { to, SVG_MARGIN, p->legend, p->width - SVG_MARGIN };
    double rates[SAMPLES + 1];
    int count = find_rates(p, rates);
    char text[64], gbps[16];

    for (int i = 0; i < count; i++) {
        snprintf(text, sizeof(text), "%s GB/s", topo_gbps(rates[i], gbps));
        entry(&pen, "#7b8794", ri_svg_width(rates[i]), "", text);
    }
    entry(&pen, ri_svg_pci_colour, 4, "", "PCI");
    if (p->view->topo->link_count)
        entry(&pen, ri_svg_link_colour, 8, "", "NVLink, XGMI, C2C");
    if (p->rows.peak > 0)
        entry(&pen, ri_svg_ring_colour, 2.4, "", "ring within a host");
    if (p->rows.has_nics)
        entry(&pen, "#0072b2", 2.5, "", p->view->rails > 1 && p->view->hosts > 1
              ? "a rank's NIC and rail, in its colour" : "a rank's NIC, in its colour");
    if (any_slow(p))
        entry(&pen, ri_svg_slow_colour, 3, "", "slower than it could be, GB/s");
    p->height = pen.y + 46;
}

/* The size stands first, and is known last. */
static int draw(FILE *to, struct svg_picture *p)
{
    char source[300];
    int err;

    ri_svg_draw_frames(to, p);
    ri_svg_draw_bars(to, p);
    ri_svg_draw_pci(to, p);
    ri_svg_draw_links(to, p);
    err = ri_svg_draw_rings(to, p);
    ri_svg_draw_network(to, p);
    ri_svg_draw_tiles(to, p);
    draw_title(to, p);
    draw_legend(to, p);
    snprintf(source, sizeof(source), "rondo-topo \xc2\xb7 %s", p->view->source);
    ri_svg_text(to, SVG_MARGIN, p->height - 16, 10, SVG_PLAIN, ri_svg_faint, "start", p->width - 2 * SVG_MARGIN,
                source);
    return err;
}

static int write_picture(FILE *to, struct svg_picture *p)
{
    char *body = NULL;
    size_t bytes = 0;
    FILE *part = open_memstream(&body, &bytes);
    int err;

    if (!part)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a picture");
    ri_svg_place_network(p);
    err = draw(part, p);
    if (fclose(part) && !err)
        err = ri_error(RONDO_ERR_MEMORY, "no memory for a picture");
    if (!err) {
        fprintf(to,
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" "
                "width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
                "font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"#fafbfc\"/>\n",
                p->width, p->height, p->width, p->height);
        fwrite(body, 1, bytes, to);
        fputs("</svg>\n", to);
    }
    free(body);
    return err;
}

int topo_print_svg(FILE *to, const struct topo_view *view)
{
    struct svg_picture picture;
    int err = ri_svg_lay_out(&picture, view);

    if (!err)
        err = write_picture(to, &picture);
    ri_svg_release(&picture);
    return err;
}
