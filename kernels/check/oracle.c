/* SPDX-License-Identifier: Apache-2.0 */
/* Attention from its definition: a softmax in double over an explicit table of what sees what.  Nothing here is
 * shared with a kernel. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/check/problem.h"

/* One query row of one head. */
struct row {
    int64_t b, i;
    int h, kv_head;
    const int64_t *tile_of; /* [k_tokens] */
};

static struct row row_of(const struct ri_problem *p, int64_t b, int h, int64_t i)
{
    return (struct row){ b, i, h, h / (p->n.q_heads / p->n.kv_heads), p->tile_of + i * p->n.k_tokens };
}

/* Four sums, since one would wait for itself. */
static double dot(const double *x, const double *y, int dim)
{
    double sums[4] = { 0 };
    int d = 0;

    for (; d + 4 <= dim; d += 4)
        for (int i = 0; i < 4; i++)
            sums[i] += x[d + i] * y[d + i];
    for (; d < dim; d++)
        sums[0] += x[d] * y[d];
    return sums[0] + sums[1] + (sums[2] + sums[3]);
}

/* scale * q.k; what fp32 cannot hold is infinite. */
static double raw_score(struct ri_problem *p, const struct row *r, int64_t j)
{
    double score = (double)p->shape.scale * dot(p->x_q + ri_box_at(&p->q, r->b, r->i, r->h),
                                                p->x_k + ri_box_at(&p->k, r->b, j, r->kv_head), p->n.qk_dim);

    if (fabs(score) > (double)FLT_MAX)
        return score > 0 ? INFINITY : -INFINITY;
    p->top_score = fmax(p->top_score, fabs(score));
    return score;
}

static double capped(const struct ri_problem *p, double score)
{
    double cap = (double)p->shape.softcap;

    return cap > 0 ? cap * tanh(score / cap) : score;
}

/* d capped / d score */
static double cap_slope(const struct ri_problem *p, double score)
{
    double cap = (double)p->shape.softcap, t = cap > 0 ? tanh(score / cap) : 0;

    return 1 - t * t;
}

/* What dropout makes of the weight of a visible pair: 0, or the factor of those kept. */
static double keep(const struct ri_problem *p, const struct row *r, int64_t j)
{
    const rondo_tile_t *t = &p->n.tiles[r->tile_of[j] - 1];
    int64_t q_position = t->q_start + (r->i - t->q_first) * t->q_step;
    int64_t k_position = t->k_start + (j - t->k_first) * t->k_step;

    if (p->shape.dropout <= 0)
        return 1;
    if (!rondo_dropout_keeps(p->seed, p->shape.first_batch + r->b, p->shape.first_head + r->h, q_position, k_position,
                             p->shape.dropout))
        return 0;
    return 1 / (1 - (double)p->shape.dropout);
}

/* want_o, want_lse of the row, whose running result is in o and lse. */
static void forward_row(struct ri_problem *p, const struct row *r, double *o, double *lse)
{
    double top = *lse, sum;

    for (int64_t j = 0; j < p->n.k_tokens; j++)
        if (r->tile_of[j]) {
            p->scores[j] = capped(p, raw_score(p, r, j));
            top = fmax(top, p->scores[j]);
        }
    if (top == -INFINITY)
        return;
    sum = *lse == -INFINITY ? 0 : exp(*lse - top);
    for (int d = 0; d < p->n.v_dim; d++)
        o[d] = sum > 0 ? sum * o[d] : 0;
    for (int64_t j = 0; j < p->n.k_tokens; j++) {
        const double *v = p->x_v + ri_box_at(&p->v, r->b, j, r->kv_head);
        double weight = r->tile_of[j] ? exp(p->scores[j] - top) : 0, kept;

        sum += weight;
        kept = weight > 0 ? weight * keep(p, r, j) : 0;
        for (int d = 0; d < p->n.v_dim && kept > 0; d++)
            o[d] += kept * v[d];
    }
    for (int d = 0; d < p->n.v_dim; d++)
        o[d] /= sum;
    *lse = top + log(sum);
}

static void read_inputs(struct ri_problem *p)
{
    ri_box_read(&p->q, p->x_q);
    ri_box_read(&p->k, p->x_k);
    ri_box_read(&p->v, p->x_v);
    ri_box_read(&p->d_o, p->x_d_o);
}

