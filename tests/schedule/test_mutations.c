/* SPDX-License-Identifier: Apache-2.0 */
/* A thousand small changes of correct schedules.  Each is refused, or leaves a schedule that is
 * right: it reads the same, or it gives the same results in whatever order its messages arrive.
 * RONDO_TEST_SEED and RONDO_TEST_COUNT ask for others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <rondo/status.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/internal.h"
#include "tests/schedule/mutate.h"
#include "tests/schedule/play.h"
#include "tests/short.h"

enum { ORDERS = 30 };

static const int32_t pairs[] = {0, 0, 1, 1, 2, 2};
static const int32_t mixed[] = {0, 1, 0, 1, 0}, uneven[] = {0, 0, 0, 1, 1};

/* What is changed.  Either a text, or a builder by name.  */
static const struct origin {
    const char *builder;
    char *(*text)(int rank, int ranks);
    int ranks;
    const int32_t *host;
    int landing, pieces, chunked, bound;
    enum ri_goal goal;
} origins[] = {
    {"ring_forward", NULL, 4, NULL, 0, 0, 0, 0, RI_GOAL_ATTENTION},
    {"ring_forward", NULL, 4, pairs, 3, 0, 0, 1, RI_GOAL_ATTENTION},
    {"ring_kv_grad", NULL, 4, NULL, 0, 0, 0, 1, RI_GOAL_ATTENTION},
    {"ring_kv_grad", NULL, 5, mixed, 0, 0, 0, 0, RI_GOAL_ATTENTION},
    {"ring_q_grad", NULL, 5, uneven, 4, 0, 0, 1, RI_GOAL_ATTENTION},
    {"two_level_forward", NULL, 6, pairs, 0, 0, 0, 1, RI_GOAL_ATTENTION},
    {"two_level_forward", NULL, 5, uneven, 0, 2, 1, 1, RI_GOAL_ATTENTION},
    {"two_level_kv_grad", NULL, 4, pairs, 0, 0, 0, 0, RI_GOAL_ATTENTION},
    {"two_level_kv_grad", NULL, 6, pairs, 0, 0, 1, 1, RI_GOAL_ATTENTION},
    {"two_level_q_grad", NULL, 4, pairs, 0, 2, 0, 1, RI_GOAL_ATTENTION},
    {"two_level_q_grad", NULL, 5, uneven, 0, 0, 0, 1, RI_GOAL_ATTENTION},
    {"direct_forward", NULL, 4, pairs, 0, 0, 0, 1, RI_GOAL_ATTENTION},
    {"direct_kv_grad", NULL, 4, NULL, 0, 0, 0, 1, RI_GOAL_ATTENTION},
    {"direct_q_grad", NULL, 5, mixed, 0, 0, 0, 0, RI_GOAL_ATTENTION},
    {NULL, text_two_level_fwd, 8, NULL, 0, 0, 0, 1, RI_GOAL_ATTENTION},
    {NULL, text_two_level_q, 4, NULL, 0, 0, 0, 1, RI_GOAL_ATTENTION},
    {NULL, text_mesh2x2, 4, NULL, 0, 0, 0, 1, RI_GOAL_ATTENTION},
    {NULL, text_all_to_all, 3, NULL, 0, 0, 0, 0, RI_GOAL_ATTENTION},
    {NULL, text_chunked, 3, NULL, 0, 0, 0, 0, RI_GOAL_ATTENTION},
    {"all_reduce", NULL, 4, NULL, 0, 0, 0, 0, RI_GOAL_ALL_REDUCE},
    {"all_reduce", NULL, 5, mixed, 0, 0, 0, 0, RI_GOAL_ALL_REDUCE},
    {"broadcast", NULL, 6, pairs, 0, 0, 0, 1, RI_GOAL_BROADCAST},
    {"barrier", NULL, 5, uneven, 0, 0, 0, 0, RI_GOAL_BARRIER},
};
enum { ORIGINS = sizeof(origins) / sizeof(origins[0]) };

static void make(struct ranks *all, const struct origin *from)
{
    const struct ri_builder_entry *entry = ri_builders;

    if (from->text) {
        ranks_parse(all, from->ranks, from->text);
    } else {
        while (strcmp(entry->name, from->builder))
            entry++;
        ranks_build_as(all, entry->build,
                       &(struct ri_build){.ranks = from->ranks,
                                          .host = from->host,
                                          .landing = from->landing,
                                          .pieces = from->pieces,
                                          .chunked = from->chunked});
    }
    if (from->bound)
        assert_int_equal(ri_schedule_bind(all->s, all->count), 0);
}

static const char *play_all(const struct ranks *all, enum ri_goal goal)
{
    const char *why = NULL;

    for (int binding = 0; binding <= 1; binding++)
        for (int streams = 0; streams < PLAY_STREAMS; streams++)
            for (uint64_t seed = 0; !why && seed < ORDERS; seed++)
                why = play(all, &(struct play){.streams = (enum play_streams)streams,
                                               .goal = goal,
                                               .binding = binding,
                                               .seed = seed});
    return why;
}

