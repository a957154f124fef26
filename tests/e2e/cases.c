/* SPDX-License-Identifier: Apache-2.0 */
/* Results of attention that other people reported to be wrong elsewhere, one by one: doc/cases.md says which. */
#include "tests/e2e/attend.h"

#include <math.h>

#include "tests/short.h"

/* Nothing but a mask without parameters. */
static struct mask_case plain(rondo_mask_t mask, int64_t tokens, int shape)
{
    return (struct mask_case){ .group = "case", .name = "plain", .mask = mask, .tokens = { tokens }, .shape = shape };
}

/* ---- layouts ---- */

static void odd_shards_in_zigzag(void **state)
{
    struct mask_case is = plain(RONDO_MASK_CAUSAL, test_is_short() ? 299 : 2999, 11);

    (void)state;
    exact(&is, RONDO_LAYOUT_ZIGZAG, RONDO_DEAL_SEQUENCE, 4, 1);
}

static void sequences_too_short_for_their_pieces(void **state)
{
    static const int shapes[][2] = { { 3, 4 }, { 4, 4 }, { 1, 8 }, { 7, 8 } };

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct mask_case is = plain(RONDO_MASK_CAUSAL, shapes[i][0], 5);

        exact(&is, RONDO_LAYOUT_ZIGZAG, RONDO_DEAL_SEQUENCE, shapes[i][1], 1);
    }
}

static void every_layout_with_and_without_causal(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++)
        for (int kind = RONDO_LAYOUT_CONTIGUOUS; kind <= RONDO_LAYOUT_STRIPED; kind++) {
            struct mask_case is = plain(causal ? RONDO_MASK_CAUSAL : RONDO_MASK_FULL, 128, 10);

            exact(&is, (rondo_layout_kind_t)kind, RONDO_DEAL_SEQUENCE, 2, 1);
        }
}

static void striped_causal_in_shards_of_any_length(void **state)
{
    static const int64_t tokens[] = { 512, 1024, 1536, 800 };

    (void)state;
    for (size_t i = 0; i < (test_is_short() ? 1 : 4); i++) {
        struct mask_case is = plain(RONDO_MASK_CAUSAL, tokens[i], 11);

        exact(&is, RONDO_LAYOUT_STRIPED, RONDO_DEAL_SEQUENCE, 4, 1);
    }
}

static void gradients_of_every_layout_and_many_ranks(void **state)
{
    static const int ranks[] = { 2, 3, 4, 8 };

    (void)state;
    for (int i = 0; i < 4; i++)
        for (int kind = RONDO_LAYOUT_CONTIGUOUS; kind <= RONDO_LAYOUT_STRIPED; kind++)
            for (int shape = 12; shape < 14; shape++) {
                struct mask_case is = plain(RONDO_MASK_CAUSAL, 96, shape);
                struct attended a;
                struct setting s = setting_of((rondo_layout_kind_t)kind, "ring", i % 2 ? "kv-grad" : "q-grad");

                attended_init(&a, &is, 3, ranks[i], 1);
                attended_run(&a, &s);
                attended_is_exact(&a);
                for (int out = OUT_DQ; out <= OUT_DV; out++)
                    assert_true(sqrt(a.judged.diff2[out] / a.judged.ref2[out]) < 1e-5);
                attended_release(&a);
            }
}

static void value_heads_of_another_size(void **state)
{
    struct mask_case is = plain(RONDO_MASK_CAUSAL, 64, 6);

    (void)state;
    exact(&is, RONDO_LAYOUT_ZIGZAG, RONDO_DEAL_SEQUENCE, 4, 1);
    exact(&is, RONDO_LAYOUT_ZIGZAG, RONDO_DEAL_SEQUENCE, 4, 2);
}

/* ---- what must not be seen ---- */

