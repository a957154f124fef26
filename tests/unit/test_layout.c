/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "deal.h"
#include "layout/layout.h"
#include "tests/unit/dealt.h"

static rondo_layout_t make(rondo_layout_kind_t kind, int64_t tokens, int ranks)
{
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    rondo_layout_t layout = NULL;

    desc.kind = kind;
    desc.tokens = tokens;
    desc.ranks = ranks;
    assert_int_equal(rondo_layout_create(&desc, &layout), RONDO_OK);
    assert_non_null(layout);
    return layout;
}

static void check_positions(rondo_layout_kind_t kind, int tokens, int ranks)
{
    rondo_layout_t layout = make(kind, tokens, ranks);
    struct deal d = deal(kind, tokens, ranks);
    int64_t positions[DEAL_TOKENS_MAX + 1];

    for (int r = 0; r < ranks; r++) {
        memset(positions, 0x7f, sizeof(positions));
        assert_int_equal(rondo_layout_tokens(layout, r), d.count[r]);
        assert_int_equal(rondo_layout_positions(layout, r, positions), RONDO_OK);
        for (int i = 0; i < d.count[r]; i++)
            assert_int_equal(positions[i], d.position[r][i]);
        assert_int_equal(positions[d.count[r]], 0x7f7f7f7f7f7f7f7f);
    }
    rondo_layout_destroy(layout);
}

static void positions_are_as_dealt(void **state)
{
    (void)state;
    deal_every_shape(check_positions);
}

static void check_position(rondo_layout_kind_t kind, int tokens, int ranks)
{
    DEALT struct rondo_layout *layout = dealt(kind, tokens, ranks);
    struct deal d = deal(kind, tokens, ranks);

    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < d.count[r]; i++)
            assert_int_equal(ri_layout_position(layout, r, i), d.position[r][i]);
}

static void each_position_is_as_dealt(void **state)
{
    (void)state;
    deal_every_shape(check_position);
}

static void check_owner(rondo_layout_kind_t kind, int tokens, int ranks)
{
    rondo_layout_t layout = make(kind, tokens, ranks);
    struct deal d = deal(kind, tokens, ranks);

    for (int position = 0; position < tokens; position++) {
        int64_t index = -1;
        int rank = -1;

        assert_int_equal(rondo_layout_owner(layout, position, &rank, &index), RONDO_OK);
        assert_int_equal(rank, d.rank[position]);
        assert_int_equal(index, d.index[position]);
    }
    rondo_layout_destroy(layout);
}

static void owners_are_as_dealt(void **state)
{
    (void)state;
    deal_every_shape(check_owner);
}

/* Tokens of three bytes, each byte its own, so that a wrong stride shows. */
static void check_shard(rondo_layout_kind_t kind, int tokens, int ranks)
{
    enum { BYTES = 3 };
    rondo_layout_t layout = make(kind, tokens, ranks);
    struct deal d = deal(kind, tokens, ranks);
    unsigned char whole[DEAL_TOKENS_MAX * BYTES], back[DEAL_TOKENS_MAX * BYTES] = {0};
    unsigned char shard[DEAL_TOKENS_MAX * BYTES + 1];

    for (int i = 0; i < tokens * BYTES; i++)
        whole[i] = (unsigned char)(i + 1);
    for (int r = 0; r < ranks; r++) {
        int held = 0;

        memset(shard, 0xee, sizeof(shard));
        assert_int_equal(rondo_layout_shard(layout, r, whole, BYTES, shard), RONDO_OK);
        for (int i = 0; i < d.count[r]; i++)
            assert_memory_equal(shard + i * BYTES, whole + d.position[r][i] * BYTES, BYTES);
        assert_int_equal(shard[d.count[r] * BYTES], 0xee);
        assert_int_equal(rondo_layout_unshard(layout, r, shard, BYTES, back), RONDO_OK);
        /* So far exactly the tokens of ranks 0..r are back. */
        for (int t = 0; t < tokens; t++)
            for (int b = 0; b < BYTES; b++, held++)
                assert_int_equal(back[held], d.rank[t] <= r ? whole[held] : 0);
    }
    rondo_layout_destroy(layout);
}

static void shard_and_unshard_are_inverse(void **state)
{
    (void)state;
    deal_every_shape(check_shard);
}

