/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the checker over every machine of hosts x local ranks, and over some uneven ones, for all
 * attention builders in all their variants, with slots bound wherever the rule allows it.
 *
 *     shapes [--ranks N]      at most N ranks; 64 */
#include <rondo/status.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/status.h"
#include "schedule/schedule.h"

enum { MAX_SHAPE = 256, MAX_HOSTS = 8 };

struct shape {
    char name[64];
    int ranks, local; /* local: ranks of the largest host */
    int32_t host[MAX_SHAPE];
};

/* How a builder is asked for another form of its scheme.  For builders whose name starts so. */
struct variant {
    const char *builder, *name;
    int landing, landing_per_local, pieces, chunked;
};

static const struct variant variants[] = {
    {"", "", 0, 0, 0, 0},
    {"ring_", "landing 3", 3, 0, 0, 0},
    {"ring_", "landing local+1", 1, 1, 0, 0},
    {"direct_", "landing 3", 3, 0, 0, 0},
    {"two_level_", "landing 3", 3, 0, 0, 0},
    {"two_level_", "chunked", 0, 0, 0, 1},
    {"two_level_", "pieces 2", 0, 0, 2, 0},
    {"two_level_", "pieces 2, chunked", 0, 0, 2, 1},
    {NULL, NULL, 0, 0, 0, 0},
};

struct tally {
    int64_t cases, refused, copying, binding, bound, failures, transfers;
    double seconds;
};

