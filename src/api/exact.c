/* SPDX-License-Identifier: Apache-2.0 */
/* Attention from its definition.  Row (b, i, h) has scores s_j = scale q_i.k_j, weights p_j = exp(s_j - lse),
 * o = sum_j z_j p_j v_j; with g_j = p_j (z_j dO.v_j - dO.o) s'_j:  dq = scale sum_j g_j k_j,
 * dk_j += scale g_j q_i,  dv_j += z_j p_j dO.  z_j is 1, or what dropout makes of it; s'_j is 1, or the derivative
 * of the soft-cap.  A sink is a score of value 0: its gradient is -sum_i exp(sink - lse_i) dO_i.o_i. */
#include "api/exact.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "kernels/convert.h"

/* Weights below it are lost in fp32, where exp has nothing smaller than 1e-38. */
static const double weight_floor = 1e-30;

struct row {
    int64_t batch, query, seen; /* position of the query; how many keys it sees */
    int64_t *keys;              /* [seen] their positions */
    int head, kv_head;
    double *p;                  /* [seen] */
    double *slope, *keep;       /* [seen] s' and z */
    double *o, *o_size;         /* [v_dim] */
    double lse;
    double gain; /* 1 + the largest magnitude of a score: roundings of scores multiply weights by it */
    double delta, delta_size;   /* dO.o */
};

/* ---- memory ---- */

const enum ri_tensor *ri_exact_inputs(enum ri_pass_kind kind)
{
    static const enum ri_tensor lists[RI_PASSES][5] = {
        [RI_FORWARD] = { RI_T_Q, RI_T_K, RI_T_V, RI_TENSORS },
        [RI_BACKWARD] = { RI_T_Q, RI_T_K, RI_T_V, RI_T_D_O, RI_TENSORS },
    };

    return lists[kind];
}

static const struct rondo_layout *layout_of(const struct ri_sight *sight, enum ri_tensor tensor)
{
    return ri_tensor_side(tensor) == RI_KEYS ? sight->k : sight->q;
}

size_t ri_exact_input_bytes(const struct ri_sight *sight, const rondo_attention_desc_t *desc,
                            enum ri_pass_kind kind, int rank)
{
    size_t bytes = 0;

    for (const enum ri_tensor *t = ri_exact_inputs(kind); *t != RI_TENSORS; t++)
        bytes += ri_tensor_bytes(desc, *t, ri_layout_tokens(layout_of(sight, *t), rank));
    return bytes;
}

static int expect(struct ri_expected *e, int64_t count)
{
    e->count = count;
    e->value = calloc((size_t)e->count + 1, sizeof(*e->value));
    e->size = calloc((size_t)e->count + 1, sizeof(*e->size));
    return e->value && e->size ? 0 : -1;
}

/* Who holds what of one side. */
static int place(struct ri_exact *x, enum ri_side side)
{
    const struct rondo_layout *layout = side == RI_KEYS ? x->sight->k : x->sight->q;

    x->tokens[side] = calloc((size_t)layout->ranks, sizeof(*x->tokens[side]));
    x->places[side] = calloc((size_t)layout->tokens, sizeof(*x->places[side]));
    if (!x->tokens[side] || !x->places[side])
        return -1;
    for (int r = 0; r < layout->ranks; r++)
        x->tokens[side][r] = ri_layout_tokens(layout, r);
    for (int64_t p = 0; p < layout->tokens; p++)
        ri_layout_owner(layout, p, &x->places[side][p].rank, &x->places[side][p].index);
    return 0;
}

static int allocate(struct ri_exact *x)
{
    static const enum ri_tensor outputs[] = { RI_T_O, RI_T_LSE, RI_T_DQ, RI_T_DK, RI_T_DV };
    int ranks = x->sight->q->ranks, err = 0;

    x->shards = calloc((size_t)ranks, sizeof(*x->shards));
    if (!x->shards || place(x, RI_QUERIES) || place(x, RI_KEYS))
        return -1;
    for (int r = 0; r < ranks; r++) {
        x->shards[r] = malloc(ri_exact_input_bytes(x->sight, &x->desc, x->kind, r) + 1);
        if (!x->shards[r])
            return -1;
    }
    for (int i = 0; !err && i < (x->kind == RI_BACKWARD ? 5 : 2); i++) {
        int64_t n = ri_layout_tokens(layout_of(x->sight, outputs[i]), x->rank);

        err = expect(&x->expected[outputs[i]], (int64_t)ri_tensor_elements(&x->desc, outputs[i], n));
    }
    if (!err && x->kind == RI_BACKWARD && x->desc.has_sinks)
        err = expect(&x->d_sinks, x->desc.q_heads);
    return err;
}

