/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/check/box.h"

#include <stdio.h>
#include <string.h>

#include "kernels/check/number.h"

/* Two of them make a quiet NaN in fp32, each one in bf16 and f16. */
static const uint16_t poison = 0x7fed;
enum { GUARD_ELEMENTS = 64 }; /* before and behind a tensor */

static const int64_t far_elements = ((int64_t)1 << 30) + 1;

static void set_far_strides(struct ri_box *x, enum ri_strides strides)
{
    rondo_tensor_t *v = &x->view;

    v->head_stride = x->dim;
    v->token_stride = x->heads * v->head_stride;
    v->batch_stride = x->tokens * v->token_stride;
    if (strides == RI_STRIDES_FAR_BATCHES)
        v->batch_stride = far_elements;
    else if (strides == RI_STRIDES_FAR_HEADS)
        v->head_stride = far_elements;
    else
        v->token_stride = far_elements;
    if (strides == RI_STRIDES_FAR_HEADS) {
        v->token_stride = x->dim;
        v->batch_stride = x->tokens * v->token_stride;
    } else if (strides == RI_STRIDES_FAR_TOKENS) {
        v->batch_stride = x->heads * v->head_stride;
    }
}

static void set_strides(struct ri_box *x, enum ri_strides strides)
{
    int gaps = strides == RI_STRIDES_GAPS;
    rondo_tensor_t *v = &x->view;

    if (strides >= RI_STRIDES_FAR_BATCHES) {
        set_far_strides(x, strides);
    } else if (strides == RI_STRIDES_HEADS_FIRST) {
        v->token_stride = x->dim;
        v->head_stride = x->tokens * x->dim;
        v->batch_stride = x->heads * v->head_stride;
    } else if (strides == RI_STRIDES_TOKENS_FIRST) {
        v->head_stride = x->dim;
        v->batch_stride = x->heads * v->head_stride;
        v->token_stride = x->batch * v->batch_stride;
    } else if (strides == RI_STRIDES_HEADS_OUTER) {
        v->batch_stride = x->dim + 1;
        v->token_stride = x->batch * v->batch_stride + 6;
        v->head_stride = x->tokens * v->token_stride + 2;
    } else {
        v->head_stride = x->dim + 3 * gaps;
        v->token_stride = x->heads * v->head_stride + 5 * gaps;
        v->batch_stride = x->tokens * v->token_stride + 7 * gaps;
    }
}

static int64_t element_index(const struct ri_box *x, int64_t b, int64_t t, int h)
{
    return b * x->view.batch_stride + t * x->view.token_stride + h * x->view.head_stride;
}

int ri_box_make(struct ri_probe *c, struct ri_box *x, const struct ri_box *dims, enum ri_strides strides,
                int offset)
{
    int is_far = strides >= RI_STRIDES_FAR_BATCHES;
    int64_t elements;

    *x = *dims;
    set_strides(x, strides);
    elements = element_index(x, x->batch - 1, x->tokens - 1, x->heads - 1) + x->dim + offset + 2 * GUARD_ELEMENTS;
    x->bytes = (size_t)elements * (size_t)ri_number_bytes(x->dtype);
    x->memory = is_far ? ri_probe_map(c, x->bytes) : ri_probe_alloc(c, x->bytes);
    if (!x->memory && is_far)
        return ri_probe_say(c, RI_PROBE_SKIPPED, "no %zu bytes of address space are to be had", x->bytes);
    x->kept = is_far || !x->memory ? NULL : ri_probe_alloc(c, x->bytes);
    if (!x->memory || (!x->kept && !is_far))
        return RONDO_ERR_MEMORY;
    x->view.data = x->memory + (size_t)(GUARD_ELEMENTS + offset) * (size_t)ri_number_bytes(x->dtype);
    ri_box_poison(x);
    return 0;
}

size_t ri_box_row_bytes(const struct ri_box *x)
{
    return (size_t)x->dim * (size_t)ri_number_bytes(x->dtype);
}

unsigned char *ri_box_row(const struct ri_box *x, int64_t b, int64_t t, int h)
{
    return (unsigned char *)x->view.data + element_index(x, b, t, h) * ri_number_bytes(x->dtype);
}

double ri_box_get(const struct ri_box *x, int64_t b, int64_t t, int h, int d)
{
    return ri_number_read(x->dtype, ri_box_row(x, b, t, h) + d * ri_number_bytes(x->dtype));
}

void ri_box_set(const struct ri_box *x, int64_t b, int64_t t, int h, int d, double value)
{
    ri_number_write(x->dtype, ri_box_row(x, b, t, h) + d * ri_number_bytes(x->dtype), value);
}

