/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of any kernel, whatever the numbers; and what must keep its bits. */
#include <math.h>

#include "kernels/check/problem.h"

static struct ri_rows tokens(int64_t first, int64_t end)
{
    return (struct ri_rows){ first, end, NULL };
}

static int make(struct ri_probe *c, const rondo_tile_t *tiles, int count, struct ri_problem **p)
{
    const struct ri_problem_spec spec = { .batch = 2, .q_tokens = 100, .k_tokens = 110, .q_heads = 4, .kv_heads = 2,
                                          .qk_dim = 24, .v_dim = 16, .tiles = tiles, .tile_count = count };

    return ri_problem_make(c, &spec, p);
}

/* All of an output that the tiles have is `value`. */
static int all_near(struct ri_probe *c, const struct ri_problem *p, enum ri_output output, double value,
                    double allowed)
{
    const struct ri_box *x = &p->out[output];
    const unsigned char *live = output == RI_OUT_DK || output == RI_OUT_DV ? p->k_live : p->q_live;
    int err = 0;

    for (int64_t b = 0; b < x->batch && !err; b++)
        for (int64_t t = 0; t < x->tokens && !err; t++)
            for (int h = 0; h < x->heads && !err && live[t]; h++)
                for (int d = 0; d < x->dim && !err; d++)
                    err = ri_compare_value(c, p, output, (const int64_t[4]){ b, t, h, d }, value, allowed);
    return err;
}

/* k = 0: every row is the mean of the values that it sees, and lse the logarithm of their number. */
static int zero_keys(struct ri_probe *c, const void *data)
{
    rondo_tile_t tile = ri_tile_causal(0, 100, 0, 100);
    struct ri_problem *p;
    int err = make(c, &tile, 1, &p);

    if (err)
        return err;
    ri_box_fill(&p->k, tokens(0, 100), 0);
    err = ri_run_forward(c, p, &tile, 1);
    for (int64_t t = 0; t < 100 && !err; t++) {
        for (int d = 0; d < 16 && !err; d++) {
            double mean = 0;

            for (int64_t j = 0; j <= t; j++)
                mean += ri_box_get(&p->v, 1, j, 1, d) / (double)(t + 1);
            err = ri_compare_value(c, p, RI_OUT_O, (const int64_t[4]){ 1, t, 3, d }, mean, c->tolerance / 5);
        }
        if (!err)
            err = ri_compare_value(c, p, RI_OUT_LSE, (const int64_t[4]){ 1, t, 3, 0 }, log((double)(t + 1)),
                                   c->tolerance / 10);
    }
    return err;
}

/* v = 1: o = 1, and no score can change that, so dq = dk = 0. */
static int constant_values(struct ri_probe *c, const void *data)
{
    rondo_tile_t tile = ri_tile_causal(0, 100, 0, 100);
    struct ri_problem *p;
    int err = make(c, &tile, 1, &p);

    if (err)
        return err;
    ri_box_fill(&p->v, tokens(0, 100), 1);
    if (!c->backward) {
        err = ri_run_forward(c, p, &tile, 1);
        return err ? err : all_near(c, p, RI_OUT_O, 1, c->tolerance / 10);
    }
    err = ri_oracle_backward(c, p);
    if (!err)
        err = ri_run_backward(c, p, &tile, 1);
    if (!err)
        err = all_near(c, p, RI_OUT_DQ, 0, c->tolerance);
    return err ? err : all_near(c, p, RI_OUT_DK, 0, c->tolerance);
}

static int zero_d_o(struct ri_probe *c, const void *data)
{
    rondo_tile_t tile = ri_tile_full(0, 100, 0, 110);
    struct ri_problem *p;
    int err = make(c, &tile, 1, &p);

    if (err)
        return err;
    ri_box_fill(&p->d_o, tokens(0, 100), 0);
    err = ri_oracle_backward(c, p);
    if (!err)
        err = ri_run_backward(c, p, &tile, 1);
    for (int output = RI_OUT_DQ; output <= RI_OUT_DV && !err; output++)
        err = all_near(c, p, (enum ri_output)output, 0, 0);
    return err;
}

/* Outputs of the pass are empty again. */
static void clear(const struct ri_problem *p)
{
    const struct ri_rows queries = { 0, p->n.q_tokens, p->q_live }, keys = { 0, p->n.k_tokens, p->k_live };

    for (int output = 0; output < RI_OUTPUTS; output++)
        ri_box_fill(&p->out[output], output == RI_OUT_DK || output == RI_OUT_DV ? keys : queries,
                    output == RI_OUT_LSE ? -INFINITY : 0);
}

static int run(struct ri_probe *c, struct ri_problem *p)
{
    return (c->backward ? ri_run_backward : ri_run_forward)(c, p, p->n.tiles, p->n.tile_count);
}

static int copy_outputs(struct ri_probe *c, const struct ri_problem *p, unsigned char **copies)
{
    for (int i = 0; i < RI_OUTPUTS; i++) {
        copies[i] = ri_box_copy(c, &p->out[i]);
        if (!copies[i])
            return RONDO_ERR_MEMORY;
    }
    return 0;
}

static int same_outputs(struct ri_probe *c, const struct ri_problem *p, unsigned char *const *copies)
{
    int err = 0;

    for (int i = 0; i < RI_OUTPUTS && !err; i++)
        err = ri_compare_bits(c, p, (enum ri_output)i, copies[i], tokens(0, p->out[i].tokens));
    return err;
}

