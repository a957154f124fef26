/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_RECORDS_H
#define RI_RECORDS_H

#include <stddef.h>
#include <stdint.h>

/* What a source has read, by kind and name, and the text that keeps it:
 *
 *     rondo-recording 1
 *     text /sys/class/net/eth0/speed
 *      100000
 *     link /sys/class/net/eth0/device
 *     !2
 *     end
 *
 * An entry is a line with kind and name, then its value, each line of it after a space, or ! and an errno.
 * Bytes that do not print are \xHH, a backslash is \\.  Empty lines and lines after # are nothing. */

enum ri_record_kind {
    RI_RECORD_TEXT, /* contents of a file */
    RI_RECORD_LINK, /* where a path leads */
    RI_RECORD_LIST, /* names in a folder, a newline after each */
    RI_RECORD_NOTE, /* answer of a library or call */
    RI_RECORD_KINDS
};

struct ri_record {
    enum ri_record_kind kind;
    int error;     /* errno; 0: there is a value */
    char *name;
    char *value;   /* [bytes], and a 0 after it */
    size_t bytes;
    int32_t next;  /* with the same hash; -1: none */
};

enum { RI_RECORDS_HEADS = 4096 };

struct ri_records {
    struct ri_record *records; /* [count], in order of first reading */
    int32_t count;
    int32_t heads[RI_RECORDS_HEADS]; /* -1: none */
};

void ri_records_init(struct ri_records *all);
void ri_records_release(struct ri_records *all);

/* NULL: there is none.  Good until the next put. */
const struct ri_record *ri_records_find(const struct ri_records *all, enum ri_record_kind kind, const char *name);
/* Keeps a copy; a second one of a name replaces the first.  NULL: no memory. */
const struct ri_record *ri_records_put(struct ri_records *all, enum ri_record_kind kind, const char *name,
                                       int error, const char *value, size_t bytes);

/* Malloc'd; NULL: no memory. */
char *ri_records_print(const struct ri_records *all);
/* Adds what a text holds.  RONDO_ERR_ARGUMENT names the line. */
int ri_records_parse(struct ri_records *all, const char *text, size_t bytes);

#endif
