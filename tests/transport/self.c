/* SPDX-License-Identifier: Apache-2.0 */
/* What is transport self's own: modelled links, seeded delays, who is in the process. */
#include "bench.h"

#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "tests/helper.h"
#include "transport/self_model.h"

static void models_links_in_order(void **state)
{
    struct ri_self_lane lane = { .bandwidth = 1000000000, .latency_us = 3 };
    struct ri_self_link out = { 0 }, in = { 0 }, other_in = { 0 };

    (void)state;
    assert_int_equal(ri_self_due_ns(&out, &in, &lane, 100, 5000), 100 + 3000 + 5000);
    /* posted while the first is under way: starts when that has passed, to whomever it goes */
    assert_int_equal(ri_self_due_ns(&out, &other_in, &lane, 200, 1000), 8100 + 3000 + 1000);
    assert_int_equal(in.free_ns, 8100);
    /* the way in is taken as the way out is */
    assert_int_equal(ri_self_due_ns(&(struct ri_self_link){ 0 }, &other_in, &lane, 200, 1000),
                     12100 + 3000 + 1000);
    /* idle links start at once */
    assert_int_equal(ri_self_due_ns(&out, &in, &lane, 90000, 1000), 90000 + 3000 + 1000);
    lane.bandwidth = 0;
    assert_int_equal(ri_self_due_ns(&out, &in, &lane, 200000, 1000), 200000 + 3000);
}

static void models_each_lane(void **state)
{
    struct ri_config config = { .self_bandwidth = 100, .self_latency_us = 7, .self_seed = 3 };
    struct ri_self_model model = ri_self_model(&config);

    (void)state;
    assert_int_equal(model.lanes[RI_TRANSPORT_HOST].bandwidth, 100);
    assert_int_equal(model.lanes[RI_TRANSPORT_HOST].latency_us, 7);
    assert_int_equal(model.shared_nic, 0);
    config.self_host_bandwidth = 10;
    config.self_host_latency_us = 70;
    config.self_shared_nic = 1;
    model = ri_self_model(&config);
    assert_int_equal(model.lanes[RI_TRANSPORT_LOCAL].bandwidth, 100);
    assert_int_equal(model.lanes[RI_TRANSPORT_LOCAL].latency_us, 7);
    assert_int_equal(model.lanes[RI_TRANSPORT_HOST].bandwidth, 10);
    assert_int_equal(model.lanes[RI_TRANSPORT_HOST].latency_us, 70);
    assert_int_equal(model.seed, 3);
    assert_int_equal(model.shared_nic, 1);
}

/* The way into rank 1 is taken for long.  What rank 0 has for it waits, and holds back nothing else;
 * also when it is given up. */
static void passes_those_that_wait_for_others(void **state)
{
    static char out[3][1000000], in[3][1000000];
    struct ri_config config = { .self_bandwidth = 1000 };
    struct ri_xfer xfers[6] = { bench_send(1, 1, out[0], 1000000), bench_send(1, 2, out[1], 1),
                                bench_send(3, 3, out[2], 1) };
    struct ri_xfer *waiting = &xfers[1];
    struct bench bench;

    (void)state;
    bench_open(&bench, "self", 4, &config);
    xfers[3] = bench_receive(2, 1, in[0], 1000000);
    xfers[4] = bench_receive(0, 2, in[1], 1);
    xfers[5] = bench_receive(0, 3, in[2], 1);
    bench_post(&bench, 1, &xfers[3], 2);
    bench_post(&bench, 3, &xfers[5], 1);
    bench_post(&bench, 2, &xfers[0], 1);
    bench_post(&bench, 0, &xfers[1], 2);
    bench_run_done(&bench, &xfers[2], 1);
    bench_run_done(&bench, &xfers[5], 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(xfers[i].state, RI_XFER_POSTED);
        assert_int_equal(xfers[3 + i].state, RI_XFER_POSTED);
    }
    bench.ops->cancel(bench.rank[0], &waiting, 1);
    assert_int_equal(xfers[1].state, RI_XFER_IDLE);
    bench_close(&bench);
    assert_int_not_equal(xfers[4].state, RI_XFER_POSTED);
}

