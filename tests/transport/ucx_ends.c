/* SPDX-License-Identifier: Apache-2.0 */
/* Transport ucx when messages are given up that UCX holds, when it closes on them, and when memory or
 * descriptors run out. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"

static const int32_t apart[2] = { 0, 1 }, together[2] = { 0, 0 };
static const int64_t second_ns = 1000000000;

/* ---- few descriptors ---- */

enum { address_room = 4096, OPENED = 1, REFUSED, FAILED };

/* Two ranks, in processes of their own. */
struct pair {
    const int32_t *host;
    rlim_t limit;
    _Atomic int state[2];
    size_t bytes[2];
    char address[2][address_room];
    char why[256];
};

static int say_why(struct pair *pair, int rank, int state)
{
    if (rank == 0)
        snprintf(pair->why, sizeof(pair->why), "%s", rondo_last_error());
    pair->state[rank] = state;
    return state;
}

/* Returns OPENED when it could connect, REFUSED or FAILED when open or connect gave an error. */
static int open_one(struct pair *pair, int rank)
{
    static const struct ri_config config;
    struct ri_transport_params params = { .rank = rank, .ranks = 2, .token = (const uint8_t *)"of 16 bytes, all",
                                          .host = pair->host, .config = &config };
    struct rlimit limit = { pair->limit, pair->limit };
    const void *address, *addresses[2] = { pair->address[0], pair->address[1] };
    int64_t deadline_ns = ri_now_ns() + 10 * second_ns;
    struct ri_transport *transport;
    int err = setrlimit(RLIMIT_NOFILE, &limit);

    err = err ? err : ri_transport_ucx.open(&params, &transport, &address, &pair->bytes[rank]);
    if (err)
        return say_why(pair, rank, err == RONDO_ERR_TRANSPORT ? REFUSED : 0);
    if (pair->bytes[rank] > address_room)
        return 0;
    memcpy(pair->address[rank], address, pair->bytes[rank]);
    pair->state[rank] = OPENED;
    while (!pair->state[!rank] && ri_now_ns() < deadline_ns)
        usleep(100);
    err = -1;
    if (pair->state[!rank] == OPENED)
        err = ri_transport_ucx.connect(transport, addresses, pair->bytes, ri_now_ns() + 2 * second_ns);
    ri_transport_ucx.close(transport);
    return err ? say_why(pair, rank, FAILED) : OPENED;
}

static int both_end(const pid_t *pids)
{
    int states[2] = { 0 };

    for (int r = 0; r < 2; r++) {
        int status = -1;

        assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
        if (!WIFEXITED(status))
            return 0;
        states[r] = WEXITSTATUS(status);
    }
    return states[0] > states[1] ? states[0] : states[1];
}

static int try_limit(struct pair *pair, const int32_t *host, int limit)
{
    pid_t pids[2];

    memset(pair, 0, sizeof(*pair));
    pair->host = host;
    pair->limit = (rlim_t)limit;
    for (int r = 0; r < 2; r++) {
        pids[r] = fork();
        assert_int_not_equal(pids[r], -1);
        if (pids[r] == 0) {
            alarm(30);
            _exit(open_one(pair, r));
        }
    }
    return both_end(pids);
}

