/* SPDX-License-Identifier: Apache-2.0 */
/* A tree as lines of text, and back.  Only what is known is written:
 *     rondo-tree 1
 *     host - 0 id=4c4c4544
 *     gpu 0 0 pci=0000:17:00.0 link_gbps=31.5
 *     link 1 2 nvlink 12 300
 *     latency 2.5
 *     notice no%20verbs
 * An object is its kind, the index of its parent, its number and its fields; the first has index 0. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/decimal.h"
#include "topo/pack.h"
#include "topo/topo.h"

#define AT(member) offsetof(struct ri_topo_object, member), sizeof(((struct ri_topo_object *)0)->member)

const struct ri_topo_field ri_topo_fields[RI_TOPO_FIELDS] = {
    { "name", RI_TOPO_FIELD_STRING, AT(name), 0, 0, 0 },
    { "pci", RI_TOPO_FIELD_STRING, AT(pci), 0, 0, 0 },
    { "model", RI_TOPO_FIELD_STRING, AT(model), 0, 0, 0 },
    { "id", RI_TOPO_FIELD_STRING, AT(id), 0, 0, 0 },
    { "cpus", RI_TOPO_FIELD_STRING, AT(cpus), 0, 0, 0 },
    { "cpu_count", RI_TOPO_FIELD_INT32, AT(cpu_count), 0, INT32_MAX, 0 },
    { "memory_bytes", RI_TOPO_FIELD_INT64, AT(memory_bytes), 0, INT64_MAX, 0 },
    { "link_gbps", RI_TOPO_FIELD_SPEED, AT(link_gbps), 0, 0, 0 },
    { "full_gbps", RI_TOPO_FIELD_SPEED, AT(full_gbps), 0, 0, 0 },
    { "copy_gbps", RI_TOPO_FIELD_SPEED, AT(copy_gbps), 0, 0, 0 },
    { "copy_latency_us", RI_TOPO_FIELD_SPEED, AT(copy_latency_us), 0, 0, 0 },
    { "layer", RI_TOPO_FIELD_LAYER, AT(nic.layer), 0, RI_TOPO_LAYERS - 1, 0 },
    { "state", RI_TOPO_FIELD_STATE, AT(nic.state), 0, RI_TOPO_STATES - 1, 0 },
    { "port", RI_TOPO_FIELD_INT32, AT(nic.port), 0, INT32_MAX, 0 },
    { "lid", RI_TOPO_FIELD_INT32, AT(nic.lid), 0, INT32_MAX, 0 },
    { "gid_index", RI_TOPO_FIELD_INT32, AT(nic.gid_index), -1, INT32_MAX, -1 },
    { "mtu", RI_TOPO_FIELD_INT32, AT(nic.mtu), 0, INT32_MAX, 0 },
    { "gbps", RI_TOPO_FIELD_SPEED, AT(nic.gbps), 0, 0, 0 },
    { "device", RI_TOPO_FIELD_STRING, AT(nic.device), 0, 0, 0 },
    { "netdev", RI_TOPO_FIELD_STRING, AT(nic.netdev), 0, 0, 0 },
    { "card", RI_TOPO_FIELD_STRING, AT(nic.card), 0, 0, 0 },
    { "subnet", RI_TOPO_FIELD_STRING, AT(nic.subnet), 0, 0, 0 },
    { "bond", RI_TOPO_FIELD_STRING, AT(nic.bond), 0, 0, 0 },
    { "virtual", RI_TOPO_FIELD_BYTE, AT(nic.is_virtual), 0, 1, 0 },
    { "loopback", RI_TOPO_FIELD_BYTE, AT(nic.is_loopback), 0, 1, 0 },
    { "unusable", RI_TOPO_FIELD_STRING, AT(nic.unusable), 0, 0, 0 },
};

int ri_topo_field_belongs(const struct ri_topo_field *field, enum ri_topo_kind kind)
{
    return kind == RI_TOPO_NIC || field->offset < offsetof(struct ri_topo_object, nic);
}

/* The number of a field that is no string and no speed. */
static int64_t get_number(const struct ri_topo_object *object, const struct ri_topo_field *field)
{
    const char *at = (const char *)object + field->offset;

    switch (field->type) {
    case RI_TOPO_FIELD_INT64:
        return *(const int64_t *)(const void *)at;
    case RI_TOPO_FIELD_BYTE:
        return *(const uint8_t *)at;
    case RI_TOPO_FIELD_LAYER:
        return object->nic.layer;
    case RI_TOPO_FIELD_STATE:
        return object->nic.state;
    default:
        return *(const int32_t *)(const void *)at;
    }
}

const char *const *ri_topo_field_words(const struct ri_topo_field *field)
{
    if (field->type == RI_TOPO_FIELD_LAYER)
        return ri_topo_layer_names;
    return field->type == RI_TOPO_FIELD_STATE ? ri_topo_state_names : NULL;
}

