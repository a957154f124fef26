/* SPDX-License-Identifier: Apache-2.0 */
/* bf16 and f16 over 1 to 16 ranks against fp64 of the same inputs: the error does not grow with the ranks,
 * because partial results and sums are fp32 and are rounded once. */
#include "tests/e2e/masks_types.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/e2e/masks_judge.h"

const char *const dtype_names[] = { "f32", "bf16", "f16", NULL };

static const struct type {
    const char *name;
    rondo_dtype_t dtype;
    double unit; /* a rounding, relative, at most */
} types[] = { { "bf16", RONDO_BF16, 1.0 / 256 }, { "f16", RONDO_F16, 1.0 / 2048 } };

static const int64_t slots[] = { 200, 0, 340, 1, 483 }, lengths[] = { 200, 0, 333, 1, 470 };
static const struct packing documents = { 5, slots, lengths };

/* The first is for all; the last is that of a report in which training broke. */
static const struct mask_case cases[] = {
    { "causal", "256 tokens", RONDO_MASK_CAUSAL, { .prefix = 0 }, { 256 }, .shape = 1 },
    { "causal", "1024 tokens", RONDO_MASK_CAUSAL, { .prefix = 0 }, { 1024 }, .shape = 1 },
    { "full", "1024 tokens", RONDO_MASK_FULL, { .prefix = 0 }, { 1024 }, .shape = 1 },
    { "window", "100 back of 1024", RONDO_MASK_WINDOW, { .left = 100 }, { 1024 }, .shape = 1 },
    { "documents", "padded, 1024 slots", RONDO_MASK_CAUSAL, { .prefix = 0 }, { 1024 }, { &documents }, .shape = 1 },
    { "causal", "4096 tokens, 4 heads of 128", RONDO_MASK_CAUSAL, { .prefix = 0 }, { 4096 }, .shape = 8 },
};

enum { CASES = sizeof(cases) / sizeof(cases[0]), TYPES = sizeof(types) / sizeof(types[0]) };

static double rms(const struct judged *j, int out)
{
    return j->ref2[out] > 0 ? sqrt(j->diff2[out] / j->ref2[out]) : 0;
}

/* At most twice that of one rank and a rounding of the largest number; all numbers together at most half
 * as much again.  lse is fp32 whatever the inputs. */
static int is_wrong(const struct judged *j, const struct judged *one, const struct type *type)
{
    int wrong = 0;

    for (int out = 0; out < OUT_SINKS; out++) {
        double rounding = out == OUT_LSE ? 1e-5 : type->unit * j->largest[out];

        wrong += !(j->worst[out] <= 2 * one->worst[out] + rounding);
        wrong += out != OUT_LSE && !(rms(j, out) <= 1.5 * rms(one, out));
    }
    return wrong != 0;
}

static void print_row(const struct mask_case *is, const char *type, const char *backward, int ranks,
                      const struct judged *j, int wrong)
{
    printf("%-4s %-9s %-27s %-7s %2d", type, is->group, is->name, backward, ranks);
    for (int out = 0; out < OUT_SINKS; out++)
        printf(" %8.2e", j->worst[out]);
    for (int out = 0; out < OUT_SINKS; out++)
        if (out != OUT_LSE)
            printf(" %8.2e", rms(j, out));
    printf("%s\n", wrong ? " WRONG" : "");
    fflush(stdout);
}

static int run_case(const struct masked *p, const struct type *type, const struct setting *s, int all)
{
    struct judged one;
    int wrong = 0;

    for (int ranks = 1; ranks <= (all ? 16 : 4); ranks *= 2) {
        struct team *team = team_create("self", ranks, 1, p, 1);
        int failed = team_attend(team, p, s);
        struct judged j = judge_answer(team, p);
        int bad;

        if (ranks == 1)
            one = j;
        bad = failed || !judged_counts(&j, p) || is_wrong(&j, &one, type);
        if (all || bad)
            print_row(p->is, type->name, s->backward, ranks, &j, bad);
        wrong += bad;
        team_destroy(team);
    }
    return wrong;
}

/* All types that are taken, with the same inputs and the same answer. */
static void run_inputs(int c, const struct choice *dtypes, const char *kernel, int all, int *wrongs)
{
    static const char *const backwards[] = { "kv-grad", "q-grad" };
    struct mask_case is = cases[c];
    struct masked p;

    is.dtype = RONDO_BF16;
    masked_init(&p, &is, (uint64_t)c + 77);
    for (int i = 0; i < TYPES * 2; i++) {
        const struct type *type = &types[i / 2];
        struct setting s = { .kind = { RONDO_LAYOUT_ZIGZAG, RONDO_LAYOUT_ZIGZAG }, .kernel = kernel,
                             .schedule = "ring", .backward = backwards[i % 2], .binding = "copy" };

        is.dtype = type->dtype;
        if (takes(dtypes, type->name))
            wrongs[i / 2] += run_case(&p, type, &s, all);
    }
    masked_release(&p);
}

static void print_head(void)
{
    printf("%-4s %-9s %-27s %-7s %2s", "type", "mask", "", "back", "P");
    for (int out = 0; out < OUT_SINKS; out++)
        printf(" %8s", out_names[out]);
    for (int out = 0; out < OUT_SINKS; out++)
        if (out != OUT_LSE)
            printf(" %4s rel", out_names[out]);
    printf("\n");
}

int run_types(const struct choice *dtypes, const char *kernel, int all, int *number)
{
    int wrongs[TYPES] = { 0 }, sum = 0, taken = 0;

    for (int t = 0; t < TYPES; t++)
        taken += takes(dtypes, types[t].name);
    if (all && taken)
        print_head();
    for (int c = all ? 1 : 0; c < (all ? CASES : 1) && taken; c++)
        run_inputs(c, dtypes, kernel, all, wrongs);
    for (int t = 0; t < TYPES; t++) {
        if (!all && takes(dtypes, types[t].name))
            printf("%sok %d - the error of %s does not grow with the ranks\n", wrongs[t] ? "not " : "", ++*number,
                   types[t].name);
        sum += wrongs[t];
    }
    return sum;
}
