/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "topo/topo.h"

const char *const ri_topo_kind_names[] = { "host", "package", "numa", "root", "bridge", "gpu", "nic" };
const char *const ri_topo_layer_names[] = { "unknown", "ethernet", "infiniband" };
const char *const ri_topo_state_names[] = { "unknown", "down", "init", "armed", "active" };
const char *const ri_topo_link_names[] = { "nvlink", "xgmi", "c2c" };

struct ri_topo *ri_topo_create(void)
{
    return calloc(1, sizeof(struct ri_topo));
}

void ri_topo_destroy(struct ri_topo *topo)
{
    if (!topo)
        return;
    free(topo->objects);
    free(topo->links);
    free(topo->ranks);
    free(topo->notices);
    free(topo);
}

/* ---- making ---- */

static int fail(struct ri_topo *topo, int status)
{
    if (!topo->error)
        topo->error = status;
    return -1;
}

/* Room for one more of `bytes`; arrays grow to powers of two.  NULL: no memory. */
static void *grow(void *array, int32_t count, size_t bytes)
{
    if (count & (count - 1) || count == 0)
        return count ? array : malloc(bytes);
    return realloc(array, 2 * (size_t)count * bytes);
}

int32_t ri_topo_add(struct ri_topo *topo, enum ri_topo_kind kind, int32_t parent, int32_t number)
{
    struct ri_topo_object *objects, *object;

    if (topo->error)
        return -1;
    if ((parent < 0) != (kind == RI_TOPO_HOST) || parent >= topo->object_count)
        return fail(topo, ri_error(RONDO_ERR_INTERNAL, "topology: a %s below object %d of %d",
                                   ri_topo_kind_names[kind], (int)parent, (int)topo->object_count));
    objects = grow(topo->objects, topo->object_count, sizeof(*objects));
    if (!objects)
        return fail(topo, ri_error(RONDO_ERR_MEMORY, "no memory for a topology of %d objects",
                                   (int)topo->object_count + 1));
    topo->objects = objects;
    object = &objects[topo->object_count];
    memset(object, 0, sizeof(*object));
    object->kind = kind;
    object->parent = kind == RI_TOPO_HOST ? -1 : parent;
    object->number = number;
    object->nic.gid_index = -1;
    if (number < 0)
        snprintf(object->name, sizeof(object->name), "%s", ri_topo_kind_names[kind]);
    else
        snprintf(object->name, sizeof(object->name), "%s %d", ri_topo_kind_names[kind], (int)number);
    return topo->object_count++;
}

void ri_topo_link(struct ri_topo *topo, int32_t a, int32_t b, enum ri_topo_link_kind kind, int count,
                  double gbps)
{
    struct ri_topo_link *links, link = { a < b ? a : b, a < b ? b : a, kind, count, gbps };

    if (topo->error)
        return;
    if (a == b || link.a < 0 || link.b >= topo->object_count) {
        fail(topo, ri_error(RONDO_ERR_INTERNAL, "topology: a link from object %d to %d of %d", (int)a, (int)b,
                            (int)topo->object_count));
        return;
    }
    for (int32_t i = 0; i < topo->link_count; i++)
        if (topo->links[i].a == link.a && topo->links[i].b == link.b && topo->links[i].kind == kind) {
            topo->links[i].count += count;
            topo->links[i].gbps += gbps;
            return;
        }
    links = grow(topo->links, topo->link_count, sizeof(*links));
    if (!links) {
        fail(topo, ri_error(RONDO_ERR_MEMORY, "no memory for %d links", (int)topo->link_count + 1));
        return;
    }
    topo->links = links;
    links[topo->link_count++] = link;
}

/* Is this line among those of text? */
static int has_line(const char *text, const char *line)
{
    size_t length = strlen(line);

    for (; text && *text; text += strcspn(text, "\n"), text += *text == '\n')
        if (strncmp(text, line, length) == 0 && text[length] == '\n')
            return 1;
    return 0;
}