static void check_targets(rondo_layout_kind_t kind, int tokens, int ranks)
{
    rondo_layout_t layout = make(kind, tokens, ranks);
    struct deal d = deal(kind, tokens, ranks);
    int32_t text[DEAL_TOKENS_MAX], targets[DEAL_TOKENS_MAX + 1];

    for (int i = 0; i < tokens; i++)
        text[i] = 1000 + i;
    for (int r = 0; r < ranks; r++) {
        targets[d.count[r]] = 7;
        assert_int_equal(rondo_layout_targets(layout, r, text, targets), RONDO_OK);
        for (int i = 0; i < d.count[r]; i++) {
            int last = d.position[r][i] == tokens - 1;

            assert_int_equal(targets[i], last ? RONDO_IGNORE : 1001 + d.position[r][i]);
        }
        assert_int_equal(targets[d.count[r]], 7);
    }
    rondo_layout_destroy(layout);
}

static void targets_are_shifted_before_sharding(void **state)
{
    (void)state;
    deal_every_shape(check_targets);
}

static void check_pairs(rondo_layout_kind_t kind, int tokens, int ranks)
{
    rondo_layout_t layout = make(kind, tokens, ranks);
    struct deal d = deal(kind, tokens, ranks);

    for (int m = 0; m < 2; m++) {
        for (int r = 0; r < ranks; r++) {
            int64_t pairs = 0;

            for (int i = 0; i < d.count[r]; i++)
                for (int key = 0; key < tokens; key++)
                    pairs += deal_visible(all_masks[m], d.position[r][i], key);
            assert_int_equal(rondo_layout_pairs(layout, r, all_masks[m], NULL), pairs);
        }
    }
    rondo_layout_destroy(layout);
}

static void pairs_equal_enumeration(void **state)
{
    (void)state;
    deal_every_shape(check_pairs);
}

/* jzhang38/EasyContext#47: 2999 tokens give zigzag shards of odd length. */
static void odd_zigzag_shards_are_dealt(void **state)
{
    rondo_layout_t layout = make(RONDO_LAYOUT_ZIGZAG, 2999, 4);
    static const int64_t expected[] = {749, 750, 750, 750};
    int64_t positions[750], sum = 0;
    char seen[2999] = {0};

    (void)state;
    for (int r = 0; r < 4; r++) {
        assert_int_equal(rondo_layout_tokens(layout, r), expected[r]);
        assert_int_equal(rondo_layout_positions(layout, r, positions), RONDO_OK);
        for (int64_t i = 0; i < expected[r]; i++) {
            assert_true(i == 0 || positions[i] > positions[i - 1]);
            assert_in_range(positions[i], 0, 2998);
            assert_int_equal(seen[positions[i]]++, 0);
        }
        sum += rondo_layout_pairs(layout, r, RONDO_MASK_CAUSAL, NULL);
    }
    assert_int_equal(sum, 2999 * 3000 / 2);
    rondo_layout_destroy(layout);
}

/* pytorch/pytorch PR 183968: too few tokens for 2 pieces a rank leave empty shards. */
static void short_zigzag_leaves_empty_shards(void **state)
{
    static const struct {
        int tokens, ranks, counts[8];
    } cases[] = {
        {3, 4, {1, 1, 1, 0}},
        {4, 4, {1, 1, 1, 1}},
        {1, 8, {1, 0, 0, 0, 0, 0, 0, 0}},
        {7, 8, {1, 1, 1, 1, 1, 1, 1, 0}},
    };

    (void)state;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        rondo_layout_t layout = make(RONDO_LAYOUT_ZIGZAG, cases[c].tokens, cases[c].ranks);

        for (int r = 0; r < cases[c].ranks; r++)
            assert_int_equal(rondo_layout_tokens(layout, r), cases[c].counts[r]);
        rondo_layout_destroy(layout);
    }
}

/* pytorch/pytorch#152261: the identity for each layout, of fp64 tokens in a batch of two. */
static void round_trip_of_two_sequences(void **state)
{
    static const int tokens[] = {24, 40}, ranks[] = {3, 4};
    double whole[40], shard[40], back[40];

    (void)state;
    for (int c = 0; c < 3 * 2 * 2 * 2; c++) {
        int n = tokens[c / 2 % 2], p = ranks[c / 4 % 2];
        rondo_layout_t layout = make(all_layouts[c / 8], n, p);

        for (int i = 0; i < n; i++)
            whole[i] = i + 100 * (c % 2);
        for (int r = 0; r < p; r++) {
            assert_int_equal(rondo_layout_shard(layout, r, whole, sizeof(double), shard), 0);
            assert_int_equal(rondo_layout_unshard(layout, r, shard, sizeof(double), back), 0);
        }
        assert_memory_equal(back, whole, (size_t)n * sizeof(double));
        rondo_layout_destroy(layout);
    }
}

static void assert_targets(rondo_layout_kind_t kind, int first_id, const int32_t expected[2][4])
{
    rondo_layout_t layout = make(kind, 8, 2);
    int32_t ids[8], targets[4];

    for (int i = 0; i < 8; i++)
        ids[i] = first_id + i;
    for (int r = 0; r < 2; r++) {
        assert_int_equal(rondo_layout_targets(layout, r, ids, targets), RONDO_OK);
        assert_memory_equal(targets, expected[r], sizeof(targets));
    }
    rondo_layout_destroy(layout);
}

