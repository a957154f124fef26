/* SPDX-License-Identifier: Apache-2.0 */
/* What transport ucx alone does: endpoints with some of the ranks, words for how it reaches them, devices,
 * registered memory, and order over TCP. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"

static void expect_words(struct bench *bench, int rank, int peer, const char *words, const char *other)
{
    const char *way = bench->ops->way(bench->rank[rank], peer);

    if (strncmp(way, "ucx: ", 5) != 0 || !strstr(way, words) || strstr(way, other))
        fail_msg("from rank %d to rank %d: '%s' is to say '%s', not '%s'", rank, peer, way, words, other);
}

static void says_how_it_reaches_a_peer(void **state)
{
    static const int32_t host[3] = { 0, 0, 1 };
    struct bench bench;

    (void)state;
    bench_open_on(&bench, "ucx", 3, host, NULL);
    expect_words(&bench, 0, 1, ", error mode none, on the same host", "tcp");
    expect_words(&bench, 0, 2, "tcp on ", "cma");
    expect_words(&bench, 2, 1, ", error mode peer, as it is on another host", "memory");
    assert_ptr_equal(bench.ops->way(bench.rank[0], 2), bench.ops->way(bench.rank[0], 2));
    bench_close(&bench);
}

static void refuses_peer(struct bench *bench, int rank, int peer)
{
    char byte = 0, text[32];
    struct ri_xfer xfer = bench_send(peer, 1, &byte, 1), *one = &xfer;

    assert_int_equal(bench->ops->post(bench->rank[rank], &one, 1), RONDO_ERR_ARGUMENT);
    snprintf(text, sizeof(text), "rank %d and rank %d", rank, peer);
    assert_non_null(strstr(rondo_last_error(), text));
    assert_int_equal(xfer.state, RI_XFER_IDLE);
    assert_string_equal(bench->ops->way(bench->rank[rank], peer), "ucx: not connected");
}

/* A chain of three, and a fourth that has nobody. */
static void connects_with_its_peers_only(void **state)
{
    uint8_t peers[4][BENCH_RANKS_MAX] = { { 0, 1, 0, 0 }, { 1, 0, 1, 0 }, { 0, 1, 0, 0 }, { 0, 0, 0, 0 } };
    static const int32_t host[4] = { 0, 0, 1, 1 };
    int out[4] = { 10, 11, 12, 13 }, in[4] = { 0 };
    struct ri_xfer xfers[4];
    struct bench bench;

    (void)state;
    bench_open_for(&bench, "ucx", 4, host, NULL, peers);
    xfers[0] = bench_send(1, 1, &out[0], sizeof(int));
    xfers[1] = bench_receive(0, 1, &in[0], sizeof(int));
    xfers[2] = bench_send(2, 1, &out[1], sizeof(int));
    xfers[3] = bench_receive(1, 1, &in[1], sizeof(int));
    bench_post(&bench, 0, &xfers[0], 1);
    bench_post(&bench, 1, &xfers[1], 2);
    bench_post(&bench, 2, &xfers[3], 1);
    bench_run_done(&bench, xfers, 4);
    assert_int_equal(in[0], 10);
    assert_int_equal(in[1], 11);
    refuses_peer(&bench, 0, 0);
    refuses_peer(&bench, 0, 2);
    refuses_peer(&bench, 3, 0);
    bench_close(&bench);
}

/* ---- devices ---- */

