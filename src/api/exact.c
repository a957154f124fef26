/* SPDX-License-Identifier: Apache-2.0 */
/* Attention from its definition.  Row (b, i, h) has scores s_j = scale q_i.k_j, weights p_j = exp(s_j - lse),
 * o = sum_j z_j p_j v_j; with g_j = p_j (z_j dO.v_j - dO.o) s'_j:  dq = scale sum_j g_j k_j,
 * dk_j += scale g_j q_i,  dv_j += z_j p_j dO.  z_j is 1, or what dropout makes of it; s'_j is 1, or the derivative
 * of the soft-cap. */
#include "api/exact.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "kernels/convert.h"

/* Weights below it are lost in fp32, where exp has nothing smaller than 1e-38. */
static const double weight_floor = 1e-30;

struct row {
    int64_t batch, query, seen; /* positions; keys 0 .. seen - 1 are seen */
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

size_t ri_exact_input_bytes(const struct rondo_layout *layout, const rondo_attention_desc_t *desc,
                            enum ri_pass_kind kind, int rank)
{
    size_t bytes = 0;

    for (const enum ri_tensor *t = ri_exact_inputs(kind); *t != RI_TENSORS; t++)
        bytes += ri_tensor_bytes(desc, *t, ri_layout_tokens(layout, rank));
    return bytes;
}

static int expect(struct ri_exact *x, enum ri_tensor tensor)
{
    struct ri_expected *e = &x->expected[tensor];
    int64_t n = ri_layout_tokens(x->layout, x->rank);

    e->count = (int64_t)ri_tensor_elements(&x->desc, tensor, n);
    e->value = calloc((size_t)e->count + 1, sizeof(*e->value));
    e->size = calloc((size_t)e->count + 1, sizeof(*e->size));
    return e->value && e->size ? 0 : -1;
}

static int allocate(struct ri_exact *x)
{
    static const enum ri_tensor outputs[] = { RI_T_O, RI_T_LSE, RI_T_DQ, RI_T_DK, RI_T_DV };
    int err = 0;

    x->tokens = calloc((size_t)x->layout->ranks, sizeof(*x->tokens));
    x->shards = calloc((size_t)x->layout->ranks, sizeof(*x->shards));
    x->places = calloc((size_t)x->layout->tokens, sizeof(*x->places));
    if (!x->tokens || !x->shards || !x->places)
        return -1;
    for (int r = 0; r < x->layout->ranks; r++) {
        x->tokens[r] = ri_layout_tokens(x->layout, r);
        x->shards[r] = malloc(ri_exact_input_bytes(x->layout, &x->desc, x->kind, r) + 1);
        if (!x->shards[r])
            return -1;
    }
    for (int i = 0; !err && i < (x->kind == RI_BACKWARD ? 5 : 2); i++)
        err = expect(x, outputs[i]);
    return err;
}

/* Half of the last bit, relative to a number that has all of them. */
static double rounding_of(rondo_dtype_t type)
{
    return type == RONDO_F32 ? 0 : ldexp(1, type == RONDO_BF16 ? -8 : -11) / RI_EXACT_RELATIVE;
}

int ri_exact_create(const struct rondo_layout *layout, const rondo_attention_desc_t *desc,
                    enum ri_pass_kind kind, int rank, struct ri_exact **exact)
{
    struct ri_exact *x = calloc(1, sizeof(*x));

