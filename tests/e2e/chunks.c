/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and its gradients in chunks of a token, of some, and of more than a block, against fp64 on one
 * rank: all schedules and what they may do between hosts, kernels of all kinds, and plans that were made
 * for more tokens and bound to fewer. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/transport.h"
#include "tests/e2e/attention.h"
#include "tests/short.h"

/* ---- kernels of all kinds ---- */

/* Every tile is a partial result, and delta is the kernel's own. */
struct kinds {
    rondo_kernel_t partial, needs_o;
};

static const rondo_kernel_t *base(void)
{
    return rondo_kernel_find("reference");
}

/* It is given one tile, and its result stands for what was there. */
static int partial_forward(void *context, const rondo_kernel_forward_t *args)
{
    const rondo_tile_t *tile = args->tiles;
    const rondo_tensor_t *o = &args->o, *lse = &args->lse;

    if (args->tile_count != 1)
        return 1;
    for (int64_t b = 0; b < args->shape->batch; b++)
        for (int h = 0; h < args->shape->q_heads; h++)
            for (int64_t i = tile->q_first; i < tile->q_first + tile->q_count; i++) {
                memset((float *)o->data + b * o->batch_stride + i * o->token_stride + h * o->head_stride, 0,
                       (size_t)args->shape->v_dim * sizeof(float));
                ((float *)lse->data)[b * lse->batch_stride + i * lse->token_stride + h * lse->head_stride] =
                    -INFINITY;
            }
    return base()->forward(context, args);
}

static size_t rows_bytes(const rondo_kernel_shape_t *shape)
{
    return (size_t)(shape->batch * shape->q_heads * shape->max_q_tokens + 16) / 16 * 16 * sizeof(float);
}

static size_t needs_o_workspace(void *context, const rondo_kernel_shape_t *shape)
{
    size_t bytes = base()->workspace_bytes ? base()->workspace_bytes(context, shape) : 0;

    return rows_bytes(shape) + bytes;
}

/* Of the rows of a tile alone: others may not have come. */
static void fill_delta(const rondo_kernel_backward_t *args, const rondo_tile_t *tile, int64_t b, float *delta)
{
    for (int h = 0; h < args->shape->q_heads; h++)
        for (int64_t i = tile->q_first; i < tile->q_first + tile->q_count; i++) {
            const float *o = (const float *)args->o.data + b * args->o.batch_stride +
                             i * args->o.token_stride + h * args->o.head_stride;
            const float *d_o = (const float *)args->d_o.data + b * args->d_o.batch_stride +
                               i * args->d_o.token_stride + h * args->d_o.head_stride;
            double sum = 0;

            for (int d = 0; d < args->shape->v_dim; d++)
                sum += (double)o[d] * d_o[d];
            delta[(b * args->shape->q_heads + h) * args->q_tokens + i] = (float)sum;
        }
}

static int needs_o_backward(void *context, const rondo_kernel_backward_t *args)
{
    rondo_kernel_backward_t inner = *args;
    float *delta = args->workspace;

    if (args->delta.data || !args->o.data)
        return 1;
    for (int t = 0; t < args->tile_count; t++)
        for (int64_t b = 0; b < args->shape->batch; b++)
            fill_delta(args, &args->tiles[t], b, delta);
    inner.workspace = (char *)args->workspace + rows_bytes(args->shape);
    inner.delta = (rondo_tensor_t){ delta, args->shape->q_heads * args->q_tokens, 1, args->q_tokens };
    inner.o.data = NULL;
    return base()->backward(context, &inner);
}

static void make_kinds(struct kinds *kinds)
{
    kinds->partial = kinds->needs_o = *base();
    kinds->partial.name = "partial";
    kinds->partial.forward = partial_forward;
    kinds->partial.flags &= ~(unsigned)RONDO_KERNEL_MERGES;
    kinds->needs_o.name = "needs-o";
    kinds->needs_o.flags |= RONDO_KERNEL_NEEDS_O;
    kinds->needs_o.workspace_bytes = needs_o_workspace;
    kinds->needs_o.backward = needs_o_backward;
}

/* ---- what is run ---- */

