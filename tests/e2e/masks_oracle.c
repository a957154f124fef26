/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/half.h"
#include "tests/e2e/masks.h"
#include "tests/e2e/oracle.h"
#include "tests/threads.h"

/* batch, query heads, key heads, head size of q and k, of v and o */
static const int shapes[][5] = {
    { 1, 4, 4, 16, 16 }, { 1, 8, 2, 24, 40 }, { 2, 4, 1, 16, 16 }, { 2, 2, 2, 40, 24 }, { 1, 6, 3, 32, 32 },
    { 1, 2, 2, 32, 32 }, { 1, 16, 16, 192, 128 }, { 1, 9, 3, 64, 64 }, { 1, 4, 4, 128, 128 }, { 1, 4, 4, 64, 64 },
    { 1, 1, 1, 64, 64 }, { 1, 2, 1, 16, 16 }, { 1, 8, 2, 32, 32 }, { 1, 8, 8, 16, 16 },
};

static void *allocate(int64_t count, size_t size)
{
    void *memory = calloc((size_t)count + 1, size);

    if (!memory) {
        fprintf(stderr, "masks: out of memory\n");
        exit(1);
    }
    return memory;
}

/* ---- who sees whom ---- */

/* Where a position lies: in which document, the how many-th of its tokens, and of how many. */
struct place {
    int document; /* -1: padding */
    int64_t at, of;
};

static const struct packing *packing_of(const struct masked *p, int side)
{
    return p->is->docs[side] ? p->is->docs[side] : p->is->docs[QUERIES];
}

static struct place place_of(const struct masked *p, int side, int64_t position)
{
    const struct packing *docs = packing_of(p, side);
    int64_t first = 0;

    if (!docs)
        return (struct place){ 0, position, p->tokens[side] };
    for (int d = 0; d < docs->documents; first += docs->slots[d++]) {
        int64_t length = docs->lengths ? docs->lengths[d] : docs->slots[d];

        if (position < first + docs->slots[d])
            return (struct place){ position < first + length ? d : -1, position - first, length };
    }
    return (struct place){ -1, 0, 0 };
}

int masked_is_padding(const struct masked *p, int side, int64_t position)
{
    return place_of(p, side, position).document < 0;
}

static int sees_block(const struct masked *p, int64_t i, int64_t j)
{
    const rondo_mask_params_t *m = &p->is->params;
    int64_t columns = (p->tokens[KEYS] + m->block_tokens - 1) / m->block_tokens;

    return m->blocks[i / m->block_tokens * columns + j / m->block_tokens] != 0;
}

static int sees_range(const rondo_range_t *r, int64_t i, int64_t j)
{
    int64_t ahead = (i - r->q_first) - (j - r->k_first);
    int is_above = ahead >= r->q_count - r->k_count;

    if (i < r->q_first || i >= r->q_first + r->q_count || j < r->k_first || j >= r->k_first + r->k_count)
        return 0;
    if (r->kind == RONDO_RANGE_FULL)
        return 1;
    if (r->kind == RONDO_RANGE_CAUSAL)
        return is_above;
    if (r->kind == RONDO_RANGE_INVERSE)
        return ahead <= 0;
    if (r->kind == RONDO_RANGE_BICAUSAL)
        return is_above && ahead <= 0;
    return r->lo <= ahead && ahead <= r->hi;
}

static int ranges_with(const struct masked *p, int64_t i, int64_t j)
{
    int count = 0;

    for (int r = 0; r < p->is->params.range_count; r++)
        count += sees_range(&p->is->params.ranges[r], i, j);
    if (count > 1) {
        fprintf(stderr, "masks: %s: query %lld and key %lld are in %d ranges\n", p->is->name, (long long)i,
                (long long)j, count);
        exit(1);
    }
    return count;
}

static int sees(const struct masked *p, int64_t i, int64_t j)
{
    const rondo_mask_params_t *m = &p->is->params;
    struct place q = place_of(p, QUERIES, i), k = place_of(p, KEYS, j);
    int64_t at = q.at + (m->align_ends ? k.of - q.of : 0);

    if (q.document < 0 || q.document != k.document)
        return 0;
    switch (p->is->mask) {
    case RONDO_MASK_CAUSAL: return k.at <= at;
    case RONDO_MASK_STRICT: return k.at < at;
    case RONDO_MASK_WINDOW: return (m->left < 0 || k.at >= at - m->left) && (m->right < 0 || k.at <= at + m->right);
    case RONDO_MASK_PREFIX: return k.at <= q.at || k.at < m->prefix;
    case RONDO_MASK_BLOCKS: return sees_block(p, i, j);
    case RONDO_MASK_RANGES: return ranges_with(p, i, j);
    default: return 1;
    }
}

static void fill_sees(struct masked *p)
{
    p->sees = allocate(p->tokens[QUERIES] * p->tokens[KEYS], 1);
    for (int64_t i = 0; i < p->tokens[QUERIES]; i++)
        for (int64_t j = 0; j < p->tokens[KEYS]; j++)
            p->area += p->sees[i * p->tokens[KEYS] + j] = (uint8_t)sees(p, i, j);
}

