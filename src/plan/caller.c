/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's tensors of one start: where they are bound, what is computed of them before the run, and what is
 * done to the outputs after it. */
#include <math.h>

#include "kernels/convert.h"
#include "kernels/table.h"
#include "plan/plan.h"

static int64_t own_tokens(const struct ri_plan *plan)
{
    return ri_layout_tokens(plan->layout[RI_QUERIES], plan->place.rank);
}

/* ---- forward ---- */

int ri_plan_start_forward(struct ri_run *run, const rondo_attention_fwd_t *tensors, void *stream)
{
    ri_run_bind(run, RI_T_Q, tensors->q);
    ri_run_bind(run, RI_T_K, tensors->k);
    ri_run_bind(run, RI_T_V, tensors->v);
    ri_run_bind(run, RI_T_O, tensors->o);
    ri_run_bind(run, RI_T_LSE, tensors->lse);
    run->o = run->sums[RI_T_O] ? run->sums[RI_T_O] : tensors->o;
    run->lse = tensors->lse;
    run->seed = tensors->seed;
    run->sinks = tensors->sinks;
    return ri_run_start(run, stream);
}

/* The sink takes its share of the row's weights: merges (0, sink) into (o, lse).  What has no weight is not read. */
static void fold_sink(float *o, float *lse, float sink, int dim)
{
    double top = fmax(*lse, sink), old = exp(*lse - top), sum = old + exp(sink - top);

    if (sink == -INFINITY)
        return;
    for (int c = 0; c < dim; c++)
        o[c] = old == 0 ? 0 : (float)(old / sum * o[c]);
    *lse = (float)(top + log(sum));
}

/* Padding between documents sees nothing, and no sink either. */
static int is_token(const struct ri_plan *plan, int64_t index)
{
    const struct rondo_layout *layout = plan->layout[RI_QUERIES];

    return layout->documents == 0 ||
           ri_layout_is_token(layout, ri_layout_position(layout, plan->place.rank, index));
}

static void fold_sinks(struct ri_run *run)
{
    const struct ri_plan *plan = run->pass->plan;
    int64_t n = own_tokens(plan);
    int heads = plan->desc.q_heads, dim = plan->desc.v_dim;

    for (int64_t i = 0; i < n; i++) {
        if (!is_token(plan, i))
            continue;
        for (int64_t b = 0; b < plan->desc.batch; b++)
            for (int h = 0; h < heads; h++)
                fold_sink(run->o + ((b * n + i) * heads + h) * dim, run->lse + (b * heads + h) * n + i,
                          run->sinks[h], dim);
    }
}

void ri_run_finish(struct ri_run *run)
{
    const struct ri_plan *plan = run->pass->plan;

    if (run->pass->kind == RI_FORWARD && run->sinks)
        fold_sinks(run);
    for (int t = 0; t < RI_TENSORS; t++) {
        enum ri_tensor tensor = (enum ri_tensor)t;
        int64_t n = ri_layout_tokens(plan->layout[ri_tensor_side(tensor)], plan->place.rank);

        if (run->sums[t])
            ri_convert_from_f32(run->outputs[t], ri_tensor_type(&plan->desc, tensor), run->sums[t],
                                ri_tensor_elements(&plan->desc, tensor, n));
    }
}

/* ---- backward ---- */

/* Of the row whose first element is `at`, whatever its type.  A row that sees nothing, such as a padding slot, has
 * o = 0, and its dO may be anything, NaN too. */
static double delta_of(const struct ri_plan *plan, const rondo_attention_bwd_t *tensors, int64_t at)
{
    enum { SOME = 64 };
    rondo_dtype_t type = plan->desc.dtype;
    size_t bytes = ri_convert_bytes(type), first = (size_t)at * bytes;
    float o[SOME], d_o[SOME];
    double sum = 0;
    int sees = 0;

    for (int c = 0; c < plan->desc.v_dim; c += SOME, first += SOME * bytes) {
        int count = plan->desc.v_dim - c < SOME ? plan->desc.v_dim - c : SOME;

        ri_convert_to_f32(o, (const char *)tensors->o + first, type, (size_t)count);
        ri_convert_to_f32(d_o, (const char *)tensors->d_o + first, type, (size_t)count);
        for (int i = 0; i < count; i++) {
            sum += (double)o[i] * d_o[i];
            sees |= o[i] != 0; /* a NaN is */
        }
    }
    return sees ? sum : 0;
}

/* delta = rowsum(O * dO), [batch][q_heads][n]. */
static void fill_delta(const struct ri_run *run, const rondo_attention_bwd_t *tensors)
{
    const struct ri_plan *plan = run->pass->plan;
    int64_t n = own_tokens(plan);
    int heads = plan->desc.q_heads, dim = plan->desc.v_dim;
    int64_t row = (int64_t)heads * dim;

    for (int64_t b = 0; b < plan->desc.batch && n > 0; b++)
        for (int h = 0; h < heads; h++) {
            int64_t at = b * n * row + h * dim;
            float *delta = run->delta + (b * heads + h) * n;

            if (plan->desc.dtype == RONDO_F32)
                ri_delta(delta, 1, (const float *)tensors->o + at, row, (const float *)tensors->d_o + at, row, n,
                         dim);
            for (int64_t i = 0; i < n && plan->desc.dtype != RONDO_F32; i++)
                delta[i] = (float)delta_of(plan, tensors, at + i * row);
        }
}

/* What the rows of one head add to the gradient of its sink, whose weight is exp(sink - lse) and whose value is 0.
 * Where the sink has no weight, delta may be anything. */
static double sink_gradient(const struct ri_plan *plan, const rondo_attention_bwd_t *tensors, int h)
{
    int64_t n = own_tokens(plan);
    int heads = plan->desc.q_heads, dim = plan->desc.v_dim;
    double sum = 0;

    for (int64_t b = 0; b < plan->desc.batch; b++)
        for (int64_t i = 0; i < n; i++) {
            double lse = tensors->lse[(b * heads + h) * n + i];
            double weight = lse == -INFINITY ? 0 : exp(tensors->sinks[h] - lse);

            if (weight != 0)
                sum -= weight * delta_of(plan, tensors, ((b * n + i) * heads + h) * dim);
        }
    return sum;
}

int ri_plan_start_backward(struct ri_run *run, const rondo_attention_bwd_t *tensors, void *stream)
{
    const struct ri_plan *plan = run->pass->plan;

    if (run->delta)
        fill_delta(run, tensors);
    for (int h = 0; tensors->d_sinks && h < plan->desc.q_heads; h++)
        tensors->d_sinks[h] = (float)sink_gradient(plan, tensors, h);
    ri_run_bind(run, RI_T_Q, tensors->q);
    ri_run_bind(run, RI_T_K, tensors->k);
    ri_run_bind(run, RI_T_V, tensors->v);
    ri_run_bind(run, RI_T_O, run->delta ? NULL : tensors->o);
    ri_run_bind(run, RI_T_DELTA, run->delta);
    ri_run_bind(run, RI_T_LSE, tensors->lse);
    ri_run_bind(run, RI_T_D_O, tensors->d_o);
    ri_run_bind(run, RI_T_DQ, tensors->dq);
    ri_run_bind(run, RI_T_DK, tensors->dk);
    ri_run_bind(run, RI_T_DV, tensors->dv);
    run->seed = tensors->seed;
    run->sinks = tensors->sinks;
    return ri_run_start(run, stream);
}