/* V of later tokens is huge, then no number: outputs before them stay, bit by bit. */
static void later_values_change_nothing_before(void **state)
{
    static const float poison[] = { 1e30f, NAN };
    struct mask_case is = plain(RONDO_MASK_CAUSAL, 16, 5);
    struct setting s = setting_of(RONDO_LAYOUT_CONTIGUOUS, "ring", "kv-grad");
    struct attended a;
    const int64_t half = 8 * 2 * 32;
    float *before;

    (void)state;
    attended_init(&a, &is, 1, 2, 1);
    attended_run(&a, &s);
    before = copy_of(a.team->answer.o, half);
    for (int i = 0; i < 2; i++) {
        set_all(a.p.v + half, half, poison[i]);
        attended_run(&a, &s);
        assert_memory_equal(a.team->answer.o, before, (size_t)half * sizeof(float));
    }
    free(before);
    attended_release(&a);
}

/* Only early rows have a gradient: that of later values is zero, and not nearly. */
static void later_values_have_no_gradient_of_early_rows(void **state)
{
    struct mask_case is = plain(RONDO_MASK_CAUSAL, 16, 5);
    struct attended a;

    (void)state;
    attended_init(&a, &is, 1, 2, 1);
    set_all(a.p.d_o + 8 * 2 * 32, 8 * 2 * 32, 0);
    masked_solve(&a.p);
    for (int i = 0; i < 2; i++) {
        struct setting s = setting_of(RONDO_LAYOUT_CONTIGUOUS, "ring", i ? "q-grad" : "kv-grad");

        attended_run(&a, &s);
        attended_is_exact(&a);
        for (int64_t j = 8 * 2 * 32; j < 16 * 2 * 32; j++)
            assert_true(a.team->answer.dv[j] == 0 && a.team->answer.dk[j] == 0);
    }
    attended_release(&a);
}

/* Only rank 0 has gradients, and those of the keys of others come from it. */
static void gradients_reach_keys_of_other_ranks(void **state)
{
    struct mask_case is = plain(RONDO_MASK_FULL, 48, 5);
    struct attended a;

    (void)state;
    attended_init(&a, &is, 1, 3, 1);
    set_all(a.p.d_o + 16 * 2 * 32, 32 * 2 * 32, 0);
    masked_solve(&a.p);
    for (int i = 0; i < 2; i++) {
        struct setting s = setting_of(RONDO_LAYOUT_CONTIGUOUS, "ring", i ? "q-grad" : "kv-grad");

        attended_run(&a, &s);
        attended_is_exact(&a);
        for (int64_t j = 16 * 2 * 32; j < 48 * 2 * 32; j++)
            assert_true(a.team->answer.dv[j] != 0 && a.team->answer.dk[j] != 0);
    }
    attended_release(&a);
}

/* ---- scores ---- */

/* All scores are -60000: that is a number like any other. */
static void huge_negative_scores_are_no_mask(void **state)
{
    struct mask_case is = plain(RONDO_MASK_CAUSAL, 16, 5);
    struct setting s = setting_of(RONDO_LAYOUT_CONTIGUOUS, "ring", "kv-grad");

    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        struct attended a;

        attended_init(&a, &is, 1, ranks, 1);
        set_all(a.p.q, 16 * 2 * 32, (float)sqrt(6e4 / sqrt(32)));
        set_all(a.p.k, 16 * 2 * 32, -(float)sqrt(6e4 / sqrt(32)));
        masked_solve(&a.p);
        attended_run(&a, &s);
        for (int h = 0; h < 2; h++)
            for (int d = 0; d < 32; d++) {
                double sum = 0;

                for (int j = 0; j < 16; j++)
                    sum += a.p.v[(j * 2 + h) * 32 + d];
                assert_true(fabs(a.team->answer.o[(15 * 2 + h) * 32 + d] - sum / 16) < 1e-5);
                assert_true(a.team->answer.o[h * 32 + d] == a.p.v[h * 32 + d]); /* row 0 sees one key */
            }
        /* 8 times the distance of neighbours of fp32 there */
        assert_true(fabs(a.team->answer.lse[15 * 2] - (-6e4 + log(16))) < 0.03);
        attended_release(&a);
    }
}

