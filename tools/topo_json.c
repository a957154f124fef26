/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "tools/topo_text.h"
#include "tools/topo_view.h"

enum { SCHEMA_VERSION = 1, PAIRS_MAX_RANKS = 1024 };

/* ---- members ---- */

static void put_name(FILE *to, const char *name)
{
    fprintf(to, ", \"%s\": ", name);
}

static void put_text(FILE *to, const char *name, const char *text)
{
    put_name(to, name);
    topo_json_string(to, text);
}

static void put_number(FILE *to, const char *name, double number)
{
    put_name(to, name);
    fprintf(to, number > -1e300 && number < 1e300 ? "%.10g" : "null", number);
}

static void put_bool(FILE *to, const char *name, int value)
{
    put_name(to, name);
    fputs(value ? "true" : "false", to);
}

/* ---- the tree ---- */

static void put_nic(FILE *to, const struct topo_view *view, int32_t object)
{
    const struct ri_topo_nic *nic = &view->topo->objects[object].nic;
    char why[96];

    put_name(to, "nic");
    fputs("{\"layer\": ", to);
    topo_json_string(to, ri_topo_layer_names[nic->layer]);
    put_text(to, "state", ri_topo_state_names[nic->state]);
    put_number(to, "gbps", nic->gbps);
    put_text(to, "device", nic->device);
    put_text(to, "netdev", nic->netdev);
    put_number(to, "port", nic->port);
    put_number(to, "lid", nic->lid);
    put_number(to, "gid_index", nic->gid_index);
    put_number(to, "mtu", nic->mtu);
    put_text(to, "card", nic->card);
    put_text(to, "subnet", nic->subnet);
    put_text(to, "bond", nic->bond);
    put_bool(to, "virtual", nic->is_virtual);
    put_bool(to, "loopback", nic->is_loopback);
    put_text(to, "not_used", topo_view_why_not(view, object, why));
    fputc('}', to);
}

static void put_object(FILE *to, const struct topo_view *view, int32_t i)
{
    const struct ri_topo_object *it = &view->topo->objects[i];

    fprintf(to, "    {\"index\": %d", (int)i);
    put_text(to, "kind", ri_topo_kind_names[it->kind]);
    put_number(to, "parent", it->parent);
    put_number(to, "host", view->host_of[i]);
    put_number(to, "number", it->number);
    put_text(to, "name", it->name);
    put_text(to, "pci", it->pci);
    put_text(to, "model", it->model);
    put_text(to, "id", it->id);
    put_text(to, "cpus", it->cpus);
    put_number(to, "cpu_count", it->cpu_count);
    put_name(to, "memory_bytes");
    fprintf(to, "%" PRId64, it->memory_bytes);
    put_number(to, "link_gbps", it->link_gbps);
    put_number(to, "full_gbps", it->full_gbps);
    if (it->kind == RI_TOPO_NIC)
        put_nic(to, view, i);
    fprintf(to, "}%s\n", i + 1 < view->topo->object_count ? "," : "");
}

static void put_tree(FILE *to, const struct topo_view *view)
{
    const struct ri_topo *topo = view->topo;

    fputs(",\n  \"objects\": [\n", to);
    for (int32_t i = 0; i < topo->object_count; i++)
        put_object(to, view, i);
    fputs("  ],\n  \"links\": [", to);
    for (int32_t i = 0; i < topo->link_count; i++) {
        fprintf(to, "%s\n    {\"a\": %d, \"b\": %d", i ? "," : "", (int)topo->links[i].a, (int)topo->links[i].b);
        put_text(to, "kind", ri_topo_link_names[topo->links[i].kind]);
        put_number(to, "count", topo->links[i].count);
        put_number(to, "gbps", topo->links[i].gbps);
        fputc('}', to);
    }
    fputs(topo->link_count ? "\n  ]" : "]", to);
}

/* ---- ranks ---- */

/* The names that the screen has, and the way to the NIC. */
static void put_names(FILE *to, const struct topo_view *view, const struct ri_topo_rank *rank)
{
    struct ri_topo_path way = { .gbps = 0 };
    char text[64], level[12] = "";

    put_text(to, "host_name", view->topo->objects[view->host[view->host_of[rank->object]]].name);
    put_text(to, "on", topo_view_label(view, rank->object, text));
    put_text(to, "nic_name", rank->nic < 0 ? "" : topo_view_label(view, rank->nic, text));
    if (rank->nic >= 0) {
        ri_topo_path(view->topo, rank->object, rank->nic, &way);
        ri_topo_level_text(&way, level);
    }
    put_text(to, "way_level", level);
    put_number(to, "way_gbps", way.gbps);
    put_bool(to, "way_usual", way.is_usual);
}

