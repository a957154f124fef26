/* SPDX-License-Identifier: Apache-2.0 */
#include "api/verify.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/exact.h"
#include "api/plan.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/status.h"
#include "kernels/convert.h"

/* What underflows is let go: of fp32 and bf16, and of f16. */
static const double absolute = 1e-36, absolute_f16 = 1e-7;

/* A slice of every rank's inputs travels at a time, and all slices together stay within the second. */
enum { SLICE_BYTES = 1 << 20, SLICES_BYTES = 64 << 20 };

struct ri_verify {
    uint32_t plan;
    struct ri_exact *exact;
    const void *outputs[RI_TENSORS]; /* the caller's, and o and lse that it gave a backward */
    const float *d_sinks;            /* NULL: none */
};

void ri_verify_destroy(struct ri_verify *verify)
{
    if (!verify)
        return;
    ri_exact_destroy(verify->exact);
    free(verify);
}

/* ---- all ranks send their inputs ---- */

/* One rank's part of the exchange; its plan, its layout and the pass. */
struct gathering {
    struct rondo_comm *comm;
    const struct ri_plan *plan;
    enum ri_pass_kind kind;
    const void *const *tensors; /* [RI_TENSORS] of this start */
    uint64_t seed;              /* of its dropout; 0 without */
    const float *sinks, *d_sinks; /* NULL: none */
    struct ri_exact *exact;     /* where the inputs go; NULL on ranks that only send */
    char *mine, *all;           /* [slice_bytes], [size][slice_bytes] */
    size_t slice_bytes;
};

static size_t input_bytes(const struct gathering *g, int rank)
{
    return ri_exact_input_bytes(&g->plan->sight, &g->plan->desc, g->kind, rank);
}

static int64_t own_tokens(const struct gathering *g, enum ri_tensor tensor)
{
    return ri_layout_tokens(g->plan->layout[ri_tensor_side(tensor)], g->comm->rank);
}

/* Bytes [first, first + bytes) of our inputs, as far as there are. */
static void fill_slice(const struct gathering *g, size_t first, size_t bytes)
{
    size_t begin = 0, end = 0;

    for (const enum ri_tensor *t = ri_exact_inputs(g->kind); *t != RI_TENSORS; t++, begin = end) {
        size_t from = begin > first ? begin : first, to;

        end = begin + ri_tensor_bytes(&g->plan->desc, *t, own_tokens(g, *t));
        to = ri_min_size(end, first + bytes);
        if (from < to)
            memcpy(g->mine + (from - first), (const char *)g->tensors[*t] + (from - begin), to - from);
    }
}

static void keep_slices(const struct gathering *g, size_t first, size_t bytes)
{
    for (int r = 0; r < g->comm->size; r++) {
        size_t end = ri_min_size(input_bytes(g, r), first + bytes);

        if (first < end)
            memcpy((char *)g->exact->shards[r] + first, g->all + (size_t)r * bytes, end - first);
    }
}

static int send_slices(const struct gathering *g)
{
    size_t longest = 0, bytes;
    int err = 0;

    for (int r = 0; r < g->comm->size; r++)
        longest = input_bytes(g, r) > longest ? input_bytes(g, r) : longest;
    for (size_t first = 0; !err && first < longest; first += bytes) {
        bytes = ri_min_size(g->slice_bytes, longest - first);
        fill_slice(g, first, bytes);
        err = ri_comm_exchange(g->comm, "verification", g->mine, bytes, g->all);
        if (!err && g->exact)
            keep_slices(g, first, bytes);
    }
    return err;
}

/* status: what this rank's preparations said.  All must be in the same start, of the same length. */
static int talk(const struct gathering *g, int status)
{
    const struct ri_field fields[] = {
        { "plan number", g->plan->number }, { "pass", g->kind, ri_pass_names, RI_PASSES, NULL },
        { "tokens", g->plan->layout[RI_QUERIES]->tokens }, { "seed", (int64_t)g->seed },
    };
    int err = ri_agree(g->comm, "verification", fields, (int)(sizeof(fields) / sizeof(fields[0])), status);

    assert(err || !status); /* a rank that failed agrees with nobody */
    return err ? err : send_slices(g);
}

