/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and its gradients over P ranks against fp64 on one rank.  Without options: a small set, as
 * TAP.  --all: every case, a row each. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/transport.h"
#include "tests/e2e/oracle.h"
#include "tests/ranks.h"

/* fp32 kernels, fp32 partials and sums of at most a few thousand terms of unit variance. */
#define BAR 1e-5
#define MAX_RANKS 8
#define MAX_PROBLEMS 256
enum { O, LSE, DQ, DK, DV, OUTPUTS };
enum { LAYOUTS = 3 };

struct error {
    double worst, diff2, ref2; /* largest |difference|; sums of squares */
};

struct test {
    struct meeting meeting;
    const char *transport, *kernel;
    int ranks, count;
    struct problem *problems;
    /* [layout][problem][rank][output] */
    struct error errors[LAYOUTS][MAX_PROBLEMS][MAX_RANKS][OUTPUTS];
};

/* ---- one rank of one case ---- */

struct shard {
    int64_t n, *positions;
    float *q, *k, *v, *d_o, *o, *lse, *dq, *dk, *dv;
};

static float *vector(int64_t count)
{
    float *x = malloc(((size_t)count + 1) * sizeof(*x));

    if (!x)
        exit(1);
    for (int64_t i = 0; i <= count; i++)
        x[i] = NAN; /* what is not written is seen */
    return x;
}

static float *take(rondo_layout_t layout, int rank, int64_t n, const float *whole,
                   const struct problem *p, int row)
{
    float *x = vector(p->batch * n * row);

    for (int64_t b = 0; b < p->batch; b++)
        if (rondo_layout_shard(layout, rank, whole + b * p->tokens * row, (size_t)row * sizeof(float),
                               x + b * n * row))
            exit(1);
    return x;
}

static void make_shard(struct shard *s, rondo_layout_t layout, int rank, const struct problem *p)
{
    int64_t n = rondo_layout_tokens(layout, rank), rows = p->batch * n;

    s->n = n;
    s->positions = malloc(((size_t)n + 1) * sizeof(int64_t));
    if (!s->positions || rondo_layout_positions(layout, rank, s->positions))
        exit(1);
    s->q = take(layout, rank, n, p->q, p, p->q_heads * p->qk_dim);
    s->k = take(layout, rank, n, p->k, p, p->kv_heads * p->qk_dim);
    s->v = take(layout, rank, n, p->v, p, p->kv_heads * p->v_dim);
    s->d_o = take(layout, rank, n, p->d_o, p, p->q_heads * p->v_dim);
    s->o = vector(rows * p->q_heads * p->v_dim);
    s->lse = vector(rows * p->q_heads);
    s->dq = vector(rows * p->q_heads * p->qk_dim);
    s->dk = vector(rows * p->kv_heads * p->qk_dim);
    s->dv = vector(rows * p->kv_heads * p->v_dim);
}

static void free_shard(struct shard *s)
{
    float *all[] = { s->q, s->k, s->v, s->d_o, s->o, s->lse, s->dq, s->dk, s->dv };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
    free(s->positions);
}

static void compare(struct error *e, float got, double want)
{
    double diff = fabs(got - want);

    if (isnan(diff))
        diff = INFINITY;
    if (diff > e->worst)
        e->worst = diff;
    e->diff2 += diff * diff;
    e->ref2 += want * want;
}

/* Tensor [batch][n][row] against [batch][tokens][row]. */
static void compare_rows(struct error *e, const struct shard *s, const struct problem *p,
                         const float *got, const double *want, int row)
{
    *e = (struct error){ 0, 0, 0 };
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < s->n; i++)
            for (int c = 0; c < row; c++)
                compare(e, got[(b * s->n + i) * row + c],
                        want[(b * p->tokens + s->positions[i]) * row + c]);
}

static void compare_lse(struct error *e, const struct shard *s, const struct problem *p)
{
    *e = (struct error){ 0, 0, 0 };
    for (int64_t b = 0; b < p->batch; b++)
        for (int h = 0; h < p->q_heads; h++)
            for (int64_t i = 0; i < s->n; i++)
                compare(e, s->lse[(b * p->q_heads + h) * s->n + i],
                        p->lse[(b * p->tokens + s->positions[i]) * p->q_heads + h]);
}

