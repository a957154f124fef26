/* SPDX-License-Identifier: Apache-2.0 */
/* Heads, head sizes, strides, alignment, long rows: full and causal tiles of each. */
#include "kernels/check/problem.h"

struct shape {
    int64_t batch, q_tokens, k_tokens;
    int q_heads, kv_heads, qk_dim, v_dim;
    enum ri_strides strides;
    int offset;
    rondo_dtype_t dtype;
};

static struct ri_problem_spec spec_of(const struct shape *s, const rondo_tile_t *tile)
{
    return (struct ri_problem_spec){ .batch = s->batch, .q_tokens = s->q_tokens, .k_tokens = s->k_tokens,
                                     .q_heads = s->q_heads, .kv_heads = s->kv_heads, .qk_dim = s->qk_dim,
                                     .v_dim = s->v_dim, .strides = s->strides, .offset = s->offset,
                                     .dtype = s->dtype, .tiles = tile, .tile_count = 1 };
}

/* All of the block, then a causal tile that leaves tokens before and behind it out. */
static int two_tiles(struct ri_probe *c, const void *data)
{
    const struct shape *s = data;
    rondo_tile_t tile = ri_tile_full(0, s->q_tokens, 0, s->k_tokens);
    struct ri_problem_spec spec = spec_of(s, &tile);
    int err = ri_check_spec(c, &spec);

    ri_probe_release(c, NULL);
    if (err || s->q_tokens < 5 || s->k_tokens < 5)
        return err;
    tile = ri_tile_causal(2, s->q_tokens - 3, 1, s->k_tokens - 2);
    return ri_check_spec(c, &spec);
}

static int long_band(struct ri_probe *c, const void *data)
{
    const struct shape *s = data;
    rondo_tile_t tile = ri_tile_band(0, s->q_tokens, 0, s->k_tokens, 10 - s->k_tokens, -s->k_tokens / 4);
    struct ri_problem_spec spec = spec_of(s, &tile);

    return ri_check_spec(c, &spec);
}

static int square(struct ri_probe *c, const void *data)
{
    const struct shape *s = data;
    rondo_tile_t tile = ri_tile_causal(0, s->q_tokens, 0, s->k_tokens);
    struct ri_problem_spec spec = spec_of(s, &tile);
    int err = ri_check_spec(c, &spec);

    ri_probe_release(c, NULL);
    tile = ri_tile_band(0, s->q_tokens, 0, s->k_tokens, 300, 500);
    return err ? err : ri_check_spec(c, &spec);
}

/* A block of fewer tokens than the largest that may come, which the workspace is for. */
static int below_the_largest(struct ri_probe *c, const void *data)
{
    rondo_tile_t tile = ri_tile_causal(0, 29, 0, 37);
    struct ri_problem_spec spec = spec_of(data, &tile);
    struct ri_problem *p;
    int err = ri_problem_make(c, &spec, &p);

    if (err)
        return err;
    p->shape.max_q_tokens = 300;
    p->shape.max_k_tokens = 171;
    return ri_check_problem(c, p);
}

/* Of most cases. */
#define PLAIN RI_STRIDES_PACKED, 0, RONDO_F32
#define SHAPE(...) (const struct shape[]){ { __VA_ARGS__ } }
#define CASE(name, run, ...) { name, run, SHAPE(__VA_ARGS__), RI_PROBE_BOTH, 0, 0 }
#define HEADS(name, batch, q_heads, kv_heads) CASE(name, two_tiles, batch, 75, 70, q_heads, kv_heads, 16, 24, PLAIN)
#define SIZE(name, qk_dim, v_dim) CASE(name, two_tiles, 1, 70, 101, 2, 1, qk_dim, v_dim, PLAIN)
#define STRIDES(name, strides, offset) CASE(name, two_tiles, 2, 40, 71, 4, 2, 16, 24, strides, offset, RONDO_F32)
#define SHORT_SIZE(name, flag, dtype, qk_dim, v_dim, offset)                                                           \
    { name, two_tiles, SHAPE(2, 40, 71, 4, 2, qk_dim, v_dim, RI_STRIDES_GAPS, offset, dtype), RI_PROBE_BOTH, flag, 0 }

