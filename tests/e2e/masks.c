/* SPDX-License-Identifier: Apache-2.0 */
/* Every mask in every layout by every schedule over P ranks against fp64 on one, and the pairs that are
 * computed against the mask.  Without options: a small set, as TAP.  --all: all of it, a row per transport,
 * ranks, hosts and mask.  Options narrow either. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/choice.h"
#include "tests/e2e/masks_cases.h"
#include "tests/e2e/masks_judge.h"
#include "tests/e2e/masks_types.h"
#include "tests/short.h"
#include "transport/transport.h"

/* fp32 kernels, fp32 partials and sums of at most a thousand terms of unit variance. */
#define BAR 1e-5

enum { MAX_RANKS = 5, MAX_HOSTS = 3, MASKS = 10 };

static const char *const mask_names[] = { "full", "causal", "strict", "window", "prefix", "blocks", "ranges",
                                          "documents", "cross", "scores", NULL };
static const char *const transport_names[] = { "self", "shm", "ucx", "shm+ucx", NULL };
static const char *const schedule_names[] = { "ring", "two-level", "direct", NULL };
static const char *const backward_names[] = { "kv-grad", "q-grad", NULL };
static const char *const binding_names[] = { "copy", "auto", NULL };

/* How queries and keys are dealt out. */
static const struct form {
    rondo_layout_kind_t kind[2];
    rondo_deal_t deal;
} forms[] = {
    { { RONDO_LAYOUT_CONTIGUOUS, RONDO_LAYOUT_CONTIGUOUS }, RONDO_DEAL_SEQUENCE },
    { { RONDO_LAYOUT_ZIGZAG, RONDO_LAYOUT_ZIGZAG }, RONDO_DEAL_SEQUENCE },
    { { RONDO_LAYOUT_STRIPED, RONDO_LAYOUT_STRIPED }, RONDO_DEAL_SEQUENCE },
    { { RONDO_LAYOUT_BALANCED, RONDO_LAYOUT_BALANCED }, RONDO_DEAL_SEQUENCE },
    { { RONDO_LAYOUT_CONTIGUOUS, RONDO_LAYOUT_CONTIGUOUS }, RONDO_DEAL_DOCUMENTS },
    { { RONDO_LAYOUT_ZIGZAG, RONDO_LAYOUT_ZIGZAG }, RONDO_DEAL_DOCUMENTS },
    { { RONDO_LAYOUT_STRIPED, RONDO_LAYOUT_STRIPED }, RONDO_DEAL_DOCUMENTS },
    { { RONDO_LAYOUT_ZIGZAG, RONDO_LAYOUT_CONTIGUOUS }, RONDO_DEAL_SEQUENCE },
};

static const char *const form_names[] = { "contiguous", "zigzag", "striped", "balanced", "contiguous-documents",
                                          "zigzag-documents", "striped-documents", "zigzag-contiguous", NULL };

/* What came of all runs of a mask. */
struct tally {
    int runs, wrong;
    double worst[OUTS];
    int64_t pairs;
};

struct run {
    int all;
    const char *kernel;
    struct choice dtypes, masks, layouts, transports, schedules, backwards, bindings;
    int ranks, hosts; /* 0: all */
    int groups, runs, wrong;
    struct masked *problems;
    int problem_count;
};

/* ---- one run ---- */

struct group {
    struct run *run;
    struct team *team;
    struct tally *tallies; /* [MASKS] */
};

static int name_index(const char *const *names, const char *name)
{
    int i = 0;

    while (strcmp(names[i], name) != 0)
        i++;
    return i;
}

static void print_wrong(const struct group *g, const struct masked *p, int form, const struct setting *s,
                        const struct judged *j)
{
    printf("# WRONG: %s, %d ranks on %d hosts, %s, %s %s %s, chunks of %lld: %s %s:", g->team->transport,
           g->team->ranks, g->team->hosts, form_names[form], s->schedule, s->backward, s->binding,
           (long long)s->chunk_bytes, p->is->group, p->is->name);
    for (int out = 0; out < OUTS; out++)
        printf(" %s %.2e", out_names[out], j->worst[out]);
    printf(", pairs %lld and %lld of %lld, %lld and %lld of them odd\n", (long long)j->pairs[0],
           (long long)j->pairs[1], (long long)p->area, (long long)j->odd[0], (long long)j->odd[1]);
    fflush(stdout);
}