static int run_plan(rondo_plan_t plan, const struct shard *s)
{
    rondo_attention_fwd_t fwd = RONDO_ATTENTION_FWD_INIT;
    rondo_attention_bwd_t bwd = RONDO_ATTENTION_BWD_INIT;
    rondo_request_t request = NULL;
    int err;

    fwd.q = s->q, fwd.k = s->k, fwd.v = s->v, fwd.o = s->o, fwd.lse = s->lse;
    err = rondo_attention_forward(plan, &fwd, NULL, &request);
    if (!err)
        err = rondo_wait(&request, 60000);
    if (err)
        return err;
    bwd.q = s->q, bwd.k = s->k, bwd.v = s->v, bwd.o = s->o, bwd.lse = s->lse, bwd.d_o = s->d_o;
    bwd.dq = s->dq, bwd.dk = s->dk, bwd.dv = s->dv;
    err = rondo_attention_backward(plan, &bwd, NULL, &request);
    return err ? err : rondo_wait(&request, 60000);
}

static int run_case(rondo_comm_t comm, struct test *t, int kind, int index, int rank)
{
    const struct problem *p = &t->problems[index];
    struct error *errors = t->errors[kind][index][rank];
    rondo_layout_desc_t ld = RONDO_LAYOUT_DESC_INIT;
    rondo_attention_desc_t ad = RONDO_ATTENTION_DESC_INIT;
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    rondo_layout_t layout = NULL;
    rondo_plan_t plan = NULL;
    struct shard s;
    int err;

    ld.kind = (rondo_layout_kind_t)kind, ld.tokens = p->tokens, ld.ranks = t->ranks;
    err = rondo_layout_create(&ld, &layout);
    if (err)
        return err;
    ad.mask = p->causal ? RONDO_MASK_CAUSAL : RONDO_MASK_FULL, ad.batch = p->batch;
    ad.q_heads = p->q_heads, ad.kv_heads = p->kv_heads, ad.qk_dim = p->qk_dim, ad.v_dim = p->v_dim;
    options.kernel_name = t->kernel;
    make_shard(&s, layout, rank, p);
    err = rondo_attention_plan(comm, layout, &ad, &options, &plan);
    if (!err)
        err = run_plan(plan, &s);
    if (!err) {
        compare_rows(&errors[O], &s, p, s.o, p->o, p->q_heads * p->v_dim);
        compare_lse(&errors[LSE], &s, p);
        compare_rows(&errors[DQ], &s, p, s.dq, p->dq, p->q_heads * p->qk_dim);
        compare_rows(&errors[DK], &s, p, s.dk, p->dk, p->kv_heads * p->qk_dim);
        compare_rows(&errors[DV], &s, p, s.dv, p->dv, p->kv_heads * p->v_dim);
    }
    rondo_plan_destroy(plan);
    free_shard(&s);
    rondo_layout_destroy(layout);
    return err;
}

static int run_rank(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_config_t config = RONDO_CONFIG_INIT;
    rondo_comm_t comm = NULL;
    int err;

    config.transport = t->transport;
    err = meet(&t->meeting, rank, ranks, &config, &comm);
    for (int kind = 0; !err && kind < LAYOUTS; kind++)
        for (int i = 0; !err && i < t->count; i++)
            err = run_case(comm, t, kind, i, rank);
    if (err)
        fprintf(stderr, "# rank %d: %s: %s\n", rank, rondo_strerror(err), rondo_last_error());
    rondo_comm_destroy(comm);
    return err;
}

/* ---- the parent ---- */

static const int heads[][2] = { { 4, 4 }, { 8, 2 }, { 4, 1 } };
static const int dims[][2] = { { 16, 16 }, { 24, 40 } };
static const int lengths[] = { 1, -1, 17, 250, 1021, 1024 }; /* -1: ranks - 1 */

static int add_problems(struct problem *problems, int ranks, int all)
{
    int count = 0;

    for (int causal = 0; causal < 2; causal++)
        for (int h = 0; h < 3; h++)
            for (int d = 0; d < 2; d++)
                for (int n = 0; n < (all ? 6 : 4); n++) {
                    int tokens = lengths[n] < 0 ? ranks - 1 : lengths[n];
                    struct problem p = { .batch = n == 2 ? 2 : 1, .tokens = tokens, .causal = causal,
                                         .q_heads = heads[h][0], .kv_heads = heads[h][1],
                                         .qk_dim = dims[d][0], .v_dim = dims[d][1] };

                    if (tokens == 0 || (!all && (h + d + n) % 2))
                        continue;
                    problem_init(&p, (uint64_t)(count + 1000 * causal + 1));
                    problems[count++] = p;
                }
    return count;
}

