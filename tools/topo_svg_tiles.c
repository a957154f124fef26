/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts, panels, blocks of processors, switches, GPUs and NICs. */
#include <string.h>

#include "tools/topo_svg.h"
#include "tools/topo_text.h"

/* ---- frames ---- */

static void counted(char *text, size_t bytes, int count, const char *what)
{
    size_t had = strlen(text);

    if (count)
        snprintf(text + had, bytes - had, "%s%d %s%s", had ? " \xc2\xb7 " : "", count, what, count == 1 ? "" : "s");
}

static int count_nics(const struct svg_picture *p, int h)
{
    int count = 0;

    for (int32_t i = p->view->host[h]; i < p->view->end[h]; i++)
        count += p->view->topo->objects[i].kind == RI_TOPO_NIC && p->panel_of[i] >= 0;
    return count;
}

static void draw_host(FILE *to, const struct svg_picture *p, const struct svg_host *host)
{
    const struct ri_topo *topo = p->view->topo;
    int32_t object = p->view->host[host->number];
    char text[256] = "";
    int processors = topo->objects[object].cpu_count;

    for (int i = 0; !processors && i < host->panels; i++)
        if (p->panels[host->first_panel + i].object >= 0)
            processors += topo->objects[p->panels[host->first_panel + i].object].cpu_count;
    ri_svg_rect(to, host->box, 12, "#ffffff", "#c5ced8", " stroke-width=\"1.5\"");
    ri_svg_text(to, host->box.x + SVG_PAD, host->box.y + 25, 16, SVG_BOLD, ri_svg_ink, "start",
                host->box.w - 2 * SVG_PAD, topo->objects[object].name);
    counted(text, sizeof(text), ri_topo_count(topo, object, RI_TOPO_PACKAGE), "package");
    counted(text, sizeof(text), ri_topo_count(topo, object, RI_TOPO_NUMA), "NUMA node");
    counted(text, sizeof(text), processors, "processor");
    counted(text, sizeof(text), ri_topo_count(topo, object, RI_TOPO_GPU), "GPU");
    counted(text, sizeof(text), count_nics(p, host->number), "NIC");
    ri_svg_text(to, host->box.x + SVG_PAD, host->box.y + 42, 11, SVG_PLAIN, ri_svg_faint, "start",
                host->box.w - 2 * SVG_PAD, text);
}

/* A bracket below the NUMA nodes of one package. */
static void draw_packages(FILE *to, const struct svg_picture *p, const struct svg_host *host)
{
    const struct ri_topo *topo = p->view->topo;
    double y = p->rows.panel_end + 8;

    for (int i = 0, next; i < host->panels; i = next) {
        const struct svg_panel *first = &p->panels[host->first_panel + i], *last = first;
        int32_t package = first->object < 0 ? -1 : ri_topo_above(topo, first->object, RI_TOPO_PACKAGE);

        for (next = i + 1; next < host->panels; next++) {
            const struct svg_panel *panel = &p->panels[host->first_panel + next];

            if (package < 0 || panel->object < 0 || ri_topo_above(topo, panel->object, RI_TOPO_PACKAGE) != package)
                break;
            last = panel;
        }
        if (package < 0 || !p->rows.has_packages)
            continue;
        ri_svg_line(to, first->box.x, y, last->box.x + last->box.w, y, 2, "#c5ced8");
        ri_svg_text(to, (first->box.x + last->box.x + last->box.w) / 2, y + 14, 11, SVG_PLAIN, ri_svg_faint, "middle",
                    last->box.x + last->box.w - first->box.x, topo->objects[package].name);
    }
}

