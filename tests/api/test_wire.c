/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that travel in another type than they lie in: bytes are as the formula says, errors as small as one
 * rounding on the way allows, and results the same over every transport. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/wire.h"
#include "tests/api/typed.h"
#include "transport/transport.h"

enum { MAX_RANKS = 4, TOKENS = 40 };

struct test {
    struct meeting meeting;
    struct problem problem;
    const char *transport;
    rondo_layout_kind_t kind;
    rondo_dtype_t type;
    rondo_plan_options_t options;
    int ranks_per_host;
    double forward[MAX_RANKS], backward[MAX_RANKS];
    rondo_plan_stats_t stats[MAX_RANKS];
    rondo_plan_memory_t memory[MAX_RANKS];
    uint64_t bits[MAX_RANKS];   /* of all outputs */
    char text[MAX_RANKS][1 << 16];
};

static uint64_t add_bits(uint64_t hash, const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;

        memcpy(&bits, &x[i], sizeof(bits));
        hash = (hash ^ bits) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Twice: what is left of the first in memory must not matter. */
static int run_twice(struct test *t, rondo_plan_t plan, struct shard *s, int rank)
{
    uint64_t bits[2] = { 1, 1 };
    int bad = 0;

    for (int i = 0; i < 2 && !bad; i++) {
        struct typed x;

        typed_init(&x, t->type, s, &t->problem);
        bad = expect(!typed_both(plan, &x, s, NULL, NULL), "run: %s", rondo_last_error());
        bits[i] = add_bits(add_bits(bits[i], s->o, x.counts[4]), s->dq, x.counts[5]);
        bits[i] = add_bits(add_bits(bits[i], s->dk, x.counts[6]), s->dv, x.counts[7]);
        typed_release(&x);
    }
    t->bits[rank] = bits[0];
    return bad + expect(bits[0] == bits[1], "a second start gives other bits");
}

static int body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_on_host(&t->meeting, rank, ranks, t->transport, t->ranks_per_host);
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_t plan = NULL;
    struct shard s;
    int bad;

    desc.dtype = t->type;
    shard_init(&s, layout, rank, &t->problem);
    bad = expect(!rondo_attention_plan(comm, layout, &desc, &t->options, &plan), "plan: %s", rondo_last_error());
    if (bad)
        exit(1);
    bad += run_twice(t, plan, &s, rank);
    t->forward[rank] = shard_forward_error(&s, &t->problem);
    t->backward[rank] = shard_backward_error(&s, &t->problem);
    t->stats[rank] = (rondo_plan_stats_t)RONDO_PLAN_STATS_INIT;
    t->memory[rank] = (rondo_plan_memory_t)RONDO_PLAN_MEMORY_INIT;
    rondo_plan_stats(plan, &t->stats[rank]);
    rondo_plan_describe(plan, t->text[rank], sizeof(t->text[rank]), NULL);
    bad += expect(!rondo_plan_memory(comm, layout, &desc, &t->options, &t->memory[rank]), "memory: %s",
                  rondo_last_error());
    rondo_plan_destroy(plan);
    shard_release(&s);
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static struct test *test_of(rondo_dtype_t type, const char *wire)
{
    struct test *t = shared_memory(sizeof(*t));
    struct features none = { 0 };

    t->problem = (struct problem){ .batch = 2, .tokens = TOKENS, .causal = 1, .q_heads = 4, .kv_heads = 2,
                                   .qk_dim = 8, .v_dim = 6 };
    problem_init(&t->problem, 31);
    t->type = type;
    features_round_problem(&t->problem, type);
    features_solve(&t->problem, &none);
    t->options = (rondo_plan_options_t)RONDO_PLAN_OPTIONS_INIT;
    t->options.kernel = &features_kernel;
    t->options.wire = wire;
    t->transport = "self";
    return t;
}

static void run(struct test *t, int ranks)
{
    assert_int_equal(run_ranks(ranks, ranks_want_processes(t->transport), 60, body, t), 0);
    memset(&t->meeting, 0, sizeof(t->meeting));
}

static double largest(const double *errors, int ranks)
{
    double worst = 0;

    for (int r = 0; r < ranks; r++)
        worst = errors[r] > worst || isnan(errors[r]) ? errors[r] : worst;
    return worst;
}

/* ---- bytes ---- */

/* Of two forwards and two backwards over a ring of 4, keys travelling: numbers of one token's heads, all rows. */
static void check_bytes(const struct test *t, const uint64_t bytes[RONDO_TENSOR_COUNT])
{
    const uint64_t block = 2 * TOKENS / 4; /* rows */
    const uint64_t numbers[RONDO_TENSOR_COUNT] = { [RONDO_TENSOR_K] = 2 * 8, [RONDO_TENSOR_V] = 2 * 6,
                                                   [RONDO_TENSOR_DK] = 2 * 8, [RONDO_TENSOR_DV] = 2 * 6 };

    for (int r = 0; r < 4; r++)
        for (int i = 0; i < RONDO_TENSOR_COUNT; i++) {
            uint64_t transfers = i == RONDO_TENSOR_K || i == RONDO_TENSOR_V ? 2 * 2 * 3 : 2 * 3;

            assert_int_equal(t->stats[r].sent_tensor_bytes[0][i], transfers * block * numbers[i] * bytes[i]);
        }
}

static void bytes_are_as_the_formula_says(void **state)
{
    static const struct {
        const char *wire;
        rondo_dtype_t type;
        uint64_t bytes[RONDO_TENSOR_COUNT];
    } cases[] = {
#define BYTES(k, v, dk, dv)                                                                                       \
    { [RONDO_TENSOR_K] = k, [RONDO_TENSOR_V] = v, [RONDO_TENSOR_DK] = dk, [RONDO_TENSOR_DV] = dv }
        { NULL, RONDO_F32, BYTES(4, 4, 4, 4) },
        { "f32", RONDO_F32, BYTES(4, 4, 4, 4) },
        { "bf16", RONDO_F32, BYTES(2, 2, 2, 2) },
        { "v:f16,dk:bf16", RONDO_F32, BYTES(4, 2, 2, 4) },
        { NULL, RONDO_BF16, BYTES(2, 2, 4, 4) },
        { "bf16", RONDO_BF16, BYTES(2, 2, 2, 2) },
        { "k:f16,dv:bf16", RONDO_F16, BYTES(2, 2, 4, 2) },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct test *t = test_of(cases[i].type, cases[i].wire);

        t->options.schedule = "ring";
        t->options.backward = "kv-grad";
        t->options.binding = "copy";
        run(t, 4);
        check_bytes(t, cases[i].bytes);
        problem_release(&t->problem);
    }
}

static void the_description_counts_what_is_sent(void **state)
{
    struct test *t = test_of(RONDO_F32, "bf16");
    char words[80];

    (void)state;
    t->options.schedule = "ring";
    run(t, 4);
    snprintf(words, sizeof(words), "sends %d bytes on lane local", 3 * 20 * (2 * 8 + 2 * 6) * 2); /* a forward */
    assert_non_null(strstr(t->text[0], words));
    assert_non_null(strstr(t->text[0], "another type: k as bf16, v as bf16; so nothing is read in place"));
    assert_int_equal(t->stats[0].bound_bytes, 0);
    problem_release(&t->problem);
}

/* A copy of half the bytes for each slot that moves, and no other. */
static void memory_has_room_for_copies(void **state)
{
    struct test *wide = test_of(RONDO_F32, NULL), *narrow = test_of(RONDO_F32, "k:bf16");
    size_t block = 2 * TOKENS / 4 * 2 * 8 * 2; /* k of a block, in bf16: a multiple of 64 */

    (void)state;
    wide->options.schedule = narrow->options.schedule = "ring";
    wide->options.binding = narrow->options.binding = "copy";
    run(wide, 4);
    run(narrow, 4);
    assert_int_equal(narrow->memory[1].start_bytes[0], wide->memory[1].start_bytes[0] + 3 * block);
    problem_release(&wide->problem);
    problem_release(&narrow->problem);
}

/* ---- errors ---- */

/* A number of unit variance, rounded to so many bits, moves outputs by about this at most; sums are rounded at
 * each hop. */
static double bar(const char *wire, int backward)
{
    return (backward ? 6 : 2) * (strstr(wire, "bf16") ? ldexp(1, -8) : ldexp(1, -11)) * 4;
}

static void errors_are_those_of_rounding(void **state)
{
    static const char *const wires[] = { "bf16", "f16", "q:bf16,d_o:bf16,dq:bf16", "dk:f16,dv:f16" };
    static const char *const schedules[] = { "ring", "direct", "two-level" };

    (void)state;
    for (int i = 0; i < 4 * 3 * 2; i++) {
        struct test *t = test_of(i % 5 == 4 ? RONDO_F16 : RONDO_F32, wires[i % 4]);
        int ranks = 2 + i % 3;

        t->kind = (rondo_layout_kind_t)(i % 3);
        t->options.schedule = schedules[i / 4 % 3];
        t->options.backward = i & 1 ? "q-grad" : "kv-grad";
        if (i % 5 == 4 && i % 4 == 2)
            t->options.wire = "dq:bf16,o:bf16";
        if (i / 4 % 3 == 2) {
            t->ranks_per_host = 2;
            t->options.pieces = i / 12 ? 2 : 0;
            ranks = 4;
        }
        t->options.chunk_bytes = i >= 12 ? 300 : 0;
        run(t, ranks);
        if (!(largest(t->forward, ranks) <= bar(t->options.wire, 0) &&
              largest(t->backward, ranks) <= bar(t->options.wire, 1)))
            fail_msg("case %d, %d ranks, wire %s: errors are %g and %g", i, ranks, t->options.wire,
                     largest(t->forward, ranks), largest(t->backward, ranks));
        problem_release(&t->problem);
    }
}

static void what_stays_home_is_exact(void **state)
{
    struct test *t = test_of(RONDO_F32, "bf16");

    (void)state;
    run(t, 1);
    assert_true(t->forward[0] <= SHARD_BAR && t->backward[0] <= SHARD_BAR);
    problem_release(&t->problem);
}

/* A block that is read goes round from rank to rank, and all see the same numbers: as if the caller had rounded
 * what others see. */
static void what_is_passed_on_loses_no_more(void **state)
{
    struct test *t = test_of(RONDO_BF16, NULL); /* numbers that bf16 holds */

    (void)state;
    t->type = RONDO_F32;
    t->options.wire = "k:bf16,v:bf16";
    t->options.backward = "kv-grad";
    t->options.schedule = "ring";
    run(t, 4);
    assert_true(largest(t->forward, 4) <= SHARD_BAR && largest(t->backward, 4) <= SHARD_BAR);
    problem_release(&t->problem);
}

/* ---- transports ---- */

static void results_do_not_depend_on_the_transport(void **state)
{
    static const char *const transports[] = { "self", "shm", "ucx" };
    uint64_t bits[MAX_RANKS];

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct test *t = test_of(RONDO_F32, "k:bf16,dk:f16");

        t->transport = transports[i / 2];
        if (!ri_transport_find(t->transport))
            continue;
        t->options.binding = i & 1 ? "copy" : NULL;
        t->options.schedule = "ring";
        t->options.backward = "kv-grad";
        run(t, 3);
        if (i == 0)
            memcpy(bits, t->bits, sizeof(bits));
        assert_memory_equal(bits, t->bits, 3 * sizeof(bits[0]));
        problem_release(&t->problem);
    }
}

