/* SPDX-License-Identifier: Apache-2.0 */
/* One screen: who is how near to whom, as nvidia-smi topo -m shows it, with GB/s. */
#include <rondo/status.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tools/topo_text.h"
#include "tools/topo_view.h"

/* With their hosts in one table; of one host; room of a cell. */
enum { TOGETHER = 8, COLUMNS = 12, CELL = 24 };

/* Objects in rows and columns; NICs come last. */
struct matrix {
    const struct topo_view *view;
    int32_t *objects; /* [count] */
    int count, devices; /* of those that are no NICs */
    int many_hosts;
};

/* ---- what is in it ---- */

static void add(struct matrix *m, int32_t object)
{
    for (int i = 0; i < m->count; i++)
        if (m->objects[i] == object)
            return;
    m->objects[m->count++] = object;
}

/* GPUs; where there are none, that on which ranks stand; of a host without either its NUMA nodes. */
static void add_devices(struct matrix *m, int h)
{
    const struct topo_view *view = m->view;
    int had = m->count;

    for (int32_t i = view->host[h]; i < view->end[h]; i++)
        if (view->topo->objects[i].kind == RI_TOPO_GPU)
            add(m, i);
    for (int i = view->rank_start[h]; m->count == had && i < view->rank_start[h + 1]; i++)
        add(m, view->topo->ranks[view->rank[i]].object);
    for (int i = view->rank_start[h]; i < view->rank_start[h + 1]; i++)
        add(m, view->topo->ranks[view->rank[i]].object);
    for (int32_t i = view->host[h]; m->count == had && i < view->end[h]; i++)
        if (view->topo->objects[i].kind == RI_TOPO_NUMA)
            m->objects[m->count++] = i;
}

static void add_nics(struct matrix *m, int h)
{
    const struct topo_view *view = m->view;

    for (int32_t i = view->host[h]; i < view->end[h]; i++)
        if (view->used[i] || view->chosen[i])
            m->objects[m->count++] = i;
}

/* ---- tables ---- */

static void cell_text(const struct topo_view *view, int32_t a, int32_t b, char text[CELL])
{
    struct ri_topo_path path;
    char level[12], gbps[16];

    ri_topo_path(view->topo, a, b, &path);
    ri_topo_level_text(&path, level);
    if (a == b || path.level == RI_TOPO_SELF)
        snprintf(text, CELL, "%s", level);
    else
        snprintf(text, CELL, "%s %s%s", level, path.is_usual ? "~" : "", topo_gbps(path.gbps, gbps));
}

static void put(FILE *to, const char *text, int width)
{
    topo_plain_string(to, text);
    fprintf(to, "%*s", width > (int)strlen(text) ? width - (int)strlen(text) : 0, "");
}

static int column_width(const struct matrix *m, int column, int rows)
{
    char text[64], cell[CELL];
    size_t width = strlen(topo_view_label(m->view, m->objects[column], text));

    if (m->many_hosts) {
        size_t host = strlen(m->view->topo->objects[ri_topo_host_of(m->view->topo, m->objects[column])].name);

        width = width > host ? width : host;
    }
    for (int row = 0; row < rows; row++) {
        cell_text(m->view, m->objects[row], m->objects[column], cell);
        width = width > strlen(cell) ? width : strlen(cell);
    }
    return (int)width + 2;
}

static int label_width(const struct matrix *m, int rows)
{
    char text[64];
    size_t width = 0;

    for (int row = 0; row < rows; row++) {
        int32_t host = ri_topo_host_of(m->view->topo, m->objects[row]);
        size_t length = strlen(topo_view_label(m->view, m->objects[row], text));

        if (m->many_hosts)
            length += strlen(m->view->topo->objects[host].name) + 1;
        width = width > length ? width : length;
    }
    return (int)width + 2;
}

static void print_heads(FILE *to, const struct matrix *m, int first, int last, int rows, int affinity)
{
    const struct ri_topo *topo = m->view->topo;
    int width = label_width(m, rows);
    int32_t host = -1;
    char text[64];

    if (m->many_hosts) {
        fprintf(to, "%*s", width, "");
        for (int c = first; c < last; c++) {
            int32_t its = ri_topo_host_of(topo, m->objects[c]);

            put(to, its == host ? "" : topo->objects[its].name, c + 1 < last ? column_width(m, c, rows) : 0);
            host = its;
        }
        fputc('\n', to);
    }
    fprintf(to, "%*s", width, "");
    for (int c = first; c < last; c++)
        put(to, topo_view_label(m->view, m->objects[c], text),
            c + 1 < last || affinity ? column_width(m, c, rows) : 0);
    fprintf(to, "%s\n", affinity ? "NUMA  processors" : "");
}

