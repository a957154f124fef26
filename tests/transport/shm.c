/* SPDX-License-Identifier: Apache-2.0 */
/* What only transport shm does: memory that comes and goes, copies in slices, many ranks. */
#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/status.h"
#include "tests/short.h"
#include "transport/shm_private.h"

enum { large = 8 << 20 };

static struct ri_shm *shm_of(struct bench *bench, int rank)
{
    return (struct ri_shm *)bench->rank[rank];
}

/* Of memory that a rank has, in units of 512 bytes. */
static int64_t blocks_of(struct bench *bench, int rank)
{
    struct stat file;

    assert_int_equal(fstat(shm_of(bench, rank)->memory_fd, &file), 0);
    return file.st_blocks;
}

static void open_bench(struct bench *bench, int ranks)
{
    bench_open(bench, "shm", ranks, NULL);
}

static struct ri_xfer bound(struct ri_xfer xfer)
{
    xfer.bind = 1;
    return xfer;
}

static void release(struct bench *bench, int rank, struct ri_xfer *receive)
{
    bench->ops->release(bench->rank[rank], receive);
}

/* ---- memory ---- */

static int is_zero(const char *memory, size_t bytes)
{
    return memory[0] == 0 && memcmp(memory, memory + 1, bytes - 1) == 0;
}

static void memory_comes_zeroed_and_goes_back(void **state)
{
    struct bench bench;
    int64_t before;

    (void)state;
    open_bench(&bench, 2);
    before = blocks_of(&bench, 0);
    for (int round = 0; round < 3; round++) {
        char *memory[3];

        for (int i = 0; i < 3; i++) {
            memory[i] = bench_content(&bench, 0, large + (size_t)i * 4096 + 1);
            assert_int_equal((uintptr_t)memory[i] % 4096, 0);
            assert_true(is_zero(memory[i], large));
            memset(memory[i], 1 + i, large + (size_t)i * 4096 + 1);
        }
        assert_true(blocks_of(&bench, 0) >= before + 3 * large / 512);
        for (int i = 0; i < 3; i++)
            bench_content_free(&bench, 0, memory[(i + round) % 3]);
        assert_int_equal(blocks_of(&bench, 0), before);
    }
    bench.ops->free(bench.rank[0], NULL);
    bench_close(&bench);
}

static void refuses_more_than_there_is(void **state)
{
    static const size_t sizes[] = { SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 50 };
    struct bench bench;
    void *memory = &bench;

    (void)state;
    open_bench(&bench, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(bench.ops->alloc(bench.rank[0], sizes[i], &memory), RONDO_ERR_MEMORY);
        assert_ptr_equal(memory, &bench);
        assert_non_null(strstr(rondo_last_error(), "transport shm has no"));
    }
    bench_content_free(&bench, 0, bench_content(&bench, 0, 0));
    bench_close(&bench);
}

/* What the caller allocated is copied before it is given out: in slices, and into the same pages again. */
static void other_memory_is_given_out_as_a_copy(void **state)
{
    char *content = bench_memory(large);
    int64_t after_first = 0;
    struct bench bench;

    (void)state;
    open_bench(&bench, 2);
    for (uint64_t round = 0; round < 20; round++) {
        struct ri_xfer pair[2] = { bound(bench_send(1, round, content, large)),
                                   bound(bench_receive(0, round, NULL, large)) };
        int slices = 0;

        bench_fill(content, 4096, round);
        bench_post(&bench, 0, &pair[0], 1);
        bench_post(&bench, 1, &pair[1], 1);
        while (pair[1].state == RI_XFER_POSTED) {
            slices += bench.ops->progress(bench.rank[0]) > 0;
            bench.ops->progress(bench.rank[1]);
        }
        assert_true(slices >= large / RI_SHM_SLICE_BYTES);
        bench_run_done(&bench, pair, 2);
        assert_true(bench_filled(pair[1].base, 4096, round));
        release(&bench, 1, &pair[1]);
        assert_int_equal(bench.ops->readers(bench.rank[0], &pair[0]), 0);
        if (round == 0)
            after_first = blocks_of(&bench, 0);
        assert_int_equal(blocks_of(&bench, 0), after_first);
    }
    free(content);
    bench_close(&bench);
}