static void add_notice(struct ri_topo *topo, const char *line)
{
    size_t had = topo->notices ? strlen(topo->notices) : 0;
    char *text;

    if (has_line(topo->notices, line))
        return;
    text = realloc(topo->notices, had + strlen(line) + 2);
    if (!text) {
        fail(topo, ri_error(RONDO_ERR_MEMORY, "no memory for what a topology has to say"));
        return;
    }
    sprintf(text + had, "%s\n", line);
    topo->notices = text;
}

void ri_topo_notice(struct ri_topo *topo, const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    for (char *at = line; *at; at++)
        if (*at == '\n')
            *at = ' ';
    add_notice(topo, line);
}

static void append_notices(struct ri_topo *topo, const char *text)
{
    char line[512];

    while (text && *text) {
        size_t length = strcspn(text, "\n");

        snprintf(line, sizeof(line), "%.*s", (int)length, text);
        add_notice(topo, line);
        text += length + (text[length] == '\n');
    }
}

void ri_topo_append(struct ri_topo *topo, const struct ri_topo *other)
{
    int32_t base = topo->object_count;

    for (int32_t i = 0; i < other->object_count && !topo->error; i++) {
        const struct ri_topo_object *from = &other->objects[i];
        int32_t parent = from->parent < 0 ? -1 : base + from->parent;
        int32_t at = ri_topo_add(topo, from->kind, parent, from->number);

        if (at < 0)
            return;
        topo->objects[at] = *from;
        topo->objects[at].parent = parent;
    }
    for (int32_t i = 0; i < other->link_count; i++)
        ri_topo_link(topo, base + other->links[i].a, base + other->links[i].b, other->links[i].kind,
                     other->links[i].count, other->links[i].gbps);
    append_notices(topo, other->notices);
    if (other->net_latency_us > topo->net_latency_us)
        topo->net_latency_us = other->net_latency_us;
}

/* ---- asking ---- */

int32_t ri_topo_host_of(const struct ri_topo *topo, int32_t object)
{
    while (object >= 0 && topo->objects[object].parent >= 0)
        object = topo->objects[object].parent;
    return object;
}

static int is_below(const struct ri_topo *topo, int32_t object, int32_t above)
{
    while (object > above)
        object = topo->objects[object].parent;
    return object == above;
}

int32_t ri_topo_find(const struct ri_topo *topo, int32_t above, enum ri_topo_kind kind, int k)
{
    for (int32_t i = above < 0 ? 0 : above; i < topo->object_count; i++) {
        if (above >= 0 && i > above && topo->objects[i].kind == RI_TOPO_HOST)
            break;
        if (topo->objects[i].kind == kind && (above < 0 || is_below(topo, i, above)) && k-- == 0)
            return i;
    }
    return -1;
}

int ri_topo_count(const struct ri_topo *topo, int32_t above, enum ri_topo_kind kind)
{
    int count = 0;

    while (ri_topo_find(topo, above, kind, count) >= 0)
        count++;
    return count;
}

int ri_topo_hosts(const struct ri_topo *topo)
{
    return ri_topo_count(topo, -1, RI_TOPO_HOST);
}

int32_t ri_topo_above(const struct ri_topo *topo, int32_t object, enum ri_topo_kind kind)
{
    while (object >= 0 && topo->objects[object].kind != kind)
        object = topo->objects[object].parent;
    return object;
}

int32_t ri_topo_common(const struct ri_topo *topo, int32_t a, int32_t b)
{
    while (a != b && a >= 0 && b >= 0) {
        if (a > b)
            a = topo->objects[a].parent;
        else
            b = topo->objects[b].parent;
    }
    return a == b ? a : -1;
}

const struct ri_topo_link *ri_topo_link_between(const struct ri_topo *topo, int32_t a, int32_t b)
{
    const struct ri_topo_link *best = NULL;

    for (int32_t i = 0; i < topo->link_count; i++) {
        const struct ri_topo_link *link = &topo->links[i];

        if (((link->a == a && link->b == b) || (link->a == b && link->b == a)) &&
            (!best || link->gbps > best->gbps))
            best = link;
    }
    return best;
}