static void draw_more(FILE *to, const struct svg_picture *p)
{
    const struct svg_box *last = &p->hosts[p->host_count - 1].box;
    const struct topo_view *view = p->view;
    struct svg_box box = { last->x + last->w + SVG_MARGIN, last->y, SVG_MORE, last->h };
    int like = view->like[p->hosts[0].number], all_alike = view->alike[like] == view->hosts;
    char text[96];

    ri_svg_rect(to, box, 12, "none", "#c5ced8", " stroke-width=\"1.5\" stroke-dasharray=\"6 5\"");
    snprintf(text, sizeof(text), "+ %d more", p->hosts_left);
    ri_svg_text(to, box.x + box.w / 2, box.y + box.h / 2 - 4, 20, SVG_BOLD, ri_svg_ink, "middle", box.w - 12, text);
    snprintf(text, sizeof(text), all_alike ? "like %.64s" : "host%s", all_alike
             ? view->topo->objects[view->host[like]].name : p->hosts_left == 1 ? "" : "s");
    ri_svg_text(to, box.x + box.w / 2, box.y + box.h / 2 + 16, 12, SVG_PLAIN, ri_svg_faint, "middle", box.w - 12, text);
}

void ri_svg_draw_frames(FILE *to, const struct svg_picture *p)
{
    for (int i = 0; i < p->host_count; i++) {
        draw_host(to, p, &p->hosts[i]);
        for (int k = 0; k < p->hosts[i].panels; k++) {
            struct svg_panel *panel = &p->panels[p->hosts[i].first_panel + k];

            ri_svg_rect(to, panel->box, 8, "#f4f6f9", "#e1e6ec",
                        panel->object < 0 ? " stroke-dasharray=\"4 4\"" : "");
        }
        draw_packages(to, p, &p->hosts[i]);
    }
    if (p->hosts_left)
        draw_more(to, p);
}

/* ---- ranks on an object ---- */

/* "ranks 0-15", or "16 ranks" where numbers do not follow one another. */
static void tell_ranks(char *text, size_t bytes, const char *word, int first, int last, int count)
{
    if (last - first + 1 == count)
        snprintf(text, bytes, "%s%d-%d", word, first, last);
    else
        snprintf(text, bytes, "%d ranks", count);
}

/* From the right edge leftwards; more than fit are told in words. */
static void draw_ranks(FILE *to, const struct svg_picture *p, int32_t object, struct svg_box box, int most)
{
    const struct topo_view *view = p->view;
    int h = view->host_of[object], count = 0, shown = 0, first = -1, last = -1;
    double step;
    char text[32];

    for (int i = view->rank_start[h]; i < view->rank_start[h + 1]; i++)
        if (view->topo->ranks[view->rank[i]].object == object) {
            last = view->rank[i];
            first = count++ ? first : last;
        }
    step = last > 99 ? 31 : last > 9 ? 24 : 21;
    for (int i = view->rank_start[h]; count <= most && i < view->rank_start[h + 1]; i++)
        if (view->topo->ranks[view->rank[i]].object == object)
            ri_svg_badge(to, box.x + box.w - step / 2 - 4 - step * (count - 1 - shown++), box.y + 14, view->rank[i],
                         ri_svg_rank_colour(view, view->rank[i]));
    tell_ranks(text, sizeof(text), box.w < SVG_CPU ? "" : "ranks ", first, last, count);
    if (count > most)
        ri_svg_text(to, box.x + box.w - 8, box.y + 18, 11, SVG_BOLD, ri_svg_rank_colour(view, first), "end", 0, text);
}

static const char *colour_of_object(const struct svg_picture *p, int32_t object)
{
    const struct topo_view *view = p->view;
    int h = view->host_of[object];

    for (int i = view->rank_start[h]; i < view->rank_start[h + 1]; i++)
        if (view->topo->ranks[view->rank[i]].object == object)
            return ri_svg_rank_colour(view, view->rank[i]);
    return "#aab4c0";
}

/* ---- tiles ---- */

static const char *short_model(const char *model)
{
    static const char *const makers[] = { "NVIDIA ", "Tesla ", "GeForce ", "AMD ", "Instinct " };

    for (int i = 0; i < (int)(sizeof(makers) / sizeof(makers[0])); i++)
        if (strncmp(model, makers[i], strlen(makers[i])) == 0)
            model += strlen(makers[i]);
    return model;
}

/* Most machines have the one PCI domain 0000. */
static const char *short_pci(const char *pci)
{
    return strncmp(pci, "0000:", 5) == 0 ? pci + 5 : pci;
}

