/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/check/problem.h"

#include <math.h>

#include "kernels/check/number.h"

rondo_tile_t ri_tile_band(int64_t q_first, int64_t q_count, int64_t k_first, int64_t k_count, int64_t lo, int64_t hi)
{
    return (rondo_tile_t){ .q_first = q_first, .q_count = q_count, .k_first = k_first, .k_count = k_count,
                           .lo = lo, .hi = hi, .q_start = q_first, .q_step = 1, .k_start = k_first, .k_step = 1,
                           .kind = RONDO_TILE_BAND };
}

static rondo_tile_t tile_of_kind(rondo_tile_t tile, rondo_tile_kind_t kind)
{
    tile.kind = kind;
    return tile;
}

rondo_tile_t ri_tile_full(int64_t q_first, int64_t q_count, int64_t k_first, int64_t k_count)
{
    return tile_of_kind(ri_tile_band(q_first, q_count, k_first, k_count, 1 - k_count, q_count - 1), RONDO_TILE_FULL);
}

rondo_tile_t ri_tile_causal(int64_t q_first, int64_t q_count, int64_t k_first, int64_t k_count)
{
    return tile_of_kind(ri_tile_band(q_first, q_count, k_first, k_count, 0, q_count - 1), RONDO_TILE_CAUSAL);
}

rondo_tile_t ri_tile_strict(int64_t q_first, int64_t q_count, int64_t k_first, int64_t k_count)
{
    return tile_of_kind(ri_tile_band(q_first, q_count, k_first, k_count, 1, q_count - 1), RONDO_TILE_STRICT);
}

/* By kind, not by lo and hi, where the kind says it. */
static int tile_sees(const rondo_tile_t *t, int64_t i, int64_t j)
{
    switch (t->kind) {
    case RONDO_TILE_FULL:
        return 1;
    case RONDO_TILE_CAUSAL:
        return j <= i;
    case RONDO_TILE_STRICT:
        return j < i;
    default:
        return t->lo <= i - j && i - j <= t->hi;
    }
}

/* Which of the plain strides each tensor of a mixed problem has: q and dq, k and v, o and dO differ. */
static enum ri_strides strides_of(const struct ri_problem_spec *n, int tensor)
{
    static const enum ri_strides mix[] = { RI_STRIDES_PACKED, RI_STRIDES_HEADS_FIRST, RI_STRIDES_GAPS,
                                           RI_STRIDES_TOKENS_FIRST, RI_STRIDES_HEADS_OUTER };

    return n->strides == RI_STRIDES_MIXED ? mix[tensor % 5] : n->strides;
}

static int make_boxes(struct ri_probe *c, struct ri_problem *p)
{
    const struct ri_problem_spec *n = &p->n;
    const struct {
        struct ri_box *box;
        int of_query, dim;
        rondo_dtype_t dtype;
        int strides;
    } list[] = {
        { &p->q, 1, n->qk_dim, n->dtype, 0 }, { &p->k, 0, n->qk_dim, n->dtype, 1 },
        { &p->v, 0, n->v_dim, n->dtype, 2 }, { &p->d_o, 1, n->v_dim, n->dtype, 3 },
        { &p->row_o, 1, n->v_dim, n->dtype, 4 }, { &p->out[RI_OUT_O], 1, n->v_dim, RONDO_F32, 2 },
        { &p->part_o, 1, n->v_dim, RONDO_F32, 2 }, { &p->part_lse, 1, 1, RONDO_F32, 4 },
        { &p->out[RI_OUT_LSE], 1, 1, RONDO_F32, 4 }, { &p->row_lse, 1, 1, RONDO_F32, 1 },
        { &p->delta, 1, 1, RONDO_F32, 1 }, { &p->out[RI_OUT_DQ], 1, n->qk_dim, RONDO_F32, 3 },
        { &p->out[RI_OUT_DK], 0, n->qk_dim, RONDO_F32, 2 }, { &p->out[RI_OUT_DV], 0, n->v_dim, RONDO_F32, 0 },
    };
    int err = 0;

    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]) && !err; i++) {
        const struct ri_box dims = { .dtype = list[i].dtype, .batch = n->batch,
                                     .tokens = list[i].of_query ? n->q_tokens : n->k_tokens,
                                     .heads = list[i].of_query ? n->q_heads : n->kv_heads, .dim = list[i].dim };

        err = ri_box_make(c, list[i].box, &dims, strides_of(n, list[i].strides), n->offset);
    }
    return err;
}

