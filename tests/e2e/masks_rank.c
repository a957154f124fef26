/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a setting: layouts and plan, its shards, and what they add to the answer. */
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/half.h"
#include "tests/e2e/masks_run.h"

int setting_layout(const struct setting *s, const struct masked *p, int side, int ranks, rondo_layout_t *layout)
{
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    rondo_mask_params_t params = p->is->params;
    const struct packing *docs = p->is->docs[side] ? p->is->docs[side] : p->is->docs[QUERIES];

    params.struct_bytes = sizeof(params);
    desc.kind = s->kind[side], desc.tokens = p->tokens[side], desc.ranks = ranks;
    if (docs) {
        desc.cu_seqlens = p->cu[side], desc.documents = docs->documents, desc.lengths = docs->lengths;
        desc.deal = s->deal, desc.max_documents = s->max_documents;
    }
    if (desc.kind == RONDO_LAYOUT_BALANCED && p->tokens[QUERIES] == p->tokens[KEYS]) {
        desc.mask = p->is->mask;
        desc.mask_params = desc.mask >= RONDO_MASK_WINDOW ? &params : NULL;
        desc.chunk_tokens = s->chunk_tokens;
    }
    return rondo_layout_create(&desc, layout);
}

int setting_plan(const struct setting *s, const struct masked *p, rondo_comm_t comm, rondo_layout_t *layouts,
                 const rondo_kernel_t *kernel, rondo_plan_t *plan)
{
    rondo_attention_desc_t desc = RONDO_ATTENTION_DESC_INIT;
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_mask_params_t params = p->is->params;

    params.struct_bytes = sizeof(params);
    desc.dtype = p->is->dtype, desc.mask = p->is->mask, desc.batch = p->batch;
    desc.q_heads = p->q_heads, desc.kv_heads = p->kv_heads, desc.qk_dim = p->qk_dim, desc.v_dim = p->v_dim;
    if (desc.mask >= RONDO_MASK_WINDOW || params.align_ends)
        desc.mask_params = &params;
    desc.kv_layout = layouts[KEYS] == layouts[QUERIES] ? NULL : layouts[KEYS];
    desc.softcap = p->is->softcap, desc.dropout = p->is->dropout, desc.has_sinks = p->is->sinks;
    options.schedule = s->schedule, options.backward = s->backward, options.binding = s->binding;
    options.kernel_name = s->kernel, options.kernel = kernel;
    options.chunk_bytes = s->chunk_bytes, options.wire = s->wire;
    return rondo_attention_plan(comm, layouts[QUERIES], &desc, &options, plan);
}

/* A shard of a tensor as the plan has it, and as floats. */
struct part {
    int64_t n, whole_n, batch;
    int row; /* numbers of a token */
    rondo_dtype_t dtype;
    rondo_layout_t layout;
    int rank;
    float *numbers;   /* [batch][n][row] */
    uint16_t *halves; /* the same, with types of 16 bits */
};

static void *memory_of(size_t bytes)
{
    void *memory = malloc(bytes + 1);

    if (!memory)
        exit(1);
    memset(memory, 0xff, bytes + 1);
    return memory;
}

static struct part part_of(rondo_layout_t layout, int rank, const struct masked *p, int side, int row)
{
    struct part t = { .n = rondo_layout_tokens(layout, rank), .whole_n = p->tokens[side], .batch = p->batch,
                      .row = row, .dtype = p->is->dtype, .layout = layout, .rank = rank };
    size_t count = (size_t)(t.batch * t.n * row);

    t.numbers = memory_of(count * sizeof(float));
    t.halves = memory_of(count * sizeof(uint16_t));
    return t;
}

static void *part_data(struct part *t)
{
    return t->dtype == RONDO_F32 ? (void *)t->numbers : (void *)t->halves;
}

static int part_fill(struct part *t, const float *whole)
{
    int err = 0;

    for (int64_t b = 0; b < t->batch && !err; b++)
        err = rondo_layout_shard(t->layout, t->rank, whole + b * t->whole_n * t->row, (size_t)t->row * sizeof(float),
                                 t->numbers + b * t->n * t->row);
    for (int64_t i = 0; i < t->batch * t->n * t->row && t->dtype != RONDO_F32; i++)
        t->halves[i] = half_of_float(t->numbers[i], t->dtype);
    return err;
}

static int part_return(struct part *t, float *whole)
{
    int err = 0;

    for (int64_t i = 0; i < t->batch * t->n * t->row && t->dtype != RONDO_F32; i++)
        t->numbers[i] = half_to_float(t->halves[i], t->dtype);
    for (int64_t b = 0; b < t->batch && !err; b++)
        err = rondo_layout_unshard(t->layout, t->rank, t->numbers + b * t->n * t->row,
                                   (size_t)t->row * sizeof(float), whole + b * t->whole_n * t->row);
    return err;
}

enum { PART_Q, PART_K, PART_V, PART_DO, PART_O, PART_DQ, PART_DK, PART_DV, PARTS };

struct shard {
    const struct masked *p;
    struct part parts[PARTS];
    float *lse, *d_sinks; /* [batch][q_heads][n] */
    int64_t *positions;
};