/* huggingface/transformers PR 36607: no target is lost at the edge of a shard. */
static void contiguous_targets_cross_the_edge(void **state)
{
    (void)state;
    assert_targets(RONDO_LAYOUT_CONTIGUOUS, 1,
                   (const int32_t[2][4]){{2, 3, 4, 5}, {6, 7, 8, RONDO_IGNORE}});
}

/* NVIDIA-BioNeMo/bionemo-recipes PR 1449: targets come from the sequence, not from the shard. */
static void zigzag_targets_follow_the_sequence(void **state)
{
    (void)state;
    assert_targets(RONDO_LAYOUT_ZIGZAG, 0,
                   (const int32_t[2][4]){{1, 2, 7, RONDO_IGNORE}, {3, 4, 5, 6}});
}

/* Documents of 0, 1, 3, 0, 6 (of which 4 are padding), 2 (all padding) and 5 positions. */
static void targets_stay_in_their_document(void **state)
{
    static const int64_t edges[] = {0, 0, 1, 4, 4, 10, 12, 17}, lengths[] = {0, 1, 3, 0, 2, 0, 5};
    static const int ignored[17] = {1, 0, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1};
    rondo_layout_desc_t desc = RONDO_LAYOUT_DESC_INIT;
    int32_t text[17], targets[17];
    int64_t positions[17];

    (void)state;
    for (int i = 0; i < 17; i++)
        text[i] = 1000 + i;
    desc.tokens = 17;
    desc.cu_seqlens = edges;
    desc.documents = 7;
    desc.lengths = lengths;
    for (int i = 0; i < 8 * 4; i++) {
        rondo_layout_t layout = NULL;

        desc.kind = (rondo_layout_kind_t)(i % 4);
        desc.deal = i / 4 % 2 && desc.kind != RONDO_LAYOUT_BALANCED ? RONDO_DEAL_DOCUMENTS : RONDO_DEAL_SEQUENCE;
        desc.ranks = 1 + i / 8;
        assert_int_equal(rondo_layout_create(&desc, &layout), RONDO_OK);
        for (int r = 0; r < desc.ranks; r++) {
            assert_int_equal(rondo_layout_positions(layout, r, positions), RONDO_OK);
            assert_int_equal(rondo_layout_targets(layout, r, text, targets), RONDO_OK);
            for (int64_t t = 0; t < rondo_layout_tokens(layout, r); t++)
                assert_int_equal(targets[t], ignored[positions[t]] ? RONDO_IGNORE : 1001 + positions[t]);
        }
        rondo_layout_destroy(layout);
    }
}

static void assert_positions(rondo_layout_kind_t kind, int64_t tokens, int ranks,
                             const int64_t *expected)
{
    rondo_layout_t layout = make(kind, tokens, ranks);
    int64_t positions[16], n = tokens / ranks;

    for (int r = 0; r < ranks; r++) {
        assert_int_equal(rondo_layout_tokens(layout, r), n);
        assert_int_equal(rondo_layout_positions(layout, r, positions), RONDO_OK);
        assert_memory_equal(positions, expected + r * n, (size_t)n * sizeof(*expected));
    }
    rondo_layout_destroy(layout);
}

/* NVIDIA/Megatron-LM#560: which positions a rank holds. */
static void positions_of_eight_tokens(void **state)
{
    (void)state;
    assert_positions(RONDO_LAYOUT_CONTIGUOUS, 8, 2, (const int64_t[]){0, 1, 2, 3, 4, 5, 6, 7});
    assert_positions(RONDO_LAYOUT_ZIGZAG, 8, 2, (const int64_t[]){0, 1, 6, 7, 2, 3, 4, 5});
    assert_positions(RONDO_LAYOUT_STRIPED, 8, 2, (const int64_t[]){0, 2, 4, 6, 1, 3, 5, 7});
}