const struct ri_probe_case ri_probe_shapes[] = {
    HEADS("heads_mha_1", 1, 1, 1),
    HEADS("heads_mha_3", 2, 3, 3),
    HEADS("heads_gqa_8_2", 1, 8, 2),
    HEADS("heads_gqa_6_3", 2, 6, 3),
    HEADS("heads_mqa_4", 2, 4, 1),
    SIZE("size_1", 1, 1),
    SIZE("size_7", 7, 7),
    SIZE("size_8", 8, 8),
    SIZE("size_16", 16, 16),
    SIZE("size_24", 24, 24),
    SIZE("size_32", 32, 32),
    SIZE("size_40", 40, 40),
    SIZE("size_46", 46, 46),
    SIZE("size_64", 64, 64),
    SIZE("size_72", 72, 72),
    SIZE("size_80", 80, 80),
    SIZE("size_96", 96, 96),
    SIZE("size_128", 128, 128),
    SIZE("size_160", 160, 160),
    SIZE("size_192", 192, 192),
    SIZE("size_224", 224, 224),
    SIZE("size_256", 256, 256),
    SIZE("sizes_2_3", 2, 3),
    SIZE("sizes_15_17", 15, 17),
    SIZE("sizes_40_24", 40, 24),
    SIZE("sizes_192_128", 192, 128),
    SIZE("sizes_112_100", 112, 100),
    SIZE("sizes_256_33", 256, 33),
    SIZE("sizes_1_64", 1, 64),
    SIZE("sizes_64_1", 64, 1),
    STRIDES("strides_packed", RI_STRIDES_PACKED, 0),
    STRIDES("strides_gaps", RI_STRIDES_GAPS, 1),
    STRIDES("strides_heads_first", RI_STRIDES_HEADS_FIRST, 0),
    STRIDES("strides_tokens_first", RI_STRIDES_TOKENS_FIRST, 0),
    STRIDES("strides_heads_outer", RI_STRIDES_HEADS_OUTER, 0),
    STRIDES("strides_mixed", RI_STRIDES_MIXED, 0),
    CASE("strides_small_batches", two_tiles, 3, 7, 130, 2, 2, 5, 3, RI_STRIDES_GAPS, 1, RONDO_F32),
    CASE("strides_far_batches", two_tiles, 5, 6, 7, 2, 1, 8, 16, RI_STRIDES_FAR_BATCHES, 0, RONDO_F32),
    CASE("strides_far_tokens", two_tiles, 2, 6, 7, 2, 1, 8, 16, RI_STRIDES_FAR_TOKENS, 0, RONDO_F32),
    CASE("strides_far_heads", two_tiles, 2, 6, 7, 8, 4, 8, 16, RI_STRIDES_FAR_HEADS, 0, RONDO_F32),
    STRIDES("unaligned_1", RI_STRIDES_PACKED, 1),
    STRIDES("unaligned_2", RI_STRIDES_PACKED, 2),
    STRIDES("unaligned_3", RI_STRIDES_PACKED, 3),
    CASE("many_short_rows", two_tiles, 300, 1, 1, 4, 2, 16, 16, PLAIN),
    CASE("below_the_largest", below_the_largest, 2, 29, 37, 2, 1, 24, 16, PLAIN),
    CASE("long_keys", two_tiles, 1, 9, 2600, 2, 1, 16, 8, PLAIN),
    CASE("long_band", long_band, 1, 9, 2600, 2, 1, 16, 8, PLAIN),
    CASE("long_queries", two_tiles, 1, 700, 30, 2, 1, 16, 8, PLAIN),
    { "long_both", square, SHAPE(1, 1100, 1100, 1, 1, 8, 8, PLAIN), RI_PROBE_BOTH, 0, 1 },
    SHORT_SIZE("bf16_16_24", RONDO_KERNEL_BF16, RONDO_BF16, 16, 24, 0),
    SHORT_SIZE("bf16_40", RONDO_KERNEL_BF16, RONDO_BF16, 40, 40, 0),
    SHORT_SIZE("bf16_46_unaligned", RONDO_KERNEL_BF16, RONDO_BF16, 46, 46, 1),
    SHORT_SIZE("bf16_72_unaligned", RONDO_KERNEL_BF16, RONDO_BF16, 72, 72, 2),
    SHORT_SIZE("bf16_192_128", RONDO_KERNEL_BF16, RONDO_BF16, 192, 128, 0),
    SHORT_SIZE("bf16_256", RONDO_KERNEL_BF16, RONDO_BF16, 256, 256, 4),
    SHORT_SIZE("f16_16_24", RONDO_KERNEL_F16, RONDO_F16, 16, 24, 0),
    SHORT_SIZE("f16_40", RONDO_KERNEL_F16, RONDO_F16, 40, 40, 0),
    SHORT_SIZE("f16_46_unaligned", RONDO_KERNEL_F16, RONDO_F16, 46, 46, 1),
    SHORT_SIZE("f16_72_unaligned", RONDO_KERNEL_F16, RONDO_F16, 72, 72, 2),
    SHORT_SIZE("f16_192_128", RONDO_KERNEL_F16, RONDO_F16, 192, 128, 0),
    SHORT_SIZE("f16_256", RONDO_KERNEL_F16, RONDO_F16, 256, 256, 4),
    { NULL, NULL, NULL, 0, 0, 0 },
};