/* Half of the last bit, relative to a number that has all of them. */
static double rounding_of(rondo_dtype_t type)
{
    return type == RONDO_F32 ? 0 : ldexp(1, type == RONDO_BF16 ? -8 : -11) / RI_EXACT_RELATIVE;
}

int ri_exact_create(const struct ri_sight *sight, const rondo_attention_desc_t *desc,
                    enum ri_pass_kind kind, int rank, struct ri_exact **exact)
{
    struct ri_exact *x = calloc(1, sizeof(*x));

    if (x) {
        x->sight = sight;
        x->desc = *desc;
        x->kind = kind;
        x->rank = rank;
        x->rounding = rounding_of(desc->dtype);
    }
    if (!x || allocate(x)) {
        ri_exact_destroy(x);
        return ri_error(RONDO_ERR_MEMORY, "out of memory to verify %lld tokens; unset RONDO_VERIFY",
                        (long long)sight->q->tokens);
    }
    *exact = x;
    return 0;
}

static void release_inputs(struct ri_exact *x)
{
    for (int r = 0; x->shards && r < x->sight->q->ranks; r++)
        free(x->shards[r]);
    free(x->shards);
    x->shards = NULL;
}

static void release_expected(struct ri_expected *e)
{
    free(e->value);
    free(e->size);
}

void ri_exact_destroy(struct ri_exact *x)
{
    if (!x)
        return;
    release_inputs(x);
    for (int t = 0; t < RI_TENSORS; t++)
        release_expected(&x->expected[t]);
    release_expected(&x->d_sinks);
    for (int side = 0; side < RI_SIDES; side++) {
        free(x->tokens[side]);
        free(x->places[side]);
    }
    free(x);
}

/* ---- elements ---- */

/* Of the first dim of a token's head, in a shard of n tokens. */
static int64_t element(const struct ri_exact *x, enum ri_tensor tensor, int64_t n, int64_t batch,
                       int64_t index, int head)
{
    struct ri_shape shape = ri_tensor_shape(&x->desc, tensor);

    if (shape.head_major)
        return (batch * shape.heads + head) * n + index;
    return ((batch * n + index) * shape.heads + head) * shape.dim;
}

/* [dim] */
static const float *input(const struct ri_exact *x, enum ri_tensor tensor, int64_t batch, int64_t position,
                          int head)
{
    struct ri_exact_place at = x->places[ri_tensor_side(tensor)][position];
    size_t before = 0;

    for (const enum ri_tensor *t = ri_exact_inputs(x->kind); *t != tensor; t++)
        before += ri_tensor_elements(&x->desc, *t, x->tokens[ri_tensor_side(*t)][at.rank]);
    return (const float *)x->shards[at.rank] + before +
           element(x, tensor, x->tokens[ri_tensor_side(tensor)][at.rank], batch, at.index, head);
}

static void add(const struct ri_exact *x, enum ri_tensor tensor, int64_t element_index, double value,
                double size)
{
    x->expected[tensor].value[element_index] += value;
    x->expected[tensor].size[element_index] += size;
}

/* Into a token's head of our own shard. */
static int64_t own(const struct ri_exact *x, enum ri_tensor tensor, int64_t batch, int64_t position, int head)
{
    enum ri_side side = ri_tensor_side(tensor);

    assert(x->places[side][position].rank == x->rank);
    return element(x, tensor, x->tokens[side][x->rank], batch, x->places[side][position].index, head);
}

/* Sum of a_c b_c, and of its magnitudes. */
static double dot(const float *a, const float *b, int dim, double *size)
{
    double sum = 0;

    *size = 0;
    for (int c = 0; c < dim; c++) {
        sum += (double)a[c] * b[c];
        *size += fabs((double)a[c] * b[c]);
    }
    return sum;
}

/* ---- one row ---- */

/* Makes a product a score, of which nothing is larger than the soft-cap. */
static void cap(const struct ri_exact *x, struct row *row, int64_t j)
{
    double most = x->desc.softcap, t = most > 0 ? tanh(row->p[j] / most) : 0;

    row->slope[j] = 1 - t * t;
    if (most > 0)
        row->p[j] = most * t;
}