static double *make_values(struct ri_probe *c, const struct ri_box *x)
{
    return ri_probe_alloc(c, (size_t)ri_box_elements(x) * sizeof(double));
}

static int make_values_of_all(struct ri_probe *c, struct ri_problem *p)
{
    for (int i = 0; i < RI_OUTPUTS; i++) {
        p->want[i] = make_values(c, &p->out[i]);
        if (!p->want[i])
            return RONDO_ERR_MEMORY;
    }
    p->x_q = make_values(c, &p->q);
    p->x_k = make_values(c, &p->k);
    p->x_v = make_values(c, &p->v);
    p->x_d_o = make_values(c, &p->d_o);
    p->scores = ri_probe_alloc(c, (size_t)p->n.k_tokens * sizeof(double));
    p->keeps = ri_probe_alloc(c, (size_t)p->n.k_tokens * sizeof(double));
    return p->x_q && p->x_k && p->x_v && p->x_d_o && p->scores && p->keeps ? 0 : RONDO_ERR_MEMORY;
}

static int make_tables(struct ri_probe *c, struct ri_problem *p)
{
    p->tile_of = ri_probe_alloc(c, (size_t)(p->n.q_tokens * p->n.k_tokens) * sizeof(*p->tile_of));
    p->q_live = ri_probe_alloc(c, (size_t)p->n.q_tokens);
    p->k_live = ri_probe_alloc(c, (size_t)p->n.k_tokens);
    if (!p->tile_of || !p->q_live || !p->k_live)
        return RONDO_ERR_MEMORY;
    for (int t = 0; t < p->n.tile_count; t++) {
        const rondo_tile_t *tile = &p->n.tiles[t];

        for (int64_t i = 0; i < tile->q_count; i++)
            p->q_live[tile->q_first + i] = 1;
        for (int64_t j = 0; j < tile->k_count; j++)
            p->k_live[tile->k_first + j] = 1;
        for (int64_t i = 0; i < tile->q_count; i++)
            for (int64_t j = 0; j < tile->k_count; j++)
                if (tile_sees(tile, i, j))
                    p->tile_of[(tile->q_first + i) * p->n.k_tokens + tile->k_first + j] = t + 1;
    }
    return 0;
}

static void fill(struct ri_problem *p, uint64_t seed)
{
    const struct ri_rows queries = { 0, p->n.q_tokens, p->q_live }, keys = { 0, p->n.k_tokens, p->k_live };
    uint64_t state = 0x9e3779b97f4a7c15u * (seed + 1);

    ri_box_random(&p->q, queries, &state);
    ri_box_random(&p->k, keys, &state);
    ri_box_random(&p->v, keys, &state);
    ri_box_random(&p->d_o, queries, &state);
    ri_box_fill(&p->out[RI_OUT_O], queries, 0);
    ri_box_fill(&p->out[RI_OUT_LSE], queries, -INFINITY);
    ri_box_fill(&p->out[RI_OUT_DQ], queries, 0);
    ri_box_fill(&p->out[RI_OUT_DK], keys, 0);
    ri_box_fill(&p->out[RI_OUT_DV], keys, 0);
}

int ri_problem_make(struct ri_probe *c, const struct ri_problem_spec *spec, struct ri_problem **made)
{
    struct ri_problem *p = ri_probe_alloc(c, sizeof(*p));
    int err;

    if (!p)
        return RONDO_ERR_MEMORY;
    p->n = *spec;
    p->seed = c->seed + 7;
    p->shape = (rondo_kernel_shape_t){
        .struct_bytes = sizeof(p->shape), .dtype = spec->dtype, .batch = spec->batch, .q_heads = spec->q_heads,
        .kv_heads = spec->kv_heads, .qk_dim = spec->qk_dim, .v_dim = spec->v_dim,
        .scale = (float)(1 / sqrt(spec->qk_dim)), .max_q_tokens = spec->q_tokens, .max_k_tokens = spec->k_tokens,
        .softcap = spec->softcap, .dropout = spec->dropout, .threads = 1,
    };
    err = make_boxes(c, p);
    if (!err)
        err = make_values_of_all(c, p);
    if (!err)
        err = make_tables(c, p);
    if (err)
        return err;
    fill(p, c->seed * 131 + (uint64_t)(spec->q_tokens * 7 + spec->k_tokens * 3 + spec->qk_dim));
    *made = p;
    return 0;
}
