/* SPDX-License-Identifier: Apache-2.0 */
/* What adds up over calls: running results, parts in any order, gradients. */
#include <math.h>

#include "kernels/check/number.h"
#include "kernels/check/problem.h"

static struct ri_problem_spec middling(const rondo_tile_t *tile)
{
    return (struct ri_problem_spec){ .batch = 2, .q_tokens = 90, .k_tokens = 117, .q_heads = 4, .kv_heads = 2,
                                     .qk_dim = 24, .v_dim = 16, .tiles = tile, .tile_count = 1 };
}

/* The tiles that have come so far left random o and lse, but for some rows, which are empty yet. */
static int running(struct ri_probe *c, const void *data)
{
    rondo_tile_t tile = ri_tile_causal(0, 90, 0, 90);
    const struct ri_problem_spec spec = middling(&tile);
    uint64_t state = c->seed + 3;
    struct ri_problem *p;
    int err = ri_problem_make(c, &spec, &p);

    if (err)
        return err;
    for (int64_t t = 0; t < 90; t++) {
        const struct ri_rows row = { t, t + 1, NULL };

        if (t % 7 == 0)
            continue;
        ri_box_random(&p->out[RI_OUT_O], row, &state);
        ri_box_fill(&p->out[RI_OUT_LSE], row, 4 * ri_number_random(&state));
    }
    return ri_check_problem(c, p);
}

/* A sink is a running result without a value: o = 0 beside an lse, and rows before it stay comparable. */
static int sink(struct ri_probe *c, const void *data)
{
    rondo_tile_t tile = ri_tile_causal(0, 90, 0, 90);
    const struct ri_problem_spec spec = middling(&tile);
    struct ri_problem *p;
    int err = ri_problem_make(c, &spec, &p);

    if (err)
        return err;
    for (int64_t b = 0; b < 2; b++)
        for (int64_t t = 0; t < 90; t++)
            for (int h = 0; h < 4; h++)
                ri_box_set(&p->out[RI_OUT_LSE], b, t, h, 0, 2.5 * h - 1);
    return ri_check_problem(c, p);
}

/* One call for each tile, and the sum of all is what the whole gives. */
static int run_each(struct ri_probe *c, struct ri_problem *p, const rondo_tile_t *tiles, int count)
{
    int err = c->backward ? ri_oracle_backward(c, p) : ri_oracle_forward(c, p);

    for (int i = 0; i < count && !err; i++)
        err = (c->backward ? ri_run_backward : ri_run_forward)(c, p, &tiles[i], 1);
    return err ? err : ri_compare(c, p);
}

/* Keys in runs, of which each call brings one, in several orders. */
static int any_order(struct ri_probe *c, const void *data)
{
    enum { RUNS = 5 };
    static const int64_t starts[RUNS + 1] = { 0, 1, 40, 64, 88, 117 };
    rondo_tile_t whole = ri_tile_causal(0, 90, 0, 117), tiles[RUNS];
    const struct ri_problem_spec spec = middling(&whole);
    struct ri_problem *p;
    int err = 0;

    for (int order = 1; order < RUNS && !err; order++) {
        for (int i = 0; i < RUNS; i++) {
            int r = (i * order + order) % RUNS;

            tiles[i] = ri_tile_band(0, 90, starts[r], starts[r + 1] - starts[r], starts[r], 90);
        }
        err = ri_problem_make(c, &spec, &p);
        if (!err)
            err = run_each(c, p, tiles, RUNS);
        ri_probe_release(c, NULL);
    }
    return err;
}

/* A plan cuts tiles into runs of queries, to drive the network between them. */
static int slices(struct ri_probe *c, const void *data)
{
    enum { ROWS = 130 };
    rondo_tile_t whole = ri_tile_causal(0, ROWS, 0, ROWS), tiles[ROWS];
    struct ri_problem_spec spec = { .batch = 1, .q_tokens = ROWS, .k_tokens = ROWS, .q_heads = 2, .kv_heads = 2,
                                    .qk_dim = 16, .v_dim = 16, .tiles = &whole, .tile_count = 1 };
    struct ri_problem *p;
    int err = 0;

    for (int rows = 1; rows < ROWS && !err; rows = rows * 3 + 1) {
        int count = 0;

        for (int64_t i = 0; i < ROWS; i += rows)
            tiles[count++] = ri_tile_band(i, ROWS - i < rows ? ROWS - i : rows, 0, ROWS, -i, ROWS - 1);
        err = ri_problem_make(c, &spec, &p);
        if (!err)
            err = run_each(c, p, tiles, count);
        ri_probe_release(c, NULL);
    }
    return err;
}

/* Gradients join what is there. */
static int gradients_add(struct ri_probe *c, const void *data)
{
    const rondo_tile_t tiles[] = { ri_tile_causal(0, 33, 0, 33), ri_tile_full(50, 30, 20, 60) };
    struct ri_problem_spec spec = middling(tiles);
    uint64_t state = c->seed + 5;
    struct ri_problem *p;
    int err;

    spec.tile_count = 2;
    spec.strides = RI_STRIDES_GAPS;
    err = ri_problem_make(c, &spec, &p);
    if (err)
        return err;
    ri_box_random(&p->out[RI_OUT_DQ], (struct ri_rows){ 0, 90, p->q_live }, &state);
    ri_box_random(&p->out[RI_OUT_DK], (struct ri_rows){ 0, 117, p->k_live }, &state);
    ri_box_random(&p->out[RI_OUT_DV], (struct ri_rows){ 0, 117, p->k_live }, &state);
    return ri_check_problem(c, p);
}

const struct ri_probe_case ri_probe_sums[] = {
    { "merge_running", running, NULL, RI_PROBE_BOTH, 0, 0 },
    { "merge_sink", sink, NULL, RI_PROBE_BOTH, 0, 0 },
    { "merge_any_order", any_order, NULL, RI_PROBE_BOTH, 0, 0 },
    { "merge_slices_of_rows", slices, NULL, RI_PROBE_BOTH, 0, 0 },
    { "gradients_add", gradients_add, NULL, RI_PROBE_BACKWARD, 0, 0 },
    { NULL, NULL, NULL, 0, 0, 0 },
};