static double keep(const struct ri_exact *x, const struct row *row, int64_t j)
{
    float dropout = x->desc.dropout;

    if (dropout <= 0)
        return 1;
    if (!rondo_dropout_keeps(x->seed, row->batch, row->head, row->query, row->keys[j], dropout))
        return 0;
    return 1 / (1 - (double)dropout);
}

static void weigh(const struct ri_exact *x, struct row *row)
{
    const float *q = input(x, RI_T_Q, row->batch, row->query, row->head);
    int is_token = ri_layout_is_token(x->sight->q, row->query);
    double sink = x->sinks && is_token ? (double)x->sinks[row->head] : -INFINITY, top = sink, sum = 0, scale = x->desc.scale, size;

    row->gain = 1;
    for (int64_t j = 0; j < row->seen; j++) {
        row->p[j] = scale * dot(q, input(x, RI_T_K, row->batch, row->keys[j], row->kv_head), x->desc.qk_dim, &size);
        cap(x, row, j);
        row->keep[j] = keep(x, row, j);
        top = fmax(top, row->p[j]);
        row->gain = fmax(row->gain, 1 + fabs(scale) * size);
    }
    for (int64_t j = 0; j < row->seen; j++)
        sum += exp(row->p[j] - top);
    row->lse = top + log(sum + (sink == -INFINITY ? 0 : exp(sink - top)));
    for (int64_t j = 0; j < row->seen; j++)
        row->p[j] = exp(row->p[j] - row->lse);
}

static void read_values(const struct ri_exact *x, struct row *row)
{
    for (int c = 0; c < x->desc.v_dim; c++)
        row->o[c] = row->o_size[c] = 0;
    for (int64_t j = 0; j < row->seen; j++) {
        const float *v = input(x, RI_T_V, row->batch, row->keys[j], row->kv_head);

        for (int c = 0; c < x->desc.v_dim; c++) {
            row->o[c] += row->keep[j] * row->p[j] * v[c];
            row->o_size[c] += row->keep[j] * (row->p[j] + weight_floor) * fabs((double)v[c]);
        }
    }
}

static void keep_forward(const struct ri_exact *x, const struct row *row)
{
    int64_t o = own(x, RI_T_O, row->batch, row->query, row->head);

    for (int c = 0; c < x->desc.v_dim; c++)
        add(x, RI_T_O, o + c, row->o[c], row->gain * row->o_size[c] + x->rounding * fabs(row->o[c]));
    add(x, RI_T_LSE, own(x, RI_T_LSE, row->batch, row->query, row->head), row->lse,
        row->gain + fabs(row->lse));
}

static void sum_delta(const struct ri_exact *x, struct row *row)
{
    const float *d_o = input(x, RI_T_D_O, row->batch, row->query, row->head);

    row->delta = row->delta_size = 0;
    for (int c = 0; c < x->desc.v_dim; c++) {
        row->delta += d_o[c] * row->o[c];
        row->delta_size += fabs((double)d_o[c]) * (row->o_size[c] + x->rounding * fabs(row->o[c]));
    }
}

/* What the row gives to the gradient of its sink, of which an error of lse makes as large a one. */
static void keep_sink(const struct ri_exact *x, const struct row *row)
{
    double weight = row->seen > 0 ? exp((double)x->sinks[row->head] - row->lse) : 0;

    if (weight == 0)
        return;
    x->d_sinks.value[row->head] -= weight * row->delta;
    x->d_sinks.size[row->head] += (row->gain + fabs(row->lse)) * (weight + weight_floor) * row->delta_size;
}

static int is_ours(const struct ri_exact *x, enum ri_side side, int64_t position)
{
    return x->places[side][position].rank == x->rank;
}