static void a_sink_counts_once(void **state)
{
    static const float sinks[] = { 0, 5 };
    struct mask_case is = plain(RONDO_MASK_CAUSAL, 32, 5);

    (void)state;
    is.sinks = 1;
    for (int i = 0; i < 8; i++) {
        struct setting s = setting_of(RONDO_LAYOUT_ZIGZAG, i & 1 ? "two-level" : "ring", i & 4 ? "q-grad" : "kv-grad");
        struct attended a;

        attended_init(&a, &is, 1, 4, i & 1 ? 2 : 1);
        set_all(a.p.sinks, 2, sinks[i >> 1 & 1]);
        masked_solve(&a.p);
        attended_run(&a, &s);
        attended_is_exact(&a);
        attended_release(&a);
    }
}

/* ---- layers ---- */

struct layers {
    struct attended a[2];
    struct setting s;
};

/* Two layers: both forwards, both again, and backwards from the last to the first. */
static int run_layers(int rank, int ranks, void *arg)
{
    struct layers *l = arg;
    rondo_layout_t layouts[2];
    rondo_plan_t plans[2] = { NULL, NULL };
    struct shard *shards[2];
    rondo_comm_t comm = NULL;
    int err = team_join(l->a[0].team, rank, &comm);

    if (!err)
        err = setting_layout(&l->s, &l->a[0].p, QUERIES, ranks, &layouts[0]);
    layouts[1] = layouts[0];
    for (int i = 0; i < 2; i++) {
        err = err ? err : setting_plan(&l->s, &l->a[i].p, comm, layouts, NULL, &plans[i]);
        shards[i] = err ? NULL : shard_create(layouts, rank, &l->a[i].p);
    }
    for (int i = 0; i < 4 && !err; i++) {
        err = shard_forward(shards[i % 2], plans[i % 2]);
        if (!err && i < 2)
            err = shard_return(shards[i], &l->a[i].team->answer, rank);
    }
    for (int i = 1; i >= 0 && !err; i--) {
        err = shard_is_there(shards[i], &l->a[i].team->answer) ? 0 : RONDO_ERR_INTERNAL;
        err = err ? err : shard_backward(shards[i], plans[i]);
        err = err ? err : shard_return(shards[i], &l->a[i].team->answer, rank);
    }
    for (int i = 0; i < 2; i++) {
        shard_destroy(shards[i]);
        rondo_plan_destroy(plans[i]);
    }
    rondo_layout_destroy(layouts[0]);
    rondo_comm_destroy(comm);
    return err;
}

static void forwards_that_are_computed_again(void **state)
{
    struct mask_case is = plain(RONDO_MASK_CAUSAL, 50, 5);
    struct layers l = { .s = setting_of(RONDO_LAYOUT_ZIGZAG, "ring", "kv-grad") };

    (void)state;
    for (int i = 0; i < 2; i++) {
        attended_init(&l.a[i], &is, (uint64_t)i + 1, 2, 1);
        team_poison(l.a[i].team, &l.a[i].p);
    }
    assert_int_equal(run_ranks(2, 0, 60, run_layers, &l), 0);
    for (int i = 0; i < 2; i++) {
        l.a[i].judged = judge_answer(l.a[i].team, &l.a[i].p);
        for (int out = 0; out < OUTS; out++)
            assert_true(l.a[i].judged.worst[out] <= 1e-5);
        attended_release(&l.a[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_shards_in_zigzag),
        cmocka_unit_test(sequences_too_short_for_their_pieces),
        cmocka_unit_test(every_layout_with_and_without_causal),
        cmocka_unit_test(striped_causal_in_shards_of_any_length),
        cmocka_unit_test(gradients_of_every_layout_and_many_ranks),
        cmocka_unit_test(value_heads_of_another_size),
        cmocka_unit_test(later_values_change_nothing_before),
        cmocka_unit_test(later_values_have_no_gradient_of_early_rows),
        cmocka_unit_test(gradients_reach_keys_of_other_ranks),
        cmocka_unit_test(huge_negative_scores_are_no_mask),
        cmocka_unit_test(a_sink_counts_once),
        cmocka_unit_test(forwards_that_are_computed_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
