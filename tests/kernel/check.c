/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 256 };

/* Bytes, and behind them a guard for check_workspace(); all bits set, so every float is a NaN. */
static unsigned char *make_workspace(const rondo_kernel_t *kernel, const struct problem *p,
                                     size_t *bytes)
{
    unsigned char *workspace;

    *bytes = kernel->workspace_bytes ? kernel->workspace_bytes(kernel->context, &p->shape) : 0;
    workspace = aligned_alloc(64, (*bytes + GUARD_BYTES + 63) / 64 * 64);
    assert_non_null(workspace);
    memset(workspace, 0xff, *bytes + GUARD_BYTES);
    return workspace;
}

static void check_workspace(unsigned char *workspace, size_t bytes)
{
    for (int i = 0; i < GUARD_BYTES; i++)
        assert_int_equal(workspace[bytes + (size_t)i], 0xff);
    free(workspace);
}

void run_forward(const rondo_kernel_t *kernel, struct problem *p, const rondo_tile_t *tiles,
                 int count)
{
    size_t bytes;
    unsigned char *workspace = make_workspace(kernel, p, &bytes);
    const rondo_kernel_forward_t args = {.struct_bytes = sizeof args,
                                         .shape = &p->shape,
                                         .tiles = tiles,
                                         .tile_count = count,
                                         .q_tokens = p->n.q_tokens,
                                         .k_tokens = p->n.k_tokens,
                                         .q = p->q.view,
                                         .k = p->k.view,
                                         .v = p->v.view,
                                         .o = p->o.view,
                                         .lse = p->lse.view,
                                         .workspace = workspace};

    assert_int_equal(kernel->forward(kernel->context, &args), 0);
    check_workspace(workspace, bytes);
}

void run_backward(const rondo_kernel_t *kernel, struct problem *p, const rondo_tile_t *tiles,
                  int count)
{
    size_t bytes;
    unsigned char *workspace = make_workspace(kernel, p, &bytes);
    const rondo_kernel_backward_t args = {.struct_bytes = sizeof args,
                                          .shape = &p->shape,
                                          .tiles = tiles,
                                          .tile_count = count,
                                          .q_tokens = p->n.q_tokens,
                                          .k_tokens = p->n.k_tokens,
                                          .q = p->q.view,
                                          .k = p->k.view,
                                          .v = p->v.view,
                                          .d_o = p->d_o.view,
                                          .lse = p->lse.view,
                                          .delta = p->delta.view,
                                          .dq = p->dq.view,
                                          .dk = p->dk.view,
                                          .dv = p->dv.view,
                                          .workspace = workspace};

    assert_int_equal(kernel->backward(kernel->context, &args), 0);
    check_workspace(workspace, bytes);
}

static int close_enough(double got, double want)
{
    if (isinf(want))
        return got == want;
    return fabs(got - want) <= 1e-5 * fmax(1, fabs(want)); /* false for NaN */
}

void check_box(const struct box *got, const double *want, const struct problem *p, const char *what)
{
    for (int64_t b = 0; b < got->batch; b++)
        for (int64_t t = 0; t < got->tokens; t++)
            for (int h = 0; h < got->heads; h++)
                for (int d = 0; d < got->dim; d++) {
                    double x = (double)box_at(got, b, t, h)[d],
                           y = want[oracle_at(got, b, t, h) + d];

                    if (close_enough(x, y))
                        continue;
                    fail_msg(
                        "%s[%d][%d][%d][%d]: got %.9g, want %.9g; batch %d, tokens %d and %d, "
                        "heads %d and %d, dims %d and %d, %d tiles, first of kind %d, lo %d, hi %d",
                        what, (int)b, (int)t, h, d, x, y, (int)p->n.batch, (int)p->n.q_tokens,
                        (int)p->n.k_tokens, p->n.q_heads, p->n.kv_heads, p->n.qk_dim, p->n.v_dim,
                        p->tile_count, (int)p->tiles[0].kind, (int)p->tiles[0].lo,
                        (int)p->tiles[0].hi);
                }
    assert_true(box_poison_intact(got));
}

void check_problem(const rondo_kernel_t *kernel, struct problem *p)
{
    oracle_forward(p);
    run_forward(kernel, p, p->tiles, p->tile_count);
    check_box(&p->o, p->want_o, p, "o");
    check_box(&p->lse, p->want_lse, p, "lse");
    oracle_backward(p);
    oracle_give_lse_and_delta(p);
    run_backward(kernel, p, p->tiles, p->tile_count);
    check_box(&p->dq, p->want_dq, p, "dq");
    check_box(&p->dk, p->want_dk, p, "dk");
    check_box(&p->dv, p->want_dv, p, "dv");
}

float default_scale(struct dims n)
{
    return (float)(1 / sqrt((double)n.qk_dim));
}

void check_fresh(const rondo_kernel_t *kernel, struct dims n, const rondo_tile_t *tiles, int count,
                 enum strides strides)
{
    unsigned seed = (unsigned)(n.q_tokens * 131 + n.k_tokens * 7 + n.qk_dim);
    struct problem *p = problem_create(n, default_scale(n), tiles, count, strides, seed);

    check_problem(kernel, p);
    problem_destroy(p);
}

float *box_copy(const struct box *x)
{
    float *copy = malloc((size_t)(x->batch * x->tokens * x->heads * x->dim) * sizeof *copy);

    assert_non_null(copy);
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t t = 0; t < x->tokens; t++)
            for (int h = 0; h < x->heads; h++)
                memcpy(copy + oracle_at(x, b, t, h), box_at(x, b, t, h),
                       (size_t)x->dim * sizeof *copy);
    return copy;
}