static void put_ranks(FILE *to, const struct topo_view *view)
{
    const struct ri_topo *topo = view->topo;

    fputs(",\n  \"ranks\": [", to);
    for (int r = 0; r < topo->rank_count; r++) {
        fprintf(to, "%s\n    {\"rank\": %d", r ? "," : "", r);
        put_number(to, "host", view->host_of[topo->ranks[r].object]);
        put_number(to, "object", topo->ranks[r].object);
        put_number(to, "nic", topo->ranks[r].nic);
        put_number(to, "nic_shares", topo->ranks[r].nic_shares);
        put_number(to, "rail", view->rail[r]);
        put_names(to, view, &topo->ranks[r]);
        fputc('}', to);
    }
    fputs(topo->rank_count ? "\n  ],\n  \"ring\": [" : "],\n  \"ring\": [", to);
    for (int r = 0; r < topo->rank_count; r++)
        fprintf(to, r ? ", %d" : "%d", (int)view->order[r]);
    fprintf(to, "],\n  \"rails\": %d", view->rails);
}

enum figure { LEVEL, GBPS, USUAL, LATENCY };

static void put_pair(FILE *to, const struct ri_topo *topo, int a, int b, enum figure figure)
{
    struct ri_topo_path path;
    char level[12];

    ri_topo_rank_path(topo, a, b, &path);
    ri_topo_level_text(&path, level);
    if (figure == LEVEL)
        topo_json_string(to, level);
    else if (a == b)
        fputs("null", to);
    else if (figure == USUAL)
        fputs(path.is_usual ? "true" : "false", to);
    else
        fprintf(to, "%.10g", figure == GBPS ? path.gbps : path.latency_us);
}

static void put_pairs(FILE *to, const struct ri_topo *topo, const char *name, enum figure figure)
{
    int count = topo->rank_count;

    fprintf(to, "\n    \"%s\": [", name);
    for (int a = 0; a < count; a++) {
        fputs(a ? ",\n      [" : "\n      [", to);
        for (int b = 0; b < count; b++) {
            fputs(b ? ", " : "", to);
            put_pair(to, topo, a, b, figure);
        }
        fputc(']', to);
    }
    fputs("\n    ]", to);
}

static void put_matrix(FILE *to, const struct ri_topo *topo)
{
    fputs(",\n  \"pairs\": ", to);
    if (topo->rank_count > PAIRS_MAX_RANKS) {
        fputs("null", to);
        return;
    }
    fputc('{', to);
    put_pairs(to, topo, "level", LEVEL);
    fputc(',', to);
    put_pairs(to, topo, "gbps", GBPS);
    fputc(',', to);
    put_pairs(to, topo, "usual", USUAL);
    fputc(',', to);
    put_pairs(to, topo, "latency_us", LATENCY);
    fputs("\n  }", to);
}

static void put_lanes(FILE *to, const struct ri_topo_lanes *lanes)
{
    fputs(",\n  \"lanes\": {\"local_gbps\": ", to);
    fprintf(to, "%.10g", lanes->local_gbps);
    put_number(to, "local_latency_us", lanes->local_latency_us);
    put_number(to, "host_gbps", lanes->host_gbps);
    put_number(to, "host_latency_us", lanes->host_latency_us);
    put_number(to, "ranks_per_nic", lanes->ranks_per_nic);
    fputc('}', to);
}

static void put_notices(FILE *to, const char *at)
{
    int count = 0;

    fputs(",\n  \"notices\": [", to);
    while (at && *at) {
        char line[600];
        int length = 0;

        while (at[length] && at[length] != '\n')
            length++;
        snprintf(line, sizeof(line), "%.*s", length, at);
        fputs(count++ ? ",\n    " : "\n    ", to);
        topo_json_string(to, line);
        at += length + (at[length] == '\n');
    }
    fputs(count ? "\n  ]" : "]", to);
}

int topo_print_json(FILE *to, const struct topo_view *view)
{
    fprintf(to, "{\n  \"schema\": \"rondo-topo\",\n  \"version\": %d", SCHEMA_VERSION);
    fputs(",\n  \"source\": ", to);
    topo_json_string(to, view->source);
    put_tree(to, view);
    put_ranks(to, view);
    put_lanes(to, &view->lanes);
    put_matrix(to, view->topo);
    put_notices(to, view->topo->notices);
    fputs("\n}\n", to);
    return 0;
}