static void judge(const struct group *g, const struct masked *p, int form, const struct setting *s, int err)
{
    struct tally *t = &g->tallies[name_index(mask_names, p->is->group)];
    struct judged j = judge_answer(g->team, p);
    int wrong = err || !(judged_worst(&j) <= BAR) || !judged_counts(&j, p);

    if (wrong && !err)
        print_wrong(g, p, form, s, &j);
    t->runs++;
    t->wrong += wrong;
    t->pairs += j.pairs[0] + j.pairs[1];
    for (int out = 0; out < OUTS && !err; out++)
        t->worst[out] = fmax(t->worst[out], j.worst[out]);
}

/* Refused by all ranks alike, and the others go on; any other error ends the group. */
static int is_refusal(int err)
{
    return err == RONDO_ERR_ARGUMENT || err == RONDO_ERR_UNSUPPORTED;
}

static int run_setting(struct group *g, rondo_comm_t comm, int rank, const struct masked *p, int form,
                       const struct setting *s)
{
    int err;

    if (rank == 0)
        team_poison(g->team, p);
    err = team_gather(g->team);
    if (!err)
        err = team_run(g->team, comm, rank, p, s);
    if (err && (rank == 0 || !is_refusal(err)))
        printf("# %s, rank %d of %d on %d hosts, %s, %s %s %s: %s %s: %s: %s\n", g->team->transport, rank,
               g->team->ranks, g->team->hosts, form_names[form], s->schedule, s->backward, s->binding,
               p->is->group, p->is->name, rondo_strerror(err), rondo_last_error());
    if (err && !is_refusal(err)) {
        team_fail(g->team);
        return err;
    }
    if (team_gather(g->team))
        return RONDO_ERR_PEER;
    if (rank == 0)
        judge(g, p, form, s, err);
    return 0;
}

/* ---- what is run ---- */

static int is_crossed(const struct masked *p)
{
    return p->is->tokens[KEYS] || p->is->docs[KEYS];
}

static int has_form(const struct run *run, const struct masked *p, int form)
{
    if (forms[form].deal == RONDO_DEAL_DOCUMENTS && !p->is->docs[QUERIES])
        return 0;
    return (forms[form].kind[0] == forms[form].kind[1] || is_crossed(p)) && takes(&run->layouts, form_names[form]);
}

/* Where nothing can bind "auto" would be "copy" once more. */
static int has_binding(const struct group *g, const char *binding)
{
    const struct ri_transport_ops *ops = ri_transport_find(g->team->transport);

    return takes(&g->run->bindings, binding) && (strcmp(binding, "copy") == 0 || (ops && ops->readers));
}

/* Long cases have one backward and one binding by each schedule, others for each layout and number of ranks.
 * The small set has one run of 47, others for each number of ranks; and of the long cases few. */
static int is_taken(const struct group *g, int problem, int form, int scheme)
{
    int at = problem * 5 + form * 3 + scheme * 2 + g->team->ranks + g->team->hosts;
    int is_long = g->run->problems[problem].tokens[QUERIES] > 500;

    if (g->run->all)
        return !is_long || (scheme / 6 * 2 + scheme % 2 + problem + form + g->team->ranks) % 4 == 0;
    return at % (test_is_short() || is_long ? 235 : 47) == 0;
}

static int run_schemes(struct group *g, rondo_comm_t comm, int rank, int problem, int form)
{
    const struct masked *p = &g->run->problems[problem];
    struct setting s = { .kind = { forms[form].kind[0], forms[form].kind[1] }, .deal = forms[form].deal,
                         .kernel = g->run->kernel,
                         .chunk_bytes = problem % 3 == 1 ? (p->tokens[QUERIES] > 500 ? 20000 : 1000) : 0 };
    int err = 0;

    for (int i = 0; i < 12 && !err; i++) {
        s.binding = binding_names[i / 6], s.schedule = schedule_names[i / 2 % 3], s.backward = backward_names[i % 2];
        if (has_binding(g, s.binding) && takes(&g->run->schedules, s.schedule) &&
            takes(&g->run->backwards, s.backward) && is_taken(g, problem, form, i))
            err = run_setting(g, comm, rank, p, form, &s);
    }
    return err;
}

