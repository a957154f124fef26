/* SPDX-License-Identifier: Apache-2.0 */
/* Pencils and colours of the picture. */
#include <math.h>
#include <string.h>

#include "tools/topo_svg.h"
#include "tools/topo_text.h"

/* Told apart by people who see few colours, and from the ring's. */
static const char *const rail_colours[] = { "#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                            "#332288", "#56b4e9", "#8a7a12", "#882255" };
enum { RAIL_COLOURS = sizeof(rail_colours) / sizeof(rail_colours[0]) };

const char *const ri_svg_ring_colour = "#d55e00", *const ri_svg_pci_colour = "#9aa5b4";
const char *const ri_svg_link_colour = "#aecd8d", *const ri_svg_slow_colour = "#b00020";
const char *const ri_svg_ink = "#1f2933", *const ri_svg_faint = "#66727f";

const char *ri_svg_rank_colour(const struct topo_view *view, int rank)
{
    int h = view->host_of[view->topo->ranks[rank].object], i = view->rank_start[h];

    if (view->rails > 1 && view->hosts > 1)
        return rail_colours[view->rail[rank] % RAIL_COLOURS];
    while (view->rank[i] != rank)
        i++;
    return rail_colours[(i - view->rank_start[h]) % RAIL_COLOURS];
}

/* As the root, so that 12.5 and 900 GB/s are both seen. */
double ri_svg_width(double gbps)
{
    double width = gbps > 0 ? 0.75 * sqrt(gbps) : 1.2;

    return width < 1.2 ? 1.2 : width > 22 ? 22 : width;
}

/* ---- text ---- */

/* Characters, not bytes, that fit; letters of usual fonts are 0.6 as wide as high. */
static size_t fitting_bytes(const char *text, double size, enum svg_weight weight, double room, int *cut)
{
    size_t most = (size_t)(room / (size * (weight == SVG_BOLD ? 0.66 : 0.59))), count = 0, bytes = 0;

    for (const char *at = text; *at; at++)
        count += ((unsigned char)*at & 0xc0) != 0x80;
    *cut = count > most;
    if (!*cut)
        return strlen(text);
    for (count = 0; text[bytes]; bytes++)
        if (((unsigned char)text[bytes] & 0xc0) != 0x80 && ++count >= (most ? most : 1))
            break;
    return bytes;
}

/* room: what is longer is cut; 0: it may be as long as it likes. */
void ri_svg_text(FILE *to, double x, double y, double size, enum svg_weight weight, const char *colour,
                 const char *anchor, double room, const char *text)
{
    int cut = 0;
    size_t bytes = room > 0 ? fitting_bytes(text, size, weight, room, &cut) : strlen(text);
    char part[512];

    fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\" fill=\"%s\" text-anchor=\"%s\"%s>", x, y, size, colour,
            anchor, weight == SVG_BOLD ? " font-weight=\"bold\"" : "");
    snprintf(part, sizeof(part), "%.*s", (int)bytes, text);
    topo_xml_string(to, part);
    if (cut) {
        fputs("\xe2\x80\xa6<title>", to);
        topo_xml_string(to, text);
        fputs("</title>", to);
    }
    fputs("</text>\n", to);
}

/* ---- shapes ---- */

void ri_svg_rect(FILE *to, struct svg_box box, double radius, const char *fill, const char *stroke,
                 const char *more)
{
    fprintf(to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%g\" fill=\"%s\" stroke=\"%s\"%s/>\n",
            box.x, box.y, box.w, box.h, radius, fill, stroke, more);
}

void ri_svg_line(FILE *to, double x1, double y1, double x2, double y2, double width, const char *colour)
{
    fprintf(to,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%.1f\"/>\n", x1,
            y1, x2, y2, colour, width);
}

void ri_svg_crossing(FILE *to, double x1, double y1, double x2, double y2, double width, const char *colour)
{
    double x = x1 < x2 ? 2 : x1 > x2 ? -2 : 0, y = y1 < y2 ? 2 : y1 > y2 ? -2 : 0; /* not over what it ends at */

    ri_svg_line(to, x1 + x, y1 + y, x2 - x, y2 - y, width + 4, "#f4f6f9"); /* as panels are */
    ri_svg_line(to, x1, y1, x2, y2, width, colour);
}

void ri_svg_badge(FILE *to, double x, double y, int rank, const char *colour)
{
    double wide = rank > 99 ? 10 : rank > 9 ? 3 : 0;
    char text[16];

    ri_svg_rect(to, (struct svg_box){ x - 9 - wide / 2, y - 9, 18 + wide, 18 }, 9, colour, "none", "");
    snprintf(text, sizeof(text), "%d", rank);
    ri_svg_text(to, x, y + 4, 11, SVG_BOLD, "#ffffff", "middle", 0, text);
}
