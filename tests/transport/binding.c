/* SPDX-License-Identifier: Apache-2.0 */
/* What every transport that binds must do.  *state is the transport's name. */
#include "bench.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/status.h"

enum { bytes = 5000 };

static struct ri_xfer bound_send(int peer, uint64_t tag, const void *base, const struct ri_xfer *passed)
{
    struct ri_xfer xfer = bench_send(peer, tag, base, bytes);

    xfer.bind = 1;
    if (passed)
        xfer.reference = passed->reference;
    return xfer;
}

static struct ri_xfer bound_receive(int peer, uint64_t tag)
{
    struct ri_xfer xfer = bench_receive(peer, tag, NULL, bytes);

    xfer.bind = 1;
    return xfer;
}

static void cancel(struct bench *bench, int rank, struct ri_xfer *xfer)
{
    bench->ops->cancel(bench->rank[rank], &xfer, 1);
}

static int readers(struct bench *bench, int rank, struct ri_xfer *send)
{
    return bench->ops->readers(bench->rank[rank], send);
}

static void release(struct bench *bench, int rank, struct ri_xfer *receive)
{
    bench->ops->release(bench->rank[rank], receive);
    assert_null(receive->reference.counter);
}

/* The content of rank `from` goes to rank `to`, or what `passed` brought goes on. */
static void bind(struct bench *bench, int from, int to, const void *base, const struct ri_xfer *passed,
                 struct ri_xfer pair[2])
{
    pair[0] = bound_send(to, 3, base, passed);
    pair[1] = bound_receive(from, 3);
    bench_post(bench, (from + to) % 2 ? from : to, &pair[(from + to) % 2 ? 0 : 1], 1);
    bench_post(bench, (from + to) % 2 ? to : from, &pair[(from + to) % 2 ? 1 : 0], 1);
    bench_run_done(bench, pair, 2);
}

static void reads_in_place(void **state)
{
    struct ri_xfer pair[2];
    struct bench bench;
    char *content;

    bench_open(&bench, *state, 2, NULL);
    content = bench_content(&bench, 0, bytes);
    bench_fill(content, bytes, 4);
    bind(&bench, 0, 1, content, NULL, pair);
    assert_true(bench_filled(pair[1].base, bytes, 4));
    assert_ptr_equal(pair[1].reference.base, pair[1].base);
    assert_int_equal(pair[1].reference.holder, 0);
    assert_non_null(pair[1].reference.counter);
    content[bytes - 1] ^= 1; /* what the holder writes is seen: nothing was copied */
    assert_int_equal(pair[1].base[bytes - 1], content[bytes - 1]);
    assert_int_equal(bench.rank[0]->sent_bytes[RI_TRANSPORT_LOCAL], 0);
    assert_int_equal(bench.rank[1]->received_bytes[RI_TRANSPORT_LOCAL], 0);
    assert_int_equal(readers(&bench, 0, &pair[0]), 1);
    release(&bench, 1, &pair[1]);
    assert_int_equal(readers(&bench, 0, &pair[0]), 0);
    assert_int_equal(readers(&bench, 0, &pair[0]), 0);
    bench_content_free(&bench, 0, content);
    bench_close(&bench);
}

