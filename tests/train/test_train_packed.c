/* SPDX-License-Identifier: Apache-2.0 */
/* Packed documents, windows and bf16 in the trainer: over ranks that are threads, through its own layouts and
 * plans, against one rank, against the model in double, and against what they must not depend on. */
#include "check.h"
#include "packed_run.h"
#include "reference.h"

enum { MOST_RANKS = 3, WINDOW = 4 };

/* Ways to cut the sequence over ranks. */
static const struct cut {
    const char *layout, *deal;
    int packed; /* for documents alone */
} cuts[] = {
    { "contiguous", "sequence", 0 }, { "zigzag", "sequence", 0 },     { "striped", "sequence", 0 },
    { "balanced", "sequence", 0 },   { "contiguous", "documents", 1 }, { "zigzag", "documents", 1 },
    { "striped", "documents", 1 },
};

enum { CUTS = sizeof(cuts) / sizeof(cuts[0]) };

/* What a case may have beside its cut. */
enum { DOCUMENTS = 1, WINDOWED = 2, BF16 = 4 };

static struct packed a_case(const struct cut *cut, int ranks, int what)
{
    struct packed c = packed_case(ranks);

    c.options.layout = cut->layout;
    c.options.deal = cut->deal;
    if (what & DOCUMENTS)
        packed_documents(&c);
    if (what & WINDOWED)
        c.options.window = WINDOW;
    if (what & BF16)
        c.options.dtype = "bf16";
    return c;
}

/* Calls test for each cut and number of ranks that may have what. */
static void for_each(void (*test)(const struct cut *cut, int ranks, int what), int what)
{
    for (int i = 0; i < CUTS; i++)
        for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
            if (!cuts[i].packed || what & DOCUMENTS)
                test(&cuts[i], ranks, what);
}

/* Bars: fp32 sums in another order differ by 1e-7 or so, and are given 1e-5.  Of numbers that differ by d and
 * are then rounded to bf16, whose neighbours lie u = 2^-7 apart, a share d / u goes to another neighbour: of the
 * few here none, as a rule, or one, which is 2^-7 of itself away and moves the gradients by some part of that, by
 * its place (2.8e-5, 1.1e-4 and 2.3e-3 were seen).  So most settings must be within what numbers that all stay
 * give, and none may be off by more than one neighbour.  A window of one key more moves the gradients by 0.3. */
#define BAR 1e-5
#define NEIGHBOUR 0x1p-7

struct tally {
    int rounded, moved; /* settings in bf16; those of them in which a number went to another neighbour */
};

static void learns_as_one_rank(const struct cut *cut, int ranks, int what, struct tally *tally)
{
    struct packed one = a_case(&cuts[0], 1, what), many = a_case(cut, ranks, what);
    double difference;

    packed_run(&one);
    packed_run(&many);
    difference = packed_difference(&one, &many);
    assert_int_equal(many.valid, one.valid);
    assert_memory_equal(many.counted, one.counted, sizeof(one.counted));
    check_close(many.nats, one.nats, what & BF16 ? 1e-4 : BAR, "loss", 0);
    if (!(difference <= (what & BF16 ? NEIGHBOUR : BAR)))
        fail_msg("%s by %s on %d ranks, %d: gradients differ by %g", cut->layout, cut->deal, ranks, what, difference);
    tally->rounded += (what & BF16) != 0;
    tally->moved += difference > BAR;
    packed_release(&one);
    packed_release(&many);
}

static void any_ranks_learn_as_one(void **state)
{
    struct tally tally = { 0, 0 };

    for (int what = 0; what < 8; what++)
        for (int i = 0; i < CUTS; i++)
            for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
                if (!cuts[i].packed || what & DOCUMENTS)
                    learns_as_one_rank(&cuts[i], ranks, what, &tally);
    if (tally.moved * 4 > tally.rounded)
        fail_msg("gradients moved in %d of %d settings in bf16", tally.moved, tally.rounded);
}