static void positions_of_sixteen_tokens(void **state)
{
    (void)state;
    assert_positions(RONDO_LAYOUT_CONTIGUOUS, 16, 4,
                     (const int64_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
    assert_positions(RONDO_LAYOUT_ZIGZAG, 16, 4,
                     (const int64_t[]){0, 1, 14, 15, 2, 3, 12, 13, 4, 5, 10, 11, 6, 7, 8, 9});
    assert_positions(RONDO_LAYOUT_STRIPED, 16, 4,
                     (const int64_t[]){0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15});
}

/* Documents of 8 and 4 tokens, each dealt in zigzag over two ranks. */
static void zigzag_of_two_documents(void **state)
{
    (void)state;
    assert_positions(RONDO_LAYOUT_ZIGZAG, 8, 2, (const int64_t[]){0, 1, 6, 7, 2, 3, 4, 5});
    assert_positions(RONDO_LAYOUT_ZIGZAG, 4, 2, (const int64_t[]){0, 3, 1, 2});
}

/* Closed forms for n tokens on each of P ranks. */
static void causal_pairs_by_formula(void **state)
{
    (void)state;
    for (int64_t p = 1; p <= 70; p += p < 9 ? 1 : 7) {
        for (int64_t n = 2; n <= 4096; n = n < 12 ? n + 2 : 2 * n) {
            rondo_layout_t contiguous = make(RONDO_LAYOUT_CONTIGUOUS, n * p, (int)p);
            rondo_layout_t zigzag = make(RONDO_LAYOUT_ZIGZAG, n * p, (int)p);
            rondo_layout_t striped = make(RONDO_LAYOUT_STRIPED, n * p, (int)p);

            for (int r = 0; r < p; r++) {
                assert_int_equal(rondo_layout_pairs(contiguous, r, RONDO_MASK_CAUSAL, NULL),
                                 n * (n * r) + n * (n + 1) / 2);
                assert_int_equal(rondo_layout_pairs(zigzag, r, RONDO_MASK_CAUSAL, NULL),
                                 n * (n * p + 1) / 2);
                assert_int_equal(rondo_layout_pairs(striped, r, RONDO_MASK_CAUSAL, NULL),
                                 p * n * (n - 1) / 2 + n * (r + 1));
            }
            rondo_layout_destroy(contiguous);
            rondo_layout_destroy(zigzag);
            rondo_layout_destroy(striped);
        }
    }
}

/* The largest count whose pairs are given: the shards' sum is the mask's area, without overflow. */
static void pairs_of_the_largest_sequence(void **state)
{
    const int64_t tokens = INT32_MAX;

    (void)state;
    for (int k = 0; k < 3; k++) {
        for (int ranks = 1; ranks <= 9; ranks++) {
            rondo_layout_t layout = make(all_layouts[k], tokens, ranks);
            int64_t causal = 0, full = 0;

            for (int r = 0; r < ranks; r++) {
                causal += rondo_layout_pairs(layout, r, RONDO_MASK_CAUSAL, NULL);
                full += rondo_layout_pairs(layout, r, RONDO_MASK_FULL, NULL);
            }
            assert_int_equal(causal, tokens * (tokens + 1) / 2);
            assert_int_equal(full, tokens * tokens);
            rondo_layout_destroy(layout);
        }
    }
}

/* The index maps hold up to the largest numbers that can be asked for. */
static void owner_of_huge_sequences(void **state)
{
    static const int rank_counts[] = {1, 3, RI_LAYOUT_RANKS_MAX};

    (void)state;
    for (int c = 0; c < 9; c++) {
        rondo_layout_t layout = make(all_layouts[c / 3], INT64_MAX, rank_counts[c % 3]);
        int64_t index = -1;
        int rank = -1;

        assert_int_equal(rondo_layout_owner(layout, 0, &rank, &index), RONDO_OK);
        assert_int_equal(rank, 0);
        assert_int_equal(index, 0);
        assert_int_equal(rondo_layout_owner(layout, INT64_MAX - 1, &rank, &index), RONDO_OK);
        assert_in_range(rank, 0, rank_counts[c % 3] - 1);
        assert_int_equal(index, rondo_layout_tokens(layout, rank) - 1);
        rondo_layout_destroy(layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_are_as_dealt),
        cmocka_unit_test(each_position_is_as_dealt),
        cmocka_unit_test(owners_are_as_dealt),
        cmocka_unit_test(shard_and_unshard_are_inverse),
        cmocka_unit_test(targets_are_shifted_before_sharding),
        cmocka_unit_test(pairs_equal_enumeration),
        cmocka_unit_test(odd_zigzag_shards_are_dealt),
        cmocka_unit_test(short_zigzag_leaves_empty_shards),
        cmocka_unit_test(round_trip_of_two_sequences),
        cmocka_unit_test(contiguous_targets_cross_the_edge),
        cmocka_unit_test(zigzag_targets_follow_the_sequence),
        cmocka_unit_test(targets_stay_in_their_document),
        cmocka_unit_test(positions_of_eight_tokens),
        cmocka_unit_test(positions_of_sixteen_tokens),
        cmocka_unit_test(zigzag_of_two_documents),
        cmocka_unit_test(causal_pairs_by_formula),
        cmocka_unit_test(pairs_of_the_largest_sequence),
        cmocka_unit_test(owner_of_huge_sequences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