static double now(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static int starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* Receives of whole read-only blocks inside a host: all of them, or those that bind. */
static int64_t local_receives(struct ri_schedule *const *s, int ranks, int bound)
{
    int64_t count = 0;

    for (int r = 0; r < ranks; r++) {
        for (uint32_t i = 0; i < s[r]->step_count; i++) {
            const struct ri_step *step = &s[r]->steps[i];

            count += step->op == RI_RECV && step->lane == RI_LANE_LOCAL && step->bind >= bound &&
                     step->to[0].parts == s[r]->head_parts * s[r]->token_parts &&
                     !ri_bundle_accumulates(s[r]->slots[step->to[0].slot].bundle);
        }
    }
    return count;
}

/* Where ranks of a host send each other whole blocks, some are read in place; on one host a ring
 * reads all that comes so. */
static int check_bound(struct ri_schedule *const *s, const struct shape *shape, const char *builder)
{
    int64_t bound = local_receives(s, shape->ranks, 1), all = local_receives(s, shape->ranks, 0);
    int64_t ring = (int64_t)shape->ranks * (shape->ranks - 1);
    int one_host = shape->local == shape->ranks;

    if (all && !bound)
        return ri_error(RONDO_ERR_MISMATCH, "none of %lld receives inside hosts is bound",
                        (long long)all);
    if (one_host && starts(builder, "ring_") && bound != ring)
        return ri_error(RONDO_ERR_MISMATCH, "%lld receives are bound on one host, not %lld",
                        (long long)bound, (long long)ring);
    return 0;
}

/* 1: refused, with s[] empty; a builder that refuses one rank must refuse all. */
static int build(struct ri_schedule **s, const struct shape *shape, ri_builder *builder,
                 const struct variant *v)
{
    struct ri_build how = {.ranks = shape->ranks,
                           .host = shape->host,
                           .landing = v->landing + v->landing_per_local * shape->local,
                           .pieces = v->pieces,
                           .chunked = v->chunked};
    int refused = 0;

    for (int r = 0; r < shape->ranks; r++) {
        how.rank = r;
        s[r] = NULL;
        refused += builder(&s[r], &how) != 0;
    }
    return refused == shape->ranks ? 1 : refused ? -1 : 0;
}

static int prove(struct ri_schedule *const *s, const struct shape *shape, const char *builder,
                 struct tally *tally)
{
    struct ri_check check;
    int ranks = shape->ranks, err = ri_schedule_bind(s, ranks);

    if (!err)
        err = ri_schedule_check(s, ranks, RI_GOAL_ATTENTION, &check);
    if (!err)
        err = check_bound(s, shape, builder);
    tally->cases++;
    tally->copying += 2;
    tally->bound += local_receives(s, ranks, 1);
    tally->binding += local_receives(s, ranks, 1) ? 2 : 0;
    tally->transfers += err ? 0 : check.transfers;
    return err;
}

static void run(const struct shape *shape, const struct ri_builder_entry *entry,
                const struct variant *v, struct tally *tally)
{
    struct ri_schedule *s[MAX_SHAPE];
    double start = now();
    int err = build(s, shape, entry->build, v);

    if (!err)
        err = prove(s, shape, entry->name, tally);
    else if (err > 0)
        tally->refused++;
    if (err < 0) {
        printf("# %s %s %s: %s\n", shape->name, entry->name, v->name, rondo_last_error());
        tally->failures++;
    }
    for (int r = 0; r < shape->ranks; r++)
        ri_schedule_destroy(s[r]);
    tally->seconds += now() - start;
}

/* sizes: of hosts, ends with 0.  Interleaved: one rank of each host after the other. */
static struct shape shape_of(const int *sizes, int interleaved)
{
    struct shape shape = {.ranks = 0};
    int hosts = 0;

    for (; sizes[hosts]; hosts++) {
        if (sizes[hosts] > shape.local)
            shape.local = sizes[hosts];
        if (!interleaved)
            for (int n = 0; n < sizes[hosts]; n++)
                shape.host[shape.ranks++] = hosts;
        if (strlen(shape.name) < sizeof(shape.name) - 24)
            sprintf(shape.name + strlen(shape.name), "%s%d", hosts ? "+" : "", sizes[hosts]);
    }
    for (int n = 0; interleaved && n < shape.local; n++)
        for (int h = 0; h < hosts; h++)
            if (n < sizes[h])
                shape.host[shape.ranks++] = h;
    strcat(shape.name, interleaved ? " interleaved" : "");
    return shape;
}

static const int uneven[][MAX_HOSTS] = {
    {3, 2},    {2, 3},       {1, 4},     {4, 3},       {7, 8},    {8, 4},       {4, 2, 1},
    {1, 2, 4}, {1, 1, 6},    {5, 1, 3},  {2, 1, 2, 1}, {3, 3, 2}, {1, 1, 1, 2}, {6, 2, 6, 2},
    {8, 8, 7}, {4, 4, 3, 1}, {16, 15},   {9, 1},       {1, 9},    {12, 5, 7},   {8, 8, 8, 4},
    {31, 1},   {3, 5, 7, 9}, {16, 8, 4}, {13, 13, 12}, {32, 31},  {20, 1, 20},  {10, 11, 12, 13},
};

/* In every variant there is of this builder. */
static void run_shape(const struct shape *shape, const struct ri_builder_entry *entry,
                      struct tally *tallies)
{
    for (int v = 0; variants[v].builder; v++)
        if (starts(entry->name, variants[v].builder))
            run(shape, entry, &variants[v], &tallies[v]);
}

static int total(const int *sizes)
{
    int ranks = 0;

    for (int h = 0; h < MAX_HOSTS && sizes[h]; h++)
        ranks += sizes[h];
    return ranks;
}

/* Returns how many machines there were. */
static int run_all(const struct ri_builder_entry *entry, int most, struct tally *tallies)
{
    int shapes = 0;

    for (int hosts = 1; hosts <= most; hosts++) {
        for (int local = 1; hosts * local <= most; local++) {
            int sizes[MAX_SHAPE + 1] = {0};

            for (int h = 0; h < hosts; h++)
                sizes[h] = local;
            for (int interleaved = 0; interleaved <= (hosts > 1 && local > 1); interleaved++) {
                struct shape shape = shape_of(sizes, interleaved);

                run_shape(&shape, entry, tallies);
                shapes++;
            }
        }
    }
    for (size_t i = 0; i < sizeof(uneven) / sizeof(uneven[0]); i++) {
        for (int interleaved = 0; total(uneven[i]) <= most && interleaved <= 1; interleaved++) {
            struct shape shape = shape_of(uneven[i], interleaved);

            run_shape(&shape, entry, tallies);
            shapes++;
        }
    }
    return shapes;
}

static void add(struct tally *sum, const struct tally *one)
{
    sum->cases += one->cases;
    sum->refused += one->refused;
    sum->copying += one->copying;
    sum->binding += one->binding;
    sum->bound += one->bound;
    sum->failures += one->failures;
    sum->transfers += one->transfers;
    sum->seconds += one->seconds;
}

static void print(const char *builder, const char *variant, const struct tally *t)
{
    printf("# %-18s %-18s %6lld %7lld %7lld %7lld %8lld %8.1f %4lld\n", builder, variant,
           (long long)t->cases, (long long)t->refused, (long long)t->copying, (long long)t->binding,
           (long long)t->bound, t->seconds, (long long)t->failures);
}

static int is_attention(const char *name)
{
    return strstr(name, "_forward") || strstr(name, "_grad");
}

static int most_ranks(int argc, char **argv)
{
    int most = 64;

    if (argc == 1)
        return most;
    if (argc == 3 && !strcmp(argv[1], "--ranks"))
        most = atoi(argv[2]);
    else
        most = 0;
    return most >= 1 && most <= MAX_SHAPE ? most : -1;
}

int main(int argc, char **argv)
{
    int most = most_ranks(argc, argv), tests = 0;
    struct tally all = {0};

    if (most < 0) {
        fprintf(stderr, "usage: shapes [--ranks 1..%d]\n", MAX_SHAPE);
        return 2;
    }
    printf("# runs: in each model in both orders, groups of whole turns and groups per lane\n");
    printf("# %-18s %-18s %6s %7s %7s %7s %8s %8s %s\n", "builder", "variant", "cases", "refused",
           "copying", "binding", "bound", "seconds", "failures");
    for (const struct ri_builder_entry *entry = ri_builders; entry->name; entry++) {
        struct tally tallies[sizeof(variants) / sizeof(variants[0])] = {{0}}, sum = {0};
        int shapes;

        if (!is_attention(entry->name))
            continue;
        shapes = run_all(entry, most, tallies);
        for (int v = 0; variants[v].builder; v++) {
            if (starts(entry->name, variants[v].builder))
                print(entry->name, variants[v].name, &tallies[v]);
            add(&sum, &tallies[v]);
        }
        add(&all, &sum);
        printf("%sok %d - %s on %d machines\n", sum.failures ? "not " : "", ++tests, entry->name,
               shapes);
        fflush(stdout);
    }
    print("all", "", &all);
    printf("1..%d\n", tests);
    return all.failures != 0;
}