/* What query and the j-th key that it sees give each other; only our own tokens take. */
static void exchange_gradients(const struct ri_exact *x, const struct row *row, int64_t j)
{
    const float *q = input(x, RI_T_Q, row->batch, row->query, row->head);
    const float *k = input(x, RI_T_K, row->batch, row->keys[j], row->kv_head);
    const float *d_o = input(x, RI_T_D_O, row->batch, row->query, row->head);
    double size, z = row->keep[j], p = row->p[j], p_size = row->gain * (p + weight_floor), scale = x->desc.scale;
    double d_p = dot(d_o, input(x, RI_T_V, row->batch, row->keys[j], row->kv_head), x->desc.v_dim, &size);
    double g = scale * p * (z * d_p - row->delta) * row->slope[j];
    double g_size = fabs(scale) * p_size * (z * size + row->delta_size);
    int64_t key = row->keys[j];
    int query_takes = is_ours(x, RI_QUERIES, row->query), key_takes = is_ours(x, RI_KEYS, key);
    int64_t dq = query_takes ? own(x, RI_T_DQ, row->batch, row->query, row->head) : 0;
    int64_t dk = key_takes ? own(x, RI_T_DK, row->batch, key, row->kv_head) : 0;
    int64_t dv = key_takes ? own(x, RI_T_DV, row->batch, key, row->kv_head) : 0;

    for (int c = 0; query_takes && c < x->desc.qk_dim; c++)
        add(x, RI_T_DQ, dq + c, g * k[c], g_size * fabs((double)k[c]));
    for (int c = 0; key_takes && c < x->desc.qk_dim; c++)
        add(x, RI_T_DK, dk + c, g * q[c], g_size * fabs((double)q[c]));
    for (int c = 0; key_takes && c < x->desc.v_dim; c++)
        add(x, RI_T_DV, dv + c, z * p * d_o[c], z * p_size * fabs((double)d_o[c]));
}

static void solve_row(const struct ri_exact *x, struct row *row)
{
    int ours = is_ours(x, RI_QUERIES, row->query);

    row->kv_head = row->head / (x->desc.q_heads / x->desc.kv_heads);
    if (!ours && x->kind == RI_FORWARD)
        return;
    weigh(x, row);
    read_values(x, row);
    if (ours)
        keep_forward(x, row);
    if (x->kind == RI_FORWARD)
        return;
    sum_delta(x, row);
    if (ours && x->sinks)
        keep_sink(x, row);
    for (int64_t j = 0; j < row->seen; j++)
        if (ours || is_ours(x, RI_KEYS, row->keys[j]))
            exchange_gradients(x, row, j);
}

/* The inputs become fp32, which loses nothing. */
static int widen(struct ri_exact *x)
{
    for (int r = 0; r < x->sight->q->ranks && x->desc.dtype != RONDO_F32; r++) {
        size_t count = ri_exact_input_bytes(x->sight, &x->desc, x->kind, r) / ri_convert_bytes(x->desc.dtype);
        float *wide = malloc((count + 1) * sizeof(*wide));

        if (!wide)
            return 0;
        ri_convert_to_f32(wide, x->shards[r], x->desc.dtype, count);
        free(x->shards[r]);
        x->shards[r] = wide;
    }
    return 1;
}

/* Gradients are rounded, too. */
static void allow_rounding(struct ri_exact *x)
{
    static const enum ri_tensor gradients[] = { RI_T_DQ, RI_T_DK, RI_T_DV };

    for (int i = 0; i < 3 && x->kind == RI_BACKWARD; i++) {
        struct ri_expected *e = &x->expected[gradients[i]];

        for (int64_t j = 0; j < e->count; j++)
            e->size[j] += x->rounding * fabs(e->value[j]);
    }
}

/* The keys that a query sees. */
static void look(const struct ri_exact *x, struct row *row)
{
    row->seen = 0;
    for (int64_t j = 0; j < x->sight->k->tokens; j++)
        if (ri_mask_sees(&x->sight->mask, x->sight->q, x->sight->k, row->query, j))
            row->keys[row->seen++] = j;
}

int ri_exact_solve(struct ri_exact *x)
{
    size_t keys = (size_t)x->sight->k->tokens;
    struct row row = {
        .p = calloc(keys, 3 * sizeof(double)),
        .keys = calloc(keys, sizeof(int64_t)),
        .o = calloc((size_t)x->desc.v_dim, sizeof(double)),
        .o_size = calloc((size_t)x->desc.v_dim, sizeof(double)),
    };
    int enough = row.p && row.keys && row.o && row.o_size && widen(x);

    row.slope = row.p ? row.p + keys : NULL;
    row.keep = row.p ? row.slope + keys : NULL;
    for (row.query = 0; enough && row.query < x->sight->q->tokens; row.query++) {
        look(x, &row);
        for (row.batch = 0; row.batch < x->desc.batch; row.batch++)
            for (row.head = 0; row.head < x->desc.q_heads; row.head++)
                solve_row(x, &row);
    }
    allow_rounding(x);
    free(row.p);
    free(row.keys);
    free(row.o);
    free(row.o_size);
    release_inputs(x);
    return enough ? 0 : ri_error(RONDO_ERR_MEMORY, "out of memory to verify a row of %lld keys",
                               (long long)keys);
}
