/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of a cut sequence is the loss of the sequence: sums over ranks, divided once by the count
 * over ranks.  Reports of others who took means of means, or shifted inside the shard:
 * NVIDIA/Megatron-LM#7513, Qihoo360/360-LLaMA-Factory#72, huggingface/transformers#36607. */
#include "check.h"

#include <rondo/layout.h>

#include "examples/train/layers.h"

enum { VOCAB = 8, MOST_TOKENS = 16 };

/* Logits whose loss at target 0 is `loss`: p = exp(-loss) there, the rest shared by the others. */
static void logits_of_loss(float *row, double loss)
{
    row[0] = (float)-loss;
    for (int i = 1; i < VOCAB; i++)
        row[i] = (float)log((1.0 - exp(-loss)) / (VOCAB - 1));
}

/* The mean loss, as the trainer makes it, of ranks that hold counts[r] valid targets out of 4 with
 * the loss losses[r] each. */
static double mean_loss(const int *counts, const double *losses, int ranks)
{
    double nats = 0.0, valid = 0.0;

    for (int r = 0; r < ranks; r++) {
        float logits[4 * VOCAB];
        int32_t targets[4];
        struct loss_sum loss;

        for (int t = 0; t < 4; t++) {
            logits_of_loss(logits + t * VOCAB, losses[r]);
            targets[t] = t < counts[r] ? 0 : RONDO_IGNORE;
        }
        loss = cross_entropy_forward(logits, targets, 4, VOCAB);
        nats += loss.nats;
        valid += (double)loss.valid;
    }
    return nats / valid;
}

static void mean_is_over_tokens_not_ranks(void **state)
{
    static const int even[4] = { 4, 4, 4, 0 }, odd[2] = { 1, 3 };
    static const double same[4] = { 1.25, 1.25, 1.25, 1.25 }, different[2] = { 3.0, 1.0 };

    check_close(mean_loss(even, same, 4), 1.25, 1e-6, "equal losses", 0);
    check_close(mean_loss(odd, different, 2), 1.5, 1e-6, "mean of means would be 2", 0);
}

/* Gradient of a head [VOCAB][1] under inputs x [tokens][1], summed over P shards of the sequence. */
static void cut_gradient(double *dw, const float *x, const int32_t *targets, int64_t tokens,
                         rondo_layout_kind_t kind, int ranks)
{
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    rondo_layout_t layout;
    double valid = 0.0;

    for (int64_t t = 0; t < tokens; t++)
        valid += targets[t] != RONDO_IGNORE;
    desc.kind = kind;
    desc.tokens = tokens;
    desc.ranks = ranks;
    assert_int_equal(rondo_layout_create(&desc, &layout), RONDO_OK);
    memset(dw, 0, VOCAB * sizeof(*dw));
    for (int r = 0; r < ranks; r++) {
        int64_t n = rondo_layout_tokens(layout, r);
        float shard[MOST_TOKENS], logits[MOST_TOKENS * VOCAB], dx[MOST_TOKENS];
        float w[VOCAB], part[VOCAB] = { 0 };
        int32_t shard_targets[MOST_TOKENS];

        for (int i = 0; i < VOCAB; i++)
            w[i] = 0.3f * (float)i - 1.0f;
        rondo_layout_shard(layout, r, x, sizeof(*x), shard);
        rondo_layout_shard(layout, r, targets, sizeof(*targets), shard_targets);
        linear_forward(logits, shard, w, n, 1, VOCAB, 0);
        cross_entropy_forward(logits, shard_targets, n, VOCAB);
        cross_entropy_backward(logits, shard_targets, n, VOCAB, (float)(1.0 / valid));
        linear_backward(dx, part, logits, shard, w, n, 1, VOCAB, 0);
        for (int i = 0; i < VOCAB; i++)
            dw[i] += (double)part[i];
    }
    rondo_layout_destroy(layout);
}

static void lone_target_weighs_the_same_for_any_cut(void **state)
{
    float x[MOST_TOKENS];
    double unused[MOST_TOKENS], whole[VOCAB], cut[VOCAB];
    int32_t targets[MOST_TOKENS];

    check_fill(x, unused, MOST_TOKENS, 5);
    for (int t = 0; t < MOST_TOKENS; t++)
        targets[t] = t == 5 ? 3 : RONDO_IGNORE;
    cut_gradient(whole, x, targets, MOST_TOKENS, RONDO_LAYOUT_CONTIGUOUS, 1);
    assert_true(fabs(whole[3]) > 1e-3);
    for (int kind = RONDO_LAYOUT_CONTIGUOUS; kind <= RONDO_LAYOUT_STRIPED; kind++)
        for (int ranks = 1; ranks <= 17; ranks++) {
            cut_gradient(cut, x, targets, MOST_TOKENS, (rondo_layout_kind_t)kind, ranks);
            for (int i = 0; i < VOCAB; i++)
                check_close(cut[i], whole[i], 1e-6, "dw", i);
        }
}

static void gradient_is_the_same_for_any_cut(void **state)
{
    float x[MOST_TOKENS];
    double unused[MOST_TOKENS], whole[VOCAB], cut[VOCAB];
    int32_t targets[MOST_TOKENS];

    for (int64_t tokens = 2; tokens <= MOST_TOKENS; tokens++) {
        check_fill(x, unused, tokens, 6);
        for (int t = 0; t < tokens; t++)
            targets[t] = t + 1 < tokens ? (t * 5 + 1) % VOCAB : RONDO_IGNORE;
        cut_gradient(whole, x, targets, tokens, RONDO_LAYOUT_CONTIGUOUS, 1);
        for (int kind = RONDO_LAYOUT_CONTIGUOUS; kind <= RONDO_LAYOUT_STRIPED; kind++)
            for (int ranks = 2; ranks <= 5; ranks++) {
                cut_gradient(cut, x, targets, tokens, (rondo_layout_kind_t)kind, ranks);
                for (int i = 0; i < VOCAB; i++)
                    check_close(cut[i], whole[i], 1e-6, "dw", i);
            }
    }
}

static void targets_cross_the_shard_edge(void **state)
{
    static const int32_t ids[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    static const int32_t expected[2][4] = { { 2, 3, 4, 5 }, { 6, 7, 8, RONDO_IGNORE } };
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    rondo_layout_t layout;

    desc.tokens = 8;
    desc.ranks = 2;
    assert_int_equal(rondo_layout_create(&desc, &layout), RONDO_OK);
    for (int r = 0; r < 2; r++) {
        int32_t targets[4];

        assert_int_equal(rondo_layout_targets(layout, r, ids, targets), RONDO_OK);
        assert_memory_equal(targets, expected[r], sizeof(targets));
    }
    rondo_layout_destroy(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mean_is_over_tokens_not_ranks),
        cmocka_unit_test(lone_target_weighs_the_same_for_any_cut),
        cmocka_unit_test(gradient_is_the_same_for_any_cut),
        cmocka_unit_test(targets_cross_the_shard_edge),
    };

    return cmocka_run_group_tests_name("train loss", tests, NULL, NULL);
}