/* Rank 0 holds, and 1, 2 and 3 pass on; they let go in every order. */
static void counts_readers_along_a_chain(void **state)
{
    static const int orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
                                      { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
    static char content[bytes];
    struct ri_xfer pair[3][2];
    struct bench bench;

    bench_open(&bench, *state, 4, NULL);
    bench_fill(content, bytes, 9);
    for (int order = 0; order < 6; order++) {
        bind(&bench, 0, 1, content, NULL, pair[0]);
        for (int r = 1; r < 3; r++) {
            bind(&bench, r, r + 1, pair[r - 1][1].base, &pair[r - 1][1], pair[r]);
            assert_int_equal(readers(&bench, 0, &pair[0][0]), r + 1);
            assert_int_equal(readers(&bench, r, &pair[r][0]), 0);
        }
        for (int r = 0; r < 3; r++) {
            assert_int_equal(pair[r][1].reference.holder, 0);
            assert_true(bench_filled(pair[r][1].base, bytes, 9));
        }
        for (int i = 0; i < 3; i++) {
            release(&bench, orders[order][i] + 1, &pair[orders[order][i]][1]);
            assert_int_equal(readers(&bench, 0, &pair[0][0]), 2 - i);
        }
    }
    bench_close(&bench);
}

/* A forwarder lets go as soon as its send is posted: the content stays held for who has not got it. */
static void never_counts_nobody_while_it_is_passed_on(void **state)
{
    static char content[bytes];
    struct ri_xfer pair[2][2];
    struct bench bench;

    bench_open(&bench, *state, 3, NULL);
    bind(&bench, 0, 1, content, NULL, pair[0]);
    pair[1][0] = bound_send(2, 8, pair[0][1].base, &pair[0][1]);
    pair[1][1] = bound_receive(1, 8);
    bench_post(&bench, 1, &pair[1][0], 1);
    bench_post(&bench, 2, &pair[1][1], 1);
    while (pair[1][0].state == RI_XFER_POSTED)
        bench.ops->progress(bench.rank[1]);
    release(&bench, 1, &pair[0][1]);
    assert_int_equal(readers(&bench, 0, &pair[0][0]), 1);
    bench_run_done(&bench, pair[1], 2);
    assert_int_equal(readers(&bench, 0, &pair[0][0]), 1);
    release(&bench, 2, &pair[1][1]);
    assert_int_equal(readers(&bench, 0, &pair[0][0]), 0);
    bench_close(&bench);
}

static void binds_empty_blocks(void **state)
{
    struct ri_xfer pair[2] = { bound_send(1, 1, NULL, NULL), bound_receive(0, 1) };
    struct bench bench;

    bench_open(&bench, *state, 2, NULL);
    pair[0].rows = pair[1].rows = 0;
    bench_post(&bench, 0, &pair[0], 1);
    bench_post(&bench, 1, &pair[1], 1);
    bench_run_done(&bench, pair, 2);
    assert_int_equal(readers(&bench, 0, &pair[0]), 1);
    release(&bench, 1, &pair[1]);
    assert_int_equal(readers(&bench, 0, &pair[0]), 0);
    bench_close(&bench);
}

/* Copies and bound messages of one pair do not disturb each other. */
static void copies_beside_it(void **state)
{
    static char content[bytes], in[bytes];
    struct ri_xfer xfers[4] = { bound_send(1, 1, content, NULL), bench_send(1, 2, content, bytes),
                                bench_receive(0, 2, in, bytes), bound_receive(0, 1) };
    struct bench bench;

    bench_open(&bench, *state, 2, NULL);
    bench_fill(content, bytes, 5);
    bench_post(&bench, 0, &xfers[0], 2);
    bench_post(&bench, 1, &xfers[2], 2);
    bench_run_done(&bench, xfers, 4);
    assert_true(bench_filled(in, bytes, 5));
    assert_true(bench_filled(xfers[3].base, bytes, 5));
    assert_int_equal(readers(&bench, 0, &xfers[1]), 0);
    assert_int_equal(readers(&bench, 0, &xfers[0]), 1);
    assert_int_equal(bench.rank[0]->sent_bytes[RI_TRANSPORT_LOCAL], bytes);
    release(&bench, 1, &xfers[3]);
    bench_close(&bench);
}

/* ---- refusals ---- */

static void fails_both_ends_when_one_binds(void **state)
{
    static char memory[2][bytes];

    for (int sender = 0; sender < 2; sender++) {
        struct ri_xfer pair[2] = { bench_send(1, 6, memory[0], bytes),
                                   bench_receive(0, 6, memory[1], bytes) };
        struct bench bench;

        bench_open(&bench, *state, 2, NULL);
        pair[!sender].bind = 1;
        bench_post(&bench, 0, &pair[0], 1);
        bench_post(&bench, 1, &pair[1], 1);
        bench_run(&bench, pair, 2);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pair[i].state, RI_XFER_FAILED);
            assert_int_equal(pair[i].status, RONDO_ERR_MISMATCH);
            assert_non_null(strstr(pair[i].why, "from rank 0 to rank 1"));
            assert_non_null(strstr(pair[i].why, sender ? "bound by its sender only"
                                                       : "bound by its receiver only"));
        }
        bench_close(&bench);
    }
}

