/* SPDX-License-Identifier: Apache-2.0 */
/* The text of pack.c is read.  It comes from other machines, too, so nothing in it is believed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "topo/decimal.h"
#include "topo/pack.h"
#include "topo/topo.h"

static void set_number(struct ri_topo_object *object, const struct ri_topo_field *field, int64_t value)
{
    char *at = (char *)object + field->offset;

    switch (field->type) {
    case RI_TOPO_FIELD_INT64:
        *(int64_t *)(void *)at = value;
        return;
    case RI_TOPO_FIELD_BYTE:
        *(uint8_t *)at = (uint8_t)value;
        return;
    case RI_TOPO_FIELD_LAYER:
        object->nic.layer = (enum ri_topo_layer)value;
        return;
    case RI_TOPO_FIELD_STATE:
        object->nic.state = (enum ri_topo_state)value;
        return;
    default:
        *(int32_t *)(void *)at = (int32_t)value;
    }
}

struct input {
    char *at; /* what is left of a copy that is cut into words */
    int line;
    int32_t host; /* the last one */
    size_t notice_bytes;
    struct ri_topo *topo;
};

/* The next line, or NULL. */
static char *next_line(struct input *in)
{
    char *line = in->at;

    if (!*line)
        return NULL;
    in->at += strcspn(line, "\n");
    if (*in->at)
        *in->at++ = 0;
    in->line++;
    return line;
}

/* The next word of a line, "" at its end. */
static char *next_word(char **line)
{
    char *word = *line + strspn(*line, " ");

    *line = word + strcspn(word, " ");
    if (**line)
        *(*line)++ = 0;
    return word;
}

static int refuse(const struct input *in, const char *word, const char *why)
{
    return ri_error(RONDO_ERR_ARGUMENT, "packed topology, line %d: \"%.60s\": %s; pack it anew", in->line, word, why);
}

/* The index of a word among n; -1: it is none of them. */
static int find_name(const char *const *names, int n, const char *word)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], word) == 0)
            return i;
    return -1;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* Undoes put_escaped in place. */
static int unescape(const struct input *in, char *text)
{
    char *to = text;

    for (const char *from = text; *from; from++) {
        int c = (unsigned char)*from;

        if (c == '%') {
            int high = hex_digit(from[1]), low = high < 0 ? -1 : hex_digit(from[2]);

            c = low < 0 ? 0 : 16 * high + low;
            from += low < 0 ? 0 : 2;
        }
        if (c < ' ' || c == 0x7f)
            return refuse(in, "%", "a character that cannot be, in a name or a notice");
        *to++ = (char)c;
    }
    *to = 0;
    return 0;
}

static int read_speed(const struct input *in, const char *word, double *value)
{
    if (ri_decimal_read(word, value) || *value < 0 || *value > RI_TOPO_MAX_SPEED)
        return refuse(in, word, "no number from 0 to 1e9");
    return 0;
}

static int read_whole(const struct input *in, const char *word, int64_t low, int64_t high, int64_t *value)
{
    if (ri_decimal_read_whole(word, low, high, value))
        return refuse(in, word, "no whole number that can be here");
    return 0;
}

static int read_string(const struct input *in, struct ri_topo_object *object, const struct ri_topo_field *field,
                       char *value)
{
    int err = unescape(in, value);

    if (err)
        return err;
    if (strlen(value) >= field->bytes)
        return refuse(in, value, "too long");
    snprintf((char *)object + field->offset, field->bytes, "%s", value);
    return 0;
}

static int read_number(const struct input *in, struct ri_topo_object *object, const struct ri_topo_field *field,
                       char *value)
{
    const char *const *names = ri_topo_field_words(field);
    int64_t number;
    int err = 0;

    if (names)
        number = find_name(names, (int)field->high + 1, value);
    else
        err = read_whole(in, value, field->low, field->high, &number);
    if (err)
        return err;
    if (names && number < 0)
        return refuse(in, value, "no such word");
    set_number(object, field, number);
    return 0;
}

static int read_field(const struct input *in, struct ri_topo_object *object, char *word)
{
    size_t length = strcspn(word, "=");
    char *value = word + length + (word[length] == '=');

    for (size_t i = 0; i < RI_TOPO_FIELDS; i++) {
        const struct ri_topo_field *field = &ri_topo_fields[i];

        if (strncmp(word, field->name, length) != 0 || field->name[length] ||
            !ri_topo_field_belongs(field, object->kind))
            continue;
        if (field->type == RI_TOPO_FIELD_STRING)
            return read_string(in, object, field, value);
        if (field->type == RI_TOPO_FIELD_SPEED)
            return read_speed(in, value, (double *)(void *)((char *)object + field->offset));
        return read_number(in, object, field, value);
    }
    return refuse(in, word, "no such field of such an object");
}

/* Whether an object of this kind may be below that parent. */
static int fits(const struct ri_topo *topo, enum ri_topo_kind kind, int32_t parent)
{
    enum ri_topo_kind above = topo->objects[parent].kind;
    int depth = 0;

    for (int32_t i = parent; i >= 0; i = topo->objects[i].parent)
        depth++;
    return depth < RI_TOPO_MAX_DEPTH && above < RI_TOPO_GPU && (above < kind || kind == RI_TOPO_BRIDGE);
}

