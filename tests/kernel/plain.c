/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/plain.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "kernels/convert.h"

/* What all rows of one head and one tile of a call have in common. */
struct call {
    struct plain *p;
    const rondo_kernel_shape_t *s;
    const rondo_tile_t *tile;
    rondo_tensor_t q, k, v;
    uint64_t seed;
    int64_t b;
    int h, backward;
    double *scores; /* [k_count] */
};

static int has(const struct call *c, enum fault fault)
{
    return c->p->fault == fault;
}

static unsigned char *address(const struct call *c, const rondo_tensor_t *x, size_t bytes, int64_t b, int64_t t, int h)
{
    int64_t at = b * x->batch_stride + t * x->token_stride + h * x->head_stride;
    uintptr_t base = (uintptr_t)x->data;

    if (has(c, FAULT_SHORT_OFFSETS))
        at = (uint32_t)at;
    if (has(c, FAULT_ALIGNED))
        base &= ~(uintptr_t)15;
    return (unsigned char *)base + (size_t)at * bytes;
}

static float *row(const struct call *c, const rondo_tensor_t *x, int64_t t, int h)
{
    return (float *)(void *)address(c, x, sizeof(float), c->b, t, h);
}

enum { MOST_DIMS = 256 };

/* A row of q, k, v, dO, or of the o that a backward is given. */
static void load(const struct call *c, const rondo_tensor_t *x, int64_t t, int h, int dim, double *to)
{
    rondo_dtype_t dtype = c->s->dtype;
    const unsigned char *at = address(c, x, dtype == RONDO_F32 ? 4 : 2, c->b, t, h);
    uint16_t bits;

    for (int d = 0; d < dim && dtype == RONDO_F32; d++)
        to[d] = (double)((const float *)(const void *)at)[d];
    for (int d = 0; d < dim && dtype != RONDO_F32; d++) {
        memcpy(&bits, at + 2 * d, sizeof(bits));
        to[d] = (double)(dtype == RONDO_BF16 || has(c, FAULT_F16) ? ri_f32_of_bf16(bits) : ri_f32_of_f16(bits));
    }
}

static double dot(const double *x, const double *y, int dim)
{
    double sum = 0;

    for (int d = 0; d < dim; d++)
        sum += x[d] * y[d];
    return sum;
}

static int kv_head(const struct call *c)
{
    if (has(c, FAULT_KV_HEAD))
        return c->h % c->s->kv_heads;
    return c->h / (c->s->q_heads / c->s->kv_heads);
}

static int sees(const struct call *c, int64_t i, int64_t j)
{
    int64_t lo = c->tile->lo;

    if (has(c, FAULT_BAND) && c->tile->kind == RONDO_TILE_BAND && lo > INT64_MIN)
        lo--;
    if (has(c, FAULT_STRICT) && c->tile->kind == RONDO_TILE_STRICT)
        lo = 0;
    return lo <= i - j && i - j <= c->tile->hi;
}

static int v_dim(const struct call *c)
{
    return has(c, FAULT_ONE_DIM) && c->s->qk_dim < c->s->v_dim ? c->s->qk_dim : c->s->v_dim;
}

/* scale * q.k, before any cap. */
static double raw_score(const struct call *c, const double *q, const double *k)
{
    double sum = dot(q, k, c->s->qk_dim);

    return has(c, FAULT_NO_SCALE) ? sum : sum * (double)c->s->scale;
}

static double capped(const struct call *c, double score)
{
    double cap = has(c, FAULT_NO_CAP) ? 0 : (double)c->s->softcap;

    return cap > 0 ? cap * tanh(score / cap) : score;
}

static double slope(const struct call *c, double score)
{
    double cap = has(c, FAULT_CAP_SLOPE) ? 0 : (double)c->s->softcap, t = cap > 0 ? tanh(score / cap) : 0;

    return 1 - t * t;
}

