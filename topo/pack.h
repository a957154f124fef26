/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_TOPO_PACK_H
#define RI_TOPO_PACK_H

#include "topo/topo.h"

/* What pack.c writes and unpack.c reads; and how much of a machine any text may describe. */

#define RI_TOPO_PACK_HEADER "rondo-tree 1"
#define RI_TOPO_MAX_SPEED 1e9 /* GB/s, and microseconds */

enum { RI_TOPO_MAX_OBJECTS = 100000, RI_TOPO_MAX_LINKS = 1000000, RI_TOPO_MAX_DEPTH = 64, RI_TOPO_MAX_NOTICES = 32768 };

enum ri_topo_field_type {
    RI_TOPO_FIELD_STRING, RI_TOPO_FIELD_INT32, RI_TOPO_FIELD_INT64, RI_TOPO_FIELD_BYTE, RI_TOPO_FIELD_SPEED,
    RI_TOPO_FIELD_LAYER, RI_TOPO_FIELD_STATE
};

/* A field of an object.  Numbers lie within low and high; a number that is `usual` goes without saying. */
struct ri_topo_field {
    const char *name;
    enum ri_topo_field_type type;
    size_t offset, bytes;
    int64_t low, high, usual;
};

enum { RI_TOPO_FIELDS = 26 };

/* In the order of the text. */
extern const struct ri_topo_field ri_topo_fields[RI_TOPO_FIELDS];

/* What is told of NICs is told of no others. */
int ri_topo_field_belongs(const struct ri_topo_field *field, enum ri_topo_kind kind);
/* The words of a field that is an enum; NULL: it is none. */
const char *const *ri_topo_field_words(const struct ri_topo_field *field);

#endif