static void draw_gpu(FILE *to, const struct svg_picture *p, int32_t object)
{
    const struct ri_topo_object *it = &p->view->topo->objects[object];
    struct svg_box box = p->at[object];
    char text[64];

    ri_svg_rect(to, box, 8, "#ffffff", colour_of_object(p, object), " stroke-width=\"2\"");
    snprintf(text, sizeof(text), it->number >= 0 ? "GPU %d" : "GPU", (int)it->number);
    ri_svg_text(to, box.x + 9, box.y + 20, 13, SVG_BOLD, ri_svg_ink, "start", box.w - 34, text);
    ri_svg_text(to, box.x + 9, box.y + 38, 10, SVG_PLAIN, ri_svg_ink, "start", box.w - 14, short_model(it->model));
    ri_svg_text(to, box.x + 9, box.y + 53, 10, SVG_PLAIN, ri_svg_faint, "start", box.w - 14, short_pci(it->pci));
    draw_ranks(to, p, object, box, 2);
}

/* "rank 3", "ranks 0-3 5". */
static void nic_users(const struct svg_picture *p, int32_t nic, char *text, size_t bytes)
{
    const struct topo_view *view = p->view;
    int h = view->host_of[nic], count = 0, last = -2;
    size_t used = 0;
    char ranks[80] = "";

    for (int i = view->rank_start[h]; i < view->rank_start[h + 1]; i++) {
        int rank = view->rank[i], next = i + 1 < view->rank_start[h + 1] ? view->rank[i + 1] : -1;
        int goes_on = next == rank + 1 && view->topo->ranks[next].nic == nic;

        if (view->topo->ranks[rank].nic != nic)
            continue;
        count++;
        if (used < sizeof(ranks) && !(goes_on && last == rank - 1))
            used += (size_t)snprintf(ranks + used, sizeof(ranks) - used, "%s%d", last == rank - 1 ? "-" : " ", rank);
        last = rank;
    }
    snprintf(text, bytes, count ? "rank%s%s" : "", count > 1 ? "s" : "", ranks);
}

static void nic_title(FILE *to, const struct ri_topo_object *it, const char *why)
{
    fputs("<title>", to);
    topo_xml_string(to, it->name);
    fputs(" ", to);
    topo_xml_string(to, it->pci);
    fputs(it->nic.subnet[0] ? " subnet " : "", to);
    topo_xml_string(to, it->nic.subnet);
    fputs(why[0] ? ": " : "", to);
    topo_xml_string(to, why);
    fputs("</title>\n", to);
}

/* The colour of the first rank that has it. */
static const char *nic_colour(const struct svg_picture *p, int32_t nic)
{
    const struct topo_view *view = p->view;

    for (int r = 0; r < view->topo->rank_count; r++)
        if (view->topo->ranks[r].nic == nic)
            return ri_svg_rank_colour(view, r);
    return "#aab4c0";
}

/* On two lines, broken at a space. */
static void draw_reason(FILE *to, struct svg_box box, const char *why)
{
    enum { LINE = 17 };
    size_t end = strlen(why) <= LINE ? strlen(why) : LINE;
    char line[LINE + 1];

    while (why[end] && end > 0 && why[end] != ' ')
        end--;
    if (end == 0)
        end = strlen(why) <= LINE ? strlen(why) : LINE;
    snprintf(line, sizeof(line), "%.*s", (int)end, why);
    ri_svg_text(to, box.x + box.w / 2, box.y + 36, 9.5, SVG_PLAIN, ri_svg_slow_colour, "middle", 0, line);
    why += end + (why[end] == ' ');
    ri_svg_text(to, box.x + box.w / 2, box.y + 50, 9.5, SVG_PLAIN, ri_svg_slow_colour, "middle", box.w - 6, why);
}