/* ---- against the model in double, one document at a time ---- */

struct alone {
    const struct packed *c;
    double *w;
};

static double loss_alone(void *context)
{
    const struct alone *alone = context;
    const struct packed *c = alone->c;
    double loss = 0.0;

    for (int d = 0; d < c->documents; d++) {
        int64_t n = c->edges[d + 1] - c->edges[d];
        const int32_t *tokens = c->tokens + c->edges[d];
        int32_t targets[PACKED_TOKENS];

        for (int64_t i = 0; i < n; i++)
            targets[i] = i + 1 < n ? tokens[i + 1] : -100;
        loss += reference_model(&packed_sizes, alone->w, tokens, targets, n);
    }
    return loss;
}

static void documents_are_sequences_of_their_own(void **state)
{
    struct packed c = a_case(&cuts[0], 1, DOCUMENTS);
    struct alone alone = { &c, NULL };
    struct weights w;

    packed_run(&c);
    packed_weights(&w);
    alone.w = calloc(w.count, sizeof(*alone.w));
    for (size_t i = 0; i < w.count; i++)
        alone.w[i] = (double)w.arena[i];
    check_close(c.nats, loss_alone(&alone), 2e-6, "loss", 0);
    assert_int_equal(c.valid, PACKED_TOKENS - c.documents);
    for (int d = 0; d < c.documents; d++)
        assert_int_equal(c.counted[c.edges[d + 1] - 1], 0);
    for (size_t i = 0; i < w.count; i += 5)
        check_close(c.gradients[i], reference_slope(loss_alone, &alone, alone.w + i), 2e-5, "gradient",
                    (int64_t)i);
    free(alone.w);
    weights_release(&w);
    packed_release(&c);
}

/* ---- what must not be seen ---- */

/* Changes the token at `at`: the logits of exactly first..end - 1 may change, and the outer two must. */
static void changes(const struct packed *before, int at, int64_t first, int64_t end)
{
    struct packed after = *before;

    after.gradients = NULL;
    after.tokens[at] = (after.tokens[at] + 1) % PACKED_VOCAB;
    packed_run(&after);
    for (int64_t t = 0; t < PACKED_TOKENS; t++) {
        int same = memcmp(after.logits[t], before->logits[t], sizeof(after.logits[0])) == 0;

        if (!same && (t < first || t >= end))
            fail_msg("%s by %s on %d ranks: token %d changed the logits of %lld", before->options.layout,
                     before->options.deal, before->ranks, at, (long long)t);
        if (same && (t == first || t == end - 1))
            fail_msg("token %d did not change the logits of %lld", at, (long long)t);
    }
    packed_release(&after);
}

static void stays_in_its_document(const struct cut *cut, int ranks, int what)
{
    struct packed c = a_case(cut, ranks, what);

    packed_run(&c);
    for (int d = 0; d < c.documents; d++) {
        int64_t middle = (c.edges[d] + c.edges[d + 1]) / 2;

        changes(&c, (int)c.edges[d], c.edges[d], c.edges[d + 1]);
        changes(&c, (int)middle, middle, c.edges[d + 1]);
    }
    packed_release(&c);
}

static void byte_changes_its_own_document_alone(void **state)
{
    for_each(stays_in_its_document, DOCUMENTS);
}

/* Each layer sees WINDOW - 1 tokens further back. */
static void stays_in_its_window(const struct cut *cut, int ranks, int what)
{
    const int reach = packed_sizes.layers * (WINDOW - 1);
    struct packed c = a_case(cut, ranks, what);

    packed_run(&c);
    for (int at = 0; at < PACKED_TOKENS; at += 4) {
        int64_t end = at + reach + 1;

        for (int d = 0; d < c.documents; d++)
            if (c.edges[d] <= at && at < c.edges[d + 1] && c.edges[d + 1] < end)
                end = c.edges[d + 1];
        changes(&c, at, at, end < PACKED_TOKENS ? end : PACKED_TOKENS);
    }
    packed_release(&c);
}