static int prepare(struct gathering *g, struct ri_verify *verify)
{
    size_t size = (size_t)g->comm->size;

    g->slice_bytes = ri_min_size(SLICE_BYTES, SLICES_BYTES / size);
    g->mine = calloc(1, g->slice_bytes);
    g->all = malloc(size * g->slice_bytes);
    if (!g->mine || !g->all)
        return ri_error(RONDO_ERR_MEMORY, "out of memory for %zu slices of %zu bytes; unset RONDO_VERIFY", size,
                        g->slice_bytes);
    if (!verify)
        return 0;
    return ri_exact_create(&g->plan->sight, &g->plan->desc, g->kind, g->comm->rank, &verify->exact);
}

/* Without the lock.  verify NULL: this rank only sends. */
static int gather(struct gathering *g, struct ri_verify *verify, int status)
{
    int err = ri_comm_talk_begin(g->comm, "verification");

    if (err)
        return err;
    if (!status)
        status = prepare(g, verify);
    g->exact = verify ? verify->exact : NULL;
    err = talk(g, status);
    ri_comm_talk_end(g->comm);
    free(g->mine);
    free(g->all);
    return err;
}

/* ---- a start ---- */

static int verify_unlocked(struct gathering *g, struct ri_verify **verify_p)
{
    int is_ours = g->plan->number % (uint32_t)g->comm->size == (uint32_t)g->comm->rank;
    struct ri_verify *verify = NULL;
    int status = 0, err;

    if (is_ours) {
        verify = calloc(1, sizeof(*verify));
        if (!verify)
            status = ri_error(RONDO_ERR_MEMORY, "out of memory for a verification");
    }
    err = gather(g, verify, status);
    if (!err && verify) {
        verify->exact->seed = g->seed;
        verify->exact->sinks = g->sinks;
        err = ri_exact_solve(verify->exact);
    }
    if (err || !verify) {
        ri_verify_destroy(verify);
        return err;
    }
    verify->plan = g->plan->number;
    memcpy(verify->outputs, g->tensors, sizeof(verify->outputs));
    verify->d_sinks = g->d_sinks;
    *verify_p = verify;
    return 0;
}

/* g holds what the caller gave. */
static int verify_start(struct rondo_plan *plan, const struct ri_run *run, struct gathering g,
                        struct ri_verify **verify)
{
    int err;

    *verify = NULL;
    if (!plan->comm->config.verify || run->number != 0)
        return 0;
    g.comm = plan->comm;
    g.plan = plan->plan;
    g.kind = run->pass->kind;
    g.seed = plan->plan->desc.dropout > 0 ? g.seed : 0;
    ri_family_unlock(plan->comm->family);
    err = verify_unlocked(&g, verify);
    ri_family_relock(plan->comm->family);
    if (!err && plan->comm->failed)
        err = ri_error(plan->comm->failed, "%s", plan->comm->failure);
    if (err) {
        ri_verify_destroy(*verify);
        *verify = NULL;
    }
    return err;
}

int ri_verify_forward(struct rondo_plan *plan, const struct ri_run *run, const rondo_attention_fwd_t *tensors,
                      struct ri_verify **verify)
{
    const void *all[RI_TENSORS] = {
        [RI_T_Q] = tensors->q, [RI_T_K] = tensors->k,     [RI_T_V] = tensors->v,
        [RI_T_O] = tensors->o, [RI_T_LSE] = tensors->lse,
    };
    struct gathering g = { .tensors = all, .seed = tensors->seed, .sinks = tensors->sinks };

    return verify_start(plan, run, g, verify);
}

int ri_verify_backward(struct rondo_plan *plan, const struct ri_run *run, const rondo_attention_bwd_t *tensors,
                       struct ri_verify **verify)
{
    const void *all[RI_TENSORS] = {
        [RI_T_Q] = tensors->q,     [RI_T_K] = tensors->k,   [RI_T_V] = tensors->v,
        [RI_T_O] = tensors->o,     [RI_T_LSE] = tensors->lse, [RI_T_D_O] = tensors->d_o,
        [RI_T_DQ] = tensors->dq,   [RI_T_DK] = tensors->dk, [RI_T_DV] = tensors->dv,
    };
    struct gathering g = { .tensors = all, .seed = tensors->seed, .sinks = tensors->sinks,
                           .d_sinks = tensors->d_sinks };

    return verify_start(plan, run, g, verify);
}

/* ---- its end ---- */

