/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"

static const int64_t second_ns = 1000000000;

static void make_token(uint8_t token[16])
{
    static uint64_t count;
    uint64_t words[2] = { ++count, (uint64_t)getpid() };

    memcpy(token, words, sizeof(words));
}

struct connecting {
    struct bench *bench;
    int rank;
    const void *const *addresses;
    const size_t *address_bytes;
    char wrong[256];
};

static void *connect_one(void *argument)
{
    struct connecting *job = argument;
    int64_t deadline_ns = ri_now_ns() + 20 * second_ns;

    if (job->bench->ops->connect(job->bench->rank[job->rank], job->addresses, job->address_bytes,
                                 deadline_ns))
        snprintf(job->wrong, sizeof(job->wrong), "%s", rondo_last_error());
    return NULL;
}

/* All at once, because ranks wait for each other there. */
static void connect_all(struct bench *bench, const void *const *addresses,
                        const size_t *address_bytes)
{
    struct connecting jobs[BENCH_RANKS_MAX];
    pthread_t threads[BENCH_RANKS_MAX];

    for (int r = 0; r < bench->ranks; r++) {
        jobs[r] = (struct connecting){ bench, r, addresses, address_bytes, "" };
        assert_int_equal(pthread_create(&threads[r], NULL, connect_one, &jobs[r]), 0);
    }
    for (int r = 0; r < bench->ranks; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < bench->ranks; r++)
        assert_string_equal(jobs[r].wrong, "");
}

void bench_open(struct bench *bench, const char *name, int ranks, const struct ri_config *config)
{
    int32_t host[BENCH_RANKS_MAX] = { 0 };

    for (int r = 0; r < BENCH_RANKS_MAX && strchr(name, '+'); r++)
        host[r] = r % 2; /* both ways of a transport that has two */
    bench_open_on(bench, name, ranks, host, config);
}

void bench_open_on(struct bench *bench, const char *name, int ranks, const int32_t *host,
                   const struct ri_config *config)
{
    bench_open_for(bench, name, ranks, host, config, NULL);
}

void bench_open_for(struct bench *bench, const char *name, int ranks, const int32_t *host,
                    const struct ri_config *config, uint8_t peers[][BENCH_RANKS_MAX])
{
    static const struct ri_config plain;
    const void *addresses[BENCH_RANKS_MAX];
    size_t address_bytes[BENCH_RANKS_MAX];
    uint8_t token[16];

    memset(bench, 0, sizeof(*bench));
    bench->ops = ri_transport_find(name);
    if (!bench->ops)
        fail_msg("transport %s is not built in", name);
    bench->ranks = ranks;
    make_token(token);
    for (int r = 0; r < ranks; r++) {
        struct ri_transport_params params = { .rank = r, .ranks = ranks, .token = token, .host = host,
                                              .peers = peers ? peers[r] : NULL,
                                              .config = config ? config : &plain };
        int err = bench->ops->open(&params, &bench->rank[r], &addresses[r], &address_bytes[r]);

        if (err)
            fail_msg("open of rank %d: %s", r, rondo_last_error());
    }
    connect_all(bench, addresses, address_bytes);
}

static void *close_one(void *transport)
{
    ((struct ri_transport *)transport)->ops->close(transport);
    return NULL;
}

/* All at once, because a rank may wait for the others to take what it has sent. */
void bench_close(struct bench *bench)
{
    pthread_t threads[BENCH_RANKS_MAX];

    for (int r = 0; r < bench->ranks; r++)
        if (bench->rank[r])
            assert_int_equal(pthread_create(&threads[r], NULL, close_one, bench->rank[r]), 0);
    for (int r = 0; r < bench->ranks; r++)
        if (bench->rank[r])
            pthread_join(threads[r], NULL);
}

struct ri_xfer bench_receive(int peer, uint64_t tag, void *base, size_t bytes)
{
    struct ri_xfer xfer = { .tag = tag, .base = base, .rows = 1, .row_bytes = bytes,
                            .row_stride = bytes, .peer = peer };

    return xfer;
}

struct ri_xfer bench_send(int peer, uint64_t tag, const void *base, size_t bytes)
{
    struct ri_xfer xfer = bench_receive(peer, tag, (void *)(uintptr_t)base, bytes);

    xfer.send = 1;
    return xfer;
}

void bench_post(struct bench *bench, int rank, struct ri_xfer *xfers, int n)
{
    struct ri_xfer **pointers = bench_memory((size_t)n * sizeof(*pointers));
    int err;

    for (int i = 0; i < n; i++)
        pointers[i] = &xfers[i];
    err = bench->ops->post(bench->rank[rank], pointers, n);
    free(pointers);
    if (err)
        fail_msg("post of rank %d: %s", rank, rondo_last_error());
}

static const struct ri_xfer *find_posted(const struct ri_xfer *xfers, int n)
{
    for (int i = 0; i < n; i++)
        if (xfers[i].state == RI_XFER_POSTED)
            return &xfers[i];
    return NULL;
}

void bench_run(struct bench *bench, const struct ri_xfer *xfers, int n)
{
    int64_t deadline_ns = ri_now_ns() + 30 * second_ns;
    const struct ri_xfer *posted;

    while ((posted = find_posted(xfers, n))) {
        int events = 0;

        for (int r = 0; r < bench->ranks; r++)
            if (bench->rank[r])
                events += bench->ops->progress(bench->rank[r]);
        if (!events)
            sched_yield();
        if (ri_now_ns() > deadline_ns)
            fail_msg("message with peer %d, tag %llu is still posted", posted->peer,
                     (unsigned long long)posted->tag);
    }
}

void bench_run_done(struct bench *bench, const struct ri_xfer *xfers, int n)
{
    bench_run(bench, xfers, n);
    for (int i = 0; i < n; i++) {
        assert_int_equal(xfers[i].status, 0);
        assert_int_equal(xfers[i].state, RI_XFER_DONE);
        assert_int_equal(xfers[i].moved_bytes, xfers[i].bind ? 0 : ri_xfer_bytes(&xfers[i]));
    }
}

static uint8_t pattern(size_t i, uint64_t seed)
{
    return (uint8_t)((i * 2654435761u + seed * 40503u + (i >> 8)) >> 3);
}

void bench_fill(void *memory, size_t bytes, uint64_t seed)
{
    uint8_t *byte = memory;

    for (size_t i = 0; i < bytes; i++)
        byte[i] = pattern(i, seed);
}

int bench_filled(const void *memory, size_t bytes, uint64_t seed)
{
    const uint8_t *byte = memory;

    for (size_t i = 0; i < bytes; i++)
        if (byte[i] != pattern(i, seed))
            return 0;
    return 1;
}

void *bench_memory(size_t bytes)
{
    void *memory = calloc(1, bytes + 1);

    assert_non_null(memory);
    return memory;
}

void *bench_content(struct bench *bench, int rank, size_t bytes)
{
    void *content;

    if (!bench->ops->alloc)
        return bench_memory(bytes);
    if (bench->ops->alloc(bench->rank[rank], bytes, &content))
        fail_msg("alloc of rank %d: %s", rank, rondo_last_error());
    return content;
}

void bench_content_free(struct bench *bench, int rank, void *content)
{
    if (bench->ops->alloc)
        bench->ops->free(bench->rank[rank], content);
    else
        free(content);
}