/* Such copies go past the caches, in lines: neither end of the block need be one. */
static void a_copy_that_no_cache_holds_is_whole(void **state)
{
    const size_t bytes = RI_SHM_CACHE_BYTES / 2 + 12345;
    char *content = bench_memory(bytes + 7);
    struct bench bench;

    (void)state;
    open_bench(&bench, 2);
    for (uint64_t round = 0; round < 3; round++) {
        struct ri_xfer pair[2] = { bound(bench_send(1, round, content + 3 * round, bytes)),
                                   bound(bench_receive(0, round, NULL, bytes)) };

        bench_fill(content + 3 * round, bytes, round);
        bench_post(&bench, 0, &pair[0], 1);
        bench_post(&bench, 1, &pair[1], 1);
        bench_run_done(&bench, pair, 2);
        assert_true(bench_filled(pair[1].base, bytes, round));
        release(&bench, 1, &pair[1]);
    }
    free(content);
    bench_close(&bench);
}

static void reserved_messages_need_no_memory(void **state)
{
    enum { count = 200 };
    static struct ri_xfer sends[count], receives[count];
    static char content[64];
    struct bench bench;

    (void)state;
    open_bench(&bench, 2);
    for (int r = 0; r < 2; r++)
        assert_int_equal(bench.ops->reserve(bench.rank[r], count), 0);
    for (int round = 0; round < 3; round++) {
        const struct ri_shm_chunk *chunks = shm_of(&bench, 0)->chunks;

        for (int i = 0; i < count; i++) {
            sends[i] = bound(bench_send(1, (uint64_t)i, content, 0));
            receives[i] = bound(bench_receive(0, (uint64_t)i, NULL, 0));
        }
        bench_post(&bench, 0, sends, count);
        bench_post(&bench, 1, receives, count);
        bench_run_done(&bench, receives, count);
        bench_run_done(&bench, sends, count);
        for (int i = 0; i < count; i++)
            release(&bench, 1, &receives[i]);
        for (int i = 0; i < count; i++)
            assert_int_equal(bench.ops->readers(bench.rank[0], &sends[i]), 0);
        assert_ptr_equal(chunks, shm_of(&bench, 0)->chunks);
    }
    for (int r = 0; r < 2; r++)
        assert_int_equal(bench.ops->reserve(bench.rank[r], -count), 0);
    bench_close(&bench);
}

/* ---- giving up in the middle ---- */

/* The receiver has copied a part of it when the sender, or the receiver, thinks better of it; the other
 * end goes on with another. */
static void give_up_half_way(int shared, int by_sender)
{
    struct ri_xfer pair[2], again[2], *victim = &pair[by_sender ? 0 : 1];
    char *out[2], *in = bench_memory(large);
    struct bench bench;

    open_bench(&bench, 2);
    for (int i = 0; i < 2; i++) {
        out[i] = shared ? bench_content(&bench, 0, large) : bench_memory(large);
        bench_fill(out[i], large, (uint64_t)i);
    }
    pair[0] = again[0] = bench_send(1, 5, out[0], large);
    pair[1] = again[1] = bench_receive(0, 5, in, large);
    again[0].base = out[1];
    bench_post(&bench, 0, &pair[0], 1);
    bench_post(&bench, 1, &pair[1], 1);
    for (int i = 0; i < 3; i++)
        assert_true(bench.ops->progress(bench.rank[1]) > 0);
    assert_int_equal(pair[1].state, RI_XFER_POSTED);
    bench.ops->cancel(bench.rank[by_sender ? 0 : 1], &victim, 1);
    assert_int_equal(victim->state, RI_XFER_IDLE);
    memset(by_sender ? out[0] : in, 0, large);
    bench.ops->progress(bench.rank[1]);
    bench.ops->progress(bench.rank[0]);
    assert_int_equal(pair[by_sender].state, RI_XFER_POSTED);
    assert_true(is_zero(by_sender ? out[0] : in, large));
    bench_post(&bench, by_sender ? 0 : 1, &again[by_sender ? 0 : 1], 1);
    bench_run_done(&bench, &again[by_sender ? 0 : 1], 1);
    bench_run_done(&bench, &pair[by_sender], 1);
    assert_true(bench_filled(in, large, (uint64_t)by_sender));
    for (int i = 0; i < 2; i++)
        if (!shared)
            free(out[i]);
    free(in);
    bench_close(&bench);
}

