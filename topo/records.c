/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "topo/records.h"

/* More than any host has; a hostile text ends here. */
enum { MOST_RECORDS = 200000, MOST_BYTES = 64 << 20, NAME_BYTES = 4096 };

static const char *const kind_names[] = { "text", "link", "list", "note" };
static const char header[] = "rondo-recording 1";
static const char footer[] = "end"; /* what is cut off has none */

void ri_records_init(struct ri_records *all)
{
    all->records = NULL;
    all->count = 0;
    for (int i = 0; i < RI_RECORDS_HEADS; i++)
        all->heads[i] = -1;
}

void ri_records_release(struct ri_records *all)
{
    for (int32_t i = 0; i < all->count; i++) {
        free(all->records[i].name);
        free(all->records[i].value);
    }
    free(all->records);
    ri_records_init(all);
}

static int head_of(enum ri_record_kind kind, const char *name)
{
    uint64_t hash = ri_mix(0, kind);

    for (; *name; name++)
        hash = ri_mix(hash, (unsigned char)*name);
    return (int)(hash % RI_RECORDS_HEADS);
}

static struct ri_record *find(const struct ri_records *all, enum ri_record_kind kind, const char *name)
{
    for (int32_t i = all->heads[head_of(kind, name)]; i >= 0; i = all->records[i].next)
        if (all->records[i].kind == kind && strcmp(all->records[i].name, name) == 0)
            return &all->records[i];
    return NULL;
}

const struct ri_record *ri_records_find(const struct ri_records *all, enum ri_record_kind kind, const char *name)
{
    return find(all, kind, name);
}

/* Room for one more; arrays grow to powers of two. */
static int grow(struct ri_records *all)
{
    struct ri_record *records;
    size_t room = all->count ? 2 * (size_t)all->count : 1;

    if (all->count & (all->count - 1))
        return 0;
    records = realloc(all->records, room * sizeof(*records));
    if (!records)
        return -1;
    all->records = records;
    return 0;
}

static struct ri_record *append(struct ri_records *all, enum ri_record_kind kind, const char *name)
{
    int head = head_of(kind, name);
    struct ri_record *record;
    char *copy;

    if (grow(all))
        return NULL;
    copy = strdup(name);
    if (!copy)
        return NULL;
    record = &all->records[all->count];
    *record = (struct ri_record){ .kind = kind, .name = copy, .next = all->heads[head] };
    all->heads[head] = all->count++;
    return record;
}

const struct ri_record *ri_records_put(struct ri_records *all, enum ri_record_kind kind, const char *name,
                                       int error, const char *value, size_t bytes)
{
    struct ri_record *record;
    char *copy = malloc(bytes + 1);

    if (!copy)
        return NULL;
    if (bytes)
        memcpy(copy, value, bytes);
    copy[bytes] = 0;
    record = find(all, kind, name);
    if (!record)
        record = append(all, kind, name);
    if (!record) {
        free(copy);
        return NULL;
    }
    free(record->value);
    record->error = error;
    record->value = copy;
    record->bytes = bytes;
    return record;
}

/* ---- to text ---- */

static void print_byte(FILE *out, unsigned char byte)
{
    if (byte == '\\')
        fputs("\\\\", out);
    else if (byte < ' ' || byte > '~')
        fprintf(out, "\\x%02x", byte);
    else
        putc(byte, out);
}

static void print_record(FILE *out, const struct ri_record *record)
{
    fprintf(out, "%s ", kind_names[record->kind]);
    for (const char *at = record->name; *at; at++)
        print_byte(out, (unsigned char)*at);
    if (record->error) {
        fprintf(out, "\n!%d\n", record->error);
        return;
    }
    fputs("\n ", out);
    for (size_t i = 0; i < record->bytes; i++)
        if (record->value[i] == '\n')
            fputs("\n ", out);
        else
            print_byte(out, (unsigned char)record->value[i]);
    putc('\n', out);
}

char *ri_records_print(const struct ri_records *all)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    int failed;

    if (!out)
        return NULL;
    fprintf(out, "%s\n", header);
    for (int32_t i = 0; i < all->count; i++)
        print_record(out, &all->records[i]);
    fprintf(out, "%s\n", footer);
    failed = ferror(out);
    if (fclose(out) || failed) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- from text ---- */

struct reader {
    const char *at, *end; /* what is left */
    int line;             /* number of the line that was taken last */
    int has_ended;        /* the last line has come */
};

/* The next line, without its newline; 0: there is none. */
static int take_line(struct reader *in, const char **line, size_t *bytes)
{
    const char *newline;

    if (in->at == in->end)
        return 0;
    newline = memchr(in->at, '\n', (size_t)(in->end - in->at));
    *line = in->at;
    *bytes = (size_t)((newline ? newline : in->end) - in->at);
    in->at = newline ? newline + 1 : in->end;
    in->line++;
    return 1;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

/* Into out, which has room for `bytes`; how many came of it, or -1. */
static long unescape(const char *text, size_t bytes, char *out)
{
    long count = 0;

    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)text[i];

        if (byte < ' ' || byte > '~')
            return -1;
        if (text[i] != '\\') {
            out[count++] = text[i];
        } else if (i + 1 < bytes && text[i + 1] == '\\') {
            out[count++] = '\\';
            i++;
        } else if (i + 3 < bytes && text[i + 1] == 'x' && hex_digit(text[i + 2]) >= 0 &&
                   hex_digit(text[i + 3]) >= 0) {
            out[count++] = (char)(hex_digit(text[i + 2]) * 16 + hex_digit(text[i + 3]));
            i += 3;
        } else {
            return -1;
        }
    }
    return count;
}

