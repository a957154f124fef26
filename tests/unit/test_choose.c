/* SPDX-License-Identifier: Apache-2.0 */
/* Which scheme a plan takes: the cheapest, unless the caller says. */
#include "tests/helper.h"

#include <math.h>
#include <string.h>

#include "base/config.h"
#include "base/status.h"
#include "plan/choose.h"
#include "plan/cost.h"
#include "topo/topo.h"

enum { RANKS_MAX = 8 };

struct machine {
    int ranks;
    int32_t host[RANKS_MAX];
};

static const struct machine one_host = { 4, { 0 } };
static const struct machine two_by_four = { 8, { 0, 0, 0, 0, 1, 1, 1, 1 } };
static const struct machine uneven = { 7, { 0, 0, 0, 0, 1, 1, 2 } };
static const struct machine four_and_three = { 7, { 0, 0, 0, 0, 1, 1, 1 } };
static const struct machine three_and_two = { 5, { 0, 0, 0, 1, 1 } };

/* Links ten to one, kernels that hide nothing. */
static struct ri_config slow_links(void)
{
    return (struct ri_config){ .cost_flops = INT64_C(1) << 50, .cost_local_bandwidth = 10000000,
                               .cost_host_bandwidth = 1000000 };
}

/* Everything that a choice depends on. */
struct question {
    struct ri_config config;
    rondo_attention_desc_t desc;
    struct ri_choice_query query;
};

static void ask(struct question *q, const struct machine *machine, int kv_heads, int can_bind,
                const rondo_plan_options_t *options)
{
    *q = (struct question){ .config = slow_links(), .desc = RONDO_ATTENTION_DESC_INIT };
    q->desc.q_heads = 8;
    q->desc.kv_heads = kv_heads;
    q->desc.qk_dim = q->desc.v_dim = 128;
    q->query = (struct ri_choice_query){ .ranks = machine->ranks, .host = machine->host,
                                         .desc = &q->desc, .options = options, .config = &q->config,
                                         .tokens = 64 * machine->ranks, .kv_tokens = 64 * machine->ranks,
                                         .pairs = 2048.0 * machine->ranks * machine->ranks, .can_bind = can_bind };
}

static int choose(const struct machine *machine, int kv_heads, int can_bind,
                  const rondo_plan_options_t *options, struct ri_choice *choice)
{
    struct question q;

    ask(&q, machine, kv_heads, can_bind, options);
    return ri_plan_choose(&q.query, choice);
}

/* forward, backward NULL: any schedule.  On one host ring and direct exchange send the same bytes. */
static void expect_choice(const struct machine *machine, int kv_heads, const char *forward,
                          const char *backward, const char *gradients)
{
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    struct ri_choice choice;

    assert_int_equal(choose(machine, kv_heads, 0, &options, &choice), 0);
    if (forward)
        assert_string_equal(choice.pass[RI_FORWARD].schedule, forward);
    if (backward)
        assert_string_equal(choice.pass[RI_BACKWARD].schedule, backward);
    assert_string_equal(choice.pass[RI_BACKWARD].gradients, gradients);
    assert_true(choice.pass[RI_FORWARD].seconds > 0 && choice.pass[RI_BACKWARD].seconds > 0);
    assert_int_equal(choice.binds, 0);
}

/* K and V weigh 2 d for each of their heads, the Q bundle 2 d + 2, dQ d, dK and dV 2 d, all in fp32. */
static void gradients_that_weigh_less_travel(void **state)
{
    expect_choice(&one_host, 8, NULL, NULL, "q-grad");
    expect_choice(&one_host, 1, NULL, NULL, "kv-grad");
    expect_choice(&two_by_four, 8, "two-level", "two-level", "q-grad");
    expect_choice(&two_by_four, 1, "two-level", "two-level", "kv-grad");
}

/* A host of one rank takes everything through one link, so two levels do not pay forward. */
static void the_flat_ring_wins_on_hosts_of_4_2_and_1(void **state)
{
    expect_choice(&uneven, 8, "ring", "two-level", "q-grad");
}