static void poison_bytes(unsigned char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += sizeof(poison))
        memcpy(at + i, &poison, sizeof(poison));
}

void ri_box_poison(const struct ri_box *x)
{
    if (x->kept) {
        poison_bytes(x->memory, x->bytes);
        return;
    }
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t t = 0; t < x->tokens; t++)
            for (int h = 0; h < x->heads; h++)
                poison_bytes(ri_box_row(x, b, t, h), ri_box_row_bytes(x));
}

static int is_live(struct ri_rows rows, int64_t t)
{
    return t >= rows.first && t < rows.end && (!rows.live || rows.live[t]);
}

void ri_box_fill(const struct ri_box *x, struct ri_rows rows, double value)
{
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t t = rows.first; t < rows.end; t++)
            for (int h = 0; h < x->heads && is_live(rows, t); h++)
                for (int d = 0; d < x->dim; d++)
                    ri_box_set(x, b, t, h, d, value);
}

void ri_box_random(const struct ri_box *x, struct ri_rows rows, uint64_t *state)
{
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t t = rows.first; t < rows.end; t++)
            for (int h = 0; h < x->heads && is_live(rows, t); h++)
                for (int d = 0; d < x->dim; d++)
                    ri_box_set(x, b, t, h, d, ri_number_random(state));
}

void ri_box_keep(const struct ri_box *x)
{
    if (x->kept)
        memcpy(x->kept, x->memory, x->bytes);
}

/* Names the element that holds byte `at` of the memory, or the gap. */
static void name_byte(const struct ri_box *x, size_t at, char *where, size_t room)
{
    const unsigned char *byte = x->memory + at;

    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t t = 0; t < x->tokens; t++)
            for (int h = 0; h < x->heads; h++) {
                const unsigned char *row = ri_box_row(x, b, t, h);

                if (byte < row || byte >= row + ri_box_row_bytes(x))
                    continue;
                snprintf(where, room, "[batch %d][token %d][head %d][dim %d]", (int)b, (int)t, h,
                         (int)(byte - row) / ri_number_bytes(x->dtype));
                return;
            }
    snprintf(where, room, " in a gap, %td bytes from its data", byte - (unsigned char *)x->view.data);
}

int ri_box_changed(const struct ri_box *x, struct ri_rows rows, char *where, size_t room)
{
    size_t at = 0;

    if (!x->kept)
        return 0;
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t t = rows.first; t < rows.end; t++)
            for (int h = 0; h < x->heads && is_live(rows, t); h++) {
                const unsigned char *row = ri_box_row(x, b, t, h);

                memcpy(x->kept + (row - x->memory), row, ri_box_row_bytes(x));
            }
    if (memcmp(x->kept, x->memory, x->bytes) == 0)
        return 0;
    while (x->kept[at] == x->memory[at])
        at++;
    name_byte(x, at, where, room);
    return 1;
}

void ri_box_read(const struct ri_box *x, double *values)
{
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t t = 0; t < x->tokens; t++)
            for (int h = 0; h < x->heads; h++)
                for (int d = 0; d < x->dim; d++)
                    values[ri_box_at(x, b, t, h) + d] = ri_box_get(x, b, t, h, d);
}

static size_t copy_offset(const struct ri_box *x, int64_t b, int64_t t, int h)
{
    return (size_t)ri_box_at(x, b, t, h) * (size_t)ri_number_bytes(x->dtype);
}

unsigned char *ri_box_copy(struct ri_probe *c, const struct ri_box *x)
{
    unsigned char *copy = ri_probe_alloc(c, (size_t)ri_box_elements(x) * (size_t)ri_number_bytes(x->dtype));

    if (!copy)
        return NULL;
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t t = 0; t < x->tokens; t++)
            for (int h = 0; h < x->heads; h++)
                memcpy(copy + copy_offset(x, b, t, h), ri_box_row(x, b, t, h), ri_box_row_bytes(x));
    return copy;
}

int ri_box_same(const struct ri_box *x, const unsigned char *copy, struct ri_rows rows, char *where, size_t room)
{
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t t = rows.first; t < rows.end; t++)
            for (int h = 0; h < x->heads && is_live(rows, t); h++) {
                const unsigned char *row = ri_box_row(x, b, t, h), *old = copy + copy_offset(x, b, t, h);
                size_t at = 0;

                if (memcmp(row, old, ri_box_row_bytes(x)) == 0)
                    continue;
                while (row[at] == old[at])
                    at++;
                name_byte(x, (size_t)(row - x->memory) + at, where, room);
                return 0;
            }
    return 1;
}
