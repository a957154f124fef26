/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <rondo/request.h>

#include "model.h"
#include "stored.h"

/* The one place of the forward where tokens meet: every rank gives its own shard of q, k and v, and
 * Rondo shows each query the keys of the whole sequence that it may see. */
static rondo_status_t attend(const struct layer_acts *l, rondo_plan_t plan)
{
    rondo_attention_fwd_t tensors = RONDO_ATTENTION_FWD_INIT;
    rondo_request_t request = NULL;
    rondo_status_t status;

    tensors.q = l->q;
    tensors.k = l->k;
    tensors.v = l->v;
    tensors.o = l->o;
    tensors.lse = l->lse;
    status = rondo_attention_forward(plan, &tensors, NULL, &request);
    return status ? status : rondo_wait(&request, -1);
}

/* l->attn_in -> l->q, l->k, l->v */
static void project(const struct model_sizes *s, const struct layer_weights *w, struct acts *a,
                    struct layer_acts *l)
{
    int q_width = s->q_heads * s->head_dim, kv_width = s->kv_heads * s->head_dim;
    float *q = stored_floats(a->dtype, l->q, a->work.q);
    float *k = stored_floats(a->dtype, l->k, a->work.k);
    float *v = stored_floats(a->dtype, l->v, a->work.v);
    int64_t n = a->n;

    linear_forward(q, l->attn_in, w->wq, n, s->dim, q_width, 0);
    linear_forward(k, l->attn_in, w->wk, n, s->dim, kv_width, 0);
    linear_forward(v, l->attn_in, w->wv, n, s->dim, kv_width, 0);
    rope_rotate(q, a->rope, n, s->q_heads, s->head_dim, 0);
    rope_rotate(k, a->rope, n, s->kv_heads, s->head_dim, 0);
    stored_write(a->dtype, l->q, q, n * q_width);
    stored_write(a->dtype, l->k, k, n * kv_width);
    stored_write(a->dtype, l->v, v, n * kv_width);
}

/* l->x -> l->mid */
static rondo_status_t attention_block(const struct model_sizes *s, const struct layer_weights *w,
                                      struct acts *a, struct layer_acts *l, rondo_plan_t plan)
{
    int q_width = s->q_heads * s->head_dim;
    int64_t n = a->n;
    rondo_status_t status;

    rmsnorm_forward(l->attn_in, l->attn_rms, l->x, w->attn_norm, n, s->dim);
    project(s, w, a, l);
    status = attend(l, plan);
    if (status)
        return status;
    memcpy(l->mid, l->x, (size_t)n * (size_t)s->dim * sizeof(float));
    linear_forward(l->mid, stored_read(a->dtype, l->o, a->work.o, n * q_width), w->wo, n, q_width, s->dim, 1);
    return RONDO_OK;
}

/* l->mid -> next [n][dim] */
static void feed_forward_block(const struct model_sizes *s, const struct layer_weights *w,
                               struct layer_acts *l, float *next, int64_t n)
{
    rmsnorm_forward(l->ffn_in, l->ffn_rms, l->mid, w->ffn_norm, n, s->dim);
    linear_forward(l->gate, l->ffn_in, w->w_gate, n, s->dim, s->hidden, 0);
    linear_forward(l->up, l->ffn_in, w->w_up, n, s->dim, s->hidden, 0);
    swiglu_forward(l->act, l->gate, l->up, n * s->hidden);
    memcpy(next, l->mid, (size_t)n * (size_t)s->dim * sizeof(float));
    linear_forward(next, l->act, w->w_down, n, s->hidden, s->dim, 1);
}

rondo_status_t model_forward(const struct model_sizes *s, const struct weights *w, struct acts *a,
                             rondo_plan_t plan, const int32_t *tokens)
{
    embedding_forward(a->layers[0].x, w->embedding, tokens, a->n, s->dim);
    for (int i = 0; i < s->layers; i++) {
        float *next = i + 1 < s->layers ? a->layers[i + 1].x : a->x;
        rondo_status_t status = attention_block(s, &w->layers[i], a, &a->layers[i], plan);

        if (status)
            return status;
        feed_forward_block(s, &w->layers[i], &a->layers[i], next, a->n);
    }
    rmsnorm_forward(a->out, a->out_rms, a->x, w->final_norm, a->n, s->dim);
    linear_forward(a->logits, a->out, w->head, a->n, s->dim, s->vocab, 0);
    return RONDO_OK;
}