static void what_the_caller_says_wins(void **state)
{
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    struct ri_choice choice;

    options.schedule = "two-level";
    options.backward = "kv-grad";
    options.host_transfers = "chunked";
    options.pieces = 3;
    options.landing_slots = 5;
    assert_int_equal(choose(&three_and_two, 8, 0, &options, &choice), 0);
    for (int i = 0; i < RI_PASSES; i++) {
        assert_string_equal(choice.pass[i].schedule, "two-level");
        assert_int_equal(choice.pass[i].build.chunked, 1);
        assert_int_equal(choice.pass[i].build.pieces, 3);
        assert_int_equal(choice.pass[i].build.landing, 5);
    }
    assert_string_equal(choice.pass[RI_BACKWARD].gradients, "kv-grad");
    options.backward = "none";
    assert_int_equal(choose(&three_and_two, 8, 0, &options, &choice), 0);
    assert_null(choice.pass[RI_BACKWARD].builder);
}

static void expect_refused(const rondo_plan_options_t *options, const char *words)
{
    struct ri_choice choice;

    assert_int_equal(choose(&three_and_two, 8, 0, options, &choice), RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(rondo_last_error(), words));
}

static void what_a_named_schedule_does_not_have_is_refused(void **state)
{
    static const char *const others[] = { "ring", "direct" };
    struct ri_choice choice;

    (void)state;
    for (int i = 0; i < 2; i++) {
        rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
        char words[64];

        options.schedule = others[i];
        options.pieces = 1; /* whole blocks, as they are */
        assert_int_equal(choose(&three_and_two, 8, 0, &options, &choice), 0);
        options.pieces = 2;
        snprintf(words, sizeof(words), "pieces is 2, but schedule \"%s\"", others[i]);
        expect_refused(&options, words);
        options.pieces = 0;
        options.host_transfers = "own-turns";
        snprintf(words, sizeof(words), "host_transfers is \"own-turns\", but schedule \"%s\"", others[i]);
        expect_refused(&options, words);
    }
}

/* With "auto" they hold where a two-level ring is taken, and else mean nothing. */
static void an_open_schedule_takes_pieces_where_it_has_them(void **state)
{
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    struct ri_choice choice;

    (void)state;
    options.pieces = 3;
    options.host_transfers = "chunked";
    assert_int_equal(choose(&two_by_four, 8, 0, &options, &choice), 0);
    assert_string_equal(choice.pass[RI_FORWARD].schedule, "two-level");
    assert_int_equal(choice.pass[RI_FORWARD].build.pieces, 3);
    assert_int_equal(choose(&one_host, 8, 0, &options, &choice), 0);
    assert_int_not_equal(strcmp(choice.pass[RI_FORWARD].schedule, "two-level"), 0);
}

/* A flat ring over hosts gets as many landing slots as binding needs. */
static void reading_in_place_is_priced_and_built(void **state)
{
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    struct ri_choice bound, copied;
    struct ri_schedule *s = NULL;
    int bits = 0;

    options.schedule = "ring";
    assert_int_equal(choose(&two_by_four, 8, 1, &options, &bound), 0);
    assert_int_equal(bound.binds, 1);
    assert_int_equal(bound.pass[RI_FORWARD].build.landing, 5);
    assert_int_equal(ri_scheme_build(&bound.pass[RI_FORWARD], 2, bound.binds, &s), 0);
    for (uint32_t i = 0; i < s->step_count; i++)
        bits += s->steps[i].bind;
    assert_true(bits > 0);
    ri_schedule_destroy(s);
    options.binding = "copy";
    assert_int_equal(choose(&two_by_four, 8, 1, &options, &copied), 0);
    assert_int_equal(copied.binds, 0);
    assert_int_equal(copied.pass[RI_FORWARD].build.landing, 0);
    assert_int_equal(choose(&one_host, 8, 1, &options, &copied), 0);
    options.binding = NULL;
    assert_int_equal(choose(&one_host, 8, 1, &options, &bound), 0);
    assert_true(bound.pass[RI_FORWARD].seconds < copied.pass[RI_FORWARD].seconds);
}