static double keep(const struct call *c, int64_t i, int64_t j)
{
    const rondo_tile_t *t = c->tile;
    int64_t batch = c->b + (has(c, FAULT_FIRST_BATCH) ? 0 : c->s->first_batch);
    int head = c->h + (has(c, FAULT_FIRST_HEAD) ? 0 : c->s->first_head);
    int64_t query = t->q_start + i * t->q_step, key = t->k_start + j * t->k_step;

    if (c->s->dropout <= 0)
        return 1;
    if (has(c, FAULT_LOCAL_POSITIONS)) {
        query = t->q_first + i;
        key = t->k_first + j;
    }
    if (!rondo_dropout_keeps(c->backward && has(c, FAULT_BACKWARD_SEED) ? 0 : c->seed, batch, head, query, key,
                             c->s->dropout))
        return 0;
    return has(c, FAULT_NO_KEEP_FACTOR) ? 1 : 1 / (1 - (double)c->s->dropout);
}

/* Fills the scores of row i; what is hidden, and what float cannot say, is -inf.  Returns the largest. */
static double score_row(const struct call *c, int64_t i)
{
    double top = -INFINITY, q[MOST_DIMS], k[MOST_DIMS];

    load(c, &c->q, c->tile->q_first + i, c->h, c->s->qk_dim, q);
    for (int64_t j = 0; j < c->tile->k_count; j++) {
        double score = -INFINITY;

        if (sees(c, i, j)) {
            load(c, &c->k, c->tile->k_first + j, kv_head(c), c->s->qk_dim, k);
            score = capped(c, raw_score(c, q, k));
        }
        if (score < -3e38 || (has(c, FAULT_SMALL_MASKED) && score < -1e4))
            score = -INFINITY;
        if (isnan(score) && has(c, FAULT_NAN_LOST))
            score = -INFINITY;
        c->scores[j] = score;
        top = isnan(top) || score <= top ? top : score;
    }
    return top;
}

/* Turns scores into weights, kept ones and zeros, and returns their sum; `lse_sum` grows by what lse counts. */
static double weigh_row(const struct call *c, int64_t i, double top, double *lse_sum)
{
    double sum = 0;

    for (int64_t j = 0; j < c->tile->k_count; j++) {
        double weight = c->scores[j] == -INFINITY ? 0 : (double)expf((float)(c->scores[j] - top));

        c->scores[j] = weight == 0 ? 0 : weight * keep(c, i, j);
        sum += weight;
        *lse_sum += has(c, FAULT_DROPPED_LSE) ? c->scores[j] : weight;
    }
    return sum;
}

static void add_values(const struct call *c, double *o)
{
    double v[MOST_DIMS];

    for (int64_t j = 0; j < c->tile->k_count; j++) {
        if (c->scores[j] == 0 && !has(c, FAULT_HIDDEN_V))
            continue;
        load(c, &c->v, c->tile->k_first + j, kv_head(c), v_dim(c), v);
        for (int d = 0; d < v_dim(c); d++)
            o[d] += c->scores[j] * v[d];
    }
}

static void forward_row(const struct call *c, const rondo_tensor_t *o_of, const rondo_tensor_t *lse_of, int64_t i)
{
    float *o = row(c, o_of, c->tile->q_first + i, c->h), *lse = row(c, lse_of, c->tile->q_first + i, c->h);
    int starts = !(c->p->flags & RONDO_KERNEL_MERGES) || has(c, FAULT_RUNNING);
    double old = starts ? -INFINITY : (double)*lse, top = score_row(c, i), rest, sum, lse_sum, value[MOST_DIMS];

    if (top == -INFINITY && starts) {
        *lse = has(c, FAULT_EMPTY_LSE) ? 0 : -INFINITY;
        for (int d = 0; d < v_dim(c) && !has(c, FAULT_EMPTY_O); d++)
            o[d] = 0;
    }
    if (top == -INFINITY)
        return;
    top = has(c, FAULT_NO_TOP) ? 0 : top > old || isnan(top) ? top : old;
    rest = lse_sum = old == -INFINITY ? 0 : (double)expf((float)(old - top));
    sum = rest + weigh_row(c, i, top, &lse_sum);
    for (int d = 0; d < v_dim(c); d++)
        value[d] = rest == 0 ? 0 : rest * (double)o[d];
    add_values(c, value);
    for (int d = 0; d < v_dim(c); d++) {
        o[d] = (float)(value[d] / sum);
        if (has(c, FAULT_THREADS) && c->s->threads > 1)
            o[d] += 1e-6f;
        if (has(c, FAULT_CHANCE))
            o[d] += 1e-7f * (float)(c->p->calls % 3);
    }
    if (has(c, FAULT_GAPS))
        o[c->s->v_dim] = 0;
    *lse = (float)(has(c, FAULT_LSE_BASE_2) ? (top + log(lse_sum)) / M_LN2 : top + log(lse_sum));
}