static int run_rank(int rank, int ranks, void *arg)
{
    struct group *g = arg;
    rondo_comm_t comm = NULL;
    int err = team_join(g->team, rank, &comm);

    (void)ranks;
    if (err)
        printf("# rank %d: %s: %s\n", rank, rondo_strerror(err), rondo_last_error());
    if (err)
        team_fail(g->team);
    for (int i = 0; i < g->run->problem_count && !err; i++)
        for (int form = 0; form_names[form] && !err; form++)
            if (has_form(g->run, &g->run->problems[i], form))
                err = run_schemes(g, comm, rank, i, form);
    rondo_comm_destroy(comm);
    return err;
}

/* ---- what came of it ---- */

static void print_head(void)
{
    printf("%-7s %2s %5s %-9s %5s %12s %5s", "over", "P", "hosts", "mask", "runs", "pairs", "wrong");
    for (int out = 0; out < OUTS; out++)
        printf(" %8s", out_names[out]);
    printf("\n");
}

static void print_tally(const struct team *team, int mask, const struct tally *t)
{
    printf("%-7s %2d %5d %-9s %5d %12lld %5d", team->transport, team->ranks, team->hosts, mask_names[mask], t->runs,
           (long long)t->pairs, t->wrong);
    for (int out = 0; out < OUTS; out++)
        printf(" %8.1e", t->worst[out]);
    printf("\n");
}

static void report(struct run *run, const struct team *team, const struct tally *tallies, int failed)
{
    for (int mask = 0; mask_names[mask]; mask++) {
        if (!tallies[mask].runs && !failed)
            continue;
        if (run->all)
            print_tally(team, mask, &tallies[mask]);
        else
            printf("%sok %d - %s over %s, %d ranks on %d hosts\n", tallies[mask].wrong || failed ? "not " : "",
                   ++run->groups, mask_names[mask], team->transport, team->ranks, team->hosts);
        run->runs += tallies[mask].runs;
        run->wrong += tallies[mask].wrong;
    }
    fflush(stdout);
    run->wrong += failed;
}

static void run_group(struct run *run, const char *transport, int ranks, int hosts)
{
    struct group g = { .run = run, .team = team_create(transport, ranks, hosts, run->problems, run->problem_count),
                       .tallies = shared_memory(MASKS * sizeof(*g.tallies)) };
    int failed = run_ranks(ranks, ranks_want_processes(transport), 1200, run_rank, &g);

    report(run, g.team, g.tallies, failed);
    shared_memory_release(g.tallies, MASKS * sizeof(*g.tallies));
    team_destroy(g.team);
}

/* shm is for one host, and shm+ucx is shm alone there.  The small set pretends hosts over self alone. */
static int reaches(const struct run *run, const char *transport, int ranks, int hosts)
{
    int many = strcmp(transport, "self") == 0 || run->all || run->ranks;

    if ((run->ranks && run->ranks != ranks) || (run->hosts && run->hosts != hosts))
        return 0;
    if (strcmp(transport, "shm") == 0)
        return hosts == 1 && ranks > 1 && (many || ranks == 3);
    if (strcmp(transport, "shm+ucx") == 0)
        return hosts > 1 && ranks > hosts && (many || (ranks == 3 && hosts == 2));
    return many || (ranks == 2 && hosts == 1);
}

static void run_all(struct run *run)
{
    for (int i = 0; transport_names[i]; i++) {
        const char *transport = transport_names[i];

        if (!takes(&run->transports, transport) || (!run->transports.only && !ri_transport_find(transport)))
            continue;
        for (int ranks = 1; ranks <= MAX_RANKS; ranks++)
            for (int hosts = 1; hosts <= ranks && hosts <= MAX_HOSTS; hosts++)
                if (reaches(run, transport, ranks, hosts))
                    run_group(run, transport, ranks, hosts);
    }
}