/* Chunks are not priced where a host has no more than 2 ranks, but can be had. */
static void chunks_of_small_hosts_are_built(void **state)
{
    static const struct machine two_by_two = { 4, { 0, 0, 1, 1 } };
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    struct ri_choice choice;
    struct ri_schedule *s = NULL;

    options.schedule = "two-level";
    options.host_transfers = "chunked";
    assert_int_equal(choose(&two_by_two, 8, 1, &options, &choice), 0);
    for (int kind = 0; kind < RI_PASSES; kind++) {
        assert_string_equal(choice.pass[kind].variant, "chunked");
        assert_int_equal(ri_scheme_build(&choice.pass[kind], 1, 1, &s), 0);
        ri_schedule_destroy(s);
    }
}

static void prices_that_are_none_are_named(void **state)
{
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    struct ri_choice choice;
    struct question q;

    ask(&q, &one_host, 8, 0, &options);
    q.config.cost_flops = 0;
    assert_int_equal(ri_plan_choose(&q.query, &choice), RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(rondo_last_error(), "RONDO_COST_FLOPS is 0"));
    q.config.cost_flops = 1;
    q.config.cost_host_latency_us = -2;
    assert_int_equal(ri_plan_choose(&q.query, &choice), RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(rondo_last_error(), "RONDO_COST_HOST_LATENCY is -2"));
}

/* What links are taken for, by what is given, what is described, and what was found. */
static void links_are_as_given_else_as_the_topology_says(void **state)
{
    static const struct ri_topo_lanes lanes = { .local_gbps = 300, .local_latency_us = 1, .host_gbps = 25,
                                                .host_latency_us = 5, .ranks_per_nic = 2 };
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    struct question q;
    struct ri_cost cost;

    ask(&q, &two_by_four, 8, 0, &options);
    q.config = (struct ri_config){ .cost_flops = 1, .cost_local_latency_us = -1, .cost_host_latency_us = -1,
                                   .cost_shared_nic = -1 };
    cost = ri_choice_cost(&q.query, NULL, RI_FORWARD); /* nobody says anything */
    assert_true(cost.lane[RI_LANE_LOCAL].bandwidth == 8.0 * (1 << 30) && cost.lane[RI_LANE_LOCAL].latency_seconds == 2e-6);
    assert_true(cost.lane[RI_LANE_HOST].bandwidth == 1 << 30 && cost.lane[RI_LANE_HOST].latency_seconds == 20e-6);
    assert_int_equal(cost.shared_nic, 0);
    q.query.lanes = &lanes;
    cost = ri_choice_cost(&q.query, NULL, RI_FORWARD); /* found: NICs alone */
    assert_true(cost.lane[RI_LANE_LOCAL].bandwidth == 8.0 * (1 << 30) && cost.lane[RI_LANE_LOCAL].latency_seconds == 2e-6);
    assert_true(cost.lane[RI_LANE_HOST].bandwidth == 25e9 && cost.lane[RI_LANE_HOST].latency_seconds == 20e-6);
    assert_int_equal(cost.shared_nic, 2);
    q.query.is_described = 1;
    cost = ri_choice_cost(&q.query, NULL, RI_FORWARD);
    assert_true(cost.lane[RI_LANE_LOCAL].bandwidth == 300e9 && fabs(cost.lane[RI_LANE_LOCAL].latency_seconds - 1e-6) < 1e-12);
    assert_true(cost.lane[RI_LANE_HOST].bandwidth == 25e9 && fabs(cost.lane[RI_LANE_HOST].latency_seconds - 5e-6) < 1e-12);
    q.config = (struct ri_config){ .cost_flops = 1, .cost_local_bandwidth = 7, .cost_local_latency_us = 0,
                                   .cost_host_bandwidth = 9, .cost_host_latency_us = 3, .cost_shared_nic = 1 };
    cost = ri_choice_cost(&q.query, NULL, RI_FORWARD); /* given */
    assert_true(cost.lane[RI_LANE_LOCAL].bandwidth == 7 && cost.lane[RI_LANE_LOCAL].latency_seconds == 0);
    assert_true(cost.lane[RI_LANE_HOST].bandwidth == 9 && fabs(cost.lane[RI_LANE_HOST].latency_seconds - 3e-6) < 1e-12);
    assert_int_equal(cost.shared_nic, 1);
    q.config.cost_shared_nic = 0;
    assert_int_equal(ri_choice_cost(&q.query, NULL, RI_FORWARD).shared_nic, 0);
}