static void byte_changes_as_far_as_windows_reach(void **state)
{
    for_each(stays_in_its_window, WINDOWED);
    for_each(stays_in_its_window, WINDOWED | DOCUMENTS);
}

static void same_bits(const struct packed *a, const struct packed *b)
{
    assert_memory_equal(a->logits, b->logits, sizeof(a->logits));
    assert_memory_equal(a->gradients, b->gradients, a->count * sizeof(*a->gradients));
    assert_true(a->nats == b->nats && a->valid == b->valid);
}

static void ignores_a_long_window(const struct cut *cut, int ranks, int what)
{
    struct packed causal = a_case(cut, ranks, what), window = a_case(cut, ranks, what);

    packed_run(&causal);
    window.options.window = PACKED_TOKENS;
    packed_run(&window);
    same_bits(&causal, &window);
    window.options.window = 1 << 30;
    packed_run(&window);
    same_bits(&causal, &window);
    packed_release(&causal);
    packed_release(&window);
}

/* A balanced layout may deal out ties otherwise for another mask, and then adds in another order. */
static void long_window_is_causal_bitwise(void **state)
{
    for_each(ignores_a_long_window, 0);
    for_each(ignores_a_long_window, DOCUMENTS);
}

static void forgets_other_documents(const struct cut *cut, int ranks, int what)
{
    struct packed fresh = a_case(cut, ranks, what), again = a_case(cut, ranks, what);

    again.rebind = 1;
    packed_run(&fresh);
    packed_run(&again);
    same_bits(&fresh, &again);
    packed_release(&fresh);
    packed_release(&again);
}

static void bound_plan_is_as_a_fresh_one(void **state)
{
    for_each(forgets_other_documents, DOCUMENTS);
    for_each(forgets_other_documents, DOCUMENTS | WINDOWED | BF16);
}

/* ---- bf16 ---- */

/* Some dozen roundings by 2^-9 at most each, and not by nothing. */
static void bf16_is_near_fp32_and_not_equal(void **state)
{
    struct packed a = a_case(&cuts[1], 2, 0), b = a_case(&cuts[1], 2, BF16);
    double difference;

    packed_run(&a);
    packed_run(&b);
    difference = packed_difference(&a, &b);
    if (!(difference > 1e-4 && difference < 2e-2))
        fail_msg("gradients in bf16 differ by %g", difference);
    check_close(b.nats, a.nats, 5e-3, "loss", 0);
    packed_release(&a);
    packed_release(&b);
}

static void wire_types_round_what_travels(void **state)
{
    struct packed a = a_case(&cuts[1], 2, 0), b = a_case(&cuts[1], 2, 0), one = a_case(&cuts[1], 1, 0);
    double difference;

    b.options.wire = "bf16";
    packed_run(&a);
    packed_run(&b);
    difference = packed_difference(&a, &b);
    if (!(difference > 1e-4 && difference < 2e-2))
        fail_msg("gradients over bf16 differ by %g", difference);
    packed_run(&one);
    packed_release(&a);
    a = a_case(&cuts[1], 1, 0);
    a.options.wire = "bf16";
    packed_run(&a);
    same_bits(&a, &one); /* nothing travels */
    packed_release(&a);
    packed_release(&b);
    packed_release(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_ranks_learn_as_one),
        cmocka_unit_test(documents_are_sequences_of_their_own),
        cmocka_unit_test(byte_changes_its_own_document_alone),
        cmocka_unit_test(byte_changes_as_far_as_windows_reach),
        cmocka_unit_test(long_window_is_causal_bitwise),
        cmocka_unit_test(bound_plan_is_as_a_fresh_one),
        cmocka_unit_test(bf16_is_near_fp32_and_not_equal),
        cmocka_unit_test(wire_types_round_what_travels),
    };

    return cmocka_run_group_tests_name("train packed", tests, NULL, NULL);
}