/* ---- options ---- */

static int usage(FILE *out, int code)
{
    fprintf(out, "usage: masks [--all] [--mask LIST] [--layout LIST] [--schedule LIST] [--backward LIST]\n"
                 "             [--binding copy,auto] [--transport LIST] [--ranks P] [--hosts N]\n"
                 "             [--dtype f32,bf16,f16] [--kernel flash|reference]\n"
                 "Attention with masks against fp64 on one rank: a small set as TAP, or all.\n");
    return code;
}

static int parse(struct run *run, int argc, char **argv)
{
    static const struct option options[] = {
        { "all", no_argument, NULL, 'a' },             { "mask", required_argument, NULL, 'm' },
        { "layout", required_argument, NULL, 'l' },    { "transport", required_argument, NULL, 't' },
        { "schedule", required_argument, NULL, 's' },  { "backward", required_argument, NULL, 'w' },
        { "binding", required_argument, NULL, 'i' },   { "hosts", required_argument, NULL, 'o' },
        { "ranks", required_argument, NULL, 'r' },     { "kernel", required_argument, NULL, 'k' },
        { "dtype", required_argument, NULL, 'd' },     { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'a') run->all = 1;
        else if (option == 'm') run->masks.only = optarg;
        else if (option == 'l') run->layouts.only = optarg;
        else if (option == 't') run->transports.only = optarg;
        else if (option == 's') run->schedules.only = optarg;
        else if (option == 'w') run->backwards.only = optarg;
        else if (option == 'i') run->bindings.only = optarg;
        else if (option == 'o') run->hosts = atoi(optarg);
        else if (option == 'r') run->ranks = atoi(optarg);
        else if (option == 'd') run->dtypes.only = optarg;
        else if (option == 'k') run->kernel = optarg;
        else return usage(option == 'h' ? stdout : stderr, option == 'h' ? 1 : 2);
    }
    if (check_names("masks", "mask", &run->masks) || check_names("masks", "layout", &run->layouts) ||
        check_names("masks", "transport", &run->transports) || check_names("masks", "schedule", &run->schedules) ||
        check_names("masks", "backward", &run->backwards) || check_names("masks", "binding", &run->bindings) ||
        check_names("masks", "dtype", &run->dtypes))
        return 2;
    return 0;
}

static void make_problems(struct run *run)
{
    run->problems = calloc((size_t)mask_case_count, sizeof(*run->problems));
    if (!run->problems)
        exit(1);
    for (int i = 0; i < mask_case_count; i++)
        if (takes(&run->masks, mask_cases[i].group))
            masked_init(&run->problems[run->problem_count++], &mask_cases[i], (uint64_t)i + 1);
}

static void run_matrix(struct run *run)
{
    make_problems(run);
    if (run->all)
        print_head();
    run_all(run);
    if (run->all)
        printf("%d runs, %d wrong, bar %g\n", run->runs, run->wrong, BAR);
    for (int i = 0; i < run->problem_count; i++)
        masked_release(&run->problems[i]);
    free(run->problems);
    run->wrong += run->runs == 0;
}

int main(int argc, char **argv)
{
    struct run run = { .kernel = "flash", .dtypes = { dtype_names, NULL },
                       .masks = { mask_names, NULL }, .layouts = { form_names, NULL },
                       .transports = { transport_names, NULL }, .schedules = { schedule_names, NULL },
                       .backwards = { backward_names, NULL }, .bindings = { binding_names, NULL } };
    int stop = parse(&run, argc, argv), wrong;

    if (stop)
        return stop == 1 ? 0 : stop;
    if (takes(&run.dtypes, "f32"))
        run_matrix(&run);
    wrong = run_types(&run.dtypes, run.kernel, run.all, &run.groups);
    if (run.all)
        printf("%d rows of types are wrong\n", wrong);
    else
        printf("1..%d\n", run.groups);
    return run.wrong != 0 || wrong != 0;
}