/* ---- the answer ---- */

/* One query row of one head. */
struct row {
    int64_t batch, query;
    int head;
    const int64_t *keys; /* those it sees, ascending */
    int64_t count;
    double *weight, *slope, *kept; /* [count]: of softmax; d score / d (q.k); 0 or 1 / (1 - dropout) */
};

static int64_t q_row(const struct masked *p, const struct row *r)
{
    return (r->batch * p->tokens[QUERIES] + r->query) * p->q_heads + r->head;
}

static int64_t kv_row(const struct masked *p, const struct row *r, int64_t n)
{
    return (r->batch * p->tokens[KEYS] + r->keys[n]) * p->kv_heads + r->head / (p->q_heads / p->kv_heads);
}

/* By two sums, which is twice as fast. */
static double dot(const float *a, const float *b, int count)
{
    double even = 0, odd = 0;

    for (int d = 0; d + 1 < count; d += 2) {
        even += (double)a[d] * b[d];
        odd += (double)a[d + 1] * b[d + 1];
    }
    return count % 2 ? even + odd + (double)a[count - 1] * b[count - 1] : even + odd;
}

static double score(const struct masked *p, double dotted, double *slope)
{
    double scale = 1 / sqrt(p->qk_dim), cap = p->is->softcap, bent;

    *slope = scale;
    if (cap == 0)
        return dotted * scale;
    bent = tanh(dotted * scale / cap);
    *slope = scale * (1 - bent * bent);
    return cap * bent;
}

/* Fills the row's weights; returns lse.  That of a row that sees nothing is the sink alone, and padding has
 * none. */
static double softmax_row(const struct masked *p, struct row *r)
{
    const float *q = p->q + q_row(p, r) * p->qk_dim;
    double max = p->sinks ? p->sinks[r->head] : -INFINITY, sum, drop = p->is->dropout;

    if (masked_is_padding(p, QUERIES, r->query))
        return -INFINITY;
    for (int64_t n = 0; n < r->count; n++) {
        r->weight[n] = score(p, dot(q, p->k + kv_row(p, r, n) * p->qk_dim, p->qk_dim), &r->slope[n]);
        max = fmax(max, r->weight[n]);
    }
    sum = p->sinks ? exp(p->sinks[r->head] - max) : 0;
    for (int64_t n = 0; n < r->count; n++)
        sum += r->weight[n] = exp(r->weight[n] - max);
    for (int64_t n = 0; n < r->count; n++) {
        int keeps = drop == 0 || rondo_dropout_keeps(p->seed, r->batch, r->head, r->query, r->keys[n], (float)drop);

        r->weight[n] /= sum;
        r->kept[n] = keeps ? 1 / (1 - drop) : 0;
    }
    return sum > 0 ? max + log(sum) : -INFINITY;
}

static void output_row(struct masked *p, const struct row *r)
{
    double *restrict o = p->o + q_row(p, r) * p->v_dim;

    for (int64_t n = 0; n < r->count; n++) {
        const float *v = p->v + kv_row(p, r, n) * p->v_dim;
        double weight = r->weight[n] * r->kept[n];

        for (int d = 0; d < p->v_dim; d++)
            o[d] += weight * v[d];
    }
}

static void gradient_row(struct masked *p, const struct row *r, double lse)
{
    int64_t at = q_row(p, r);
    const float *q = p->q + at * p->qk_dim, *d_o = p->d_o + at * p->v_dim;
    double *restrict dq = p->dq + at * p->qk_dim;
    double delta = 0;

    for (int d = 0; d < p->v_dim && r->count; d++)
        delta += p->o[at * p->v_dim + d] * d_o[d];
    for (int64_t n = 0; n < r->count; n++) {
        const float *k = p->k + kv_row(p, r, n) * p->qk_dim, *v = p->v + kv_row(p, r, n) * p->v_dim;
        double *restrict dk = p->dk + kv_row(p, r, n) * p->qk_dim, *restrict dv = p->dv + kv_row(p, r, n) * p->v_dim;
        double weight = r->weight[n] * r->kept[n];
        double ds = r->weight[n] * (r->kept[n] * dot(d_o, v, p->v_dim) - delta) * r->slope[n];

        for (int d = 0; d < p->v_dim; d++)
            dv[d] += weight * d_o[d];
        for (int d = 0; d < p->qk_dim; d++) {
            dq[d] += ds * k[d];
            dk[d] += ds * q[d];
        }
    }
    if (p->sinks && lse != -INFINITY)
        p->d_sinks[r->head] -= exp(p->sinks[r->head] - lse) * delta;
}

/* The query heads of one key head. */
static void solve_query(struct masked *p, struct row *r, int64_t *keys, int kv_head)
{
    const uint8_t *seen = p->sees + r->query * p->tokens[KEYS];
    int group = p->q_heads / p->kv_heads;

    r->keys = keys;
    r->count = 0;
    for (int64_t j = 0; j < p->tokens[KEYS]; j++)
        if (seen[j])
            keys[r->count++] = j;
    for (r->head = kv_head * group; r->head < (kv_head + 1) * group; r->head++) {
        p->lse[q_row(p, r)] = softmax_row(p, r);
        output_row(p, r);
        gradient_row(p, r, p->lse[q_row(p, r)]);
    }
}