/* Tensors of a backward that its rows need. */
struct gradients {
    rondo_tensor_t o, d_o, lse, delta, dq, dk, dv;
};

/* A query row of a backward. */
struct query {
    int64_t i;
    double lse, delta, q[MOST_DIMS], d_o[MOST_DIMS];
};

static double delta_of(const struct call *c, const struct gradients *g, const struct query *r)
{
    int64_t token = c->tile->q_first + r->i;
    double o[MOST_DIMS];

    if (has(c, FAULT_NO_DELTA))
        return 0;
    if (g->delta.data)
        return (double)*row(c, &g->delta, token, c->h);
    load(c, &g->o, token, c->h, c->s->v_dim, o);
    return dot(o, r->d_o, c->s->v_dim);
}

static void backward_pair(const struct call *c, const struct gradients *g, const struct query *r, int64_t j)
{
    int64_t key = c->tile->k_first + j;
    float *dq = row(c, &g->dq, c->tile->q_first + r->i, c->h), *dk = row(c, &g->dk, key, kv_head(c));
    float *dv = row(c, &g->dv, key, kv_head(c));
    double k[MOST_DIMS], v[MOST_DIMS], raw, weight, kept, ds;

    load(c, &c->k, key, kv_head(c), c->s->qk_dim, k);
    load(c, &c->v, key, kv_head(c), v_dim(c), v);
    raw = raw_score(c, r->q, k);
    weight = exp(capped(c, raw) - r->lse);
    kept = keep(c, r->i, j);
    ds = weight * (kept * dot(r->d_o, v, v_dim(c)) - r->delta) * slope(c, raw);
    ds *= has(c, FAULT_NO_SCALE) ? 1 : (double)c->s->scale;
    for (int d = 0; d < v_dim(c); d++)
        dv[d] += (float)(weight * kept * r->d_o[d]);
    for (int d = 0; d < c->s->qk_dim; d++) {
        dq[d] += (float)(ds * k[d]) * (has(c, FAULT_DQ_TWICE) ? 2.0f : 1.0f);
        dk[d] += (float)(ds * r->q[d]);
    }
}

static void backward_row(const struct call *c, const struct gradients *g, int64_t i)
{
    struct query r;

    r.i = i;
    r.lse = (double)*row(c, &g->lse, c->tile->q_first + i, c->h);
    if (r.lse == -INFINITY && !has(c, FAULT_NO_LSE_TEST))
        return;
    load(c, &c->q, c->tile->q_first + i, c->h, c->s->qk_dim, r.q);
    load(c, &g->d_o, c->tile->q_first + i, c->h, c->s->v_dim, r.d_o);
    r.delta = delta_of(c, g, &r);
    for (int64_t j = 0; j < c->tile->k_count; j++)
        if (sees(c, i, j))
            backward_pair(c, g, &r, j);
}

/* Gradients of keys start from nothing, where that is the fault. */
static void forget_keys(const struct call *c, const struct gradients *g)
{
    for (int64_t j = 0; j < c->tile->k_count && c->h % (c->s->q_heads / c->s->kv_heads) == 0; j++) {
        if (has(c, FAULT_DK_SET))
            memset(row(c, &g->dk, c->tile->k_first + j, kv_head(c)), 0, (size_t)c->s->qk_dim * sizeof(float));
        if (has(c, FAULT_DV_SET))
            memset(row(c, &g->dv, c->tile->k_first + j, kv_head(c)), 0, (size_t)c->s->v_dim * sizeof(float));
    }
}

static size_t plain_workspace(void *context, const rondo_kernel_shape_t *shape)
{
    return (size_t)shape->max_k_tokens * sizeof(double);
}