static void draw_nic(FILE *to, const struct svg_picture *p, int32_t object)
{
    const struct ri_topo_object *it = &p->view->topo->objects[object];
    struct svg_box box = p->at[object];
    const char *layer = it->nic.layer == RI_TOPO_INFINIBAND ? "IB " : it->nic.layer == RI_TOPO_ETHERNET ? "Eth " : "";
    char text[96], label[64], gbps[16], why[96];
    int dead = topo_view_why_not(p->view, object, why)[0] != 0;

    fputs("<g>", to);
    nic_title(to, it, why);
    ri_svg_rect(to, box, 8, dead ? "#eceef1" : "#ffffff", dead ? "#aab4c0" : nic_colour(p, object),
                dead ? " stroke-dasharray=\"4 3\"" : " stroke-width=\"2\"");
    ri_svg_text(to, box.x + box.w / 2, box.y + 19, 12, SVG_BOLD, dead ? ri_svg_faint : ri_svg_ink, "middle",
                box.w - 10, topo_view_label(p->view, object, label));
    if (dead) {
        draw_reason(to, box, why);
    } else {
        snprintf(text, sizeof(text), it->nic.gbps > 0 ? "%s%s GB/s" : "%srate unknown", layer,
                 topo_gbps(it->nic.gbps, gbps));
        ri_svg_text(to, box.x + box.w / 2, box.y + 35, 10, SVG_PLAIN, ri_svg_ink, "middle", box.w - 8, text);
        nic_users(p, object, text, sizeof(text));
        ri_svg_text(to, box.x + box.w / 2, box.y + 52, 10.5, SVG_BOLD, nic_colour(p, object), "middle", box.w - 6,
                    text);
    }
    fputs("</g>\n", to);
}

/* ---- processors and switches ---- */

static void draw_block(FILE *to, const struct svg_picture *p, const struct svg_panel *panel)
{
    const struct ri_topo_object *it = panel->object < 0 ? NULL : &p->view->topo->objects[panel->object];
    struct svg_box box = panel->cpu;
    char text[300];

    ri_svg_rect(to, box, 6, it ? "#e3eaf4" : "#eceef1", it ? "#b4c3d9" : "#c5ced8",
                it ? "" : " stroke-dasharray=\"4 3\"");
    if (!it) {
        ri_svg_text(to, box.x + 10, box.y + 20, 11, SVG_PLAIN, ri_svg_faint, "start", box.w - 16, "place not known");
        return;
    }
    snprintf(text, sizeof(text), it->kind == RI_TOPO_NUMA && it->number >= 0 ? "NUMA %d" : "processors",
             (int)it->number);
    ri_svg_text(to, box.x + 10, box.y + (p->rows.has_details ? 20 : box.h / 2 + 5), 13, SVG_BOLD, ri_svg_ink,
                "start", 0, text);
    snprintf(text, sizeof(text), "%d processor%s", (int)it->cpu_count, it->cpu_count == 1 ? "" : "s");
    if (it->cpu_count && it->memory_bytes)
        snprintf(text + strlen(text), 32, " \xc2\xb7 %.0f GiB", (double)it->memory_bytes / 1073741824.0);
    if (it->cpu_count)
        ri_svg_text(to, box.x + 10, box.y + 40, 10, SVG_PLAIN, ri_svg_ink, "start", box.w - 16, text);
    ri_svg_text(to, box.x + 10, box.y + 56, 10, SVG_PLAIN, ri_svg_faint, "start", box.w - 16, it->cpus);
    draw_ranks(to, p, panel->object, box, 3);
}

static void draw_switch(FILE *to, const struct svg_picture *p, int32_t object)
{
    struct svg_box box = p->at[object];

    ri_svg_rect(to, box, 5, "#dfe4ea", "#9aa5b4", "");
    ri_svg_text(to, box.x + box.w / 2, box.y + 14, 10, SVG_PLAIN, "#4a5561", "middle", box.w - 8, "PCI switch");
}

void ri_svg_draw_bars(FILE *to, const struct svg_picture *p)
{
    for (int i = 0; i < p->panel_count; i++)
        draw_block(to, p, &p->panels[i]);
    for (int32_t i = 0; i < p->view->topo->object_count; i++)
        if (p->at[i].w > 0 && p->view->topo->objects[i].kind == RI_TOPO_BRIDGE)
            draw_switch(to, p, i);
}

void ri_svg_draw_tiles(FILE *to, const struct svg_picture *p)
{
    for (int32_t i = 0; i < p->view->topo->object_count; i++) {
        if (!(p->at[i].w > 0))
            continue;
        if (p->view->topo->objects[i].kind == RI_TOPO_GPU)
            draw_gpu(to, p, i);
        else if (p->view->topo->objects[i].kind == RI_TOPO_NIC)
            draw_nic(to, p, i);
    }
}