static void either_end_gives_up_half_way(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++)
        for (int by_sender = 0; by_sender < 2; by_sender++)
            give_up_half_way(shared, by_sender);
}

/* ---- who may speak with whom ---- */

/* 0 - 1 - 2: what rank 1 passes on to 2 lies at 0, which has no messages with it. */
static void what_is_passed_on_lies_at_no_peer(void **state)
{
    static const int32_t host[3];
    uint8_t peers[3][BENCH_RANKS_MAX] = { { 1, 1, 0 }, { 1, 1, 1 }, { 0, 1, 1 } };
    struct ri_xfer first[2], second[2], refused, *pointer = &refused;
    struct bench bench;
    char *content;

    (void)state;
    bench_open_for(&bench, "shm", 3, host, NULL, peers);
    content = bench_content(&bench, 0, 4096);
    bench_fill(content, 4096, 3);
    first[0] = bound(bench_send(1, 1, content, 4096));
    first[1] = bound(bench_receive(0, 1, NULL, 4096));
    bench_post(&bench, 0, &first[0], 1);
    bench_post(&bench, 1, &first[1], 1);
    bench_run_done(&bench, first, 2);
    second[0] = bound(bench_send(2, 1, first[1].base, 4096));
    second[0].reference = first[1].reference;
    second[1] = bound(bench_receive(1, 1, NULL, 4096));
    bench_post(&bench, 1, &second[0], 1);
    bench_post(&bench, 2, &second[1], 1);
    bench_run_done(&bench, second, 2);
    release(&bench, 1, &first[1]);
    assert_true(bench_filled(second[1].base, 4096, 3));
    assert_int_equal(second[1].reference.holder, 0);
    assert_int_equal(bench.ops->readers(bench.rank[0], &first[0]), 1);
    assert_int_equal(bench.ops->arm(bench.rank[0]), 1);
    release(&bench, 2, &second[1]);
    assert_int_equal(bench.ops->arm(bench.rank[0]), 0); /* it is told all the same */
    assert_int_equal(bench.ops->readers(bench.rank[0], &first[0]), 0);
    refused = bench_send(2, 2, content, 8);
    assert_int_equal(bench.ops->post(bench.rank[0], &pointer, 1), RONDO_ERR_ARGUMENT);
    assert_non_null(strstr(rondo_last_error(), "rank 2"));
    bench_close(&bench);
}

/* ---- many ---- */

enum { many = 24, many_rounds = 40 };

struct crowd {
    pthread_barrier_t opened;
    const void *addresses[many];
    size_t address_bytes[many];
};

struct member {
    struct crowd *crowd;
    int rank;
    char wrong[200];
};

static int finish(struct ri_transport *transport, const struct ri_xfer *xfer)
{
    int64_t deadline_ns = ri_now_ns() + INT64_C(60000000000);

    while (xfer->state == RI_XFER_POSTED && ri_now_ns() < deadline_ns)
        if (ri_transport_shm.progress(transport) == 0)
            sched_yield();
    return xfer->state == RI_XFER_DONE;
}

/* Each hands a block to the next, and what came before on to the one after that. */
static int pass_around(struct member *member, struct ri_transport *transport, char *content)
{
    const struct ri_transport_ops *ops = &ri_transport_shm;
    int next = (member->rank + 1) % many, previous = (member->rank + many - 1) % many;
    struct ri_xfer passed = { .tag = 0 };

    for (uint64_t round = 0; round < many_rounds; round++) {
        struct ri_xfer send = bound(bench_send(next, round, round ? passed.base : content, 4096));
        struct ri_xfer receive = bound(bench_receive(previous, round, NULL, 4096));
        struct ri_xfer *pointers[2] = { &send, &receive };

        send.reference = passed.reference;
        if (ops->post(transport, pointers, 2) || !finish(transport, &receive) || !finish(transport, &send))
            return -1;
        if (round)
            ops->release(transport, &passed);
        passed = receive;
        if (!bench_filled(passed.base, 4096, (uint64_t)(member->rank + 10 * many - (int)round - 1) % many))
            return -1;
    }
    ops->release(transport, &passed);
    return 0;
}