static int read_object(struct input *in, enum ri_topo_kind kind, char *line)
{
    char *word = next_word(&line);
    int64_t parent = -1, number;
    int32_t at;
    int err = 0;

    if (kind != RI_TOPO_HOST)
        err = read_whole(in, word, 0, in->topo->object_count - 1, &parent);
    else if (strcmp(word, "-") != 0)
        err = refuse(in, word, "a host is below nothing: -");
    if (err)
        return err;
    if (parent >= 0 && (ri_topo_host_of(in->topo, (int32_t)parent) != in->host ||
                        !fits(in->topo, kind, (int32_t)parent)))
        return refuse(in, word, "it cannot be below that object");
    word = next_word(&line);
    err = read_whole(in, word, -1, INT32_MAX, &number);
    if (err)
        return err;
    if (in->topo->object_count == RI_TOPO_MAX_OBJECTS)
        return refuse(in, word, "more than 100000 objects");
    at = ri_topo_add(in->topo, kind, (int32_t)parent, (int32_t)number);
    if (at < 0)
        return in->topo->error;
    if (kind == RI_TOPO_HOST)
        in->host = at;
    while (!err && *(word = next_word(&line)))
        err = read_field(in, &in->topo->objects[at], word);
    return err;
}

/* Links stand in order, so none is there twice. */
static int is_behind_last(const struct ri_topo *topo, int64_t a, int64_t b, int kind)
{
    const struct ri_topo_link *last;

    if (topo->link_count == 0)
        return 1;
    last = &topo->links[topo->link_count - 1];
    if (a != last->a)
        return a > last->a;
    return b > last->b || (b == last->b && kind > (int)last->kind);
}

static int read_link(struct input *in, char *line)
{
    char *words[5];
    int64_t a, b, count;
    double gbps;
    int kind, err;

    for (int i = 0; i < 5; i++)
        words[i] = next_word(&line);
    kind = find_name(ri_topo_link_names, RI_TOPO_LINK_KINDS, words[2]);
    err = read_whole(in, words[0], 0, in->topo->object_count - 1, &a);
    if (!err)
        err = read_whole(in, words[1], a + 1, in->topo->object_count - 1, &b);
    if (!err)
        err = read_whole(in, words[3], 0, 1000000, &count);
    if (!err)
        err = read_speed(in, words[4], &gbps);
    if (err)
        return err;
    if (kind < 0 || *line)
        return refuse(in, words[2], "a link is: link A B KIND COUNT RI_TOPO_FIELD_SPEED");
    if (ri_topo_host_of(in->topo, (int32_t)a) != ri_topo_host_of(in->topo, (int32_t)b))
        return refuse(in, words[1], "a link within a host is wanted");
    if (!is_behind_last(in->topo, a, b, kind) || in->topo->link_count == RI_TOPO_MAX_LINKS)
        return refuse(in, words[0], "links are out of order, or too many");
    ri_topo_link(in->topo, (int32_t)a, (int32_t)b, (enum ri_topo_link_kind)kind, (int)count, gbps);
    return in->topo->error;
}

static int read_notice(struct input *in, char *line)
{
    int err = unescape(in, line);

    in->notice_bytes += strlen(line) + 1;
    if (err)
        return err;
    if (in->notice_bytes > RI_TOPO_MAX_NOTICES + 1)
        return refuse(in, "notice", "more than 32768 characters of notices");
    ri_topo_notice(in->topo, "%s", line);
    return in->topo->error;
}

static int read_line(struct input *in, char *line)
{
    char *word = next_word(&line);
    int kind = find_name(ri_topo_kind_names, RI_TOPO_KINDS, word);

    if (kind >= 0)
        return read_object(in, (enum ri_topo_kind)kind, line);
    if (strcmp(word, "link") == 0)
        return read_link(in, line);
    if (strcmp(word, "notice") == 0)
        return read_notice(in, line);
    if (strcmp(word, "latency") == 0)
        return read_speed(in, next_word(&line), &in->topo->net_latency_us);
    return *word && *word != '#' ? refuse(in, word, "no such line") : 0;
}

static int read_lines(struct input *in)
{
    char *line = next_line(in);
    int err = 0;

    if (!line || strcmp(line, RI_TOPO_PACK_HEADER) != 0)
        return ri_error(RONDO_ERR_ARGUMENT, "packed topology, line 1: expected '" RI_TOPO_PACK_HEADER
                        "'; another release has written it, pack anew");
    while (!err && (line = next_line(in)))
        err = read_line(in, line);
    if (!err && in->topo->object_count == 0)
        return ri_error(RONDO_ERR_ARGUMENT, "packed topology: there is no host in it");
    return err;
}

int ri_topo_unpack(const char *text, struct ri_topo **topo_p)
{
    char *copy = strdup(text);
    struct input in = { .at = copy, .host = -1, .topo = ri_topo_create() };
    int err;

    if (!copy || !in.topo)
        err = ri_error(RONDO_ERR_MEMORY, "no memory for a topology of %zu characters", strlen(text));
    else
        err = read_lines(&in);
    free(copy);
    if (err)
        ri_topo_destroy(in.topo);
    else
        *topo_p = in.topo;
    return err;
}