/* "text /path" into kind and name, which has room for NAME_BYTES. */
static int take_name(const struct reader *in, const char *line, size_t bytes, enum ri_record_kind *kind,
                     char *name)
{
    for (int k = 0; k < RI_RECORD_KINDS; k++) {
        size_t skip = strlen(kind_names[k]);
        long count;

        if (bytes < skip + 2 || strncmp(line, kind_names[k], skip) != 0 || line[skip] != ' ')
            continue;
        count = bytes - skip - 1 < NAME_BYTES ? unescape(line + skip + 1, bytes - skip - 1, name) : -1;
        if (count < 1 || memchr(name, 0, (size_t)count))
            return ri_error(RONDO_ERR_ARGUMENT, "recording, line %d: a name that is too long or has a byte "
                            "that is not written as \\xHH", in->line);
        name[count] = 0;
        *kind = k;
        return 0;
    }
    return ri_error(RONDO_ERR_ARGUMENT, "recording, line %d: '%.*s' begins no entry; expected text, link, list "
                    "or note and a name", in->line, (int)(bytes < 40 ? bytes : 40), line);
}

static int take_error(const struct reader *in, const char *line, size_t bytes, int *error)
{
    *error = 0;
    for (size_t i = 1; i < bytes; i++) {
        if (line[i] < '0' || line[i] > '9' || *error > 999)
            *error = 0, i = bytes;
        else
            *error = *error * 10 + line[i] - '0';
    }
    if (*error < 1 || *error > 4095)
        return ri_error(RONDO_ERR_ARGUMENT, "recording, line %d: after ! comes an errno, 1 to 4095", in->line);
    return 0;
}

/* The lines after a name: room has as many bytes as are left of the text. */
static int take_value(struct reader *in, char *room, size_t *bytes, int *error)
{
    const char *line;
    size_t length;
    int lines = 0;

    *bytes = 0;
    *error = 0;
    if (in->at < in->end && *in->at == '!') {
        take_line(in, &line, &length);
        return take_error(in, line, length, error);
    }
    while (in->at < in->end && *in->at == ' ' && take_line(in, &line, &length)) {
        long count;

        if (lines++)
            room[(*bytes)++] = '\n';
        count = unescape(line + 1, length - 1, room + *bytes);
        if (count < 0)
            return ri_error(RONDO_ERR_ARGUMENT, "recording, line %d: a byte that is not written as \\xHH",
                            in->line);
        *bytes += (size_t)count;
    }
    if (!lines)
        return ri_error(RONDO_ERR_ARGUMENT, "recording, line %d: a name without a value; expected a line that "
                        "begins with a space, or ! and an errno", in->line);
    return 0;
}

static int take_record(struct ri_records *all, struct reader *in, char *room)
{
    char name[NAME_BYTES];
    enum ri_record_kind kind = RI_RECORD_TEXT;
    const char *line = NULL;
    size_t length = 0, bytes;
    int error, err;

    take_line(in, &line, &length);
    if (length == 0 || line[0] == '#')
        return 0;
    if (in->has_ended)
        return ri_error(RONDO_ERR_ARGUMENT, "recording, line %d: it goes on after its last line, '%s'", in->line, footer);
    if (length == sizeof(footer) - 1 && memcmp(line, footer, length) == 0) {
        in->has_ended = 1;
        return 0;
    }
    err = take_name(in, line, length, &kind, name);
    if (!err)
        err = take_value(in, room, &bytes, &error);
    if (err)
        return err;
    if (all->count == MOST_RECORDS)
        return ri_error(RONDO_ERR_ARGUMENT, "recording, line %d: more than %d entries", in->line, MOST_RECORDS);
    if (!ri_records_put(all, kind, name, error, room, bytes))
        return ri_error(RONDO_ERR_MEMORY, "no memory for a recording of %d entries", (int)all->count + 1);
    return 0;
}

/* Does a text say of itself that it is a recording of this version? */
static int are_in(const char *text, size_t bytes)
{
    size_t length = sizeof(header) - 1;

    return bytes >= length && memcmp(text, header, length) == 0 && (bytes == length || text[length] == '\n');
}

int ri_records_parse(struct ri_records *all, const char *text, size_t bytes)
{
    struct reader in = { text, text + bytes, 0, 0 };
    const char *line;
    size_t length;
    char *room;
    int err = 0;

    if (!are_in(text, bytes))
        return ri_error(RONDO_ERR_ARGUMENT, "recording, line 1: expected '%s'; another release has written it, record anew", header);
    if (bytes > MOST_BYTES)
        return ri_error(RONDO_ERR_ARGUMENT, "a recording of %zu bytes; at most %d are read", bytes, MOST_BYTES);
    room = malloc(bytes);
    if (!room)
        return ri_error(RONDO_ERR_MEMORY, "no memory to read a recording of %zu bytes", bytes);
    take_line(&in, &line, &length);
    while (!err && in.at < in.end)
        err = take_record(all, &in, room);
    free(room);
    if (!err && !in.has_ended)
        return ri_error(RONDO_ERR_ARGUMENT, "recording, line %d: its last line, '%s', is missing: it was cut off, or is "
                        "of an older release; record anew", in.line, footer);
    return err;
}