static void takes_the_devices_of_the_rank(void **state)
{
    static const int32_t host[2] = { 0, 1 };
    char name[] = "lo,nothing";
    struct ri_config config = { .net_devices = name };
    struct ri_transport_params params = { .ranks = 2, .token = (const uint8_t *)"of 16 bytes, all",
                                          .host = host, .config = &config };
    struct ri_transport *transport = NULL;
    struct bench bench;
    const void *address;
    size_t bytes;

    (void)state;
    assert_int_equal(ri_transport_ucx.open(&params, &transport, &address, &bytes), RONDO_ERR_ARGUMENT);
    assert_null(transport);
    assert_non_null(strstr(rondo_last_error(), "RONDO_NET_DEVICES='lo,nothing'"));
    assert_non_null(strstr(rondo_last_error(), "no device 'nothing' here; it finds: "));
    assert_non_null(strstr(strstr(rondo_last_error(), "finds: "), "lo"));
    name[2] = '\0';
    bench_open_on(&bench, "ucx", 2, host, &config);
    assert_string_equal(bench.ops->way(bench.rank[0], 1),
                        "ucx: tcp on lo, error mode peer, as it is on another host");
    bench_close(&bench);
}

/* ---- registered memory ---- */

static _Atomic int registered; /* ranges that UCX holds for us */

int __real_ucp_mem_map(void *context, const void *params, void **handle);
int __wrap_ucp_mem_map(void *context, const void *params, void **handle);
int __real_ucp_mem_unmap(void *context, void *handle);
int __wrap_ucp_mem_unmap(void *context, void *handle);

int __wrap_ucp_mem_map(void *context, const void *params, void **handle)
{
    int status = __real_ucp_mem_map(context, params, handle);

    registered += status == 0;
    return status;
}

int __wrap_ucp_mem_unmap(void *context, void *handle)
{
    registered--;
    return __real_ucp_mem_unmap(context, handle);
}

enum { ranges = 20, range_bytes = 1 << 16 };

/* From the middle of one range, from its end, across two, and outside of all. */
static void move_in_and_out(struct bench *bench, char *memory, char *in)
{
    static const struct { size_t at, bytes; } spans[] = {
        { 3 * range_bytes + 100, 1000 }, { 3 * range_bytes, range_bytes }, { 4 * range_bytes - 1, 1 },
        { 3 * range_bytes + 9, range_bytes }, { 18 * range_bytes + 5, 2 * range_bytes - 5 }, { 0, 0 },
    };

    for (size_t s = 0; s < sizeof(spans) / sizeof(spans[0]); s++) {
        size_t at = spans[s].at, bytes = spans[s].bytes;
        struct ri_xfer xfers[2] = { bench_receive(0, s, in + at, bytes),
                                    bench_send(1, s, memory + at, bytes) };

        memset(in, 0, ranges * range_bytes);
        bench_post(bench, 1, &xfers[0], 1);
        bench_post(bench, 0, &xfers[1], 1);
        bench_run_done(bench, xfers, 2);
        assert_memory_equal(in + at, memory + at, bytes);
    }
}

static void registers_memory_once(void **state)
{
    static const int32_t hosts[2][2] = { { 0, 0 }, { 0, 1 } };
    char *memory = bench_memory(ranges * range_bytes), *in = bench_memory(ranges * range_bytes);
    struct bench bench;

    (void)state;
    bench_fill(memory, ranges * range_bytes, 1);
    for (int h = 0; h < 2; h++) {
        bench_open_on(&bench, "ucx", 2, hosts[h], NULL);
        assert_int_equal(registered, 0);
        for (int i = 0; i < ranges; i++) /* in no order, and 19 not at all */
            if (i * 7 % ranges != 19)
                bench.ops->map(bench.rank[0], memory + i * 7 % ranges * range_bytes, range_bytes);
        bench.ops->map(bench.rank[0], memory + range_bytes / 2, range_bytes); /* is there already */
        bench.ops->map(bench.rank[1], in, ranges * range_bytes);
        assert_int_equal(registered, ranges);
        move_in_and_out(&bench, memory, in);
        assert_int_equal(registered, ranges);
        bench.ops->unmap(bench.rank[0], memory + 3 * range_bytes);
        bench.ops->unmap(bench.rank[0], memory + 3 * range_bytes);
        bench.ops->unmap(bench.rank[0], memory + 19 * range_bytes);
        assert_int_equal(registered, ranges - 1);
        move_in_and_out(&bench, memory, in);
        for (int i = 0; i < 10; i++)
            bench.ops->unmap(bench.rank[0], memory + i * range_bytes);
        assert_int_equal(registered, ranges - 10);
        bench_close(&bench);
        assert_int_equal(registered, 0);
    }
    free(memory);
    free(in);
}