/* Two ranks of a host send 1 MB each to two of another at 20 MB/s.  Each on a link of its own could
 * be done after 50 ms; one card for both takes 100 ms. */
static int64_t send_over_one_card(void)
{
    enum { bytes = 1000000 };
    static char out[2][bytes], in[2][bytes];
    static const int32_t host[4] = { 5, 5, 2, 2 };
    struct ri_config config = { .self_bandwidth = INT64_MAX, .self_host_bandwidth = 20000000,
                                .self_shared_nic = 1 };
    struct ri_xfer xfers[4];
    struct bench bench;
    int64_t start_ns, took_ns;

    bench_open_on(&bench, "self", 4, host, &config);
    start_ns = ri_now_ns();
    for (int i = 0; i < 2; i++) {
        xfers[i] = bench_send(2 + i, 1, out[i], bytes);
        xfers[2 + i] = bench_receive(i, 1, in[i], bytes);
        xfers[i].lane = xfers[2 + i].lane = RI_TRANSPORT_HOST;
        bench_post(&bench, i, &xfers[i], 1);
        bench_post(&bench, 2 + i, &xfers[2 + i], 1);
    }
    bench_run_done(&bench, xfers, 4);
    took_ns = ri_now_ns() - start_ns;
    bench_close(&bench);
    return took_ns / 1000000;
}

static void shares_the_card_of_a_host(void **state)
{
    (void)state;
    assert_in_range(test_shortest_ms(send_over_one_card, 150), 100, 149);
}

static void delays_by_seed_source_and_tag(void **state)
{
    int64_t sum_ns = 0;
    int equal = 0;

    for (uint64_t tag = 0; tag < 1000; tag++) {
        int64_t delay_ns = ri_self_delay_ns(7, 1, tag);

        assert_in_range(delay_ns, 0, 5000000);
        assert_int_equal(delay_ns, ri_self_delay_ns(7, 1, tag));
        equal += delay_ns == ri_self_delay_ns(7, 2, tag);
        equal += delay_ns == ri_self_delay_ns(8, 1, tag);
        equal += delay_ns == ri_self_delay_ns(7, 1, tag + 1);
        sum_ns += delay_ns;
    }
    assert_in_range(equal, 0, 3);
    assert_in_range(sum_ns / 1000, 2300000, 2700000); /* uniform: mean 2.5 ms, deviation 0.05 */
    assert_int_equal(ri_self_delay_ns(0, 1, 5), 0);
}

/* Four messages of 1 MB share a link of 40 MB/s: 100 ms, asleep on the descriptor meanwhile. */
static int64_t send_over_a_slow_link(void)
{
    enum { count = 4, bytes = 1000000 };
    static char out[count][bytes], in[count][bytes];
    struct ri_config config = { .self_bandwidth = 40000000 };
    struct ri_xfer xfers[2 * count];
    struct bench bench;
    int64_t start_ns, took_ns;
    int sleeps = 0, moved = 0, refused = 0;

    bench_open(&bench, "self", 2, &config);
    for (int i = 0; i < count; i++) {
        xfers[i] = bench_send(1, (uint64_t)i, out[i], bytes);
        xfers[count + i] = bench_receive(0, (uint64_t)i, in[i], bytes);
    }
    start_ns = ri_now_ns();
    bench_post(&bench, 0, xfers, count);
    bench_post(&bench, 1, xfers + count, count);
    while (xfers[2 * count - 1].state == RI_XFER_POSTED) {
        struct pollfd wait = { .fd = bench.ops->event_fd(bench.rank[1]), .events = POLLIN };

        if (bench.ops->progress(bench.rank[1])) {
            moved++;
        } else if (!bench.ops->arm(bench.rank[1])) {
            refused++;
        } else {
            assert_int_equal(poll(&wait, 1, 10000), 1);
            sleeps++;
        }
    }
    took_ns = ri_now_ns() - start_ns;
    bench_run_done(&bench, xfers, 2 * count);
    assert_in_range(sleeps, 0, 50);
    assert_in_range(refused, 0, moved); /* only when something can be moved; none sleeps where it was due */
    bench_close(&bench);
    return took_ns / 1000000;
}

