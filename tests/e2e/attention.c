/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and its gradients over P ranks against fp64 on one.  Without options: a small set, as TAP.
 * --all: many cases over all schemes, a row per scheme, hosts and ranks.  --bytes: what was sent, by
 * tensor and lane, beside what the formulas say.  --joined: this process is one rank, started by a
 * launcher; rank 0 says what came of all. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/transport.h"
#include "tests/e2e/attention.h"
#include "tests/e2e/choice.h"
#include "tests/short.h"

enum mode { TAP, ALL, BYTES };

enum { FORKED_RANKS = 5 }; /* at most, without a launcher */

struct run {
    enum mode mode;
    const char *kernel;
    struct choice transports, schedules, backwards, bindings;
    int ranks, hosts; /* 0: all */
    int joined;
    int groups, cases, wrong;
};

/* ---- what is run ---- */

static const int heads[][2] = { { 4, 4 }, { 8, 2 }, { 4, 1 } };
static const int dims[][2] = { { 16, 16 }, { 24, 40 } };

static void add_problem(struct problem *problems, int *count, int64_t tokens, int causal, int h, int d)
{
    struct problem p = { .batch = tokens == 17 ? 2 : 1, .tokens = tokens, .causal = causal,
                         .q_heads = heads[h][0], .kv_heads = heads[h][1], .qk_dim = dims[d][0],
                         .v_dim = dims[d][1] };

    problem_init(&p, (uint64_t)(*count + 1000 * causal + 1));
    problems[(*count)++] = p;
}

/* Fewer tokens than ranks leave shards empty; 240 divides by up to 5 ranks, 250 and 1021 do not. */
static int add_problems(struct problem *problems, enum mode mode)
{
    int count = 0, few = mode == TAP && test_is_short();

    for (int causal = 0; causal < 2 && mode != BYTES; causal++) {
        add_problem(problems, &count, 1, causal, 1, 0);
        add_problem(problems, &count, 3, causal, 0, 1);
        for (int h = few ? 2 : 0; h < 3; h++)
            add_problem(problems, &count, 17, causal, h, h % 2);
        for (int h = 0; h < 3 && !few; h++)
            if (mode == ALL || h == causal)
                add_problem(problems, &count, 250, causal, h, (h + 1) % 2);
        if (mode != ALL)
            continue;
        add_problem(problems, &count, 2, causal, 2, 1);
        add_problem(problems, &count, 4, causal, 1, 0);
        add_problem(problems, &count, 1021, causal, causal ? 1 : 2, causal);
    }
    if (mode == BYTES) {
        add_problem(problems, &count, 240, 0, 0, 0);
        add_problem(problems, &count, 17, 1, 1, 1);
    }
    return count;
}

static const char *const transport_names[] = { "self", "ucx", "shm", "shm+ucx", NULL };
static const char *const schedule_names[] = { "ring", "two-level", "direct", NULL };
static const char *const backward_names[] = { "kv-grad", "q-grad", NULL };
static const char *const binding_names[] = { "copy", "auto", NULL };

static int can_bind(const struct test *t)
{
    const struct ri_transport_ops *ops = ri_transport_find(t->transport);

    return ops && ops->readers;
}

/* Where nothing can bind "auto" would be "copy" once more, and has to be asked for.  The small set leaves
 * copying to the others. */
static int is_run(const struct test *t, const struct run *run, const char *binding)
{
    int binds = can_bind(t) && run->mode != BYTES;

    if (strcmp(binding, "auto") == 0)
        return (binds || (run->joined && run->bindings.only)) && takes(&run->bindings, binding);
    return !(binds && run->mode == TAP && ri_transport_find("ucx")) && takes(&run->bindings, binding);
}

/* shm is for one host, and shm+ucx is shm alone there. */
static int reaches(const char *transport, int hosts, int ranks)
{
    if (strcmp(transport, "shm") == 0)
        return hosts == 1 && ranks > 1;
    return strcmp(transport, "shm+ucx") != 0 || (hosts > 1 && ranks > hosts);
}

