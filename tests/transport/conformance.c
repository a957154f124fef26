/* SPDX-License-Identifier: Apache-2.0 */
/* What every transport must do, on each that is built in.  *state is the transport's name. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "build-config.h"

static void moves_all_sizes_both_ways(void **state)
{
    static const size_t sizes[] = { 0, 1, 2, 7, 8192, 65537, 1048576 };
    struct bench bench;

    bench_open(&bench, *state, 2, NULL);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
        for (int from = 0; from < 2; from++) {
            char *out = bench_memory(sizes[s]), *in = bench_memory(sizes[s]);
            struct ri_xfer xfers[2] = { bench_receive(from, s, in, sizes[s]),
                                        bench_send(!from, s, out, sizes[s]) };

            bench_fill(out, sizes[s], s + 1);
            bench_post(&bench, !from, &xfers[0], 1);
            bench_post(&bench, from, &xfers[1], 1);
            bench_run_done(&bench, xfers, 2);
            assert_true(bench_filled(in, sizes[s], s + 1));
            free(out);
            free(in);
        }
    bench_close(&bench);
}

static void moves_64_mib(void **state)
{
    size_t bytes = (size_t)64 << 20;
    struct ri_xfer xfers[2];
    struct bench bench;
    char *out, *in;

    bench_open(&bench, *state, 2, NULL);
    out = bench_memory(bytes);
    in = bench_memory(bytes);
    bench_fill(out, bytes, 3);
    xfers[0] = bench_receive(0, 1, in, bytes);
    xfers[1] = bench_send(1, 1, out, bytes);
    xfers[1].lane = 1;
    bench_post(&bench, 0, &xfers[1], 1);
    bench_post(&bench, 1, &xfers[0], 1);
    bench_run_done(&bench, xfers, 2);
    assert_memory_equal(in, out, bytes);
    assert_int_equal(bench.rank[0]->sent_bytes[1], bytes);
    assert_int_equal(bench.rank[0]->sent_bytes[0], 0);
    assert_int_equal(bench.rank[1]->received_bytes[0], bytes);
    free(out);
    free(in);
    bench_close(&bench);
}

struct shape {
    size_t rows, row_bytes, row_stride;
};

/* Message of `shape` in memory of `bytes`; its content, rows end to end, is the pattern of `seed`. */
static void fill_rows(char *memory, const struct shape *shape, uint64_t seed)
{
    size_t bytes = shape->rows * shape->row_bytes;
    char *packed = bench_memory(bytes);

    bench_fill(packed, bytes, seed);
    for (size_t r = 0; r < shape->rows; r++)
        memcpy(memory + r * shape->row_stride, packed + r * shape->row_bytes, shape->row_bytes);
    free(packed);
}

static void moves_rows_with_gaps(void **state)
{
    /* All of 120000 bytes, cut otherwise at each end. */
    static const struct shape shapes[] = {
        { 1, 120000, 0 }, { 1000, 120, 120 }, { 1000, 120, 128 }, { 300, 400, 555 },
        { 120000, 1, 3 }, { 3, 40000, 40001 },
    };
    enum { count = sizeof(shapes) / sizeof(shapes[0]), room = 400000 };
    char *out = bench_memory(room), *in = bench_memory(room), *expected = bench_memory(room);
    struct bench bench;

    bench_open(&bench, *state, 2, NULL);
    for (int a = 0; a < count; a++)
        for (int b = 0; b < count; b++) {
            struct ri_xfer xfers[2] = { bench_receive(0, 9, in, 0), bench_send(1, 9, out, 0) };
            uint64_t seed = (uint64_t)(a * count + b);

            xfers[0].rows = shapes[b].rows;
            xfers[0].row_bytes = shapes[b].row_bytes;
            xfers[0].row_stride = shapes[b].row_stride;
            xfers[1].rows = shapes[a].rows;
            xfers[1].row_bytes = shapes[a].row_bytes;
            xfers[1].row_stride = shapes[a].row_stride;
            memset(in, 0x55, room);
            memset(expected, 0x55, room);
            fill_rows(out, &shapes[a], seed);
            fill_rows(expected, &shapes[b], seed);
            bench_post(&bench, b % 2, &xfers[!(b % 2)], 1);
            bench_post(&bench, !(b % 2), &xfers[b % 2], 1);
            bench_run_done(&bench, xfers, 2);
            assert_memory_equal(in, expected, room);
        }
    free(out);
    free(in);
    free(expected);
    bench_close(&bench);
}

