/* SPDX-License-Identifier: Apache-2.0 */
/* What transport ucx alone does: endpoints with some of the ranks, and words for how it reaches them. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Without RDMA, so that the words are known. */
int main(void)
{
    setenv("RONDO_UCX_TLS", "tcp,sysv,posix,cma,self", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_how_it_reaches_a_peer),
        cmocka_unit_test(connects_with_its_peers_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