/* ---- words ---- */

static void words_are_read_and_refused(void **state)
{
    static const struct {
        const char *text;
        rondo_dtype_t type;
        const char *meaning, *words;
    } cases[] = {
        { NULL, RONDO_F32, "", NULL },
        { "f32", RONDO_F32, "", NULL },
        { "bf16", RONDO_F32, "q:bf16,k:bf16,v:bf16,o:bf16,d_o:bf16,dq:bf16,dk:bf16,dv:bf16", NULL },
        { "f16", RONDO_BF16, "o:f16,dq:f16,dk:f16,dv:f16", NULL },
        { "dv:f16,k:bf16", RONDO_F32, "k:bf16,dv:f16", NULL },
        { "k:bf16", RONDO_BF16, "", NULL },
        { "k:f32,v:bf16", RONDO_F32, "v:bf16", NULL },
        { "", RONDO_F32, NULL, "\"\" is neither" },
        { "fp16", RONDO_F32, NULL, "\"fp16\" is neither" },
        { "k:bf8", RONDO_F32, NULL, "\"bf8\" is no type" },
        { "k:", RONDO_F32, NULL, "\"\" is no type" },
        { "x:bf16", RONDO_F32, NULL, "\"x:bf16\" is neither" },
        { "k:bf16,", RONDO_F32, NULL, "\"\" is neither" },
        { "k:bf16,k:f16", RONDO_F32, NULL, "k is named twice" },
        { "lse:bf16", RONDO_F32, NULL, "lse always travels in fp32" },
        { "delta:f16", RONDO_F32, NULL, "delta always travels in fp32" },
        { "q:f16", RONDO_BF16, NULL, "q has 16 bits" },
        { "d_o:f32", RONDO_F16, NULL, "d_o has 16 bits" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rondo_attention_desc_t desc = RONDO_ATTENTION_DESC_INIT;
        char text[RI_WIRE_TEXT];
        struct ri_wire wire;

        desc.dtype = cases[i].type;
        if (cases[i].meaning) {
            assert_int_equal(ri_wire_parse(cases[i].text, &desc, &wire), 0);
            ri_wire_print(&wire, text);
            assert_string_equal(text, cases[i].meaning);
            continue;
        }
        assert_int_equal(ri_wire_parse(cases[i].text, &desc, &wire), RONDO_ERR_ARGUMENT);
        assert_non_null(strstr(rondo_last_error(), cases[i].words));
    }
}

static int wrong_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_on_host(&t->meeting, rank, ranks, t->transport, t->ranks_per_host);
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_options_t options = t->options;
    rondo_plan_t plan = NULL;
    int bad;

    options.wire = rank ? "k:bf16" : "k:f16";
    bad = expect_error(rondo_attention_plan(comm, layout, &desc, &options, &plan), RONDO_ERR_MISMATCH, "wire",
                       "k:bf16", "wire");
    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void ranks_compare(void **state)
{
    struct test *t = test_of(RONDO_F32, NULL);

    (void)state;
    assert_int_equal(run_ranks(2, 0, 60, wrong_body, t), 0);
    problem_release(&t->problem);
}

static int verify_body(int rank, int ranks, void *arg)
{
    struct test *t = arg;
    rondo_comm_t comm = comm_on_host(&t->meeting, rank, ranks, t->transport, t->ranks_per_host);
    rondo_layout_t layout = layout_of(t->kind, t->problem.tokens, ranks);
    rondo_attention_desc_t desc = desc_of(&t->problem);
    rondo_plan_t plan = NULL;
    int bad = expect_error(rondo_attention_plan(comm, layout, &desc, &t->options, &plan), RONDO_ERR_UNSUPPORTED,
                           "wire is \"k:bf16\"", "RONDO_VERIFY", "wire");

    rondo_layout_destroy(layout);
    rondo_comm_destroy(comm);
    return bad;
}

static void verification_is_refused(void **state)
{
    struct test *t = test_of(RONDO_F32, "k:bf16");

    (void)state;
    setenv("RONDO_VERIFY", "1", 1);
    assert_int_equal(run_ranks(2, 0, 60, verify_body, t), 0);
    unsetenv("RONDO_VERIFY");
    problem_release(&t->problem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_as_the_formula_says),
        cmocka_unit_test(the_description_counts_what_is_sent),
        cmocka_unit_test(memory_has_room_for_copies),
        cmocka_unit_test(errors_are_those_of_rounding),
        cmocka_unit_test(what_stays_home_is_exact),
        cmocka_unit_test(what_is_passed_on_loses_no_more),
        cmocka_unit_test(results_do_not_depend_on_the_transport),
        cmocka_unit_test(words_are_read_and_refused),
        cmocka_unit_test(ranks_compare),
        cmocka_unit_test(verification_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