static void add_twins(struct test *t, const struct run *run, struct scheme s)
{
    for (int i = 0; backward_names[i]; i++) {
        s.backward = backward_names[i];
        if (takes(&run->backwards, s.backward))
            t->schemes[t->scheme_count++] = s;
    }
}

static void add_schemes(struct test *t, const struct run *run)
{
    for (int i = 0; binding_names[i]; i++)
        for (int j = 0; schedule_names[j]; j++)
            if (is_run(t, run, binding_names[i]) && takes(&run->schedules, schedule_names[j]))
                add_twins(t, run, (struct scheme){ .schedule = schedule_names[j],
                                                   .binding = binding_names[i] });
}

/* ---- what came of it ---- */

struct verdict {
    double worst, relative, twin; /* of all cases of a scheme; relative L2, twin: of gradients */
    uint64_t copied_bytes, bound_bytes; /* read-only and inside hosts; read in place */
    int cases, wrong;
};

static int is_accumulated(int tensor)
{
    return tensor == RONDO_TENSOR_DQ || tensor == RONDO_TENSOR_DK || tensor == RONDO_TENSOR_DV;
}

static double larger(double a, double b)
{
    return b <= a ? a : b; /* NaN is larger than all */
}

static void judge_measure(const struct test *t, const struct outcome *outcomes, int measure,
                          struct verdict *v)
{
    double diff2 = 0, ref2 = 0, relative = 0;

    for (int r = 0; r < t->ranks; r++) {
        v->worst = larger(v->worst, outcomes[r].errors[measure].worst);
        diff2 += outcomes[r].errors[measure].diff2;
        ref2 += outcomes[r].errors[measure].ref2;
    }
    /* One token: dq and dk are exactly zero, and only the absolute error has a meaning. */
    if (ref2 > 1e-12)
        relative = sqrt(diff2 / ref2);
    if (measure < OUTPUTS)
        v->relative = larger(v->relative, relative);
    else
        v->twin = larger(v->twin, relative);
}

static struct verdict judge_case(const struct test *t, const struct scheme *s,
                                 const struct outcome *outcomes)
{
    struct verdict v = { .cases = 1 };

    for (int m = 0; m < MEASURES; m++)
        judge_measure(t, outcomes, m, &v);
    for (int i = 0; i < t->ranks * RONDO_TENSOR_COUNT; i++)
        if (!is_accumulated(i % RONDO_TENSOR_COUNT))
            v.copied_bytes += outcomes[i / RONDO_TENSOR_COUNT].sent_bytes[0][i % RONDO_TENSOR_COUNT];
    for (int r = 0; r < t->ranks; r++)
        v.bound_bytes += outcomes[r].bound_bytes;
    v.wrong = !(v.worst <= BAR && v.relative <= BAR && v.twin <= BAR) ||
              (strcmp(s->binding, "auto") == 0 && can_bind(t) && v.copied_bytes) ||
              (strcmp(s->binding, "copy") == 0 && v.bound_bytes);
    return v;
}

static void add_verdict(struct verdict *sum, const struct verdict *v)
{
    sum->worst = larger(sum->worst, v->worst);
    sum->relative = larger(sum->relative, v->relative);
    sum->twin = larger(sum->twin, v->twin);
    sum->copied_bytes += v->copied_bytes;
    sum->bound_bytes += v->bound_bytes;
    sum->cases += v->cases;
    sum->wrong += v->wrong;
}

static void print_wrong(const struct test *t, const struct scheme *s, int kind, const struct problem *p,
                        const struct verdict *v)
{
    printf("# WRONG: %s %s %s %s, %d ranks on %d hosts, %s, %s, heads %d/%d, %dx%d, batch %lld, "
           "%lld tokens: %.2e, relative %.2e, twin %.2e, copied %llu, bound %llu\n",
           t->transport, s->schedule, s->backward, s->binding, t->ranks, t->hosts,
           rondo_layout_kind_name((rondo_layout_kind_t)kind), p->causal ? "causal" : "full", p->q_heads,
           p->kv_heads, p->qk_dim, p->v_dim, (long long)p->batch, (long long)p->tokens, v->worst,
           v->relative, v->twin, (unsigned long long)v->copied_bytes,
           (unsigned long long)v->bound_bytes);
}

