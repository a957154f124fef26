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
    if (count & (count - 1))
        return array;
    return realloc(array, (count ? 2 * (size_t)count : 1) * bytes);
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

/* Negative, 0 or positive as x stands before, at or behind y. */
static int compare_links(const struct ri_topo_link *x, const struct ri_topo_link *y)
{
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    if (x->b != y->b)
        return x->b < y->b ? -1 : 1;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

/* Where the first link stands that is not before this one. */
static int32_t place_of_link(const struct ri_topo *topo, const struct ri_topo_link *link)
{
    int32_t low = 0, high = topo->link_count;

    while (low < high) {
        int32_t middle = low + (high - low) / 2;

        if (compare_links(&topo->links[middle], link) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void insert_link(struct ri_topo *topo, int32_t at, const struct ri_topo_link *link)
{
    struct ri_topo_link *links = grow(topo->links, topo->link_count, sizeof(*links));

    if (!links) {
        fail(topo, ri_error(RONDO_ERR_MEMORY, "no memory for %d links", (int)topo->link_count + 1));
        return;
    }
    topo->links = links;
    memmove(links + at + 1, links + at, (size_t)(topo->link_count - at) * sizeof(*links));
    links[at] = *link;
    topo->link_count++;
}

void ri_topo_link(struct ri_topo *topo, int32_t a, int32_t b, enum ri_topo_link_kind kind, int count,
                  double gbps)
{
    struct ri_topo_link link = { a < b ? a : b, a < b ? b : a, kind, count, gbps };
    int32_t at;

    if (topo->error)
        return;
    if (a == b || link.a < 0 || link.b >= topo->object_count) {
        fail(topo, ri_error(RONDO_ERR_INTERNAL, "topology: a link from object %d to %d of %d", (int)a, (int)b,
                            (int)topo->object_count));
        return;
    }
    at = place_of_link(topo, &link);
    if (at == topo->link_count || compare_links(&topo->links[at], &link) != 0) {
        insert_link(topo, at, &link);
        return;
    }
    topo->links[at].count += count;
    topo->links[at].gbps += gbps;
}

void ri_topo_remove(struct ri_topo *topo, int32_t object)
{
    int32_t kept = 0;

    for (int32_t i = 0; i < topo->link_count; i++) {
        struct ri_topo_link link = topo->links[i];

        if (link.a == object || link.b == object)
            continue;
        link.a -= link.a > object;
        link.b -= link.b > object;
        topo->links[kept++] = link;
    }
    topo->link_count = kept;
    topo->object_count--;
    memmove(&topo->objects[object], &topo->objects[object + 1],
            (size_t)(topo->object_count - object) * sizeof(*topo->objects));
    for (int32_t i = object; i < topo->object_count; i++)
        topo->objects[i].parent -= topo->objects[i].parent > object;
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

/* moved: [other's objects] where each is now; -1: left out.  host -1: all. */
static void append_hosts(struct ri_topo *topo, const struct ri_topo *other, int32_t host, int32_t *moved)
{
    for (int32_t i = 0; i < other->object_count && !topo->error; i++) {
        const struct ri_topo_object *from = &other->objects[i];
        int32_t parent = from->parent < 0 ? -1 : moved[from->parent];

        moved[i] = -1;
        if (from->parent < 0 ? host >= 0 && i != host : parent < 0)
            continue;
        moved[i] = ri_topo_add(topo, from->kind, parent, from->number);
        if (moved[i] < 0)
            return;
        topo->objects[moved[i]] = *from;
        topo->objects[moved[i]].parent = parent;
    }
    for (int32_t i = 0; i < other->link_count && !topo->error; i++)
        if (moved[other->links[i].a] >= 0)
            ri_topo_link(topo, moved[other->links[i].a], moved[other->links[i].b], other->links[i].kind,
                         other->links[i].count, other->links[i].gbps);
    append_notices(topo, other->notices);
    if (other->net_latency_us > topo->net_latency_us)
        topo->net_latency_us = other->net_latency_us;
}

static void append(struct ri_topo *topo, const struct ri_topo *other, int32_t host)
{
    int32_t *moved = malloc(((size_t)other->object_count + 1) * sizeof(*moved));

    if (moved)
        append_hosts(topo, other, host, moved);
    else
        fail(topo, ri_error(RONDO_ERR_MEMORY, "no memory for a topology of %d objects", (int)other->object_count));
    free(moved);
}

void ri_topo_append(struct ri_topo *topo, const struct ri_topo *other)
{
    append(topo, other, -1);
}

struct ri_topo *ri_topo_extract(const struct ri_topo *topo, int32_t host)
{
    struct ri_topo *one = ri_topo_create();

    if (!one)
        return NULL;
    append(one, topo, host);
    if (!one->error)
        return one;
    ri_topo_destroy(one);
    return NULL;
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

/* The next object of a kind below `above`, from index i on; -1: there is none. */
static int32_t next_of(const struct ri_topo *topo, int32_t above, enum ri_topo_kind kind, int32_t i)
{
    for (; i < topo->object_count; i++) {
        if (above >= 0 && i > above && topo->objects[i].kind == RI_TOPO_HOST)
            return -1;
        if (topo->objects[i].kind == kind && (above < 0 || is_below(topo, i, above)))
            return i;
    }
    return -1;
}

int32_t ri_topo_find(const struct ri_topo *topo, int32_t above, enum ri_topo_kind kind, int k)
{
    int32_t at = next_of(topo, above, kind, above < 0 ? 0 : above);

    while (at >= 0 && k-- > 0)
        at = next_of(topo, above, kind, at + 1);
    return at;
}

int ri_topo_count(const struct ri_topo *topo, int32_t above, enum ri_topo_kind kind)
{
    int count = 0;

    for (int32_t at = above < 0 ? 0 : above; (at = next_of(topo, above, kind, at)) >= 0; at++)
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

enum { CPUS_MAX = 1 << 16 }; /* of a host: what is beyond is no list of processors */

/* One run of a list such as "0-3,8"; NULL at its end, or where it is not in form. */
static const char *next_cpus(const char *list, long *first, long *last)
{
    char *end;

    *first = strtol(list, &end, 10);
    if (end == list || *first < 0)
        return NULL;
    *last = *first;
    if (*end == '-')
        *last = strtol(end + 1, &end, 10);
    if (*last > CPUS_MAX)
        return NULL;
    return end + (*end == ',');
}

static int has_cpus(const char *list, long wanted_first, long wanted_last)
{
    long first, last;

    while (list && *list && (list = next_cpus(list, &first, &last)))
        if (first <= wanted_first && wanted_last <= last)
            return 1;
    return 0;
}

static int has_all_cpus(const char *list, const char *wanted)
{
    long first, last;

    if (!*wanted)
        return 0;
    while (wanted && *wanted && (wanted = next_cpus(wanted, &first, &last)))
        for (long cpu = first; cpu <= last; cpu++)
            if (!has_cpus(list, cpu, cpu))
                return 0;
    return wanted != NULL;
}

int32_t ri_topo_home(const struct ri_topo *topo, int32_t host)
{
    int32_t numa;

    for (int k = 0; (numa = ri_topo_find(topo, host, RI_TOPO_NUMA, k)) >= 0; k++)
        if (has_all_cpus(topo->objects[numa].cpus, topo->objects[host].cpus))
            return numa;
    return -1;
}

const struct ri_topo_link *ri_topo_link_between(const struct ri_topo *topo, int32_t a, int32_t b)
{
    const struct ri_topo_link first = { a < b ? a : b, a < b ? b : a, 0, 0, 0 }, *best = NULL;

    for (int32_t i = place_of_link(topo, &first); i < topo->link_count; i++) {
        const struct ri_topo_link *link = &topo->links[i];

        if (link->a != first.a || link->b != first.b)
            break;
        if (!best || link->gbps > best->gbps)
            best = link;
    }
    return best;
}