/* One post of many, received in the reverse order of tags. */
static void moves_many_at_once(void **state)
{
    enum { count = 300, stride = 40000 };
    struct ri_xfer *xfers = bench_memory(2 * count * sizeof(*xfers));
    char *out = bench_memory((size_t)count * stride), *in = bench_memory((size_t)count * stride);
    struct bench bench;

    bench_open(&bench, *state, 2, NULL);
    for (int i = 0; i < count; i++) {
        size_t bytes = (size_t)i * 131 % stride;
        int reverse = count - 1 - i;
        uint64_t tag = RI_TAG_END - 1 - (uint64_t)i;

        bench_fill(out + i * stride, bytes, (uint64_t)i);
        xfers[i] = bench_send(1, tag, out + i * stride, bytes);
        xfers[count + reverse] = bench_receive(0, tag, in + i * stride, bytes);
    }
    bench_post(&bench, 0, xfers, count);
    bench_post(&bench, 1, xfers + count, count);
    bench_run_done(&bench, xfers, 2 * count);
    for (int i = 0; i < count; i++)
        assert_true(bench_filled(in + i * stride, (size_t)i * 131 % stride, (uint64_t)i));
    free(xfers);
    free(out);
    free(in);
    bench_close(&bench);
}

/* Two ranks are next and previous to each other at once (TransformerEngine PR 572). */
static void keeps_k_v_and_gradient_apart(void **state)
{
    enum { kinds = 3, elements = 40, rounds = 1000 };
    static uint64_t out[2][kinds][elements], in[2][kinds][elements];
    struct ri_xfer xfers[2][2 * kinds];
    struct bench bench;

    bench_open(&bench, *state, 2, NULL);
    for (uint64_t round = 0; round < rounds; round++) {
        for (int r = 0; r < 2; r++)
            for (int k = 0; k < kinds; k++) {
                uint64_t tag = round * kinds + (uint64_t)k;

                for (int e = 0; e < elements; e++)
                    out[r][k][e] = tag * 2 + (uint64_t)r;
                xfers[r][k] = bench_receive(!r, tag, in[r][k], sizeof(in[r][k]));
                xfers[r][kinds + (k + 1) % kinds] =
                    bench_send(!r, tag, out[r][k], sizeof(out[r][k]));
            }
        for (int r = 0; r < 2; r++)
            bench_post(&bench, r, xfers[r], 2 * kinds);
        bench_run_done(&bench, xfers[0], 4 * kinds);
        for (int r = 0; r < 2; r++)
            assert_memory_equal(in[r], out[!r], sizeof(in[r]));
    }
    bench_close(&bench);
}

/* Every rank sends before anybody receives (ring-attention-pytorch PR 9). */
static void turn_ring(struct bench *bench, size_t bytes, char *const *out, char *const *in)
{
    struct ri_xfer xfers[2 * BENCH_RANKS_MAX] = { { .peer = 0 } };
    int ranks = bench->ranks;

    for (int r = 0; r < ranks; r++) {
        bench_fill(out[r], bytes, (uint64_t)r);
        xfers[r] = bench_send((r + 1) % ranks, 5, out[r], bytes);
        bench_post(bench, r, &xfers[r], 1);
    }
    for (int r = 0; r < ranks; r++)
        bench->ops->progress(bench->rank[r]);
    for (int r = 0; r < ranks; r++) {
        xfers[ranks + r] = bench_receive((r + ranks - 1) % ranks, 5, in[r], bytes);
        bench_post(bench, r, &xfers[ranks + r], 1);
    }
    bench_run_done(bench, xfers, 2 * ranks);
    for (int r = 0; r < ranks; r++)
        assert_true(bench_filled(in[r], bytes, (uint64_t)((r + ranks - 1) % ranks)));
}

