/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan counts and says of itself is true: calls, pairs, bytes by lane, and its text. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/api/shard.h"
#include "transport/transport.h"

enum { LAYOUTS = 3, MAX_RANKS = 6 };

struct test {
    struct meeting meeting;
    struct problem problem;
    rondo_layout_kind_t kind;
    int ranks_per_host; /* 0: all on one */
    int landing_slots;
    rondo_plan_stats_t forward[MAX_RANKS], both[MAX_RANKS];
};

/* Computes nothing: for what is counted. */
static int no_work(void *context, const rondo_kernel_forward_t *args)
{
    (void)context, (void)args;
    return 0;
}

static const rondo_kernel_t idle_kernel = { .struct_bytes = sizeof(idle_kernel), .name = "idle",
                                            .flags = RONDO_KERNEL_MERGES, .forward = no_work };

struct grouped {
    struct meeting meeting;
    const char *transport;
};

/* ---- counters ---- */

/* What every transport does, and the bytes of which are a formula. */
static const rondo_plan_options_t copying = { .struct_bytes = sizeof(copying), .schedule = "ring",
                                              .backward = "kv-grad", .binding = "copy" };

static int count_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_on_host(&t->meeting, rank, ranks, "self", t->ranks_per_host);
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_t plan = NULL;
    struct shard s;
    int bad;

    shard_init(&s, layout, rank, &t->problem);
    t->forward[rank] = t->both[rank] = (rondo_plan_stats_t)RONDO_PLAN_STATS_INIT;
    bad = expect(!rondo_attention_plan(comm, layout, &desc, &copying, &plan), "plan: %s", rondo_last_error());
    bad += expect(!shard_forward(plan, &s), "forward: %s", rondo_last_error());
    bad += expect(!rondo_plan_stats(plan, &t->forward[rank]), "stats: %s", rondo_last_error());
    bad += expect(!shard_backward(plan, &s), "backward: %s", rondo_last_error());
    bad += expect(!rondo_plan_stats(plan, &t->both[rank]), "stats: %s", rondo_last_error());
    bad += expect(t->forward[rank].forwards == 1 && t->forward[rank].backwards == 0 &&
                      t->both[rank].forwards == 1 && t->both[rank].backwards == 1, "calls are miscounted");
    bad += expect((int64_t)t->forward[rank].pairs == rondo_layout_pairs(layout, rank, desc.mask, NULL),
                  "rank %d computed %llu pairs", rank, (unsigned long long)t->forward[rank].pairs);
    bad += expect(t->both[rank].exposed_seconds <= t->both[rank].move_seconds &&
                      t->both[rank].compute_seconds > 0, "seconds are %g computing, %g moving, %g exposed",
                  t->both[rank].compute_seconds, t->both[rank].move_seconds, t->both[rank].exposed_seconds);
    rondo_plan_destroy(plan);
    shard_release(&s);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static struct test *test_of(int64_t tokens, int causal)
{
    struct test *t = shared_memory(sizeof(*t));

    t->problem = (struct problem){ .batch = 2, .tokens = tokens, .causal = causal, .q_heads = 4, .kv_heads = 2,
                                   .qk_dim = 8, .v_dim = 12 };
    problem_init(&t->problem, 8);
    return t;
}

static void count(struct test *t, int ranks)
{
    assert_int_equal(run_ranks(ranks, 0, 60, count_body, t), 0);
    memset(&t->meeting, 0, sizeof(t->meeting));
}

static uint64_t pairs_of_all(const rondo_plan_stats_t *stats, int ranks)
{
    uint64_t sum = 0;

    for (int r = 0; r < ranks; r++)
        sum += stats[r].pairs;
    return sum;
}