/* The faults that are of a whole call; its status. */
static int begin(struct plain *p, const rondo_kernel_shape_t *s, void *workspace, const rondo_tensor_t *q,
                 const rondo_tile_t *tile)
{
    p->calls++;
    if (p->fault == FAULT_WORKSPACE)
        ((unsigned char *)workspace)[plain_workspace(p, s)] = 0;
    if (p->fault == FAULT_INPUT && s->dtype == RONDO_F32)
        ((float *)q->data)[tile->q_first * q->token_stride] *= 0.5f;
    return p->fault == FAULT_REFUSES && s->qk_dim > 128 ? -4 : 0;
}

struct stranger {
    int (*poll)(void *poller);
    void *poller;
};

static void *poll_elsewhere(void *argument)
{
    const struct stranger *s = argument;

    s->poll(s->poller);
    return NULL;
}

/* What a poll says, of a kernel that has the flag. */
static int polled(const struct plain *p, int (*poll)(void *poller), void *poller)
{
    struct stranger s = { poll, poller };
    pthread_t thread;
    int answer;

    if (!poll || !(p->flags & RONDO_KERNEL_POLLS) || p->fault == FAULT_POLL_ABSENT)
        return 0;
    if (p->fault == FAULT_POLL_STRANGER && pthread_create(&thread, NULL, poll_elsewhere, &s) == 0)
        pthread_join(thread, NULL);
    answer = poll(poller);
    return p->fault == FAULT_POLL_LOST ? 0 : answer;
}

static int plain_forward(void *context, const rondo_kernel_forward_t *a)
{
    struct plain *p = context;
    struct call c = { .p = p, .s = a->shape, .q = a->q, .k = a->k, .v = a->v, .seed = a->seed,
                      .scores = a->workspace };
    int count = p->fault == FAULT_FIRST_TILE ? 1 : a->tile_count, err = begin(p, a->shape, a->workspace, &a->q, a->tiles);

    err = err ? err : polled(p, a->poll, a->poller);
    if (p->fault == FAULT_V_HEAD_STRIDE)
        c.v.head_stride = a->shape->v_dim;
    for (c.b = 0; c.b < a->shape->batch && !err; c.b++)
        for (c.h = 0; c.h < a->shape->q_heads; c.h++)
            for (c.tile = a->tiles; c.tile < a->tiles + count; c.tile++)
                for (int64_t i = 0; i < c.tile->q_count; i++)
                    forward_row(&c, &a->o, &a->lse, i);
    if (p->fault == FAULT_OUTSIDE && a->tiles->q_first > 0)
        ((float *)a->lse.data)[(a->tiles->q_first - 1) * a->lse.token_stride] = -INFINITY;
    return err;
}

static int plain_backward(void *context, const rondo_kernel_backward_t *a)
{
    struct plain *p = context;
    struct call c = { .p = p, .s = a->shape, .q = a->q, .k = a->k, .v = a->v, .seed = a->seed, .backward = 1 };
    struct gradients g = { a->o, a->d_o, a->lse, a->delta, a->dq, a->dk, a->dv };
    int err = begin(p, a->shape, a->workspace, &a->q, a->tiles);

    err = err ? err : polled(p, a->poll, a->poller);
    if (p->fault == FAULT_DO_PACKED) {
        g.d_o.head_stride = a->shape->v_dim;
        g.d_o.token_stride = a->shape->v_dim * a->shape->q_heads;
    }
    for (c.b = 0; c.b < a->shape->batch && !err; c.b++)
        for (c.tile = a->tiles; c.tile < a->tiles + a->tile_count; c.tile++)
            for (c.h = 0; c.h < a->shape->q_heads; c.h++) {
                forget_keys(&c, &g);
                for (int64_t i = 0; i < c.tile->q_count; i++)
                    backward_row(&c, &g, i);
            }
    if (p->fault == FAULT_FAR_WRITE && a->tiles->k_first > 0)
        ((float *)a->dv.data)[0] = 0;
    return err;
}

rondo_kernel_t plain_kernel(struct plain *p)
{
    return (rondo_kernel_t){ .struct_bytes = sizeof(rondo_kernel_t), .name = "plain", .flags = p->flags,
                             .context = p, .workspace_bytes = plain_workspace, .forward = plain_forward,
                             .backward = plain_backward };
}
