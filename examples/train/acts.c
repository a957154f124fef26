/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "stored.h"

/* Cuts arenas into arrays.  Run once without arenas it only counts. */
struct arena {
    float *floats;
    size_t used;
};

struct cutter {
    struct arena own, shared;
    size_t room;         /* tokens */
    size_t stored_bytes; /* of a number that attention reads or writes */
};

/* Every array starts on a cache line of its own. */
static float *cut_from(struct arena *arena, size_t floats)
{
    float *array = arena->floats ? arena->floats + arena->used : NULL;

    arena->used += (floats + 15) / 16 * 16;
    return array;
}

static void cut(struct cutter *c, float **array, size_t token_floats)
{
    *array = cut_from(&c->own, c->room * token_floats);
}

/* In whole floats. */
static void cut_stored(struct cutter *c, struct arena *arena, void **array, size_t token_numbers)
{
    *array = cut_from(arena, (c->room * token_numbers * c->stored_bytes + sizeof(float) - 1) / sizeof(float));
}

/* What attention reads: other ranks may read it where it lies. */
static void cut_shared(struct cutter *c, void **array, size_t token_numbers)
{
    cut_stored(c, &c->shared, array, token_numbers);
}

static void cut_layer(struct cutter *c, struct layer_acts *l, const struct model_sizes *s)
{
    size_t dim = (size_t)s->dim, hidden = (size_t)s->hidden;
    size_t q = (size_t)s->q_heads * (size_t)s->head_dim;
    size_t kv = (size_t)s->kv_heads * (size_t)s->head_dim;

    cut(c, &l->x, dim);
    cut(c, &l->attn_in, dim);
    cut(c, &l->attn_rms, 1);
    cut_shared(c, &l->q, q);
    cut_shared(c, &l->k, kv);
    cut_shared(c, &l->v, kv);
    cut_stored(c, &c->own, &l->o, q);
    l->lse = cut_from(&c->shared, c->room * (size_t)s->q_heads);
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
    cut_stored(c, &c->own, &a->dq, q);
    cut_stored(c, &c->own, &a->dk, kv);
    cut_stored(c, &c->own, &a->dv, kv);
    cut_shared(c, &a->d_o, q);
    cut(c, &a->dgate, hidden);
    cut(c, &a->dup, hidden);
    cut(c, &a->dact, hidden);
    if (a->dtype == RONDO_F32)
        return;
    cut(c, &a->work.q, q);
    cut(c, &a->work.k, kv);
    cut(c, &a->work.v, kv);
    cut(c, &a->work.o, q);
}

static struct cutter cut_all(struct acts *a, const struct model_sizes *sizes)
{
    struct cutter c = { { a->arena, 0 }, { a->shared, 0 }, (size_t)a->room, stored_bytes(a->dtype) };

    for (int l = 0; l < sizes->layers; l++)
        cut_layer(&c, &a->layers[l], sizes);
    cut_rest(&c, a, sizes);
    return c;
}

static int allocate(struct acts *a, const struct cutter *sizes)
{
    void *shared = NULL;

    a->count = sizes->own.used;
    a->arena = floats_alloc(a->count);
    if (!a->comm)
        a->shared = floats_alloc(sizes->shared.used);
    else if (rondo_mem_alloc(a->comm, sizes->shared.used * sizeof(float), &shared) == RONDO_OK)
        a->shared = shared;
    return a->arena && a->shared ? 0 : -1;
}

int acts_init(struct acts *a, rondo_comm_t comm, const struct model_sizes *sizes,
              rondo_dtype_t dtype, int64_t room)
{
    struct cutter needed;

    memset(a, 0, sizeof(*a));
    a->comm = comm;
    a->dtype = dtype;
    a->head_dim = sizes->head_dim;
    a->room = room;
    a->layers = calloc((size_t)sizes->layers, sizeof(*a->layers));
    if (!a->layers)
        return -1;
    needed = cut_all(a, sizes);
    if (allocate(a, &needed)) {
        acts_release(a);
        return -1;
    }
    cut_all(a, sizes);
    return 0;
}

void acts_fit(struct acts *a, const int64_t *positions, int64_t n)
{
    a->n = n;
    rope_table(a->rope, positions, n, a->head_dim);
}

void acts_release(struct acts *a)
{
    free(a->arena);
    if (a->comm)
        rondo_mem_free(a->comm, a->shared);
    else
        free(a->shared);
    free(a->layers);
    memset(a, 0, sizeof(*a));
}