static void expect_refused(struct bench *bench, int rank, struct ri_xfer xfer, const char *text)
{
    struct ri_xfer *pointer = &xfer;

    assert_int_equal(bench->ops->post(bench->rank[rank], &pointer, 1), RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(rondo_last_error(), text));
    assert_int_equal(xfer.state, RI_XFER_IDLE);
}

static void refuses_what_cannot_bind(void **state)
{
    static const int32_t host[3] = { 0, 0, 1 };
    static char content[2 * bytes];
    struct ri_xfer xfer, pair[2], stale;
    struct bench bench;

    bench_open_on(&bench, *state, 3, host, NULL);
    xfer = bound_send(1, 1, content, NULL);
    xfer.lane = RI_TRANSPORT_HOST;
    expect_refused(&bench, 0, xfer, "local lane");
    xfer = bound_send(1, 1, content, NULL);
    xfer.rows = 2;
    xfer.row_stride = bytes + 1;
    expect_refused(&bench, 0, xfer, "one run");
    expect_refused(&bench, 0, bound_send(1, 1, NULL, NULL), "without memory");
    expect_refused(&bench, 0, bound_send(2, 1, content, NULL), "another host");
    expect_refused(&bench, 2, bound_receive(0, 1), "another host");
    bind(&bench, 0, 1, content, NULL, pair);
    stale = pair[1];
    release(&bench, 1, &pair[1]);
    expect_refused(&bench, 1, bound_send(0, 2, stale.base, &stale), "released");
    bench_close(&bench);
}

/* ---- giving up ---- */

/* Whoever gives up a bound message that nobody has read leaves the other end waiting, as with copies. */
static void cancels_either_end_before_it_is_read(void **state)
{
    static char content[2][bytes];
    struct ri_config config = { .self_latency_us = 3600000000 }; /* matched, and not there yet */

    for (int end = 0; end < 2; end++)
        for (int matched = 0; matched < 2; matched++) {
            struct ri_xfer pair[2] = { bound_send(1, 1, content[0], NULL), bound_receive(0, 1) };
            struct bench bench;

            bench_open(&bench, *state, 2, &config);
            bench_post(&bench, end, &pair[end], 1);
            if (matched)
                bench_post(&bench, !end, &pair[!end], 1);
            cancel(&bench, end, &pair[end]);
            assert_int_equal(pair[end].state, RI_XFER_IDLE);
            if (matched)
                assert_int_equal(pair[!end].state, RI_XFER_POSTED);
            assert_int_equal(bench.ops->progress(bench.rank[!end]), 0);
            if (matched)
                cancel(&bench, !end, &pair[!end]);
            bench_close(&bench);
        }
}

static void meets_anew_after_a_cancel(void **state)
{
    static char content[2][bytes];
    struct ri_xfer given_up = bound_send(1, 1, content[0], NULL), pair[2];
    struct bench bench;

    bench_open(&bench, *state, 2, NULL);
    bench_fill(content[1], bytes, 2);
    pair[1] = bound_receive(0, 1);
    bench_post(&bench, 0, &given_up, 1);
    bench_post(&bench, 1, &pair[1], 1);
    cancel(&bench, 0, &given_up);
    pair[0] = bound_send(1, 1, content[1], NULL);
    bench_post(&bench, 0, &pair[0], 1);
    bench_run_done(&bench, pair, 2);
    assert_true(bench_filled(pair[1].base, bytes, 2));
    assert_int_equal(readers(&bench, 0, &pair[0]), 1);
    release(&bench, 1, &pair[1]);
    assert_int_equal(readers(&bench, 0, &pair[0]), 0);
    bench_close(&bench);
}