static struct verdict judge_scheme(const struct test *t, int scheme)
{
    struct verdict sum = { .cases = 0 };

    for (int kind = t->first_layout; kind <= t->last_layout; kind++)
        for (int i = 0; i < t->problem_count; i++) {
            struct verdict v = judge_case(t, &t->schemes[scheme], t->outcomes[scheme][kind][i]);

            if (v.wrong)
                print_wrong(t, &t->schemes[scheme], kind, &t->problems[i], &v);
            add_verdict(&sum, &v);
        }
    return sum;
}

static void print_all_head(void)
{
    printf("%-5s %-5s %-9s %-7s %2s %5s %5s %9s %9s %9s %12s %12s\n", "over", "slots", "schedule",
           "back", "P", "hosts", "cases", "largest", "relative", "kv - q", "copied local", "bound");
}

static void print_verdict(const struct test *t, int scheme, const struct verdict *v)
{
    const struct scheme *s = &t->schemes[scheme];
    char twin[16] = "";

    if (is_twin(t, scheme))
        snprintf(twin, sizeof(twin), "%.2e", v->twin);
    printf("%-5s %-5s %-9s %-7s %2d %5d %5d %9.2e %9.2e %9s %12llu %12llu %s\n", t->transport,
           strcmp(s->binding, "auto") == 0 ? "bound" : s->binding, s->schedule, s->backward, t->ranks,
           t->hosts, v->cases, v->worst, v->relative, twin, (unsigned long long)v->copied_bytes,
           (unsigned long long)v->bound_bytes, v->wrong ? "WRONG" : "ok");
}

static void judge(const struct test *t, struct run *run, int failed)
{
    if (failed)
        printf("# %s, %d ranks on %d hosts: %d ranks failed\n", t->transport, t->ranks, t->hosts, failed);
    if (run->mode == BYTES && !failed)
        run->wrong += print_bytes(t);
    for (int i = 0; i < t->scheme_count && !failed; i++) {
        struct verdict v = judge_scheme(t, i);

        if (run->mode == ALL)
            print_verdict(t, i, &v);
        run->cases += v.cases;
        run->wrong += v.wrong;
    }
    run->wrong += failed;
}

/* ---- all of it ---- */

static void run_group(struct run *run, const char *transport, int ranks, int hosts,
                      struct problem *problems, int count)
{
    struct test *t = shared_memory(sizeof(*t));
    int before = run->wrong;

    t->transport = transport, t->kernel = run->kernel;
    t->ranks = ranks, t->hosts = hosts;
    t->last_layout = run->mode == BYTES ? 0 : LAYOUTS - 1;
    t->problems = problems, t->problem_count = count;
    add_schemes(t, run);
    judge(t, run, run_ranks(ranks, ranks_want_processes(transport), 600, run_rank, t));
    if (run->mode == TAP)
        printf("%sok %d - %s over %d ranks on %d hosts equals fp64 on one\n",
               run->wrong > before ? "not " : "", ++run->groups, transport, ranks, hosts);
    shared_memory_release(t, sizeof(*t));
}

/* Five ranks on three hosts are 2 + 2 + 1. */
static void run_transport(struct run *run, const char *transport, struct problem *problems, int count)
{
    for (int ranks = 1; ranks <= FORKED_RANKS; ranks++)
        for (int hosts = 1; hosts <= ranks; hosts++) {
            if (run->ranks && ranks != run->ranks)
                continue;
            if (run->hosts ? hosts != run->hosts : hosts > (ranks == 5 ? 3 : 2))
                continue;
            if (!reaches(transport, hosts, ranks))
                continue;
            run_group(run, transport, ranks, hosts, problems, count);
        }
}

static void print_head(const struct run *run)
{
    if (run->mode == ALL)
        print_all_head();
    if (run->mode == BYTES)
        print_bytes_head();
}

