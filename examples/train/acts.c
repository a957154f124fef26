/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* Cuts an arena into arrays.  Run once without an arena it only counts. */
struct cutter {
    float *arena;
    size_t used; /* floats */
    size_t n;    /* tokens */
};

/* Every array starts on a cache line of its own. */
static void cut(struct cutter *c, float **array, size_t token_floats)
{
    if (c->arena)
        *array = c->arena + c->used;
    c->used += (c->n * token_floats + 15) / 16 * 16;
}

static void cut_layer(struct cutter *c, struct layer_acts *l, const struct model_sizes *s)
{
    size_t dim = (size_t)s->dim, hidden = (size_t)s->hidden;
    size_t q = (size_t)s->q_heads * (size_t)s->head_dim;
    size_t kv = (size_t)s->kv_heads * (size_t)s->head_dim;

    cut(c, &l->x, dim);
    cut(c, &l->attn_in, dim);
    cut(c, &l->attn_rms, 1);
    cut(c, &l->q, q);
    cut(c, &l->k, kv);
    cut(c, &l->v, kv);
    cut(c, &l->o, q);
    cut(c, &l->lse, (size_t)s->q_heads);
    cut(c, &l->mid, dim);
    cut(c, &l->ffn_in, dim);
    cut(c, &l->ffn_rms, 1);
    cut(c, &l->gate, hidden);
    cut(c, &l->up, hidden);
    cut(c, &l->act, hidden);
}

static void cut_rest(struct cutter *c, struct acts *a, const struct model_sizes *s)
{
    size_t dim = (size_t)s->dim, hidden = (size_t)s->hidden;
    size_t q = (size_t)s->q_heads * (size_t)s->head_dim;
    size_t kv = (size_t)s->kv_heads * (size_t)s->head_dim;

    cut(c, &a->rope, (size_t)s->head_dim);
    cut(c, &a->x, dim);
    cut(c, &a->out, dim);
    cut(c, &a->out_rms, 1);
    cut(c, &a->logits, (size_t)s->vocab);
    cut(c, &a->dx, dim);
    cut(c, &a->din, dim);
    cut(c, &a->dq, q);
    cut(c, &a->dk, kv);
    cut(c, &a->dv, kv);
    cut(c, &a->d_o, q);
    cut(c, &a->dgate, hidden);
    cut(c, &a->dup, hidden);
    cut(c, &a->dact, hidden);
}

static size_t cut_all(struct acts *a, const struct model_sizes *sizes)
{
    struct cutter c = { a->arena, 0, (size_t)a->n };

    for (int l = 0; l < sizes->layers; l++)
        cut_layer(&c, &a->layers[l], sizes);
    cut_rest(&c, a, sizes);
    return c.used;
}

int acts_init(struct acts *a, const struct model_sizes *sizes, const int64_t *positions,
              int64_t n)
{
    memset(a, 0, sizeof(*a));
    a->n = n;
    a->layers = calloc((size_t)sizes->layers, sizeof(*a->layers));
    if (!a->layers)
        return -1;
    a->count = cut_all(a, sizes);
    a->arena = floats_alloc(a->count);
    if (!a->arena) {
        acts_release(a);
        return -1;
    }
    cut_all(a, sizes);
    rope_table(a->rope, positions, n, sizes->head_dim);
    return 0;
}

void acts_release(struct acts *a)
{
    free(a->arena);
    free(a->layers);
    memset(a, 0, sizeof(*a));
}
