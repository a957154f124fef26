/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank is where and has which NIC, and the rings, as text. */
#include <string.h>

#include "tools/topo_text.h"
#include "tools/topo_view.h"

enum { ALL_RANKS = 32, MANY = 8 };

static void print_path(FILE *to, const struct ri_topo_path *path)
{
    char level[12], gbps[16];

    ri_topo_level_text(path, level);
    fprintf(to, "%s %s%s", level, path->is_usual ? "~" : "", topo_gbps(path->gbps, gbps));
}

static int label_room(const struct topo_view *view, int nics)
{
    char text[64];
    int room = 4;

    for (int r = 0; r < view->topo->rank_count; r++) {
        int32_t object = nics ? view->topo->ranks[r].nic : view->topo->ranks[r].object;
        int length = object < 0 ? 0 : (int)strlen(topo_view_label(view, object, text));

        room = room > length ? room : length;
    }
    return room;
}

static int host_room(const struct topo_view *view)
{
    int room = 4;

    for (int h = 0; h < view->hosts; h++) {
        int length = (int)strlen(view->topo->objects[view->host[h]].name);

        room = room > length ? room : length;
    }
    return room;
}

static void pad(FILE *to, const char *text, int room)
{
    topo_plain_string(to, text);
    fprintf(to, "%*s", room - (int)strlen(text) + 2, "");
}

static void print_rank(FILE *to, const struct topo_view *view, int r, const int room[3])
{
    const struct ri_topo_rank *rank = &view->topo->ranks[r];
    char text[64], gbps[16];
    struct ri_topo_path path;

    fprintf(to, "%4d  ", r);
    pad(to, view->topo->objects[view->host[view->host_of[rank->object]]].name, room[0]);
    pad(to, topo_view_label(view, rank->object, text), room[1]);
    if (rank->nic < 0) {
        fputs("none\n", to);
        return;
    }
    pad(to, topo_view_label(view, rank->nic, text), room[2]);
    fprintf(to, "%-4s  ", topo_gbps(view->topo->objects[rank->nic].nic.gbps, gbps));
    ri_topo_path(view->topo, rank->object, rank->nic, &path);
    print_path(to, &path);
    if (rank->nic_shares > 1)
        fprintf(to, ", shared by %d ranks", (int)rank->nic_shares);
    fputc('\n', to);
}

/* Of many ranks, those of hosts that are alike are said once. */
static void print_places(FILE *to, const struct topo_view *view)
{
    int room[3] = { host_room(view), label_room(view, 0), label_room(view, 1) };
    int all = view->topo->rank_count <= ALL_RANKS;

    fputs("\nrank  ", to);
    pad(to, "host", room[0]);
    pad(to, "on", room[1]);
    pad(to, "NIC", room[2]);
    fputs("GB/s  way there\n", to);
    for (int r = 0; all && r < view->topo->rank_count; r++)
        print_rank(to, view, r, room);
    for (int h = 0; !all && h < view->hosts; h++) {
        if (view->like[h] != h)
            continue;
        for (int i = view->rank_start[h]; i < view->rank_start[h + 1]; i++)
            print_rank(to, view, view->rank[i], room);
        if (view->alike[h] > 1)
            fprintf(to, "      likewise on the %d host%s like this\n", view->alike[h] - 1,
                    view->alike[h] == 2 ? "" : "s");
    }
}

/* ---- rings ---- */

/* The slowest hop of the flat ring within hosts, and between them; 0: there is none. */
static int slowest_hop(const struct topo_view *view, int between, struct ri_topo_path *slowest)
{
    int count = view->topo->rank_count, found = 0;

    for (int i = 0; count > 1 && i < count; i++) {
        int a = view->order[i], b = view->order[(i + 1) % count];
        struct ri_topo_path path;
        int crosses = view->host_of[view->topo->ranks[a].object] != view->host_of[view->topo->ranks[b].object];

        if (crosses != between)
            continue;
        ri_topo_rank_path(view->topo, a, b, &path);
        if (!found++ || path.gbps < slowest->gbps)
            *slowest = path;
    }
    return found > 0;
}

static void print_order(FILE *to, const struct topo_view *view)
{
    int count = view->topo->rank_count, host = -1, hosts = 0;

    fputs("\nring", to);
    for (int i = 0; i < count; i++) {
        int its = view->host_of[view->topo->ranks[view->order[i]].object];

        if (its != host && host >= 0 && ++hosts == MANY) {
            fprintf(to, "\n      and so on: %d more ranks", count - i);
            break;
        }
        fprintf(to, its == host ? " %d" : host < 0 ? ": %d" : "\n      %d", (int)view->order[i]);
        host = its;
    }
    fputc('\n', to);
}

static void print_hops(FILE *to, const struct topo_view *view)
{
    struct ri_topo_path path;
    int within = slowest_hop(view, 0, &path);

    if (within) {
        fputs("      slowest hop within a host: ", to);
        print_path(to, &path);
    }
    if (slowest_hop(view, 1, &path)) {
        fputs(within ? "; between hosts: " : "      slowest hop between hosts: ", to);
        print_path(to, &path);
        fputs(" GB/s\n", to);
    } else if (within) {
        fputs(" GB/s\n", to);
    }
}

static void print_rails(FILE *to, const struct topo_view *view)
{
    fputs("rails: ", to);
    for (int rail = 0; rail < view->rails && rail < MANY; rail++) {
        int shown = 0;

        fputs(rail ? " | " : "", to);
        for (int r = 0; r < view->topo->rank_count && shown <= MANY; r++) {
            if (view->rail[r] != rail)
                continue;
            if (shown++ == MANY)
                fputs(" ..", to);
            else
                fprintf(to, shown > 1 ? " %d" : "%d", r);
        }
    }
    if (view->rails > MANY)
        fprintf(to, " | and %d more", view->rails - MANY);
    fputc('\n', to);
}

void topo_print_ranks(FILE *to, const struct topo_view *view)
{
    print_places(to, view);
    if (view->topo->rank_count < 2)
        return;
    print_order(to, view);
    print_hops(to, view);
    if (view->hosts > 1)
        print_rails(to, view);
}
