/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers at the edges: rows without keys, scores that are hugely negative, large or infinite, NaN. */
#include <math.h>

#include "kernels/check/problem.h"

static struct ri_problem_spec spec_of(const rondo_tile_t *tile, int64_t q_tokens, int64_t k_tokens, int heads)
{
    return (struct ri_problem_spec){ .batch = 1, .q_tokens = q_tokens, .k_tokens = k_tokens, .q_heads = heads,
                                     .kv_heads = 1, .qk_dim = 24, .v_dim = 16, .tiles = tile, .tile_count = 1 };
}

static struct ri_rows tokens(int64_t first, int64_t end)
{
    return (struct ri_rows){ first, end, NULL };
}

/* Bottom-right causal, more queries than keys: the first rows see nothing, whatever they ran up before. */
static int empty_rows(struct ri_probe *c, const void *data)
{
    rondo_tile_t tile = ri_tile_band(0, 41, 0, 23, 18, 41);
    const struct ri_problem_spec spec = spec_of(&tile, 41, 23, 2);
    unsigned char *lse;
    struct ri_problem *p;
    int err = ri_problem_make(c, &spec, &p);

    if (!err)
        err = ri_check_problem(c, p);
    if (err || c->backward)
        return err;
    ri_box_fill(&p->out[RI_OUT_O], tokens(0, 18), 7);
    ri_box_fill(&p->out[RI_OUT_LSE], tokens(0, 18), -20);
    unsigned char *o = ri_box_copy(c, &p->out[RI_OUT_O]);
    lse = ri_box_copy(c, &p->out[RI_OUT_LSE]);
    if (!o || !lse)
        return RONDO_ERR_MEMORY;
    err = ri_run_forward(c, p, &tile, 1);
    if (!err)
        err = ri_compare_bits(c, p, RI_OUT_O, o, tokens(0, 18));
    return err ? err : ri_compare_bits(c, p, RI_OUT_LSE, lse, tokens(0, 18));
}

/* Queries that see nothing and keys that nobody sees hold NaN, inside the tile. */
static int hidden_nan(struct ri_probe *c, const void *data)
{
    const rondo_tile_t tiles[] = { ri_tile_causal(0, 60, 0, 75), ri_tile_strict(60, 40, 75, 40),
                                   ri_tile_band(100, 30, 115, 20, 9, 15) };
    struct ri_problem_spec spec = spec_of(tiles, 130, 135, 2);
    struct ri_problem *p;
    int err;

    spec.tile_count = 3;
    err = ri_problem_make(c, &spec, &p);
    if (err)
        return err;
    for (int64_t i = 0; i < 130; i++) {
        int64_t seen = 0;

        for (int64_t j = 0; j < 135; j++)
            seen += p->tile_of[i * 135 + j];
        if (!seen)
            ri_box_fill(&p->q, tokens(i, i + 1), NAN);
        if (!seen && c->backward)
            ri_box_fill(&p->d_o, tokens(i, i + 1), NAN);
    }
    for (int64_t j = 0; j < 135; j++) {
        int64_t seen = 0;

        for (int64_t i = 0; i < 130; i++)
            seen += p->tile_of[i * 135 + j];
        if (!seen) {
            ri_box_fill(&p->k, tokens(j, j + 1), NAN);
            ri_box_fill(&p->v, tokens(j, j + 1), NAN);
        }
    }
    return ri_check_problem(c, p);
}

/* Every score is -6e4: a mask for some, a score like any other here. */
static int hugely_negative(struct ri_probe *c, const void *data)
{
    rondo_tile_t all = ri_tile_full(0, 3, 0, 16), one = ri_tile_band(0, 3, 5, 3, 2, 2);
    const rondo_tile_t *const tiles[] = { &all, &one };
    int err = 0;

    for (int i = 0; i < 2 && !err; i++) {
        struct ri_problem_spec spec = spec_of(tiles[i], 3, 16, 1);
        struct ri_problem *p;

        err = ri_problem_make(c, &spec, &p);
        if (err)
            return err;
        p->shape.scale = 1;
        p->exact_scores = !c->backward; /* score and lse meet in fp32 there, 4e-3 apart */
        ri_box_fill(&p->q, (struct ri_rows){ 0, 3, p->q_live }, -25);
        ri_box_fill(&p->k, (struct ri_rows){ 0, 16, p->k_live }, 100);
        err = ri_check_problem(c, p);
        ri_probe_release(c, NULL);
    }
    return err;
}

static int scaled(struct ri_probe *c, float scale)
{
    rondo_tile_t tile = ri_tile_causal(0, 100, 0, 110);
    const struct ri_problem_spec spec = spec_of(&tile, 100, 110, 2);
    struct ri_problem *p;
    int err = ri_problem_make(c, &spec, &p);

    if (err)
        return err;
    p->shape.scale = scale;
    err = ri_check_problem(c, p);
    ri_probe_release(c, NULL);
    return err;
}

static int large_scores(struct ri_probe *c, const void *data)
{
    return scaled(c, 40);
}

/* Scales of zero and below are scales; so are weights that fall below the smallest float. */
static int scales(struct ri_probe *c, const void *data)
{
    static const float list[] = { 0, -0.2f, 1e-30f, 0.05f, 1 };
    int err = 0;

    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]) && !err; i++)
        err = scaled(c, list[i]);
    return err;
}

