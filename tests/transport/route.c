/* SPDX-License-Identifier: Apache-2.0 */
/* What is read in place on one host and sent to another: ranks 0 and 1 share a host, rank 2 has its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tests/transport/bench.h"

enum { bytes = 1 << 20 };

static const int32_t host[3] = { 0, 0, 1 };

/* Opens the bench; rank 1 reads what rank 0 holds: pair[0] is the send, pair[1] the receive. */
static char *read_in_place(struct bench *bench, const char *name, struct ri_xfer pair[2])
{
    char *content = bench_memory(bytes);

    bench_open_on(bench, name, 3, host, NULL);
    bench_fill(content, bytes, 5);
    pair[0] = bench_send(1, 3, content, bytes);
    pair[1] = bench_receive(0, 3, NULL, bytes);
    pair[0].bind = pair[1].bind = 1;
    bench_post(bench, 1, &pair[1], 1);
    bench_post(bench, 0, &pair[0], 1);
    bench_run_done(bench, pair, 2);
    return content;
}

static int readers(struct bench *bench, struct ri_xfer *send)
{
    return bench->ops->readers(bench->rank[0], send);
}

/* Rank 1 lets go of it, and then nobody reads it; closes the bench. */
static void let_go(struct bench *bench, struct ri_xfer pair[2], char *content)
{
    bench->ops->release(bench->rank[1], &pair[1]);
    assert_int_equal(readers(bench, &pair[0]), 0);
    bench_close(bench);
    free(content);
}

/* Rank 1's send of it to rank 2. */
static struct ri_xfer send_on(const struct ri_xfer *read)
{
    struct ri_xfer xfer = bench_send(2, 4, read->base, bytes);

    xfer.lane = RI_TRANSPORT_HOST;
    xfer.reference = read->reference;
    return xfer;
}

static void sends_on_what_it_reads(void **state)
{
    char *content, *in = bench_memory(bytes);
    struct ri_xfer pair[2], on[2];
    struct bench bench;

    content = read_in_place(&bench, *state, pair);
    on[0] = send_on(&pair[1]);
    on[1] = bench_receive(1, 4, in, bytes);
    bench_post(&bench, 1, &on[0], 1);
    bench_post(&bench, 2, &on[1], 1);
    bench_run_done(&bench, on, 2);
    assert_memory_equal(in, content, bytes);
    let_go(&bench, pair, content);
    free(in);
}

/* The holder that takes it back waits for the send, and the send does not pass for good. */
static void the_holder_waits_for_who_sends_it_on(void **state)
{
    char *content, *in = bench_memory(bytes);
    struct ri_xfer pair[2], on[2];
    struct bench bench;

    content = read_in_place(&bench, *state, pair);
    on[0] = send_on(&pair[1]);
    on[1] = bench_receive(1, 4, in, bytes);
    bench_post(&bench, 1, &on[0], 1);
    assert_int_equal(on[0].state, RI_XFER_POSTED);
    bench.ops->revoke(bench.rank[0], &pair[0]);
    assert_int_equal(readers(&bench, &pair[0]), 1);
    bench_post(&bench, 2, &on[1], 1);
    bench_run(&bench, on, 2);
    assert_int_equal(on[0].state, RI_XFER_FAILED);
    assert_int_equal(on[0].status, RONDO_ERR_PEER);
    assert_non_null(strstr(on[0].why, "rank 0"));
    assert_int_equal(readers(&bench, &pair[0]), 0);
    let_go(&bench, pair, content);
    free(in);
}

static void a_cancelled_send_lets_go(void **state)
{
    struct ri_xfer pair[2], on, *one = &on;
    struct bench bench;
    char *content;

    content = read_in_place(&bench, *state, pair);
    on = send_on(&pair[1]);
    bench_post(&bench, 1, &on, 1);
    bench.ops->revoke(bench.rank[0], &pair[0]);
    assert_int_equal(readers(&bench, &pair[0]), 1);
    bench.ops->cancel(bench.rank[1], &one, 1);
    assert_int_not_equal(on.state, RI_XFER_POSTED);
    assert_int_equal(readers(&bench, &pair[0]), 0);
    let_go(&bench, pair, content);
}

static void what_was_taken_back_is_not_sent(void **state)
{
    struct ri_xfer pair[2], on, *one = &on;
    struct bench bench;
    char *content;

    content = read_in_place(&bench, *state, pair);
    bench.ops->revoke(bench.rank[0], &pair[0]);
    on = send_on(&pair[1]);
    assert_int_equal(bench.ops->post(bench.rank[1], &one, 1), RONDO_ERR_PEER);
    assert_non_null(strstr(rondo_last_error(), "rank 0"));
    assert_int_equal(readers(&bench, &pair[0]), 0);
    let_go(&bench, pair, content);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_ON("shm+ucx", sends_on_what_it_reads),
        BENCH_ON("shm+ucx", the_holder_waits_for_who_sends_it_on),
        BENCH_ON("shm+ucx", a_cancelled_send_lets_go),
        BENCH_ON("shm+ucx", what_was_taken_back_is_not_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