static void holds_messages_back_to_the_bandwidth(void **state)
{
    (void)state;
    assert_in_range(test_shortest_ms(send_over_a_slow_link, 150), 100, 149);
}

static void fails_messages_of_a_closed_peer(void **state)
{
    uint64_t memory[3] = { 0 };
    struct ri_xfer xfers[3] = { bench_receive(1, 1, &memory[0], 8), bench_send(1, 2, &memory[1], 8),
                                bench_receive(1, 3, &memory[2], 8) };
    struct bench bench;

    bench_open(&bench, "self", 2, NULL);
    bench_post(&bench, 0, xfers, 2);
    assert_int_equal(bench.ops->progress(bench.rank[0]), 0);
    bench.ops->close(bench.rank[1]);
    bench.rank[1] = NULL;
    bench_post(&bench, 0, &xfers[2], 1);
    bench_run(&bench, xfers, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(xfers[i].state, RI_XFER_FAILED);
        assert_int_equal(xfers[i].status, RONDO_ERR_PEER);
    }
    assert_non_null(strstr(rondo_last_error(), "rank 1"));
    bench_close(&bench);
}

static void fails_both_ends_of_other_sizes(void **state)
{
    char memory[2][16];
    struct ri_xfer xfers[2] = { bench_receive(0, 1, memory[0], 16), bench_send(1, 1, memory[1], 8) };
    struct bench bench;

    bench_open(&bench, "self", 2, NULL);
    bench_post(&bench, 1, &xfers[0], 1);
    bench_post(&bench, 0, &xfers[1], 1);
    bench_run(&bench, xfers, 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(xfers[i].status, RONDO_ERR_MISMATCH);
    bench_close(&bench);
}

static void refuses_ranks_that_do_not_fit(void **state)
{
    static const uint8_t token[16] = "not all are here";
    struct ri_config config = { 0 };
    struct ri_transport_params params = { .ranks = 2, .token = token, .config = &config };
    struct ri_transport *first = NULL, *second = NULL;
    const void *address;
    size_t address_bytes;

    assert_int_equal(ri_transport_self.open(&params, &first, &address, &address_bytes), 0);
    assert_int_equal(ri_transport_self.open(&params, &second, &address, &address_bytes),
                     RONDO_ERR_ARGUMENT);
    params.rank = 1;
    params.ranks = 3;
    assert_int_equal(ri_transport_self.open(&params, &second, &address, &address_bytes),
                     RONDO_ERR_MISMATCH);
    assert_null(second);
    assert_int_equal(ri_transport_self.connect(first, &address, &address_bytes, 0),
                     RONDO_ERR_TRANSPORT);
    assert_non_null(strstr(rondo_last_error(), "rank 1 is not in the process"));
    ri_transport_self.close(first);
}

static void knows_its_transports(void **state)
{
    assert_ptr_equal(ri_transport_find("self"), &ri_transport_self);
    assert_null(ri_transport_find("pigeon"));
    assert_null(ri_transport_find(""));
    assert_null(ri_transport_remedy("pigeon"));
    assert_non_null(strstr(ri_transport_remedy("ucx"), "--with-ucx"));
    assert_int_equal(strncmp(ri_transport_names(), "self", 4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_links_in_order),
        cmocka_unit_test(models_each_lane),
        cmocka_unit_test(passes_those_that_wait_for_others),
        cmocka_unit_test(shares_the_card_of_a_host),
        cmocka_unit_test(delays_by_seed_source_and_tag),
        cmocka_unit_test(holds_messages_back_to_the_bandwidth),
        cmocka_unit_test(fails_messages_of_a_closed_peer),
        cmocka_unit_test(fails_both_ends_of_other_sizes),
        cmocka_unit_test(refuses_ranks_that_do_not_fit),
        cmocka_unit_test(knows_its_transports),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
