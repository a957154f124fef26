/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of kernels, and of the suite's oracle, are difference quotients of the loss sum(o * dO). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "kernels/check/problem.h"
#include "kernels/table.h"
#include "tests/kernel/plain.h"

/* In double, by the oracle's forward alone. */
static double loss(struct ri_probe *c, struct ri_problem *p)
{
    double sum = 0;

    assert_int_equal(ri_oracle_forward(c, p), 0);
    for (int64_t b = 0; b < p->n.batch; b++)
        for (int64_t t = 0; t < p->n.q_tokens; t++)
            for (int h = 0; h < p->n.q_heads && p->q_live[t]; h++)
                for (int d = 0; d < p->n.v_dim; d++)
                    sum += p->want[RI_OUT_O][ri_box_at(&p->out[RI_OUT_O], b, t, h) + d] *
                           ri_box_get(&p->d_o, b, t, h, d);
    return sum;
}

static double quotient(struct ri_probe *c, struct ri_problem *p, const struct ri_box *x, const int64_t at[4])
{
    double kept = ri_box_get(x, at[0], at[1], (int)at[2], (int)at[3]), above, below, rise;

    ri_box_set(x, at[0], at[1], (int)at[2], (int)at[3], kept + 0.002);
    above = ri_box_get(x, at[0], at[1], (int)at[2], (int)at[3]);
    rise = loss(c, p);
    ri_box_set(x, at[0], at[1], (int)at[2], (int)at[3], kept - 0.002);
    below = ri_box_get(x, at[0], at[1], (int)at[2], (int)at[3]);
    rise -= loss(c, p);
    ri_box_set(x, at[0], at[1], (int)at[2], (int)at[3], kept);
    return rise / (above - below);
}

static void check_quotients(struct ri_probe *c, struct ri_problem *p, const struct ri_box *x, enum ri_output output,
                            const unsigned char *live)
{
    for (int64_t b = 0; b < x->batch; b++)
        for (int64_t t = 0; t < x->tokens; t++)
            for (int h = 0; h < x->heads && live[t]; h++)
                for (int d = 0; d < x->dim; d++) {
                    const int64_t at[4] = { b, t, h, d };

                    if (ri_compare_value(c, p, output, at, quotient(c, p, x, at), 5e-5))
                        fail_msg("%s", c->text);
                }
}

/* The loss is smooth in all that can be turned on. */
static void check_kernel(const rondo_kernel_t *kernel, float softcap, float dropout)
{
    const rondo_tile_t tiles[] = { ri_tile_causal(1, 7, 1, 7), ri_tile_full(8, 1, 0, 5) };
    const struct ri_problem_spec spec = { .batch = 2, .q_tokens = 10, .k_tokens = 9, .q_heads = 4, .kv_heads = 2,
                                          .qk_dim = 5, .v_dim = 3, .tiles = tiles, .tile_count = 2,
                                          .softcap = softcap, .dropout = dropout };
    struct ri_probe c = { .kernel = kernel, .tolerance = 1e-5, .name = kernel->name, .backward = 1 };
    struct ri_problem *p;

    assert_int_equal(ri_problem_make(&c, &spec, &p), 0);
    for (int64_t b = 0; b < 2; b++)
        for (int h = 0; h < 4; h++)
            ri_box_set(&p->out[RI_OUT_LSE], b, 3, h, 0, 0.5); /* a row with a sink */
    assert_int_equal(ri_check_problem(&c, p), 0); /* the oracle's gradients are the kernel's */
    check_quotients(&c, p, &p->q, RI_OUT_DQ, p->q_live);
    check_quotients(&c, p, &p->k, RI_OUT_DK, p->k_live);
    check_quotients(&c, p, &p->v, RI_OUT_DV, p->k_live);
    ri_probe_release(&c, NULL);
}

static void of_bundled_kernels(void **state)
{
    const rondo_kernel_t *const kernels[] = { &ri_kernel_reference, &ri_kernel_flash };

    for (int i = 0; i < 2; i++) {
        unsigned flags = kernels[i]->flags;

        check_kernel(kernels[i], 0, 0);
        if (flags & RONDO_KERNEL_SOFTCAP)
            check_kernel(kernels[i], 1.5f, 0);
        if (flags & RONDO_KERNEL_DROPOUT)
            check_kernel(kernels[i], 0, 0.3f);
    }
}

static void of_the_oracle_in_all_it_knows(void **state)
{
    struct plain plain = { RONDO_KERNEL_MERGES | RONDO_KERNEL_SOFTCAP | RONDO_KERNEL_DROPOUT, FAULT_NONE, 0 };
    rondo_kernel_t kernel = plain_kernel(&plain);

    check_kernel(&kernel, 0, 0);
    check_kernel(&kernel, 1.5f, 0);
    check_kernel(&kernel, 0, 0.3f);
    check_kernel(&kernel, 1.5f, 0.3f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_bundled_kernels),
        cmocka_unit_test(of_the_oracle_in_all_it_knows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