/* ---- over TCP ---- */

enum { chunks = 16, chunk_bytes = 1 << 18, small = 4096 };
static const int32_t apart[2] = { 0, 1 };

static void progress_both(struct bench *bench, int rounds)
{
    for (int i = 0; i < rounds; i++)
        bench->ops->progress(bench->rank[i % 2]);
}

/* How many are DONE; the first ones must be. */
static int done_in_order(const struct ri_xfer *xfers, int n)
{
    int done = 0;

    while (done < n && xfers[done].state == RI_XFER_DONE)
        done++;
    for (int i = done; i < n; i++)
        assert_int_equal(xfers[i].state, RI_XFER_POSTED);
    return done;
}

/* Posted together, both ways. */
static void chunks_arrive_one_after_another(void **state)
{
    char *memory[4];
    struct ri_xfer xfers[4][chunks]; /* rank 0's receives and sends, then rank 1's */
    int64_t deadline_ns = ri_now_ns() + INT64_C(30000000000);
    int arrivals[2] = { 0 }, times[2] = { 0 };
    struct bench bench;

    (void)state;
    bench_open_on(&bench, "ucx", 2, apart, NULL);
    for (int i = 0; i < 4; i++) {
        memory[i] = bench_memory(chunks * chunk_bytes);
        bench_fill(memory[i], chunks * chunk_bytes, (uint64_t)i);
        for (uint64_t c = 0; c < chunks; c++)
            xfers[i][c] = i % 2 ? bench_send(i < 2, c, memory[i] + c * chunk_bytes, chunk_bytes)
                                : bench_receive(i < 2, c, memory[i] + c * chunk_bytes, chunk_bytes);
        bench_post(&bench, i / 2, xfers[i], chunks);
    }
    while (arrivals[0] < chunks || arrivals[1] < chunks) {
        progress_both(&bench, 2);
        for (int r = 0; r < 2; r++) {
            int now = done_in_order(xfers[2 * r], chunks);

            times[r] += now > arrivals[r];
            arrivals[r] = now;
        }
        assert_true(ri_now_ns() < deadline_ns);
    }
    for (int r = 0; r < 2; r++) {
        bench_run_done(&bench, xfers[2 * r + 1], chunks);
        assert_true(times[r] > chunks / 4);
        assert_true(bench_filled(memory[2 * r], chunks * chunk_bytes, (uint64_t)(r ? 1 : 3)));
    }
    for (int i = 0; i < 4; i++)
        free(memory[i]);
    bench_close(&bench);
}

/* Nobody keeps what has no place yet; small ones may be kept, but are not done. */
static void nothing_leaves_before_its_receive(void **state)
{
    static const size_t bytes[4] = { 1 << 20, small, 0, 1 << 16 };
    struct ri_xfer out[4], in[4];
    struct bench bench;

    (void)state;
    bench_open_on(&bench, "ucx", 2, apart, NULL);
    for (int i = 0; i < 4; i++) {
        out[i] = bench_send(1, (uint64_t)i, bench_memory(bytes[i]), bytes[i]);
        in[i] = bench_receive(0, (uint64_t)i, bench_memory(bytes[i]), bytes[i]);
        bench_fill(out[i].base, bytes[i], (uint64_t)i);
    }
    bench_post(&bench, 0, out, 4);
    progress_both(&bench, 2000);
    for (int i = 0; i < 4; i++)
        assert_int_equal(out[i].state, RI_XFER_POSTED);
    for (int i = 3; i >= 0; i--) {
        bench_post(&bench, 1, &in[i], 1);
        bench_run_done(&bench, &in[i], 1);
        bench_run_done(&bench, &out[i], 1);
        assert_true(bench_filled(in[i].base, bytes[i], (uint64_t)i));
    }
    for (int i = 0; i < 4; i++) {
        free(out[i].base);
        free(in[i].base);
    }
    bench_close(&bench);
}