static void pairs_are_the_area_of_the_mask(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        struct test *t = test_of(31, causal);
        uint64_t area = causal ? 31 * 32 / 2 : 31 * 31;

        for (int kind = 0; kind < LAYOUTS; kind++)
            for (int ranks = 1; ranks <= 5; ranks++) {
                t->kind = (rondo_layout_kind_t)kind;
                count(t, ranks);
                assert_int_equal(pairs_of_all(t->forward, ranks), area);
                assert_int_equal(pairs_of_all(t->both, ranks), 2 * area);
            }
        problem_release(&t->problem);
    }
}

/* Bytes of K and V of one token, all rows: as many are of dK and dV. */
static uint64_t kv_bytes(const struct problem *p)
{
    return (uint64_t)p->batch * (uint64_t)p->kv_heads * (uint64_t)(p->qk_dim + p->v_dim) * sizeof(float);
}

static void bytes_are_as_the_formula_says(void **state)
{
    struct test *t = test_of(60, 1);

    (void)state;
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++) { /* 60 is a multiple of each */
        uint64_t block = 60 / (uint64_t)ranks * kv_bytes(&t->problem), p = (uint64_t)ranks;

        count(t, ranks);
        for (int r = 0; r < ranks; r++) {
            assert_int_equal(t->forward[r].sent_bytes[0], (p - 1) * block);
            assert_int_equal(t->forward[r].received_bytes[0], (p - 1) * block);
            /* K and V again, and dK and dV without the rank's own part, which stays at home. */
            assert_int_equal(t->both[r].sent_bytes[0], (p - 1) * block + (2 * p - 2) * block);
            assert_int_equal(t->both[r].received_bytes[0], 3 * (p - 1) * block);
            assert_int_equal(t->both[r].sent_bytes[1] + t->both[r].received_bytes[1], 0);
        }
    }
    problem_release(&t->problem);
}

static void bytes_of_uneven_shards_add_up(void **state)
{
    struct test *t = test_of(23, 0);

    (void)state;
    for (int ranks = 2; ranks <= 5; ranks++) {
        uint64_t sent = 0, received = 0;

        count(t, ranks);
        for (int r = 0; r < ranks; r++) {
            sent += t->both[r].sent_bytes[0];
            received += t->both[r].received_bytes[0];
        }
        assert_int_equal(sent, 3 * (uint64_t)(ranks - 1) * 23 * kv_bytes(&t->problem));
        assert_int_equal(received, sent);
    }
    problem_release(&t->problem);
}

/* Of 2 hosts with 2 ranks each, ranks 1 and 3 are those that send to the other host. */
static void bytes_between_hosts_have_their_lane(void **state)
{
    struct test *t = test_of(32, 1);
    uint64_t block = 8 * kv_bytes(&t->problem);

    (void)state;
    t->ranks_per_host = 2;
    count(t, 4);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(t->forward[r].sent_bytes[r & 1], 3 * block);
        assert_int_equal(t->forward[r].sent_bytes[!(r & 1)], 0);
        assert_int_equal(t->forward[r].received_bytes[!(r & 1)], 3 * block);
        assert_int_equal(t->forward[r].received_bytes[r & 1], 0);
    }
    problem_release(&t->problem);
}

/* ---- the text ---- */

/* Of a ring over two ranks: K and V of its own block, and back dK and dV of the other's. */
static int expect_bytes(const char *text, const struct problem *p, rondo_layout_t layout, int rank)
{
    uint64_t forward = (uint64_t)rondo_layout_tokens(layout, rank) * kv_bytes(p);
    uint64_t both = forward + (uint64_t)rondo_layout_tokens(layout, 1 - rank) * kv_bytes(p);
    char lines[2][128];
    const char *second;

    for (int i = 0; i < 2; i++)
        snprintf(lines[i], sizeof(lines[i]), "  sends %llu bytes on lane local, 0 on lane host; 0 bytes are "
                 "read in place\n", (unsigned long long)(i ? both : forward));
    second = strstr(text, "backward:");
    return expect(strstr(text, lines[0]) != NULL, "no \"%s\" in: %.400s", lines[0], text) +
           expect(second && strstr(second, lines[1]), "no \"%s\" in: %.800s", lines[1], text);
}