/* Products that overflow to -inf weigh nothing, and where no other is seen the row stays empty. */
static int minus_infinity(struct ri_probe *c, const void *data)
{
    rondo_tile_t tile = ri_tile_causal(0, 100, 0, 110);
    const struct ri_problem_spec spec = spec_of(&tile, 100, 110, 2);
    struct ri_problem *p;
    int err = ri_problem_make(c, &spec, &p);

    if (err)
        return err;
    ri_box_fill(&p->q, tokens(0, 100), -1e30);
    ri_box_fill(&p->k, tokens(0, 110), 1e30);
    ri_box_fill(&p->k, tokens(70, 71), 0);
    ri_box_fill(&p->k, tokens(80, 81), 0);
    return ri_check_problem(c, p);
}

/* A NaN that a row does see must not be lost on the way. */
static int seen_nan(struct ri_probe *c, const void *data)
{
    rondo_tile_t tile = ri_tile_full(0, 100, 0, 110);
    const struct ri_problem_spec spec = spec_of(&tile, 100, 110, 2);
    int err = 0;

    for (int64_t key = 0; key < 110 && !err; key += 9)
        for (int in_key = 0; in_key < 2 && !err; in_key++) {
            struct ri_problem *p;

            err = ri_problem_make(c, &spec, &p);
            if (err)
                return err;
            ri_box_fill(in_key ? &p->k : &p->v, tokens(key, key + 1), NAN);
            err = ri_run_forward(c, p, &tile, 1);
            for (int64_t t = 0; t < 100 && !err; t++)
                if (!isnan(ri_box_get(&p->out[RI_OUT_O], 0, t, 1, 15)))
                    err = ri_probe_say(c, RONDO_ERR_VERIFY, "o[batch 0][token %d][head 1][dim 15]: got %g, wanted NaN, "
                                       "which %s of key %d is", (int)t, ri_box_get(&p->out[RI_OUT_O], 0, t, 1, 15),
                                       in_key ? "k" : "v", (int)key);
            ri_probe_release(c, NULL);
        }
    return err;
}

/* Every second row has lse == -inf, and NaN in all else that it holds. */
static int rows_without_lse(struct ri_probe *c, const void *data)
{
    rondo_tile_t tile = ri_tile_full(0, 100, 0, 110);
    const struct ri_problem_spec spec = spec_of(&tile, 100, 110, 2);
    struct ri_problem *p;
    int err = ri_problem_make(c, &spec, &p);

    if (!err)
        err = ri_oracle_backward(c, p);
    if (err)
        return err;
    for (int64_t t = 0; t < 100; t += t % 8 == 6 ? 1 : 2) {
        struct ri_rows row = tokens(t, t + 1);

        ri_box_fill(&p->row_lse, row, -INFINITY);
        ri_box_fill(&p->q, row, NAN);
        ri_box_fill(&p->d_o, row, NAN);
        ri_box_fill(&p->delta, row, NAN);
        ri_box_fill(&p->row_o, row, NAN);
    }
    ri_oracle_gradients(c, p);
    err = ri_run_backward(c, p, &tile, 1);
    return err ? err : ri_compare(c, p);
}

/* No row has an lse: then not even NaN in all that the call is given becomes a gradient. */
static int no_row_has_lse(struct ri_probe *c, const void *data)
{
    rondo_tile_t tile = ri_tile_full(0, 100, 0, 110);
    const struct ri_problem_spec spec = spec_of(&tile, 100, 110, 2);
    struct ri_problem *p;
    int err = ri_problem_make(c, &spec, &p);

    if (err)
        return err;
    for (int i = RI_OUT_DQ; i <= RI_OUT_DV; i++)
        ri_box_read(&p->out[i], p->want[i]);
    ri_box_poison(&p->q);
    ri_box_poison(&p->d_o);
    ri_box_fill(&p->row_lse, tokens(0, 100), -INFINITY); /* delta and o are poison */
    err = ri_run_backward(c, p, &tile, 1);
    ri_box_poison(&p->k);
    if (!err)
        err = ri_run_backward(c, p, &tile, 1);
    return err ? err : ri_compare(c, p);
}

const struct ri_probe_case ri_probe_numbers[] = {
    { "empty_rows", empty_rows, NULL, RI_PROBE_BOTH, 0, 0 },
    { "hidden_nan", hidden_nan, NULL, RI_PROBE_BOTH, 0, 0 },
    { "hugely_negative", hugely_negative, NULL, RI_PROBE_BOTH, 0, 0 },
    { "large_scores", large_scores, NULL, RI_PROBE_BOTH, 0, 0 },
    { "scales", scales, NULL, RI_PROBE_BOTH, 0, 0 },
    { "minus_infinity", minus_infinity, NULL, RI_PROBE_FORWARD, 0, 0 },
    { "seen_nan", seen_nan, NULL, RI_PROBE_FORWARD, 0, 0 },
    { "rows_without_lse", rows_without_lse, NULL, RI_PROBE_BACKWARD, 0, 0 },
    { "no_row_has_lse", no_row_has_lse, NULL, RI_PROBE_BACKWARD, 0, 0 },
    { NULL, NULL, NULL, 0, 0, 0 },
};