int ri_oracle_forward(struct ri_probe *c, struct ri_problem *p)
{
    read_inputs(p);
    ri_box_read(&p->out[RI_OUT_O], p->want[RI_OUT_O]);
    ri_box_read(&p->out[RI_OUT_LSE], p->want[RI_OUT_LSE]);
    for (int64_t b = 0; b < p->n.batch; b++)
        for (int h = 0; h < p->n.q_heads; h++)
            for (int64_t i = 0; i < p->n.q_tokens; i++) {
                struct row r = row_of(p, b, h, i);

                if (!p->q_live[i])
                    continue;
                forward_row(p, &r, p->want[RI_OUT_O] + ri_box_at(&p->out[RI_OUT_O], b, i, h),
                            p->want[RI_OUT_LSE] + ri_box_at(&p->out[RI_OUT_LSE], b, i, h));
            }
    return 0;
}

/* row_o, row_lse and delta of a row, from what the forward wants; delta of the o that is given, rounded as it is,
 * where the kernel computes it from that. */
static void give_row(struct ri_probe *c, struct ri_problem *p, int64_t b, int h, int64_t i)
{
    const double *o = p->want[RI_OUT_O] + ri_box_at(&p->out[RI_OUT_O], b, i, h);
    const double *d_o = p->x_d_o + ri_box_at(&p->d_o, b, i, h);
    int needs_o = (c->kernel->flags & RONDO_KERNEL_NEEDS_O) != 0;
    double delta = 0;

    ri_box_set(&p->row_lse, b, i, h, 0, p->want[RI_OUT_LSE][ri_box_at(&p->out[RI_OUT_LSE], b, i, h)]);
    for (int d = 0; d < p->n.v_dim; d++) {
        ri_box_set(&p->row_o, b, i, h, d, o[d]);
        delta += d_o[d] * (needs_o ? ri_box_get(&p->row_o, b, i, h, d) : o[d]);
    }
    ri_box_set(&p->delta, b, i, h, 0, delta);
}

/* Adds what the row gives to the gradients: p = exp(score - lse), dp = dO.v, ds = p * (keep * dp - delta). */
static void backward_row(struct ri_problem *p, const struct row *r)
{
    const double *q = p->x_q + ri_box_at(&p->q, r->b, r->i, r->h);
    const double *d_o = p->x_d_o + ri_box_at(&p->d_o, r->b, r->i, r->h);
    double *dq = p->want[RI_OUT_DQ] + ri_box_at(&p->out[RI_OUT_DQ], r->b, r->i, r->h);
    double lse = ri_box_get(&p->row_lse, r->b, r->i, r->h, 0), delta = ri_box_get(&p->delta, r->b, r->i, r->h, 0);

    for (int64_t j = 0; j < p->n.k_tokens && lse != -INFINITY; j++) {
        const double *k = p->x_k + ri_box_at(&p->k, r->b, j, r->kv_head);
        const double *v = p->x_v + ri_box_at(&p->v, r->b, j, r->kv_head);
        double *dk = p->want[RI_OUT_DK] + ri_box_at(&p->out[RI_OUT_DK], r->b, j, r->kv_head);
        double *dv = p->want[RI_OUT_DV] + ri_box_at(&p->out[RI_OUT_DV], r->b, j, r->kv_head);
        double raw, weight, kept, ds;

        if (!r->tile_of[j])
            continue;
        raw = raw_score(p, r, j);
        weight = exp(capped(p, raw) - lse);
        kept = keep(p, r, j);
        ds = weight * (kept * dot(d_o, v, p->n.v_dim) - delta) * (double)p->shape.scale;
        ds *= weight > 0 ? cap_slope(p, raw) : 0;
        for (int d = 0; d < p->n.v_dim; d++)
            dv[d] += weight * kept * d_o[d];
        for (int d = 0; d < p->n.qk_dim; d++) {
            dq[d] += ds * k[d];
            dk[d] += ds * q[d];
        }
    }
}

int ri_oracle_backward(struct ri_probe *c, struct ri_problem *p)
{
    int err = ri_oracle_forward(c, p);

    if (err)
        return err;
    for (int64_t b = 0; b < p->n.batch; b++)
        for (int64_t i = 0; i < p->n.q_tokens; i++)
            for (int h = 0; h < p->n.q_heads && p->q_live[i]; h++)
                give_row(c, p, b, h, i);
    ri_oracle_gradients(c, p);
    return 0;
}

void ri_oracle_gradients(struct ri_probe *c, struct ri_problem *p)
{
    read_inputs(p);
    for (int i = RI_OUT_DQ; i <= RI_OUT_DV; i++)
        ri_box_read(&p->out[i], p->want[i]);
    for (int64_t b = 0; b < p->n.batch; b++)
        for (int h = 0; h < p->n.q_heads; h++)
            for (int64_t i = 0; i < p->n.q_tokens; i++) {
                struct row r = row_of(p, b, h, i);

                if (p->q_live[i])
                    backward_row(p, &r);
            }
}