/* Worst over the tensors of one case; 1 when it is within the bar. */
static int judge(const struct test *t, int kind, int index, double *worst, double *relative)
{
    *worst = *relative = 0;
    for (int out = 0; out < OUTPUTS; out++) {
        double diff2 = 0, ref2 = 0;

        for (int r = 0; r < t->ranks; r++) {
            const struct error *e = &t->errors[kind][index][r][out];

            if (!(e->worst <= *worst))
                *worst = e->worst;
            diff2 += e->diff2;
            ref2 += e->ref2;
        }
        /* One token: dq and dk are exactly zero, and only the absolute error has a meaning. */
        if (ref2 > 1e-12 && !(sqrt(diff2 / ref2) <= *relative))
            *relative = sqrt(diff2 / ref2);
    }
    return *worst <= BAR && *relative <= BAR;
}

static void print_row(const struct test *t, int kind, int index, double worst, double relative, int good)
{
    const struct problem *p = &t->problems[index];
    char shape[64];

    snprintf(shape, sizeof(shape), "%d/%d %dx%d", p->q_heads, p->kv_heads, p->qk_dim, p->v_dim);
    printf("%-5s %-10s %2d %-6s %-10s %3lld %6lld %10.2e %10.2e %s\n", t->transport,
           rondo_layout_kind_name((rondo_layout_kind_t)kind), t->ranks, p->causal ? "causal" : "full",
           shape, (long long)p->batch, (long long)p->tokens, worst, relative, good ? "ok" : "WRONG");
}

/* Runs all cases of one transport and rank count; returns how many are wrong. */
static int run_group(struct test *t, int all, int *cases)
{
    int wrong = 0, failed;

    failed = run_ranks(t->ranks, strcmp(t->transport, "self") != 0, 600, run_rank, t);
    if (failed)
        printf("# %s, %d ranks: %d ranks failed\n", t->transport, t->ranks, failed);
    for (int kind = 0; kind < LAYOUTS; kind++)
        for (int i = 0; i < t->count; i++, (*cases)++) {
            double worst, relative;
            int good = judge(t, kind, i, &worst, &relative) && !failed;

            wrong += !good;
            if (all || !good)
                print_row(t, kind, i, worst, relative, good);
        }
    return wrong;
}

static int run_ranks_of(const char *transport, const char *kernel, int ranks, int all, int *cases)
{
    struct test *t = shared_memory(sizeof(*t));
    struct problem *problems = calloc(MAX_PROBLEMS, sizeof(*problems));
    int wrong;

    if (!problems)
        exit(1);
    t->transport = transport;
    t->kernel = kernel;
    t->ranks = ranks;
    t->problems = problems;
    t->count = add_problems(problems, ranks, all);
    wrong = run_group(t, all, cases);
    for (int i = 0; i < t->count; i++)
        problem_release(&problems[i]);
    free(problems);
    return wrong;
}

static int usage(FILE *out, int code)
{
    fprintf(out, "usage: attention [--all] [--transport self|ucx] [--kernel flash|reference] "
                 "[--ranks P]\n"
                 "Attention and gradients against fp64 on one rank; without --all a small set, as "
                 "TAP.\n");
    return code;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "all", no_argument, NULL, 'a' },           { "transport", required_argument, NULL, 't' },
        { "kernel", required_argument, NULL, 'k' },  { "ranks", required_argument, NULL, 'r' },
        { "help", no_argument, NULL, 'h' },          { NULL, 0, NULL, 0 },
    };
    static const char *const transports[] = { "self", "ucx" };
    const char *only = NULL, *kernel = "flash";
    int all = 0, wrong = 0, cases = 0, groups = 0, ranks_only = 0, option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'a') all = 1;
        else if (option == 't') only = optarg;
        else if (option == 'k') kernel = optarg;
        else if (option == 'r') ranks_only = atoi(optarg);
        else return usage(option == 'h' ? stdout : stderr, option == 'h' ? 0 : 2);
    }
    if (all)
        printf("%-5s %-10s %2s %-6s %-10s %3s %6s %10s %10s\n", "over", "layout", "P", "mask",
               "heads dims", "b", "N", "largest", "relative");
    for (int t = 0; t < 2; t++) {
        if (only ? strcmp(only, transports[t]) != 0 : !ri_transport_find(transports[t]))
            continue;
        for (int ranks = 1; ranks <= 5; ranks++) {
            int before = wrong;

            if (ranks_only && ranks != ranks_only)
                continue;
            wrong += run_ranks_of(transports[t], kernel, ranks, all, &cases);
            if (!all)
                printf("%sok %d - %s over %d ranks equals fp64 on one\n", wrong > before ? "not " : "",
                       ++groups, transports[t], ranks);
        }
    }
    if (all)
        printf("%d cases, %d wrong, bar %g\n", cases, wrong, BAR);
    else
        printf("1..%d\n", groups);
    return wrong != 0 || cases == 0;
}
