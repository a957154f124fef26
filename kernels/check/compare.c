/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/check/problem.h"

/* How far an output may be from what is wanted, in units of the tolerance (1e-5, unless the caller says another;
 * fp32 sums of unit-variance numbers lose a few 1e-6).
 *
 *   output       allowed                        because
 *   lse          1 + |want| / 10                it is rounded to fp32 itself, and the more often the larger it is
 *   o, dv        max(1, |want|)                 sums of numbers of size 1
 *   dq, dk       max(1, |want|) * gain          terms are scale * dO.v; gain = max(1, |scale| * sqrt(v_dim))
 *   all          times max(1, top score / 16)   a score is wrong by its terms' rounding, its weight by that share
 *   all but lse  times 1 / (1 - dropout)        what is kept is that much larger
 *
 * bf16 and f16 change nothing: the oracle reads the rounded inputs, arithmetic is fp32 and so are all outputs. */
static const struct {
    const char *name;
    int gains;
} outputs[RI_OUTPUTS] = {
    [RI_OUT_O] = { "o", 0 }, [RI_OUT_LSE] = { "lse", 0 }, [RI_OUT_DQ] = { "dq", 1 },
    [RI_OUT_DK] = { "dk", 1 }, [RI_OUT_DV] = { "dv", 0 },
};

static double allowed_error(const struct ri_probe *c, const struct ri_problem *p, enum ri_output output, double want)
{
    double size = output == RI_OUT_LSE ? 1 + fabs(want) / 10 : fmax(1, fabs(want));

    if (!p->exact_scores)
        size *= fmax(1, p->top_score / 16);
    if (outputs[output].gains)
        size *= fmax(1, fabs((double)p->shape.scale) * sqrt(p->n.v_dim));
    if (output != RI_OUT_LSE)
        size /= 1 - (double)p->shape.dropout;
    return c->tolerance * size;
}

/* The problem, for texts. */
static void describe(const struct ri_problem *p, char *text, size_t room)
{
    static const char *const types[] = { "f32", "f64", "bf16", "f16" };
    static const char *const strides[] = { "packed", "gaps", "heads first", "tokens first", "heads outer", "mixed",
                                           "far batches", "far tokens", "far heads" };
    const struct ri_problem_spec *n = &p->n;
    const rondo_tile_t *t = n->tiles;

    snprintf(text, room, "%s, batch %d, tokens %d and %d, heads %d and %d, dims %d and %d, strides %s, offset %d, "
             "scale %g, softcap %g, dropout %g, threads %d, %d tiles, the first: queries %d+%d, keys %d+%d, kind %d, "
             "lo %lld, hi %lld", types[n->dtype], (int)n->batch, (int)n->q_tokens, (int)n->k_tokens, n->q_heads,
             n->kv_heads, n->qk_dim, n->v_dim, strides[n->strides], n->offset, (double)p->shape.scale,
             (double)p->shape.softcap, (double)p->shape.dropout, p->shape.threads, n->tile_count, (int)t->q_first,
             (int)t->q_count, (int)t->k_first, (int)t->k_count, (int)t->kind, (long long)t->lo, (long long)t->hi);
}

int ri_compare_value(struct ri_probe *c, const struct ri_problem *p, enum ri_output output, const int64_t at[4],
                     double want, double allowed)
{
    double got = ri_box_get(&p->out[output], at[0], at[1], (int)at[2], (int)at[3]);
    char text[512];

    if (isinf(want) ? got == want : fabs(got - want) <= allowed) /* false for NaN */
        return 0;
    describe(p, text, sizeof(text));
    return ri_probe_say(c, RONDO_ERR_VERIFY, "%s[batch %d][token %d][head %d][dim %d]: got %.9g, wanted %.9g, "
                        "allowed %.2g; %s", outputs[output].name, (int)at[0], (int)at[1], (int)at[2], (int)at[3],
                        got, want, allowed, text);
}

static int compare_output(struct ri_probe *c, const struct ri_problem *p, enum ri_output output)
{
    const struct ri_box *x = &p->out[output];
    const unsigned char *live = output == RI_OUT_DK || output == RI_OUT_DV ? p->k_live : p->q_live;
    int err = 0;

    for (int64_t b = 0; b < x->batch && !err; b++)
        for (int64_t t = 0; t < x->tokens && !err; t++)
            for (int h = 0; h < x->heads && !err && live[t]; h++)
                for (int d = 0; d < x->dim && !err; d++) {
                    double want = p->want[output][ri_box_at(x, b, t, h) + d];

                    err = ri_compare_value(c, p, output, (const int64_t[4]){ b, t, h, d }, want,
                                           allowed_error(c, p, output, want));
                }
    return err;
}

int ri_compare(struct ri_probe *c, const struct ri_problem *p)
{
    int first = c->backward ? RI_OUT_DQ : RI_OUT_O, last = c->backward ? RI_OUT_DV : RI_OUT_LSE, err = 0;

    for (int output = first; output <= last && !err; output++)
        err = compare_output(c, p, (enum ri_output)output);
    return err;
}

int ri_compare_bits(struct ri_probe *c, const struct ri_problem *p, enum ri_output output,
                    const unsigned char *copy, struct ri_rows rows)
{
    char where[128], text[512];

    if (ri_box_same(&p->out[output], copy, rows, where, sizeof(where)))
        return 0;
    describe(p, text, sizeof(text));
    return ri_probe_say(c, RONDO_ERR_VERIFY, "%s%s: the bits changed, and should not; %s", outputs[output].name,
                        where, text);
}

int ri_check_problem(struct ri_probe *c, struct ri_problem *p)
{
    int err;

    if (c->backward) {
        err = ri_oracle_backward(c, p);
        if (!err)
            err = ri_run_backward(c, p, p->n.tiles, p->n.tile_count);
    } else {
        err = ri_oracle_forward(c, p);
        if (!err)
            err = ri_run_forward(c, p, p->n.tiles, p->n.tile_count);
    }
    return err ? err : ri_compare(c, p);
}

int ri_check_spec(struct ri_probe *c, const struct ri_problem_spec *spec)
{
    struct ri_problem *p;
    int err = ri_problem_make(c, spec, &p);

    return err ? err : ri_check_problem(c, p);
}