static int fill_shard(struct shard *s, rondo_layout_t *layouts, int rank, const struct masked *p)
{
    const float *inputs[] = { p->q, p->k, p->v, p->d_o };
    int64_t n = rondo_layout_tokens(layouts[QUERIES], rank);
    int err;

    s->p = p;
    for (int i = 0; i < PARTS; i++) {
        int is_key = i == PART_K || i == PART_V || i == PART_DK || i == PART_DV;
        int is_v = i == PART_V || i == PART_DO || i == PART_O || i == PART_DV;

        s->parts[i] = part_of(layouts[is_key], rank, p, is_key,
                              (is_key ? p->kv_heads : p->q_heads) * (is_v ? p->v_dim : p->qk_dim));
    }
    s->lse = memory_of((size_t)(p->batch * p->q_heads * n) * sizeof(float));
    s->d_sinks = memory_of((size_t)p->q_heads * sizeof(float));
    s->positions = memory_of((size_t)n * sizeof(int64_t));
    err = rondo_layout_positions(layouts[QUERIES], rank, s->positions);
    for (int i = 0; i < 4 && !err; i++)
        err = part_fill(&s->parts[i], inputs[i]);
    return err;
}

struct shard *shard_create(rondo_layout_t *layouts, int rank, const struct masked *p)
{
    struct shard *s = memory_of(sizeof(*s));

    if (!fill_shard(s, layouts, rank, p))
        return s;
    shard_destroy(s);
    return NULL;
}

void shard_destroy(struct shard *s)
{
    if (!s)
        return;
    for (int i = 0; i < PARTS; i++) {
        free(s->parts[i].numbers);
        free(s->parts[i].halves);
    }
    free(s->lse);
    free(s->d_sinks);
    free(s->positions);
    free(s);
}

int shard_return(struct shard *s, struct answer *a, int rank)
{
    const struct masked *p = s->p;
    float *wholes[] = { a->o, a->dq, a->dk, a->dv };
    int64_t n = s->parts[PART_Q].n;
    int err = 0;

    for (int i = 0; i < 4 && !err; i++)
        err = part_return(&s->parts[PART_O + i], wholes[i]);
    for (int64_t b = 0; b < p->batch; b++)
        for (int h = 0; h < p->q_heads; h++)
            for (int64_t i = 0; i < n; i++)
                a->lse[(b * p->tokens[QUERIES] + s->positions[i]) * p->q_heads + h] =
                    s->lse[(b * p->q_heads + h) * n + i];
    memcpy(a->d_sinks + rank * p->q_heads, s->d_sinks, (size_t)p->q_heads * sizeof(float));
    return err;
}

int shard_is_there(struct shard *s, const struct answer *a)
{
    const struct part *o = &s->parts[PART_O];
    size_t bytes = (size_t)o->row * sizeof(float);
    int same = 1;

    for (int64_t b = 0; b < o->batch; b++)
        for (int64_t i = 0; i < o->n; i++)
            same &= memcmp(o->numbers + (b * o->n + i) * o->row, a->o + (b * o->whole_n + s->positions[i]) * o->row,
                           bytes) == 0;
    return same;
}

int shard_forward(struct shard *s, rondo_plan_t plan)
{
    const struct masked *p = s->p;
    rondo_attention_fwd_t fwd = RONDO_ATTENTION_FWD_INIT;
    rondo_request_t request = NULL;
    int err;

    fwd.q = part_data(&s->parts[PART_Q]), fwd.k = part_data(&s->parts[PART_K]), fwd.v = part_data(&s->parts[PART_V]);
    fwd.o = part_data(&s->parts[PART_O]), fwd.lse = s->lse;
    fwd.sinks = p->sinks, fwd.seed = p->is->dropout > 0 ? p->seed : 0;
    err = rondo_attention_forward(plan, &fwd, NULL, &request);
    return err ? err : rondo_wait(&request, 60000);
}

int shard_backward(struct shard *s, rondo_plan_t plan)
{
    const struct masked *p = s->p;
    rondo_attention_bwd_t bwd = RONDO_ATTENTION_BWD_INIT;
    rondo_request_t request = NULL;
    int err;

    bwd.q = part_data(&s->parts[PART_Q]), bwd.k = part_data(&s->parts[PART_K]), bwd.v = part_data(&s->parts[PART_V]);
    bwd.o = part_data(&s->parts[PART_O]), bwd.lse = s->lse, bwd.d_o = part_data(&s->parts[PART_DO]);
    bwd.dq = part_data(&s->parts[PART_DQ]), bwd.dk = part_data(&s->parts[PART_DK]);
    bwd.dv = part_data(&s->parts[PART_DV]);
    bwd.sinks = p->sinks, bwd.d_sinks = p->sinks ? s->d_sinks : NULL;
    bwd.seed = p->is->dropout > 0 ? p->seed : 0;
    err = rondo_attention_backward(plan, &bwd, NULL, &request);
    return err ? err : rondo_wait(&request, 60000);
}

static int64_t pairs_of(rondo_plan_t plan)
{
    rondo_plan_stats_t stats = RONDO_PLAN_STATS_INIT;

    return rondo_plan_stats(plan, &stats) ? -1 : (int64_t)stats.pairs;
}

int team_run_plan(struct team *team, rondo_plan_t plan, rondo_layout_t *layouts, int rank, const struct masked *p)
{
    struct shard *s = shard_create(layouts, rank, p);
    int64_t before = pairs_of(plan), between = 0;
    int err = s ? shard_forward(s, plan) : RONDO_ERR_INTERNAL;

    between = pairs_of(plan);
    if (!err)
        err = shard_backward(s, plan);
    team->answer.pairs[rank][0] = (uint64_t)(between - before);
    team->answer.pairs[rank][1] = (uint64_t)(pairs_of(plan) - between);
    if (!err)
        err = shard_return(s, &team->answer, rank);
    shard_destroy(s);
    return err;
}