static int text_body(int rank, int ranks, void *arg)
{
    static const char *const words[] = { "ring", "kv_grad", "zigzag", "31 tokens over 2 ranks", "causal mask",
                                         "batch 2", "4 query heads, 2 key heads", "8 and 12", "flash", "self" };
    struct test *t = arg;
    rondo_comm_t comm = comm_on_host(&t->meeting, rank, ranks, "self", t->ranks_per_host);
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_ZIGZAG, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_options_t options = copying;
    rondo_plan_t plan = NULL;
    size_t needed = 0, again = 0;
    char *text = NULL, *part = NULL;
    int bad;

    options.landing_slots = t->landing_slots;
    bad = expect(!rondo_attention_plan(comm, layout, &desc, &options, &plan), "plan: %s", rondo_last_error());
    bad += expect(!rondo_plan_describe(plan, NULL, 0, &needed), "describe: %s", rondo_last_error());
    text = malloc(needed);
    part = malloc(needed);
    bad += expect(text && part && !rondo_plan_describe(plan, text, needed, NULL), "%s", rondo_last_error());
    bad += expect(!bad && strlen(text) + 1 == needed, "needed is %zu", needed);
    bad += expect(!bad && (strstr(text, "not priced: forced") != NULL) == (t->landing_slots != 0) &&
                      (strstr(text, "priced at ") != NULL) == (t->landing_slots == 0), "%d landing slots: %.300s",
                  t->landing_slots, text);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && !bad; i++)
        bad += expect(strstr(text, words[i]) != NULL, "no \"%s\" in: %.300s", words[i], text);
    if (!bad)
        bad += expect_bytes(text, &t->problem, layout, rank);
    for (size_t bytes = 1; bytes < needed && !bad; bytes += bytes < 5 ? 1 : needed / 7) {
        memset(part, '#', needed);
        bad += expect(!rondo_plan_describe(plan, part, bytes, &again) && again == needed, "short describe");
        bad += expect(memcmp(part, text, bytes - 1) == 0 && !part[bytes - 1] && part[bytes] == '#',
                      "a buffer of %zu is not filled as it should", bytes);
    }
    free(text);
    free(part);
    rondo_plan_destroy(plan);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void a_plan_tells_what_it_is(void **state)
{
    struct test *t = test_of(31, 1);

    (void)state;
    for (int forced = 0; forced < 2; forced++) {
        t->landing_slots = 3 * forced;
        assert_int_equal(run_ranks(2, 0, 60, text_body, t), 0);
        memset(&t->meeting, 0, sizeof(t->meeting));
    }
    problem_release(&t->problem);
}