static void turns_rings_that_send_first(void **state)
{
    static const int sizes[] = { 2, 3, 4, 5, 8 };
    static const size_t bytes[] = { 1, 8192, 1048576 };
    char *out[BENCH_RANKS_MAX], *in[BENCH_RANKS_MAX];
    struct bench bench;

    for (int r = 0; r < BENCH_RANKS_MAX; r++) {
        out[r] = bench_memory(bytes[2]);
        in[r] = bench_memory(bytes[2]);
    }
    for (int s = 0; s < 5; s++) {
        bench_open(&bench, *state, sizes[s], NULL);
        for (int b = 0; b < 3; b++)
            turn_ring(&bench, bytes[b], out, in);
        bench_close(&bench);
    }
    for (int r = 0; r < BENCH_RANKS_MAX; r++) {
        free(out[r]);
        free(in[r]);
    }
}

/* Everybody sends to everybody, itself too, and some have nothing to send (nccl#788). */
static void exchanges_empty_shards(void **state)
{
    enum { ranks = 4, room = 4096 };
    static const size_t shards[][ranks] = { { 4, 0, 4, 0 }, { 0, 0, 0, 0 }, { 1, 0, 0, 0 } };
    static char out[ranks][room], in[ranks][ranks][room];
    struct ri_xfer xfers[ranks][2 * ranks];
    struct bench bench;

    bench_open(&bench, *state, ranks, NULL);
    for (int s = 0; s < 3; s++) {
        memset(in, 0, sizeof(in));
        for (int r = 0; r < ranks; r++) {
            bench_fill(out[r], room, (uint64_t)r);
            for (int p = 0; p < ranks; p++) {
                xfers[r][2 * p] = bench_send(p, 7, out[r], shards[s][r] * 1024);
                xfers[r][2 * p + 1] = bench_receive(p, 7, in[r][p], shards[s][p] * 1024);
            }
            bench_post(&bench, r, xfers[r], 2 * ranks);
        }
        bench_run_done(&bench, xfers[0], 2 * ranks * ranks);
        for (int r = 0; r < ranks; r++)
            for (int p = 0; p < ranks; p++)
                assert_memory_equal(in[r][p], out[p], shards[s][p] * 1024);
    }
    bench_close(&bench);
}

static void tells_peers_with_equal_tags_apart(void **state)
{
    uint64_t out[3] = { 100, 101, 102 }, in[3] = { 0 };
    struct ri_xfer xfers[4];
    struct bench bench;

    bench_open(&bench, *state, 3, NULL);
    for (int r = 1; r < 3; r++) {
        xfers[r - 1] = bench_send(0, 1, &out[r], sizeof(out[r]));
        bench_post(&bench, r, &xfers[r - 1], 1);
    }
    bench.ops->progress(bench.rank[0]);
    for (int r = 2; r >= 1; r--) {
        xfers[r + 1] = bench_receive(r, 1, &in[r], sizeof(in[r]));
        bench_post(&bench, 0, &xfers[r + 1], 1);
    }
    bench_run_done(&bench, xfers, 4);
    assert_int_equal(in[1], 101);
    assert_int_equal(in[2], 102);
    bench_close(&bench);
}

/* Messages that nobody receives are no news for the standard output. */
static void closes_in_silence(void **state)
{
    static char content[4096];
    struct ri_xfer xfers[2] = { bench_send(1, 4, content, 100), bench_send(1, 5, content, 4096) };
    FILE *said = tmpfile();
    struct bench bench;
    int out = dup(STDOUT_FILENO);

    assert_non_null(said);
    bench_open(&bench, *state, 2, NULL);
    bench_post(&bench, 0, xfers, 2);
    for (int i = 0; i < 1000; i++)
        bench.ops->progress(bench.rank[i % 2]);
    fflush(stdout);
    dup2(fileno(said), STDOUT_FILENO);
    bench_close(&bench);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
    assert_int_equal(lseek(fileno(said), 0, SEEK_END), 0);
    fclose(said);
}

