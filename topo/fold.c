/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/status.h"
#include "topo/find.h"
#include "topo/topo.h"

struct fold {
    struct ri_topo *topo;
    int32_t *children;   /* [objects] how many are left of each */
    int32_t *last_child; /* [objects] one of them */
    int32_t *new_index;  /* [objects] -1: taken out */
};

/* The narrower of two links of which 0 is unknown. */
static double narrower(double a, double b)
{
    return a > 0 && (b <= 0 || a < b) ? a : b;
}

/* The child takes over what its bridge hung at, and the narrower of both links. */
static void replace_by_child(struct ri_topo *topo, int32_t bridge, int32_t child)
{
    const struct ri_topo_object *above = &topo->objects[bridge];
    struct ri_topo_object *below = &topo->objects[child];
    double full = narrower(above->full_gbps > 0 ? above->full_gbps : above->link_gbps,
                           below->full_gbps > 0 ? below->full_gbps : below->link_gbps);

    below->parent = above->parent;
    below->link_gbps = narrower(above->link_gbps, below->link_gbps);
    below->full_gbps = full > below->link_gbps ? full : 0;
}

static int is_needless(const struct fold *fold, int32_t object)
{
    enum ri_topo_kind kind = fold->topo->objects[object].kind;

    return (kind == RI_TOPO_BRIDGE && fold->children[object] <= 1) ||
           (kind == RI_TOPO_ROOT && fold->children[object] == 0);
}

/* From below, so that the children of each are settled when its turn comes. */
static void take_out(struct fold *fold)
{
    struct ri_topo *topo = fold->topo;

    for (int32_t i = topo->object_count - 1; i >= 0; i--) {
        int32_t parent = topo->objects[i].parent, stays = i;

        if (is_needless(fold, i)) {
            fold->new_index[i] = -1;
            stays = fold->children[i] ? fold->last_child[i] : -1;
            if (stays >= 0)
                replace_by_child(topo, i, stays);
        }
        if (parent >= 0 && stays >= 0) {
            fold->children[parent]++;
            fold->last_child[parent] = stays;
        }
    }
}

static void compact(struct fold *fold)
{
    struct ri_topo *topo = fold->topo;
    int32_t objects = 0, links = 0;

    for (int32_t i = 0; i < topo->object_count; i++) {
        if (fold->new_index[i] < 0)
            continue;
        fold->new_index[i] = objects;
        topo->objects[objects] = topo->objects[i];
        if (topo->objects[objects].parent >= 0)
            topo->objects[objects].parent = fold->new_index[topo->objects[objects].parent];
        objects++;
    }
    for (int32_t i = 0; i < topo->link_count; i++) {
        struct ri_topo_link link = topo->links[i];

        link.a = fold->new_index[link.a];
        link.b = fold->new_index[link.b];
        if (link.a >= 0 && link.b >= 0)
            topo->links[links++] = link;
    }
    topo->object_count = objects;
    topo->link_count = links;
    if (links == 0) { /* an array of none is NULL */
        free(topo->links);
        topo->links = NULL;
    }
}

int ri_topo_fold_bridges(struct ri_topo *topo)
{
    size_t count = (size_t)topo->object_count;
    int32_t *room = calloc(3 * count + 1, sizeof(*room));
    struct fold fold = { topo, room, room + count, room + 2 * count };

    if (!room)
        return ri_error(RONDO_ERR_MEMORY, "no memory to fold a topology of %d objects", (int)topo->object_count);
    take_out(&fold);
    compact(&fold);
    free(room);
    return 0;
}