struct comparison {
    int64_t compared, strange;  /* elements; those of infinite or undefined inputs are not compared */
    double largest;             /* difference */
    double excess;              /* the worst of this tensor, as a multiple of what is allowed */
    int64_t worst;              /* its element */
};

static double allowed(const struct ri_expected *e, rondo_dtype_t type, int64_t i)
{
    return RI_EXACT_RELATIVE * e->size[i] + (type == RONDO_F16 ? absolute_f16 : absolute);
}

static double number(const void *tensor, rondo_dtype_t type, int64_t i)
{
    float value;

    ri_convert_to_f32(&value, (const char *)tensor + (size_t)i * ri_convert_bytes(type), type, 1);
    return (double)value;
}

static void compare_tensor(struct comparison *c, const struct ri_expected *e, const void *got,
                           rondo_dtype_t type)
{
    c->excess = 0;
    for (int64_t i = 0; i < e->count; i++) {
        double off = fabs(number(got, type, i) - e->value[i]);
        double excess = isnan(off) ? (double)INFINITY : off / allowed(e, type, i);

        if (!isfinite(e->value[i]) || !isfinite(e->size[i])) {
            c->strange++;
            continue;
        }
        c->compared++;
        c->largest = fmax(c->largest, off);
        if (excess > c->excess) {
            c->excess = excess;
            c->worst = i;
        }
    }
}

/* Where element i of a tensor is, in words. */
static int refuse(const struct ri_verify *v, enum ri_tensor tensor, int64_t i)
{
    const struct ri_exact *x = v->exact;
    const struct ri_expected *e = &x->expected[tensor];
    struct ri_shape shape = ri_tensor_shape(&x->desc, tensor);
    rondo_dtype_t type = ri_tensor_type(&x->desc, tensor);
    enum ri_side side = ri_tensor_side(tensor);
    int64_t n = x->tokens[side][x->rank], row = i / shape.dim;
    int64_t token = shape.head_major ? row % n : row / shape.heads % n;
    int64_t head = shape.head_major ? row / n % shape.heads : row % shape.heads;

    return ri_error(RONDO_ERR_VERIFY, "plan %u, %s: %s of rank %d is wrong: batch row %lld, position %lld, "
                    "head %lld, element %lld is %.9g, not %.9g; %.2g may differ", v->plan,
                    ri_pass_names[x->kind], rondo_tensor_name((int)tensor), x->rank,
                    (long long)(row / shape.heads / n),
                    (long long)ri_layout_position(side == RI_KEYS ? x->sight->k : x->sight->q, x->rank, token), (long long)head,
                    (long long)(i % shape.dim), number(v->outputs[tensor], type, i), e->value[i],
                    allowed(e, type, i));
}

static int refuse_sink(const struct ri_verify *v, int64_t head)
{
    const struct ri_expected *e = &v->exact->d_sinks;

    return ri_error(RONDO_ERR_VERIFY, "plan %u, backward: d_sinks of rank %d is wrong: head %lld is %.9g, not %.9g; "
                    "%.2g may differ", v->plan, v->exact->rank, (long long)head, (double)v->d_sinks[head],
                    e->value[head], allowed(e, RONDO_F32, head));
}

int ri_verify_compare(const struct ri_verify *v)
{
    struct comparison c = { 0 };
    double excess = 0;

    if (!v)
        return 0;
    for (int t = 0; t < RI_TENSORS; t++) {
        compare_tensor(&c, &v->exact->expected[t], v->outputs[t],
                       ri_tensor_type(&v->exact->desc, (enum ri_tensor)t));
        if (c.excess > 1)
            return refuse(v, (enum ri_tensor)t, c.worst);
        excess = fmax(excess, c.excess);
    }
    if (v->d_sinks) {
        compare_tensor(&c, &v->exact->d_sinks, v->d_sinks, RONDO_F32);
        if (c.excess > 1)
            return refuse_sink(v, c.worst);
        excess = fmax(excess, c.excess);
    }
    ri_log(RI_LOG_INFO, "verify", "plan %u, %s: %lld values of rank %d are right, the largest difference is "
           "%.3g, and %.3g of what is allowed; %lld are not finite", v->plan, ri_pass_names[v->exact->kind],
           (long long)c.compared, v->exact->rank, c.largest, excess, (long long)c.strange);
    return 0;
}