static const struct problem shapes[] = {
    { .batch = 2, .tokens = 61, .causal = 1, .q_heads = 4, .kv_heads = 2, .qk_dim = 8, .v_dim = 4 },
    { .batch = 2, .tokens = 61, .causal = 0, .q_heads = 4, .kv_heads = 2, .qk_dim = 8, .v_dim = 4 },
    { .batch = 1, .tokens = 2, .causal = 0, .q_heads = 2, .kv_heads = 1, .qk_dim = 4, .v_dim = 8 },
    { .batch = 1, .tokens = 3, .causal = 1, .q_heads = 2, .kv_heads = 1, .qk_dim = 4, .v_dim = 8 },
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

struct way {
    const char *schedule, *host_transfers;
    int pieces;
};

static const struct way ways[] = {
    { "ring", NULL, 1 },
    { "direct", NULL, 1 },
    { "two-level", "own-turns", 1 },
    { "two-level", "chunked", 1 },
    { "two-level", "own-turns", 2 },
    { "two-level", "chunked", 2 },
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* Bytes of chunks: a token of K and V of the first shape has 192. */
enum { ONE = 1, SOME = 5 * 192 + 7, ALL = 1 << 20 };

static void add(struct test *t, const struct way *way, int64_t chunk_bytes, const rondo_kernel_t *kernel,
                int64_t longer)
{
    for (int q_grad = 0; q_grad < 2; q_grad++)
        t->schemes[t->scheme_count++] =
            (struct scheme){ .schedule = way->schedule, .backward = q_grad ? "q-grad" : "kv-grad",
                             .binding = "copy", .host_transfers = way->host_transfers,
                             .pieces = way->pieces, .chunk_bytes = chunk_bytes, .kernel = kernel,
                             .longer = longer };
}

/* Over other transports fewer: what differs there is in which order chunks come. */
static void add_schemes(struct test *t, const struct kinds *kinds, int few)
{
    for (int i = 0; i < WAYS; i++) {
        if (strcmp(ways[i].schedule, "two-level") == 0 && t->hosts == 1)
            continue;
        add(t, &ways[i], ONE, i % 2 ? NULL : &kinds->partial, 0);
        add(t, &ways[i], SOME, few ? NULL : &kinds->needs_o, few ? 40 : 0);
        if (few)
            continue;
        add(t, &ways[i], SOME, i % 2 ? &kinds->partial : NULL, 140);
        if (i % 3 == 0)
            add(t, &ways[i], ALL, NULL, 0);
    }
}

/* ---- what came of it ---- */

static double larger(double a, double b)
{
    return b <= a ? a : b; /* NaN is larger than all */
}

static int is_wrong(const struct test *t, int scheme, int kind, int problem)
{
    const struct outcome *outcomes = t->outcomes[scheme][kind][problem];
    const struct scheme *s = &t->schemes[scheme];
    double worst = 0;

    for (int r = 0; r < t->ranks; r++)
        for (int m = 0; m < MEASURES; m++)
            worst = larger(worst, outcomes[r].errors[m].worst);
    if (worst <= BAR)
        return 0;
    printf("# WRONG by %.2e: %s, %d ranks on %d hosts, %s %s %s, pieces %d, chunks of %lld, %s, %lld tokens "
           "of %lld, %s\n", worst, t->transport, t->ranks, t->hosts, s->schedule,
           s->host_transfers ? s->host_transfers : "", s->backward, s->pieces, (long long)s->chunk_bytes,
           s->kernel ? s->kernel->name : t->kernel, (long long)t->problems[problem].tokens,
           (long long)(t->problems[problem].tokens + s->longer),
           rondo_layout_kind_name((rondo_layout_kind_t)kind));
    return 1;
}

static int count_wrong(const struct test *t)
{
    int wrong = 0;

    for (int s = 0; s < t->scheme_count; s++)
        for (int kind = 0; kind < LAYOUTS; kind++)
            for (int p = 0; p < t->problem_count; p++)
                wrong += is_wrong(t, s, kind, p);
    return wrong;
}

/* ---- all of it ---- */

struct group {
    const char *transport;
    int ranks, hosts;
};

static const struct group groups[] = {
    { "self", 4, 2 }, { "self", 3, 2 }, { "self", 3, 1 }, { "shm", 3, 1 }, { "ucx", 3, 2 }, { "ucx", 2, 1 },
};
enum { GROUPS = sizeof(groups) / sizeof(groups[0]) };

static int run_group(const struct group *group, struct problem *problems, const struct kinds *kinds)
{
    struct test *t = shared_memory(sizeof(*t));
    int few = strcmp(group->transport, "self") != 0 || test_is_short(), wrong;

    t->transport = group->transport, t->kernel = "flash";
    t->ranks = group->ranks, t->hosts = group->hosts;
    t->last_layout = LAYOUTS - 1;
    t->problems = problems, t->problem_count = SHAPES;
    add_schemes(t, kinds, few);
    wrong = run_ranks(t->ranks, ranks_want_processes(t->transport), 120, run_rank, t);
    if (wrong)
        printf("# %d ranks failed\n", wrong);
    else
        wrong = count_wrong(t);
    shared_memory_release(t, sizeof(*t));
    return wrong;
}

int main(void)
{
    struct problem problems[SHAPES];
    struct kinds kinds;
    int wrong = 0;

    setenv("RONDO_SELF_SEED", "7", 1);
    make_kinds(&kinds);
    for (int i = 0; i < SHAPES; i++) {
        problems[i] = shapes[i];
        problem_init(&problems[i], (uint64_t)i + 1);
    }
    printf("1..%d\n", GROUPS);
    for (int i = 0; i < GROUPS; i++) {
        const struct group *g = &groups[i];
        int is_there = ri_transport_find(g->transport) != NULL, bad = 0;

        if (is_there)
            bad = run_group(g, problems, &kinds);
        printf("%sok %d - chunks over %s, %d ranks on %d hosts%s\n", bad ? "not " : "", i + 1, g->transport,
               g->ranks, g->hosts, is_there ? "" : " # SKIP not built");
        wrong += bad;
    }
    for (int i = 0; i < SHAPES; i++)
        problem_release(&problems[i]);
    return wrong != 0;
}
