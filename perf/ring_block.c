/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_block.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

/* Floats of one token when nobody chooses: wide, so that blocks have few tokens, and v a 64th of it.
 * The plan clears o (tokens * v_dim floats) in each forward; that is compute, and must stay small
 * beside the hop that is timed. */
enum { MAX_TOKEN_FLOATS = 1024, V_SHARE = 64 };

static int v_part(size_t token_floats)
{
    return token_floats >= V_SHARE ? (int)(token_floats / V_SHARE) : 1;
}

int ring_shape_init_wide(struct ring_shape *shape, size_t bytes, size_t tokens, size_t *multiple)
{
    size_t token_floats = 2; /* one of k, one of v */

    while (tokens > 1 && (bytes % (tokens * sizeof(float)) || bytes / tokens < 2 * sizeof(float)))
        tokens /= 2;
    if (bytes % sizeof(float) == 0 && bytes >= 2 * sizeof(float))
        token_floats = bytes / sizeof(float) / tokens;
    if (token_floats > INT_MAX)
        token_floats = 2;
    return ring_shape_init(shape, bytes, (int)token_floats - v_part(token_floats),
                           v_part(token_floats), multiple);
}

int ring_shape_init(struct ring_shape *shape, size_t bytes, int qk_dim, int v_dim, size_t *multiple)
{
    size_t token_floats = MAX_TOKEN_FLOATS;

    if (qk_dim == 0) {
        while (token_floats > 2 && bytes % (token_floats * sizeof(float)) != 0)
            token_floats /= 2;
        v_dim = v_part(token_floats);
        qk_dim = (int)token_floats - v_dim;
    }
    *multiple = ((size_t)qk_dim + (size_t)v_dim) * sizeof(float);
    if (bytes == 0 || bytes % *multiple != 0)
        return -1;
    shape->tokens = (int64_t)(bytes / *multiple);
    shape->qk_dim = qk_dim;
    shape->v_dim = v_dim;
    return 0;
}

static uint32_t mix(uint32_t x)
{
    x ^= x >> 16;
    x *= UINT32_C(0x85ebca6b);
    x ^= x >> 13;
    x *= UINT32_C(0xc2b2ae35);
    return x ^ x >> 16;
}

/* Which row of which tensor; the position names the owner too, by the contiguous layout. */
static uint32_t row_seed(int64_t position, uint32_t iteration, uint32_t tensor)
{
    return mix((uint32_t)position * UINT32_C(0x9e3779b1) + mix(iteration * 2 + tensor + 1));
}

/* Whole numbers below 2^24: exact in fp32, and never NaN. */
static float value(uint32_t seed, int dim)
{
    return (float)(mix(seed + (uint32_t)dim) & 0xffffff);
}

static void fill_rows(const struct ring_shape *shape, uint32_t iteration, uint32_t tensor, int dims,
                      float *rows)
{
    for (int64_t t = 0; t < shape->tokens; t++) {
        uint32_t seed = row_seed(shape->rank * shape->tokens + t, iteration, tensor);

        for (int d = 0; d < dims; d++)
            rows[t * dims + d] = value(seed, d);
    }
}

void ring_fill(const struct ring_shape *shape, uint32_t iteration, float *k, float *v)
{
    fill_rows(shape, iteration, 0, shape->qk_dim, k);
    fill_rows(shape, iteration, 1, shape->v_dim, v);
}

__attribute__((format(printf, 2, 3))) static void fault(struct ring_check *check,
                                                        const char *format, ...)
{
    va_list args;

    if (check->wrong++ > 0 || check->first[0])
        return;
    va_start(args, format);
    vsnprintf(check->first, sizeof(check->first), format, args);
    va_end(args);
}

/* Counts the elements of keys [first, first + count) that are not what their owner filled in. */
static void check_rows(struct ring_check *check, const rondo_tile_t *tile,
                       const rondo_tensor_t *tensor, uint32_t which, int dims)
{
    for (int64_t j = 0; j < tile->k_count; j++) {
        int64_t position = tile->k_start + j * tile->k_step;
        const float *row = (const float *)tensor->data + (tile->k_first + j) * tensor->token_stride;
        uint32_t seed = row_seed(position, check->iteration, which);

        for (int d = 0; d < dims; d++)
            if (row[d] != value(seed, d))
                fault(check, "%s of position %" PRId64 ", dim %d: %g instead of %g",
                      which ? "v" : "k", position, d, (double)row[d], (double)value(seed, d));
    }
}

/* Each query must have met each key of the block that was seen last. */
static void end_block(struct ring_check *check)
{
    int64_t all = check->shape.tokens * check->shape.tokens;

    if (check->blocks > 0 && check->pairs != all)
        fault(check, "block %d met %" PRId64 " of %" PRId64 " pairs", check->owner, check->pairs,
              all);
}

/* Blocks come in ring order: our own first, then that of the rank before, and so on. */
static void begin_block(struct ring_check *check, int owner)
{
    const struct ring_shape *shape = &check->shape;
    int expected = (shape->rank + shape->ranks - check->blocks % shape->ranks) % shape->ranks;

    if (check->blocks >= shape->ranks || owner != expected)
        fault(check, "block %d is number %d of rank %d, instead of block %d", owner, check->blocks,
              shape->rank, expected);
    check->owner = owner;
    check->blocks++;
    check->pairs = 0;
}

static void check_tile(struct ring_check *check, const rondo_kernel_forward_t *args,
                       const rondo_tile_t *tile)
{
    const struct ring_shape *shape = &check->shape;
    int owner = (int)(tile->k_start / shape->tokens);

    if (check->blocks == 0 || owner != check->owner) {
        end_block(check);
        begin_block(check, owner);
    }
    if (tile->q_start != shape->rank * shape->tokens + tile->q_first || tile->q_step != 1 ||
        tile->k_start != owner * shape->tokens + tile->k_first || tile->k_step != 1 ||
        tile->lo > 1 - tile->k_count || tile->hi < tile->q_count - 1)
        fault(check, "tile of queries %" PRId64 " and keys %" PRId64 " is not full or not in place",
              tile->q_first, tile->k_first);
    check->pairs += tile->q_count * tile->k_count;

    /* A block comes in many pieces, cut by queries.  Its bytes are looked at in the first and the
     * last: a slot that is overwritten too early shows in the last. */
    if (tile->q_first > 0 && tile->q_first + tile->q_count < shape->tokens)
        return;
    check_rows(check, tile, &args->k, 0, shape->qk_dim);
    check_rows(check, tile, &args->v, 1, shape->v_dim);
}

void ring_check_begin(struct ring_check *check, uint32_t iteration)
{
    check->on = 1;
    check->iteration = iteration;
    check->blocks = 0;
    check->owner = -1;
    check->pairs = 0;
    check->wrong = 0;
}

uint64_t ring_check_end(struct ring_check *check)
{
    end_block(check);
    if (check->blocks != check->shape.ranks)
        fault(check, "%d blocks came instead of %d", check->blocks, check->shape.ranks);
    check->on = 0;
    return check->wrong;
}

int ring_forward(void *context, const rondo_kernel_forward_t *args)
{
    struct ring_check *check = context;

    if (!check->on)
        return 0;
    for (int i = 0; i < args->tile_count; i++)
        check_tile(check, args, &args->tiles[i]);
    return 0;
}