static int run_joined(struct run *run, struct problem *problems, int count)
{
    struct test *t = shared_memory(sizeof(*t));
    rondo_comm_t comm = NULL;
    int rank = 0, err;

    t->kernel = run->kernel;
    t->last_layout = run->mode == BYTES ? 0 : LAYOUTS - 1;
    t->problems = problems, t->problem_count = count;
    err = join_ranks(t, &comm, &rank);
    if (!err) {
        if (rank > 0 && !freopen("/dev/null", "w", stdout))
            exit(1);
        print_head(run);
        add_schemes(t, run);
        err = run_cases(comm, rank, t);
    }
    if (!err)
        err = share_outcomes(comm, rank, t);
    if (!err)
        judge(t, run, 0);
    if (!err && run->mode == TAP)
        printf("%sok %d - %s over %d ranks on %d hosts equals fp64 on one\n", run->wrong ? "not " : "",
               ++run->groups, t->transport, t->ranks, t->hosts);
    rondo_comm_destroy(comm);
    shared_memory_release(t, sizeof(*t));
    return err;
}

static void run_transports(struct run *run, struct problem *problems, int count)
{
    print_head(run);
    for (int i = 0; transport_names[i]; i++)
        if (takes(&run->transports, transport_names[i]) &&
            (run->transports.only || ri_transport_find(transport_names[i])))
            run_transport(run, transport_names[i], problems, count);
}

static void run_all(struct run *run)
{
    struct problem *problems = calloc(MAX_PROBLEMS, sizeof(*problems));
    int count;

    if (!problems)
        exit(1);
    count = add_problems(problems, run->mode);
    if (run->joined)
        run->wrong += run_joined(run, problems, count) != 0;
    else
        run_transports(run, problems, count);
    for (int i = 0; i < count; i++)
        problem_release(&problems[i]);
    free(problems);
}

static int usage(FILE *out, int code)
{
    fprintf(out, "usage: attention [--all | --bytes] [--transport LIST] [--schedule LIST] "
                 "[--backward LIST]\n"
                 "                 [--binding copy,auto] [--hosts N] [--ranks P] "
                 "[--kernel flash|reference] [--joined]\n"
                 "Attention and gradients against fp64 on one rank: a small set as TAP, or all, or "
                 "their bytes.\n");
    return code;
}

static int parse(struct run *run, int argc, char **argv)
{
    static const struct option options[] = {
        { "all", no_argument, NULL, 'a' },            { "bytes", no_argument, NULL, 'b' },
        { "transport", required_argument, NULL, 't' }, { "schedule", required_argument, NULL, 's' },
        { "backward", required_argument, NULL, 'w' }, { "binding", required_argument, NULL, 'i' },
        { "hosts", required_argument, NULL, 'o' },    { "ranks", required_argument, NULL, 'r' },
        { "kernel", required_argument, NULL, 'k' },   { "help", no_argument, NULL, 'h' },
        { "joined", no_argument, NULL, 'j' },
        { NULL, 0, NULL, 0 },
    };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'a') run->mode = ALL;
        else if (option == 'b') run->mode = BYTES;
        else if (option == 't') run->transports.only = optarg;
        else if (option == 's') run->schedules.only = optarg;
        else if (option == 'w') run->backwards.only = optarg;
        else if (option == 'i') run->bindings.only = optarg;
        else if (option == 'o') run->hosts = atoi(optarg);
        else if (option == 'r') run->ranks = atoi(optarg);
        else if (option == 'k') run->kernel = optarg;
        else if (option == 'j') run->joined = 1;
        else return usage(option == 'h' ? stdout : stderr, option == 'h' ? 1 : 2);
    }
    if (check_names("attention", "transport", &run->transports) ||
        check_names("attention", "schedule", &run->schedules) ||
        check_names("attention", "backward", &run->backwards) ||
        check_names("attention", "binding", &run->bindings))
        return 2;
    return 0;
}

int main(int argc, char **argv)
{
    struct run run = { .kernel = "flash", .transports = { transport_names, NULL },
                       .schedules = { schedule_names, NULL }, .backwards = { backward_names, NULL },
                       .bindings = { binding_names, NULL } };
    int stop = parse(&run, argc, argv);

    if (stop)
        return stop == 1 ? 0 : stop;
    run_all(&run);
    if (run.mode == TAP)
        printf("1..%d\n", run.groups);
    else
        printf("%d cases, %d wrong, bar %g\n", run.cases, run.wrong, BAR);
    return run.wrong != 0 || run.cases == 0;
}
