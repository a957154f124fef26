/* SPDX-License-Identifier: Apache-2.0 */
#include "sequence.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNKS_PER_RANK = 16 }; /* of a balanced layout */

static void choose_mask(struct sequence *s, const struct options *o)
{
    s->mask_params = (rondo_mask_params_t)RONDO_MASK_PARAMS_INIT;
    s->mask = o->window ? RONDO_MASK_WINDOW : RONDO_MASK_CAUSAL;
    if (o->window) {
        s->mask_params.left = o->window - 1;
        s->mask_params.right = 0;
    }
}

static const rondo_mask_params_t *mask_params(const struct sequence *s)
{
    return s->mask == RONDO_MASK_WINDOW ? &s->mask_params : NULL;
}

/* What one call of rondo_layout_create makes of all that may be; the edges of documents come later. */
static rondo_status_t describe(struct sequence *s, const struct parallel *p, const struct options *o,
                               int documents)
{
    rondo_layout_desc_t *d = &s->desc;
    rondo_status_t status;
    int64_t chunk = s->tokens / ((int64_t)CHUNKS_PER_RANK * p->info.size);

    *d = (rondo_layout_desc_t)RONDO_LAYOUT_DESC_INIT;
    status = rondo_layout_kind_parse(o->layout, &d->kind);
    d->tokens = s->tokens;
    d->ranks = p->info.size;
    d->max_documents = documents;
    if (s->packed && strcmp(o->deal, "documents") == 0)
        d->deal = RONDO_DEAL_DOCUMENTS;
    if (d->kind == RONDO_LAYOUT_BALANCED) {
        d->mask = s->mask;
        d->mask_params = mask_params(s);
        d->chunk_tokens = chunk > 0 ? chunk : 1;
    }
    return status;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The most tokens that any batch may give a rank.  A balanced layout gives no rank more chunks than an even
 * share, rounded up.  A document dealt out by itself gives a rank two pieces of 2 ranks at most, each rounded
 * up by less than one token.  Everything else deals out the sequence, whatever lies in it. */
static int64_t most_tokens(const struct sequence *s, int64_t n)
{
    const rondo_layout_desc_t *d = &s->desc;
    int64_t most = n;

    if (!s->packed)
        return n;
    if (d->kind == RONDO_LAYOUT_BALANCED)
        most = divide_up(divide_up(d->tokens, d->chunk_tokens), d->ranks) * d->chunk_tokens;
    else if (d->deal == RONDO_DEAL_DOCUMENTS)
        most = (d->tokens + (int64_t)d->max_documents * (2 * d->ranks - 1)) / d->ranks;
    return most < d->tokens ? most : d->tokens;
}

static int allocate(struct sequence *s)
{
    size_t room = (size_t)s->room + 1; /* an empty shard has arrays too */

    s->positions = calloc(room, sizeof(*s->positions));
    s->shard = calloc(room, sizeof(*s->shard));
    s->targets = calloc(room, sizeof(*s->targets));
    s->whole = calloc((size_t)s->tokens, sizeof(*s->whole));
    s->edges = calloc((size_t)s->desc.max_documents + 2, sizeof(*s->edges));
    return s->positions && s->shard && s->targets && s->whole && s->edges ? 0 : -1;
}

/* The layout of the batch whose documents s->desc has. */
static rondo_status_t deal(struct sequence *s, const struct parallel *p)
{
    rondo_layout_t layout = NULL;
    rondo_status_t status = rondo_layout_create(&s->desc, &layout);

    if (status)
        return status;
    rondo_layout_destroy(s->layout);
    s->layout = layout;
    s->n = rondo_layout_tokens(layout, p->info.rank);
    return RONDO_OK;
}

static int make_layout(struct sequence *s, struct parallel *p, const struct options *o, int documents)
{
    struct problem problem = { 0, "" };
    rondo_status_t status = describe(s, p, o, documents);
    int code;

    if (!status)
        status = deal(s, p);
    if (status)
        return parallel_refused(p, "layout", status);
    s->room = most_tokens(s, s->n);
    if (allocate(s))
        problem_set(&problem, EXIT_FAILED, "out of memory: sequence of %lld tokens",
                    (long long)s->tokens);
    code = parallel_agree(p, &problem);
    if (code)
        return code;
    s->edges[1] = s->tokens;
    if (s->packed) {
        s->desc.cu_seqlens = s->edges;
        s->desc.documents = 1;
        status = deal(s, p);
    }
    if (!status)
        status = rondo_layout_document_positions(s->layout, p->info.rank, s->positions);
    return status ? parallel_refused(p, "layout", status) : 0;
}

static int make_plan(struct sequence *s, const struct parallel *p, const struct options *o,
                     int inference)
{
    rondo_attention_desc_t desc = RONDO_ATTENTION_DESC_INIT;
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_status_t status;

    desc.dtype = options_dtype(o);
    desc.mask = s->mask;
    desc.mask_params = mask_params(s);
    desc.q_heads = o->sizes.q_heads;
    desc.kv_heads = o->sizes.kv_heads;
    desc.qk_dim = o->sizes.head_dim;
    options.schedule = o->schedule;
    options.backward = inference ? "none" : o->backward;
    options.kernel_name = o->kernel;
    options.wire = o->wire;
    status = rondo_attention_plan(p->comm, s->layout, &desc, &options, &s->plan);
    return status ? parallel_refused(p, "attention plan", status) : 0;
}

int sequence_init(struct sequence *s, struct parallel *p, const struct options *o, int64_t tokens,
                  int documents, int inference)
{
    int code;

    memset(s, 0, sizeof(*s));
    s->tokens = tokens;
    s->packed = documents > 0;
    choose_mask(s, o);
    code = make_layout(s, p, o, documents);
    return code ? code : make_plan(s, p, o, inference);
}

void sequence_release(struct sequence *s)
{
    rondo_plan_destroy(s->plan);
    rondo_layout_destroy(s->layout);
    free(s->positions);
    free(s->whole);
    free(s->shard);
    free(s->targets);
    free(s->edges);
    memset(s, 0, sizeof(*s));
}

rondo_status_t sequence_fit(struct sequence *s, const struct parallel *p, int documents)
{
    rondo_status_t status;

    s->desc.documents = documents;
    status = deal(s, p);
    if (!status)
        status = rondo_plan_bind(s->plan, s->tokens, s->edges, documents);
    return status ? status : rondo_layout_document_positions(s->layout, p->info.rank, s->positions);
}

rondo_status_t sequence_cut(struct sequence *s, const struct parallel *p)
{
    int rank = p->info.rank;
    rondo_status_t status =
        rondo_layout_shard(s->layout, rank, s->whole, sizeof(*s->whole), s->shard);

    return status ? status : rondo_layout_targets(s->layout, rank, s->whole, s->targets);
}