static void *live(void *argument)
{
    static const struct ri_config config;
    static const int32_t host[many];
    struct member *member = argument;
    struct crowd *crowd = member->crowd;
    uint8_t token[16] = "crowd";
    struct ri_transport_params params = { .rank = member->rank, .ranks = many, .token = token, .host = host,
                                          .config = &config };
    struct ri_transport *transport = NULL;
    void *content = NULL;
    int err = ri_transport_shm.open(&params, &transport, &crowd->addresses[member->rank],
                                    &crowd->address_bytes[member->rank]);

    pthread_barrier_wait(&crowd->opened);
    if (!err)
        err = ri_transport_shm.connect(transport, crowd->addresses, crowd->address_bytes,
                                       ri_now_ns() + INT64_C(60000000000));
    if (!err)
        err = ri_transport_shm.alloc(transport, 4096, &content);
    if (!err)
        bench_fill(content, 4096, (uint64_t)member->rank);
    if (err || pass_around(member, transport, content))
        snprintf(member->wrong, sizeof(member->wrong), "rank %d: %s", member->rank, rondo_last_error());
    pthread_barrier_wait(&crowd->opened); /* whose memory is read stays until all have read */
    ri_transport_shm.close(transport);
    return NULL;
}

static void a_crowd_passes_blocks_around(void **state)
{
    static struct crowd crowd;
    static struct member members[many];
    pthread_t threads[many];

    (void)state;
    pthread_barrier_init(&crowd.opened, NULL, many);
    for (int r = 0; r < many; r++) {
        members[r] = (struct member){ &crowd, r, "" };
        assert_int_equal(pthread_create(&threads[r], NULL, live, &members[r]), 0);
    }
    for (int r = 0; r < many; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < many; r++)
        assert_string_equal(members[r].wrong, "");
    pthread_barrier_destroy(&crowd.opened);
}

/* ---- for long ---- */

static void soak_round(struct bench *bench, uint64_t round, char *content, char *other, char *in)
{
    struct ri_xfer xfers[6] = {
        bound(bench_send(1, 0, content, 4096)), bound(bench_receive(0, 0, NULL, 4096)),
        bound(bench_send(1, 1, other, 3000)), bound(bench_receive(0, 1, NULL, 3000)),
        bench_send(1, 2, other, 3000), bench_receive(0, 2, in, 3000),
    };

    for (int i = 0; i < 6; i++)
        bench_post(bench, (i + (int)round) % 2 ? 1 : 0, &xfers[i ^ (int)(round & 1)], 1);
    bench_run_done(bench, xfers, 6);
    release(bench, 1, &xfers[1]);
    release(bench, 1, &xfers[3]);
    assert_int_equal(bench->ops->readers(bench->rank[0], &xfers[0]), 0);
    assert_int_equal(bench->ops->readers(bench->rank[0], &xfers[2]), 0);
}

static void takes_no_more_memory_with_time(void **state)
{
    uint64_t rounds = test_is_short() ? 2000 : 33400;
    char *other = bench_memory(4096), *in = bench_memory(4096), *content;
    const struct ri_shm_chunk *chunks = NULL;
    struct bench bench;
    int64_t blocks = 0;

    (void)state;
    open_bench(&bench, 2);
    content = bench_content(&bench, 0, 4096);
    for (uint64_t round = 0; round < rounds; round++) {
        soak_round(&bench, round, content, other, in);
        if (round == 10) {
            blocks = blocks_of(&bench, 0);
            chunks = shm_of(&bench, 0)->chunks;
        }
    }
    assert_int_equal(blocks_of(&bench, 0), blocks);
    assert_ptr_equal(shm_of(&bench, 0)->chunks, chunks);
    free(other);
    free(in);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_comes_zeroed_and_goes_back),
        cmocka_unit_test(refuses_more_than_there_is),
        cmocka_unit_test(other_memory_is_given_out_as_a_copy),
        cmocka_unit_test(a_copy_that_no_cache_holds_is_whole),
        cmocka_unit_test(reserved_messages_need_no_memory),
        cmocka_unit_test(either_end_gives_up_half_way),
        cmocka_unit_test(what_is_passed_on_lies_at_no_peer),
        cmocka_unit_test(a_crowd_passes_blocks_around),
        cmocka_unit_test(takes_no_more_memory_with_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