static void print_affinity(FILE *to, const struct topo_view *view, int32_t object)
{
    int32_t numa = topo_view_numa(view, object);

    if (numa < 0) {
        fprintf(to, "?     ?");
        return;
    }
    fprintf(to, "%-4d  ", (int)view->topo->objects[numa].number);
    topo_plain_string(to, view->topo->objects[numa].cpus[0] ? view->topo->objects[numa].cpus : "?");
}

static void print_table(FILE *to, const struct matrix *m, int first, int last, int rows, int affinity)
{
    const struct ri_topo *topo = m->view->topo;
    int width = label_width(m, rows);

    print_heads(to, m, first, last, rows, affinity);
    for (int row = 0; row < rows; row++) {
        int32_t object = m->objects[row];
        char label[160], text[64], cell[CELL];

        snprintf(label, sizeof(label), "%s%s%s",
                 m->many_hosts ? topo->objects[ri_topo_host_of(topo, object)].name : "",
                 m->many_hosts ? " " : "", topo_view_label(m->view, object, text));
        put(to, label, width);
        for (int c = first; c < last; c++) {
            cell_text(m->view, object, m->objects[c], cell);
            if (c + 1 < last || affinity)
                put(to, cell, column_width(m, c, rows));
            else
                fputs(cell, to);
        }
        if (affinity)
            print_affinity(to, m->view, object);
        fputc('\n', to);
    }
}

/* What is too wide goes in pieces: devices against devices, then devices against NICs. */
static void print_matrix(FILE *to, const struct matrix *m)
{
    int rows = m->devices ? m->devices : m->count;

    if (m->count <= COLUMNS) {
        print_table(to, m, 0, m->count, m->count, 1);
        return;
    }
    for (int first = 0, last; first < m->count; first = last) {
        int left = (first < m->devices ? m->devices : m->count) - first, pieces = (left + COLUMNS - 1) / COLUMNS;

        last = first + (left + pieces - 1) / pieces; /* as wide as one another */
        if (first)
            fputc('\n', to);
        print_table(to, m, first, last, rows, last == m->count);
    }
}

/* ---- hosts ---- */

static void print_nic_rates(FILE *to, const struct topo_view *view, int h)
{
    const struct ri_topo_object *objects = view->topo->objects;
    int usable = 0, same = 1, shown = 0;
    double gbps = -1;
    char text[64], rate[16];

    for (int32_t i = view->host[h]; i < view->end[h]; i++)
        if (view->used[i] || view->chosen[i]) {
            same &= gbps < 0 || objects[i].nic.gbps == gbps;
            gbps = objects[i].nic.gbps;
            usable++;
        }
    fprintf(to, ", %d NIC%s", usable, usable == 1 ? "" : "s");
    if (usable && same && gbps > 0)
        fprintf(to, " of %s GB/s", topo_gbps(gbps, rate));
    else if (usable && same)
        fputs(usable == 1 ? ", its rate unknown" : ", their rates unknown", to);
    for (int32_t i = view->host[h]; !same && i < view->end[h]; i++)
        if (view->used[i] || view->chosen[i]) {
            fputs(shown++ ? ", " : " (", to);
            topo_plain_string(to, topo_view_label(view, i, text));
            fprintf(to, " %s GB/s", topo_gbps(objects[i].nic.gbps, rate));
        }
    fputs(same ? "" : ")", to);
}

static void print_unused(FILE *to, const struct topo_view *view, int h)
{
    char text[64], why[96];

    for (int32_t i = view->host[h]; i < view->end[h]; i++) {
        if (view->topo->objects[i].kind != RI_TOPO_NIC || !topo_view_shows_nic(view, i) ||
            !topo_view_why_not(view, i, why)[0])
            continue;
        fputs("  not used: ", to);
        topo_plain_string(to, topo_view_label(view, i, text));
        fputs(", ", to);
        topo_plain_string(to, why);
        fputc('\n', to);
    }
}

