/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/topo_view.h"

#include <rondo/status.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* ---- hosts that are alike ---- */

static int same_nic(const struct ri_topo_nic *a, const struct ri_topo_nic *b)
{
    return a->layer == b->layer && a->state == b->state && a->gbps == b->gbps && !strcmp(a->device, b->device) &&
           !strcmp(a->netdev, b->netdev) && !strcmp(a->unusable, b->unusable) && a->is_virtual == b->is_virtual &&
           a->is_loopback == b->is_loopback;
}

static int same_object(const struct topo_view *view, int32_t a, int32_t b, int32_t first_a, int32_t first_b)
{
    const struct ri_topo_object *p = &view->topo->objects[a], *q = &view->topo->objects[b];

    if (p->kind != q->kind || p->link_gbps != q->link_gbps || p->cpu_count != q->cpu_count ||
        p->memory_bytes != q->memory_bytes || strcmp(p->cpus, q->cpus) || strcmp(p->model, q->model))
        return 0;
    if (p->kind == RI_TOPO_HOST)
        return 1;
    return p->number == q->number && p->parent - first_a == q->parent - first_b && same_nic(&p->nic, &q->nic);
}

static int32_t relative(const struct topo_view *view, int32_t object)
{
    return object < 0 ? -1 : object - view->host[view->host_of[object]];
}

static int same_ranks(const struct topo_view *view, int a, int b)
{
    int count = view->rank_start[a + 1] - view->rank_start[a];

    if (count != view->rank_start[b + 1] - view->rank_start[b])
        return 0;
    for (int i = 0; i < count; i++) {
        const struct ri_topo_rank *p = &view->topo->ranks[view->rank[view->rank_start[a] + i]];
        const struct ri_topo_rank *q = &view->topo->ranks[view->rank[view->rank_start[b] + i]];

        if (relative(view, p->object) != relative(view, q->object) ||
            relative(view, p->nic) != relative(view, q->nic))
            return 0;
    }
    return 1;
}

/* Both in order of indices, as they were added. */
static int same_links(const struct topo_view *view, int a, int b)
{
    const struct ri_topo_link *links = view->topo->links;
    int i = 0, j = 0, count = view->topo->link_count;

    for (;; i++, j++) {
        while (i < count && view->host_of[links[i].a] != a)
            i++;
        while (j < count && view->host_of[links[j].a] != b)
            j++;
        if (i == count || j == count)
            return i == j || (i >= count && j >= count);
        if (relative(view, links[i].a) != relative(view, links[j].a) ||
            relative(view, links[i].b) != relative(view, links[j].b) || links[i].kind != links[j].kind ||
            links[i].count != links[j].count || links[i].gbps != links[j].gbps)
            return 0;
    }
}

static int are_alike(const struct topo_view *view, int a, int b)
{
    int32_t count = view->end[a] - view->host[a];

    if (count != view->end[b] - view->host[b])
        return 0;
    for (int32_t i = 0; i < count; i++)
        if (!same_object(view, view->host[a] + i, view->host[b] + i, view->host[a], view->host[b]))
            return 0;
    return same_ranks(view, a, b) && same_links(view, a, b);
}

static void find_alike(struct topo_view *view)
{
    for (int h = 0; h < view->hosts; h++) {
        int first = 0;

        while (first < h && !(view->like[first] == first && are_alike(view, first, h)))
            first++;
        view->like[h] = first;
        view->alike[first]++;
    }
}

/* ---- making ---- */

static void sort_ranks(struct topo_view *view)
{
    const struct ri_topo *topo = view->topo;
    int at = 0;

    for (int r = 0; r < topo->rank_count; r++)
        view->rank_start[view->host_of[topo->ranks[r].object] + 1]++;
    for (int h = 0; h < view->hosts; h++)
        view->rank_start[h + 1] += view->rank_start[h];
    for (int h = 0; h < view->hosts; h++)
        for (int r = 0; view->rank_start[h] < view->rank_start[h + 1] && r < topo->rank_count; r++)
            if (view->host_of[topo->ranks[r].object] == h)
                view->rank[at++] = r;
}

static void find_hosts(struct topo_view *view)
{
    int h = -1;

    for (int32_t i = 0; i < view->topo->object_count; i++) {
        if (view->topo->objects[i].kind == RI_TOPO_HOST)
            view->host[++h] = i;
        view->host_of[i] = h;
        view->end[h] = i + 1;
    }
    view->hosts = h + 1;
}

