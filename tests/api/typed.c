/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/api/typed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *memory_of(size_t count, rondo_dtype_t type)
{
    size_t bytes = count * (type == RONDO_F32 ? sizeof(float) : sizeof(uint16_t));
    void *memory = bytes ? malloc(bytes) : NULL;

    if (bytes && !memory) {
        fprintf(stderr, "# out of memory\n");
        exit(1);
    }
    if (bytes)
        memset(memory, 0xff, bytes); /* NaN in every type */
    return memory;
}

void typed_init(struct typed *t, rondo_dtype_t type, const struct shard *s, const struct problem *p)
{
    size_t rows = (size_t)(p->batch * s->n);
    size_t q = rows * (size_t)(p->q_heads * p->qk_dim), k = rows * (size_t)(p->kv_heads * p->qk_dim);
    size_t v = rows * (size_t)(p->kv_heads * p->v_dim), o = rows * (size_t)(p->q_heads * p->v_dim);
    const float *inputs[4] = { s->q, s->k, s->v, s->d_o };
    void **all[8] = { &t->q, &t->k, &t->v, &t->d_o, &t->o, &t->dq, &t->dk, &t->dv };

    *t = (struct typed){ type, { q, k, v, o, o, q, k, v }, 0, 0, 0, 0, 0, 0, 0, 0 };
    for (int i = 0; i < 8; i++) {
        *all[i] = memory_of(t->counts[i], type);
        if (i < 4)
            features_narrow(*all[i], type, inputs[i], t->counts[i]);
    }
}

void typed_release(struct typed *t)
{
    void *all[8] = { t->q, t->k, t->v, t->d_o, t->o, t->dq, t->dk, t->dv };

    for (int i = 0; i < 8; i++)
        free(all[i]);
}

static void widen(const struct typed *t, const struct shard *s)
{
    features_widen(s->o, t->type, t->o, t->counts[4]);
    features_widen(s->dq, t->type, t->dq, t->counts[5]);
    features_widen(s->dk, t->type, t->dk, t->counts[6]);
    features_widen(s->dv, t->type, t->dv, t->counts[7]);
}

int typed_both(rondo_plan_t plan, struct typed *t, struct shard *s, const float *sinks, float *d_sinks)
{
    rondo_attention_fwd_t fwd = RONDO_ATTENTION_FWD_INIT;
    rondo_attention_bwd_t bwd = RONDO_ATTENTION_BWD_INIT;
    int err;

    fwd.q = bwd.q = t->q;
    fwd.k = bwd.k = t->k;
    fwd.v = bwd.v = t->v;
    fwd.lse = s->lse;
    bwd.lse = s->lse;
    fwd.o = t->o;
    bwd.o = t->o;
    bwd.d_o = t->d_o;
    bwd.dq = t->dq;
    bwd.dk = t->dk;
    bwd.dv = t->dv;
    fwd.sinks = bwd.sinks = sinks;
    bwd.d_sinks = d_sinks;
    err = run_both(plan, &fwd, &bwd);
    widen(t, s);
    return err;
}