static void clear(struct masked *p)
{
    size_t q = (size_t)(p->batch * p->tokens[QUERIES] * p->q_heads) * sizeof(double);
    size_t k = (size_t)(p->batch * p->tokens[KEYS] * p->kv_heads) * sizeof(double);

    memset(p->o, 0, q * (size_t)p->v_dim);
    memset(p->dq, 0, q * (size_t)p->qk_dim);
    memset(p->dk, 0, k * (size_t)p->qk_dim);
    memset(p->dv, 0, k * (size_t)p->v_dim);
    memset(p->d_sinks, 0, (size_t)p->q_heads * sizeof(double));
}

static void solve_head(void *context, int kv_head)
{
    struct masked *p = context;
    int64_t most = p->tokens[KEYS], *keys = allocate(most, sizeof(*keys));
    double *memory = allocate(3 * most, sizeof(*memory));
    struct row r = { .weight = memory, .slope = memory + most, .kept = memory + 2 * most };

    for (r.batch = 0; r.batch < p->batch; r.batch++)
        for (r.query = 0; r.query < p->tokens[QUERIES]; r.query++)
            solve_query(p, &r, keys, kv_head);
    free(memory);
    free(keys);
}

/* Threads where that is worth while: no two key heads write the same. */
void masked_solve(struct masked *p)
{
    clear(p);
    if (p->area > 100000)
        test_threads(p->kv_heads, solve_head, p);
    else
        for (int h = 0; h < p->kv_heads; h++)
            solve_head(p, h);
}

/* ---- inputs ---- */

static float *noise(const struct masked *p, int side, int row, uint64_t *seed)
{
    float *x = allocate(p->batch * p->tokens[side] * row, sizeof(*x));

    for (int64_t t = 0; t < p->batch * p->tokens[side]; t++)
        for (int c = 0; c < row; c++) {
            float value = (float)next_normal(seed);

            if (p->is->dtype != RONDO_F32)
                value = half_round(half_round(value, RONDO_F16), RONDO_BF16);
            x[t * row + c] = masked_is_padding(p, side, t % p->tokens[side]) ? NAN : value;
        }
    return x;
}

static int64_t *cu_of(const struct masked *p, int side)
{
    const struct packing *docs = packing_of(p, side);
    int64_t *cu;

    if (!docs)
        return NULL;
    cu = allocate(docs->documents + 1, sizeof(*cu));
    for (int d = 0; d < docs->documents; d++)
        cu[d + 1] = cu[d] + docs->slots[d];
    if (cu[docs->documents] != p->tokens[side]) {
        fprintf(stderr, "masks: %s: documents have %lld slots\n", p->is->name, (long long)cu[docs->documents]);
        exit(1);
    }
    return cu;
}

void masked_init(struct masked *p, const struct mask_case *is, uint64_t seed)
{
    const int *shape = shapes[is->shape];

    *p = (struct masked){ .is = is, .batch = shape[0], .q_heads = shape[1], .kv_heads = shape[2],
                          .qk_dim = shape[3], .v_dim = shape[4], .seed = seed * 977 + 5 };
    for (int side = 0; side < 2; side++)
        p->tokens[side] = is->tokens[side] ? is->tokens[side] : is->tokens[QUERIES];
    for (int side = 0; side < 2; side++)
        p->cu[side] = cu_of(p, side);
    p->q = noise(p, QUERIES, p->q_heads * p->qk_dim, &seed);
    p->k = noise(p, KEYS, p->kv_heads * p->qk_dim, &seed);
    p->v = noise(p, KEYS, p->kv_heads * p->v_dim, &seed);
    p->d_o = noise(p, QUERIES, p->q_heads * p->v_dim, &seed);
    if (is->sinks)
        p->sinks = allocate(p->q_heads, sizeof(float));
    for (int h = 0; h < p->q_heads && is->sinks; h++)
        p->sinks[h] = (float)next_normal(&seed) + 1;
    p->o = allocate(p->batch * p->tokens[QUERIES] * p->q_heads * p->v_dim, sizeof(double));
    p->lse = allocate(p->batch * p->tokens[QUERIES] * p->q_heads, sizeof(double));
    p->dq = allocate(p->batch * p->tokens[QUERIES] * p->q_heads * p->qk_dim, sizeof(double));
    p->dk = allocate(p->batch * p->tokens[KEYS] * p->kv_heads * p->qk_dim, sizeof(double));
    p->dv = allocate(p->batch * p->tokens[KEYS] * p->kv_heads * p->v_dim, sizeof(double));
    p->d_sinks = allocate(p->q_heads, sizeof(double));
    fill_sees(p);
    masked_solve(p);
}

void masked_release(struct masked *p)
{
    void *all[] = { p->cu[0], p->cu[1], p->sees, p->q, p->k, p->v, p->d_o, p->sinks, p->o, p->lse,
                    p->dq, p->dk, p->dv, p->d_sinks };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}