static void the_order_reaches_the_builders(void **state)
{
    static const int32_t order[] = { 0, 2, 4, 6, 1, 3, 5, 7 };
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    struct ri_choice choice;
    struct question q;

    ask(&q, &two_by_four, 8, 0, &options);
    q.query.order = order;
    assert_int_equal(ri_plan_choose(&q.query, &choice), 0);
    assert_ptr_equal(choice.pass[RI_FORWARD].build.order, order);
    assert_ptr_equal(choice.pass[RI_BACKWARD].build.order, order);
    assert_true(choice.lane[RI_LANE_LOCAL].bandwidth == 10000000 && choice.lane[RI_LANE_HOST].bandwidth == 1000000);
}

/* Independent numbers: 2 tokens a rank of 3 sequences, 4 query and 2 key heads of 5, values of 7,
 * elements of 2 bytes. */
static void problems_have_bytes_and_seconds(void **state)
{
    rondo_attention_desc_t desc = RONDO_ATTENTION_DESC_INIT;
    struct ri_problem problem = { 4, 8, 8, 64, &desc, 0, 2, 100, NULL };
    struct ri_cost cost = { .lane = { { 0, 8 }, { 0, 1 } } };
    struct ri_wire wire;

    desc.batch = 3;
    desc.q_heads = 4;
    desc.kv_heads = 2;
    desc.qk_dim = 5;
    desc.v_dim = 7;
    desc.mask = RONDO_MASK_FULL;
    ri_problem_cost(&problem, RI_FORWARD, &cost);
    assert_true(cost.block[RI_Q] == 240); /* 6 * 4 * 5 * 2 */
    assert_true(cost.block[RI_K] == 288); /* 6 * 2 * 12 * 2 */
    assert_true(cost.block[RI_O] == 768); /* 6 * 4 * (7 + 1) * 4 */
    assert_true(fabs(cost.compute_seconds - 11.52) < 1e-9); /* 48 pairs, 2 * 12, at 100 */
    assert_true(cost.seconds_per_unit == .25);
    ri_problem_cost(&problem, RI_BACKWARD, &cost);
    assert_true(cost.block[RI_Q] == 768); /* q, d_o: 6 * 4 * 12 * 2; lse, delta: 6 * 4 * 2 * 4 */
    assert_true(cost.block[RI_DQ] == 480 && cost.block[RI_DK] == 576);
    assert_true(fabs(cost.compute_seconds - 27.84) < 1e-9); /* 2 * (3 * 5 + 2 * 7) */
    problem.element_bytes = 4;
    assert_int_equal(ri_wire_parse("k:bf16,d_o:f16,dq:f16,dv:bf16", &desc, &wire), 0);
    problem.wire = &wire;
    ri_problem_cost(&problem, RI_BACKWARD, &cost);
    assert_true(cost.block[RI_Q] == 1008); /* 6 * 4 * (5 * 4 + 7 * 2 + 2 * 4) */
    assert_true(cost.block[RI_K] == 456);  /* 6 * 2 * (5 * 2 + 7 * 4) */
    assert_true(cost.block[RI_DQ] == 240 && cost.block[RI_DK] == 408);
    problem.wire = NULL;
    problem.element_bytes = 2;
    problem.pairs = 32;
    problem.needs_o = 1;
    ri_problem_cost(&problem, RI_BACKWARD, &cost);
    assert_true(cost.block[RI_Q] == 1008); /* q, d_o, o: 6 * 4 * 19 * 2; lse: 96 */
    assert_true(fabs(cost.compute_seconds - 13.92) < 1e-9);
}