/* What waits for its receiver is given up at once, and the rest goes on. */
static void gives_up_what_nobody_receives(void **state)
{
    char *memory = bench_memory(2 << 20);
    struct ri_xfer xfers[2] = { bench_send(1, 1, memory, 1 << 20), bench_send(1, 2, memory, small) };
    struct ri_xfer *both[2] = { &xfers[0], &xfers[1] };
    struct bench bench;
    int64_t start_ns;

    (void)state;
    bench_open_on(&bench, "ucx", 2, apart, NULL);
    bench_post(&bench, 0, xfers, 2);
    progress_both(&bench, 100);
    start_ns = ri_now_ns();
    bench.ops->cancel(bench.rank[0], both, 2);
    assert_true(ri_now_ns() - start_ns < 900000000);
    assert_int_equal(xfers[0].state, RI_XFER_IDLE);
    assert_int_equal(xfers[1].state, RI_XFER_IDLE);
    bench_fill(memory, 1 << 20, 5);
    xfers[0] = bench_send(1, 3, memory, 1 << 20);
    xfers[1] = bench_receive(0, 3, memory + (1 << 20), 1 << 20);
    bench_post(&bench, 0, &xfers[0], 1);
    bench_post(&bench, 1, &xfers[1], 1);
    bench_run_done(&bench, xfers, 2);
    assert_true(bench_filled(memory + (1 << 20), 1 << 20, 5));
    bench_close(&bench);
    free(memory);
}

/* Whether the message or its receive comes first. */
static void refuse_other_sizes(const int32_t *host)
{
    static const size_t sizes[] = { 0, small, 8192, 8193, 1 << 20 };
    char *memory = bench_memory(2 << 20);
    struct bench bench;

    bench_open_on(&bench, "ucx", 2, host, NULL);
    for (int pair = 0; pair < 25; pair++) {
        size_t sent = sizes[pair / 5], expected = sizes[pair % 5];
        struct ri_xfer xfers[2] = { bench_receive(0, (uint64_t)pair, memory, expected),
                                    bench_send(1, (uint64_t)pair, memory + (1 << 20), sent) };

        if (sent == expected)
            continue;
        bench_post(&bench, 1 - pair % 2, &xfers[pair % 2], 1);
        progress_both(&bench, 20);
        bench_post(&bench, pair % 2, &xfers[1 - pair % 2], 1);
        bench_run(&bench, xfers, 2);
        if (xfers[0].state != RI_XFER_FAILED || xfers[0].status != RONDO_ERR_MISMATCH)
            fail_msg("%zu bytes for %zu: state %d, status %d", sent, expected, xfers[0].state,
                     xfers[0].status);
    }
    bench_close(&bench);
    free(memory);
}

static void refuses_other_sizes_in_any_order(void **state)
{
    static const int32_t together[2] = { 0, 0 };

    (void)state;
    refuse_other_sizes(apart);
    refuse_other_sizes(together);
}

/* Without RDMA, so that the words are known. */
int main(void)
{
    setenv("RONDO_UCX_TLS", "tcp,sysv,posix,cma,self", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_how_it_reaches_a_peer),
        cmocka_unit_test(connects_with_its_peers_only),
        cmocka_unit_test(takes_the_devices_of_the_rank),
        cmocka_unit_test(registers_memory_once),
        cmocka_unit_test(chunks_arrive_one_after_another),
        cmocka_unit_test(nothing_leaves_before_its_receive),
        cmocka_unit_test(gives_up_what_nobody_receives),
        cmocka_unit_test(refuses_other_sizes_in_any_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