static int allocate(struct topo_view *view, size_t hosts)
{
    size_t objects = (size_t)view->topo->object_count + 1, ranks = (size_t)view->topo->rank_count + 1;

    view->host = calloc(hosts, sizeof(*view->host));
    view->end = calloc(hosts, sizeof(*view->end));
    view->like = calloc(hosts, sizeof(*view->like));
    view->alike = calloc(hosts, sizeof(*view->alike));
    view->host_of = calloc(objects, sizeof(*view->host_of));
    view->rank = calloc(ranks, sizeof(*view->rank));
    view->rank_start = calloc(hosts + 1, sizeof(*view->rank_start));
    view->chosen = calloc(objects, sizeof(*view->chosen));
    view->used = calloc(objects, sizeof(*view->used));
    view->order = calloc(ranks, sizeof(*view->order));
    view->rail = calloc(ranks, sizeof(*view->rail));
    if (view->host && view->end && view->like && view->alike && view->host_of && view->rank &&
        view->rank_start && view->chosen && view->used && view->order && view->rail)
        return 0;
    return ri_error(RONDO_ERR_MEMORY, "no memory to show %d objects", (int)view->topo->object_count);
}

int topo_view_init(struct topo_view *view, const struct ri_topo *topo, const char *source)
{
    size_t hosts = 0;
    int err;

    *view = (struct topo_view){ .topo = topo, .source = source };
    for (int32_t i = 0; i < topo->object_count; i++)
        hosts += topo->objects[i].kind == RI_TOPO_HOST;
    if (!hosts)
        return ri_error(RONDO_ERR_ARGUMENT, "%s: there is no host in it", source);
    err = allocate(view, hosts + 1);
    if (err)
        return err;
    find_hosts(view);
    sort_ranks(view);
    for (int r = 0; r < topo->rank_count; r++)
        if (topo->ranks[r].nic >= 0)
            view->chosen[topo->ranks[r].nic] = 1;
    for (int h = 0; h < view->hosts; h++)
        ri_topo_used_nics(topo, view->host[h], view->used);
    find_alike(view);
    err = ri_topo_ring(topo, view->order);
    if (!err)
        err = ri_topo_lanes(topo, view->order, &view->lanes);
    if (err)
        return err;
    view->rails = ri_topo_rails(topo, view->rail);
    return view->rails < 0 ? view->rails : 0;
}

void topo_view_release(struct topo_view *view)
{
    free(view->host);
    free(view->end);
    free(view->like);
    free(view->alike);
    free(view->host_of);
    free(view->rank);
    free(view->rank_start);
    free(view->chosen);
    free(view->used);
    free(view->order);
    free(view->rail);
    *view = (struct topo_view){ 0 };
}

/* ---- asking ---- */

int topo_view_shows_nic(const struct topo_view *view, int32_t nic)
{
    const struct ri_topo_nic *it = &view->topo->objects[nic].nic;

    return view->used[nic] || view->chosen[nic] || !(it->is_loopback || it->is_virtual);
}

const char *topo_view_why_not(const struct topo_view *view, int32_t nic, char why[96])
{
    why[0] = 0;
    if (!view->used[nic] && !view->chosen[nic])
        ri_topo_nic_is_used(view->topo, nic, why);
    return why;
}

const char *topo_view_label(const struct topo_view *view, int32_t object, char text[64])
{
    const struct ri_topo_object *it = &view->topo->objects[object];

    if (it->kind == RI_TOPO_GPU && it->number >= 0)
        snprintf(text, 64, "GPU%d", (int)it->number);
    else if (it->kind == RI_TOPO_NUMA && it->number >= 0)
        snprintf(text, 64, "NUMA%d", (int)it->number);
    else if (it->kind == RI_TOPO_NIC && (it->nic.device[0] || it->nic.netdev[0]))
        snprintf(text, 64, "%s", it->nic.device[0] ? it->nic.device : it->nic.netdev);
    else
        snprintf(text, 64, "%s", it->name[0] ? it->name : ri_topo_kind_names[it->kind]);
    return text;
}

int32_t topo_view_numa(const struct topo_view *view, int32_t object)
{
    return ri_topo_above(view->topo, object, RI_TOPO_NUMA);
}