static double seconds_of_all_ranks(const struct ri_scheme *scheme, int binds,
                                   const struct ri_cost *cost)
{
    struct ri_schedule *all[RANKS_MAX];
    struct ri_simulation result;
    double seconds;

    for (int r = 0; r < scheme->build.ranks; r++)
        assert_int_equal(ri_scheme_build(scheme, r, binds, &all[r]), 0);
    assert_int_equal(ri_simulate(all, scheme->build.ranks, cost, 0, &result), 0);
    seconds = result.seconds;
    ri_simulation_release(&result);
    for (int r = 0; r < scheme->build.ranks; r++)
        ri_schedule_destroy(all[r]);
    return seconds;
}

/* A plan never binds blocks in parts, so no price may count on it. */
static void prices_are_those_of_what_is_built(void **state)
{
    static const char *const schedules[] = { NULL, "ring", "two-level", "direct" };
    static const struct machine *const machines[] = { &one_host, &two_by_four, &uneven,
                                                      &three_and_two, &four_and_three };

    for (int i = 0; i < 2 * 4 * 5; i++) {
        rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
        struct ri_choice choice;
        struct question q;

        options.schedule = schedules[i / 2 % 4];
        ask(&q, machines[i / 8], i % 2 ? 8 : 1, 1, &options);
        assert_int_equal(ri_plan_choose(&q.query, &choice), 0);
        for (int kind = 0; kind < RI_PASSES; kind++) {
            struct ri_cost cost = ri_choice_cost(&q.query, NULL, (enum ri_pass_kind)kind);
            double seconds = choice.pass[kind].seconds;

            if (fabs(seconds_of_all_ranks(&choice.pass[kind], 1, &cost) - seconds) > 1e-9 * seconds)
                fail_msg("%s %s on machine %d: %g s are not what it takes",
                         choice.pass[kind].schedule, choice.pass[kind].variant, i / 8, seconds);
        }
    }
}

static void hashes_tell_schemes_apart(void **state)
{
    static const char *const schedules[] = { "ring", "two-level", "direct" };
    rondo_plan_options_t options = RONDO_PLAN_OPTIONS_INIT;
    struct ri_choice choice;
    int64_t hashes[6];

    for (int i = 0; i < 6; i++) {
        options.schedule = schedules[i / 2];
        options.backward = i % 2 ? "q-grad" : "kv-grad";
        assert_int_equal(choose(&two_by_four, 8, 0, &options, &choice), 0);
        assert_int_equal(ri_plan_hash(&choice, &hashes[i]), 0);
        for (int before = 0; before < i; before++)
            assert_true(hashes[before] != hashes[i]);
    }
    choice.binds = 1;
    assert_int_equal(ri_plan_hash(&choice, &hashes[0]), 0);
    assert_true(hashes[0] != hashes[5]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_that_weigh_less_travel),
        cmocka_unit_test(the_flat_ring_wins_on_hosts_of_4_2_and_1),
        cmocka_unit_test(what_the_caller_says_wins),
        cmocka_unit_test(what_a_named_schedule_does_not_have_is_refused),
        cmocka_unit_test(an_open_schedule_takes_pieces_where_it_has_them),
        cmocka_unit_test(reading_in_place_is_priced_and_built),
        cmocka_unit_test(prices_are_those_of_what_is_built),
        cmocka_unit_test(chunks_of_small_hosts_are_built),
        cmocka_unit_test(prices_that_are_none_are_named),
        cmocka_unit_test(links_are_as_given_else_as_the_topology_says),
        cmocka_unit_test(the_order_reaches_the_builders),
        cmocka_unit_test(problems_have_bytes_and_seconds),
        cmocka_unit_test(hashes_tell_schemes_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
