/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <rondo/request.h>

#include "model.h"
#include "stored.h"

/* a->d_o -> a->dq, a->dk, a->dv.  dk and dv come back complete: with what the queries of all ranks
 * have to say about this rank's keys. */
static rondo_status_t attend_backward(struct acts *a, const struct layer_acts *l,
                                      rondo_plan_t plan)
{
    rondo_attention_bwd_t tensors = RONDO_ATTENTION_BWD_INIT;
    rondo_request_t request = NULL;
    rondo_status_t status;

    tensors.q = l->q;
    tensors.k = l->k;
    tensors.v = l->v;
    tensors.o = l->o;
    tensors.lse = l->lse;
    tensors.d_o = a->d_o;
    tensors.dq = a->dq;
    tensors.dk = a->dk;
    tensors.dv = a->dv;
    status = rondo_attention_backward(plan, &tensors, NULL, &request);
    return status ? status : rondo_wait(&request, -1);
}

/* a->dx: of the layer's output -> of l->mid.  The residual branch needs no work: its gradient is
 * a->dx itself. */
static void feed_forward_backward(const struct model_sizes *s, const struct layer_weights *w,
                                  struct layer_weights *g, struct acts *a,
                                  const struct layer_acts *l)
{
    int64_t n = a->n;

    linear_backward(a->dact, g->w_down, a->dx, l->act, w->w_down, n, s->hidden, s->dim, 0);
    swiglu_backward(a->dgate, a->dup, a->dact, l->gate, l->up, n * s->hidden);
    linear_backward(a->din, g->w_gate, a->dgate, l->ffn_in, w->w_gate, n, s->dim, s->hidden, 0);
    linear_backward(a->din, g->w_up, a->dup, l->ffn_in, w->w_up, n, s->dim, s->hidden, 1);
    rmsnorm_backward(a->dx, g->ffn_norm, a->din, l->mid, w->ffn_norm, l->ffn_rms, n, s->dim);
}

/* a->dq, a->dk, a->dv -> a->din */
static void project_backward(const struct model_sizes *s, const struct layer_weights *w,
                             struct layer_weights *g, struct acts *a, const struct layer_acts *l)
{
    int q_width = s->q_heads * s->head_dim, kv_width = s->kv_heads * s->head_dim;
    int64_t n = a->n;
    float *dq = stored_read(a->dtype, a->dq, a->work.q, n * q_width);
    float *dk = stored_read(a->dtype, a->dk, a->work.k, n * kv_width);
    float *dv = stored_read(a->dtype, a->dv, a->work.v, n * kv_width);

    rope_rotate(dq, a->rope, n, s->q_heads, s->head_dim, 1);
    rope_rotate(dk, a->rope, n, s->kv_heads, s->head_dim, 1);
    linear_backward(a->din, g->wq, dq, l->attn_in, w->wq, n, s->dim, q_width, 0);
    linear_backward(a->din, g->wk, dk, l->attn_in, w->wk, n, s->dim, kv_width, 1);
    linear_backward(a->din, g->wv, dv, l->attn_in, w->wv, n, s->dim, kv_width, 1);
}

/* a->dx: of l->mid -> of l->x */
static rondo_status_t attention_backward(const struct model_sizes *s,
                                         const struct layer_weights *w, struct layer_weights *g,
                                         struct acts *a, const struct layer_acts *l,
                                         rondo_plan_t plan)
{
    int q_width = s->q_heads * s->head_dim;
    int64_t n = a->n;
    float *o = stored_read(a->dtype, l->o, a->work.o, n * q_width);
    float *d_o = stored_floats(a->dtype, a->d_o, a->work.q);
    rondo_status_t status;

    linear_backward(d_o, g->wo, a->dx, o, w->wo, n, q_width, s->dim, 0);
    stored_write(a->dtype, a->d_o, d_o, n * q_width);
    status = attend_backward(a, l, plan);
    if (status)
        return status;
    project_backward(s, w, g, a, l);
    rmsnorm_backward(a->dx, g->attn_norm, a->din, l->x, w->attn_norm, l->attn_rms, n, s->dim);
    return RONDO_OK;
}

rondo_status_t model_backward(const struct model_sizes *s, const struct weights *w,
                              struct weights *g, struct acts *a, rondo_plan_t plan,
                              const int32_t *tokens)
{
    linear_backward(a->din, g->head, a->logits, a->out, w->head, a->n, s->dim, s->vocab, 0);
    memset(a->dx, 0, (size_t)a->n * (size_t)s->dim * sizeof(float));
    rmsnorm_backward(a->dx, g->final_norm, a->din, a->x, w->final_norm, a->out_rms, a->n, s->dim);
    for (int i = s->layers - 1; i >= 0; i--) {
        rondo_status_t status;

        feed_forward_backward(s, &w->layers[i], &g->layers[i], a, &a->layers[i]);
        status = attention_backward(s, &w->layers[i], &g->layers[i], a, &a->layers[i], plan);
        if (status)
            return status;
    }
    embedding_backward(g->embedding, a->dx, tokens, a->n, s->dim);
    return RONDO_OK;
}