/* Each binding, with a chunk size and without. */
static int unchunked_body(int rank, int ranks, void *arg)
{
    static const char line[] = "chunks of 256 bytes are asked for, but what is read in place moves whole: K\n";
    struct test *t = arg;
    rondo_comm_t comm = comm_on_host(&t->meeting, rank, ranks, "self", t->ranks_per_host);
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_ZIGZAG, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    int bad = 0;

    for (int i = 0; i < 4; i++) {
        int binds = i & 1, is_asked = i >> 1;
        rondo_plan_options_t options = copying;
        rondo_plan_t plan = NULL;
        char text[4096] = "";

        options.backward = "none";
        options.binding = binds ? "auto" : "copy";
        options.chunk_bytes = is_asked ? 256 : 0;
        bad += expect(!rondo_attention_plan(comm, layout, &desc, &options, &plan) &&
                          !rondo_plan_describe(plan, text, sizeof(text), NULL), "plan: %s", rondo_last_error());
        bad += expect((strstr(text, line) != NULL) == (binds && is_asked) &&
                          (strstr(text, "chunks of a block") != NULL) == (!binds && is_asked),
                      "binding %s, chunk_bytes %d: %.600s", options.binding, is_asked, text);
        rondo_plan_destroy(plan);
    }
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void a_chunk_size_that_does_nothing_is_named(void **state)
{
    struct test *t = test_of(31, 1);

    (void)state;
    assert_int_equal(run_ranks(2, 0, 60, unchunked_body, t), 0);
    problem_release(&t->problem);
}

/* ---- grouped heads travel as they are (pytorch/torchtitan#1283) ---- */

enum { GQA_TOKENS = 1024, GQA_Q_HEADS = 32, GQA_KV_HEADS = 8, GQA_DIM = 128 };

static int grouped_body(int rank, int ranks, void *arg)
{
    const char *transport = ((struct grouped *)arg)->transport;
    struct meeting *meeting = &((struct grouped *)arg)->meeting;
    rondo_comm_t comm = comm_of(meeting, rank, ranks, transport);
    struct problem p = { .batch = 1, .tokens = GQA_TOKENS * ranks, .q_heads = GQA_Q_HEADS,
                         .kv_heads = GQA_KV_HEADS, .qk_dim = GQA_DIM, .v_dim = GQA_DIM };
    size_t q = (size_t)GQA_TOKENS * GQA_Q_HEADS * GQA_DIM, kv = q / GQA_Q_HEADS * GQA_KV_HEADS;
    rondo_layout_t layout = layout_of(RONDO_LAYOUT_CONTIGUOUS, p.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&p);
    rondo_plan_options_t options = { .struct_bytes = sizeof(options), .schedule = "ring", .backward = "none",
                                     .binding = "copy", .kernel = &idle_kernel };
    rondo_plan_stats_t stats = RONDO_PLAN_STATS_INIT;
    rondo_plan_t plan = NULL;
    struct shard s = { .q = calloc(q, 4), .k = calloc(kv, 4), .v = calloc(kv, 4), .o = calloc(q, 4),
                       .lse = calloc((size_t)GQA_TOKENS * GQA_Q_HEADS, 4) };
    int bad = expect(!rondo_attention_plan(comm, layout, &desc, &options, &plan) && !shard_forward(plan, &s) &&
                         !rondo_plan_stats(plan, &stats), "%s: %s", transport, rondo_last_error());

    bad += expect(stats.sent_tensor_bytes[0][RONDO_TENSOR_K] + stats.sent_tensor_bytes[0][RONDO_TENSOR_V] ==
                      (uint64_t)(ranks - 1) * 8388608, "%s: %llu and %llu bytes were sent", transport,
                  (unsigned long long)stats.sent_tensor_bytes[0][RONDO_TENSOR_K],
                  (unsigned long long)stats.sent_tensor_bytes[0][RONDO_TENSOR_V]);
    rondo_plan_destroy(plan);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    free(s.q), free(s.k), free(s.v), free(s.o), free(s.lse);
    return bad;
}

/* 1024 tokens of 8 heads of 128 + 128 numbers of 4 bytes in each step; 32 MiB, if heads were repeated. */
static void grouped_heads_travel_as_they_are(void **state)
{
    static const char *const transports[] = { "self", "ucx", "shm" };

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct grouped *t = shared_memory(sizeof(*t));

        t->transport = transports[i];
        if (ri_transport_find(transports[i]))
            assert_int_equal(run_ranks(3, ranks_want_processes(transports[i]), 60, grouped_body, t), 0);
        shared_memory_release(t, sizeof(*t));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_the_area_of_the_mask),
        cmocka_unit_test(bytes_are_as_the_formula_says),
        cmocka_unit_test(bytes_of_uneven_shards_add_up),
        cmocka_unit_test(bytes_between_hosts_have_their_lane),
        cmocka_unit_test(a_plan_tells_what_it_is),
        cmocka_unit_test(a_chunk_size_that_does_nothing_is_named),
        cmocka_unit_test(grouped_heads_travel_as_they_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