/* The receiver has it already: the send cannot be taken back, and says who reads. */
static void cancelled_send_that_is_read_is_done(void **state)
{
    static char content[bytes];
    struct ri_xfer pair[2] = { bound_send(1, 1, content, NULL), bound_receive(0, 1) };
    struct bench bench;

    bench_open(&bench, *state, 2, NULL);
    bench_post(&bench, 0, &pair[0], 1);
    bench_post(&bench, 1, &pair[1], 1);
    while (pair[1].state == RI_XFER_POSTED)
        bench.ops->progress(bench.rank[1]);
    cancel(&bench, 0, &pair[0]);
    assert_int_equal(pair[0].state, RI_XFER_DONE);
    assert_int_equal(readers(&bench, 0, &pair[0]), 1);
    cancel(&bench, 1, &pair[1]); /* has ended: stays, and is still read */
    assert_int_equal(readers(&bench, 0, &pair[0]), 1);
    release(&bench, 1, &pair[1]);
    assert_int_equal(readers(&bench, 0, &pair[0]), 0);
    bench_close(&bench);
}

/* ---- taking back ---- */

static void revoked_content_is_not_entered(void **state)
{
    static char content[bytes];
    struct ri_xfer pair[2], on[2] = { bound_send(2, 1, content, NULL), bound_receive(1, 1) };
    struct bench bench;

    bench_open(&bench, *state, 3, NULL);
    bind(&bench, 0, 1, content, NULL, pair);
    assert_int_equal(bench.ops->enter(bench.rank[1], &pair[1].reference), 0);
    bench.ops->revoke(bench.rank[0], &pair[0]);
    assert_int_equal(readers(&bench, 0, &pair[0]), 1);
    assert_int_equal(bench.ops->enter(bench.rank[1], &pair[1].reference), RONDO_ERR_PEER);
    assert_int_equal(bench.ops->leave(bench.rank[1], &pair[1].reference), RONDO_ERR_PEER);
    assert_int_equal(readers(&bench, 0, &pair[0]), 0);
    on[0] = bound_send(2, 1, pair[1].base, &pair[1]);
    bench_post(&bench, 2, &on[1], 1);
    bench_post(&bench, 1, &on[0], 1);
    bench_run(&bench, on, 2);
    assert_int_equal(on[1].status, RONDO_ERR_PEER);
    release(&bench, 1, &pair[1]);
    bench_close(&bench);
}

/* Rank 1 sends rank 2 a copy of what it reads at rank 0, which takes it back before it is made. */
static void revoked_content_is_not_copied(void **state)
{
    static char content[bytes] = { 1 }, memory[bytes];
    struct ri_xfer pair[2], copy[2];
    struct bench bench;

    bench_open(&bench, *state, 3, NULL);
    bind(&bench, 0, 1, content, NULL, pair);
    copy[0] = bench_send(2, 5, pair[1].base, bytes);
    copy[0].reference = pair[1].reference;
    copy[1] = bench_receive(1, 5, memory, bytes);
    bench_post(&bench, 1, &copy[0], 1);
    bench_post(&bench, 2, &copy[1], 1);
    bench.ops->revoke(bench.rank[0], &pair[0]);
    bench_run(&bench, copy, 2);
    assert_int_equal(memory[0], 0);
    assert_non_null(strstr(copy[0].why, "rank 0 has given up its run"));
    assert_non_null(strstr(copy[1].why, "rank 0 has given up its run"));
    release(&bench, 1, &pair[1]);
    bench_close(&bench);
}

/* ---- closing ---- */

static void a_reader_that_closes_lets_go(void **state)
{
    static char content[bytes];
    struct ri_xfer pair[2][2];
    struct bench bench;

    bench_open(&bench, *state, 3, NULL);
    bind(&bench, 0, 1, content, NULL, pair[0]);
    bind(&bench, 1, 2, pair[0][1].base, &pair[0][1], pair[1]);
    assert_int_equal(readers(&bench, 0, &pair[0][0]), 2);
    bench.ops->close(bench.rank[1]);
    bench.rank[1] = NULL;
    assert_int_equal(readers(&bench, 0, &pair[0][0]), 1);
    release(&bench, 2, &pair[1][1]);
    assert_int_equal(readers(&bench, 0, &pair[0][0]), 0);
    bench_close(&bench);
}

