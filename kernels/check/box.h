/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RI_KERNEL_CHECK_BOX_H
#define RI_KERNEL_CHECK_BOX_H

#include "kernels/check/check.h"

/* How a tensor lies in memory. */
enum ri_strides {
    RI_STRIDES_PACKED,       /* [batch][token][head][dim] */
    RI_STRIDES_GAPS,         /* the same with odd gaps after each row, token and batch row */
    RI_STRIDES_HEADS_FIRST,  /* [batch][head][token][dim] */
    RI_STRIDES_TOKENS_FIRST, /* [token][batch][head][dim] */
    RI_STRIDES_HEADS_OUTER,  /* [head][token][batch][dim] with gaps */
    RI_STRIDES_MIXED,        /* of a problem: each tensor its own of these */
    RI_STRIDES_FAR_BATCHES,  /* batch rows, tokens or heads so far apart that offsets pass 2^31 elements */
    RI_STRIDES_FAR_TOKENS,
    RI_STRIDES_FAR_HEADS
};

/* A tensor in memory of its own.  What is no element, and what nobody filled, is poison: NaN in every type. */
struct ri_box {
    rondo_tensor_t view;
    rondo_dtype_t dtype;
    int64_t batch, tokens;
    int heads, dim;
    unsigned char *memory, *kept; /* kept: a copy, for ri_box_changed; NULL when memory is address space alone */
    size_t bytes;
};

/* data lies `offset` elements behind a multiple of 64 bytes. */
int ri_box_make(struct ri_probe *c, struct ri_box *x, const struct ri_box *dims, enum ri_strides strides,
                int offset);

unsigned char *ri_box_row(const struct ri_box *x, int64_t b, int64_t t, int h);
double ri_box_get(const struct ri_box *x, int64_t b, int64_t t, int h, int d);
void ri_box_set(const struct ri_box *x, int64_t b, int64_t t, int h, int d, double value); /* rounds to nearest */
size_t ri_box_row_bytes(const struct ri_box *x);

/* Tokens first <= t < end, of every batch row and head, of which live[t] holds (NULL: all). */
struct ri_rows {
    int64_t first, end;
    const unsigned char *live;
};
void ri_box_fill(const struct ri_box *x, struct ri_rows rows, double value);
void ri_box_random(const struct ri_box *x, struct ri_rows rows, uint64_t *state); /* unit variance, mean 0 */
void ri_box_poison(const struct ri_box *x);

/* Remembers what all of the memory holds, and says whether anything but the elements of `rows` is different
 * now: then `where`, of `room` bytes, tells what. */
void ri_box_keep(const struct ri_box *x);
int ri_box_changed(const struct ri_box *x, struct ri_rows rows, char *where, size_t room);

/* Elements as doubles, packed [batch][token][head][dim]; and where such a row starts. */
void ri_box_read(const struct ri_box *x, double *values);
static inline int64_t ri_box_at(const struct ri_box *x, int64_t b, int64_t t, int h)
{
    return ((b * x->tokens + t) * x->heads + h) * x->dim;
}
static inline int64_t ri_box_elements(const struct ri_box *x)
{
    return x->batch * x->tokens * x->heads * x->dim;
}

/* A packed copy of the bits, or NULL; and whether the rows still hold them. */
unsigned char *ri_box_copy(struct ri_probe *c, const struct ri_box *x);
int ri_box_same(const struct ri_box *x, const unsigned char *copy, struct ri_rows rows, char *where, size_t room);

#endif