static void refuses_one_size(const char *name, size_t sent, size_t expected)
{
    char *out = bench_memory(sent), *in = bench_memory(expected), number[32];
    struct ri_xfer xfers[2] = { bench_receive(0, 4, in, expected), bench_send(1, 4, out, sent) };
    struct bench bench;

    bench_open(&bench, name, 2, NULL);
    bench_post(&bench, 1, &xfers[0], 1);
    bench_post(&bench, 0, &xfers[1], 1);
    bench_run(&bench, &xfers[0], 1);
    assert_int_equal(xfers[0].state, RI_XFER_FAILED);
    assert_int_equal(xfers[0].status, RONDO_ERR_MISMATCH);
    assert_int_equal(bench.rank[1]->received_bytes[0], 0);
    assert_non_null(strstr(rondo_last_error(), "rank 0"));
    snprintf(number, sizeof(number), " %zu", expected);
    assert_non_null(strstr(rondo_last_error(), number));
    snprintf(number, sizeof(number), " %zu ", sent);
    if (sent < expected || !strstr(name, "ucx"))
        assert_non_null(strstr(rondo_last_error(), number));
    bench_run(&bench, &xfers[1], 1); /* the sender learns of it or not, but ends */
    bench_close(&bench);
    free(out);
    free(in);
}

static void refuses_other_sizes(void **state)
{
    static const size_t sizes[] = { 0, 3072, 4096, 1048576, 1048577 };

    for (int a = 0; a < 5; a++)
        for (int b = 0; b < 5; b++)
            if (a != b)
                refuses_one_size(*state, sizes[a], sizes[b]);
}

static void expect_refused(struct bench *bench, struct ri_xfer xfer, int status, const char *text)
{
    char memory[8];
    struct ri_xfer good = bench_receive(1, 2, memory, sizeof(memory));
    struct ri_xfer *both[2] = { &good, &xfer };

    assert_int_equal(bench->ops->post(bench->rank[0], both, 2), status);
    assert_non_null(strstr(rondo_last_error(), text));
    assert_int_equal(good.state, RI_XFER_IDLE);
}

static void refuses_bad_messages(void **state)
{
    char memory[64];
    struct ri_xfer xfer;
    struct bench bench;

    bench_open(&bench, *state, 2, NULL);
    expect_refused(&bench, bench_send(2, 1, memory, 8), RONDO_ERR_ARGUMENT, "peer 2");
    expect_refused(&bench, bench_send(-1, 1, memory, 8), RONDO_ERR_ARGUMENT, "peer -1");
    expect_refused(&bench, bench_send(1, RI_TAG_END, memory, 8), RONDO_ERR_ARGUMENT,
                   "0x1000000000000");
    expect_refused(&bench, bench_send(1, 1, NULL, 8), RONDO_ERR_ARGUMENT, "without memory");
    xfer = bench_send(1, 1, memory, 8);
    xfer.lane = 2;
    expect_refused(&bench, xfer, RONDO_ERR_ARGUMENT, "lane 2");
    xfer.lane = 0;
    xfer.rows = SIZE_MAX / 4;
    expect_refused(&bench, xfer, RONDO_ERR_ARGUMENT, "too large");
    xfer.rows = 2;
    xfer.row_stride = 7;
    expect_refused(&bench, xfer, RONDO_ERR_ARGUMENT, "7 bytes apart");
    xfer.row_stride = 8;
    xfer.state = RI_XFER_POSTED;
    expect_refused(&bench, xfer, RONDO_ERR_BUSY, "posted already");
    bench_close(&bench);
}