/* A holder that closes without waiting: who has the content may end in peace, nobody else gets it. */
static void a_holder_that_closes_gives_to_nobody_else(void **state)
{
    static char content[bytes];
    struct ri_xfer pair[2][2], late[2];
    struct bench bench;

    bench_open(&bench, *state, 3, NULL);
    bind(&bench, 0, 1, content, NULL, pair[0]);
    pair[1][0] = bound_send(2, 1, pair[0][1].base, &pair[0][1]);
    pair[1][1] = bound_receive(1, 1);
    bench_post(&bench, 1, &pair[1][0], 1);
    bench_post(&bench, 2, &pair[1][1], 1); /* matched, and not taken yet */
    late[0] = bound_send(2, 2, pair[0][1].base, &pair[0][1]);
    late[1] = bound_receive(1, 2);
    bench.ops->close(bench.rank[0]);
    bench.rank[0] = NULL;
    bench_post(&bench, 2, &late[1], 1);
    bench_post(&bench, 1, &late[0], 1);
    bench_run(&bench, pair[1], 2);
    bench_run(&bench, late, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pair[1][i].status, RONDO_ERR_PEER);
        assert_int_equal(late[i].status, RONDO_ERR_PEER);
        assert_non_null(strstr(pair[1][i].why, "rank 0 has closed"));
    }
    release(&bench, 1, &pair[0][1]);
    bench_close(&bench);
}

static void closes_in_any_order_with_readers(void **state)
{
    static char content[bytes];

    for (int first = 0; first < 3; first++) {
        struct ri_xfer pair[2][2];
        struct bench bench;

        bench_open(&bench, *state, 3, NULL);
        bind(&bench, 0, 1, content, NULL, pair[0]);
        bind(&bench, 1, 2, pair[0][1].base, &pair[0][1], pair[1]);
        bench.ops->close(bench.rank[first]);
        bench.rank[first] = NULL;
        if (first != 2)
            release(&bench, 2, &pair[1][1]);
        bench_close(&bench);
    }
}

struct holder {
    struct bench *bench;
    struct ri_xfer *send;
    char wrong[64];
};

/* Sleeps until nobody reads. */
static void *hold(void *argument)
{
    struct holder *holder = argument;
    const struct ri_transport_ops *ops = holder->bench->ops;
    struct ri_transport *transport = holder->bench->rank[0];
    struct pollfd wait = { .fd = ops->event_fd(transport), .events = POLLIN };

    while (!holder->wrong[0]) {
        ops->progress(transport);
        if (ops->readers(transport, holder->send) == 0)
            break;
        if (ops->arm(transport) && poll(&wait, 1, 10000) != 1)
            snprintf(holder->wrong, sizeof(holder->wrong), "no wake-up");
    }
    return NULL;
}

static void wakes_a_holder_that_sleeps(void **state)
{
    static char content[bytes];

    for (int round = 0; round < 200; round++) {
        struct timespec pause = { .tv_nsec = round % 4 * 100000 };
        struct ri_xfer pair[2];
        struct bench bench;
        struct holder holder = { &bench, &pair[0], "" };
        pthread_t thread;

        bench_open(&bench, *state, 2, NULL);
        bind(&bench, 0, 1, content, NULL, pair);
        assert_int_equal(pthread_create(&thread, NULL, hold, &holder), 0);
        nanosleep(&pause, NULL);
        release(&bench, 1, &pair[1]);
        pthread_join(thread, NULL);
        assert_string_equal(holder.wrong, "");
        bench_close(&bench);
    }
}

#define ON_ALL(test) BENCH_ON("self", test), BENCH_ON("shm", test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_ALL(reads_in_place),
        ON_ALL(counts_readers_along_a_chain),
        ON_ALL(never_counts_nobody_while_it_is_passed_on),
        ON_ALL(binds_empty_blocks),
        ON_ALL(copies_beside_it),
        ON_ALL(fails_both_ends_when_one_binds),
        ON_ALL(refuses_what_cannot_bind),
        ON_ALL(cancels_either_end_before_it_is_read),
        ON_ALL(meets_anew_after_a_cancel),
        ON_ALL(cancelled_send_that_is_read_is_done),
        ON_ALL(revoked_content_is_not_entered),
        ON_ALL(revoked_content_is_not_copied),
        ON_ALL(a_reader_that_closes_lets_go),
        ON_ALL(a_holder_that_closes_gives_to_nobody_else),
        ON_ALL(closes_in_any_order_with_readers),
        ON_ALL(wakes_a_holder_that_sleeps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