    if (x) {
        x->desc = *desc;
        x->kind = kind;
        x->rank = rank;
        x->rounding = rounding_of(desc->dtype);
    }
    if (!x || ri_layout_copy(layout, &x->layout) || allocate(x)) {
        ri_exact_destroy(x);
        return ri_error(RONDO_ERR_MEMORY, "out of memory to verify %lld tokens; unset RONDO_VERIFY",
                        (long long)layout->tokens);
    }
    for (int64_t p = 0; p < layout->tokens; p++)
        ri_layout_owner(layout, p, &x->places[p].rank, &x->places[p].index);
    *exact = x;
    return 0;
}

static void release_inputs(struct ri_exact *x)
{
    for (int r = 0; x->shards && r < x->layout->ranks; r++)
        free(x->shards[r]);
    free(x->shards);
    x->shards = NULL;
}

void ri_exact_destroy(struct ri_exact *x)
{
    if (!x)
        return;
    release_inputs(x);
    for (int t = 0; t < RI_TENSORS; t++) {
        free(x->expected[t].value);
        free(x->expected[t].size);
    }
    free(x->tokens);
    free(x->places);
    ri_layout_free(x->layout);
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
    struct ri_exact_place at = x->places[position];
    int64_t n = x->tokens[at.rank];
    size_t before = 0;

    for (const enum ri_tensor *t = ri_exact_inputs(x->kind); *t != tensor; t++)
        before += ri_tensor_elements(&x->desc, *t, n);
    return (const float *)x->shards[at.rank] + before + element(x, tensor, n, batch, at.index, head);
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
    assert(x->places[position].rank == x->rank);
    return element(x, tensor, x->tokens[x->rank], batch, x->places[position].index, head);
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
    if (!rondo_dropout_keeps(x->seed, row->batch, row->head, row->query, j, dropout))
        return 0;
    return 1 / (1 - (double)dropout);
}

static void weigh(const struct ri_exact *x, struct row *row)
{
    const float *q = input(x, RI_T_Q, row->batch, row->query, row->head);
    double sink = x->sinks ? (double)x->sinks[row->head] : -INFINITY, top = sink, sum = 0, scale = x->desc.scale, size;

    row->gain = 1;
    for (int64_t j = 0; j < row->seen; j++) {
        row->p[j] = scale * dot(q, input(x, RI_T_K, row->batch, j, row->kv_head), x->desc.qk_dim, &size);
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
        const float *v = input(x, RI_T_V, row->batch, j, row->kv_head);

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

/* What query and key j give each other; only our own tokens take. */
static void exchange_gradients(const struct ri_exact *x, const struct row *row, int64_t j)
{
    const float *q = input(x, RI_T_Q, row->batch, row->query, row->head);
    const float *k = input(x, RI_T_K, row->batch, j, row->kv_head);
    const float *d_o = input(x, RI_T_D_O, row->batch, row->query, row->head);
    double size, z = row->keep[j], p = row->p[j], p_size = row->gain * (p + weight_floor), scale = x->desc.scale;
    double d_p = dot(d_o, input(x, RI_T_V, row->batch, j, row->kv_head), x->desc.v_dim, &size);
    double g = scale * p * (z * d_p - row->delta) * row->slope[j];
    double g_size = fabs(scale) * p_size * (z * size + row->delta_size);
    int query_takes = x->places[row->query].rank == x->rank, key_takes = x->places[j].rank == x->rank;
    int64_t dq = query_takes ? own(x, RI_T_DQ, row->batch, row->query, row->head) : 0;
    int64_t dk = key_takes ? own(x, RI_T_DK, row->batch, j, row->kv_head) : 0;
    int64_t dv = key_takes ? own(x, RI_T_DV, row->batch, j, row->kv_head) : 0;

    for (int c = 0; query_takes && c < x->desc.qk_dim; c++)
        add(x, RI_T_DQ, dq + c, g * k[c], g_size * fabs((double)k[c]));
    for (int c = 0; key_takes && c < x->desc.qk_dim; c++)
        add(x, RI_T_DK, dk + c, g * q[c], g_size * fabs((double)q[c]));
    for (int c = 0; key_takes && c < x->desc.v_dim; c++)
        add(x, RI_T_DV, dv + c, z * p * d_o[c], z * p_size * fabs((double)d_o[c]));
}

static void solve_row(const struct ri_exact *x, struct row *row)
{
    int is_ours = x->places[row->query].rank == x->rank;

    row->seen = x->desc.mask == RONDO_MASK_CAUSAL ? row->query + 1 : x->layout->tokens;
    row->kv_head = row->head / (x->desc.q_heads / x->desc.kv_heads);
    if (!is_ours && x->kind == RI_FORWARD)
        return;
    weigh(x, row);
    read_values(x, row);
    if (is_ours)
        keep_forward(x, row);
    if (x->kind == RI_FORWARD)
        return;
    sum_delta(x, row);
    for (int64_t j = 0; j < row->seen; j++)
        if (is_ours || x->places[j].rank == x->rank)
            exchange_gradients(x, row, j);
}

/* The inputs become fp32, which loses nothing. */
static int widen(struct ri_exact *x)
{
    for (int r = 0; r < x->layout->ranks && x->desc.dtype != RONDO_F32; r++) {
        size_t count = ri_exact_input_bytes(x->layout, &x->desc, x->kind, r) / ri_convert_bytes(x->desc.dtype);
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

int ri_exact_solve(struct ri_exact *x)
{
    struct row row = {
        .p = calloc((size_t)x->layout->tokens, 3 * sizeof(double)),
        .o = calloc((size_t)x->desc.v_dim, sizeof(double)),
        .o_size = calloc((size_t)x->desc.v_dim, sizeof(double)),
    };
    int enough = row.p && row.o && row.o_size && widen(x), good = enough && x->tokens[x->rank] > 0;

    row.slope = row.p ? row.p + x->layout->tokens : NULL;
    row.keep = row.p ? row.slope + x->layout->tokens : NULL;
    for (row.batch = 0; good && row.batch < x->desc.batch; row.batch++)
        for (row.query = 0; row.query < x->layout->tokens; row.query++)
            for (row.head = 0; row.head < x->desc.q_heads; row.head++)
                solve_row(x, &row);
    allow_rounding(x);
    free(row.p);
    free(row.o);
    free(row.o_size);
    release_inputs(x);
    return enough ? 0 : ri_error(RONDO_ERR_MEMORY, "out of memory to verify a row of %lld keys",
                               (long long)x->layout->tokens);
}
