/* SPDX-License-Identifier: Apache-2.0 */
/* The tree, a line an object, indented. */
#include <string.h>

#include "tools/topo_text.h"
#include "tools/topo_view.h"

static int depth_of(const struct ri_topo *topo, int32_t object)
{
    int depth = 0;

    while ((object = topo->objects[object].parent) >= 0)
        depth++;
    return depth;
}

static void put(FILE *to, const char *before, const char *text)
{
    if (!text[0])
        return;
    fputs(before, to);
    topo_plain_string(to, text);
}

static void put_memory(FILE *to, int64_t bytes)
{
    if (bytes > 0)
        fprintf(to, ", %.3g GiB", (double)bytes / (1024.0 * 1024 * 1024));
}

static void put_processors(FILE *to, const struct ri_topo_object *it)
{
    if (it->cpu_count)
        fprintf(to, ", %d processor%s", (int)it->cpu_count, it->cpu_count == 1 ? "" : "s");
    put(to, it->kind == RI_TOPO_HOST ? " allowed: " : ": ", it->cpus);
}

static void put_nic(FILE *to, const struct ri_topo_nic *nic)
{
    char gbps[16];

    if (nic->layer != RI_TOPO_LAYER_UNKNOWN)
        put(to, ", ", nic->layer == RI_TOPO_INFINIBAND ? "InfiniBand" : "Ethernet");
    if (nic->gbps > 0)
        fprintf(to, ", %s GB/s", topo_gbps(nic->gbps, gbps));
    put(to, ", ", nic->state == RI_TOPO_STATE_UNKNOWN ? "" : ri_topo_state_names[nic->state]);
    put(to, ", network device ", nic->device[0] ? nic->netdev : "");
    if (nic->port > 1)
        fprintf(to, ", port %d", (int)nic->port);
    put(to, ", subnet ", nic->subnet);
    if (nic->mtu)
        fprintf(to, ", MTU %d", (int)nic->mtu);
    put(to, ", of bond ", nic->bond);
    fputs(nic->is_loopback ? ", loopback" : nic->is_virtual ? ", virtual" : "", to);
}

static void put_link(FILE *to, const struct ri_topo_object *it)
{
    char gbps[16], full[16];

    if (it->link_gbps > 0)
        fprintf(to, ", link %s GB/s", topo_gbps(it->link_gbps, gbps));
    if (it->full_gbps > it->link_gbps && it->link_gbps > 0)
        fprintf(to, " (slow: it could do %s)", topo_gbps(it->full_gbps, full));
}

static void put_ranks(FILE *to, const struct topo_view *view, int32_t object)
{
    int h = view->host_of[object], users = 0, here = 0;

    for (int i = view->rank_start[h]; i < view->rank_start[h + 1]; i++)
        if (view->topo->ranks[view->rank[i]].object == object)
            fprintf(to, here++ ? " %d" : "  <- rank %d", view->rank[i]);
    for (int i = view->rank_start[h]; i < view->rank_start[h + 1]; i++)
        if (view->topo->ranks[view->rank[i]].nic == object)
            fprintf(to, users++ ? " %d" : "  <- NIC of rank %d", view->rank[i]);
}

static void print_object(FILE *to, const struct topo_view *view, int32_t object)
{
    const struct ri_topo_object *it = &view->topo->objects[object];
    char why[96];

    fprintf(to, "%*s", 2 * depth_of(view->topo, object), "");
    topo_plain_string(to, it->name);
    put(to, " ", strstr(it->name, it->pci) ? "" : it->pci);
    put(to, ", ", it->model);
    if (it->kind != RI_TOPO_NIC)
        put_processors(to, it);
    put_memory(to, it->memory_bytes);
    put_link(to, it);
    if (it->kind == RI_TOPO_NIC) {
        put_nic(to, &it->nic);
        put(to, "; not used: ", topo_view_why_not(view, object, why));
    }
    put_ranks(to, view, object);
    fputc('\n', to);
}

static void print_links(FILE *to, const struct topo_view *view, int h)
{
    char a[64], b[64], gbps[16];

    for (int32_t i = 0; i < view->topo->link_count; i++) {
        const struct ri_topo_link *link = &view->topo->links[i];

        if (view->host_of[link->a] != h)
            continue;
        fputs("  ", to);
        topo_plain_string(to, topo_view_label(view, link->a, a));
        fputs(" - ", to);
        topo_plain_string(to, topo_view_label(view, link->b, b));
        fprintf(to, ": %d x %s, %s GB/s\n", (int)link->count, ri_topo_link_names[link->kind],
                topo_gbps(link->gbps, gbps));
    }
}

/* Parents stand before children, but not always right before them: children are looked up. */
static void print_below(FILE *to, const struct topo_view *view, int32_t above, int32_t end)
{
    int32_t at = above;

    print_object(to, view, at);
    for (int32_t next = at + 1;;) {
        while (next < end && view->topo->objects[next].parent != at)
            next++;
        if (next < end) {
            print_object(to, view, next);
            at = next++;
        } else if (at == above) {
            return;
        } else {
            next = at + 1;
            at = view->topo->objects[at].parent;
        }
    }
}

int topo_print_tree(FILE *to, const struct topo_view *view)
{
    for (int h = 0; h < view->hosts; h++) {
        print_below(to, view, view->host[h], view->end[h]);
        print_links(to, view, h);
    }
    return 0;
}