static void cancels_what_never_comes(void **state)
{
    enum { count = 5 };
    uint64_t in[count], out = 77;
    struct ri_xfer xfers[count], again[2], *pointers[count];
    struct bench bench;

    bench_open(&bench, *state, 2, NULL);
    for (int i = 0; i < count; i++) {
        xfers[i] = bench_receive(0, (uint64_t)i, &in[i], sizeof(in[i]));
        pointers[i] = &xfers[i];
    }
    bench_post(&bench, 1, xfers, count);
    bench.ops->progress(bench.rank[1]);
    bench.ops->cancel(bench.rank[1], pointers + 1, count - 1);
    assert_int_equal(xfers[0].state, RI_XFER_POSTED);
    for (int i = 1; i < count; i++)
        assert_int_equal(xfers[i].state, RI_XFER_IDLE);
    bench.ops->cancel(bench.rank[1], pointers, count);
    assert_int_equal(xfers[0].state, RI_XFER_IDLE);

    again[0] = bench_send(1, 1, &out, sizeof(out));
    again[1] = bench_receive(0, 1, &in[1], sizeof(in[1]));
    in[1] = 0;
    bench_post(&bench, 0, &again[0], 1);
    bench_post(&bench, 1, &again[1], 1);
    bench_run_done(&bench, again, 2);
    assert_int_equal(in[1], 77);
    bench_close(&bench);
}

static void closes_with_messages_posted(void **state)
{
    size_t bytes = 1 << 20;
    char *memory[4];
    struct ri_xfer xfers[4];
    struct bench bench;

    bench_open(&bench, *state, 2, NULL);
    for (int i = 0; i < 4; i++)
        memory[i] = bench_memory(bytes);
    xfers[0] = bench_receive(1, 1, memory[0], bytes);
    xfers[1] = bench_receive(1, 2, memory[1], 8);
    xfers[2] = bench_send(1, 3, memory[2], bytes);
    xfers[3] = bench_send(1, 4, memory[3], 8);
    bench_post(&bench, 0, xfers, 4);
    bench.ops->progress(bench.rank[0]);
    bench.ops->progress(bench.rank[1]);
    bench_close(&bench);
    for (int i = 0; i < 4; i++) {
        assert_int_not_equal(xfers[i].state, RI_XFER_POSTED);
        free(memory[i]);
    }
    bench.ops->close(NULL);
}

static void keeps_communicators_apart(void **state)
{
    uint64_t out[2] = { 1, 2 }, in[2] = { 0 };
    struct ri_xfer xfers[4];
    struct bench bench[2];

    bench_open(&bench[0], *state, 2, NULL);
    bench_open(&bench[1], *state, 2, NULL);
    for (int b = 0; b < 2; b++) {
        xfers[b] = bench_receive(0, 3, &in[b], sizeof(in[b]));
        xfers[2 + b] = bench_send(1, 3, &out[b], sizeof(out[b]));
        bench_post(&bench[b], 1, &xfers[b], 1);
    }
    bench_post(&bench[1], 0, &xfers[3], 1);
    bench_run_done(&bench[1], &xfers[1], 1);
    assert_int_equal(xfers[0].state, RI_XFER_POSTED);
    bench_post(&bench[0], 0, &xfers[2], 1);
    bench_run_done(&bench[0], &xfers[0], 1);
    bench_run_done(&bench[0], &xfers[2], 1);
    bench_run_done(&bench[1], &xfers[3], 1);
    assert_int_equal(in[0], 1);
    assert_int_equal(in[1], 2);
    bench_close(&bench[0]);
    bench_close(&bench[1]);
}

#ifdef HAVE_UCX
#define ON_ALL(test) \
    BENCH_ON("self", test), BENCH_ON("shm", test), BENCH_ON("ucx", test), BENCH_ON("shm+ucx", test)
#else
#define ON_ALL(test) BENCH_ON("self", test), BENCH_ON("shm", test)
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_ALL(moves_all_sizes_both_ways),
        ON_ALL(moves_64_mib),
        ON_ALL(moves_rows_with_gaps),
        ON_ALL(moves_many_at_once),
        ON_ALL(keeps_k_v_and_gradient_apart),
        ON_ALL(turns_rings_that_send_first),
        ON_ALL(exchanges_empty_shards),
        ON_ALL(tells_peers_with_equal_tags_apart),
        ON_ALL(closes_in_silence),
        ON_ALL(refuses_other_sizes),
        ON_ALL(refuses_bad_messages),
        ON_ALL(cancels_what_never_comes),
        ON_ALL(closes_with_messages_posted),
        ON_ALL(keeps_communicators_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