/* First, while this process has no threads of UCX. */
static void says_how_many_descriptors_it_needs(void **state)
{
    struct pair *pair = mmap(NULL, sizeof(*pair), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_ptr_not_equal(pair, MAP_FAILED);
    for (int limit = 13; limit <= 40; limit++)
        for (int h = 0; h < 2; h++) {
            int end = try_limit(pair, h ? apart : together, limit);

            if (end == 0)
                fail_msg("limit %d: aborted, or another error: %s", limit, pair->why);
            if (limit < 20)
                assert_int_equal(end, REFUSED);
            if (end == REFUSED && !strstr(pair->why, "raise the limit of descriptors (ulimit -n), which is"))
                fail_msg("limit %d: %s", limit, pair->why);
        }
    assert_int_equal(try_limit(pair, apart, 128), OPENED);
    munmap(pair, sizeof(*pair));
}

/* ---- what UCX holds ---- */

enum { small = 4096, many = 8 };

/* Small messages over TCP then go by rendezvous, before their receives are posted. */
static void open_for_rendezvous(struct bench *bench)
{
    setenv("RONDO_UCX_RNDV_THRESH", "1024", 1);
    bench_open_on(bench, "ucx", 2, apart, NULL);
    unsetenv("RONDO_UCX_RNDV_THRESH");
}

static void progress_one(struct bench *bench, int rank)
{
    for (int i = 0; i < 2000; i++)
        bench->ops->progress(bench->rank[rank]);
}

static void progress_both(struct bench *bench)
{
    for (int i = 0; i < 4000; i++)
        bench->ops->progress(bench->rank[i % 2]);
}

static void close_one(struct bench *bench, int rank, int64_t most_ns)
{
    int64_t start_ns = ri_now_ns();

    bench->ops->close(bench->rank[rank]);
    bench->rank[rank] = NULL;
    assert_true(ri_now_ns() - start_ns < most_ns);
}

/* Sends that nobody answers, or receives of which the sender has gone silent. */
static void post_stuck(struct bench *bench, struct ri_xfer *out, struct ri_xfer *in, char *memory, int receives)
{
    for (uint64_t i = 0; i < many; i++) {
        out[i] = bench_send(1, i, memory + i * small, small);
        in[i] = bench_receive(0, i, memory + (many + i) * small, small);
    }
    bench_post(bench, 0, out, many);
    progress_both(bench);
    if (receives)
        bench_post(bench, 1, in, many);
    progress_one(bench, 1);
    for (int i = 0; i < many; i++)
        assert_int_equal((receives ? in : out)[i].state, RI_XFER_POSTED);
}

static void give_up_stuck(int receives, int cancels)
{
    char *memory = bench_memory(2 * many * small);
    struct ri_xfer out[many], in[many], *all[many];
    struct bench bench;
    int64_t start_ns;

    open_for_rendezvous(&bench);
    post_stuck(&bench, out, in, memory, receives);
    for (int i = 0; i < many; i++)
        all[i] = receives ? &in[i] : &out[i];
    start_ns = ri_now_ns();
    if (cancels)
        bench.ops->cancel(bench.rank[receives], all, many);
    assert_true(ri_now_ns() - start_ns < 2 * second_ns);
    if (cancels && bench.ops->post(bench.rank[receives], all, 1) != RONDO_ERR_PEER)
        fail_msg("posted to a peer that was broken off: %s", rondo_last_error());
    close_one(&bench, receives, 3 * second_ns);
    for (int i = 0; i < many; i++)
        assert_int_equal(all[i]->state, RI_XFER_IDLE);
    memset(memory, 0, 2 * many * small);
    close_one(&bench, !receives, 3 * second_ns);
    free(memory);
}

static void gives_up_sends_under_way(void **state)
{
    (void)state;
    give_up_stuck(0, 1);
}

static void gives_up_receives_under_way(void **state)
{
    (void)state;
    give_up_stuck(1, 1);
}

static void closes_on_sends_under_way(void **state)
{
    (void)state;
    give_up_stuck(0, 0);
}

static void closes_on_receives_under_way(void **state)
{
    (void)state;
    give_up_stuck(1, 0);
}

/* What is DONE comes, though its sender closes at once. */
static void loses_nothing_that_is_done(void **state)
{
    const size_t bytes = 4 << 20;
    char *memory = bench_memory(2 * bytes);
    struct ri_xfer xfers[3] = { bench_receive(0, 1, memory, bytes), bench_send(1, 1, memory + bytes, bytes),
                                bench_send(1, 2, memory, small) };
    struct bench bench;

    (void)state;
    bench_fill(memory + bytes, bytes, 3);
    bench_open_on(&bench, "ucx", 2, apart, NULL);
    bench_post(&bench, 1, &xfers[0], 1);
    bench_post(&bench, 0, &xfers[1], 2);
    bench_run_done(&bench, &xfers[1], 1);
    close_one(&bench, 0, 3 * second_ns);
    bench_run_done(&bench, xfers, 1);
    assert_true(bench_filled(memory, bytes, 3));
    bench_close(&bench);
    free(memory);
}

static void closes_in_order_at_once(void **state)
{
    struct bench bench;
    int64_t start_ns;

    (void)state;
    bench_open_on(&bench, "ucx", 2, apart, NULL);
    start_ns = ri_now_ns();
    bench_close(&bench);
    assert_true(ri_now_ns() - start_ns < second_ns);
}

/* Plans reserve thousands of messages. */
static void keeps_little_of_a_message(void **state)
{
    struct bench bench;

    (void)state;
    bench_open_on(&bench, "ucx", 2, apart, NULL);
    assert_in_range(bench.rank[0]->message_bytes, 1, 128);
    bench_close(&bench);
}

/* ---- no memory to say that a receive is ready ---- */

static int refuses_empty; /* sends */

void *__real_ucp_tag_send_nbx(void *endpoint, const void *base, size_t count, uint64_t tag, const void *param);
void *__wrap_ucp_tag_send_nbx(void *endpoint, const void *base, size_t count, uint64_t tag, const void *param);

void *__wrap_ucp_tag_send_nbx(void *endpoint, const void *base, size_t count, uint64_t tag, const void *param)
{
    if (refuses_empty && count == 0)
        return (void *)(intptr_t)-4; /* UCS_ERR_NO_MEMORY */
    return __real_ucp_tag_send_nbx(endpoint, base, count, tag, param);
}

static void a_receive_that_cannot_say_so_fails(void **state)
{
    static const size_t sizes[2] = { small, 1 << 20 };
    char *memory = bench_memory(1 << 20);
    struct bench bench;

    (void)state;
    bench_open_on(&bench, "ucx", 2, apart, NULL);
    for (uint64_t i = 0; i < 2; i++) {
        struct ri_xfer in = bench_receive(0, i, memory, sizes[i]);

        refuses_empty = 1;
        bench_post(&bench, 1, &in, 1);
        refuses_empty = 0;
        bench_run(&bench, &in, 1);
        assert_int_equal(in.state, RI_XFER_FAILED);
        assert_int_equal(in.status, RONDO_ERR_TRANSPORT);
        assert_non_null(strstr(in.why, "from rank 0: Out of memory"));
    }
    bench_close(&bench);
    free(memory);
}

int main(void)
{
    setenv("RONDO_UCX_TLS", "tcp,sysv,posix,cma,self", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_how_many_descriptors_it_needs),
        cmocka_unit_test(gives_up_sends_under_way),
        cmocka_unit_test(gives_up_receives_under_way),
        cmocka_unit_test(closes_on_sends_under_way),
        cmocka_unit_test(closes_on_receives_under_way),
        cmocka_unit_test(loses_nothing_that_is_done),
        cmocka_unit_test(closes_in_order_at_once),
        cmocka_unit_test(keeps_little_of_a_message),
        cmocka_unit_test(a_receive_that_cannot_say_so_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