/* Offsets in steps of five meet every place within a group of rows that a kernel takes at once. */
static const int64_t stride_of_offsets = 5;
static const double spoilers[] = { 1e30, NAN, INFINITY };
enum { SPOILERS = 3 };

/* A problem of one tile that has run once, and what came out. */
static int make_blind(struct ri_probe *c, const rondo_tile_t *tile, struct ri_problem **p, unsigned char **copies)
{
    const struct ri_problem_spec spec = { .batch = 1, .q_tokens = 100, .k_tokens = 110, .q_heads = 2, .kv_heads = 1,
                                          .qk_dim = 24, .v_dim = 16, .tiles = tile, .tile_count = 1 };
    int err = ri_problem_make(c, &spec, p);

    if (!err && c->backward)
        err = ri_oracle_backward(c, *p); /* for lse and delta */
    if (!err)
        err = run(c, *p);
    return err ? err : copy_outputs(c, *p, copies);
}

/* Queries before `until` do not see keys from `from` on.  Whatever these keys hold, o, lse and dq of those queries
 * keep their bits. */
static int blind_queries(struct ri_probe *c, rondo_tile_t tile, int64_t until, int64_t from)
{
    unsigned char *copies[RI_OUTPUTS];
    struct ri_problem *p;
    int err = make_blind(c, &tile, &p, copies);

    for (int s = 0; s < SPOILERS && !err; s++) {
        clear(p);
        ri_box_fill(&p->k, tokens(from, 110), spoilers[s]);
        ri_box_fill(&p->v, tokens(from, 110), spoilers[s]);
        err = run(c, p);
        for (int i = 0; i <= RI_OUT_DQ && !err; i++)
            err = ri_compare_bits(c, p, (enum ri_output)i, copies[i], tokens(0, until));
    }
    ri_probe_release(c, NULL);
    return err;
}

/* And whatever those queries hold, dk and dv of these keys do. */
static int blind_keys(struct ri_probe *c, rondo_tile_t tile, int64_t until, int64_t from)
{
    unsigned char *copies[RI_OUTPUTS];
    struct ri_problem *p;
    int err = make_blind(c, &tile, &p, copies);

    for (int s = 0; s < SPOILERS && !err; s++) {
        clear(p);
        ri_box_fill(&p->q, tokens(0, until), spoilers[s]);
        ri_box_fill(&p->d_o, tokens(0, until), spoilers[s]);
        ri_box_fill(&p->delta, tokens(0, until), spoilers[s]);
        ri_box_fill(&p->row_o, tokens(0, until), spoilers[s]);
        err = run(c, p);
        for (int i = RI_OUT_DK; i <= RI_OUT_DV && !err; i++)
            err = ri_compare_bits(c, p, (enum ri_output)i, copies[i], tokens(from, 110));
    }
    ri_probe_release(c, NULL);
    return err;
}

static int hidden_keys(struct ri_probe *c, const void *data)
{
    int err = 0;

    for (int64_t from = 1; from < 100 && !err; from += stride_of_offsets) {
        err = blind_queries(c, ri_tile_causal(0, 100, 0, 110), from, from);
        if (!err)
            err = blind_queries(c, ri_tile_strict(0, 100, 0, 110), from + 1, from);
        if (!err)
            err = blind_queries(c, ri_tile_band(0, 100, 0, 110, -7, 12), from < 7 ? 0 : from - 7, from);
    }
    return err;
}

static int hidden_queries(struct ri_probe *c, const void *data)
{
    int err = 0;

    for (int64_t until = 1; until < 100 && !err; until += stride_of_offsets) {
        err = blind_keys(c, ri_tile_causal(0, 100, 0, 110), until, until);
        if (!err)
            err = blind_keys(c, ri_tile_strict(0, 100, 0, 110), until, until - 1);
        if (!err)
            err = blind_keys(c, ri_tile_band(0, 100, 0, 110, -7, 12), until, until + 7);
    }
    return err;
}

/* Twice the same. */
static int same_bits(struct ri_probe *c, const void *data)
{
    const rondo_tile_t tiles[] = { ri_tile_causal(0, 60, 0, 60), ri_tile_full(60, 40, 0, 110) };
    unsigned char *copies[RI_OUTPUTS];
    struct ri_problem *p;
    int err = make(c, tiles, 2, &p);

    if (!err)
        err = ri_oracle_backward(c, p);
    if (!err)
        err = run(c, p);
    if (!err)
        err = copy_outputs(c, p, copies);
    if (err)
        return err;
    clear(p);
    err = run(c, p);
    return err ? err : same_outputs(c, p, copies);
}

const struct ri_probe_case ri_probe_properties[] = {
    { "zero_keys", zero_keys, NULL, RI_PROBE_FORWARD, 0, 0 },
    { "constant_values", constant_values, NULL, RI_PROBE_BOTH, 0, 0 },
    { "zero_d_o", zero_d_o, NULL, RI_PROBE_BACKWARD, 0, 0 },
    { "hidden_keys", hidden_keys, NULL, RI_PROBE_BOTH, 0, 0 },
    { "hidden_queries", hidden_queries, NULL, RI_PROBE_BACKWARD, 0, 0 },
    { "same_bits", same_bits, NULL, RI_PROBE_BOTH, 0, 0 },
    { NULL, NULL, NULL, 0, 0, 0 },
};