/* A growing string; text is NULL once memory ran out. */
struct output {
    char *text;
    size_t length, room;
};

/* Room for one more piece; 0 when there is none. */
static int reserve(struct output *out)
{
    enum { PIECE = 64 };
    char *moved;

    if (out->text && out->length + PIECE > out->room) {
        moved = realloc(out->text, 2 * out->room);
        if (!moved)
            free(out->text);
        out->text = moved;
        out->room *= 2;
    }
    return out->text != NULL;
}

static void put(struct output *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A piece: a number or a word of ours. */
static void put(struct output *out, const char *format, ...)
{
    va_list args;

    if (!reserve(out))
        return;
    va_start(args, format);
    out->length += (size_t)vsnprintf(out->text + out->length, out->room - out->length, format, args);
    va_end(args);
}

/* Control characters, which no name should have, become question marks. */
static void put_escaped(struct output *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length && reserve(out); i++) {
        unsigned char c = (unsigned char)text[i];

        if (c == ' ' || c == '%' || c > 0x7f)
            put(out, "%%%02x", c);
        else
            out->text[out->length++] = c < ' ' || c == 0x7f ? '?' : (char)c;
    }
}

static void put_speed(struct output *out, double value)
{
    char text[RI_DECIMAL_ROOM];

    ri_decimal_print(value, text);
    put(out, "%s", text);
}

/* What ri_topo_add calls an object of this kind and number. */
static void usual_name(enum ri_topo_kind kind, int32_t number, char name[64])
{
    if (number < 0)
        snprintf(name, 64, "%s", ri_topo_kind_names[kind]);
    else
        snprintf(name, 64, "%s %d", ri_topo_kind_names[kind], (int)number);
}

static void put_string(struct output *out, const struct ri_topo_object *object, const struct ri_topo_field *field)
{
    const char *text = (const char *)object + field->offset;
    char usual[64] = "";

    if (field->offset == offsetof(struct ri_topo_object, name))
        usual_name(object->kind, object->number, usual);
    if (strncmp(text, usual, field->bytes) == 0)
        return;
    put(out, " %s=", field->name);
    put_escaped(out, text, strnlen(text, field->bytes - 1));
}

static void put_field(struct output *out, const struct ri_topo_object *object, const struct ri_topo_field *field)
{
    if (field->type == RI_TOPO_FIELD_STRING) {
        put_string(out, object, field);
    } else if (field->type == RI_TOPO_FIELD_SPEED) {
        double value = *(const double *)(const void *)((const char *)object + field->offset);

        if (!(value > 0 && value <= RI_TOPO_MAX_SPEED))
            return;
        put(out, " %s=", field->name);
        put_speed(out, value);
    } else {
        int64_t value = get_number(object, field);

        if (value == field->usual || value < field->low || value > field->high)
            return;
        if (ri_topo_field_words(field))
            put(out, " %s=%s", field->name, ri_topo_field_words(field)[value]);
        else
            put(out, " %s=%lld", field->name, (long long)value);
    }
}

static void put_object(struct output *out, const struct ri_topo_object *object)
{
    put(out, "%s ", ri_topo_kind_names[object->kind]);
    if (object->parent < 0)
        put(out, "-");
    else
        put(out, "%d", (int)object->parent);
    put(out, " %d", object->number < -1 ? -1 : (int)object->number);
    for (size_t i = 0; i < RI_TOPO_FIELDS; i++)
        if (ri_topo_field_belongs(&ri_topo_fields[i], object->kind))
            put_field(out, object, &ri_topo_fields[i]);
    put(out, "\n");
}

static void put_link(struct output *out, const struct ri_topo_link *link)
{
    put(out, "link %d %d %s %d ", (int)link->a, (int)link->b, ri_topo_link_names[link->kind], (int)link->count);
    put_speed(out, link->gbps > 0 && link->gbps <= RI_TOPO_MAX_SPEED ? link->gbps : 0);
    put(out, "\n");
}

/* As many as will be read again. */
static void put_notices(struct output *out, const char *notices)
{
    const char *at = notices;

    while (at && *at) {
        size_t length = strcspn(at, "\n");

        if ((size_t)(at - notices) + length > RI_TOPO_MAX_NOTICES)
            return;
        put(out, "notice ");
        put_escaped(out, at, length);
        put(out, "\n");
        at += length + (at[length] == '\n');
    }
}

char *ri_topo_pack(const struct ri_topo *topo)
{
    struct output out = { malloc(4096), 0, 4096 };

    put(&out, RI_TOPO_PACK_HEADER "\n");
    for (int32_t i = 0; i < topo->object_count; i++)
        put_object(&out, &topo->objects[i]);
    for (int32_t i = 0; i < topo->link_count; i++)
        put_link(&out, &topo->links[i]);
    if (topo->net_latency_us > 0) {
        put(&out, "latency ");
        put_speed(&out, topo->net_latency_us);
        put(&out, "\n");
    }
    put_notices(&out, topo->notices);
    return out.text;
}