static const char *gpu_model(const struct topo_view *view, int h)
{
    const char *model = "";

    for (int32_t i = view->host[h]; i < view->end[h]; i++)
        if (view->topo->objects[i].kind == RI_TOPO_GPU && view->topo->objects[i].model[0]) {
            if (model[0] && strcmp(model, view->topo->objects[i].model))
                return "";
            model = view->topo->objects[i].model;
        }
    return model;
}

static void print_host(FILE *to, const struct topo_view *view, int h)
{
    const struct ri_topo *topo = view->topo;
    int numas = ri_topo_count(topo, view->host[h], RI_TOPO_NUMA);
    int gpus = ri_topo_count(topo, view->host[h], RI_TOPO_GPU), processors = 0;

    for (int32_t i = view->host[h]; i < view->end[h]; i++)
        if (topo->objects[i].kind == RI_TOPO_NUMA)
            processors += topo->objects[i].cpu_count;
    topo_plain_string(to, topo->objects[view->host[h]].name);
    if (view->alike[h] > 1)
        fprintf(to, " (and %d host%s like this)", view->alike[h] - 1, view->alike[h] == 2 ? "" : "s");
    if (numas)
        fprintf(to, ": %d NUMA node%s", numas, numas == 1 ? "" : "s");
    else
        fputs(": NUMA nodes unknown", to);
    if (processors && topo->objects[view->host[h]].cpu_count)
        fprintf(to, ", %d of %d processors", (int)topo->objects[view->host[h]].cpu_count, processors);
    else if (processors || topo->objects[view->host[h]].cpu_count)
        fprintf(to, ", %d processors", processors + (int)topo->objects[view->host[h]].cpu_count);
    fprintf(to, ", %d GPU%s", gpus, gpus == 1 ? "" : "s");
    if (gpus && gpu_model(view, h)[0]) {
        fputs(" (", to);
        topo_plain_string(to, gpu_model(view, h));
        fputs(")", to);
    }
    print_nic_rates(to, view, h);
    fputc('\n', to);
    print_unused(to, view, h);
}

/* ---- all ---- */

static int print_matrices(FILE *to, const struct topo_view *view)
{
    struct matrix m = { .view = view, .many_hosts = view->hosts > 1 };

    m.objects = malloc((size_t)view->topo->object_count * sizeof(*m.objects));
    if (!m.objects)
        return ri_error(RONDO_ERR_MEMORY, "no memory for a matrix");
    for (int h = 0; h < view->hosts; h++)
        add_devices(&m, h);
    m.devices = m.count;
    for (int h = 0; h < view->hosts; h++)
        add_nics(&m, h);
    if (view->hosts == 1 || m.count <= TOGETHER) {
        fputc('\n', to);
        print_matrix(to, &m);
    } else {
        m.many_hosts = 0;
        for (int h = 0; h < view->hosts; h++) {
            if (view->like[h] != h)
                continue;
            m.count = 0;
            add_devices(&m, h);
            m.devices = m.count;
            add_nics(&m, h);
            fputc('\n', to);
            topo_plain_string(to, view->topo->objects[view->host[h]].name);
            fputs(":\n", to);
            print_matrix(to, &m);
        }
    }
    free(m.objects);
    return 0;
}

static void print_legend(FILE *to)
{
    fputs("\nEach cell: how two are joined, and GB/s one way at the narrowest place.\n"
          "  X    itself                          PHB   through the host bridge of their NUMA node\n"
          "  NV#  # links between them            NODE  between host bridges of a NUMA node\n"
          "  PIX  through one PCI switch          SYS   between NUMA nodes\n"
          "  PXB  through several PCI switches    NET   between hosts, through their NICs\n"
          "  ~    nothing tells the GB/s: what is usual for such a place\n",
          to);
}

static void print_notices(FILE *to, const struct topo_view *view)
{
    const char *at = view->topo->notices;

    if (at && *at)
        fputs("\nWhat could not be found out, or should be known:\n", to);
    while (at && *at) {
        char line[600];
        size_t length = strcspn(at, "\n");

        snprintf(line, sizeof(line), "%.*s", (int)length, at);
        fputs("  ", to);
        topo_plain_string(to, line);
        fputc('\n', to);
        at += length + (at[length] == '\n');
    }
}

int topo_print_screen(FILE *to, const struct topo_view *view)
{
    int err;

    for (int h = 0; h < view->hosts; h++)
        if (view->like[h] == h)
            print_host(to, view, h);
    err = print_matrices(to, view);
    if (err)
        return err;
    topo_print_ranks(to, view);
    print_legend(to);
    print_notices(to, view);
    return 0;
}