enum verdict { BY_DERIVE, BY_CHECK, SAME_TEXT, SAME_RESULTS, UNDECIDED, VERDICTS };

/* Who refuses it: a rank alone, or the checker, which sees all.  VERDICTS: nobody. */
static enum verdict refused(struct ranks *all, enum ri_goal goal)
{
    struct ri_check check;

    for (int r = 0; r < all->count; r++)
        if (ri_schedule_derive(all->s[r]))
            return BY_DERIVE;
    return ri_schedule_check(all->s, all->count, goal, &check) ? BY_CHECK : VERDICTS;
}

static int reads_the_same(const struct ranks *a, const struct ranks *b)
{
    int same = 1;

    for (int r = 0; same && r < a->count; r++) {
        char *x = ri_schedule_print(a->s[r]), *y = ri_schedule_print(b->s[r]);

        assert_non_null(x);
        assert_non_null(y);
        same = !strcmp(x, y);
        free(x);
        free(y);
    }
    return same;
}

static enum verdict judge(const struct origin *from, const struct mutation *m, const char **why)
{
    struct ranks all, before;
    enum verdict verdict;

    make(&all, from);
    make(&before, from);
    mutate(&all, m);
    *why = NULL;
    verdict = refused(&all, from->goal);
    if (verdict == VERDICTS) {
        *why = play_all(&all, from->goal);
        verdict = *why ? UNDECIDED : reads_the_same(&all, &before) ? SAME_TEXT : SAME_RESULTS;
    }
    ranks_release(&all);
    ranks_release(&before);
    return verdict;
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 0) : otherwise;
}

static void show_row(const char *field, const char *ends, const int *row)
{
    int all = 0;

    for (int v = 0; v < VERDICTS; v++)
        all += row[v];
    if (all)
        printf("# %-11s %-5s %9d %9d %8d %9d %12d %9d\n", field, ends, all, row[BY_DERIVE],
               row[BY_CHECK], row[SAME_TEXT], row[SAME_RESULTS], row[UNDECIDED]);
}

static void show(uint64_t seed, int table[FIELDS][2][VERDICTS], int *sum)
{
    printf("# seed %llu\n# rejected by the derivation of one rank, or only by the check of all\n",
           (unsigned long long)seed);
    printf("# %-11s %-5s %9s %9s %8s %9s %12s %9s\n", "field", "ends", "mutations", "by derive",
           "by check", "same text", "same results", "undecided");
    for (int f = 0; f < FIELDS; f++) {
        for (int both = 0; both <= 1; both++) {
            show_row(field_names[f],
                     !both                        ? "one"
                     : is_of_table((enum field)f) ? "all"
                                                  : "both",
                     table[f][both]);
            for (int v = 0; v < VERDICTS; v++)
                sum[v] += table[f][both][v];
        }
    }
    show_row("all", "", sum);
}

static void each_is_refused_or_right(void **state)
{
    static int table[FIELDS][2][VERDICTS];
    uint64_t seed = setting("RONDO_TEST_SEED", 20240607), random = seed;
    int count = (int)setting("RONDO_TEST_COUNT", test_is_short() ? 100 : 1000);
    int undecided = 0, sum[VERDICTS] = {0};

    for (int n = 0; n < count; n++) {
        const struct origin *from = &origins[random_below(&random, ORIGINS)];
        struct mutation m;
        struct ranks all;
        enum verdict verdict;
        const char *why;

        make(&all, from);
        m = choose_mutation(&all, &random);
        ranks_release(&all);
        verdict = judge(from, &m, &why);
        table[m.field][m.both][verdict]++;
        if (verdict == UNDECIDED && ++undecided < 20)
            printf("# %s %s: rank %d step %u operand %d becomes %d%s: %s\n",
                   from->builder ? from->builder : "text", field_names[m.field], m.rank,
                   (unsigned)m.step, m.operand, m.value, m.both ? ", both ends" : "", why);
    }
    show(seed, table, sum);
    assert_int_equal(undecided, 0);
    assert_true(sum[BY_DERIVE] > 0 && sum[BY_CHECK] > 0);
}

/* What is not changed passes both ways. */
static void origins_are_right(void **state)
{
    for (int i = 0; i < ORIGINS; i++) {
        struct ranks all;
        const char *why;

        make(&all, &origins[i]);
        assert_int_equal(refused(&all, origins[i].goal), VERDICTS);
        why = play_all(&all, origins[i].goal);
        if (why)
            fail_msg("origin %d: %s", i, why);
        ranks_release(&all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(origins_are_right),
        cmocka_unit_test(each_is_refused_or_right),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
